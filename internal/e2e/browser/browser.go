//go:build e2e

// Package browser uses the pages in a real browser: headless Chromium, which `make tools`
// installs. The tests fail without it.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience limits the time that a test may use one browser; on a machine that is busy
// with other tests, a browser starts slowly.
const patience = 10 * time.Minute

// program starts the browser process that the tests share, and running is that process
// once a test has needed it.
var (
	program = sync.OnceValues(func() (ctx context.Context, err error) {
		running, err = launch(context.Background())
		return running, err
	})
	running context.Context
)

// start opens a browser context that is isolated from all others: it has its own cookies,
// cache and history, and is closed at the end of the test. The result is its first tab,
// for chromedp.Do and chromedp.Run.
func start(t *testing.T) context.Context {
	t.Helper()
	all, err := program()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(all, patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a window: %v", err)
	}
	return ctx
}

// launch runs Chromium with an empty profile, or with other options, until parent is
// done.
func launch(parent context.Context, options ...chromedp.ExecAllocatorOption) (context.Context, error) {
	path := ""
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, errors.New("there is no Chromium: run make tools")
	}
	all := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path),
		chromedp.Headless, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		// Containers that run tests offer no user namespaces, and the tests open only
		// their own pages.
		chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-features", "PasswordManagerOnboarding,Translate,SpareRendererForSitePerProcess"), chromedp.Flag("password-store", "basic"),
		chromedp.Flag("font-render-hinting", "none"),
		chromedp.Flag("site-per-process", true), // as in a browser with windows
		// The names of the tests resolve to this machine. The browser trusts only
		// certificates with the tests' key.
		chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1"),
		chromedp.Flag("ignore-certificate-errors-spki-list", pin()),
		chromedp.WSURLReadTimeout(time.Minute),
	}
	ctx, _ := chromedp.NewExecAllocator(parent, append(all, options...)...)
	ctx, _ = chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return ctx, nil
}
