package conformance_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/conformance"
)

func TestOP22_EveryChoiceIsDocumentedAndTested(t *testing.T) {
	const root = "../.."
	tests, err := conformance.Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(root + "/docs/reference/choices.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| ([A-Z]{2}-[0-9]{2}) \| ([^|]+) \| ([^|]+) \| ([^|]*) \| ([^|]*) \|$`)
	onPage := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		onPage[m[1]] = m
	}
	choices := 0
	for _, r := range conformance.Rows {
		m := onPage[r.ID]
		delete(onPage, r.ID)
		switch {
		case !r.Choice && m != nil:
			t.Errorf("the page contains %s, which is no documented choice", r.ID)
		case r.Choice && m == nil:
			t.Errorf("the page does not have %s: %s", r.ID, r.Title)
		}
		if !r.Choice || m == nil {
			continue
		}
		choices++
		named := regexp.MustCompile("`(Test[^`]+)`").FindAllStringSubmatch(m[5], -1)
		if r.Later == "" && (len(named) == 0 || strings.TrimSpace(m[4]) == "") {
			t.Errorf("%s: the page names no test, or no reason", r.ID)
		}
		for _, name := range named {
			if !slices.ContainsFunc(tests[r.ID], func(have string) bool { return strings.HasPrefix(have, "`"+name[1]+"`") }) {
				t.Errorf("%s: %s is no test of it", r.ID, name[1])
			}
		}
	}
	for id := range onPage {
		t.Errorf("the page contains %s, which is no row", id)
	}
	if choices < 13 {
		t.Errorf("%d choices were compared", choices)
	}
}

// The page on threats covers every section of RFC 9700, and names tests that exist.
func TestTheThreatModelCoversRFC9700(t *testing.T) {
	const root = "../.."
	tests, err := conformance.Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(root + "/docs/explanation/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := []string{"2.1", "2.1.1", "2.1.2", "2.2.1", "2.2.2", "2.3", "2.4", "2.5", "2.6"}
	for n := range 17 {
		sections = append(sections, fmt.Sprintf("4.%d", n+1))
	}
	row := regexp.MustCompile(`(?m)^\| ([24]\.[0-9.]+) \| [^|]+ \| [^|]+ \| ([^|]+) \| [^|]*\|$`)
	var found []string
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		found = append(found, m[1])
		for id := range strings.SplitSeq(m[2], ", ") {
			if len(tests[id]) == 0 {
				t.Errorf("section %s rests on %s, which has no test", m[1], id)
			}
		}
	}
	if !slices.Equal(found, sections) {
		t.Errorf("the page has the sections %v, want %v", found, sections)
	}
}
