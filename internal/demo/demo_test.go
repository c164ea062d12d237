package demo

import (
	"encoding/base64"
	"strings"
	"testing"
)

// The page shows only the beginning of long values in requests and responses.
func TestLongValuesAreShownByTheirBeginning(t *testing.T) {
	long := strings.Repeat("a1_-.", 20)
	if got := longValue().ReplaceAllString(`{"token": "`+long+`", "scope": "openid profile email read write and more than that many characters"}`, `"$1…"`); strings.Contains(got, long) ||
		!strings.Contains(got, `"`+long[:28]+`…"`) || !strings.Contains(got, "more than that many characters") {
		t.Error(got)
	}
	for value, want := range map[string]string{long: long[:28] + "…", "short": "short", "https://" + long: "https://" + long} {
		if got := (field{value: value}).Shown(); got != want {
			t.Errorf("%q is shown as %q", value, got)
		}
	}
}

func TestProgressNamesOneStep(t *testing.T) {
	for at, want := range map[stage]string{
		atStart: "[Sign in] Code Tokens Refresh Repeat Replay", atPair: "Sign in* Code* [Tokens] Refresh Repeat Replay",
		atOlder: "Sign in* Code* Tokens* Refresh* [Repeat] Replay", atMistaken: "Sign in Code Tokens Refresh Repeat Replay",
	} {
		var words []string
		for _, p := range (page{Stage: at}).Progress() {
			word := p.Name
			if p.Done {
				word += "*"
			}
			if p.Current {
				word = "[" + word + "]"
			}
			words = append(words, word)
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}

func TestClaimsOfWhatIsNoToken(t *testing.T) {
	for _, text := range []string{"", "a.b", "a.!.c", "a." + base64.RawURLEncoding.EncodeToString([]byte("[")) + ".c"} {
		if got := claimsOf(text); got != "" {
			t.Errorf("%q has claims: %s", text, got)
		}
	}
}
