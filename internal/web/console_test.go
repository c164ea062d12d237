package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/store"
)

// An operator who signs in to the console at the provider is sent there with the console's
// requirements, and back to the console with what the provider reports. No session begins
// on this server.
func TestAnOperatorSignsInAtTheProvider(t *testing.T) {
	t.Parallel()
	const consoleURL, challenge = "https://console.example/signed-in?ticket=t", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	p := newProvider(t)
	var admitted []login.Identity
	r := newFixture(t, atProvider(p), func(r *fixture, c *choice) {
		c.Authorizer.Console = &login.Console{URL: "https://console.example", ACRValues: "gold silver", Claims: []string{"groups"}, Admit: func(of string, who login.Identity) (store.Document, string, error) {
			if of != challenge {
				t.Errorf("the challenge is %q", of)
			}
			admitted = append(admitted, who)
			return store.Document{Kind: store.DocumentConsoleTicket, Key: store.KeyOf(store.DocumentConsoleTicket, "", "t"), Version: 1, ExpiresAt: r.kit.At().Add(time.Minute), Body: []byte("{}")}, consoleURL, nil
		}}
	})
	begun := r.kit.Clock.Now()
	b := r.signedIn("alice") // an existing session does not matter
	session := b.cookies[sessionName]
	s := b.open(publicURL + "/account/console?code_challenge=" + challenge)
	state := p.sent(s)
	if q := s.query(); q.Get("prompt") != "login" || q.Get("max_age") != "0" || q.Get("acr_values") != "gold silver" {
		t.Errorf("the provider gets the parameters %v", q)
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
	// Neither the same answer again nor the page of the login issues another ticket.
	for _, address := range []string{callbackURL + "?code=c&state=" + state, interactionURL + "?id=" + state} {
		if s := b.open(address); s.StatusCode != http.StatusConflict || len(admitted) != 1 {
			t.Errorf("again: status %d to %q", s.StatusCode, s.to())
		}
	}
	if b.cookies[sessionName] != session || must(r.Authorizer.Session(t.Context(), session)).Subject != "s-alice" {
		t.Error("the session of the account has changed")
	}
	// The claims of operators are requested for operators only.
	c := r.browser()
	c.get(callbackURL + "?code=c&state=" + p.sent(c.open(asking(r.shop))))
	if !c.isSignedIn() || len(admitted) != 1 {
		t.Error("a user who signs in for a client is sent to the console")
	}
	// A login at the provider that is too old is refused, and so is one that the provider
	// denies.
	p.claims["auth_time"] = p.now().Add(-time.Hour).Unix()
	state = p.sent(b.open(publicURL + "/account/console?code_challenge=" + challenge))
	if s := b.get(callbackURL + "?code=c&state=" + state); s.StatusCode != http.StatusBadGateway || len(admitted) != 1 {
		t.Errorf("an old login: status %d", s.StatusCode)
	}
	state = p.sent(b.open(publicURL + "/account/console?code_challenge=" + challenge))
	if s := b.get(callbackURL + "?error=access_denied&state=" + state); s.StatusCode != http.StatusForbidden || !strings.Contains(s.body, `href="https://console.example" rel="noreferrer">Back to <bdi>Console</bdi>`) {
		t.Errorf("denied: status %d to %q, no way back to the console\n%s", s.StatusCode, s.to(), s.body)
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

// A login at a handoff login page does not begin a session either.
func TestAnOperatorSignsInAtAPortal(t *testing.T) {
	t.Parallel()
	const consoleURL = "https://console.example/signed-in?ticket=t"
	r := newFixture(t, handoff, func(r *fixture, c *choice) {
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
