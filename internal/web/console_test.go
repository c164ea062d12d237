package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/store"
)

// An operator who signs in at the provider is asked for what the console wants, and sent on
// with what the provider says. No session begins here.
func TestAnOperatorSignsInAtTheProvider(t *testing.T) {
	t.Parallel()
	const consoleURL, challenge = "https://console.example/signed-in?ticket=t", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	p := newProvider(t)
	var admitted []login.Identity
	r := newRoom(t, atProvider(p), func(r *room, c *choice) {
		c.Authorizer.Console = &login.Console{ACRValues: "gold silver", Claims: []string{"groups"}, Admit: func(of string, who login.Identity) (store.Document, string, error) {
			if of != challenge {
				t.Errorf("the challenge is %q", of)
			}
			admitted = append(admitted, who)
			return store.Document{Kind: store.DocumentConsoleTicket, Key: store.KeyOf(store.DocumentConsoleTicket, "", "t"), Version: 1, ExpiresAt: r.kit.At().Add(time.Minute), Body: []byte("{}")}, consoleURL, nil
		}}
	})
	begun := r.kit.Clock.Now()
	b := r.signedIn("alice") // whoever is signed in
	session := b.cookies[sessionName]
	s := b.open(publicURL + "/account/console?code_challenge=" + challenge)
	state := p.sent(s)
	if q := s.query(); q.Get("prompt") != "login" || q.Get("max_age") != "0" || q.Get("acr_values") != "gold silver" {
		t.Errorf("the provider is asked %v", q)
	}
	p.claims = map[string]any{"auth_time": p.now().Unix(), "acr": "gold", "amr": []string{"hwk"}, "groups": []string{"a", "b"}, "name": "Ulla"}
	if s := r.browser().get(callbackURL + "?code=c&state=" + state); s.StatusCode < 400 || len(admitted) != 0 {
		t.Errorf("another browser: status %d to %q", s.StatusCode, s.to())
	}
	if s := b.get(callbackURL + "?code=c&state=" + state); s.StatusCode != http.StatusSeeOther || s.to() != consoleURL || s.Header.Get("Set-Cookie") != "" {
		t.Fatalf("status %d to %q, cookie %q", s.StatusCode, s.to(), s.Header.Get("Set-Cookie"))
	}
	if len(admitted) != 1 || admitted[0].Subject != "people:42" || admitted[0].Said != `{"groups":["a","b"]}` || admitted[0].Login.Class() != "gold" {
		t.Errorf("admitted %+v", admitted)
	}
	if _, err := r.kit.Engine.Document(t.Context(), store.KeyOf(store.DocumentConsoleTicket, "", "t")); err != nil {
		t.Errorf("the ticket: %v", err)
	}
	// The same answer again, and the page of the login, let nobody in once more.
	for _, address := range []string{callbackURL + "?code=c&state=" + state, interactionURL + "?id=" + state} {
		if s := b.open(address); s.StatusCode != http.StatusConflict || len(admitted) != 1 {
			t.Errorf("again: status %d to %q", s.StatusCode, s.to())
		}
	}
	if b.cookies[sessionName] != session || must(r.Authorizer.Session(t.Context(), session)).Subject != "s-alice" {
		t.Error("the session of the account has changed")
	}
	// Claims of operators are asked for operators alone.
	c := r.browser()
	c.get(callbackURL + "?code=c&state=" + p.sent(c.open(asking(r.shop))))
	if !c.isSignedIn() || len(admitted) != 1 {
		t.Error("a user who signs in at a client goes to the console")
	}
	// An old login at the provider, and none.
	p.claims["auth_time"] = p.now().Add(-time.Hour).Unix()
	state = p.sent(b.open(publicURL + "/account/console?code_challenge=" + challenge))
	if s := b.get(callbackURL + "?code=c&state=" + state); s.StatusCode != http.StatusBadGateway || len(admitted) != 1 {
		t.Errorf("an old login: status %d", s.StatusCode)
	}
	state = p.sent(b.open(publicURL + "/account/console?code_challenge=" + challenge))
	if s := b.get(callbackURL + "?error=access_denied&state=" + state); s.StatusCode != http.StatusForbidden {
		t.Errorf("denied: status %d to %q", s.StatusCode, s.to())
	}
	var got []string
	for _, line := range r.recorded(begun) {
		if strings.Contains(line, "for the console") {
			got = append(got, line)
		}
	}
	const failed = "login_failed|refused|||OpenID Connect provider, for the console"
	if want := "login_succeeded|success|people:42||OpenID Connect provider, for the console\n" + failed + "\n" + failed; strings.Join(got, "\n") != want {
		t.Errorf("recorded\n%s", strings.Join(got, "\n"))
	}
}

// Nor does one begin for an operator who signs in at a login page of the provider's own.
func TestAnOperatorSignsInAtAPortal(t *testing.T) {
	t.Parallel()
	const consoleURL = "https://console.example/signed-in?ticket=t"
	r := newRoom(t, handoff, func(r *room, c *choice) {
		c.Authorizer.Console = &login.Console{Admit: func(string, login.Identity) (store.Document, string, error) {
			return store.Document{Kind: store.DocumentConsoleTicket, Key: store.KeyOf(store.DocumentConsoleTicket, "", "t"), Version: 1, ExpiresAt: r.kit.At().Add(time.Minute), Body: []byte("{}")}, consoleURL, nil
		}}
	})
	b := r.browser()
	begun := b.open(publicURL + "/account/console?code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
	next := must(r.Authorizer.AcceptLogin(t.Context(), begun.query().Get("challenge"), login.Identity{Subject: "42"}))
	if s := b.get(next); s.StatusCode != http.StatusSeeOther || s.to() != consoleURL || b.isSignedIn() {
		t.Errorf("status %d to %q, signed in %t", s.StatusCode, s.to(), b.isSignedIn())
	}
	if s := b.get(next); s.StatusCode != http.StatusConflict {
		t.Errorf("again: status %d to %q", s.StatusCode, s.to())
	}
}
