package resource_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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

// The first Go block of a page must equal the example's code, so that readers copy code
// that was compiled and run.
func TestPageShowsTheExample(t *testing.T) {
	pageShows(t, "../docs/how-to/go-api.md", "example_test.go", 3)
	pageShows(t, "../docs/how-to/mcp.md", "example_agents_test.go", 1)
	pageShows(t, "../docs/how-to/step-up.md", "example_login_test.go", 3)
}

// The page's commands that add the package to a module work with a checkout, without a
// published module.
func TestThePackageCanBeUsedFromACheckout(t *testing.T) {
	page := string(must(os.ReadFile("../docs/how-to/go-api.md")))
	_, block, found := strings.Cut(page, "```sh\ngit clone https://github.com/mintage/mintage ../mintage\n")
	block, _, _ = strings.Cut(block, "```")
	if !found {
		t.Fatal("the page has no such commands")
	}
	dir := t.TempDir()
	const program = `package main

import "github.com/mintage/mintage/resource"

func main() { _, _ = resource.New(resource.Config{}) }
`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	checkout := must(filepath.Abs(".."))
	cmd := exec.Command("sh", "-euc", "go mod init example.com/api\n"+strings.ReplaceAll(block, "../mintage", checkout)+"go vet .")
	cmd.Dir = dir
	// The module's dependencies are in the cache, because this test was compiled with
	// them. With cgo, which the race detector needs, or with other flags, the standard
	// library would be compiled again. No proxy answers: a real one would refuse this
	// module, which is not published.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOPROXY=http://127.0.0.1:1", "GOSUMDB=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
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
