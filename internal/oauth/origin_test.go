package oauth_test

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

func TestRedirectOriginIsThatOfTheBrowser(t *testing.T) {
	for uri, want := range map[string]string{
		"https://app.example/cb":            "https://app.example",
		"https://App.Example/cb?x=https://": "https://app.example",
		"https://app.example":               "https://app.example",
		"https://app.example?x":             "https://app.example",
		"https://app.example:443/cb":        "https://app.example",
		"https://app.example:/cb":           "https://app.example",
		"https://app.example:8443/cb":       "https://app.example:8443",
		"https://app.example:80/cb":         "https://app.example:80",
		"https://[2001:DB8::1]:8443/cb":     "https://[2001:db8::1]:8443",
		"https://127.0.0.1:8443/cb":         "https://127.0.0.1:8443",
		"http://127.0.0.1/cb":               "http://127.0.0.1:*",
		"http://127.0.0.1:1/cb":             "http://127.0.0.1:*",
		"http://127.0.0.1:80":               "http://127.0.0.1:*",
		"http://[::1]:3000/cb":              "http://[::1]:*",
		"com.example.app:/cb":               "",
		"com.example.app://host/cb":         "",
		"urn:ietf:wg:oauth:2.0:oob":         "",
		"https:///cb":                       "",
		"://":                               "",
	} {
		if got := oauth.RedirectOrigin(uri); got != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
}

// The Origin header of a browser at a redirect URI matches the registered origin exactly
// where the redirect URI itself matches.
func TestRedirectOriginAllowsThePortsThatTheRedirectAllows(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "[::1]", "localhost"} {
		for _, registered := range []string{"", ":3000"} {
			uri := "http://" + host + registered + "/cb"
			key := oauth.RedirectOrigin(uri)
			for _, port := range []string{"", ":3000", ":5173", ":65535"} {
				origin := "http://" + host + port
				found := key == origin || key == oauth.OriginOfAnyPort(origin)
				if accepted := oauth.MatchRedirectURI([]string{uri}, origin+"/cb"); found != accepted {
					t.Errorf("registered %s: origin %s found %t, its redirect URI accepted %t", uri, origin, found, accepted)
				}
			}
		}
	}
	for _, bad := range []string{"", "null", "https://localhost:1", "http://localhost:x", "http://localhost:1/", "http://localhost:", "http://localhost:0", "http://localhost:65536", "HTTP://localhost"} {
		if got := oauth.OriginOfAnyPort(bad); got != "" {
			t.Errorf("%q: %q", bad, got)
		}
	}
	if strings.Contains(oauth.OriginOfAnyPort("http://localhost:80"), "80") {
		t.Error("the port stays")
	}
}
