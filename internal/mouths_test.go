package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"testing"
)

// noEndpoint are the use cases that the admin API does not offer, with the reason.
var noEndpoint = map[string]string{
	"Keys.Records": "a part of Rewrap",
	"Keys.Rewrap":  "kek rotate replaces a file of the machine, between two steps of which operators copy it",
	"Ended.Merge":  "a restore replaces the file of the store, while no server runs",
}

// The admin API offers all use cases, so that a command needs nothing else.
func TestEveryUseCaseIsAnEndpoint(t *testing.T) {
	code, _ := goFiles(t)
	var cases []string
	endpoints := map[string]bool{}
	for _, f := range code {
		switch f.dir() {
		case "internal/admin":
			cases = append(cases, useCases(t, f.text)...)
		case "internal/server/admin": // u is an *admin.Admin, in every action
			maps.Copy(endpoints, calls(t, f.text, "u"))
		}
	}
	if len(cases) < 25 {
		t.Fatalf("only %d use cases were found", len(cases))
	}
	for _, name := range cases {
		if endpoints[name] == (noEndpoint[name] != "") {
			t.Errorf("%s: an endpoint calls it: %t; the reason why none does: %q", name, endpoints[name], noEndpoint[name])
		}
	}
	for name := range noEndpoint {
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
			name := f.Name.Name
			if of := f.Recv; of != nil && receiver(f) != "Admin" {
				name = receiver(f) + "." + name
			}
			names = append(names, name)
		}
	}
	return names
}

// calls returns the methods that are called on variables or fields with one of the
// names, and on what a method of these returns.
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
		name, of := "", ""
		on := method.X
		if call, ok := on.(*ast.CallExpr); ok {
			if noun, ok := call.Fun.(*ast.SelectorExpr); ok {
				on, of = noun.X, noun.Sel.Name+"."
			}
		}
		switch on := on.(type) {
		case *ast.Ident:
			name = on.Name
		case *ast.SelectorExpr:
			name = on.Sel.Name
		}
		if slices.Contains(receivers, name) {
			found[of+method.Sel.Name] = true
		}
		return true
	})
	return found
}

func TestUseCasesAndTheirCallsAreFound(t *testing.T) {
	const text = `package p
func (a *Admin) Do(ctx context.Context, name string) error { return nil }
func (a *Admin) undo(ctx context.Context) {}
func (a Users) Read(ctx context.Context) {}
func View(name string) {}
func f() { u.Do(ctx, ""); u.x.View(""); v.Undo(); g := p.ended.Merge; u.Users().Read(ctx) }
func h() { p.ended.Merge(ctx) }
`
	if got := useCases(t, []byte(text)); !slices.Equal(got, []string{"Do", "Users.Read"}) {
		t.Errorf("use cases: %v", got)
	}
	if got := slices.Sorted(maps.Keys(calls(t, []byte(text), "u", "ended"))); !slices.Equal(got, []string{"Do", "Merge", "Users", "Users.Read"}) {
		t.Errorf("calls: %v", got)
	}
}
