//go:build e2e

package browser

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	registry "github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/dpop"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/resource"
	"github.com/mintage/mintage/internal/server/token"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// clocked serves the token endpoint and userinfo with a clock that the test sets. They
// accept only DPoP proofs with nonces. It returns the origin.
func clocked(t *testing.T, kit *testkit.Kit, handler *http.Handler, origin string) {
	t.Helper()
	iss, log := kit.Issuer, slog.New(slog.DiscardHandler)
	o := server.Options{Site: server.Site{PublicURL: origin}, BasicAuthStatus: http.StatusUnauthorized}
	o.Realm = testkit.Realm
	o.Queue = server.NewQueue(overload.Capacity{Requests: 100}, nil, log)
	o.Throttle = overload.NewThrottle(overload.RateLimits{}, func(string) {})
	o.Clients = &registry.Authenticator{Realm: iss.Realm, Store: iss.Store, Directory: iss.Directory, Now: iss.Now, Log: log, Slow: registry.NewSlowPool(), Issuer: iss.ID}
	o.Proofs = server.Proofs{Seen: &dpop.Seen{}, Now: iss.Now, OfAll: true, Nonces: func(minute int64) []byte { return fmt.Appendf(nil, "a nonce of minute %d", minute) }}
	srv := server.New(iss.Directory, o, log)
	endpoints := &token.Endpoints{Issuer: iss}
	resources := &resource.Endpoints{Server: srv, Issuer: iss, Directory: iss.Directory}
	srv.Mount(slices.Concat(endpoints.Routes(), resources.Routes())...)
	*handler = srv.Handler()
}

// TestAPageKeepsAKeyForAnHour runs a page of bind-tokens.md, which keeps a non-exportable
// key and refreshes with it for an hour. Each access token lives five minutes and is
// accepted with a proof, a reload keeps the key, and the tokens are useless without it.
func TestAPageKeepsAKeyForAnHour(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/how-to/bind-tokens.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := strings.Cut(string(text), "```js\n// bound.js\n")
	program, _, closed := strings.Cut(program, "\n```\n")
	if !found || !closed {
		t.Fatal("bind-tokens.md shows no bound.js")
	}
	var handler http.Handler
	port := serveHTTPS(t, mintageHost+":0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	origin := "https://" + mintageHost + ":" + port
	kit := testkit.New(t, func(s *testkit.Setup) { s.ID = origin + "/oauth2/api" })
	clocked(t, kit, &handler, origin)
	app := "https://app.example:" + serveHTTPS(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!DOCTYPE html><title>Bound</title><script>%s</script>", program)
	}))
	kit.Register(registry.Registration{ID: "page", Settings: store.Settings{Name: "Page", Auth: store.AuthNone, RedirectURIs: []string{app + "/callback"}, Scope: "read"}})

	b := newWindow(t)
	// Give the page the server's clock.
	script := func(body string) string {
		t.Helper()
		set := fmt.Sprintf("Date.now = () => %d;", kit.Clock.Now().UnixMilli())
		got, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("(async () => {"+set+body+"})().catch(e => 'refused: ' + e.message)", chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	b.open(app + "/")
	jkt := script(`const { x, y } = await crypto.subtle.exportKey('jwk', (await key()).publicKey)
		return base64url(await crypto.subtle.digest('SHA-256', text(JSON.stringify({ crv: 'P-256', kty: 'EC', x, y }))))`)
	parsed, ok := oauth.ParseJKT(jkt)
	if !ok {
		t.Fatalf("the thumbprint is %q", jkt)
	}
	code, err := kit.Codes().Issue(t.Context(), issuer.Authorization{ClientID: "page", RedirectURI: app + "/callback", Subject: "alice",
		Challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", JKT: parsed})
	if err != nil {
		t.Fatal(err)
	}
	proxy := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	endpoint, verify := origin+"/oauth2/api/access_token", origin+"/oauth2/verify?dpop="+app
	first := script(fmt.Sprintf(`const got = await tokens(%q, { grant_type: 'authorization_code', client_id: 'page', code: %q, redirect_uri: %q, code_verifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk' })
		return got.token_type`, endpoint, code.Code, app+"/callback"))
	if first != "DPoP" {
		t.Fatalf("the code is redeemed: %s", first)
	}
	for minute := 5; minute <= 60; minute += 5 {
		kit.Clock.Advance(5 * time.Minute)
		if minute == 30 {
			b.open(app + "/again")
		}
		got := script(fmt.Sprintf("const got = await refresh(%q, 'page'); nonces[%q] = nonces[%q]; return [got.token_type, got.access_token, await proof('GET', %q, got.access_token)].join(' ')", endpoint, app, origin, app+"/api"))
		part := strings.Fields(got)
		if len(part) != 3 || part[0] != "DPoP" {
			t.Fatalf("minute %d: %s", minute, got)
		}
		// An API behind a proxy accepts the token with its proof, once, and not as
		// Bearer.
		for i, want := range []int{http.StatusUnauthorized, http.StatusOK, http.StatusUnauthorized, http.StatusUnauthorized} {
			scheme, proof := "DPoP ", part[2]
			switch i {
			case 0:
				proof = ""
			case 3:
				scheme = "Bearer "
			}
			r, err := http.NewRequest(http.MethodGet, verify, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", scheme+part[1])
			r.Header.Set("X-Original-Method", "GET")
			r.Header.Set("X-Original-Uri", "/api")
			if proof != "" {
				r.Header.Set("DPoP", proof)
			}
			resp, err := proxy.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if challenge := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != want || want != http.StatusOK && !strings.Contains(challenge, "DPoP realm=") {
				t.Errorf("minute %d, request %d: %d, not %d, %s", minute, i, resp.StatusCode, want, challenge)
			}
		}
	}
	for what, body := range map[string]string{
		"the key is exported": "await crypto.subtle.exportKey('jwk', (await key()).privateKey); return 'exported'",
		"another key refreshes": fmt.Sprintf(`const pair = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign'])
			await keep('key', pair); await refresh(%q, 'page'); return 'refreshed'`, endpoint),
	} {
		if got := script(body); !strings.HasPrefix(got, "refused: ") {
			t.Errorf("%s: %s", what, got)
		}
	}
}
