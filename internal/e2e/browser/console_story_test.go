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

// grows waits for a text of a page that is not complete yet.
func (b *tab) grows(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("the text %q", text), fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// A new client comes with a program, and a page shows its first requests as they come:
// a mistake with its remedy, and each stage to the first refresh. The audit log can be
// followed likewise. No page has a script.
func TestConsoleFirstRequest(t *testing.T) {
	t.Parallel()
	w := openConsole(t)
	w.operator(t, "alice", "admin")
	b := newWindow(t).knowsAxe()
	w.enters(t, b, "alice")
	const redirect = "https://shop.example/callback"
	// RFC 7636 appendix B.
	const verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	b.open(w.url + "/new/client?kind=web")
	b.fill("#name", "Shop")
	b.fill("#redirect_uris", redirect)
	b.click("#create")
	b.reads("A program for it")
	id, secret := b.text("#client-id"), b.text("#secret")
	b.examine(t, "console-client-new")
	b.click("#watch")
	b.grows("Nothing comes?")

	leaf, err := x509.ParseCertificate(certificate().Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	authorize := func(redirect string) {
		t.Helper()
		resp, err := client.Get(w.public + "/oauth2/api/authorize?" + url.Values{"response_type": {"code"}, "client_id": {id}, "redirect_uri": {redirect}, "scope": {"openid"}, "state": {"a"},
			"code_challenge": {challenge}, "code_challenge_method": {"S256"}}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	token := func(form url.Values) (pair struct {
		Refresh string `json:"refresh_token"`
	}) {
		t.Helper()
		form.Set("client_id", id)
		form.Set("client_secret", secret)
		resp, err := client.PostForm(w.public+"/oauth2/api/access_token", form)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&pair); err != nil {
			t.Fatal(err)
		}
		return pair
	}
	authorize("https://shop.example/other")
	b.grows("have the client send a redirect_uri that is registered")
	authorize(redirect)
	b.grows("sign-in asked for: done")
	code, err := binary.Command(t, "code", "issue", "--client", id, "--redirect-uri", redirect, "--subject", "alice", "--scope", "openid", "--code-challenge", challenge, "--data", w.dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	pair := token(url.Values{"grant_type": {"authorization_code"}, "code": {strings.TrimSpace(string(code))}, "redirect_uri": {redirect}, "code_verifier": {verifier}})
	b.grows("tokens: done")
	token(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {pair.Refresh}})
	b.reads("It works")
	b.examine(t, "console-watch")
	if strings.Contains(b.text("main"), secret) {
		t.Error("the page has the secret")
	}
	if b.holds("document.scripts.length > 0") {
		t.Error("the page has a script")
	}

	b.open(w.url + "/audit?client=" + id)
	b.click("#follow")
	b.grows("tokens_refreshed")
	w.run(t, nil, "client", "disable", id)
	b.grows("client_changed")
	b.act(chromedp.Evaluate[chromedp.Void](`document.querySelector("#stop").click()`)) // the page is not complete yet
	b.reads("Export")
}

// The days of an admin: a first client, another secret for it and the end of the first,
// a change, a mistake that is undone, what the audit log says of it, and an explanation.
// The browser runs no script.
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
