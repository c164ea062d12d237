//go:build e2e

package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// knowsAxe makes every page that the tab opens from now on examinable.
func (b *tab) knowsAxe() *tab {
	b.t.Helper()
	script, err := os.ReadFile(axeFile)
	if err != nil {
		b.t.Fatalf("%v: run make tools", err)
	}
	// By the debugging protocol, which no content security policy stops.
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: string(script)})
	return b
}

// examine holds the page that the tab shows to the rules of accessibility, light and
// dark, wide and narrow, and has nothing to be scrolled sideways. It writes pictures if
// SCREENSHOTS names a directory.
func (b *tab) examine(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{wide, narrow} {
			do(b.ctx, t, look(scheme, width, 800))
			rules := allRules
			if scheme == "dark" {
				rules = colourRules
			}
			axe(b.ctx, t, rules)
			if width == narrow {
				noOverflow(b.ctx, t)
			}
			if dir == "" {
				continue
			}
			picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, scheme, width)), picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	do(b.ctx, t, look("light", wide, 900))
	if t.Failed() {
		t.Fatalf("the page %s fails", name)
	}
}
