package pages_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/pages"
)

func TestLocaleIsTheFirstSupportedOfUILocalesThenAcceptLanguageThenTheDefault(t *testing.T) {
	for _, def := range []string{"en", "ja"} {
		s := newSet(t, pages.Options{Locale: def})
		for _, c := range []struct{ ui, accept, want string }{
			{"", "", def},
			{"ja", "en", "ja"},
			{"pt ja en", "en", "ja"},
			{"JA-jp", "en", "ja"},
			{"en-GB-oxendict", "ja", "en"},
			{"pt it", "ja", "ja"},
			{"pt", "it", def},
			{"fr-CA ja", "en", "fr"},
			{"", "de-AT,de;q=0.9,en;q=0.8", "de"},
			{"", "fr-CH, fr;q=0.9, en;q=0.8", "fr"},
			{"", "es-419,es;q=0.9", "es"},
			{"japanese", "", def},
			{"ja_JP", "", def},
			{"<script>", `"><script>`, def},
			{"", "ja", "ja"},
			{"", "pt-BR, pt;q=0.9, ja;q=0.8, en;q=0.7", "ja"},
			{"", "en;q=0.5,ja;q=0.9", "ja"},
			{"", "en;q=0.5, ja-JP ; q=0.9", "ja"},
			{"", "en;Q=0.9,ja;q=0.5", "en"},
			{"", "en,ja", "en"},
			{"", "ja,en", "ja"},
			{"", "ja;q=0,en;q=0", def},
			{"", "ja;q=2,en;q=0.1", "en"},
			{"", "ja;q=x,en;q=0.1", "en"},
			{"", "ja;q=NaN,en;q=0.1", "en"},
			{"", "ja;v=1,en;q=0.1", "en"},
			{"", "*", def},
			{"", "pt,*;q=0.5", def},
			{"", ",,;q=,ja", "ja"},
			{"", strings.Repeat("pt,", 100_000) + "ja", def},
		} {
			if got := s.Locale(c.ui, c.accept); got != c.want {
				t.Errorf("default %s: ui_locales %q, Accept-Language %.60q: %s, want %s", def, c.ui, c.accept, got, c.want)
			}
		}
	}
}

func TestAnUnknownLocaleIsTheDefault(t *testing.T) {
	s := newSet(t, pages.Options{Locale: "ja"})
	if lang := attr(elements(render(t, s, "pt", pages.SignedOut{}), "html")[0], "lang"); lang != "ja" {
		t.Errorf("lang is %s", lang)
	}
	if _, err := pages.New(pages.Options{Locale: "pt"}); err == nil || !strings.Contains(err.Error(), `"pt"`) {
		t.Errorf("a default without texts: %v", err)
	}
}

// An instant names its time zone, so that users can compare it with a log or a clock.
func TestInstantsNameTheirZone(t *testing.T) {
	at := time.Date(2026, 11, 25, 3, 0, 0, 0, time.FixedZone("east", 9*3600))
	if text := string(pages.Time(at)); text != `<time datetime="2026-11-24T18:00:00Z">24 Nov 2026, 18:00:00 UTC</time>` {
		t.Error(text)
	}
}

// Descriptions of errors are in English on every page, and a screen reader has to know that
// (WCAG 2.2, 3.1.2).
func TestTheDetailOfAnErrorIsEnglish(t *testing.T) {
	s := newSet(t, pages.Options{})
	for _, page := range []any{pages.Message{Key: pages.BadRequest, Code: "invalid_request", Detail: "scope not allowed"}, pages.Bounce{Code: "invalid_scope", Detail: "scope not allowed"}} {
		root, marked := render(t, s, "ja", page), false
		for _, n := range elements(root, "bdi") {
			marked = marked || attr(n, "lang") == "en" && textOf(n) == "scope not allowed"
		}
		if !marked {
			t.Errorf("%T: the detail is not marked as English", page)
		}
	}
}
