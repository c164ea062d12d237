package conformance_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
)

func TestUI09_CookiesAreTheHostsAndOutOfReachOfScripts(t *testing.T) {
	d, b := visitor(t)
	begun := b.get(asking(d.a))
	page := b.follow(begun).at(t, "login")
	signed := b.post(interactionURL, "id="+page.field("id"), "step=login", "username="+username, "password="+password)
	b.decide(b.follow(signed).at(t, "consent"), "allow").code(t, redirect)
	d.step(2 * time.Minute)
	renewed := b.get(asking(d.a))
	out := b.post(logoutURL)
	for _, c := range []*http.Cookie{begun.set(browserName), signed.set(sessionName), signed.set(knownName), renewed.set(sessionName), out.set(sessionName)} {
		if c == nil {
			t.Fatal("a cookie is not set")
		}
		// With SameSite=Strict, the cookie would be missing when a user arrives from a
		// client's site.
		if !strings.HasPrefix(c.Name, "__Host-") || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
			t.Errorf("%s", strings.Replace(c.String(), c.Value, "...", 1))
		}
		if len(c.Value) > 128 {
			t.Errorf("%s is %d bytes long", c.Name, len(c.Value))
		}
	}
	if c := signed.set(sessionName); c.MaxAge != 0 || !c.Expires.IsZero() || len(c.Value) < 43 {
		t.Errorf("the session's cookie has %d characters and outlives the browser: %v", len(c.Value), c.MaxAge)
	}
	if c := out.set(sessionName); c.MaxAge >= 0 || c.Value != "" {
		t.Error("the logout does not remove the cookie")
	}
}

func TestUI10_ALoginGetsASessionOfItsOwn(t *testing.T) {
	d, b := visitor(t)
	d.user("bob", cheaply)
	// A planted cookie is not a session, and a login does not make it one.
	planted := strings.Repeat("A", 72)
	b.setCookie(sessionName, planted)
	consent := b.logIn(b.open(asking(d.a)).at(t, "login"), username, password).at(t, "consent")
	first := b.cookie(sessionName)
	if first == planted || first == "" {
		t.Fatal("the planted session goes on")
	}
	b.decide(consent, "allow").code(t, redirect)

	// Each login gets a new session; the old one ends.
	for _, who := range []string{username, "bob"} {
		old := b.cookie(sessionName)
		page := b.open(asking(d.a, "prompt=login")).at(t, "login")
		b.logIn(page, who, password).at(t, "consent")
		if b.cookie(sessionName) == old {
			t.Fatal("the session did not change at the login")
		}
		if d.hasSession(old) {
			t.Errorf("the session from before the login of %s is alive", who)
		}
	}
	for _, dead := range []string{planted, first} {
		if d.hasSession(dead) {
			t.Error("a session is alive that was none, or has ended")
		}
	}
}

// hasSession reports whether a cookie alone signs a new browser in.
func (d *deployment) hasSession(cookie string) bool {
	d.t.Helper()
	b := d.browser()
	b.setCookie(sessionName, cookie)
	s := b.get(connectionsURL)
	if s.StatusCode >= http.StatusBadRequest {
		d.t.Fatalf("status %d, %q", s.StatusCode, s.title())
	}
	return s.StatusCode == http.StatusOK
}

func TestUI11_LogoutEndsTheSessionOnTheServer(t *testing.T) {
	d, b := signedIn(t)
	cookie := b.cookie(sessionName)
	b.header = map[string]string{"Sec-Fetch-Site": "cross-site"}
	b.post(logoutURL).says(t, http.StatusForbidden, pages.CrossSite)
	b.header = map[string]string{"Sec-Fetch-Site": "same-origin"}
	if s := b.get(logoutURL); s.title() != "Sign out?" || !d.hasSession(cookie) {
		t.Fatalf("GET signs out, or does not ask: %q", s.title())
	}
	s := b.post(logoutURL)
	if s.StatusCode != http.StatusSeeOther || b.cookie(sessionName) != "" {
		t.Errorf("status %d, and the cookie is still there: %t", s.StatusCode, b.cookie(sessionName) != "")
	}
	if after := b.follow(s); after.title() != "You are signed out" {
		t.Errorf("then %q", after.title())
	}
	if d.hasSession(cookie) {
		t.Error("the session goes on for whoever has kept its cookie")
	}
	// Signing out again is no error.
	if s := b.follow(b.post(logoutURL)); s.title() != "You are signed out" {
		t.Errorf("signing out twice: %q", s.title())
	}
}

func TestUI21_BackAndResubmitShowNothingOldAndGiveNothingNew(t *testing.T) {
	d, b := visitor(t)
	login := b.open(asking(d.a)).at(t, "login")
	consent := b.logIn(login, username, password).at(t, "consent")
	for _, s := range []shownPage{login, consent} {
		if got := s.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s is %s", s.title(), got)
		}
	}
	session := b.cookie(sessionName)
	// Submitting the login form again, even with another password, does nothing: the step
	// is done.
	b.logIn(login, username, "another").at(t, "consent")
	if b.cookie(sessionName) != session {
		t.Error("a form that was sent before made another session")
	}
	code := b.decide(consent, "allow").code(t, redirect)
	d.mustIssue(d.post(d.a.challenged(code)))
	for _, s := range []shownPage{b.decide(consent, "allow"), b.decide(consent, "deny"), b.open(interactionURL + "?id=" + login.field("id")), b.logIn(login, username, password)} {
		s.says(t, http.StatusConflict, pages.InteractionAnswered)
	}
	if n := len(d.grants()); n != 1 {
		t.Errorf("%d grants of one consent", n)
	}
}

func TestUI22_TheCodeIsOfTheAccountThatWasChosen(t *testing.T) {
	d, b := signedIn(t)
	d.user("bob", cheaply)
	subjects := map[string]int{}
	redeem := func(s shownPage) {
		t.Helper()
		d.mustIssue(d.post(d.a.challenged(s.code(t, redirect))))
		clear(subjects)
		for _, g := range d.grants() {
			subjects[g.Subject]++
		}
	}
	choice := b.open(asking(d.a, "prompt=select_account")).at(t, "account")
	if !strings.Contains(choice.body, "<bdi>"+username+"</bdi>") {
		t.Error("the page does not say who is signed in")
	}
	consent := b.follow(b.post(interactionURL, "id="+choice.field("id"), "step=account", "action=continue")).at(t, "consent")
	redeem(b.decide(consent, "allow"))
	if subjects[username] != 1 || len(subjects) != 1 {
		t.Fatalf("grants of %v", subjects)
	}

	choice = b.open(asking(d.a, "prompt=select_account")).at(t, "account")
	login := b.follow(b.post(interactionURL, "id="+choice.field("id"), "step=account", "action=switch")).at(t, "login")
	consent = b.logIn(login, "bob", password).at(t, "consent")
	redeem(b.decide(consent, "allow"))
	if subjects["bob"] != 1 || subjects[username] != 1 {
		t.Errorf("grants of %v", subjects)
	}
	// A user who sees another user's name on the consent page signs in instead. The
	// earlier consent does not count for the new user.
	consent = b.open(asking(d.b)).at(t, "consent")
	login = b.follow(b.post(interactionURL, "id="+consent.field("id"), "step=consent", "action=switch")).at(t, "login")
	b.follow(b.decide(consent, "allow")).at(t, "login")
	consent = b.logIn(login, username, password).at(t, "consent")
	if !strings.Contains(consent.body, "<bdi>User "+username) {
		t.Error("the consent page names another user")
	}
	b.decide(consent, "allow").code(t, redirect)
	// Without a session, there is no choice of accounts.
	b.post(logoutURL)
	b.open(asking(d.a, "prompt=select_account")).at(t, "login")
}

func TestUI25_SessionsEndByTheServersTime(t *testing.T) {
	d, b := signedIn(t)
	idle, lifetime := d.authorizer.Idle, d.authorizer.Sessions.Lifetime
	stolen := b.cookie(sessionName)

	// Use renews the session's stamp; a copy of the old stamp still expires.
	d.step(idle - time.Second)
	b.get(connectionsURL)
	if fresh := b.cookie(sessionName); fresh == stolen {
		t.Fatal("the use of a session does not renew its stamp")
	}
	d.step(2 * time.Second)
	if !d.hasSession(b.cookie(sessionName)) {
		t.Error("a session that is in use is idle")
	}
	if d.hasSession(stolen) {
		t.Error("an old stamp is good after the idle time")
	}
	// A request with the expired stamp does not extend it.
	again := d.browser()
	again.setCookie(sessionName, stolen)
	if s := again.get(connectionsURL); s.set(sessionName) != nil {
		t.Error("a new stamp for an old one")
	}

	// Even with constant use, the session ends at its lifetime.
	for began := d.now().Add(-idle - time.Second); d.now().Add(idle / 2).Before(began.Add(lifetime)); {
		d.step(idle / 2)
		if s := b.get(connectionsURL); s.StatusCode != http.StatusOK {
			t.Fatalf("ended %v after the login, though it is used", d.now().Sub(began))
		}
	}
	d.step(idle / 2)
	if d.hasSession(b.cookie(sessionName)) {
		t.Error("the absolute lifetime does not end it")
	}
	b.open(asking(d.a)).at(t, "login")
}

// A session of before a second factor was added or replaced has not used it, and ends.
func TestUI25_ANewSecondFactorEndsTheSessions(t *testing.T) {
	d, b := signedIn(t)
	var secret []byte
	give := func(u account.User) (next account.User) {
		next, secret = u.SetTOTP(d.ring(), grant.At(d.now()))
		return next
	}
	for _, before := range []string{"none", "another"} {
		old := b.cookie(sessionName)
		if !d.hasSession(old) {
			t.Fatal("there is no session to end")
		}
		d.changeUser(username, give)
		if d.hasSession(old) {
			t.Errorf("with %s before: a session that has not shown the new factor is alive", before)
		}
		page := b.logIn(b.open(asking(d.a)).at(t, "login"), username, password).at(t, "second_factor")
		b.follow(b.post(interactionURL, "id="+page.field("id"), "step=second_factor", "code="+d.oneTimeCode(secret))).at(t, "consent")
	}
	// Removing the factor ends no session.
	d.changeUser(username, func(u account.User) account.User { return u.RemoveTOTP(grant.At(d.now())) })
	if !d.hasSession(b.cookie(sessionName)) {
		t.Error("a session has ended with a factor that was taken away")
	}
}

func TestUI25_AClientsMaxAgeIsEnforced(t *testing.T) {
	d, b := visitor(t)
	b.decide(b.logIn(b.open(asking(d.a)).at(t, "login"), username, password).at(t, "consent"), "allow").code(t, redirect)
	d.step(90 * time.Second)
	b.open(asking(d.a, "max_age=1000", "prompt=none")).told(t, redirect, oauth.ConsentRequired)
	b.open(asking(d.a, "max_age=60", "prompt=none")).told(t, redirect, oauth.LoginRequired)
	page := b.open(asking(d.a, "max_age=60")).at(t, "login")
	// The old login is not accepted in the meantime either.
	b.open(interactionURL+"?id="+page.field("id")).at(t, "login")
	consent := b.logIn(page, username, password).at(t, "consent")
	code := b.decide(consent, "allow").code(t, redirect)
	d.mustIssue(d.post(d.a.challenged(code)))
	for _, g := range d.grants() {
		if g.AuthTime.Time().Unix() != d.now().Unix() {
			t.Errorf("auth_time is %v, and the login was at %v", g.AuthTime.Time(), d.now())
		}
	}
}

// Two cookies of one name suggest an attack: the server accepts neither.
func TestADuplicateCookieIsIgnored(t *testing.T) {
	d, b := signedIn(t)
	cookie := b.cookie(sessionName)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, connectionsURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", sessionName+"="+cookie+"; "+sessionName+"=planted")
	res, err := d.browser().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if to, _ := url.Parse(res.Header.Get("Location")); res.StatusCode != http.StatusSeeOther || to.Path != "/oauth2/interaction" {
		t.Errorf("status %d to %s", res.StatusCode, to.Path)
	}
}
