package oauth_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// toldErrors returns the errors of error.go and logout.go, as code and description.
func toldErrors(t *testing.T) map[[2]string]bool {
	t.Helper()
	codes, errors := map[string]string{}, map[[2]string]bool{}
	text := func(e ast.Expr) string {
		s, err := strconv.Unquote(e.(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, name := range []string{"error.go", "logout.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if kind, ok := n.Type.(*ast.Ident); ok && kind.Name == "ErrorCode" {
					codes[n.Names[0].Name] = text(n.Values[0])
				}
			case *ast.CompositeLit:
				if kind, ok := n.Type.(*ast.Ident); ok && kind.Name == "Error" && len(n.Elts) == 2 {
					errors[[2]string{codes[n.Elts[0].(*ast.Ident).Name], text(n.Elts[1])}] = true
				}
			}
			return true
		})
	}
	if len(codes) < 20 || len(errors) < 45 {
		t.Fatalf("%d codes and %d errors were found: this test does not see them any more", len(codes), len(errors))
	}
	return errors
}

func TestThePageOfErrorsHasThemAllAndNoOther(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	code, onPage := "", map[[2]string]bool{}
	for line := range strings.SplitSeq(string(page), "\n") {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			code = name
		}
		if m := row.FindStringSubmatch(line); m != nil && m[1] != "description" {
			what := [2]string{code, m[1]}
			if onPage[what] {
				t.Errorf("%s, %q is there twice", code, m[1])
			}
			onPage[what] = true
		}
	}
	told := toldErrors(t)
	for what := range told {
		if !onPage[what] {
			t.Errorf("%s, %q is not on the page", what[0], what[1])
		}
	}
	for what := range onPage {
		if !told[what] {
			t.Errorf("%s, %q is on the page, but is never sent", what[0], what[1])
		}
	}
}
