//go:build e2e

package browser

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// evil serves an attacker's pages: /within embeds another page in two ways, and /form
// posts a form to another address.
func evil(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, "<!DOCTYPE html><title>Evil</title><p>Win a prize</p>")
	to := html.EscapeString(r.FormValue("to"))
	switch r.URL.Path {
	case "/within":
		fmt.Fprintf(w, `<iframe src="%[1]s"></iframe><object type="text/html" data="%[1]s"><p id="instead">nothing to show</p></object>`, to)
	case "/form":
		fmt.Fprintf(w, `<form method="post" action="%s">`, to)
		for name, values := range r.URL.Query() {
			if name != "to" {
				fmt.Fprintf(w, `<input type="hidden" name="%s" value="%s">`, html.EscapeString(name), html.EscapeString(values[0]))
			}
		}
		fmt.Fprint(w, `<button id="bait">Win</button></form>`)
	}
}

// attackers returns the origins of evil pages: another site, and another port of the same
// site, whose requests carry Lax cookies.
func attackers(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"another site":  "https://evil.example:" + serveHTTPS(t, "127.0.0.1:0", http.HandlerFunc(evil)),
		"the same site": "https://" + mintageHost + ":" + serveHTTPS(t, mintageHost+":0", http.HandlerFunc(evil)),
	}
}

// frames checks UI-06: no page of another origin can embed a page of Mintage.
func (w *world) frames(t *testing.T) {
	t.Parallel()
	c := w.register(t, "Framed", "https://client.example:1/callback")
	password := w.user(t, "frank", "Frank")
	w.waitFor(t, c)
	harmless := "https://harmless.example:" + serveHTTPS(t, "127.0.0.1:0", http.HandlerFunc(landing)) + "/"
	b := newWindow(t)
	b.allowed = true
	b.open(w.authorizeURL(c, nil))
	b.signIn("frank", password)
	consent := b.last(w.origin + "/oauth2/interaction?").String()
	for who, origin := range attackers(t) {
		t.Run(who, func(t *testing.T) {
			defer b.during(t)()
			b.open(origin + "/within?to=" + url.QueryEscape(harmless))
			b.wait("a page that may be framed, twice", func() bool { return len(b.framed()) == 2 })
			if shown := b.framed(); !strings.Contains(shown[0], "code: false") || b.holds("document.querySelector('#instead').checkVisibility()") {
				t.Fatalf("a page that may be framed shows %q", shown)
			}
			for _, ours := range []string{w.authorizeURL(c, nil), consent, w.origin + "/account/connections", w.origin + "/account/logout", w.origin + "/oauth2/authorize"} {
				before := len(b.broken())
				b.open(origin + "/within?to=" + url.QueryEscape(ours))
				b.sees("#instead")
				b.wait("a refusal, and no frame of "+bare(ours), func() bool { return len(b.broken()) > before && len(b.framed()) == 0 })
			}
		})
	}
}

// framed returns the texts of the embedded pages, without those that the browser has
// refused to show.
func (b *tab) framed() (shown []string) {
	b.t.Helper()
	all, err := chromedp.Targets(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, info := range all {
		// A frame of another site is a target (a process) of its own.
		if info.Type != "iframe" || info.BrowserContextID != chromedp.FromContext(b.ctx).BrowserContextID {
			continue
		}
		ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithTargetID(info.TargetID), chromedp.WithDetachOnCancel())
		// A page that the browser itself shows has its own address.
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.protocol === 'chrome-error:' ? '' : document.body.innerText`))
		cancel()
		if err == nil && text != "" {
			shown = append(shown, text)
		}
	}
	// A frame of the same site is in the tab's frame tree.
	for _, child := range call(b, page.GetFrameTree, cdp.Empty{}).FrameTree.ChildFrames {
		if child.Frame.UnreachableURL == "" && strings.HasPrefix(child.Frame.URL, "http") {
			shown = append(shown, "a frame at "+bare(child.Frame.URL))
		}
	}
	return shown
}
