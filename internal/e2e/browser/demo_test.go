//go:build e2e

package browser

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// demoOf returns what dev.json contains about the demo page.
func (w *world) demoOf(t *testing.T) (demo struct {
	Page     string `json:"demo_page"`
	Username string `json:"username"`
	Password string `json:"password"`
}) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.Dir, "dev.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &demo); err != nil || demo.Page == "" {
		t.Fatalf("dev.json names no demo page: %v", err)
	}
	return demo
}

// TestDemoPage runs the whole demo in one browser window: a sign-in, a code, a pair, a
// refresh, the same refresh again, and a replay, which revokes the grant. The page also
// shows the API's responses.
func TestDemoPage(t *testing.T) {
	t.Parallel()
	w := openWorld(t, t.TempDir(), binary.FreeAddress(t, mintageHost))
	for _, how := range []struct {
		name   string
		script bool
	}{{"with scripts", true}, {"without scripts", false}} {
		t.Run(how.name, func(t *testing.T) { w.demoStory(t, how.script) })
	}
	t.Run("an answer that nobody asked for", w.demoRefusals)
}

func (w *world) demoStory(t *testing.T, scripts bool) {
	demo := w.demoOf(t)
	b := newWindow(t).knowsAxe()
	examine := b.examine
	if !scripts {
		b.withoutScripts()
		examine = func(*testing.T, string) {} // axe is a script
	}
	b.open(demo.Page)
	b.reads("From a sign-in to a replay")
	examine(t, "demo-start")
	b.click("#begin")
	b.fill("#username", demo.Username)
	b.fill("#password", demo.Password)
	b.enter()
	b.reads("You have a code")
	examine(t, "demo-code")
	if b.holds("document.scripts.length > 0") {
		t.Error("the demo page has a script")
	}

	b.click("#redeem")
	b.reads("You have a pair of tokens")
	b.reads(`"sub": "demo"`)
	examine(t, "demo-pair")
	first := b.token("Refresh token")
	b.click("#call")
	b.reads("The API accepts the token")
	examine(t, "demo-call")
	b.click("#refresh")
	b.reads("You have a new pair")
	second := b.token("Refresh token")
	if first == second {
		t.Error("a refresh gives the same token")
	}
	examine(t, "demo-refresh")
	b.click("#repeat")
	b.reads("Byte for byte the pair that you have")
	if b.token("Refresh token") != second {
		t.Error("the repeated refresh shows another token than the refresh")
	}
	examine(t, "demo-repeat")
	b.click("#refresh")
	b.reads("You have a third pair")
	b.click("#replay")
	b.reads("The replay has ended the grant")
	b.reads("invalid_grant")
	b.reads("refresh_replayed") // in the output of explain
	examine(t, "demo-replay")
	b.click("#call")
	b.reads("The API refuses the token")
	b.reads("invalid_token")
	examine(t, "demo-refused")
	b.click("#begin")
	b.reads("From a sign-in to a replay")
}

// token returns the token of a kind that the page shows.
func (b *tab) token(kind string) string {
	b.t.Helper()
	return evaluate[string](b.ctx, b.t, `[...document.querySelectorAll('.token')].find(e => e.querySelector('h3').innerText.startsWith('`+kind+`')).querySelector('.text').innerText`)
}

// demoRefusals sends requests that the demo page did not cause.
func (w *world) demoRefusals(t *testing.T) {
	demo := w.demoOf(t)
	b := newWindow(t).knowsAxe()
	b.open(demo.Page + "/callback?code=stolen&state=guessed")
	b.reads("is not the one that this browser began with")
	if b.holds("document.body.innerText.includes('stolen')") {
		t.Error("the page shows a code that nobody asked for")
	}
	b.examine(t, "demo-state")
	b.open(demo.Page + "/callback?error=access_denied&error_description=%3Cb%3Eno%3C%2Fb%3E&state=x")
	b.reads("access_denied: <b>no</b>")

	for _, origin := range []string{"", "null", "https://elsewhere.example", w.origin + ":1", strings.Replace(w.origin, "https", "http", 1)} {
		r, err := http.NewRequest(http.MethodPost, demo.Page+"/callback", strings.NewReader(url.Values{"do": {"refresh"}, "refresh": {"x"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		resp, err := w.post.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("a form from %q is answered %s", origin, resp.Status)
		}
	}
}
