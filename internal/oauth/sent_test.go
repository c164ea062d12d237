package oauth_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

// What was sent is in the error's text for the log, bounded and in ASCII; the error stays
// the one that callers are told.
func TestSentIsForTheLog(t *testing.T) {
	for value, want := range map[string]string{
		"https://a.example/cb":      `"https://a.example/cb"`,
		"a\nb\"\x1b[31m\u2028é\xff": `"a\nb\"\x1b[31m\u2028\u00e9\xff"`,
		strings.Repeat("x", 5000):   `"` + strings.Repeat("x", 120) + `..."`,
	} {
		err := oauth.Sent(oauth.ErrRedirectMismatch, value)
		var told *oauth.Error
		if err.Error() != oauth.ErrRedirectMismatch.Error()+": it was "+want || !errors.As(err, &told) || told != oauth.ErrRedirectMismatch {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestALoggedURIHasNoSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example/cb/x":       "https://a.example/cb/x",
		"https://a.example/cb?code=s":  "https://a.example/cb?...",
		"https://a.example/cb#token=s": "https://a.example/cb#...",
		"https://u:s@a.example/cb":     "(no URI with a host)",
		"s3cret":                       "(no URI with a host)",
		"app:s3cret":                   "(no URI with a host)",
		"":                             "(no URI with a host)",
		"vscode://x.y/cb":              "vscode://x.y/cb",
	} {
		if got := oauth.LoggedURI(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
