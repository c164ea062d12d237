// Package conformance contains the catalogue of protocol rules and the tests named after
// its rows, which use real HTTPS and a real store. The command table writes
// docs/reference/conformance.md, and the command mutate breaks the program on purpose.
package conformance

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Page is the generated page, relative to the repository's root.
const Page = "docs/reference/conformance.md"

// Tests finds the tests of the repository at root. For each row, and for each name in a
// row's By, it returns the functions that cover it with their files. A test is named
// after one row or several: TestTC19_..., TestTC14_TC16_...
func Tests(root string) (byRow map[string][]string, err error) {
	byRow = map[string][]string{}
	for _, dir := range []string{"bench", "internal", "cmd", "resource"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			where, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok || f.Recv != nil {
					continue
				}
				for _, row := range rowsOf(f.Name.Name) {
					byRow[row] = append(byRow[row], fmt.Sprintf("`%s` (%s)", f.Name.Name, filepath.ToSlash(where)))
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, tests := range byRow {
		slices.Sort(tests)
	}
	return byRow, nil
}

var testName = regexp.MustCompile(`^(?:Test|Fuzz)((?:[A-Z]{2}[0-9]{2}_)+)[A-Z]`)

// rowsOf returns the rows in a function's name, and those whose By contains the name.
func rowsOf(function string) (ids []string) {
	if m := testName.FindStringSubmatch(function); m != nil {
		for id := range strings.SplitSeq(strings.TrimSuffix(m[1], "_"), "_") {
			ids = append(ids, id[:2]+"-"+id[2:])
		}
	}
	for _, r := range Rows {
		if slices.Contains(r.By, function) {
			ids = append(ids, r.ID)
		}
	}
	for _, m := range Modules {
		if slices.Contains(m.By, function) {
			ids = append(ids, m.Name)
		}
	}
	return ids
}

// Missing lists the starred rows of this release without a test, and the rows in tests'
// names that do not exist.
func Missing(byRow map[string][]string) (faults []string) {
	known := map[string]bool{}
	for _, r := range Rows {
		if known[r.ID] {
			faults = append(faults, r.ID+" is there twice")
		}
		known[r.ID] = true
		if !slices.ContainsFunc(areas, func(a area) bool { return strings.HasPrefix(r.ID, a.prefix) }) {
			faults = append(faults, r.ID+" belongs to no area of the page")
		}
		if r.Source == "" {
			faults = append(faults, r.ID+" names no source")
		}
		if r.Star && r.Later == "" && len(byRow[r.ID]) == 0 {
			faults = append(faults, r.ID+" has no test: "+r.Title)
		}
		for _, name := range r.By {
			if !slices.ContainsFunc(byRow[r.ID], func(t string) bool { return strings.HasPrefix(t, "`"+name+"`") }) {
				faults = append(faults, r.ID+" names "+name+", which does not exist")
			}
		}
	}
	for _, m := range Modules {
		if known[m.Name] {
			faults = append(faults, m.Name+" is there twice")
		}
		known[m.Name] = true
		if len(byRow[m.Name]) != len(m.By) {
			faults = append(faults, fmt.Sprintf("%s names %v, of which %v exist", m.Name, m.By, byRow[m.Name]))
		}
		if len(m.By) == 0 && m.Reason == "" {
			faults = append(faults, m.Name+" has neither a test nor a reason")
		}
	}
	for id, tests := range byRow {
		if !known[id] {
			faults = append(faults, fmt.Sprintf("no row %s: %s", id, tests[0]))
		}
	}
	slices.Sort(faults)
	return faults
}

// An area is a part of the page: the rows whose ids begin with its prefix.
type area struct{ prefix, title string }

var areas = []area{
	{"AZ", "Authorization endpoint"},
	{"UI", "Pages of login and consent"},
	{"OC", "OpenID Connect"},
	{"RS", "APIs and resource indicators"},
	{"CM", "Clients that describe themselves"},
	{"DR", "Clients that register themselves"},
	{"LO", "Logout"},
	{"DP", "Proofs of keys (DPoP)"},
	{"PA", "Pushed authorization requests"},
	{"FA", "FAPI 2.0 Security Profile"},
	{"SU", "Step-up authentication"},
	{"TG", "Token endpoint: HTTP and parameters"},
	{"TC", "Token endpoint: authorization_code"},
	{"TR", "Token endpoint: refresh_token"},
	{"CC", "Token endpoint: client_credentials"},
	{"DV", "Devices"},
	{"TX", "Token exchange"},
	{"IG", "Identity assertions"},
	{"AG", "Assertions of other issuers"},
	{"CA", "Client authentication"},
	{"PK", "Client authentication by assertions"},
	{"IN", "Introspection"},
	{"CL", "Claims and userinfo"},
	{"RV", "Revocation"},
	{"TK", "Codes and tokens"},
	{"MD", "Metadata and keys"},
	{"TL", "TLS and HTTP"},
	{"OP", "Operation"},
}

// Write returns the text of the page.
func Write(byRow map[string][]string) string {
	var b strings.Builder
	b.WriteString(`# Conformance

<!-- Generated by: go run ./internal/conformance/table -->

Each row is a rule from the OAuth RFCs, the OpenID Foundation's and OAuch's suites, or from what has gone wrong in other servers. A test is
named after the rows that it covers. A star marks the rows that matter most; a test fails if one of those in this release has no test.

Beside the rows, two tests walk the whole table of the token endpoint's answers (steps H1 to E2 of [the reference](token-endpoint.md)):
status, complete header set and exact body of each, then whether the code or token still works; and that answers inside a group are
byte-identical. They are ` + "`TestTG43_...` and `TestCA02_TC02_...`" + ` in internal/conformance. Steps about PoP keys are in the rows of DPoP.

`)
	covered, stars, starred := 0, 0, 0
	for _, r := range Rows {
		if len(byRow[r.ID]) > 0 {
			covered++
		}
		if r.Star && r.Later == "" {
			stars++
			if len(byRow[r.ID]) > 0 {
				starred++
			}
		}
	}
	fmt.Fprintf(&b, "%d of %d rows have tests; of the starred rows of this release, %d of %d.\n", covered, len(Rows), starred, stars)
	for _, area := range areas {
		fmt.Fprintf(&b, "\n## %s\n\n| row | rule | source | covered by |\n| --- | --- | --- | --- |\n", area.title)
		for _, r := range Rows {
			if !strings.HasPrefix(r.ID, area.prefix) {
				continue
			}
			star := ""
			if r.Star {
				star = " ★"
			}
			status := strings.Join(byRow[r.ID], "<br>")
			switch {
			case r.Later != "" && status != "":
				status += "<br>in part; complete with: " + r.Later
			case r.Later != "":
				status = "deferred: " + r.Later
			case status == "":
				status = "not yet"
			}
			fmt.Fprintf(&b, "| %s%s | %s | %s | %s |\n", r.ID, star, r.Title, r.Source, status)
		}
	}
	b.WriteString(`
## The OpenID Foundation's conformance suite

These are the modules of its plans that concern this server, and the tests here that make their requests and check what they check.
` + "`TestConformanceSuite` has a part with the name of each module that names it." + `

| plan | module | covered by |
| --- | --- | --- |
`)
	for _, m := range Modules {
		status := slices.Clone(byRow[m.Name])
		if m.Reason != "" {
			status = append(status, m.Reason)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.Plan, m.Name, strings.Join(status, "<br>"))
	}
	b.WriteString(`
## Mutations

A safety test that cannot fail protects nothing. Each of these changes breaks the program on purpose and must turn its test red;
` + "`go run ./internal/conformance/mutate`" + ` (part of ` + "`make soak`" + `) tries each of them in a copy of the tree.

| change | in | must fail |
| --- | --- | --- |
`)
	for _, m := range Mutations {
		fmt.Fprintf(&b, "| %s | %s | `%s` |\n", m.Name, m.In, m.Test)
	}
	return b.String()
}
