package pages_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/pages"
)

func TestScopesFileSaysWhatScopesMean(t *testing.T) {
	scopes, err := pages.ReadScopes(strings.NewReader(`
# comments are welcome
photos:read:
  en: see your photos
  ja: 写真の閲覧
https://api.example/orders: {en: "order prints: in your name"}
"1": {ja: 状態}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{
		"photos:read":                {"en": "see your photos", "ja": "写真の閲覧"},
		"https://api.example/orders": {"en": "order prints: in your name"},
		"1":                          {"ja": "状態"},
	}
	if !maps.EqualFunc(scopes, want, maps.Equal) {
		t.Errorf("read %v", scopes)
	}
	for _, empty := range []string{"", "# nothing yet\n"} {
		if scopes, err := pages.ReadScopes(strings.NewReader(empty)); err != nil || len(scopes) != 0 {
			t.Errorf("%q: %v %v", empty, scopes, err)
		}
	}
}

func TestAMistakeInTheScopesFileNamesItsLine(t *testing.T) {
	for text, want := range map[string][]string{
		"read: {en: x}\nread: {en: y}":   {"line 2", "read"},
		"read:\n  en: x\n  en: y":        {"line 3", "en"},
		"read:\n  pt: x":                 {"line 2", `"pt"`, "en, de, es, fr, ja"},
		"read: see photos":               {"line 1", "mapping"},
		"read:\n  en: [x]":               {"line 2", "text"},
		"read:\n  en:":                   {"line 2", "text"},
		"read:\n  en: '  '":              {"line 2", "text"},
		"read:":                          {"line 1", "mapping"},
		"read: {}":                       {"line 1", "read"},
		"- read":                         {"line 1", "mapping"},
		"a: {en: x}\n\"re ad\": {en: x}": {"line 2", "re ad"},
		"\"\": {en: x}":                  {"line 1", "not a scope"},
		"[a, b]: {en: x}":                {"line 1"},
		"a: &x {en: y}\nb: *x":           {"line 2"},
		"read:\n  en: \"two\\nlines\"":   {"line 2", "one line"},
		"read: {en: " + long + "}":       {"line 1", "255"},
		"a: {en: x}\n---\nb: {en: y}":    {"more than one document"},
		"a: {en: x\nb":                   {"L3."},
		"a:\n\ten: x":                    {"L2."},
	} {
		if scopes, err := pages.ReadScopes(strings.NewReader(text)); err == nil {
			t.Errorf("%.60q is read as %v", text, scopes)
		} else {
			for _, part := range want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%.60q: the error does not say %q: %v", text, part, err)
				}
			}
		}
	}
}

var long = strings.Repeat("x", 256)

func TestAScopeIsShownInTheLocaleElseInTheDefaultElseInAnyElseByName(t *testing.T) {
	s := newSet(t, pages.Options{Locale: "ja", Scopes: map[string]map[string]string{
		"both": {"en": "english", "ja": "日本語"}, "en": {"en": "english only"}, "ja": {"ja": "日本語のみ"},
	}})
	for _, c := range []struct{ locale, scope, want, lang string }{
		{"en", "both", "english", ""}, {"ja", "both", "日本語", ""},
		{"ja", "en", "english only", "en"}, {"en", "ja", "日本語のみ", "ja"}, {"en", "neither", "neither", ""},
		{"de", "api", "eins & <b>", ""}, {"ja", "api", "eins & <b>", "de"},
	} {
		of := pages.Scope{Name: c.scope}
		if c.scope == "api" {
			of.Texts = map[string]string{"de": "eins & <b>"}
		}
		root := render(t, s, c.locale, pages.Consent{Scopes: []pages.Scope{of}})
		items := elements(root, "li")
		if len(items) != 1 || textOf(items[0]) != c.want {
			t.Errorf("%s in %s: %d items, %q", c.scope, c.locale, len(items), textOf(items[0]))
		}
		// A screen reader has to know the language of each part (WCAG 2.2, 3.1.2).
		if lang := elements(items[0], "span"); len(lang) == 0 && c.lang != "" || len(lang) > 0 && attr(lang[0], "lang") != c.lang {
			t.Errorf("%s in %s is not marked as %q", c.scope, c.locale, c.lang)
		}
		if byName := len(elements(items[0], "code")) == 1; byName != (c.scope == "neither") {
			t.Errorf("%s: shown as a name: %t", c.scope, byName)
		}
	}
}
