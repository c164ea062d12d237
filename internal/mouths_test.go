package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// oneMouth are the use cases that only one of the command line and the admin API
// calls, with the reason.
var oneMouth = map[string]string{
	"ApplyClient": "API only: PUT replaces a client, and creates it where there is none; commands change single settings (UpdateClient)",
	"ApplyAPI":    "API only: as ApplyClient",
	"Cutoffs":     "API only: commands show the cutoffs of a subject or a client among its events, and the state of each grant",

	"UpdateAPI":    "CLI only: as UpdateClient",
	"UpdateClient": "CLI only: the API replaces all settings at once (ApplyClient)",
	"KeyRecords":   "CLI only: a part of RewrapKeys",
	"RewrapKeys":   "CLI only: kek rotate replaces a file of the machine, between two steps of which operators copy it",
	"ImportUsers":  "CLI only: programs create users one by one, with password_hash (CreateUser)",
	"Merge":        "CLI only: a restore replaces the file of the store, while no server runs",
}

// The command line and the admin API offer the same use cases: what one can do,
// the other can.
func TestEveryUseCaseIsACommandAndAnEndpoint(t *testing.T) {
	code, _ := goFiles(t)
	var cases []string
	commands, endpoints := map[string]bool{}, map[string]bool{}
	for _, f := range code {
		switch f.dir() {
		case "internal/admin":
			cases = append(cases, useCases(t, f.text)...)
		case "internal/cli": // a is a *session, which embeds admin.Admin; Ended are what a restore ends again
			maps.Copy(commands, calls(t, f.text, "a", "Ended"))
		case "internal/server/admin": // u is an *admin.Admin, in every action
			maps.Copy(endpoints, calls(t, f.text, "u"))
		}
	}
	if len(cases) < 25 {
		t.Fatalf("only %d use cases were found", len(cases))
	}
	for _, name := range cases {
		reason := oneMouth[name]
		switch {
		case commands[name] && endpoints[name] && reason != "":
			t.Errorf("%s is a command and an endpoint: it needs no exception", name)
		case !commands[name] && !strings.HasPrefix(reason, "API only: "):
			t.Errorf("no command calls the use case %s", name)
		case !endpoints[name] && !strings.HasPrefix(reason, "CLI only: "):
			t.Errorf("no endpoint calls the use case %s", name)
		}
	}
	for name := range oneMouth {
		if !slices.Contains(cases, name) {
			t.Errorf("the exception %s is no use case", name)
		}
	}
}

// useCases returns the exported functions and methods that take a context: those
// that reach the store.
func useCases(t *testing.T, text []byte) (names []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !f.Name.IsExported() || len(f.Type.Params.List) == 0 {
			continue
		}
		if s, ok := f.Type.Params.List[0].Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Context" {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

// calls returns the methods that are called on variables or fields with one of the
// names.
func calls(t *testing.T, text []byte, receivers ...string) map[string]bool {
	file, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name := ""
		switch on := method.X.(type) {
		case *ast.Ident:
			name = on.Name
		case *ast.SelectorExpr:
			name = on.Sel.Name
		}
		if slices.Contains(receivers, name) {
			found[method.Sel.Name] = true
		}
		return true
	})
	return found
}

func TestUseCasesAndTheirCallsAreFound(t *testing.T) {
	const text = `package p
func (a *Admin) Do(ctx context.Context, name string) error { return nil }
func (a *Admin) undo(ctx context.Context) {}
func View(name string) {}
func f() { u.Do(ctx, ""); u.x.View(""); v.Undo(); g := p.ended.Merge }
func h() { p.ended.Merge(ctx) }
`
	if got := useCases(t, []byte(text)); !slices.Equal(got, []string{"Do"}) {
		t.Errorf("use cases: %v", got)
	}
	if got := slices.Sorted(maps.Keys(calls(t, []byte(text), "u", "ended"))); !slices.Equal(got, []string{"Do", "Merge"}) {
		t.Errorf("calls: %v", got)
	}
}
