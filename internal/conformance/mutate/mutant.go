package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"

	"github.com/mintage/mintage/internal/conformance"
)

const (
	killed   = "killed"
	survived = "SURVIVED"
	invalid  = "INVALID" // it did not compile, or its test ended without a result
)

// A mutant is a mutation applied to a file.
type mutant struct {
	id           string
	name         string
	file         string // relative to the root
	declared     string // the file's package name
	broken       []byte // the whole mutated file
	pkg, pattern string // of the test
	verdict      string

	// If the mutation is in a function's body: the offset of that body in the file, and
	// the mutated body.
	at   int
	body string
}

func newMutant(id string, m conformance.Mutation, declarations map[string][]conformance.Declaration) (*mutant, error) {
	file, broken, err := m.Apply(".", declarations)
	if err != nil {
		return nil, err
	}
	x := &mutant{id: id, name: m.Name, file: file, broken: broken, pattern: "."}
	switch args := strings.Fields(strings.TrimPrefix(m.Test, "go test ")); {
	case len(args) == 3 && args[1] == "-run":
		x.pkg, x.pattern = args[0], args[2]
	case len(args) == 1:
		x.pkg = args[0]
	default:
		return nil, fmt.Errorf("mutation %q: %q is not \"go test PACKAGE\" or \"go test PACKAGE -run PATTERN\"", m.Name, m.Test)
	}
	if !strings.HasSuffix(file, ".go") {
		return x, nil
	}
	return x, x.findBody()
}

// findBody sets at and body if the mutation is in a function's body that can be placed
// beside the original one. It cannot with a label, which must be unique in a function.
func (m *mutant) findBody() error {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, m.file, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	m.declared = parsed.Name.Name
	least := min(len(source), len(m.broken))
	first, last := 0, 0 // the number of equal bytes before and after the change
	for first < least && source[first] == m.broken[first] {
		first++
	}
	for last < least-first && source[len(source)-1-last] == m.broken[len(m.broken)-1-last] {
		last++
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		start, end := set.Position(f.Body.Lbrace).Offset+1, set.Position(f.Body.Rbrace).Offset
		if first < start || len(source)-last > end {
			continue
		}
		labels := false
		ast.Inspect(f, func(n ast.Node) bool {
			_, label := n.(*ast.LabeledStmt)
			labels = labels || label
			return true
		})
		if labels {
			return nil
		}
		m.at, m.body = start, string(m.broken[start:len(m.broken)-(len(source)-end)])
		if f.Type.Results == nil {
			m.body += "\nreturn\n"
		}
	}
	return nil
}

// selectable reports whether an environment variable can select the mutant. It cannot for
// the tests of ./internal, which read the source, and of ./internal/cli, which start the
// program with their own environment.
func (m *mutant) selectable() bool {
	return m.body != "" && m.pkg != "./internal" && m.pkg != "./internal/cli"
}

// judge interprets the test's output.
func (m *mutant) judge(out string, err error) {
	switch {
	case err == nil:
		m.verdict = survived
	case strings.Contains(out, "--- FAIL"):
		m.verdict = killed
	default:
		m.verdict = invalid
		out = strings.TrimSpace(out)
		fmt.Println(out[max(0, len(out)-4000):])
	}
	fmt.Printf("%-9s %s (%s %s)\n", m.verdict, m.name, m.pkg, m.pattern)
}
