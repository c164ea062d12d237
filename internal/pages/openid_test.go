package pages

import (
	"strings"
	"testing"
)

// A user reads what a client would learn in the user's own language.
func TestScopesOfOpenIDHaveTextsInEveryLanguage(t *testing.T) {
	t.Parallel()
	own := map[string]map[string]string{"email": {"en": "Write to you"}}
	set, err := New(Options{Scopes: own})
	if err != nil {
		t.Fatal(err)
	}
	for locale, texts := range map[string][]string{
		"en": {"Recognize your account", "See your profile, such as", "Write to you", "See your postal address", "See your phone number"},
		"ja": {"アカウントを識別する", "プロフィール", "Write to you", "住所を見る", "電話番号を見る"},
	} {
		scopes := []Scope{{Name: "openid"}, {Name: "profile"}, {Name: "email"}, {Name: "address"}, {Name: "phone"}}
		page, err := set.Render(locale, Consent{Interaction: "i", Client: "Shop", Host: "shop.example", Scopes: scopes})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range texts {
			if !strings.Contains(string(page), want) {
				t.Errorf("%s: the page does not say %q", locale, want)
			}
		}
		if strings.Contains(string(page), "See your email address") {
			t.Errorf("%s: the operator's text does not replace ours", locale)
		}
	}
}
