//go:build e2e

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/mintage/mintage/internal/pages"
)

// policy is the content security policy of the server's pages. A page that depends on
// something it blocks is broken here, too.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// samples returns all pages in all their states, also with extremely long names.
func samples() []pages.Sample {
	long := strings.Repeat("Donaudampfschifffahrtsgesellschaft", 6)
	address := strings.Repeat("long-", 10) + "name.print.example"
	scopes := []pages.Scope{{Name: strings.Repeat("photos:read:", 12)}, {Name: "x", Text: long, New: true}}
	return append(pages.Samples(),
		pages.Sample{Name: "long-login", Page: pages.Login{Interaction: "1", Client: long, Host: address, Username: long, Cancel: true, Attempt: pages.Attempt{Wrong: true}}},
		pages.Sample{Name: "long-account", Page: pages.Account{Interaction: "1", Client: long, Name: long, Username: long}},
		pages.Sample{Name: "long-consent", Page: pages.Consent{Interaction: "1", Client: long, Host: address, Name: long, Scopes: scopes, Known: scopes, Remember: true}},
		pages.Sample{Name: "long-connections", Page: pages.Connections{Name: long, Done: long, Items: []pages.Connection{{ClientID: "1", Client: long, Scopes: scopes}}}},
		pages.Sample{Name: "long-bounce", Page: pages.Bounce{Client: long, Host: address, URL: "https://" + address + "/", Code: "invalid_request", RequestID: long}},
	)
}

// axeFile is the copy of axe that `make tools` installs.
const axeFile = "js/node_modules/axe-core/axe.min.js"

// A gallery is a server of samples, and a tab that shows them.
type gallery struct {
	set     *pages.Set
	address string
	tab     context.Context
}

// openGallery opens a tab that injects axe into every page, and starts a server that
// answers /LOCALE/NAME with a sample, as the real server would.
func openGallery(t *testing.T) *gallery {
	t.Helper()
	script, err := os.ReadFile(axeFile)
	if err != nil {
		t.Fatalf("%v: run make tools", err)
	}
	set, err := pages.New(pages.Options{Name: "Stadtverwaltung Donaueschingen", Scopes: map[string]map[string]string{
		"photos:read":  {"en": "see your photos and albums", "ja": "写真とアルバムの閲覧"},
		"orders:write": {"en": "order prints in your name", "ja": "お客様に代わってのプリントの注文"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	g := &gallery{set: set, tab: start(t)}
	server := httptest.NewServer(g.handler())
	t.Cleanup(server.Close)
	g.address = server.URL
	// Inject axe by the debugging protocol, which no content security policy blocks.
	if _, err := chromedp.Call(g.tab, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: string(script)}); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *gallery) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /account/assets/{name}", func(w http.ResponseWriter, r *http.Request) {
		body, mediaType, ok := g.set.Asset(r.PathValue("name"))
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "max-age=600")
		w.Write(body)
	})
	for _, s := range samples() {
		mux.HandleFunc("GET /{locale}/"+s.Name, func(w http.ResponseWriter, r *http.Request) {
			body, err := g.set.Render(r.PathValue("locale"), s.Page)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Security-Policy", policy)
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Write(body)
		})
	}
	return mux
}

// write replaces the document's content by another page, under the same policy.
func (g *gallery) write(t *testing.T, locale string, view any) {
	t.Helper()
	body, err := g.set.Render(locale, view)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(string(body))
	if err != nil {
		t.Fatal(err)
	}
	evaluate[bool](g.tab, t, `new Promise(done => {
		document.open();
		addEventListener('load', () => done(true), {once: true});
		document.write(`+string(text)+`);
		document.close();
	})`)
}

// look sets the preferred colour scheme and the width of the window. It disables
// animations, because axe would measure an intermediate colour.
func look(scheme string, width, height int64) chromedp.Action[chromedp.Void] {
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	return chromedp.Steps(
		chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
			_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, media)
			return err
		}),
		chromedp.EmulateViewport(width, height),
	)
}

// take saves screenshots of the page, if SCREENSHOTS names a directory: light and dark,
// wide and narrow.
func (g *gallery) take(t *testing.T, locale, name string) {
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{wide, narrow} {
			do(g.tab, t, look(scheme, width, 800))
			picture, err := chromedp.Run(g.tab, chromedp.FullScreenshot(100))
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, fmt.Sprintf("%s-%s-%s-%d.png", locale, name, scheme, width))
			if err := os.WriteFile(file, picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
