package oauth_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

// The value that was sent is in the error's text for the log, shortened and in ASCII; the
// error for callers is unchanged.
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
		"com.example.app:/cb":          "com.example.app:/cb",
		"com.example.app:/cb?code=s":   "com.example.app:/cb?...",
		"com.example.app:/cb#token=s":  "com.example.app:/cb#...",
		"com.example.app:/cb?u=s@x":    "com.example.app:/cb?...",
		"urn:ietf:wg:oauth:2.0:oob":    "urn:ietf:wg:oauth:2.0:oob",
		"a.example/cb":                 "a.example/cb",
		"https:///cb":                  "https:///cb",
		"https://a.example:x/cb":       "https://a.example:x/cb",
		"https://a.example/cb\x1b":     "https://a.example/cb\x1b",
		"https://a.example/cb&code=s":  "https://a.example/cb&...",
		"https://a.example/@me/cb":     "https://a.example/@me/cb",
		"https%3A%2F%2Fa.b%2Fcb%3Fc=s": "https%3A%2F%2Fa.b%2Fcb%3F...",
		"https%3A%2F%2Fu%3As%40a.b":    "...@a.b",
		"https://u:s@a.example/cb":     "https://...@a.example/cb",
		"https://u:s@a.example/cb?c=s": "https://...@a.example/cb?...",
		"https:/u:s@a.example/cb":      "https://...@a.example/cb",
		"u:s@a.example/cb":             "(no URI)",
		"https://u:s%zz@a.example/cb":  "(no URI)",
		"https://u:p?s@a.example/cb":   "(no URI)",
		"s3cret":                       "(no URI)",
		"billing:S3cretFromEnv":        "(no URI)",
		"localhost:3000/cb":            "localhost:3000/cb",
		"s6Bh/Rkqt3Fjfp":               "(no URI)",
		"https://u:12/s@a.example/cb":  "https://...@a.example/cb",
		"":                             "(no URI)",
		"vscode://x.y/cb":              "vscode://x.y/cb",
	} {
		if got := oauth.LoggedURI(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
