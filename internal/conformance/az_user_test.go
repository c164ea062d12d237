package conformance_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/web"
)

func TestAZ58_PromptNoneNeverShowsAPage(t *testing.T) {
	d, b := signedIn(t)
	c, app := d.ours(), d.native("http://127.0.0.1/cb")
	stranger := d.browser()
	for what, ask := range map[string]struct {
		by    *browser
		at    string
		error oauth.ErrorCode
	}{
		"not signed in":                   {stranger, asking(c, "prompt=none"), "login_required"},
		"not signed in, and a defect":     {stranger, asking(c, "prompt=none", "scope=nonsense"), "invalid_scope"},
		"nothing agreed":                  {b, asking(d.a, "prompt=none"), "consent_required"},
		"of an app, which asks each time": {b, asking(app, "prompt=none"), "interaction_required"},
		"with login":                      {b, asking(c, "prompt=none login"), "invalid_request"},
		"with consent":                    {b, asking(c, "prompt=consent none"), "invalid_request"},
		"with select_account":             {stranger, asking(c, "prompt=none select_account"), "invalid_request"},
		"of another kind":                 {b, asking(c, "prompt=create"), "invalid_request"},
		"in another case":                 {b, asking(c, "prompt=None"), "invalid_request"},
	} {
		s := ask.by.get(ask.at)
		at, _ := url.Parse(ask.at)
		if q := s.told(t, at.Query().Get("redirect_uri")+"?", ask.error); q.Get("state") != "st" || s.body != "" {
			t.Errorf("%s: state %q, %d bytes of body", what, q["state"], len(s.body))
		}
	}
	b.get(asking(c, "prompt=none")).granted(t, redirect)
	b.get(asking(c, "prompt=none", "max_age=0")).granted(t, redirect) // within the millisecond of the login
	d.step(11 * time.Second)
	b.get(asking(c, "prompt=none", "max_age=11")).granted(t, redirect)
	b.get(asking(c, "prompt=none", "max_age=10")).told(t, redirect, "login_required")
	for _, age := range []string{"-1", "x", "1.5", "+1", "99999999999999999999"} {
		b.get(asking(c, "max_age="+age)).told(t, redirect, "invalid_request")
	}
}

var defects = [][]string{
	{"scope=nonsense"}, {"response_type=token"}, {"response_type"}, {"code_challenge"}, {"resource=x"}, {"prompt=x"}, {"request=x"}, {"response_mode=jwt"},
}

// Errors are redirected at once to a client that an operator registered (RFC 6749 section
// 4.1.2.1).
func TestAZ59_AnErrorGoesToAClientThatAnOperatorRegistered(t *testing.T) {
	d, b := signedIn(t)
	for _, pairs := range defects {
		address := asking(d.a, pairs...)
		told, stranger := b.get(address), d.browser().get(address)
		if told.StatusCode != http.StatusSeeOther || told.location().Query().Get("error") == "" {
			t.Fatalf("%q: a signed-in user is not sent on: %d", pairs, told.StatusCode)
		}
		of := func(s shownPage) string { // the ids of the requests differ
			return strings.ReplaceAll(s.Header.Get("Location"), s.Header.Get("X-Request-Id"), "")
		}
		if stranger.StatusCode != http.StatusSeeOther || of(stranger) != of(told) || stranger.body != "" {
			t.Errorf("%q: one who is not signed in gets %d, to %.80q", pairs, stranger.StatusCode, stranger.Header.Get("Location"))
		}
	}
	// A valid request redirects to the server's own login page.
	if to := d.browser().get(asking(d.a)).Header.Get("Location"); !strings.HasPrefix(to, interactionURL) {
		t.Errorf("sent to %.60q", to)
	}
}

// An attacker may send a user here only to be redirected, under the server's name, to the
// attacker's own client (RFC 9700 section 4.11.2). For a self-registered client, the
// error is therefore always on a page, and before the login the server does not even read
// the client. With authorization.error_page, the error is on a page for every client
// until the user has signed in.
func TestAZ59_StrangersAreAskedBeforeAnErrorTakesThemToAClient(t *testing.T) {
	for _, always := range []bool{false, true} {
		t.Run(fmt.Sprintf("always %t", always), func(t *testing.T) {
			d, b := signedIn(t, registering, func(o *options) { o.tuneFront = func(f *web.Front) { f.ErrorPage = always } })
			c := d.a
			if !always {
				c = d.selfRegistered("Agent")
				d.api(store.API{ID: ordersAPI, Number: 1, Open: true, Scopes: []store.APIScope{{Name: "orders", Number: 1}}})
			}
			asked := func(by *browser, pairs []string) {
				t.Helper()
				s := by.get(asking(c, pairs...))
				s.refusedPage(t, 400)
				checkPage(t, pairs[0], s)
				// The page offers a link to the client.
				if !strings.Contains(html.UnescapeString(s.body), `href="`+redirect+`?error=`) || strings.Contains(strings.ToLower(s.body), "http-equiv") || s.Header.Get("Refresh") != "" {
					t.Errorf("%q: no link to the client, or more than a link", pairs)
				}
				if strings.Contains(s.body, "<script") || s.field("id") != "" {
					t.Errorf("%q: script or interaction on the page", pairs)
				}
			}
			stranger := d.browser()
			unread := func(pairs ...string) {
				t.Helper()
				s := stranger.get(asking(c, pairs...))
				if to := s.Header.Get("Location"); to != "" && !strings.HasPrefix(to, interactionURL) || strings.Contains(html.UnescapeString(s.body), redirect) {
					t.Errorf("%q: status %d, to %.80q, or a link to a client that is not read", pairs, s.StatusCode, to)
				}
			}
			for _, pairs := range defects {
				if !always {
					asked(b, pairs)
					unread(pairs...)
					continue
				}
				asked(stranger, pairs)
				if told := b.get(asking(c, pairs...)); told.StatusCode != http.StatusSeeOther {
					t.Errorf("%q: a signed-in user is not sent on: %d", pairs, told.StatusCode)
				}
			}
			if always {
				stranger.get(asking(c, "prompt=none")).told(t, redirect, "login_required")
			} else {
				asked(b, []string{"prompt=none", "scope=orders"}) // consent_required
				unread("prompt=none")
			}
		})
	}
}

func TestAZ61_TwoTabsDoNotMix(t *testing.T) {
	d, b := signedIn(t)
	const otherVerifier = "a-second-verifier-for-the-second-tab-0123456789"
	one := b.follow(b.get(asking(d.a, "state=one", "scope=a")))
	two := b.follow(b.get(asking(d.a, "state=two", "scope=b c", "redirect_uri="+otherRedirect, "code_challenge="+s256(otherVerifier))))
	if one.field("id") == two.field("id") || one.field("id") == "" {
		t.Fatal("one interaction for two requests")
	}
	allow := func(s shownPage) shownPage {
		return b.post(interactionURL, "id="+s.field("id"), "step=consent", "decision=allow", "state=three", "scope=a b c", "redirect_uri="+redirect)
	}
	second := allow(two).granted(t, otherRedirect)
	first := allow(one).granted(t, redirect)
	if first.Get("state") != "one" || second.Get("state") != "two" {
		t.Errorf("answers %q, %q", first.Get("state"), second.Get("state"))
	}
	want(t, d.post(with(d.a.redeem(second.Get("code")), "redirect_uri", otherRedirect, "code_verifier", verifier)), 400, "invalid_grant")
	if got := d.mustIssue(d.post(with(d.a.redeem(second.Get("code")), "redirect_uri", otherRedirect, "code_verifier", otherVerifier))); got.Scope != "b c" {
		t.Errorf("tokens for %q", got.Scope)
	}
	if got := d.mustRedeem(d.a, first.Get("code")); got.Scope != "a" {
		t.Errorf("tokens for %q", got.Scope)
	}
}

// Any program of the user's machine can use a native client's id and loopback address
// (RFC 8252 section 8.6). A web client's address is its own.
func TestAZ63_TheUserOfANativeClientIsAskedEachTime(t *testing.T) {
	d, b := signedIn(t)
	app := d.client(client.Registration{
		Settings: store.Settings{Name: "App", RedirectURIs: []string{"http://127.0.0.1/cb", "com.example.app:/cb", "https://app.example/cb"}, Native: true, FirstParty: true, Auth: "none"},
	})
	for _, uri := range app.RedirectURIs[:2] {
		for range 2 {
			s := b.follow(b.get(asking(app, "redirect_uri="+uri)))
			if s.field("step") != "consent" || strings.Contains(s.body, `name="remember"`) {
				t.Fatalf("%s: not asked, or offered not to be asked again", uri)
			}
			b.post(interactionURL, "id="+s.field("id"), "step=consent", "decision=allow", "remember=yes").granted(t, uri)
		}
		b.get(asking(app, "redirect_uri="+uri, "prompt=none")).told(t, uri, "interaction_required")
	}
	// The system opens a claimed https address only with this app, which identifies the
	// client.
	b.get(asking(app, "redirect_uri=https://app.example/cb")).granted(t, "https://app.example/cb")

	public := d.client(client.Registration{Settings: store.Settings{Name: "Public", Auth: "none"}})
	s := b.follow(b.get(asking(public)))
	b.post(interactionURL, "id="+s.field("id"), "step=consent", "decision=allow", "remember=yes").granted(t, redirect)
	b.get(asking(public)).granted(t, redirect)
	b.get(asking(public, "prompt=consent")).location()
	if s := b.follow(b.get(asking(public, "prompt=consent"))); s.field("step") != "consent" {
		t.Error("prompt=consent does not ask")
	}
}

func TestAZ64_RequestObjectsAreRefusedAndNothingIsFetched(t *testing.T) {
	d, b := signedIn(t)
	var fetched atomic.Int32
	site := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fetched.Add(1) }))
	defer site.Close()
	c := d.ours()
	const object = "eyJhbGciOiJub25lIn0.eyJjbGllbnRfaWQiOiJ4In0."
	for value, code := range map[string]oauth.ErrorCode{
		"request=" + object: "request_not_supported", "request=x": "request_not_supported",
		"request_uri=" + site.URL + "/x": "request_uri_not_supported", "request_uri=urn:example:x": "request_uri_not_supported",
		"request_uri=file:///etc/passwd": "request_uri_not_supported", "request_uri=http://169.254.169.254/": "request_uri_not_supported",
	} {
		b.get(asking(c, value)).told(t, redirect, code)
		// Parameters in a request object do not replace missing ones.
		b.get(asking(c, value, "redirect_uri")).refusedPage(t, 400)
		d.browser().get(asking(c, value)).told(t, redirect, code)
	}
	b.get(asking(c, "request="+strings.Repeat("x", 4000))).told(t, redirect, "request_not_supported")
	if n := fetched.Load(); n != 0 {
		t.Errorf("%d requests to the address of request_uri", n)
	}
}

func TestAZ20_AZ66_ResourcesAreTheClientsOwn(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours(func(r *client.Registration) {
		r.Audience = []string{"https://api.example/v1", "https://other.example/"}
	})
	for _, resource := range []string{
		"/v1", "api.example", "//api.example/v1", "https://api.example/v1#x", "https://api.example/v1#", "https://api.example/v2", "https://api.example/v1/",
		"https://api.example/V1", "https://API.example/v1", "https://nobody.example/", issuerID, "x:y", "%zz",
	} {
		b.get(asking(c, "resource="+resource)).told(t, redirect, "invalid_target")
		b.get(asking(c, "resource=https://api.example/v1")+"&resource="+url.QueryEscape(resource)).told(t, redirect, "invalid_target")
	}
	// The token is for all audiences of the client, as the reference documents.
	pair := d.mustIssue(d.post(c.challenged(b.get(asking(c, "resource=https://other.example/")).code(t, redirect))))
	for _, audience := range c.Audience {
		if a := d.verify(pair.AccessToken, "X-Required-Audience: "+audience); a.status != http.StatusOK {
			t.Errorf("for %s: %v", audience, a)
		}
	}
	without := d.ours()
	b.get(asking(without, "resource="+issuerID)).granted(t, redirect)
	b.get(asking(without, "resource=https://api.example/v1")).told(t, redirect, "invalid_target")
}
