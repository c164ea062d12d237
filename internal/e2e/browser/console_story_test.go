//go:build e2e

package browser

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// grows waits for a text on a page that is still loading.
func (b *tab) grows(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("the text %q", text), fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// The example of RFC 7636 appendix B.
const verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

const redirect = "https://shop.example/callback"

// trusting returns an HTTP client that trusts the tests' certificate and follows no
// redirect.
func trusting(t *testing.T) http.Client {
	t.Helper()
	leaf, err := x509.ParseCertificate(certificate().Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// token sends a token request, and returns the refresh token, or "" if the request is
// refused.
func (w *consoleWorld) token(t *testing.T, id, secret string, form url.Values) string {
	t.Helper()
	form.Set("client_id", id)
	if secret != "" { // a public client has none
		form.Set("client_secret", secret)
	}
	client := trusting(t)
	resp, err := client.PostForm(w.public+"/oauth2/api/access_token", form)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var pair struct {
		Refresh string `json:"refresh_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&pair); err != nil {
		t.Fatal(err)
	}
	return pair.Refresh
}

// redeem creates a grant of alice for a client, and returns its refresh token.
func (w *consoleWorld) redeem(t *testing.T, id, secret, scope string) (refresh string) {
	t.Helper()
	code, err := binary.Command(t, "code", "issue", "--client", id, "--redirect-uri", redirect, "--subject", "alice", "--scope", scope, "--code-challenge", challenge, "--data", w.dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	return w.token(t, id, secret, url.Values{"grant_type": {"authorization_code"}, "code": {strings.TrimSpace(string(code))}, "redirect_uri": {redirect}, "code_verifier": {verifier}})
}

// TestConsoleFirstRequest: the page of a new client shows a sample program and then the
// client's first requests live: a mistake with its remedy, and each stage up to the first
// refresh. The audit log can be followed live, too. With a script, the list continues
// after a lost connection.
func TestConsoleFirstRequest(t *testing.T) {
	t.Parallel()
	t.Run("with script", func(t *testing.T) {
		t.Parallel()
		firstRequest(t, true)
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		firstRequest(t, false)
	})
}

func firstRequest(t *testing.T, script bool) {
	w := openConsole(t)
	w.operator(t, "alice", "admin")
	b := newWindow(t).knowsAxe()
	w.enters(t, b, "alice")
	if !script {
		b = b.another().withoutScripts()
	}
	examine := func(name string) {
		if script { // axe needs scripts
			b.examine(t, name)
		}
	}
	b.open(w.url + "/new/client?kind=web")
	b.fill("#name", "Shop")
	b.fill("#redirect_uris", redirect)
	b.click("#create")
	b.reads("A program for it")
	id, secret := b.text("#client-id"), b.text("#secret")
	examine("console-client-new")
	b.click("#watch")
	b.grows("Nothing comes?")

	client := trusting(t)
	authorize := func(redirect string) {
		t.Helper()
		resp, err := client.Get(w.public + "/oauth2/api/authorize?" + url.Values{"response_type": {"code"}, "client_id": {id}, "redirect_uri": {redirect}, "scope": {"openid"}, "state": {"a"},
			"code_challenge": {challenge}, "code_challenge_method": {"S256"}}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	authorize("https://shop.example/other")
	b.grows("have the client send a redirect_uri that is registered")
	authorize(redirect)
	b.grows("sign-in asked for: done")
	refresh := w.redeem(t, id, secret, "openid")
	b.grows("tokens: done")
	w.token(t, id, secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}})
	b.reads("It works")
	examine("console-watch")
	if strings.Contains(b.text("main"), secret) {
		t.Error("the page has the secret")
	}

	b.open(w.url + "/audit?client=" + id)
	b.click("#follow")
	b.grows("tokens_refreshed")
	w.run(t, nil, "client", "disable", id)
	b.grows("client_changed")
	const complete = `document.readyState === "complete"`
	if script {
		b.until("a complete page", complete)
		w.restart(t, func() { w.run(t, nil, "client", "enable", id) })
		w.run(t, nil, "client", "secret", "add", id)
		b.grows("secret_added")
		const rows = `[...document.querySelectorAll("[data-grows] tr")].map(r => r.outerHTML)`
		if b.holds(rows+".length !== new Set("+rows+").size") || b.holds("!"+rows+`.some(r => r.includes("client_changed"))`) {
			t.Errorf("a record is missing, or shown twice:\n%s", b.text("main"))
		}
		examine("console-follow")
	} else if b.holds(complete) {
		t.Error("the page is complete without a script")
	}
	b.act(chromedp.Evaluate[chromedp.Void](`document.querySelector("#stop").click()`)) // the page is not complete yet
	b.reads("Export")
}

// TestConsoleClients performs an admin's tasks in a browser without scripts: creates a
// client, adds a secret and revokes the first, changes a setting, undoes a mistake, reads
// the audit log about it, and uses explain.
func TestConsoleClients(t *testing.T) {
	t.Parallel()
	w := openConsole(t)
	w.operator(t, "alice", "admin")
	b := newWindow(t).knowsAxe()
	w.enters(t, b, "alice")
	b.open(w.url + "/clients")
	b.reads("There is no client yet.")
	b.examine(t, "console-clients-none")
	b.click("#new")
	b.reads("What is it?")
	b.examine(t, "console-client-kinds")
	b.click("#kind-web")
	b.reads("It keeps a secret, and its users sign in.")
	b.fill("#name", "Shop")
	b.fill("#redirect_uris", "http://shop.example/callback")
	b.click("#create")
	b.reads("Nothing was saved:")
	b.answered(422)
	b.examine(t, "console-client-refused")
	b.fill("#redirect_uris", "https://shop.example/callback")
	b.click("#create")
	b.reads("The client is created")
	first, id := b.text("#secret"), b.text("#client-id")
	b.examine(t, "console-client-secret")
	b.click("#done")
	b.reads("A disabled client is refused")
	b.examine(t, "console-client")
	if strings.Contains(b.text("main"), first) {
		t.Error("the page of a client has its secret")
	}
	b.click("#add-secret")
	b.reads("The secrets of before stay valid.")
	b.click("#done")
	b.click(`tbody tr:first-child a[href$="/revoke"]`)
	b.reads("Revoke this secret?")
	b.examine(t, "console-revoke")
	b.click("#revoke")
	b.reads("The secret is revoked.")
	b.click("#edit")
	b.reads("Settings of")
	b.examine(t, "console-client-edit")
	b.fill("#name", "The shop")
	b.click("#save")
	b.reads("The settings are saved.")
	b.click("#disable")
	b.reads("The client is disabled")
	b.examine(t, "console-client-disabled")
	b.click("#undo")
	b.reads("The client is enabled.")
	b.open(w.url + "/clients?match=shop")
	b.reads("The shop")
	b.examine(t, "console-clients")
	b.open(w.url + "/clients/" + id)
	b.click("#delete")
	b.reads("To go on, type:")
	b.examine(t, "console-delete")
	b.open(w.url + "/audit?client=" + id)
	b.reads("client_created")
	b.examine(t, "console-audit")
	b.open(w.url + "/grants")
	b.reads("Name a subject")
	b.examine(t, "console-grants")
	b.open(w.url + "/explain")
	b.reads("Paste a token")
	b.examine(t, "console-explain")
	b.fill("#text", "mintage_rt_"+strings.Repeat("x", 60))
	b.click("#explain")
	b.reads("What to do")
	b.examine(t, "console-explained")
	b.fill("#search", id)
	b.enter()
	b.reads("A disabled client is refused")
	if b.holds("document.scripts.length > 0") {
		t.Error("a page of the console has a script")
	}
}

// TestConsoleHelpDesk performs a help desk's tasks in a browser without scripts: finds a
// user's grant, revokes it, has its refresh token explained, and reads the audit log. An
// API's page shows what its users read.
func TestConsoleHelpDesk(t *testing.T) {
	t.Parallel()
	w := openConsole(t)
	w.operator(t, "alice", "admin")
	const api = "https://orders.example"
	w.run(t, nil, "api", "create", "--id", api, "--name", "Orders", "--scope", "orders=Read your orders", "--scope-text", "ja orders=注文を見る")
	w.run(t, nil, "client", "create", "--id", "shop", "--name", "Shop", "--redirect-uri", redirect, "--scope", "openid", "--json")
	var added struct {
		Secret string `json:"client_secret"`
	}
	w.run(t, &added, "client", "secret", "add", "shop")
	refresh := w.redeem(t, "shop", added.Secret, "openid")
	looks := newWindow(t).knowsAxe()
	w.enters(t, looks, "alice")
	b := looks.another().withoutScripts()

	b.open(w.url + "/grants")
	b.fill("#subject", "alice")
	b.click("#find")
	b.reads("Last rotation")
	b.click(`tbody a[href^="/grants/"]`)
	b.reads("Life of the grant")
	grant := b.last(w.url + "/grants/")
	b.click("#end")
	b.reads("End this grant?")
	b.click("#end")
	b.reads("The grant has ended.")
	if w.token(t, "shop", added.Secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}}) != "" {
		t.Error("the refresh token of an ended grant gets tokens")
	}
	b.fill("#search", refresh)
	b.enter()
	b.reads("What to do")
	if text := b.text("main"); !strings.Contains(text, "refused") || strings.Contains(text, refresh) {
		t.Errorf("the explanation:\n%s", text)
	}
	b.open(w.url + "/audit?client=shop")
	b.reads("token_refused")
	b.open(w.url + "/apis/" + url.PathEscape(api))
	b.click("#preview")
	b.reads("Read your orders")
	b.click(`.tabs a[hreflang="ja"]`)
	b.reads("注文を見る")

	for name, path := range map[string]string{"console-consent": "/apis/" + url.PathEscape(api) + "/consent", "console-api": "/apis/" + url.PathEscape(api), "console-api-edit": "/apis/" + url.PathEscape(api) + "/edit",
		"console-grant": grant.Path, "console-user": "/users/alice"} {
		looks.open(w.url + path)
		looks.examine(t, name)
	}
}
