package conformance_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

func TestAZ01_AnUnknownClientIsAPageAndSaysNothing(t *testing.T) {
	d, b := signedIn(t)
	disabled := d.change(d.b, func(c *store.Client) { c.State = store.ClientDisabled })
	unknown := disabled
	unknown.ID = "X" + disabled.ID[1:]
	var bodies []string
	for _, c := range []oauthClient{unknown, disabled} {
		for _, visitor := range []*browser{b, d.browser()} {
			// Once with the cookies of earlier visits, and once without.
			s := visitor.get(asking(c))
			s.refusedPage(t, 400)
			bodies = append(bodies, strings.ReplaceAll(s.body, s.Header.Get("X-Request-Id"), ""))
			if len(s.Header["X-Request-Id"]) != 1 || strings.Contains(s.body, "client.example") {
				t.Error("no request id, or the redirect URI on the page")
			}
		}
	}
	for _, body := range bodies {
		if body != bodies[0] {
			t.Errorf("pages differ:\n%s\n%s", bodies[0], body)
		}
	}
	const payload = `"><script>alert(1)</script>`
	for _, pairs := range [][]string{{"client_id=" + payload}, {"client_id=" + payload, "redirect_uri=javascript:" + payload, "state=" + payload}} {
		s := b.get(asking(d.a, pairs...))
		s.refusedPage(t, 400)
		if strings.Contains(s.body, "<script") || strings.Contains(s.body, "javascript:") {
			t.Errorf("the page repeats what was sent: %s", s.body)
		}
	}
}

func TestAZ02_AZ16_AZ17_AZ18_ClientAndRedirectURIAreSentOnce(t *testing.T) {
	d, b := signedIn(t)
	one := d.client(client.Registration{Settings: store.Settings{Name: "one", RedirectURIs: []string{redirect}}})
	bad := url.QueryEscape("https://evil.example/")
	for name, address := range map[string]string{
		"no client_id":                     asking(d.a, "client_id"),
		"client_id empty":                  asking(d.a, "client_id="),
		"client_id twice":                  asking(d.a) + "&client_id=" + d.a.ID,
		"two clients":                      asking(d.a) + "&client_id=" + d.b.ID,
		"an empty client_id more":          asking(d.a) + "&client_id=",
		"no redirect_uri, one registered":  asking(one, "redirect_uri"),
		"empty redirect_uri, one of it":    asking(one, "redirect_uri="),
		"no redirect_uri, two registered":  asking(d.a, "redirect_uri"),
		"redirect_uri twice":               asking(d.a) + "&redirect_uri=" + url.QueryEscape(redirect),
		"redirect_uri good and bad":        asking(d.a) + "&redirect_uri=" + bad,
		"redirect_uri bad and good":        asking(d.a, "redirect_uri=https://evil.example/") + "&redirect_uri=" + url.QueryEscape(redirect),
		"redirect_uri good and other good": asking(d.a) + "&redirect_uri=" + url.QueryEscape(otherRedirect),
		"redirect_uri good and empty":      asking(d.a) + "&redirect_uri=",
		"neither":                          authorizeURL,
	} {
		t.Log(name)
		s := b.get(address)
		s.refusedPage(t, 400)
		if strings.Contains(s.body, "evil.example") || strings.Contains(s.body, "client.example") {
			t.Error("the page has a redirect URI")
		}
	}
	b.get(asking(d.ours())).granted(t, redirect) // both once, for comparison
}

// The redirect URIs are those of OAuch and of other servers' bug reports. Each is sent
// percent-encoded, and also unencoded.
func TestAZ03_AZ04_AZ05_AZ06_AZ07_AZ08_AZ09_RedirectURIsAreComparedByteForByte(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	for _, uri := range []string{
		// AZ-03
		"https://evil.example/cb", "https://client.example", "https://client.example/", "https://client.example/cb/Wrong", "https://client.example/cbx",
		"https://client.example/wrong", "https://client.example.evil.example/cb", "https://evil.example/https://client.example/cb", "//client.example/cb", "/cb", "cb",
		// AZ-04, AZ-06
		redirect + "?extra=oauch", redirect + "?", redirect + "?code=attackercode", otherRedirect + "&code=attackercode", otherRedirect + "&",
		// AZ-05
		"https://client.example/other?b=2&a=1", "https://client.example/other?a=1&b=3", "https://client.example/other?a=1", "https://client.example/other?A=1&b=2",
		"https://client.example/other?a=%31&b=2", "https://client.example/other?a=1&&b=2",
		// AZ-07
		redirect + "/FAKEPATH", redirect + "%2FFAKEPATH", redirect + "/..", redirect + "/../", redirect + "/..%2F", redirect + "/%2e%2e%2F",
		redirect + "/..%252F", redirect + "/FAKEPATH/..", redirect + "/FAKEPATH/../", redirect + "/%2e%2e/cb", redirect + "/;/../../",
		redirect + "/%3B/..", redirect + "/%3B/../../", redirect + "%0A%0D/../..", redirect + "/%0A%0D/..", redirect + "/..;/", redirect + "/%5C../",
		redirect + "\\..\\", redirect + "%00", redirect + "%20", redirect + "%09", redirect + ";x=y", redirect + "%3Fx=y", redirect + "%23x",
		"https://client.example/x/../cb", "https://client.example/FAKEPATH/%2e%2e/cb", "https://client.example//cb",
		// AZ-08
		"https://CLIENT.example/cb", "HTTPS://client.example/cb", "https://client.example:443/cb", redirect + "/", "https://client.example/./cb",
		"https://client.example/%63b", "https://user@client.example/cb", "https://user:pass@client.example/cb", "https://client.example./cb",
		"https://xn--client-example.example/cb", "https://client%2Eexample/cb", "https://cli\u0435nt.example/cb", "https://client\u3002example/cb",
		"https://client.example/c%09b", "https://client.example/c%0Ab", "https:/client.example/cb", "https:client.example/cb",
		"https:\\\\client.example\\cb", "%20" + redirect, "+" + redirect, "http://client.example/cb",
		// AZ-09
		"https://client.example/Cb", "https://client.example/CB",
	} {
		said := func(body string) {
			t.Helper()
			if strings.Contains(body, `href="https:`) || strings.Contains(body, "attackercode") || strings.Contains(body, "client.example") {
				t.Errorf("%s: the page repeats or links to it", uri)
			}
		}
		s := b.get(asking(c, "redirect_uri="+uri))
		s.refusedPage(t, 400)
		said(s.body)
		if strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			continue // not allowed in a request line
		}
		if decoded, err := url.QueryUnescape(uri); err == nil && slices.Contains(c.RedirectURIs, decoded) {
			continue // a query value may be percent-encoded completely
		}
		a := d.sendRaw(b, "GET", target(asking(c, "redirect_uri"))+"&redirect_uri="+uri)
		a.isRefusedPage(t, uri, 400)
		said(a.body)
	}
	for _, uri := range []string{redirect, otherRedirect} {
		b.get(asking(c, "redirect_uri="+uri)).granted(t, uri)
	}
}

// compat.redirect_uri_mismatch changes only the error's name on the page.
func TestAZ03_ACompatibleNameForAMismatch(t *testing.T) {
	for _, compatible := range []bool{false, true} {
		d, b := signedIn(t, func(o *options) { o.RedirectURIMismatch, o.alone = compatible, compatible })
		s := b.get(asking(d.a, "redirect_uri=https://evil.example/"))
		s.refusedPage(t, 400)
		if strings.Contains(s.body, "redirect_uri_mismatch") != compatible || strings.Contains(s.body, "invalid_request") == compatible {
			t.Errorf("switch %t: the page has not the name", compatible)
		}
		if s = b.get(asking(d.a, "redirect_uri")); strings.Contains(s.body, "redirect_uri_mismatch") {
			t.Errorf("switch %t: a missing redirect URI is called a mismatch", compatible)
		}
	}
}

// native registers a native client, which is a public client.
func (d *deployment) native(uris ...string) oauthClient {
	d.t.Helper()
	return d.client(client.Registration{Settings: store.Settings{Name: "App", RedirectURIs: uris, Native: true, Auth: store.AuthNone}})
}

func TestAZ10_AZ15_ANativeClientsOwnAddresses(t *testing.T) {
	d, b := signedIn(t)
	c := d.native("http://127.0.0.1/cb", "http://[::1]:1234/cb?x=y", "com.example.app:/cb", "http://localhost/cb", "http://localhost:3000/fixed")
	for _, uri := range []string{
		"http://127.0.0.1/cb", "http://127.0.0.1:51004/cb", "http://127.0.0.1:1/cb", "http://127.0.0.1:65535/cb",
		"http://[::1]:1234/cb?x=y", "http://[::1]/cb?x=y", "http://[::1]:4321/cb?x=y", "com.example.app:/cb",
		"http://localhost/cb", "http://localhost:5173/cb", "http://localhost:3000/fixed",
	} {
		s := b.follow(b.get(asking(c, "redirect_uri="+uri)))
		q := b.post(interactionURL, "id="+s.field("id"), "step=consent", "decision=allow").granted(t, uri)
		form := with(c.redeem(q.Get("code")), "code_verifier", verifier)
		if uri != c.RedirectURIs[0] {
			want(t, d.post(form), 400, "invalid_grant") // a registered URI, but not the one of the request
		}
		d.mustIssue(d.post(with(form, "redirect_uri", uri)))
		s = b.follow(b.get(asking(c, "redirect_uri="+uri, "scope=nonsense")))
		s.told(t, uri, "invalid_scope")
	}
}

func TestAZ11_AZ15_NothingButThePortOfALoopbackAddress(t *testing.T) {
	d, b := signedIn(t)
	c := d.native("http://127.0.0.1/cb", "https://127.0.0.1/tls", "com.example.app:/cb")
	local := d.native("http://localhost/cb", "http://localhost:3000/fixed")
	// The redirect URI decides about the port, not the kind of the client.
	web := d.change(d.native("http://127.0.0.1/cb", "http://[::1]/cb", "http://localhost/cb"), func(c *store.Client) { c.Native = false })
	for uri, of := range map[string]oauthClient{
		"http://127.0.0.1:80/other": c, "http://127.0.0.1:80/cb?x=y": c, "http://127.0.0.1:80/cb/": c, "http://127.0.0.1:80": c, "http://127.0.0.1:80/Cb": c,
		"https://127.0.0.1:80/cb": c, "https://127.0.0.1:80/tls": c, "http://localhost/cb": c, "http://localhost:80/cb": c, "http://[::1]:80/cb": c,
		"http://127.0.0.1.evil.example/cb": c, "http://127.0.0.1:80.evil.example/cb": c, "http://127.0.0.1@evil.example/cb": c,
		"http://127.0.0.1:80@evil.example/cb": c, "http://127.0.0.1:@evil.example/cb": c, "http://x@127.0.0.1:80/cb": c, "http://127.1/cb": c,
		"http://127.1:80/cb": c, "http://0x7f000001:80/cb": c, "http://2130706433:80/cb": c, "http://127.0.0.2:80/cb": c, "http://0.0.0.0:80/cb": c,
		"http://[::ffff:127.0.0.1]:80/cb": c, "http://127.0.0.1:0/cb": c, "http://127.0.0.1:65536/cb": c, "http://127.0.0.1:abc/cb": c, "http://127.0.0.1:/cb": c,
		"http://127.0.0.1:080/cb": c, "http://127.0.0.1:+80/cb": c, "http://127.0.0.1:80:80/cb": c, "http://127.0.0.1\\@evil.example/cb": c, "http://127.0.0.1:80\\cb": c,
		"http://127.0.0.1:80/cb#": c,
		// AZ-15
		"com.example.app:/cb2": c, "com.example.app://cb": c, "com.example.app:80/cb": c, "COM.example.app:/cb": c, "com.example.app2:/cb": c,
		// RFC 8252 section 8.3
		"http://localhost:3001/fixed": local, "http://localhost/fixed": local, "http://localhost:80/other": local, "http://[::1]:81/cb": local,
		"http://localhost.evil.example:80/cb": local, "http://localhost:80@evil.example/cb": local, "https://localhost:80/cb": local,
	} {
		a := d.sendRaw(b, "GET", target(asking(of, "redirect_uri="+uri)))
		a.isRefusedPage(t, uri, 400)
	}
	for _, uri := range append(web.RedirectURIs, "http://127.0.0.1:49152/cb", "http://[::1]:49152/cb", "http://localhost:49152/cb") {
		b.follow(b.get(asking(web, "redirect_uri="+uri))).refusedPage(t, 200) // the consent page
	}
}

// Unsafe redirect URIs cannot be registered. One that was stored by other means is still
// compared byte for byte.
func TestAZ12_AZ13_AZ14_AZ15_UnsafeRedirectURIsCannotBeRegistered(t *testing.T) {
	d, b := signedIn(t)
	for _, uri := range []string{
		redirect + "#", redirect + "#fragment", "http://client.example/cb", "http://localhost.client.example/cb", "http://client.example:443/cb",
		"javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "blob:https://client.example/x",
		"about:blank", "myapp:/cb", "com.example.app:/cb#x",
	} {
		for _, native := range []bool{false, true} {
			r := client.Registration{Settings: store.Settings{Name: "x", Scope: "a", Auth: store.AuthEither, RedirectURIs: []string{redirect, uri}, Native: native}}
			if _, _, err := r.Client(realm, d.ring(), d.issuer.Policy, grant.At(d.now())); err == nil {
				t.Errorf("%s is registered, native %t", uri, native)
			}
		}
		s := b.get(asking(d.a, "redirect_uri="+uri))
		s.refusedPage(t, 400)
		if strings.Contains(s.body, uri) {
			t.Errorf("the page repeats %s", uri)
		}
	}
	web := client.Registration{Settings: store.Settings{Name: "x", Scope: "a", Auth: store.AuthEither, RedirectURIs: []string{"com.example.app:/cb"}}}
	if _, _, err := web.Client(realm, d.ring(), d.issuer.Policy, grant.At(d.now())); err == nil {
		t.Error("a web client registers a private-use scheme")
	}
}
