//go:build e2e

package browser

import (
	"net/http"
	"net/url"
	"testing"
)

// forgery checks UI-01, UI-02 and UI-26: the server refuses requests that its own pages
// have not sent, even if a user is signed in, and even with the id of a pending
// interaction.
func (w *world) forgery(t *testing.T) {
	t.Parallel()
	password := w.user(t, "fiona", "Fiona")
	back := "https://client.example:" + serveHTTPS(t, "127.0.0.1:0", http.HandlerFunc(landing)) + "/callback"
	connected, asking := w.register(t, "Connected", back), w.register(t, "Asking", back)
	w.waitFor(t, asking)
	b := newWindow(t)
	b.open(w.authorizeURL(connected, nil))
	b.signIn("fiona", password)
	b.click("#remember")
	b.click("#allow")
	b.reads("code: true")
	consent, login := b.another(), b.another()
	consent.open(w.authorizeURL(asking, nil))
	consent.sees("#allow")
	login.open(w.authorizeURL(asking, url.Values{"prompt": {"login"}}))
	login.sees("#password")
	interaction := func(b *tab) string { return b.last(w.origin + "/oauth2/interaction?").Query().Get("id") }
	for who, origin := range attackers(t) {
		for what, form := range map[string]url.Values{
			"allow":      {"to": {w.origin + "/oauth2/interaction"}, "id": {interaction(consent)}, "step": {"consent"}, "decision": {"allow"}},
			"deny":       {"to": {w.origin + "/oauth2/interaction"}, "id": {interaction(consent)}, "step": {"consent"}, "decision": {"deny"}},
			"login":      {"to": {w.origin + "/oauth2/interaction"}, "id": {interaction(login)}, "step": {"login"}, "username": {"fiona"}, "password": {password}},
			"cancel":     {"to": {w.origin + "/oauth2/interaction"}, "id": {interaction(login)}, "step": {"login"}, "action": {"cancel"}},
			"disconnect": {"to": {w.origin + "/account/connections"}, "client_id": {connected.ID}},
			"logout":     {"to": {w.origin + "/account/logout"}},
		} {
			t.Run(what+" from "+who, func(t *testing.T) {
				defer b.during(t)()
				b.open(origin + "/form?" + form.Encode())
				b.click("#bait")
				b.reads("This form came from another site")
				b.answered(http.StatusForbidden)
			})
		}
	}
	consent.reload()
	consent.sees("#allow")
	login.reload()
	login.sees("#password")
	b.open(w.origin + "/account/connections")
	b.reads("Signed in as Fiona")
	if list := b.text(".card h2"); list != "Connected" {
		t.Errorf("the connected applications are %q", list)
	}
}
