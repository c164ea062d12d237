//go:build e2e

package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// knowsAxe injects axe into every page that the tab opens from now on.
func (b *tab) knowsAxe() *tab {
	b.t.Helper()
	script, err := os.ReadFile(axeFile)
	if err != nil {
		b.t.Fatalf("%v: run make tools", err)
	}
	// Inject it by the debugging protocol, which no content security policy blocks.
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: string(script)})
	return b
}

// examine checks the tab's page with the rules of accessibility, light and wide as well
// as dark and narrow, and for horizontal scrolling. Colours do not depend on the width,
// so the other two pairs are only for the long form, and for screenshots, which it takes
// if SCREENSHOTS names a directory.
func (b *tab) examine(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	for _, as := range []struct {
		scheme string
		width  int64
		always bool
	}{{"light", wide, true}, {"dark", narrow, true}, {"light", narrow, false}, {"dark", wide, false}} {
		if !as.always && dir == "" && binary.Scaled(0, 1) == 0 {
			continue
		}
		do(b.ctx, t, look(as.scheme, as.width, 800))
		axe(b.ctx, t)
		placeholders(b.ctx, t)
		if as.width == narrow {
			noOverflow(b.ctx, t)
		}
		if dir == "" {
			continue
		}
		picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, as.scheme, as.width)), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	do(b.ctx, t, look("light", least, 900))
	noOverflow(b.ctx, t)
	do(b.ctx, t, look("light", wide, 900))
	if t.Failed() {
		t.Fatalf("the page %s fails", name)
	}
}

// placeholders checks the contrast of texts in empty fields, which axe ignores (WCAG 2.2,
// 1.4.3).
func placeholders(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, faint := range evaluate[[]string](ctx, t, `(() => {
		const luminance = color => {
			const [r, g, b] = color.match(/[\d.]+/g).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
			return .2126 * r + .7152 * g + .0722 * b + .05;
		};
		return [...document.querySelectorAll('[placeholder]')].map(e => {
			const pair = [luminance(getComputedStyle(e, '::placeholder').color), luminance(getComputedStyle(e).backgroundColor)];
			return [e.placeholder, Math.max(...pair) / Math.min(...pair)];
		}).filter(([, contrast]) => !(contrast >= 4.5)).map(([text, contrast]) => text + ': ' + contrast.toFixed(2));
	})()`) {
		t.Errorf("a placeholder is too faint: %s", faint)
	}
}
