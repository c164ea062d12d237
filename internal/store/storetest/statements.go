package storetest

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Statements returns every constant string that sql matches, by its position, in the
// files of package store and of an engine's package below it. The test must run in
// the directory of the engine's package.
func Statements(t *testing.T, sql *regexp.Regexp) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	shared, sharedErr := filepath.Glob("../*.go")
	if err := errors.Join(err, sharedErr); err != nil {
		t.Fatal(err)
	}
	positions := token.NewFileSet()
	var files []*ast.File
	constants := map[string]ast.Expr{}
	for _, name := range append(names, shared...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(positions, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for i, value := range spec.Values {
					constants[spec.Names[i].Name] = value
				}
			}
			return true
		})
	}
	texts := map[string]string{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := fold(e, constants)
			if ok && sql.MatchString(text) {
				texts[positions.Position(e.Pos()).String()] = text
			}
			return !ok
		})
	}
	return texts
}

// fold returns the value of a constant string expression.
func fold(e ast.Expr, constants map[string]ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.ParenExpr:
		return fold(e.X, constants)
	case *ast.BinaryExpr:
		x, okX := fold(e.X, constants)
		y, okY := fold(e.Y, constants)
		return x + y, e.Op == token.ADD && okX && okY
	case *ast.SelectorExpr: // of package store
		return fold(e.Sel, constants)
	case *ast.Ident:
		if value := constants[e.Name]; value != nil {
			return fold(value, constants)
		}
	}
	return "", false
}
