package console

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// values are texts that the templates translate through a variable.
var values = []string{"enabled", "disabled", "admin", "auditor", "active", "expired", "clients", "operators", "tokens of the admin API", "invitation", "password and code", "login", "requests", "refreshes", "logins", "hour", "day", "week"}

// Every text of the templates has a translation with the same verbs, and there is no
// unused translation.
func TestEveryTextIsTranslated(t *testing.T) {
	used := map[string]bool{}
	for _, text := range values {
		used[text] = true
	}
	for _, q := range questions {
		for _, text := range []string{q.Heading, q.Note, q.Button} {
			used[text] = true
		}
	}
	names, err := fs.Glob(sources, "templates/*.html")
	if err != nil || len(names) < 3 {
		t.Fatalf("%d templates, %v", len(names), err)
	}
	said := regexp.MustCompile(`[{(]t "([^"]*)"`)
	for _, name := range names {
		text, err := fs.ReadFile(sources, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range said.FindAllStringSubmatch(string(text), -1) {
			used[m[1]] = true
		}
	}
	ja := locales()["ja"]
	for text := range used {
		if own := ja[text]; own == "" || strings.Count(own, "%d") != strings.Count(text, "%d") {
			t.Errorf("%q is %q in Japanese", text, own)
		}
	}
	for text := range ja {
		if !used[text] {
			t.Errorf("%q is translated, and no template says it", text)
		}
	}
}
