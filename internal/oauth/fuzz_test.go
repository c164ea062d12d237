package oauth_test

import (
	"encoding/base64"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/oauth"
)

// printable is an independent check of what RFC 6749 appendix A allows.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == '\ufeff' })
}

func FuzzParseParams(f *testing.F) {
	for _, body := range []string{
		"", "a=b", "grant_type=refresh_token&refresh_token=x&client_id=shop", "a=1&a=2", "a=%zz", "a;b", "a=%00", "%EF%BB%BFa=b",
		"resource=a&resource=b&resource=", "=x&&a", "a=+%2B", "a=%C3%BC", "a=%ff", "a=b=c",
	} {
		f.Add(body, "realm=/api", false)
		f.Add(body, "a=b&client_id=x", true)
	}
	f.Fuzz(func(t *testing.T, body, query string, queryAllowed bool) {
		p, realm, err := oauth.ParseParams(body, query, queryAllowed)
		for name, value := range p {
			if name == "" || value == "" || !printable(name) || !printable(value) {
				t.Fatalf("parameter %q with value %q", name, value)
			}
		}
		inBody, bodyErr := url.ParseQuery(body)
		inQuery, queryErr := url.ParseQuery(query)
		if err != nil {
			if realm != "" {
				t.Fatalf("realm %q beside %v", realm, err)
			}
			if query == "" && bodyErr == nil && !strings.Contains(body, ";") && strings.Count(body, "&") < 64 && onceAndPrintable(inBody) {
				t.Fatalf("%q is refused: %v", body, err)
			}
			return
		}
		if bodyErr != nil || queryErr != nil {
			t.Fatalf("accepted what the standard library refuses: %v, %v", bodyErr, queryErr)
		}
		for name, values := range inBody {
			if name == "" || name == "resource" {
				continue
			}
			if len(values) != 1 || p[name] != values[0] || inQuery[name] != nil {
				t.Fatalf("%q is %q in the body, %q in the query, and read as %q", name, values, inQuery[name], p[name])
			}
		}
		for name, value := range p {
			if slices.Contains(inBody[name], value) || name == "resource" && slices.Contains(inBody[name], strings.TrimPrefix(value, oauth.SeveralResources)) {
				continue
			}
			known := oauth.Params{name: strings.Repeat("x", 10_000)}.CheckLengths() != nil
			if !queryAllowed || !known || !slices.Equal(inQuery[name], []string{value}) {
				t.Fatalf("%q=%q comes from nowhere", name, value)
			}
		}
		if realm != inQuery.Get("realm") || len(inQuery["realm"]) > 1 {
			t.Fatalf("realm %q of %q", realm, inQuery["realm"])
		}
		form := url.Values{}
		for name, value := range p {
			form.Set(name, value)
		}
		again, _, err := oauth.ParseParams(form.Encode(), "", false)
		if err != nil || !maps.Equal(p, again) {
			t.Fatalf("%q is written as %q and read as %q, %v", p, form.Encode(), again, err)
		}
	})
}

func onceAndPrintable(form url.Values) bool {
	for name, values := range form {
		if !printable(name) || name != "" && name != "resource" && len(values) > 1 || !printable(strings.Join(values, "")) {
			return false
		}
	}
	return true
}

func FuzzParseCredentials(f *testing.F) {
	for _, header := range []string{
		basic("shop:s"), basic("a%3Ab:c%25"), basic("shop"), basic(":"), "Basic", "Basic  x", "bearer x", "BASIC c2hvcDpz", "Basic c2hv\ncDpz", basic("a:%zz"),
	} {
		f.Add(header, "", "")
		f.Add(header, "shop", "")
		f.Add(header, "shop", "s")
	}
	f.Add(basic("shop:"), "", "") // no secret: the method none
	f.Fuzz(func(t *testing.T, header, clientID, secret string) {
		p := oauth.Params{"client_id": clientID, "client_secret": secret}
		c, err := oauth.ParseCredentials([]string{header}, p)
		if !c.Header {
			t.Fatal("Header is not set: a failure would not be 401")
		}
		if err != nil {
			return
		}
		scheme, rest, _ := strings.Cut(header, " ")
		raw, decodeErr := base64.StdEncoding.DecodeString(rest)
		id, pass, found := strings.Cut(string(raw), ":")
		switch {
		case !strings.EqualFold(scheme, "basic") || decodeErr != nil || !found || base64.StdEncoding.EncodeToString(raw) != rest:
			t.Fatalf("%q is accepted", header)
		case secret != "":
			t.Fatal("two methods are accepted")
		case clientID != "" && clientID != c.ClientID:
			t.Fatalf("header of %q accepted for %q", c.ClientID, clientID)
		case c.ClientID == "" || (pass == "") != (c.Method == oauth.AuthNone) || pass != "" && c.Method != oauth.AuthBasic || len(c.ClientID) > 255:
			t.Fatalf("client %q by %q", c.ClientID, c.Method)
		case !printable(c.ClientID) || !printable(string(c.Secret)) || !printable(string(c.RawSecret)):
			t.Fatal("a control character is accepted")
		}
		wantID, err1 := url.QueryUnescape(id)
		wantSecret, err2 := url.QueryUnescape(pass)
		if err2 != nil {
			wantSecret = pass // not encoded
		}
		if err1 != nil || c.ClientID != wantID || string(c.Secret) != wantSecret || string(c.RawSecret) != pass {
			t.Fatalf("%q is read as client %q", raw, c.ClientID)
		}
		if len(wantSecret) > 1024 {
			return // escaped, it may be longer than the limit
		}
		again, err := oauth.ParseCredentials([]string{basic(url.QueryEscape(wantID) + ":" + url.QueryEscape(wantSecret))}, oauth.Params{})
		if err != nil || again.ClientID != c.ClientID || again.Secret != c.Secret {
			t.Fatalf("%q does not survive being written again: %v", raw, err)
		}
	})
}

var loopback = regexp.MustCompile(`(?s)^(http://(?:127\.0\.0\.1|\[::1\]))(?::([1-9][0-9]{0,4}))?((?:[/?].*)?)$`)

// differsInPort is an independent check of the loopback exception.
func differsInPort(a, b string) bool {
	x, y := loopback.FindStringSubmatch(a), loopback.FindStringSubmatch(b)
	if x == nil || y == nil || x[1] != y[1] || x[3] != y[3] {
		return false
	}
	for _, port := range []string{x[2], y[2]} {
		if n, err := strconv.Atoi(port); port != "" && (err != nil || n > 65535) {
			return false
		}
	}
	return true
}

func FuzzMatchRedirectURI(f *testing.F) {
	for _, s := range []string{
		"https://shop.example/cb", "http://127.0.0.1/cb", "http://127.0.0.1:80/cb", "http://[::1]:1/?x", "http://127.0.0.1:0/cb",
		"http://127.0.0.1:80@evil/cb", "http://127.0.0.1:080/cb", "http://127.0.0.1:65536/cb", "http://127.0.0.1:/cb", "http://127.0.0.1",
	} {
		f.Add("http://127.0.0.1/cb", s)
		f.Add(s, "http://[::1]/?x")
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, registered, uri string) {
		want := registered == uri || differsInPort(registered, uri)
		if got := oauth.MatchRedirectURI([]string{"https://other.example/", registered}, uri); got != want && uri != "https://other.example/" {
			t.Fatalf("registered %q, sent %q: matched %t", registered, uri, got)
		}
	})
}

func FuzzCheckRedirectURI(f *testing.F) {
	for _, s := range []string{
		"https://shop.example/cb", "http://127.0.0.1:1/cb", "http://[::1]/", "com.example.app:/cb", "javascript:alert(1)", "https://a@b/",
		"https://a/#", "//a", "https://[::1%25x]/", "https://a/%zz", "HTTPS://a/", "https://%D0%B0pple.com/", "https://0x7f.1/", "https://a:0443/", "cursor://a/", "https://[::ffff:1.2.3.4]/",
	} {
		f.Add(s, true)
		f.Add(s, false)
	}
	web := regexp.MustCompile(`^https://[^/?#@]+([/?].*)?$`)
	// An invalid port matches only itself.
	local := regexp.MustCompile(`^http://(127\.0\.0\.1|\[::1\])(:[0-9]*)?([/?].*)?$`)
	app := regexp.MustCompile(`^[a-z][a-z0-9+-]*\.[a-z0-9+.-]*:`)
	f.Fuzz(func(t *testing.T, uri string, native bool) {
		err := oauth.CheckRedirectURI(uri, native)
		if host := oauth.Host(uri); (err == nil || oauth.CheckOwnRedirectURI(uri) == nil) && (host == "" || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-._:[]+") != "") {
			t.Fatalf("%q is accepted, and shown as %q", uri, host)
		}
		if err != nil {
			if strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Fatalf("the message repeats a control character: %q", err)
			}
			return
		}
		if len(uri) > oauth.MaxRedirectURI || strings.ContainsFunc(uri, func(r rune) bool { return r <= 0x20 || r >= 0x7f || r == '#' || r == '*' }) {
			t.Fatalf("%q is accepted", uri)
		}
		if !web.MatchString(uri) && !(native && (app.MatchString(uri) || local.MatchString(uri))) {
			t.Fatalf("%q is accepted, native %t", uri, native)
		}
		if !oauth.MatchRedirectURI([]string{uri}, uri) {
			t.Fatalf("%q is accepted and does not match itself", uri)
		}
		if !native && oauth.CheckRedirectURI(uri, true) != nil {
			t.Fatalf("%q is accepted for a web client and not for a native one", uri)
		}
	})
}

func FuzzParseScope(f *testing.F) {
	for _, s := range []string{"", "read write", "  a  a b ", `a"b`, "a\\b", "ü", strings.Repeat("a b c d ", 40), strings.Repeat("x", 257)} {
		f.Add(s, "b a")
	}
	f.Fuzz(func(t *testing.T, text, subtext string) {
		s, err := oauth.ParseScope(text)
		if err != nil {
			return
		}
		var want []string
		for _, tok := range strings.FieldsFunc(text, func(r rune) bool { return r == ' ' }) {
			if !slices.Contains(want, tok) {
				want = append(want, tok)
			}
		}
		if !slices.Equal(s.Tokens(), want) || string(s) != strings.Join(want, " ") || len(want) > oauth.MaxScopes || len(s) > oauth.MaxScopeLength {
			t.Fatalf("%q is read as %q", text, s)
		}
		if again, err := oauth.ParseScope(string(s)); err != nil || again != s {
			t.Fatalf("%q is read as %q: %v", s, again, err)
		}
		sub, err := oauth.ParseScope(subtext)
		if err != nil {
			return
		}
		covered := !slices.ContainsFunc(sub.Tokens(), func(tok string) bool { return !slices.Contains(want, tok) })
		bits, ok := s.Bits(sub)
		if ok != covered {
			t.Fatalf("%q covers %q: %t", s, sub, ok)
		}
		common := s.Common(sub)
		if !s.Covers(common) || !sub.Covers(common) {
			t.Fatalf("%q and %q have %q in common", s, sub, common)
		}
		if covered && (s.Pick(bits) != common || !common.Covers(sub) || bits & ^s.All() != 0) {
			t.Fatalf("bits %b of %q in %q name %q", bits, sub, s, s.Pick(bits))
		}
	})
}
