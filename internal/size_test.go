package internal_test

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A budget is a part of the product with its maximal number of code lines. A feature
// raises it only in a commit that says what the lines bring.
type budget struct {
	name string
	max  int
}

// The budgets. A file belongs to the first one that fits: the public package, the
// operators' tools, and everything else, which serves requests.
var (
	library = budget{"resource", 1_472}
	tools   = budget{"tools of operators", 14_934}
	serving = budget{"serving", 47_696}
)

// notProduct are directories whose files do not count: examples, benchmarks, test kits,
// generators, and packages that only tests use.
var notProduct = []string{"examples", "packaging", "bench", "internal/conformance", "internal/e2e", "internal/testkit",
	"internal/cli/page", "internal/config/page", "internal/metrics/page", "internal/server/apidoc", "internal/store/postgres/pgtest", "internal/store/storetest"}

// operators are the packages of operators' commands. A file of another package belongs to
// them if its name begins like one of theirs.
var operators = []string{"audit", "backup", "cli", "doctor", "explain", "migratestore", "moving", "restore"}

func budgetOf(f goFile) budget {
	name, _, _ := strings.Cut(strings.TrimSuffix(path.Base(f.name), ".go"), "_")
	switch {
	case f.in("resource"):
		return library
	case slices.Contains(operators, path.Base(f.dir())), slices.Contains(operators, name):
		return tools
	}
	return serving
}

// TestBudgets limits the size of the product. A code line is a line of a Go file with
// anything but blanks and comments; each line of a multi-line string counts. Tests do not
// count. With -v, the test prints the size of each package in each budget.
func TestBudgets(t *testing.T) {
	code, _ := goFiles(t)
	rooms := map[budget]map[string]int{library: {}, tools: {}, serving: {}}
	for _, f := range code {
		if !f.in(notProduct...) {
			rooms[budgetOf(f)][f.dir()] += codeLines(f.text)
		}
	}
	for _, b := range []budget{library, tools, serving} {
		total := 0
		for _, name := range slices.Sorted(maps.Keys(rooms[b])) {
			t.Logf("%6d %s", rooms[b][name], name)
			total += rooms[b][name]
		}
		t.Logf("%6d of %d: %s", total, b.max, b.name)
		if total > b.max {
			t.Errorf("%s: %d code lines, of %d", b.name, total, b.max)
		}
	}
}

// maxMethods is the maximal number of a type's methods.
const maxMethods = 40

// No type may grow without limit. With -v, the test prints the largest ones.
func TestMethods(t *testing.T) {
	code, _ := goFiles(t)
	methods := map[string]int{}
	for _, f := range code {
		if f.in(notProduct...) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.name, f.text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[f.dir()+"."+receiver(fn)]++
			}
		}
	}
	types := slices.SortedFunc(maps.Keys(methods), func(a, b string) int { return methods[b] - methods[a] })
	for _, name := range types[:12] {
		t.Logf("%4d %s", methods[name], name)
		if methods[name] > maxMethods {
			t.Errorf("%s has %d methods, of %d", name, methods[name], maxMethods)
		}
	}
}

// receiver returns the name of a method's receiver type.
func receiver(fn *ast.FuncDecl) string {
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return "?"
}

// maxBorrowed is how often code outside of issuer may use the issuer's internal fields:
// code that needs the directory receives the directory itself.
const maxBorrowed = 0

// With -v, the test prints which files use the issuer's store, directory, realm, clock
// and policy.
func TestOtherPackagesDoNotUseTheIssuersFields(t *testing.T) {
	code, _ := goFiles(t)
	borrowed := regexp.MustCompile(`\b(?:[iI]ssuer|iss|is)\.(?:Store|Directory|Realm|Now|Policy)\b`)
	total := 0
	for _, f := range code {
		if n := len(borrowed.FindAll(f.text, -1)); n > 0 && !f.in("internal/issuer") && !f.in(notProduct...) {
			t.Logf("%4d %s", n, f.name)
			total += n
		}
	}
	t.Logf("%4d of %d", total, maxBorrowed)
	if total > maxBorrowed {
		t.Errorf("the issuer's own is used %d times outside of it, of %d", total, maxBorrowed)
	}
}

// codeLines counts the lines that contain a token.
func codeLines(text []byte) int {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0) // without comments
	lines := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue // a semicolon that the scanner has inserted at the end of a line
		}
		first := file.Line(pos)
		for n := range 1 + strings.Count(lit, "\n") {
			lines[first+n] = true
		}
	}
}

func TestCodeLines(t *testing.T) {
	const text = "package a // one\n\n// none\nvar x = `two\nthree\n` // four\n/* none\n*/\nfunc f() {\n\n}\n"
	if n := codeLines([]byte(text)); n != 6 {
		t.Errorf("%d code lines, want 6", n)
	}
}
