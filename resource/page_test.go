package resource_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// exampleServer is the authorization server of the examples.
func exampleServer() (issuer string, client *http.Client, tokenFor func(subject, scope string) string) {
	s := newAuthServer()
	tokenFor = func(subject, scope string) string {
		return s.token(map[string]any{"sub": subject, "scope": scope, "exp": time.Now().Unix() + 300})
	}
	return s.issuer, &http.Client{Transport: s}, tokenFor
}

// The first block of Go of a page is its example, so that what readers paste is
// what was compiled and run.
func TestPageShowsTheExample(t *testing.T) {
	pageShows(t, "../docs/how-to/go-api.md", "example_test.go", 3)
	pageShows(t, "../docs/how-to/mcp.md", "example_agents_test.go", 1)
}

func pageShows(t *testing.T, page, example string, functions int) {
	t.Helper()
	text := string(must(os.ReadFile(example)))
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, example, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || strings.HasPrefix(f.Name.Name, "Example") {
			continue
		}
		from := f.Pos()
		if f.Doc != nil {
			from = f.Doc.Pos()
		}
		shown = append(shown, text[files.Position(from).Offset:files.Position(f.End()).Offset])
	}
	if len(shown) != functions {
		t.Fatalf("%s has %d functions besides the example", example, len(shown))
	}
	want := "```go\n" + strings.Join(shown, "\n\n") + "\n```\n"
	got := string(must(os.ReadFile(page)))
	if first := strings.Index(got, "```go\n"); first < 0 || !strings.HasPrefix(got[first:], want) {
		t.Errorf("the first block of Go in %s is not the code of %s, which is:\n%s", page, example, want)
	}
}
