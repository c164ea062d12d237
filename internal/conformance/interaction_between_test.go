package conformance_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/web"
)

// Tests of changes between two steps of an interaction.

// sessionEndings returns the ways in which a session ends without the browser.
func sessionEndings(d *deployment, b *browser) map[string]func() {
	return map[string]func(){
		"signed out in another tab": func() { b.post(logoutURL) },
		"session cookie lost":       func() { b.setCookie(sessionName, "") },
		"user disabled":             func() { d.disable(username) },
		"password changed": func() {
			now := grant.At(d.now())
			d.changeUser(username, func(u account.User) account.User {
				u, err := u.SetPassword("another "+password, now)
				if err != nil {
					d.t.Fatal(err)
				}
				return u
			})
		},
		"all of the subject revoked": func() { d.cutOff(store.Cutoff{Subject: username}) },
		"idle":                       func() { d.step(d.authorizer.Idle + time.Millisecond) },
		"at its absolute end":        func() { d.step(d.authorizer.Sessions.Lifetime) },
	}
}

// If the session ends before the consent, the user signs in again, and the page does not
// claim that another account is signed in.
func TestInteractionSessionEndsAtTheConsent(t *testing.T) {
	for name := range sessionEndings(nil, nil) {
		t.Run(name, func(t *testing.T) {
			d, b := signedIn(t, long)
			d.user("bob", cheaply)
			d.step(time.Second)
			end := sessionEndings(d, b)[name]
			pressed := b.open(asking(d.a)).at(t, "consent")
			reloaded := b.open(asking(d.a)).at(t, "consent")
			denied := b.open(asking(d.a)).at(t, "consent")
			answered := b.open(asking(d.a)).at(t, "consent")
			b.decide(answered, "allow").code(t, redirect)
			end()
			login := b.follow(b.decide(pressed, "allow")).at(t, "login")
			loginToo := b.open(reloaded.address()).at(t, "login")
			b.follow(b.decide(denied, "deny")).at(t, "login")
			b.follow(b.decide(answered, "allow")).says(t, http.StatusConflict, pages.InteractionAnswered)
			// The earlier form belongs to a step that is over.
			b.follow(b.decide(pressed, "allow")).at(t, "login")
			consent := b.logIn(login, "bob", password).at(t, "consent")
			// The earlier page was for another user: the server shows the consent page
			// again.
			b.follow(b.decide(pressed, "allow")).at(t, "consent")
			b.decide(consent, "allow").code(t, redirect)
			// The other interactions continue with the user who signs in for them.
			b.logIn(loginToo, "bob", password).at(t, "consent")
			if n := len(d.grants()); n != 0 {
				t.Errorf("%d grants, and nothing was redeemed", n)
			}
		})
	}
}

// long lets an interaction last a day, so that sessions end first.
func long(o *options) {
	o.tuneFront = func(f *web.Front) { f.Authorizer.Interactions.Lifetime = 24 * time.Hour }
}

// The session ends between the request and the login, or at the choice of accounts.
func TestInteractionSessionEndsEarlier(t *testing.T) {
	for _, name := range []string{"signed out in another tab", "all of the subject revoked", "idle"} {
		t.Run(name, func(t *testing.T) {
			d, b := signedIn(t, long)
			d.step(time.Second)
			choice := b.open(asking(d.a, "prompt=select_account")).at(t, "account")
			shown := b.open(asking(d.a, "prompt=select_account")).at(t, "account")
			sessionEndings(d, b)[name]()
			b.follow(b.post(interactionURL, "id="+choice.field("id"), "step=account", "action=continue")).at(t, "login")
			b.open(shown.address()).at(t, "login")
		})
	}
}

// If the password changes before the second factor is entered, the login fails.
func TestInteractionPasswordChangesBeforeTheSecondFactor(t *testing.T) {
	for name, end := range map[string]func(d *deployment){
		"disabled": func(d *deployment) { d.disable("carol") },
		"changed": func(d *deployment) {
			now := grant.At(d.now())
			d.changeUser("carol", func(u account.User) account.User {
				u.SessionsEnd = now
				u.Epoch++
				u.Version++
				return u
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t, withFront)
			secret := d.userWithCode("carol")
			b := d.browser()
			page := b.logIn(b.open(asking(d.a)).at(t, "login"), "carol", password).at(t, "second_factor")
			d.step(time.Second)
			end(d)
			s := b.follow(b.post(interactionURL, "id="+page.field("id"), "step=second_factor", "code="+d.oneTimeCode(secret)))
			if s.at(t, "login"); b.cookie(sessionName) != "" {
				t.Error("signed in with the old password")
			}
		})
	}
}

// A user who signs out on the account pages and goes back must sign in again.
func TestInteractionOfTheAccountPages(t *testing.T) {
	d, b := visitor(t)
	login := b.open(connectionsURL).at(t, "login")
	if strings.Contains(login.body, "cancel") {
		t.Error("there is no client to cancel for")
	}
	list := b.logIn(login, username, password)
	if list.title() != "Connected applications" {
		t.Fatalf("after the login: %q", list.title())
	}
	if s := b.open(login.address()); s.title() != "Connected applications" {
		t.Errorf("back: %q", s.title())
	}
	for _, s := range []shownPage{b.decide(login, "allow"), b.decide(login, "deny"), b.post(interactionURL, "id="+login.field("id"), "action=cancel")} {
		if s = b.follow(s); s.title() != "Connected applications" {
			t.Errorf("a consent for no client: %d %q", s.StatusCode, s.title())
		}
	}
	b.post(logoutURL)
	again := b.open(login.address()).at(t, "login")
	if s := b.logIn(again, username, password); s.title() != "Connected applications" {
		t.Errorf("signed in again: %q", s.title())
	}
	d.step(d.authorizer.Interactions.Lifetime)
	if s := b.open(login.address()); s.StatusCode != http.StatusGone || s.title() != "You took too long" || !strings.Contains(s.body, ">Sign in again</a>") || strings.Contains(s.body, "Go back to the application") {
		t.Errorf("an expired login for no client: %d\n%s", s.StatusCode, s.body)
	}
}

// Each step verifies the client and its redirect URI again (RFC 9700 section 4.1).
func TestInteractionClientChanges(t *testing.T) {
	for name, alter := range map[string]func(*store.Client){
		"disabled":             func(c *store.Client) { c.State = store.ClientDisabled },
		"redirect URI removed": func(c *store.Client) { c.RedirectURIs = []string{otherRedirect} },
	} {
		t.Run(name, func(t *testing.T) {
			d, b := visitor(t)
			login := b.open(asking(d.a)).at(t, "login")
			other := d.browser()
			d.signIn(other, username)
			consent, answered := other.open(asking(d.a)).at(t, "consent"), other.open(asking(d.a)).at(t, "consent")
			code := other.decide(answered, "allow").code(t, redirect)
			before := d.change(d.a, alter)
			gone := func(s shownPage) { t.Helper(); s.says(t, http.StatusBadRequest, pages.ClientChanged) }
			gone(b.open(login.address()))
			gone(b.logIn(login, username, password))
			gone(b.post(interactionURL, "id="+login.field("id"), "action=cancel"))
			gone(other.open(consent.address()))
			gone(other.decide(consent, "allow"))
			gone(other.decide(consent, "deny"))
			gone(other.decide(answered, "allow"))
			if name == "disabled" {
				want(t, d.post(d.a.challenged(code)), http.StatusBadRequest, "invalid_client")
			}
			// A pending decision can be made when the client is back.
			d.change(before, func(c *store.Client) { c.State, c.RedirectURIs = store.ClientEnabled, []string{redirect} })
			other.decide(consent, "allow").code(t, redirect)
		})
	}
}

// If the client loses a scope, or must now use PKCE, it gets an error.
func TestInteractionRequestIsNotGoodAnyMore(t *testing.T) {
	d, b := signedIn(t)
	page := b.open(asking(d.a, "scope=a c")).at(t, "consent")
	d.change(d.a, func(c *store.Client) { c.Scope = "a b" })
	for _, s := range []shownPage{b.open(page.address()), b.decide(page, "allow")} {
		s.told(t, redirect, oauth.InvalidScope)
	}
	b.decide(page, "deny").told(t, redirect, oauth.AccessDenied)
}

func TestInteractionOddForms(t *testing.T) {
	d, b := visitor(t)
	d.step(time.Second)
	login := b.open(asking(d.a)).at(t, "login")
	id := "id=" + login.field("id")
	post := func(pairs ...string) shownPage { t.Helper(); return b.follow(b.post(interactionURL, pairs...)) }

	// A form of another step redirects to the current one.
	for _, form := range [][]string{
		{id, "step=consent", "decision=allow"}, {id, "step=second_factor", "code=123456"}, {id, "step=account", "action=continue"},
		{id, "step=account", "action=switch"}, {id, "step=answered"}, {id, "step=nonsense"}, {id}, {id, "step="},
		{id, "step=consent"}, {id, "step=consent", "decision=maybe"}, {id, "step=LOGIN", "username=" + username, "password=" + password},
	} {
		post(form...).at(t, "login")
	}
	// An incomplete form is an error; unknown fields are ignored.
	for _, form := range [][]string{
		{id, "step=login"}, {id, "step=login", "username=" + username}, {id, "step=login", "password=" + password},
	} {
		if s := post(form...); s.StatusCode != http.StatusUnprocessableEntity || s.field("step") != "login" {
			t.Errorf("%v: status %d, %q", form[1:], s.StatusCode, s.title())
		}
	}
	for name, form := range map[string][]string{
		"id twice":         {id, id, "step=login"},
		"username twice":   {id, "step=login", "username=a", "username=b", "password=x"},
		"step twice":       {id, "step=login", "step=consent", "decision=allow"},
		"username too big": {id, "step=login", "username=" + strings.Repeat("u", 300), "password=x"},
		"password too big": {id, "step=login", "username=u", "password=" + strings.Repeat("p", 2000)},
		"code too big":     {id, "step=second_factor", "code=" + strings.Repeat("1", 3000)},
		"control bytes":    {id, "step=login", "username=a\x00b", "password=x"},
		"not UTF-8":        {id, "step=login", "username=\xff", "password=x"},
	} {
		s := post(form...)
		if s.says(t, http.StatusBadRequest, pages.BadRequest); t.Failed() {
			t.Fatal(name)
		}
	}
	post(id, "step=login", "x="+strings.Repeat("y", oauth.MaxForm)).says(t, http.StatusRequestEntityTooLarge, pages.TooLarge)
	many := []string{id, "step=login"}
	for i := range 70 {
		many = append(many, "f"+strings.Repeat("x", i)+"=1")
	}
	post(many...).says(t, http.StatusBadRequest, pages.BadRequest)
	// After all these forms, the user can still sign in, even with extra fields.
	post(id, "step=login", "username="+username, "password="+password, "extra=1", "remember=yes", "submit=Sign in", "scope=x").at(t, "consent")

	consent := b.open(login.address()).at(t, "consent")
	for _, form := range [][]string{{id, "step=consent"}, {id, "step=consent", "decision=maybe"}, {id, "step=consent", "remember=yes"}} {
		post(form...).says(t, http.StatusBadRequest, pages.BadRequest)
	}
	b.decide(consent, "allow").code(t, redirect)
}

func TestInteractionOddRequests(t *testing.T) {
	d, b := signedIn(t)
	page := b.open(asking(d.a)).at(t, "consent")
	allow := pairsOf([]string{"id=" + page.field("id"), "step=consent", "decision=allow"})
	// The server ignores the body of a GET.
	for _, address := range []string{interactionURL, page.address()} {
		s := b.do(http.MethodGet, address, allow)
		if s.StatusCode == http.StatusSeeOther || s.StatusCode >= 500 {
			t.Errorf("GET with a body: status %d", s.StatusCode)
		}
	}
	b.get(interactionURL+"?"+allow.Encode()).at(t, "consent")
	for _, method := range []string{http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodPatch, "BREW"} {
		for _, address := range []string{page.address(), asking(d.a), connectionsURL, logoutURL} {
			s := b.do(method, address, nil)
			if s.StatusCode != http.StatusMethodNotAllowed || s.Header.Get("Allow") != "GET, POST" || s.Header.Get("Location") != "" {
				t.Errorf("%s %.50s: status %d, Allow %q", method, address, s.StatusCode, s.Header.Get("Allow"))
			}
			if method != http.MethodHead {
				s.says(t, http.StatusMethodNotAllowed, pages.Method)
			}
		}
	}
	// A form in another content type is refused.
	for _, kind := range []string{"application/json", "multipart/form-data; boundary=x", "text/plain", ""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, interactionURL, strings.NewReader(allow.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if kind != "" {
			r.Header.Set("Content-Type", kind)
		}
		res, err := b.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		shownPage{res, string(text)}.says(t, http.StatusBadRequest, pages.BadRequest)
	}
	b.decide(page, "allow").code(t, redirect)
}
