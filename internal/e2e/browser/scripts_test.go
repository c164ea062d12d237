//go:build e2e

package browser

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
)

// scripts checks TG-38 and MD-21: a page of a public client does the whole exchange by
// script, and a page of another origin can read only public responses.
func (w *world) scripts(t *testing.T) {
	t.Parallel()
	app := "https://app.example:" + serveHTTPS(t, "127.0.0.1:0", http.HandlerFunc(landing))
	elsewhere := "https://elsewhere.example:" + serveHTTPS(t, "127.0.0.1:0", http.HandlerFunc(landing)) + "/"
	loopback := serveHTTP(t, "127.0.0.1:0", http.HandlerFunc(landing))
	web := w.register(t, "In the browser", app+"/callback", "--public")
	native := w.register(t, "Under development", "http://127.0.0.1/callback", "--public", "--native")
	w.register(t, "With a back end", elsewhere)
	w.waitFor(t, client{ID: native.ID, redirect: "http://127.0.0.1/callback"})

	b := newWindow(t)
	script := func(page, body string) string {
		t.Helper()
		b.open(page)
		got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("(async () => {"+body+"})().catch(e => 'refused: ' + e.name)", chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	const life = `
		const issuer = %q, id = %q, code = %q, redirect = %q
		// A header that is not safelisted makes the browser send a preflight request
		// first.
		const metadata = await (await fetch(issuer + '/.well-known/oauth-authorization-server', {headers: {'MCP-Protocol-Version': '2025-11-25'}})).json()
		const post = (to, form) => fetch(to, {method: 'POST', body: new URLSearchParams({client_id: id, ...form})})
		const ask = async form => (await post(metadata.token_endpoint, form)).json()
		const first = await ask({grant_type: 'authorization_code', code, redirect_uri: redirect, code_verifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'})
		const next = await ask({grant_type: 'refresh_token', refresh_token: first.refresh_token})
		const ended = await post(metadata.revocation_endpoint, {token: next.refresh_token})
		const dead = await ask({grant_type: 'refresh_token', refresh_token: next.refresh_token})
		return [first.scope, next.scope, ended.status, dead.error].join(', ')`
	exchange := func(c client, redirect string) string {
		code := w.Code(t, "alice", "--client", c.ID, "--redirect-uri", redirect, "--code-challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
		return fmt.Sprintf(life, w.Issuer, c.ID, code, redirect)
	}
	const want = "read write, read write, 200, invalid_grant"
	if got := script(app+"/callback", exchange(web, web.redirect)); got != want {
		t.Errorf("the client's page: %s, want %s", got, want)
	}
	if got := script(loopback+"/callback", exchange(native, loopback+"/callback")); got != want {
		t.Errorf("a page under development: %s, want %s", got, want)
	}
	if got := script(elsewhere, exchange(web, web.redirect)); got != "refused: TypeError" {
		t.Errorf("a page elsewhere: %s", got)
	}
}
