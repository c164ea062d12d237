package conformance_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	gotypes "go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/conformance"
)

func TestTableIsCurrent(t *testing.T) {
	const root = "../.."
	tests, err := conformance.Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range conformance.Missing(tests) {
		t.Error(fault)
	}
	page, err := os.ReadFile(filepath.Join(root, conformance.Page))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != conformance.Write(tests) {
		t.Errorf("%s is stale: go run ./internal/conformance/table", conformance.Page)
	}
}

// A mutation whose old text no longer exists proves nothing, and one that does not
// compile would stop the whole run.
func TestMutationsApply(t *testing.T) {
	const root = "../.."
	declarations, err := conformance.Declarations(root)
	if err != nil {
		t.Fatal(err)
	}
	program := listProgram(t, root)
	for _, m := range conformance.Mutations {
		file, broken, err := m.Apply(root, declarations)
		if err != nil {
			t.Error(err)
		} else if strings.HasSuffix(file, ".go") {
			if err := program.check(filepath.Join(root, file), broken); err != nil {
				t.Errorf("mutation %q: %v", m.Name, err)
			}
		}
	}
}

// A mutation cannot be noticed if no test has the name that it expects: go test accepts a
// pattern that matches nothing.
func TestTheTestsOfMutationsExist(t *testing.T) {
	const root = "../.."
	declared := regexp.MustCompile(`(?m)^func Test\w*\(`)
	for _, m := range conformance.Mutations {
		command, patterns, _ := strings.Cut(m.Test, " -run ")
		files, err := filepath.Glob(filepath.Join(root, strings.TrimPrefix(command, "go test "), "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("mutation %q: no tests at %s, %v", m.Name, command, err)
		}
		for pattern := range strings.SplitSeq(patterns, "|") {
			selected := regexp.MustCompile(strings.Split(pattern, "/")[0])
			if !slices.ContainsFunc(files, func(file string) bool {
				text, err := os.ReadFile(file)
				return err == nil && slices.ContainsFunc(declared.FindAll(text, -1), func(f []byte) bool {
					return selected.Match(f[len("func ") : len(f)-1])
				})
			}) {
				t.Errorf("mutation %q: no test matches %s", m.Name, pattern)
			}
		}
	}
}

// A program is the parsed files of each package, by directory, and the compiler's export
// data of each package.
type program struct {
	files, exports map[string]string
	parsed         map[string]*ast.File // unchanged
	set            *token.FileSet
	importer       gotypes.Importer
}

func listProgram(t *testing.T, root string) *program {
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{files: map[string]string{}, exports: map[string]string{}, parsed: map[string]*ast.File{}, set: token.NewFileSet()}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		p.exports[fields[0]], p.files[fields[2]] = fields[1], fields[3]
	}
	p.importer = importer.ForCompiler(p.set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(p.exports[path]) })
	return p
}

// check returns an error if a file's package does not compile with this content of the
// file.
func (p *program) check(file string, content []byte) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	dir := filepath.Dir(file)
	changed, err := parser.ParseFile(p.set, file, content, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	parsed := []*ast.File{changed}
	for _, name := range strings.Fields(p.files[dir]) {
		name = filepath.Join(dir, name)
		if p.parsed[name] == nil {
			if p.parsed[name], err = parser.ParseFile(p.set, name, nil, parser.SkipObjectResolution); err != nil {
				return err
			}
		}
		if name != file {
			parsed = append(parsed, p.parsed[name])
		}
	}
	_, err = (&gotypes.Config{Importer: p.importer}).Check(dir, p.set, parsed, nil)
	return err
}
