//go:build e2e

package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

const scopeWords = `read:
  en: see your reports
  ja: レポートの閲覧
write:
  en: file reports in your name
  ja: お客様に代わってのレポートの提出
`

// openUsersWorld starts a server with built-in users.
func openUsersWorld(t *testing.T) *world {
	t.Helper()
	words := filepath.Join(t.TempDir(), "scopes.yaml")
	if err := os.WriteFile(words, []byte(scopeWords), 0o600); err != nil {
		t.Fatal(err)
	}
	return openWorld(t, t.TempDir(), binary.FreeAddress(t, mintageHost), "--pages-scopes-file", words)
}

func TestUsers(t *testing.T) {
	t.Parallel()
	w := openUsersWorld(t)
	t.Run("the whole story", w.wholeStory)
	t.Run("the final redirect", w.finalRedirect)
	t.Run("a response by form_post", w.formPost)
	t.Run("scripts of other origins", w.scripts)
	t.Run("frames", w.frames)
	t.Run("forged forms", w.forgery)
	t.Run("the back button", w.backButton)
	t.Run("a double click", w.doubleClick)
	t.Run("two tabs", w.twoTabs)
	t.Run("another user in another tab", w.switchedUser)
	t.Run("no cookies", w.cookiesOff)
	t.Run("a device", w.device)
}

// wholeStory runs all pages of a user's life in a browser without scripts.
func (w *world) wholeStory(t *testing.T) {
	t.Parallel()
	password := w.user(t, "alice", "Alice Cooper")
	var factor struct {
		Secret string `json:"secret"`
	}
	if err := json.Unmarshal([]byte(w.Run(t, "user", "totp", "alice", "--json")), &factor); err != nil {
		t.Fatal(err)
	}
	api := w.startAPI(t)
	shop := w.openShop(t, "Print Shop", "--api", api, "--scope", "read")
	b := newWindow(t).withoutScripts()

	b.open(shop.origin)
	b.click("#sign-in")
	b.reads("to continue to Print Shop")
	b.reads(strings.TrimPrefix(shop.origin, "https://"))
	b.until("the focus on the empty name", "document.activeElement.id === 'username'")
	b.fill("#username", "alice")
	b.fill("#password", password+"x")
	b.enter()
	b.reads("The username or the password is not correct.")
	b.answered(422)
	b.until("the focus on the password, which is to be typed again",
		"document.activeElement.id === 'password' && document.activeElement.value === '' && document.querySelector('#username').value === 'alice'")
	b.fill("#password", password)
	b.click("#submit")

	b.reads("Enter your code")
	b.until("the focus on the code", "document.activeElement.id === 'code'")
	b.fill("#code", wrongCode(t, factor.Secret))
	b.click("#submit")
	b.reads("This code is not correct")
	b.answered(422)
	b.fill("#code", totp(t, factor.Secret, time.Now()))
	b.click("#submit")

	b.reads("Allow Print Shop to access your account?")
	b.reads("Alice Cooper")
	b.reads("see your reports")
	b.reads("Your answer goes to " + strings.TrimPrefix(shop.origin, "https://"))
	if strings.Contains(b.text("main"), "file reports") {
		t.Error("the page shows a scope that was not requested")
	}
	b.click("#deny")
	b.reads("Not signed in: access_denied")

	b.open(shop.origin)
	b.click("#sign-in")
	b.click("#remember")
	b.enter() // Enter in the check box neither allows nor denies
	b.stays()
	b.click("#allow")
	b.sees("#refresh")
	if scope := b.text("#scope"); scope != "read" {
		t.Errorf("the client has scope %q", scope)
	}
	b.click("#call")
	b.reads("200 OK\nreports of alice")
	b.click("#refresh")
	b.until("a refresh", "document.querySelector('#renewed')?.innerText === '1'")

	// Signed in and remembered: the browser sees no page of Mintage.
	b.click("#forget")
	b.sees("#sign-in")
	b.visited()
	b.click("#sign-in")
	b.sees("#refresh")
	if been := b.visited(); slices.ContainsFunc(been, func(v string) bool { return strings.Contains(v, "/oauth2/interaction") }) ||
		!slices.Contains(been, w.origin+"/oauth2/api/authorize") {
		t.Errorf("the way was %s", strings.Join(been, " "))
	}

	// The client now requests one more scope, and Japanese.
	shop.stop()
	shop.start(t, "--api", api, "--scope", "read write", "--extra", "ui_locales=ja")
	b.open(shop.origin)
	b.click("#sign-in")
	b.sees("#allow")
	if lang := evaluate[string](b.ctx, t, "document.documentElement.lang"); lang != "ja" {
		t.Errorf("the page is in %q", lang)
	}
	if asked := b.text("ul[aria-labelledby=asks]"); asked != "お客様に代わってのレポートの提出 新規" {
		t.Errorf("the new scopes are shown as %q", asked)
	}
	if known := b.text("ul[aria-labelledby=known]"); known != "レポートの閲覧" {
		t.Errorf("the known scopes are shown as %q", known)
	}
	b.click("#remember")
	b.enter() // Enter in the check box neither allows nor denies
	b.stays()
	b.click("#allow")
	b.sees("#refresh")
	if scope := b.text("#scope"); scope != "read write" {
		t.Errorf("the client has scope %q", scope)
	}

	b.open(w.origin + "/account/connections")
	b.reads("Signed in as Alice Cooper")
	if list := b.text(".card"); !strings.Contains(list, "Print Shop") || !strings.Contains(list, "see your reports") || !strings.Contains(list, "file reports in your name") {
		t.Errorf("the list of connections is\n%s", list)
	}
	b.click(".card summary")
	b.click(".card .danger")
	b.reads("Print Shop has been disconnected.")
	b.reads("No application has access to your account.")
	if n := w.grants(t, "alice"); n != 0 {
		t.Errorf("%d grants are alive", n)
	}

	b.open(shop.origin)
	b.click("#call")
	b.reads("401 Unauthorized")
	b.click("#refresh")
	b.reads("No longer connected: 400 invalid_grant")

	// The disconnection has not ended the session.
	b.click("#sign-in")
	b.sees("#allow")
	b.open(w.origin + "/account/connections")
	b.click("a[href$='/account/logout']")
	b.click("#logout")
	b.reads("You are signed out")
	if b.cookie(w.origin, "__Host-mintage_session") {
		t.Error("the session's cookie is still there")
	}
	b.open(shop.origin)
	b.click("#sign-in")
	b.sees("#password")
}

// wrongCode returns a code that is valid at no time near now.
func wrongCode(t *testing.T, secret string) string {
	t.Helper()
	var good []string
	for step := -3; step <= 3; step++ {
		good = append(good, totp(t, secret, time.Now().Add(time.Duration(step)*30*time.Second)))
	}
	n := 0
	for slices.Contains(good, fmt.Sprintf("%06d", n)) {
		n++
	}
	return fmt.Sprintf("%06d", n)
}
