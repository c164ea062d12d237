package conformance_test

import (
	"net/url"
	"slices"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/store"
)

// readable reports whether a script of an origin may read the responses of the token and
// revocation endpoints. It requires the same at each of their addresses, and in their
// preflight responses.
func (d *deployment) readable(origin string) bool {
	d.t.Helper()
	var seen []bool
	for _, target := range []string{endpoint, "/oauth2/api/access_token", "/oauth2/revoke", "/oauth2/api/token/revoke"} {
		preflight := newRequest(nil)
		preflight.method, preflight.target = "OPTIONS", target
		preflight.set("Origin", origin)
		preflight.set("Access-Control-Request-Method", "POST")
		preflight.set("Access-Control-Request-Headers", "content-type")
		request := newRequest(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}, "token": {"x"}})
		request.target = target
		request.set("Origin", origin)
		for _, a := range []answer{d.send(preflight), d.send(request)} {
			allowed := slices.Equal(a.header["Access-Control-Allow-Origin"], []string{origin})
			if !allowed && a.header["Access-Control-Allow-Origin"] != nil || a.header["Access-Control-Allow-Credentials"] != nil {
				d.t.Errorf("%s from %s: %v", target, origin, a.header)
			}
			if !slices.Equal(a.header["Vary"], []string{"Origin"}) {
				d.t.Errorf("%s from %s: Vary %q", target, origin, a.header["Vary"])
			}
			seen = append(seen, allowed)
		}
	}
	if slices.Contains(seen, !seen[0]) {
		d.t.Errorf("%s: the endpoints and their preflights differ: %t", origin, seen)
	}
	return seen[0]
}

func TestTG38_ScriptsOfAPublicClientsRedirectURIsReadTheAnswers(t *testing.T) {
	const app = "https://app.example"
	d := start(t)
	if d.readable(app) || d.readable("https://client.example") {
		t.Fatal("scripts of confidential clients may read the answers")
	}
	c := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone, RedirectURIs: []string{app + "/cb", app + "/other", "https://app2.example:8443"}}})
	for origin, want := range map[string]bool{
		app: true, "https://app2.example:8443": true, "https://app2.example": false,
		app + ":443": false, app + "/": false, app + ".evil.example": false, "http://app.example": false, "https://evil.example": false, "null": false,
	} {
		if got := d.readable(origin); got != want {
			t.Errorf("%s: %t, want %t", origin, got, want)
		}
	}
	// Requests without an Origin header get the usual response.
	compareHeader(t, d.post(d.a.refresh("x")))
	// The other endpoints ignore the origins.
	for _, target := range []string{"/oauth2/introspect", "/oauth2/tokeninfo", "/oauth2/verify"} {
		r := newRequest(url.Values{"token": {"x"}})
		r.target = target
		r.set("Origin", app)
		if a := d.send(r); a.header["Access-Control-Allow-Origin"] != nil {
			t.Errorf("%s: %v", target, a.header)
		}
	}

	// The allowed origins follow the registrations: an origin stays as long as another
	// client has it.
	twin := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone, RedirectURIs: []string{app + "/twin"}}})
	c = d.change(c, func(c *store.Client) { c.RedirectURIs = []string{"https://moved.example/cb"} })
	if !d.readable(app) || !d.readable("https://moved.example") || d.readable("https://app2.example:8443") {
		t.Error("the origins are not those of the changed client and of the other one")
	}
	twin = d.change(twin, func(c *store.Client) { c.State = store.ClientDisabled })
	if d.readable(app) {
		t.Error("scripts of a disabled client may read the answers")
	}
	twin = d.change(twin, func(c *store.Client) { c.State = store.ClientEnabled })
	if !d.readable(app) {
		t.Error("an enabled client's origin is not back")
	}
	d.change(twin, func(c *store.Client) { c.State = store.ClientDeleted })
	d.change(c, func(c *store.Client) { c.State = store.ClientDeleted })
	if d.readable(app) || d.readable("https://moved.example") {
		t.Error("scripts of a deleted client may read the answers")
	}
}

// A program under development, or a desktop program, serves its page at a port of its
// choice.
func TestTG38_ScriptsOfALoopbackRedirectURIMayHaveThePortThatTheRedirectMayHave(t *testing.T) {
	d := start(t)
	c := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone, Native: true, RedirectURIs: []string{"http://127.0.0.1/cb", "http://[::1]:3000/cb", "com.example.app:/cb", "http://localhost:4200/cb"}}})
	for origin, want := range map[string]bool{
		"http://127.0.0.1": true, "http://127.0.0.1:5173": true, "http://[::1]:8080": true, "http://[::1]": true,
		"http://localhost:4200": true, "http://localhost:4201": false, "http://localhost": false,
		"https://127.0.0.1": false, "http://127.0.0.1.evil.example": false, "http://127.0.0.2:5173": false, "com.example.app:": false, "com.example.app://": false,
	} {
		if got := d.readable(origin); got != want {
			t.Errorf("%s: %t, want %t", origin, got, want)
		}
	}
	pair := d.mustIssue(d.post(with(c.redeem(d.code(c, pkce).Code), "code_verifier", verifier)))
	r := newRequest(c.refresh(pair.RefreshToken))
	r.set("Origin", "http://127.0.0.1:5173")
	if a := d.send(r); a.status != 200 || !slices.Equal(a.header["Access-Control-Allow-Origin"], []string{"http://127.0.0.1:5173"}) {
		t.Errorf("a refresh by a script: %v %v", a, a.header)
	}
}
