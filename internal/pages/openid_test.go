package pages

import (
	"strings"
	"testing"
)

// Users read the claims that a client would get in their own language.
func TestScopesOfOpenIDHaveTextsInEveryLanguage(t *testing.T) {
	t.Parallel()
	own := map[string]map[string]string{"email": {"en": "Write to you"}}
	set, err := New(Options{Scopes: own})
	if err != nil {
		t.Fatal(err)
	}
	for locale, texts := range map[string][]string{
		"en": {"Recognize your account", "See your profile, such as", "Write to you", "See your postal address", "See your phone number"},
		"de": {"Ihr Konto erkennen", "Ihr Profil sehen", "Write to you", "Ihre Postanschrift sehen", "Ihre Telefonnummer sehen"},
		"es": {"Reconocer su cuenta", "Ver su perfil", "Write to you", "Ver su dirección postal", "Ver su número de teléfono"},
		"fr": {"Reconnaître votre compte", "Voir votre profil", "Write to you", "Voir votre adresse postale", "Voir votre numéro de téléphone"},
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

// A missing text would be shown in another language.
func TestBuiltInScopesHaveATextInEachLanguage(t *testing.T) {
	t.Parallel()
	all, err := withOpenID(nil)
	if err != nil || len(all) < 24 {
		t.Fatal(len(all), err)
	}
	for scope, texts := range all {
		for _, locale := range Locales {
			if texts[locale] == "" {
				t.Errorf("%s has no text in %s", scope, locale)
			}
		}
	}
}
