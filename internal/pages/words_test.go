package pages_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/pages"
)

// TestWordsOfTheConsentPage: Set.Words returns the texts of the consent page in its order,
// in each language, with names as plain text.
func TestWordsOfTheConsentPage(t *testing.T) {
	set, err := pages.New(pages.Options{})
	if err != nil {
		t.Fatal(err)
	}
	view := pages.Consent{Client: "<b>Shop</b>", Host: "shop.example", Username: "alice", Scopes: []pages.Scope{{Name: "read", Texts: map[string]string{"en": "See > 1 \"order\"", "ja": "注文を見る"}}, {Name: "plain"}}}
	words, err := set.Words("en", view)
	want := []pages.Word{
		{Kind: "heading", Text: "Allow <b>Shop</b> to access your account?"}, {Kind: "text", Text: "<b>Shop</b> asks for permission to:"},
		{Kind: "item", Text: `See > 1 "order"`}, {Kind: "item", Text: "plain"}, {Kind: "button", Text: "Deny"}, {Kind: "button", Text: "Allow"},
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		i := slices.Index(words, w)
		if i < 0 {
			t.Errorf("%v is not among, or not in its order: %v", w, words)
			continue
		}
		words = words[i+1:]
	}
	for _, locale := range pages.Locales {
		words, err := set.Words(locale, view)
		if err != nil || len(words) < 7 || words[0].Kind != "heading" || locale == "ja" && !slices.Contains(words, pages.Word{Kind: "item", Text: "注文を見る"}) {
			t.Errorf("%s: %v, %v", locale, words, err)
		}
		for _, w := range words {
			if strings.Contains(w.Text, "&lt;") || strings.Contains(w.Text, "</") && !strings.Contains(w.Text, "</b>") {
				t.Errorf("%s: %q is markup", locale, w.Text)
			}
		}
	}
}
