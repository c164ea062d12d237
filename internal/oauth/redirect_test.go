package oauth_test

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/oauth"
)

func TestCheckRedirectURI(t *testing.T) {
	const (
		web    = 1 << iota // a web client may register it
		native             // a native client may
	)
	for _, tt := range []struct {
		uri string
		may int
	}{
		{"https://shop.example/cb", web | native},
		{"https://shop.example", web | native},
		{"https://shop.example:8443/cb?dummy1=lorem&dummy2=ipsum", web | native},
		{"https://xn--shp-rna.example/cb", web | native},
		{"https://shop.example/%C3%BC", web | native},
		{"https://[2001:db8::1]/cb", web | native},
		{"https://127.0.0.1/cb", web | native},
		{"https://shop.example/" + strings.Repeat("x", oauth.MaxRedirectURI-21), web | native},

		{"http://127.0.0.1/cb", native}, // RFC 8252 section 7.3
		{"http://127.0.0.1:8080/cb", native},
		{"http://[::1]/cb", native},
		{"http://[::1]:8080/cb?x=y", native},
		{"http://localhost/cb", native}, // RFC 8252 section 8.3: discouraged, and needed for development
		{"http://localhost:3000/cb", native},
		{"https://localhost:3000/cb", web | native},
		{"com.example.app:/cb", native}, // AZ-15, RFC 8252 section 7.1
		{"com.example.app://cb", native},

		{"http://shop.example/cb", 0}, // AZ-13
		{"http://localhost.evil.example/cb", 0},
		{"http://localhost./cb", 0},
		{"http://LOCALHOST/cb", 0},
		{"http://app.localhost/cb", 0},
		{"http://127.0.0.2/cb", 0},
		{"http://127.1/cb", 0},
		{"http://0x7f000001/cb", 0},
		{"http://2130706433/cb", 0},
		{"http://0.0.0.0/cb", 0},
		{"http://[::ffff:127.0.0.1]/cb", 0},
		{"http://[::1%25lo]/cb", 0},
		{"http://127.0.0.1.evil.example/cb", 0},
		{"http://127.0.0.1@evil.example/cb", 0},
		{"http://evil.example#127.0.0.1", 0},

		{"https://shop.example/cb#fragment", 0}, // AZ-12
		{"https://shop.example/cb#", 0},
		{"com.example.app:/cb#x", 0},

		{"javascript:alert(1)", 0}, // AZ-14
		{"data:text/html,x", 0},
		{"vbscript:x", 0},
		{"file:///etc/passwd", 0},
		{"blob:https://shop.example/x", 0},
		{"about:blank", 0},
		{"myapp:/cb", 0},

		{"https://user@shop.example/cb", 0},
		{"https://user:pass@shop.example/cb", 0},
		{"https://@shop.example/cb", 0},
		{"https:///cb", 0},
		{"https:cb", 0},
		{"https://:443/cb", 0},
		{"https://", 0},
		{"//shop.example/cb", 0},
		{"/cb", 0},
		{"cb", 0},
		{"", 0},
		{"https://*.shop.example/cb", 0},
		{"https://shop.example/*", 0},
		{"https://shop.example/a b", 0},
		{"https://shop.example/\n", 0},
		{"https://shop.example\\cb", 0},
		{"https://shöp.example/cb", 0},
		{"https://shop.example/\x7f", 0},
		{"https://shop.example/{id}", 0},
		{"https://shop.example/%zz", 0},
		{"https://shop.example:port/cb", 0},
		{"https://shop.example/" + strings.Repeat("x", oauth.MaxRedirectURI-20), 0},
	} {
		if err := oauth.CheckRedirectURI(tt.uri, false); (err == nil) != (tt.may&web != 0) {
			t.Errorf("web client registers %.60q: %v", tt.uri, err)
		}
		if err := oauth.CheckRedirectURI(tt.uri, true); (err == nil) != (tt.may&native != 0) {
			t.Errorf("native client registers %.60q: %v", tt.uri, err)
		}
	}
}

// AZ-03 to AZ-09: byte for byte (RFC 9700 section 2.1), for any kind of client.
func TestMatchRedirectURIIsByteForByte(t *testing.T) {
	registered := []string{"https://shop.example/cb", "https://shop.example/q?dummy1=lorem&dummy2=ipsum", "com.example.app:/cb"}
	for _, uri := range registered {
		if !oauth.MatchRedirectURI(registered, uri) {
			t.Errorf("%s is registered and not matched", uri)
		}
	}
	for _, uri := range []string{
		// AZ-03, AZ-04, AZ-06
		"https://evil.example/cb", "https://shop.example/", "https://shop.example", "https://shop.example/cb/Wrong",
		"https://shop.example/cbx", "https://shop.example/cb?extra=oauch", "https://shop.example/cb?code=attackercode",
		"https://shop.example/cb?", "https://shop.example/cb#", "https://shop.example/cb#x",
		// AZ-05
		"https://shop.example/q?dummy1=lorem", "https://shop.example/q?dummy2=ipsum&dummy1=lorem",
		"https://shop.example/q?dummy1=lorem&dummy2=ipsum&", "https://shop.example/q?dummy1=Lorem&dummy2=ipsum",
		// AZ-07, path confusion
		"https://shop.example/cb/FAKEPATH", "https://shop.example/cb%2FFAKEPATH", "https://shop.example/cb/..%2F",
		"https://shop.example/cb/%2e%2e%2F", "https://shop.example/cb/..%252F", "https://shop.example/cb/FAKEPATH/..",
		"https://shop.example/cb/;/../../", "https://shop.example/cb/%3B/..", "https://shop.example/cb%0A%0D/../..",
		"https://shop.example/cb/../cb", "https://shop.example/x/../cb", "https://shop.example/./cb", "https://shop.example//cb",
		"https://shop.example/cb/.", "https://shop.example/cb/..;/", "https://shop.example/cb%00", "https://shop.example/cb%20",
		"https://shop.example/cb%23", "https://shop.example/cb%3Fx", "https://shop.example/cb;x=y", "https://shop.example/cb\\..\\",
		"https://shop.example/cb%5C..%5C", "https://shop.example/cb/%2e%2e/cb",
		// AZ-08, normalisation
		"https://SHOP.example/cb", "HTTPS://shop.example/cb", "https://shop.example:443/cb", "https://shop.example/cb/",
		"https://shop.example/%63b", "https://user@shop.example/cb", "https://shop.example./cb", "https://shop.example/c\tb",
		"https://shop.example/cb\n", " https://shop.example/cb", "https://shop.example/cb ", "https://ѕhop.example/cb",
		"https://shop%2Eexample/cb", "https:/shop.example/cb", "https:\\\\shop.example\\cb", "http://shop.example/cb",
		// AZ-09, AZ-15
		"https://shop.example/Cb", "com.example.app:/cb2", "com.example.app://cb", "COM.example.app:/cb", "",
	} {
		if oauth.MatchRedirectURI(registered, uri) {
			t.Errorf("%q is not registered and matched", uri)
		}
	}
	if oauth.MatchRedirectURI(nil, "") || oauth.MatchRedirectURI(nil, "http://127.0.0.1/") {
		t.Error("something matches where nothing is registered")
	}
}

// AZ-10, AZ-11: for a loopback address only the port may differ (RFC 8252 section 7.3).
func TestMatchRedirectURILoopback(t *testing.T) {
	registered := []string{"http://127.0.0.1/cb", "http://[::1]:1234/cb?x=y", "https://127.0.0.1/tls"}
	for _, uri := range []string{
		"http://127.0.0.1/cb", "http://127.0.0.1:1/cb", "http://127.0.0.1:80/cb", "http://127.0.0.1:65535/cb",
		"http://[::1]:1234/cb?x=y", "http://[::1]/cb?x=y", "http://[::1]:4321/cb?x=y",
	} {
		if !oauth.MatchRedirectURI(registered, uri) {
			t.Errorf("%s is not matched", uri)
		}
	}
	for _, uri := range []string{
		"http://127.0.0.1:80/other", "http://127.0.0.1:80/cb?x=y", "http://127.0.0.1:80/cb/", "http://127.0.0.1:80/", "http://127.0.0.1:80",
		"http://127.0.0.1:80/Cb", "http://127.0.0.1:80/cb#", "http://127.0.0.1:80/%63b", "https://127.0.0.1:80/cb", "HTTP://127.0.0.1:80/cb",
		"https://127.0.0.1:80/tls", "http://localhost:80/cb", "http://localhost/cb", "http://127.0.0.1.evil.example/cb",
		"http://127.0.0.1.evil.example:80/cb", "http://127.0.0.1@evil.example/cb", "http://127.0.0.1:80@evil.example/cb",
		"http://127.0.0.1:@evil.example/cb", "http://evil@127.0.0.1:80/cb", "http://127.1:80/cb", "http://0x7f000001:80/cb",
		"http://2130706433/cb", "http://127.0.0.2:80/cb", "http://0.0.0.0:80/cb", "http://[::1]:80/cb", "http://[0:0:0:0:0:0:0:1]/cb?x=y",
		"http://[::ffff:127.0.0.1]/cb", "http://127.0.0.1:0/cb", "http://127.0.0.1:65536/cb", "http://127.0.0.1:99999999999999999999/cb",
		"http://127.0.0.1:abc/cb", "http://127.0.0.1:/cb", "http://127.0.0.1:080/cb", "http://127.0.0.1:00080/cb", "http://127.0.0.1:+80/cb",
		"http://127.0.0.1:-80/cb", "http://127.0.0.1:8_0/cb", "http://127.0.0.1:80 /cb", "http://127.0.0.1:80:80/cb", "http://127.0.0.1:8０/cb",
		"http://127.0.0.1:80\\cb", "http://127.0.0.1\\@evil.example/cb", "http://127.0.0.10/cb", "http://127.0.0.1%2F/cb", "http://127.0.0.1",
		"http://127.0.0.1:80\n/cb", "http://[::1]evil.example/cb?x=y", "http://[::1].evil.example/cb?x=y", "http://[::1]:1234/cb?x=z",
	} {
		if oauth.MatchRedirectURI(registered, uri) {
			t.Errorf("%q is matched", uri)
		}
	}
}

// For localhost, any port matches if none is registered (many developers' tools use the
// next free one); a registered port must match exactly.
func TestMatchRedirectURILocalhost(t *testing.T) {
	registered := []string{"http://localhost/cb", "http://localhost:3000/fixed", "http://localhost"}
	for uri, want := range map[string]bool{
		"http://localhost/cb": true, "http://localhost:1/cb": true, "http://localhost:5173/cb": true, "http://localhost:65535/cb": true,
		"http://localhost:3000/fixed": true, "http://localhost": true, "http://localhost:1": true,

		"http://localhost:3001/fixed": false, "http://localhost/fixed": false, "http://localhost:3000/other": false,
		"http://localhost:0": false, "http://localhost:65536": false, "http://localhost:1x": false,
		"http://localhost:0/cb": false, "http://localhost:65536/cb": false, "http://localhost:080/cb": false, "http://localhost:/cb": false,
		"http://localhost:80/cb?x=y": false, "http://localhost:80/Cb": false, "https://localhost:80/cb": false, "http://LOCALHOST:80/cb": false,
		"http://localhost.:80/cb": false, "http://localhost.evil.example/cb": false, "http://localhost:80.evil.example/cb": false,
		"http://localhost:80@evil.example/cb": false, "http://localhost@evil.example/cb": false, "http://localhostevil.example/cb": false,
		"http://127.0.0.1:80/cb": false, "http://[::1]:80/cb": false, "http://x@localhost:80/cb": false,
	} {
		if got := oauth.MatchRedirectURI(registered, uri); got != want {
			t.Errorf("%q is matched: %t, want %t", uri, got, want)
		}
	}
}

// An error without the flag's name would send a developer to the documentation.
func TestARefusedLocalRedirectNamesTheFlag(t *testing.T) {
	for _, uri := range []string{"http://localhost:3000/cb", "http://127.0.0.1/cb", "http://[::1]/cb", "com.example.app:/cb", "http://shop.example/cb"} {
		if err := oauth.CheckRedirectURI(uri, false); err == nil || !strings.Contains(err.Error(), "--native") {
			t.Errorf("a web client registers %s: %v, which does not name --native", uri, err)
		}
	}
}
