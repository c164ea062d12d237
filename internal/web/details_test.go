package web_test

import (
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
	"github.com/mintage/mintage/internal/upstream"
)

// Requests without TLS are refused, and so are those of an address with too many failures.
func TestRequestsWithoutTLSOrAfterFailuresAreRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newFixture(t, atProvider(p), func(_ *fixture, c *choice) { c.limits.AddressFailures = 1 })
	b := r.signedIn("alice", func(who *login.Identity) { who.Subject, who.Provider = "people:42", p.url+"\x00s1" })
	try := func(why string, status int) {
		t.Helper()
		for name, s := range map[string]shownPage{
			"authorize": b.get(asking(r.shop)), "interaction": b.get(interactionURL + "?id=x"), "connections": b.get(connectionsURL), "logout": b.post(logoutURL),
			"end_session": b.get(endSessionURL), "callback": b.get(callbackURL + "?state=x"),
			"logout of the provider": b.post(publicURL+"/oauth2/backchannel_logout", "logout_token="+p.logoutToken("j", "s1")),
		} {
			if s.StatusCode != status || s.to() != "" || len(s.Cookies()) > 0 || !b.isSignedIn() {
				t.Errorf("%s %s: status %d to %q", name, why, s.StatusCode, s.to())
			}
		}
	}
	b.plain = true
	try("without TLS", http.StatusBadRequest)
	b.plain = false
	for range 2 {
		r.server.Throttle.Failed(netip.MustParseAddr("192.0.2.1"), "shop")
	}
	try("to a guesser", http.StatusTooManyRequests)
}

// A session records how and when the user was authenticated, and by which user record.
func TestASessionRecordsItsLogin(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	session := func(b *browser) *login.Session {
		t.Helper()
		s := must(r.Authorizer.Session(t.Context(), b.cookies[sessionName]))
		if s == nil {
			t.Fatal("nobody is signed in")
		}
		return s
	}
	another := "another long password"
	r.change("alice", func(u account.User) account.User { return must(u.SetPassword(another, r.kit.At())) })
	b := r.browser()
	b.logIn(b.open(asking(r.shop)).at(t, login.StepLogin), "alice", another)
	if s := session(b); s.Login != openid.Password || s.AuthTime != r.kit.At() || s.Username != "alice" || s.Subject != "s-alice" || s.Name != "User alice" {
		t.Errorf("%+v", s.Identity)
	}
	r.change("alice", func(u account.User) account.User { return must(u.SetPassword("a third long password", r.kit.At())) })
	if b.isSignedIn() {
		t.Error("a session is valid after a change of its password")
	}
	code := r.secondFactor("alice")
	r.kit.Clock.Advance(time.Minute)
	page := b.follow(b.logIn(b.open(asking(r.shop)).at(t, login.StepLogin), "alice", "a third long password")).at(t, login.StepSecondFactor)
	b.post(interactionURL, "id="+page.field("id"), "step=second_factor", "code="+code())
	if s := session(b); s.Login != openid.PasswordAndOTP || s.AuthTime != r.kit.At() {
		t.Errorf("%+v", s.Identity)
	}
}

// After too many failures, the form says how long the user must wait, and not that the
// password is wrong.
func TestTheThrottledFormSaysForHowLong(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(_ *fixture, c *choice) { c.Users.SetFailures(1) })
	code := r.secondFactor("alice")
	b := r.browser()
	page := b.open(asking(r.shop)).at(t, login.StepLogin)
	factor := b.follow(b.logIn(page, "alice", password)).at(t, login.StepSecondFactor)
	again := b.open(asking(r.shop)).at(t, login.StepLogin)
	for name, c := range map[string]struct {
		wrong, right func() shownPage
	}{
		"password": {func() shownPage { return b.logIn(again, "alice", "wrong") }, func() shownPage { return b.logIn(again, "alice", password) }},
		"code": {func() shownPage {
			return b.post(interactionURL, "id="+factor.field("id"), "step=second_factor", "code=1")
		},
			func() shownPage {
				return b.post(interactionURL, "id="+factor.field("id"), "step=second_factor", "code="+code())
			}},
	} {
		wrong, throttled := c.wrong(), c.right()
		if wrong.StatusCode != http.StatusUnprocessableEntity || throttled.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("%s: status %d and %d", name, wrong.StatusCode, throttled.StatusCode)
		}
		wait := regexp.MustCompile(`Please wait (one minute|\D*[0-9]+\D* minutes)`)
		if wait.MatchString(wrong.body) || !wait.MatchString(throttled.body) {
			t.Errorf("%s: the page does not say for how long", name)
		}
	}
}

// An error page names the client if the request identifies it.
func TestThePageAboutAnErrorNamesTheClient(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.signedIn("alice")
	for name, address := range map[string]string{
		"authorize":   asking(r.shop, "redirect_uri=https://evil.example/"),
		"end_session": endSessionURL + "?client_id=shop&post_logout_redirect_uri=https://evil.example/",
	} {
		if s := b.get(address); s.StatusCode != http.StatusBadRequest || !strings.Contains(s.body, "Shop") || strings.Contains(s.body, "evil") {
			t.Errorf("%s: status %d", name, s.StatusCode)
		}
	}
	if s := b.post(interactionURL, "id="+strings.Repeat("x", 70_000)); s.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a form too large: status %d", s.StatusCode)
	}
	page := b.open(asking(r.shop, "prompt=login")).at(t, login.StepLogin)
	if s := b.post(interactionURL, "id="+page.field("id"), "step=login", "password=x", "username="+strings.Repeat("x", 256)); s.StatusCode != http.StatusBadRequest {
		t.Errorf("a field too long: status %d", s.StatusCode)
	}
}

// An error page shows an error response with response_mode=form_post as a form, which the
// user submits.
func TestAnErrorThatAClientTakesByPOST(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(_ *fixture, c *choice) { c.ErrorPage = true })
	s := r.browser().get(asking(r.shop, "scope=unknown", "response_mode=form_post"))
	if !strings.Contains(s.body, `action="`+redirectURI+`"`) || s.field("error") != "invalid_scope" || s.field("state") != "st" || strings.Contains(s.body, "<script") {
		t.Errorf("status %d, error %q, state %q", s.StatusCode, s.field("error"), s.field("state"))
	}
	if csp := s.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action https:;") || strings.Contains(csp, "script-src") {
		t.Errorf("policy %q", csp)
	}
}

// The consent page lists new scopes and those granted before, each once.
func TestTheConsentPageMarksNewScopes(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	c := r.client(client.Registration{ID: "c", Settings: store.Settings{Name: "C", Scope: "alpha bravo charlie"}})
	b := r.signedIn("alice")
	count := func(s shownPage, name string) int { return strings.Count(s.body, name) }
	first := b.open(asking(c, "scope=alpha bravo")).at(t, login.StepConsent)
	b.post(interactionURL, "id="+first.field("id"), "step=consent", "decision=allow")
	second := b.open(asking(c, "scope=alpha charlie")).at(t, login.StepConsent)
	if count(first, "alpha") == 0 || count(second, "alpha") != count(first, "alpha") || count(second, "charlie") != count(first, "bravo") || count(second, "bravo") != 0 {
		t.Errorf("alpha %d, then %d; charlie %d; bravo %d, then %d", count(first, "alpha"), count(second, "alpha"), count(second, "charlie"), count(first, "bravo"), count(second, "bravo"))
	}
	plain := b.open(asking(r.shop, "scope=a")).at(t, login.StepConsent)
	if marked := func(s shownPage) bool { return strings.Contains(s.body, `class="new"`) }; marked(first) || marked(plain) || !marked(second) {
		t.Errorf("marked as new: %t, %t, %t", marked(first), marked(plain), marked(second))
	}
}

// The list of connections shows when each was last used.
func TestAConnectionSaysWhenItWasUsed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.signedIn("alice")
	code := b.agree(asking(r.shop)).query().Get("code")
	times := func() int { return strings.Count(r.signedIn("alice").get(connectionsURL).body, "<time") }
	before := times()
	must(r.kit.Exchange(t.Context(), &r.shop, codeRequest(code)))
	if after := times(); before != 1 || after != 2 {
		t.Errorf("%d instants are shown, and %d after the first use", before, after)
	}
}

// A login at the provider ends the session of another user in the browser.
func TestALoginAtTheProviderEndsTheSessionOfAnotherUser(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newFixture(t, atProvider(p))
	b := r.signedIn("alice")
	before := b.cookies[sessionName]
	redeemed := 0
	p.asked = func(path string) {
		if path == "/token" {
			redeemed++
		}
	}
	p.claims["auth_time"] = p.now().Unix()
	callback := callbackURL + "?code=c&state=" + p.sent(b.open(asking(r.shop, "prompt=login")))
	b.get(callback)
	b.get(callback)
	if redeemed != 1 {
		t.Errorf("the provider's code was redeemed %d times", redeemed)
	}
	now := b.cookies[sessionName]
	if b.cookies[sessionName] = before; b.isSignedIn() {
		t.Error("the session of the other user is still valid")
	}
	if b.cookies[sessionName] = now; !b.isSignedIn() {
		t.Error("nobody is signed in")
	}
	// The consent page's form may redirect to the client, and to the provider.
	consent := b.open(asking(r.shop)).at(t, login.StepConsent)
	if csp := consent.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' https: "+p.url+";") {
		t.Errorf("policy %q", csp)
	}
}

// A subject that becomes the sub of an id_token must be ASCII (OpenID Connect Core section
// 2). Without openid, any subject is allowed.
func TestASubjectOfTheProviderThatIsNotASCII(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newFixture(t, atProvider(p, func(c *upstream.Config) { c.SubjectPrefix = "" }))
	p.claims["sub"] = strings.Repeat("ü", 40)
	for scope, want := range map[string]bool{"a": true, "openid": false} {
		b := r.browser()
		s := b.get(callbackURL + "?code=c&state=" + p.sent(b.open(asking(r.shop, "scope="+scope))))
		if b.isSignedIn() != want {
			t.Errorf("scope %s: status %d to %q", scope, s.StatusCode, s.to())
		}
	}
}

// A logout token with a session and a subject ends the session only if it is the
// subject's. The token is remembered for as long as it could be replayed.
func TestALogoutTokenAboutAnotherSubject(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newFixture(t, atProvider(p))
	session := "s1"
	signedIn := func() *browser {
		return r.signedIn("alice", func(who *login.Identity) { who.Subject, who.Provider = "people:42", p.url+"\x00s1" })
	}
	b := signedIn()
	send := func(id, sub string) shownPage {
		p.claims["sub"] = sub
		return r.browser().post(publicURL+"/oauth2/backchannel_logout", "logout_token="+p.logoutToken(id, session))
	}
	if s := send("j1", "43"); s.StatusCode != http.StatusOK || !b.isSignedIn() {
		t.Errorf("of another subject: status %d, signed in %t", s.StatusCode, b.isSignedIn())
	}
	if s := send("j2", "42"); s.StatusCode != http.StatusOK || b.isSignedIn() {
		t.Errorf("of this subject: status %d, signed in %t", s.StatusCode, b.isSignedIn())
	}
	d := must(r.kit.Engine.Document(t.Context(), store.KeyOf(store.DocumentProviderLogout, testkit.Realm, p.url+"\x00j2")))
	if until := grant.At(p.now().Add(2 * time.Minute)); d.ExpiresAt < until {
		t.Errorf("the token is remembered for %v", d.ExpiresAt.Since(r.kit.At()))
	}
	b, session = signedIn(), ""
	if s := send("j3", "42"); s.StatusCode != http.StatusOK || b.isSignedIn() {
		t.Errorf("of all sessions of the subject: status %d, signed in %t", s.StatusCode, b.isSignedIn())
	}
}

// A logout that is forwarded to the provider is stored once, and counts towards the limit.
func TestALogoutThatIsPassedOnIsStoredOnce(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	passing := atProvider(p, func(c *upstream.Config) { c.LogoutURL = logoutURL })
	r := newFixture(t, passing)
	b := r.signedIn("alice")
	page := b.open(endSessionURL+"?client_id=shop&post_logout_redirect_uri="+afterLogout).at(t, stepLogout)
	s := b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout")
	if s.query().Get("state") != page.field("id") {
		t.Errorf("to %q, and the logout is %s", s.to(), page.field("id"))
	}
	if b.cookies[sessionName] != "" {
		t.Error("the cookie of the session is still there")
	}
	r = newFixture(t, passing, func(_ *fixture, c *choice) { c.limits.Interactions = 3 })
	for i, want := range []string{p.url, p.url, afterLogout} {
		b := r.signedIn("alice")
		hint := b.hint(r.shop) // the first login also begins an interaction, for the consent
		if s := b.get(endSessionURL + "?id_token_hint=" + hint + "&post_logout_redirect_uri=" + afterLogout); !strings.HasPrefix(s.to(), want) {
			t.Errorf("logout %d: to %q", i+1, s.to())
		}
	}
}

// A server fault that redirects the browser to the client must be logged as an error,
// because the status does not show it.
func TestAFaultThatIsReportedToTheClientIsLogged(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.signedIn("alice")
	r.meanwhile(func() { r.kit.Faulty.Inject(storetest.Document, 1, storetest.Lost) })
	s := b.get(asking(r.shop, "prompt=none"))
	if s.StatusCode != http.StatusSeeOther || s.query().Get("error") != "temporarily_unavailable" {
		t.Fatalf("status %d to %q", s.StatusCode, s.to())
	}
	if log := r.kit.Logged.String(); !strings.Contains(log, "level=ERROR") {
		t.Errorf("the log has no error:\n%s", log)
	}
}

// If a request has two cookies of one name, both are ignored. So is a cookie of invalid
// form.
func TestDuplicateAndMalformedCookies(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.signedIn("alice")
	own := b.cookies[sessionName]
	b.header["Cookie"], b.cookies[sessionName] = sessionName+"="+own, "planted"
	if s := b.get(connectionsURL); s.StatusCode != http.StatusSeeOther {
		t.Errorf("two sessions: status %d", s.StatusCode)
	}
	for _, known := range []string{"%", "x", strings.Repeat("A", 172), strings.Repeat("A", 4000)} {
		c := r.browser()
		c.cookies[knownName] = known
		if s := c.logIn(c.open(asking(r.shop)).at(t, login.StepLogin), "alice", password); s.StatusCode != http.StatusSeeOther || c.cookies[knownName] == known {
			t.Errorf("a known browser of %.10s: status %d", known, s.StatusCode)
		}
	}
}

// An error page has the request's id, by which an operator finds its log lines. It leads
// back to the client if that is safe.
func TestContentsOfTheErrorPage(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	for name, c := range map[string]struct {
		choose []func(*fixture, *choice)
		do     func(*fixture, *browser) shownPage
		status int
		has    []string
		back   bool
	}{
		"a redirect URI that is not registered": {do: func(r *fixture, b *browser) shownPage {
			return b.get(asking(r.shop, "redirect_uri=https://evil.example/"))
		},
			status: http.StatusBadRequest, has: []string{"Shop", "invalid_request", "redirect_uri not registered"}},
		"a store that does not answer": {do: func(r *fixture, b *browser) shownPage {
			r.kit.Faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
			return b.get(asking(r.shop))
		}, status: http.StatusServiceUnavailable, has: []string{"temporarily_unavailable"}},
		"a provider that is down": {choose: []func(*fixture, *choice){atProvider(p)}, do: func(r *fixture, b *browser) shownPage {
			state := p.sent(b.open(asking(r.shop)))
			p.down = true
			b.header["Sec-Fetch-Site"] = "cross-site"
			return b.get(callbackURL + "?code=c&state=" + state)
		}, status: http.StatusBadGateway, has: []string{"Shop"}, back: true},
		"a provider that is down, and the account pages": {choose: []func(*fixture, *choice){atProvider(p)}, do: func(r *fixture, b *browser) shownPage {
			state := p.sent(b.open(connectionsURL))
			p.down = true
			b.header["Sec-Fetch-Site"] = "cross-site"
			return b.get(callbackURL + "?code=c&state=" + state)
		}, status: http.StatusBadGateway},
	} {
		p.down = false
		r := newFixture(t, c.choose...)
		s := c.do(r, r.browser())
		id := s.Header.Get("X-Request-Id")
		for _, text := range append(c.has, id) {
			if text == "" || !strings.Contains(s.body, text) {
				t.Errorf("%s: %q is missing in\n%s", name, text, s.body)
			}
		}
		if s.StatusCode != c.status || strings.Contains(s.body, `href="`+redirectURI+`?error=access_denied`) != c.back {
			t.Errorf("%s: status %d, or no way back\n%s", name, s.StatusCode, s.body)
		}
	}
}
