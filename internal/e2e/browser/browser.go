//go:build e2e

// Package browser looks at the pages, and uses them, in a real browser:
// Chromium without a window, which `make tools` installs. Its tests fail where
// there is none.
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

// patience bounds what a test may ask of one browser; a machine that is busy
// with other tests is slow to start one.
const patience = 10 * time.Minute

// program is the one process that the tests share, and running is it, once a
// test has needed it.
var (
	program = sync.OnceValues(func() (ctx context.Context, err error) {
		running, err = launch(context.Background())
		return running, err
	})
	running context.Context
)

// start opens a browser that knows nothing of any other: its cookies, its cache
// and its history are its own. It is there until the test ends. The context is
// its first tab, for chromedp.Do and chromedp.Run.
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

// launch runs the program with an empty profile, or as the options say, until
// parent is done.
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
		// Containers that run tests offer no user namespaces, and what is
		// opened are our own pages.
		chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-features", "PasswordManagerOnboarding,Translate,SpareRendererForSitePerProcess"), chromedp.Flag("password-store", "basic"),
		chromedp.Flag("font-render-hinting", "none"),
		chromedp.Flag("site-per-process", true), // as browsers with windows do
		// The names of the tests are this machine; what holds the tests' key is
		// trusted, and nothing else.
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
