//go:build e2e

package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

const loginPassword = "correct horse battery"

// TestHandoff runs the sample login page as a process on its own site.
func TestHandoff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := sampleCommand(t, "login", "--listen", binary.FreeAddress(t, "127.0.0.3"), "--admin", "unix:"+filepath.Join(dir, "admin.sock"), "--user", "alice")
	cmd.Env = append(cmd.Environ(), "DEMO_PASSWORD="+loginPassword)
	page, _ := run(t, cmd, "login.handoff_url is ")
	w := openWorld(t, dir, binary.FreeAddress(t, mintageHost), "--login-mode", "handoff", "--login-handoff-url", page)
	shop := w.openShop(t, "Handoff Shop", "--api", w.startAPI(t))
	t.Run("the whole story", func(t *testing.T) { w.handoffStory(t, shop, page) })
	t.Run("a challenge sent to somebody else", func(t *testing.T) { w.sentChallenge(t, shop, page) })
	t.Run("an answer taken to another browser", func(t *testing.T) { w.takenAnswer(t, shop, page) })
}

// logIn fills in and submits the sample's page.
func (b *tab) logIn(password string) {
	b.t.Helper()
	b.reads("Log in")
	b.fill("#username", "alice")
	b.fill("#password", password)
	b.click("#login")
}

func (w *world) handoffStory(t *testing.T, shop *shop, page string) {
	t.Parallel()
	b := newWindow(t).withoutScripts()
	b.open(shop.origin)
	b.click("#sign-in")
	b.reads("To go on to Handoff Shop at " + strings.TrimPrefix(shop.origin, "https://"))
	b.click("#cancel")
	b.reads("Not signed in: access_denied")

	b.open(shop.origin)
	b.click("#sign-in")
	b.logIn("wrong")
	b.reads("The user name or the password is wrong.")
	b.logIn(loginPassword)
	b.reads("Allow Handoff Shop to access your account?")
	b.click("#deny")
	b.reads("Not signed in: access_denied")

	b.open(shop.origin)
	b.click("#sign-in")
	b.sees("#allow") // the session exists: no login page
	b.click("#switch")
	b.logIn(loginPassword)
	b.click("#remember")
	b.click("#allow")
	b.sees("#refresh")
	b.click("#call")
	b.reads("200 OK\nreports of alice")
	b.click("#forget")
	b.sees("#sign-in")
	b.visited()
	b.click("#sign-in")
	b.sees("#refresh")
	for _, v := range b.visited() {
		if strings.Contains(v, "/oauth2/interaction") || strings.HasPrefix(v, page) {
			t.Errorf("the way was by %s", v)
		}
	}

	b.open(w.origin + "/account/connections")
	b.reads("Signed in as alice") // the subject, because the login page sends no name
	if list := b.text(".card h2"); list != "Handoff Shop" {
		t.Errorf("the connected applications are %q", list)
	}
	// The session ends before the form is sent: the form then leads to the login.
	b.forget(w.origin, "__Host-mintage_session")
	b.click(".card summary")
	b.click(".card .danger")
	b.logIn(loginPassword)
	b.reads("Connected applications")
	b.click(".card summary")
	b.click(".card .danger")
	b.reads("Handoff Shop has been disconnected.")
}

// sentChallenge is a session fixation attack: the attacker begins a login, sends the
// address of the login page to a victim, and waits for the victim to log in there.
func (w *world) sentChallenge(t *testing.T, shop *shop, page string) {
	t.Parallel()
	attacker, victim := newWindow(t), newWindow(t)
	attacker.open(shop.origin)
	attacker.click("#sign-in")
	attacker.reads("Log in")
	sent := attacker.last(page)
	victim.open(shop.origin) // the victim also uses the client
	victim.click("#sign-in")
	victim.reads("Log in")
	victim.open(sent.String())
	victim.logIn(loginPassword)
	victim.reads("This page cannot be used here")
	victim.answered(http.StatusForbidden)
	if victim.cookie(w.origin, "__Host-mintage_session") {
		t.Error("the victim has got a session")
	}
	// The attacker has the interaction's id, whose login was accepted, but not the
	// verifier.
	attacker.visited()
	attacker.open(w.origin + "/oauth2/interaction?id=" + url.QueryEscape(sent.Query().Get("challenge")))
	attacker.until("a page of the login", "document.title === 'Log in'")
	attacker.open(w.origin + "/oauth2/interaction?id=" + url.QueryEscape(sent.Query().Get("challenge")) + "&verifier=" + strings.Repeat("A", 43))
	attacker.reads("This page cannot be used here")
	attacker.answered(http.StatusForbidden)
	if attacker.cookie(w.origin, "__Host-mintage_session") {
		t.Error("the attacker has got a session")
	}
	attacker.open(shop.origin)
	attacker.sees("#sign-in")
}

// takenAnswer opens the accepted login's address in another browser than the one that
// began it.
func (w *world) takenAnswer(t *testing.T, shop *shop, page string) {
	t.Parallel()
	own, other := newWindow(t), newWindow(t)
	own.open(shop.origin)
	own.click("#sign-in")
	own.reads("Log in")
	answer := w.accept(t, own.last(page).Query().Get("challenge"), "bruno")
	other.open(shop.origin) // with cookies of its own
	other.click("#sign-in")
	other.reads("Log in")
	other.open(answer)
	other.reads("This page cannot be used here")
	other.answered(http.StatusForbidden)
	if other.cookie(w.origin, "__Host-mintage_session") {
		t.Error("another browser has got the session")
	}
	own.open(answer)
	own.reads("Signed in as bruno")
	own.click("#allow")
	own.sees("#refresh")
}

// accept reports the user to the admin API as a login page does, and returns the address
// to which the browser is sent.
func (w *world) accept(t *testing.T, challenge, subject string) (continueURL string) {
	t.Helper()
	admin := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", w.AdminSocket)
	}}}
	body, err := json.Marshal(map[string]string{"subject": subject, "name": subject})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := admin.Post("http://admin/admin/v1/logins/"+url.PathEscape(challenge)+"/accept", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal("the admin API gives no answer")
	}
	defer resp.Body.Close()
	var answer struct {
		ContinueURL string `json:"continue_url"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.ContinueURL == "" {
		t.Fatalf("the admin API answers %s: %v", resp.Status, err)
	}
	return answer.ContinueURL
}
