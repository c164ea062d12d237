package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/upstream"
)

// The client's parameters about the login are passed on to the OpenID Connect provider.
func TestTheClientsParametersReachTheProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newFixture(t, atProvider(p))
	all := []string{"login_hint", "ui_locales", "acr_values", "max_age", "prompt"}
	for asked, want := range map[string]map[string]string{
		"":                             {},
		"login_hint=al@shop":           {"login_hint": "al@shop"},
		"ui_locales=ja en":             {"ui_locales": "ja en"},
		"max_age=300":                  {"max_age": "300"},
		"max_age=0":                    {"max_age": "0"},
		"prompt=login":                 {"prompt": "login", "max_age": "0"},
		"prompt=select_account":        {"prompt": "select_account"},
		"scope=openid&acr_values=gold": {"acr_values": "gold"},
	} {
		s := r.browser().open(asking(r.shop, strings.Split(asked, "&")...))
		q := s.query()
		p.sent(s)
		for _, name := range all {
			if q.Get(name) != want[name] {
				t.Errorf("%q: %s is %q, want %q", asked, name, q.Get(name), want[name])
			}
		}
	}
	// For another account, the present session is not enough.
	b := r.signedIn("alice")
	page := b.open(asking(r.shop)).at(t, login.StepConsent)
	s := b.follow(b.post(interactionURL, "id="+page.field("id"), "step=consent", "action=switch"))
	if q := s.query(); q.Get("prompt") != "login" || q.Get("max_age") != "0" {
		t.Errorf("another account: %v", q)
	}
	// Two tabs of one interaction send the same request, so either may bring the answer.
	b = r.browser()
	first := b.open(asking(r.shop))
	if again := b.get(interactionURL + "?id=" + p.sent(first)); again.to() != first.to() {
		t.Errorf("once more: to %q, not %q", again.to(), first.to())
	}
}

// A login that is older than the client's max_age is refused, although the provider
// accepts it.
func TestAnOldLoginAtTheProviderIsRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newFixture(t, atProvider(p))
	for age, want := range map[time.Duration]int{time.Minute: http.StatusSeeOther, time.Hour: http.StatusBadGateway} {
		b := r.browser()
		p.claims["auth_time"] = p.now().Add(-age).Unix()
		state := p.sent(b.open(asking(r.shop, "max_age=300")))
		if s := b.get(callbackURL + "?code=c&state=" + state); s.StatusCode != want || b.isSignedIn() != (want == http.StatusSeeOther) {
			t.Errorf("a login of %v ago: status %d to %q", age, s.StatusCode, s.to())
		}
	}
}

// The session and the claims contain what the provider reports about the user.
func TestTheSessionContainsTheProvidersClaims(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newFixture(t, atProvider(p, func(c *upstream.Config) { c.Claims = map[string]string{"email": "mail"} }))
	authTime := p.now().Add(-time.Minute).Truncate(time.Second)
	p.claims = map[string]any{
		"name": "Ulla", "mail": "u@people.example", "auth_time": authTime.Unix(), "acr": "gold", "amr": []string{"hwk", "pin"}, "sid": "s1",
	}
	b := r.browser()
	state := p.sent(b.open(asking(r.shop, "scope=openid email")))
	r.kit.Clock.Advance(2 * time.Second)
	if s := b.get(callbackURL + "?code=c&state=" + state); s.to() != interactionURL+"?id="+state {
		t.Fatalf("status %d to %q", s.StatusCode, s.to())
	}
	s := must(r.Authorizer.Session(t.Context(), b.cookies[sessionName]))
	if s == nil || s.Subject != "people:42" || s.Name != "Ulla" || !s.AuthTime.Time().Equal(authTime) || s.Login != (openid.Login{ReportedACR: "gold", ReportedAMR: "hwk pin"}) {
		t.Fatalf("session %+v", s)
	}
	if c := must(r.Claims(t.Context(), "people:42")); string(c["email"]) != `"u@people.example"` {
		t.Errorf("claims %s", c)
	}
	// The same answer again redirects to the interaction.
	if s := b.get(callbackURL + "?code=c&state=" + state); s.to() != interactionURL+"?id="+state {
		t.Errorf("the back button: status %d to %q", s.StatusCode, s.to())
	}
	// A logout token for the provider's session ends this session, and one for another
	// session does not.
	r.browser().post(publicURL+"/oauth2/backchannel_logout", "logout_token="+p.logoutToken("j1", "s2"))
	if !b.isSignedIn() {
		t.Error("a logout of another session at the provider has ended this one")
	}
	r.browser().post(publicURL+"/oauth2/backchannel_logout", "logout_token="+p.logoutToken("j2", "s1"))
	if b.isSignedIn() {
		t.Error("a logout of the session at the provider has not ended this one")
	}
	// Without auth_time, the time of the login is the present.
	delete(p.claims, "auth_time")
	delete(p.claims, "sid")
	c := r.browser()
	c.get(callbackURL + "?code=c&state=" + p.sent(c.open(asking(r.shop))))
	if s := must(r.Authorizer.Session(t.Context(), c.cookies[sessionName])); s == nil || s.AuthTime != 0 && s.AuthTime != r.kit.At() {
		t.Errorf("session %+v", s)
	}
}

// The provider's answer is accepted only in the browser that began the login (RFC 9700
// section 4.7).
func TestAnAnswerOfTheProviderInAnotherBrowser(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newFixture(t, atProvider(p))
	b, victim := r.browser(), r.browser()
	state := p.sent(b.open(asking(r.shop)))
	before := p.nonce
	p.sent(victim.open(asking(r.shop)))
	if s := victim.get(callbackURL + "?code=c&state=" + state); s.StatusCode != http.StatusForbidden || victim.isSignedIn() {
		t.Errorf("another browser: status %d to %q", s.StatusCode, s.to())
	}
	if s := r.browser().get(callbackURL + "?code=c&state=" + state); s.StatusCode != http.StatusBadRequest {
		t.Errorf("a browser without cookies: status %d to %q", s.StatusCode, s.to())
	}
	for name, query := range map[string]string{"no state": "code=c", "two": "code=c&code=d&state=" + state, "another's (RFC 9207)": "code=c&iss=https://evil.example&state=" + state, "nothing": "state=" + state} {
		query = strings.ReplaceAll(query, state, p.sent(b.open(asking(r.shop))))
		if s := b.get(callbackURL + "?" + query); s.StatusCode < 400 || b.isSignedIn() {
			t.Errorf("%s: status %d to %q", name, s.StatusCode, s.to())
		}
	}
	// After a failure, the next attempt is a new login at the provider.
	b.get(callbackURL + "?state=" + state)
	p.sent(b.get(interactionURL + "?id=" + state))
	if p.nonce == before {
		t.Error("the next attempt uses the same nonce")
	}
	// An answer to a restarted interaction redirects to its successor.
	must(r.Authorizer.Answer(t.Context(), login.Visitor{Browser: b.cookies[browserName]}, login.Answer{Interaction: state, From: login.FromForm, Form: login.Form{Step: login.StepLogin, Action: "switch"}}))
	if s := b.get(callbackURL + "?code=c&state=" + state); s.StatusCode != http.StatusSeeOther || !strings.HasPrefix(s.to(), interactionURL) || s.to() == interactionURL+"?id="+state {
		t.Errorf("begun again: status %d to %q", s.StatusCode, s.to())
	}
}

func TestALogoutTokenOfTheProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newFixture(t, atProvider(p))
	b := r.signedIn("alice", func(who *login.Identity) { who.Subject, who.Provider = "people:42", p.url+"\x00s1" })
	send := func(pairs ...string) shownPage {
		return r.browser().post(publicURL+"/oauth2/backchannel_logout", pairs...)
	}
	good := p.logoutToken("j1", "s1")
	forger := newProvider(t)
	forger.now, forger.url = p.now, p.url
	for name, pairs := range map[string][]string{
		"nothing": nil, "twice": {"logout_token=" + good, "logout_token=" + good}, "forged": {"logout_token=" + forger.logoutToken("j", "s1")},
	} {
		if s := send(pairs...); s.StatusCode != http.StatusBadRequest || !strings.Contains(s.body, `"error":"invalid_request"`) || !b.isSignedIn() {
			t.Errorf("%s: status %d, %s", name, s.StatusCode, s.body)
		}
	}
	p.down = true
	r.kit.Clock.Advance(2 * time.Minute) // its keys are read once a minute
	p.renew()
	if s := send("logout_token=" + p.logoutToken("j0", "s1")); s.StatusCode != http.StatusServiceUnavailable || !b.isSignedIn() {
		t.Errorf("while its keys cannot be read: status %d", s.StatusCode)
	}
	p.down = false
	r.kit.Clock.Advance(2 * time.Minute)
	again := p.logoutToken("j2", "s1")
	if s := send("logout_token=" + again); s.StatusCode != http.StatusOK || s.body != "{}" || b.isSignedIn() {
		t.Errorf("good: status %d, %s", s.StatusCode, s.body)
	}
	if s := send("logout_token=" + again); s.StatusCode != http.StatusBadRequest {
		t.Errorf("once more: status %d", s.StatusCode)
	}
}

// A handoff login page receives the challenge and the language, and the browser returns
// with the verifier.
func TestAPortal(t *testing.T) {
	t.Parallel()
	r := newFixture(t, handoff)
	b := r.browser()
	s := b.open(asking(r.shop, "ui_locales=ja"))
	q := s.query()
	challenge := q.Get("challenge")
	if !strings.HasPrefix(s.to(), "https://portal.example/login?") || q.Get("a") != "b" || challenge == "" || q.Get("ui_locales") != "ja" {
		t.Fatalf("to %q", s.to())
	}
	if q := b.open(asking(r.shop)).query(); q.Has("ui_locales") {
		t.Errorf("ui_locales %q", q.Get("ui_locales"))
	}
	next := must(r.Authorizer.AcceptLogin(t.Context(), challenge, login.Identity{Subject: "42", Name: "Ulla", Claims: `{"email":"u@people.example"}`}))
	if s := b.get(interactionURL + "?id=" + challenge + "&verifier=x"); s.StatusCode != http.StatusForbidden || b.isSignedIn() {
		t.Errorf("another proof: status %d", s.StatusCode)
	}
	if s := b.get(interactionURL + "?id=" + challenge); b.isSignedIn() || s.query().Get("challenge") != challenge {
		t.Errorf("no proof: status %d to %q", s.StatusCode, s.to())
	}
	if s := r.browser().get(next); s.StatusCode != http.StatusBadRequest {
		t.Errorf("another browser: status %d", s.StatusCode)
	}
	if s := b.get(next).at(t, login.StepConsent); !strings.Contains(s.body, "Ulla") || s.Header.Get("Set-Cookie") == "" {
		t.Error("the consent page does not name the user")
	}
	if c := must(r.Claims(t.Context(), "42")); string(c["email"]) != `"u@people.example"` {
		t.Errorf("claims %s", c)
	}
	// A password form is refused for a login at a handoff login page.
	if s := b.post(interactionURL, "id="+b.open(asking(r.shop, "prompt=login")).query().Get("challenge"), "step=login", "username=alice", "password="+password); s.StatusCode != http.StatusBadRequest {
		t.Errorf("a password: status %d", s.StatusCode)
	}
	// The forms of these pages may redirect to the login page.
	if csp := b.get(connectionsURL).Header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' https:;") {
		t.Errorf("the policy is %q", csp)
	}
}

func TestClaimsOfABuiltInUser(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	if c := must(r.Claims(t.Context(), "s-alice")); string(c["name"]) != `"User alice"` {
		t.Errorf("claims %s", c)
	}
	if c, err := r.Claims(t.Context(), "nobody"); len(c) > 0 || err != nil {
		t.Errorf("claims of nobody: %s, %v", c, err)
	}
}

// A response with form_post is a page with fields. Its policy allows its script and the
// target of the form.
func TestAResponseByPOST(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.signedIn("alice")
	address := asking(r.shop, "response_mode=form_post", "state=a b&c")
	page := b.open(address).at(t, login.StepConsent)
	for _, s := range []shownPage{
		b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=allow", "remember=yes"), b.get(address),
		b.get(asking(r.shop, "response_mode=form_post", "prompt=none", "state=a b&c", "scope=b")),
	} {
		csp := s.Header.Get("Content-Security-Policy")
		if s.StatusCode != http.StatusOK || !strings.Contains(s.body, `action="`+redirectURI+`"`) || s.field("state") != "a b&amp;c" || (s.field("code") == "") == (s.field("error") == "") {
			t.Errorf("status %d, code %q, error %q, state %q", s.StatusCode, s.field("code"), s.field("error"), s.field("state"))
		}
		if s.Header.Get("Referrer-Policy") != "origin" || !strings.Contains(csp, "script-src 'sha256-") || !strings.Contains(csp, "form-action https:;") {
			t.Errorf("%v", s.Header)
		}
	}
}

// Every page forbids frames, scripts and caches, whatever its status.
func TestHeadersOfEveryPage(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.signedIn("alice")
	stranger := r.browser()
	stranger.header["Sec-Fetch-Site"] = "cross-site"
	consent := b.open(asking(r.shop)).at(t, login.StepConsent)
	for name, s := range map[string]shownPage{
		"login": r.browser().open(asking(r.shop)), "consent": consent, "connections": b.get(connectionsURL), "logout": b.get(logoutURL), "signed out": r.browser().get(logoutURL),
		"a client's logout": b.open(endSessionURL + "?client_id=shop"), "error": b.get(asking(r.shop, "redirect_uri=https://evil.example/")), "unknown": b.get(interactionURL + "?id=x"),
		"cross-site": stranger.do("POST", logoutURL, url.Values{}), "method": b.do("PUT", connectionsURL, nil), "expired": b.get(interactionURL),
	} {
		h := s.Header
		if h.Get("X-Frame-Options") != "DENY" || h.Get("Referrer-Policy") != "same-origin" || h.Get("Cache-Control") != "no-store" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" ||
			h.Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'") ||
			!strings.HasSuffix(h.Get("Content-Security-Policy"), "; frame-ancestors 'none'; base-uri 'none'") {
			t.Errorf("%s (%d): %v", name, s.StatusCode, h)
		}
		if s.StatusCode == http.StatusMethodNotAllowed && h.Get("Allow") != "GET, POST" {
			t.Errorf("Allow %q", h.Get("Allow"))
		}
		css := b.get(publicURL + regexp.MustCompile(`/account/assets/[^"]+\.css`).FindString(s.body))
		if css.StatusCode != http.StatusOK || !strings.HasPrefix(css.Header.Get("Content-Type"), "text/css") || css.Header.Get("Cache-Control") != "public, max-age=3600" {
			t.Errorf("the style sheet of %s: status %d, %v", name, css.StatusCode, css.Header)
		}
	}
	// The consent page's form may redirect to the client.
	if csp := consent.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' https:;") {
		t.Errorf("the policy of the consent page is %q", csp)
	}
}

func TestRedirectsByTheAddressAlone(t *testing.T) {
	t.Parallel()
	b := newFixture(t).browser()
	b.header["Accept"] = "text/html"
	for path, want := range map[string]int{"/": 303, "/account": 303, "/account/": 303, "/nothing": 404} {
		s := b.get(publicURL + path)
		if s.StatusCode != want || want == 303 && s.to() != connectionsURL {
			t.Errorf("%s: status %d to %q", path, s.StatusCode, s.to())
		}
	}
}

// The logout page offers what is configured, and ends only the session that it shows.
func TestThePageToSignOut(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	for name, c := range map[string]struct {
		choose     []func(*fixture, *choice)
		everywhere bool
		policy     string
	}{
		"here":          {nil, false, "form-action 'self';"},
		"everywhere":    {[]func(*fixture, *choice){everywhere(nil)}, true, "form-action 'self';"},
		"passed on":     {[]func(*fixture, *choice){atProvider(p, func(c *upstream.Config) { c.LogoutURL = logoutURL })}, false, "form-action 'self' https: " + p.url + ";"},
		"not passed on": {[]func(*fixture, *choice){atProvider(p)}, false, "form-action 'self';"},
	} {
		r := newFixture(t, c.choose...)
		b := r.signedIn("alice")
		s := b.get(logoutURL)
		if c := b.r.signedIn("alice"); r.Upstream != nil && name == "not passed on" && c.post(logoutURL).to() != logoutURL {
			t.Error("the logout is passed on")
		}
		if !strings.Contains(s.body, "User alice") || strings.Contains(s.body, `name="everywhere"`) != c.everywhere || !strings.Contains(s.Header.Get("Content-Security-Policy"), c.policy) {
			t.Errorf("%s: status %d, policy %q", name, s.StatusCode, s.Header.Get("Content-Security-Policy"))
		}
		// If another user has signed in since, the page is shown again with that user.
		mark := s.field("session")
		if r.Users != nil {
			r.user("bob")
		}
		b.cookies[sessionName] = r.signedIn("bob").cookies[sessionName]
		s = b.post(logoutURL, "session="+mark)
		if s.StatusCode != http.StatusOK || !strings.Contains(s.body, "User bob") || s.field("session") == mark || !b.isSignedIn() {
			t.Errorf("%s, and another user has signed in: status %d", name, s.StatusCode)
		}
		if b.post(logoutURL, "session="+s.field("session")); b.isSignedIn() {
			t.Errorf("%s: the form of the session does not end it", name)
		}
	}
	r := newFixture(t)
	r.user("bob")
	b := r.signedIn("alice")
	page := b.open(endSessionURL+"?client_id=shop").at(t, stepLogout)
	if !strings.Contains(page.body, "Shop") || !strings.Contains(page.body, "User alice") {
		t.Error("the page does not name both the client and the user")
	}
	b.cookies[sessionName] = r.signedIn("bob").cookies[sessionName]
	if s := b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout", "session="+page.field("session")); s.StatusCode != http.StatusOK || !strings.Contains(s.body, "User bob") || !b.isSignedIn() {
		t.Errorf("a client's logout, and another user has signed in: status %d", s.StatusCode)
	}
}

// A logout that a client requests goes to the provider, and back to the client. If the
// provider fails, the logout still succeeds.
func TestALogoutGoesByTheProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newFixture(t, atProvider(p, func(c *upstream.Config) { c.LogoutURL = logoutURL }))
	b := r.signedIn("alice", func(who *login.Identity) { who.Subject = "people:42" })
	hint := b.hint(r.shop)
	s := b.get(endSessionURL + "?id_token_hint=" + hint + "&state=x&post_logout_redirect_uri=" + afterLogout)
	q := s.query()
	if !strings.HasPrefix(s.to(), p.url+"/end?") || q.Get("post_logout_redirect_uri") != logoutURL || q.Get("state") == "" || q.Get("logout_hint") != "42" || b.isSignedIn() {
		t.Fatalf("status %d to %q", s.StatusCode, s.to())
	}
	if s := b.get(logoutURL + "?state=" + q.Get("state")); s.to() != interactionURL+"?id="+q.Get("state") {
		t.Errorf("back from the provider: status %d to %q", s.StatusCode, s.to())
	} else if s = b.follow(s); s.to() != afterLogout+"?state=x" {
		t.Errorf("and then: status %d to %q", s.StatusCode, s.to())
	}
	if s := b.get(logoutURL + "?state=a%26b"); s.to() != interactionURL+"?id=a%26b" {
		t.Errorf("a state that is none: to %q", s.to())
	}
	// Without a session, no logout is forwarded to the provider.
	if s := b.get(endSessionURL + "?post_logout_redirect_uri=" + afterLogout + "&client_id=shop"); s.to() != afterLogout {
		t.Errorf("nobody is signed in: to %q", s.to())
	}
	for name, spoil := range map[string]func(*provider){"down": func(p *provider) { p.down = true }, "no endpoint": func(p *provider) { p.endless = true }} {
		p := newProvider(t)
		spoil(p)
		r := newFixture(t, atProvider(p, func(c *upstream.Config) { c.LogoutURL = logoutURL }))
		b := r.signedIn("alice")
		hint := b.hint(r.shop)
		if s := b.get(endSessionURL + "?id_token_hint=" + hint + "&post_logout_redirect_uri=" + afterLogout); s.to() != afterLogout || b.isSignedIn() {
			t.Errorf("%s: status %d to %q", name, s.StatusCode, s.to())
		}
		b = r.signedIn("alice")
		if s := b.post(logoutURL); s.to() != logoutURL || b.isSignedIn() {
			t.Errorf("%s: status %d to %q", name, s.StatusCode, s.to())
		}
		if n := r.kit.Logged.Count("cannot pass a logout on"); n != 2 {
			t.Errorf("%s: logged %d times", name, n)
		}
	}
	// Without a provider, the logout page ignores state.
	plain := newFixture(t)
	if s := plain.browser().get(logoutURL + "?state=x"); s.StatusCode != http.StatusOK {
		t.Errorf("without a provider, state has an effect: status %d to %q", s.StatusCode, s.to())
	}
}
