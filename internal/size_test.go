package internal_test

import (
	"go/scanner"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// maxProduct is the size of the product in code lines, rounded up. Lower it
// with each cut; the target is 30,000 without OpenID Connect, APIs and agents.
const maxProduct = 45_200

// notProduct are directories, with all below them, that the size does not count:
// examples, benchmarks, test kits, generators, and what tests alone use.
var notProduct = []string{"examples", "packaging", "bench", "internal/conformance", "internal/e2e", "internal/testkit",
	"internal/cli/page", "internal/config/page", "internal/metrics/page", "internal/server/apidoc", "internal/store/postgres/pgtest", "internal/store/storetest"}

// The size of the product does not grow unseen. A code line is a line of a Go
// file with anything but blanks and comments on it: a line of a multi-line string
// counts, a line with a comment behind code counts once. Tests do not count.
func TestCeiling(t *testing.T) {
	code, _ := goFiles(t)
	rooms := map[string]int{}
	total := 0
	for _, f := range code {
		if f.in(notProduct...) {
			continue
		}
		n := codeLines(f.text)
		rooms[f.dir()] += n
		total += n
	}
	var names []string
	for name := range rooms {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Logf("%6d %s", rooms[name], name)
	}
	t.Logf("%6d in all", total)
	if total > maxProduct {
		t.Errorf("the product has %d code lines, and should have at most %d", total, maxProduct)
	}
}

// codeLines counts the lines on which a token stands.
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
			continue // inserted at the end of a line
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
