//go:build e2e

package browser

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestThePageOfConnect runs the unchanged page for a browser of docs/how-to/connect.md.
func TestThePageOfConnect(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/how-to/connect.md")
	if err != nil {
		t.Fatal(err)
	}
	_, html, found := strings.Cut(string(text), "\n```html\n")
	html, _, closed := strings.Cut(html, "\n```\n")
	if !found || !closed {
		t.Fatal("connect.md has no page for a browser")
	}
	page := ""
	address := serveHTTP(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	}))
	// Use the name localhost instead of the address, as developers do.
	origin := strings.Replace(address, "127.0.0.1", "localhost", 1)
	w := openWorld(t, t.TempDir(), binary.FreeAddress(t, mintageHost))
	page = strings.ReplaceAll(html, "https://127.0.0.1:8443/oauth2/api", w.Issuer)
	password := w.user(t, "paige", "Paige")
	c := w.register(t, "Page", origin+"/", "--id", "page", "--public", "--native", "--scope", "openid profile")
	w.waitFor(t, c)

	b := newWindow(t)
	const ready = "document.querySelector('#refresh').onclick !== null"
	b.open(origin + "/")
	b.until("the script", ready)
	b.click("#login")
	b.sees("#username")
	b.signIn("paige", password)
	b.click("#allow")
	b.reads("signed in as Paige")
	b.until("an address without the code", "location.search === ''")
	b.click("#refresh")
	b.reads("refreshed for 300 seconds")
	if n := w.grants(t, "paige"); n != 1 {
		t.Errorf("%d grants", n)
	}

	// A callback that belongs to no login of this tab must not be redeemed.
	b.open(origin + "/?code=x&state=forged&iss=" + w.Issuer)
	b.reads("not a login of ours")
}
