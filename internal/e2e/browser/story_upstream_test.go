//go:build e2e

package browser

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// provider is the directory of a real OpenID Connect provider, shared with the tests of
// internal/e2e/upstream.
const provider = "../upstream/js"

// TestUpstream logs in at the pages of the npm package oidc-provider.
func TestUpstream(t *testing.T) {
	t.Parallel()
	const secret = "a secret of the tests: 100%"
	address := binary.FreeAddress(t, mintageHost)
	configuration, err := json.Marshal(map[string]any{"port": 0, "clients": []map[string]any{
		{"client_id": "mintage", "client_secret": secret, "redirect_uris": []string{"https://" + address + "/oauth2/callback"},
			"post_logout_redirect_uris": []string{"https://" + address + "/account/logout"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", "provider.mjs")
	cmd.Dir, cmd.Stdin = provider, bytes.NewReader(configuration)
	issuer, _ := run(t, cmd, "issuer: ")
	secretFile := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secretFile, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	w := openWorld(t, t.TempDir(), address, "--login-mode", "upstream", "--login-upstream-issuer", issuer, "--login-upstream-client-id", "mintage",
		"--login-upstream-client-secret-file", secretFile, "--login-upstream-scopes", "profile", "--login-upstream-subject-prefix", "corp|", "--login-upstream-logout")
	shop := w.openShop(t, "Upstream Shop", "--api", w.startAPI(t))

	b := newWindow(t)
	b.open(shop.origin)
	b.click("#sign-in")
	b.until("the provider's page", "location.origin === '"+issuer+"'")
	b.click("a[href$='/abort']")
	b.reads("Not signed in: access_denied")

	b.open(shop.origin)
	b.click("#sign-in")
	b.until("the provider's page", "location.origin === '"+issuer+"'")
	b.fill("input[name=login]", "alice")
	b.fill("input[name=password]", "any")
	b.click("button[type=submit]")
	b.sees("input[name=prompt][value=consent] ~ button") // a page of the provider
	b.click("button[type=submit]")
	b.reads("Allow Upstream Shop to access your account?")
	b.reads("User alice")
	b.click("#deny")
	b.reads("Not signed in: access_denied")

	b.open(shop.origin)
	b.click("#sign-in")
	b.sees("#allow") // the session exists: no login page
	b.click("#switch")
	b.until("the provider's page", "location.origin === '"+issuer+"'")
	b.fill("input[name=login]", "bettina")
	b.fill("input[name=password]", "any")
	b.click("button[type=submit]")
	b.sees("input[name=prompt][value=consent] ~ button")
	b.click("button[type=submit]")
	b.reads("User bettina")
	b.click("#remember")
	b.click("#allow")
	b.sees("#refresh")
	b.click("#call")
	b.reads("200 OK\nreports of corp|bettina")
	b.click("#refresh")
	b.until("a refresh", "document.querySelector('#renewed')?.innerText === '1'")

	b.click("#forget")
	b.sees("#sign-in")
	b.visited()
	b.click("#sign-in")
	b.sees("#refresh")
	for _, v := range b.visited() {
		if strings.Contains(v, "/oauth2/interaction") || strings.HasPrefix(v, issuer) {
			t.Errorf("the way was by %s", v)
		}
	}
	// A logout also leads to the provider, which asks, and redirects back.
	b.open(w.origin + "/account/logout")
	b.click("#logout")
	b.until("the provider's page", "location.origin === '"+issuer+"'")
	b.click("button[name=logout]")
	b.reads("You are signed out")
	b.open(shop.origin)
	b.click("#forget")
	b.click("#sign-in")
	b.until("the provider's page", "location.origin === '"+issuer+"'")
	b.sees("input[name=login]") // the provider's session has ended
}
