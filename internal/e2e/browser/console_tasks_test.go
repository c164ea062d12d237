//go:build e2e

package browser

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestConsoleTasks performs operators' main tasks with nothing but the screens: each one
// begins on the overview and follows only links and forms that the pages offer.
func TestConsoleTasks(t *testing.T) {
	t.Parallel()
	const tools = "https://tools.example/mcp"
	w := openConsole(t, "--client-metadata-registration")
	w.operator(t, "alice", "admin")
	w.run(t, nil, "api", "create", "--id", tools, "--name", "Tools", "--scope", "use=Use your tools", "--self-registered-clients", "--default-scope", "use")
	b := newWindow(t).knowsAxe()
	w.enters(t, b, "alice")
	client := trusting(t)
	home := func(link string) {
		b.t.Helper()
		b.open(w.url + "/")
		b.reads("Needs attention")
		b.click(`nav a[href="` + link + `"]`)
	}

	t.Log("a first client")
	home("/clients")
	b.click("#new")
	b.click("#kind-web")
	b.fill("#name", "Shop")
	b.fill("#redirect_uris", redirect)
	b.click("#create")
	b.reads("The client is created")
	shop, secret := b.text("#client-id"), b.text("#secret")
	b.click("#watch")
	b.grows("Nothing comes?")
	refresh := w.redeem(t, shop, secret, "openid")
	refresh = w.token(t, shop, secret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}})
	b.grows("refresh: done")

	t.Log("who used this token")
	b.open(w.url + "/")
	b.fill("#search", refresh)
	b.enter()
	b.reads("What to do")
	if text := b.text("main"); !strings.Contains(text, "Shop") && !strings.Contains(text, shop) || !strings.Contains(text, "alice") {
		t.Errorf("the explanation names neither client nor user:\n%s", text)
	}

	t.Log("a lost phone: what it has must end, and its user needs another second factor")
	password := w.operator(t, "bob", "auditor")
	phone := newWindow(t)
	w.enters(t, phone, "bob")
	home("/users")
	b.click(`tbody a[href="/users/bob"]`)
	b.reads("For a phone that is lost")
	b.click("#factor")
	b.reads("Remove the second factor?")
	b.click("#remove")
	b.reads("The second factor is removed.")
	b.click(`main a[href^="/grants?subject="]`)
	b.reads("There is none.")
	phone.open(w.url + "/clients")
	phone.reads("Lost your phone?")

	t.Log("an agent that is to be blocked")
	discovery, err := client.Get(w.public + "/.well-known/oauth-authorization-server/oauth2/api")
	if err != nil {
		t.Fatal(err)
	}
	defer discovery.Body.Close()
	var metadata struct {
		Registration string `json:"registration_endpoint"`
	}
	if err := json.NewDecoder(discovery.Body).Decode(&metadata); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"client_name": "Helpful agent", "redirect_uris": []string{"http://127.0.0.1/callback"}, "token_endpoint_auth_method": "none", "grant_types": []string{"authorization_code", "refresh_token"}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Post(metadata.Registration, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var agent struct {
		ID string `json:"client_id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&agent); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("token request: %d, %v", resp.StatusCode, err)
	}
	code := make(chan string, 1)
	callback := serveHTTP(t, "127.0.0.1:0", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" { // the browser also requests the icon
			code <- r.URL.Query().Get("code")
		}
		io.WriteString(rw, "<p>You can close this page.</p>")
	})) + "/callback"
	asks := w.public + "/oauth2/api/authorize?" + url.Values{"response_type": {"code"}, "client_id": {agent.ID}, "redirect_uri": {callback}, "scope": {"use"}, "resource": {tools},
		"code_challenge": {challenge}, "code_challenge_method": {"S256"}}.Encode()
	user := newWindow(t)
	user.open(asks)
	user.fill("#username", "bob")
	user.fill("#password", password)
	user.click("#submit")
	user.reads("Helpful agent")
	user.click("#allow")
	user.reads("You can close this page.")
	kept := w.token(t, agent.ID, "", url.Values{"grant_type": {"authorization_code"}, "code": {<-code}, "redirect_uri": {callback}, "code_verifier": {verifier}})
	if kept == "" {
		t.Fatal("the agent gets no tokens")
	}
	home("/clients")
	b.fill("#match", "Helpful")
	b.click("#find")
	b.reads("No client is found.")
	b.click("#look-on")
	b.reads("Last agreement")
	b.examine(t, "console-agents")
	b.click("tbody a")
	b.reads("Registered by")
	b.examine(t, "console-agent")
	b.click("#disable")
	b.reads("its requests are refused")
	user.open(asks)
	user.reads("This application has been disabled")
	if w.token(t, agent.ID, "", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {kept}}) != "" {
		t.Error("a blocked agent gets tokens")
	}

	t.Log("keys are rotated before an audit, and the audit sees it")
	home("/keys")
	b.click("#rotate")
	b.reads("Rotate the keys now?")
	b.click("#rotate")
	b.reads("Each key has a successor")
	b.click("#added")
	b.until("the new keys, as the operator made them", `[...document.querySelectorAll("tbody tr")].some(r => r.innerText.includes("key_added") && r.innerText.includes("alice"))`)
}
