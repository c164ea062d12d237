package conformance_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/web"
)

// every returns one error response of each kind that is redirected to a client, for a
// signed-in browser.
func (d *deployment) every(b *browser, redirectURI string) map[oauth.ErrorCode]shownPage {
	d.t.Helper()
	ours := d.ours(func(r *client.Registration) { r.RedirectURIs = []string{redirectURI} })
	asked := d.client(client.Registration{Settings: store.Settings{Name: "Asked", RedirectURIs: []string{redirectURI}}})
	silent := d.client(client.Registration{Settings: store.Settings{Name: "Silent", RedirectURIs: []string{redirectURI}, GrantTypes: []string{"refresh_token"}}})
	deny := func(pairs ...string) shownPage {
		s := b.follow(b.get(asking(asked, pairs...)))
		return b.post(interactionURL, "id="+s.field("id"), "step=consent", "decision=deny")
	}
	return map[oauth.ErrorCode]shownPage{
		"":                          b.get(asking(ours)),
		"invalid_request":           b.get(asking(ours, "code_challenge")),
		"invalid_scope":             b.get(asking(ours, "scope=nonsense")),
		"unsupported_response_type": b.get(asking(ours, "response_type=token")),
		"unauthorized_client":       b.get(asking(silent)),
		"invalid_target":            b.get(asking(ours, "resource=https://nobody.example/")),
		"request_not_supported":     b.get(asking(ours, "request=x")),
		"request_uri_not_supported": b.get(asking(ours, "request_uri=https://evil.example/x")),
		"login_required":            d.browser().get(asking(ours, "prompt=none")),
		"consent_required":          b.get(asking(asked, "prompt=none")),
		"access_denied":             deny(),
	}
}

// constant matches an error description (RFC 6749 section 4.1.2.1).
var constant = regexp.MustCompile(`^[\x20-\x21\x23-\x5B\x5D-\x7E]+$`)

// compat.callback_parameters adds OpenAM's parameters to a successful response, and none
// to an error. A repeated form gets the same address.
func TestAZ36_CallbackParametersAddScopeAndClientOnlyIfSwitchedOn(t *testing.T) {
	for _, on := range []bool{false, true} {
		d, b := signedIn(t, alone, func(o *options) { o.tuneFront = func(f *web.Front) { f.Authorizer.CallbackParameters = on } })
		s := b.follow(b.get(asking(d.a, "scope=b a")))
		allow := func() shownPage {
			return b.post(interactionURL, "id="+s.field("id"), "step=consent", "decision=allow", "remember=yes")
		}
		asked := allow()
		if again := allow(); again.Header.Get("Location") != asked.Header.Get("Location") {
			t.Errorf("switched on %t: a repeated submit leads elsewhere", on)
		}
		for name, s := range map[string]shownPage{"after consent": asked, "without a page": b.get(asking(d.a, "scope=b a", "prompt=none"))} {
			q := s.granted(t, redirect)
			if on && (len(q) != 5 || q.Get("scope") != "b a" || q.Get("client_id") != d.a.ID) || !on && len(q) != 3 {
				t.Errorf("switched on %t, %s: the callback has %v", on, name, slices.Sorted(maps.Keys(q)))
			}
		}
		q := b.get(asking(d.a, "scope=nonsense")).told(t, redirect, "invalid_scope")
		if members := slices.Sorted(maps.Keys(q)); !slices.Equal(members, []string{"error", "error_description", "iss", "state"}) {
			t.Errorf("switched on %t: an error comes with %v", on, members)
		}
	}
}

func TestAZ36_AZ37_AZ38_AZ40_AZ41_AZ46_AZ69_EveryAnswerHasTheIssuerAndTheState(t *testing.T) {
	d, b := signedIn(t)
	for code, s := range d.every(b, redirect) {
		if code == "" {
			q := s.granted(t, redirect)
			if members := slices.Sorted(maps.Keys(q)); !slices.Equal(members, []string{"code", "iss", "state"}) || q.Get("state") != "st" {
				t.Errorf("a code comes with %v, state %q", members, q.Get("state"))
			}
			continue
		}
		q := s.told(t, redirect+"?", code)
		members := slices.Sorted(maps.Keys(q))
		if !slices.Equal(members, []string{"error", "error_description", "iss", "state"}) || q.Get("state") != "st" {
			t.Errorf("%s comes with %v, state %q", code, members, q.Get("state"))
		}
		if !constant.MatchString(q.Get("error_description")) {
			t.Errorf("%s: description %q", code, q.Get("error_description"))
		}
		if id := s.Header.Get("X-Request-Id"); code != "access_denied" && !strings.HasSuffix(q.Get("error_description"), " (request "+id+")") {
			t.Errorf("%s: description %q does not name the request %s", code, q.Get("error_description"), id)
		}
		if strings.ContainsAny(s.Header.Get("Location"), "# ") || len(s.body) != 0 {
			t.Errorf("%s: a fragment, a space or a body", code)
		}
	}
}

// The registered query has its own order, escapes and an empty value, which must all be
// kept.
func TestAZ39_ARegisteredQueryIsKept(t *testing.T) {
	d, b := signedIn(t)
	for _, uri := range []string{
		"https://client.example/cb?dummy1=lorem&dummy2=ipsum", "https://client.example/cb?z=1&a=2&z=%7e+%2B&empty=&bare", "https://client.example/cb?state=own&iss=own",
	} {
		for code, s := range d.every(b, uri) {
			to := s.Header.Get("Location")
			if s.StatusCode != 303 || !strings.HasPrefix(to, uri+"&") || strings.Count(to, "?") != 1 {
				t.Errorf("%q: status %d to %.90q", code, s.StatusCode, to)
			}
		}
	}
}

// Error descriptions contain nothing from the request: requests that differ get the same
// text.
func TestAZ69_DescriptionsEchoNothing(t *testing.T) {
	d, b := signedIn(t)
	c := d.ours()
	const marker = "zQ9zQ9"
	for _, name := range []string{"scope", "response_type", "response_mode", "code_challenge", "code_challenge_method", "prompt", "max_age", "resource", "request", "request_uri"} {
		s := b.get(asking(c, name+"="+marker))
		if q := s.location().Query(); q.Get("error") == "" || strings.Contains(s.Header.Get("Location"), marker) {
			t.Errorf("%s: %s", name, s.Header.Get("Location"))
		}
	}
}

// checkPage checks the headers that every page has.
func checkPage(t *testing.T, what string, s shownPage) {
	t.Helper()
	csp := s.Header.Get("Content-Security-Policy")
	for _, directive := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "style-src 'self'"} {
		if !slices.Contains(strings.Split(csp, "; "), directive) {
			t.Errorf("%s: policy %q has no %s", what, csp, directive)
		}
	}
	for name, value := range map[string]string{
		"X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	} {
		if got := s.Header[name]; !slices.Equal(got, []string{value}) {
			t.Errorf("%s: %s %q", what, name, got)
		}
	}
}

func TestAZ42_AZ43_AZ44_AZ45_HeadersOfPagesAndRedirects(t *testing.T) {
	d, b := signedIn(t, registering)
	stranger := d.browser()
	login := stranger.follow(stranger.get(asking(d.a)))
	consent := b.follow(b.get(asking(d.a)))
	for what, s := range map[string]shownPage{
		"no parameters":        stranger.get(publicURL + "/oauth2/authorize"),
		"unknown client":       stranger.get(asking(d.a, "client_id=x")),
		"bounce":               b.get(asking(d.selfRegistered("Agent"), "scope=nonsense")),
		"login":                login,
		"consent":              consent,
		"no interaction":       b.get(interactionURL),
		"another method":       b.do("PUT", asking(d.a), nil),
		"another media type":   b.do("POST", asking(d.a), nil),
		"wrong form":           b.post(interactionURL, "id="+consent.field("id"), "step=consent", "decision=perhaps"),
		"form of another site": stranger.post(interactionURL, "id="+consent.field("id"), "step=consent", "decision=allow"),
		"connections":          b.get(connectionsURL),
		"logout":               b.get(logoutURL),
	} {
		if s.StatusCode == 303 || !strings.HasPrefix(s.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d, %s", what, s.StatusCode, s.Header.Get("Content-Type"))
		}
		checkPage(t, what, s)
	}
	for code, s := range d.every(b, redirect) {
		if s.StatusCode != http.StatusSeeOther {
			t.Errorf("%q: status %d", code, s.StatusCode)
		}
		checkPage(t, "redirect "+string(code), s)
	}
	for what, s := range map[string]shownPage{
		"to the login":         stranger.get(asking(d.a)),
		"to the consent":       b.get(asking(d.a)),
		"to the account login": stranger.get(connectionsURL),
		"after the consent":    b.post(interactionURL, "id="+consent.field("id"), "step=consent", "decision=allow"),
		"after a posted one":   b.post(authorizeURL, "client_id="+d.a.ID, "redirect_uri="+redirect),
		"after the logout":     b.post(logoutURL, "x=y"),
	} {
		if s.StatusCode != http.StatusSeeOther || s.Header.Get("Location") == "" {
			t.Errorf("%s: status %d", what, s.StatusCode)
		}
		checkPage(t, what, s)
	}
}

func TestAZ47_NoScriptOfAnotherOriginReadsAnything(t *testing.T) {
	const evil = "https://evil.example"
	d, b := signedIn(t, func(o *options) { o.CORSOrigins = []string{evil} })
	b.header = map[string]string{"Origin": evil, "Access-Control-Request-Method": "POST", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
	for _, method := range []string{"GET", "POST", "OPTIONS"} {
		for _, address := range []string{asking(d.a), asking(d.a, "client_id=x"), interactionURL + "?id=x", connectionsURL, logoutURL} {
			form := url.Values{"x": {"y"}}
			if method != "POST" {
				form = nil
			}
			s := b.do(method, address, form)
			for name := range s.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %.60s: %s", method, address, name)
				}
			}
			if method == "OPTIONS" && s.StatusCode != 405 || method == "POST" && s.StatusCode == 200 {
				t.Errorf("%s %.60s: status %d", method, address, s.StatusCode)
			}
		}
	}
}

func TestAZ67_ThePublishedAddress(t *testing.T) {
	d, b := signedIn(t)
	address, _ := d.metadata()["authorization_endpoint"].(string)
	u, err := url.Parse(address)
	if err != nil || u.Fragment != "" || u.RawQuery != "" || strings.Contains(address, "#") || u.Scheme != "https" {
		t.Fatalf("authorization_endpoint %q", address)
	}
	// The published address works as it is, and with the realm in its query.
	query := strings.TrimPrefix(asking(d.ours()), authorizeURL+"&")
	b.get(address+"?"+query).granted(t, redirect)
	if without := start(t, alone).metadata(); without["authorization_endpoint"] != nil {
		t.Error("an endpoint is published that is not there")
	}
}
