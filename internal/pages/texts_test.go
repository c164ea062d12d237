package pages_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/mintage/mintage/internal/pages"
)

// texts returns the texts of a locale by key.
func texts(t *testing.T, locale string) map[string]string {
	t.Helper()
	files, err := filepath.Glob("texts/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatal(len(files), err)
	}
	all := map[string]string{}
	for _, name := range files {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		byKey := map[string]map[string]string{}
		if err := yaml.Unmarshal(file, &byKey); err != nil {
			t.Fatal(name, err)
		}
		for key, byLocale := range byKey {
			switch text, ok := byLocale[locale]; {
			case !ok:
			case all[key] != "":
				t.Errorf("%s: another file has %s too", name, key)
			default:
				all[key] = text
			}
		}
	}
	return all
}

var placeholder = regexp.MustCompile(`\{[^}]*\}`)

func TestEveryLocaleSaysTheSameThings(t *testing.T) {
	want := texts(t, "en")
	for _, locale := range pages.Locales {
		got := texts(t, locale)
		if a, b := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)); !slices.Equal(a, b) {
			t.Errorf("%s: the keys differ from those of en: %s", locale, difference(a, b))
		}
		for key, text := range got {
			a, b := placeholder.FindAllString(want[key], -1), placeholder.FindAllString(text, -1)
			slices.Sort(a)
			slices.Sort(b)
			if !slices.Equal(a, b) {
				t.Errorf("%s: %s has the placeholders %s, and in en %s", locale, key, b, a)
			}
			if text != strings.TrimSpace(text) || text == "" || strings.ContainsAny(text, "<>&") {
				t.Errorf("%s: %s is %q", locale, key, text)
			}
		}
	}
}

func difference(a, b []string) string {
	only := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	}
	return fmt.Sprint(only(a, b), only(b, a))
}

// An untranslated text is recognized by its alphabet.
func TestJapaneseTextsAreJapanese(t *testing.T) {
	japanese := regexp.MustCompile(`[\p{Hiragana}\p{Katakana}\p{Han}]`)
	latin := regexp.MustCompile(`[A-Za-z]{2,}`)
	for key, text := range texts(t, "ja") {
		if !japanese.MatchString(text) {
			t.Errorf("%s is %q", key, text)
		}
		for _, word := range latin.FindAllString(placeholder.ReplaceAllString(text, ""), -1) {
			if word != "ID" && word != "Cookie" {
				t.Errorf("%s holds the word %s", key, word)
			}
		}
	}
	for key, text := range texts(t, "en") {
		if japanese.MatchString(text) {
			t.Errorf("en: %s is %q", key, text)
		}
	}
}

// Each language has its own punctuation, and addresses users formally.
func TestTextsFollowTheCustomsOfTheirLanguage(t *testing.T) {
	english := texts(t, "en")
	same := map[string]bool{"error_title": true} // Spanish also has "Error"
	for locale, not := range map[string]*regexp.Regexp{
		"de": regexp.MustCompile(`(?i)(^|\PL)(du|dein\w*|dir|dich|euch|sign|please|account)(\PL|$)|["']|\.\.\.|  `),
		"es": regexp.MustCompile(`(?i)(^|\PL)(tú|tu|tus|te|ti|vosotros|vuestr\w*|please|account)(\PL|$)|["']|\.\.\.|  |\?.+\?`),
		// A no-break space goes before two-part marks and within quotation marks.
		"fr": regexp.MustCompile(`(?i)(^|\PL)(tu|toi|ton|tes|please|account)(\PL|$)|["']|\.\.\.|  |[^\x{a0}][:;?!»]|«[^\x{a0}]`),
	} {
		for key, text := range texts(t, locale) {
			if at := not.FindString(text); at != "" {
				t.Errorf("%s: %s holds %q: %s", locale, key, at, text)
			}
			if text == english[key] && !same[key] {
				t.Errorf("%s: %s is still English: %s", locale, key, text)
			}
			if locale == "es" && strings.Count(text, "?") != strings.Count(text, "¿") {
				t.Errorf("es: a question begins with ¿: %s", text)
			}
		}
	}
}

func TestEveryTextIsUsed(t *testing.T) {
	// The heading of a page is its title; that of the consent page is another text.
	used := map[string]bool{"error_title": true, "consent.title": true, "consent_again.title": true}
	for _, key := range pages.MessageKeys() {
		used[string(key)+".title"], used[string(key)+".what"], used[string(key)+".next"] = true, true, true
	}
	// The page too_many says instead how long to wait.
	delete(used, "too_many.next")
	templates, err := filepath.Glob("templates/*.html")
	if err != nil || len(templates) < 10 {
		t.Fatal(len(templates), err)
	}
	text, wait := regexp.MustCompile(`\btext "([^"]+)"`), regexp.MustCompile(`\bwait "([^"]+)"`)
	for _, name := range templates {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range text.FindAllStringSubmatch(string(file), -1) {
			used[m[1]] = true
		}
		for _, m := range wait.FindAllStringSubmatch(string(file), -1) {
			used[m[1]+".later"], used[m[1]+".one"], used[m[1]+".many"] = true, true, true
		}
	}
	if a, b := slices.Sorted(maps.Keys(used)), slices.Sorted(maps.Keys(texts(t, "en"))); !slices.Equal(a, b) {
		t.Errorf("used and written texts differ: %s", difference(a, b))
	}
}

func TestMessagesSayWhatHappenedAndWhatToDo(t *testing.T) {
	s := newSet(t, pages.Options{})
	for _, locale := range pages.Locales {
		all := texts(t, locale)
		for _, key := range pages.MessageKeys() {
			main := textOf(elements(render(t, s, locale, pages.Message{Key: key, Code: "the_code", RequestID: "R1", RetryMinutes: 7}), "main")[0])
			wanted := []string{all[string(key)+".title"], all[string(key)+".what"], all[string(key)+".next"], "the_code", "R1"}
			if key == pages.TooMany {
				wanted[2] = "7"
			}
			for _, want := range wanted {
				if want == "" || !strings.Contains(main, want) {
					t.Errorf("%s, %s does not say %q", locale, key, want)
				}
			}
		}
	}
}
