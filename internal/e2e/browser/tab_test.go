//go:build e2e

package browser

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestMain ends the browser, which would otherwise leave its profile behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if running != nil {
		chromedp.Cancel(running)
	}
	os.RemoveAll(samplesDirectory)
	os.Exit(code)
}

// within limits the wait for a page or an element, on a machine that is busy with other
// tests.
const within = 45 * time.Second

// A tab is used as by a person, with mouse and keyboard. Any violation of a content
// security policy fails the test.
type tab struct {
	t    *testing.T
	ctx  context.Context
	main string // the id of its main frame

	mu         sync.Mutex
	visits     []string          // the URLs that the main frame requested, redirects included
	status     int64             // of the last response
	pending    map[string]string // requests without a complete response, by the protocol's ids
	violations []string
	allowed    bool // the test expects violations
}

// newWindow opens a browser context with one tab.
func newWindow(t *testing.T) *tab {
	t.Helper()
	return newTab(t, start(t))
}

// during reports the tab's failures to a subtest, until done is called.
func (b *tab) during(t *testing.T) (done func()) {
	whole := b.t
	b.t = t
	return func() { b.t = whole }
}

// another opens one more tab of the same browser.
func (b *tab) another() *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // the first context ends this tab, too
		b.t.Fatalf("open a tab: %v", err)
	}
	return newTab(b.t, ctx)
}

func newTab(t *testing.T, ctx context.Context) *tab {
	t.Helper()
	b := &tab{t: t, ctx: ctx, pending: map[string]string{}}
	b.main = string(call(b, page.GetFrameTree, cdp.Empty{}).FrameTree.Frame.ID)
	if err := chromedp.Listen(ctx, b.notice); err != nil {
		t.Fatal(err)
	}
	call(b, audits.Enable, cdp.Empty{})
	// Give every tab the focus: parallel tests share the browser process.
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.allowed && len(b.violations) > 0 {
			t.Errorf("a content security policy is broken: %s", strings.Join(b.violations, "; "))
		}
	})
	return b
}

// keepsNoCookies clears the browser's cookies before each response is processed, because
// headless Chromium has no setting that refuses cookies.
func (b *tab) keepsNoCookies() {
	b.t.Helper()
	err := chromedp.Listen(b.ctx, func(event any) {
		if e, ok := event.(*fetch.EventRequestPaused); ok {
			go func() { // a listener must not block; an error leaves the tab where it is
				if _, err := chromedp.Call(b.ctx, network.ClearBrowserCookies, cdp.Empty{}); err == nil {
					chromedp.Call(b.ctx, fetch.ContinueResponse, fetch.ContinueResponseParams{RequestID: e.RequestID})
				}
			}()
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	call(b, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{RequestStage: fetch.RequestStageResponse}}})
}

// notice records the protocol's events.
func (b *tab) notice(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventLoadingFinished:
		delete(b.pending, string(e.RequestID))
	case *network.EventLoadingFailed:
		delete(b.pending, string(e.RequestID))
	case *network.EventRequestWillBeSent:
		b.pending[string(e.RequestID)] = bare(e.Request.URL)
		if e.Type == network.ResourceTypeDocument && string(e.FrameID) == b.main {
			b.visits = append(b.visits, e.Request.URL)
			b.status = 0
		}
	case *network.EventResponseReceived:
		if e.Type == network.ResourceTypeDocument && string(e.FrameID) == b.main {
			b.status = e.Response.Status
		}
	case *audits.EventIssueAdded:
		if d := e.Issue.Details; d != nil && d.ContentSecurityPolicyIssueDetails != nil {
			csp := d.ContentSecurityPolicyIssueDetails
			b.violations = append(b.violations, csp.ViolatedDirective+" stops "+bare(csp.BlockedURL))
		}
	case *log.EventEntryAdded:
		if strings.Contains(e.Entry.Text, "Content Security Policy") {
			directive := "a directive"
			if i := strings.Index(e.Entry.Text, `directive: "`); i >= 0 {
				directive = e.Entry.Text[i:]
			}
			b.violations = append(b.violations, "the log says so of "+directive)
		}
	}
}

// broken returns the policy violations so far.
func (b *tab) broken() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.violations)
}

// been returns the addresses that the tab visited since the last call of visited, without
// queries.
func (b *tab) been() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range b.visits {
		list = append(list, bare(v))
	}
	return list
}

// visited returns been and clears it.
func (b *tab) visited() []string {
	list := b.been()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.visits = nil
	return list
}

// last returns the last requested address with a prefix, with its query, which must not
// be logged.
func (b *tab) last(prefix string) *url.URL {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range slices.Backward(b.visits) {
		if strings.HasPrefix(v, prefix) {
			u, err := url.Parse(v)
			if err != nil {
				b.t.Fatal("the address is invalid")
			}
			return u
		}
	}
	b.t.Fatalf("the tab has not been at %s", prefix)
	return nil
}

// bare returns an address without the parts that may be secret.
func bare(address string) string {
	address, _, _ = strings.Cut(address, "?")
	address, _, _ = strings.Cut(address, "#")
	return address
}

func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	r, err := chromedp.Call(ctx, command, params)
	if err != nil {
		b.t.Fatalf("%s: %v", command.Method, err)
	}
	return r
}

// act performs steps whose arguments may be logged.
func (b *tab) act(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	do(ctx, b.t, steps...)
}

// holds evaluates a condition on the page. It is false while a page unloads. Such a page
// may never answer, so the timeout leaves time to try the next page.
func (b *tab) holds(condition string) bool {
	ctx, cancel := context.WithTimeout(b.ctx, within/4)
	defer cancel()
	ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+condition+")"))
	return err == nil && ok
}

// until waits for a condition of the page.
func (b *tab) until(what, condition string) {
	b.t.Helper()
	b.wait(what, func() bool { return b.holds(condition) })
}

func (b *tab) wait(what string, done func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(within); !done(); time.Sleep(15 * time.Millisecond) {
		if time.Now().After(deadline) || b.ctx.Err() != nil {
			b.t.Fatalf("timeout while waiting for %s%s", what, b.dump())
		}
	}
}

// dump describes what the tab shows, without queries of addresses.
func (b *tab) dump() string {
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](
		`document.title + ' (' + document.readyState + ', ' + document.visibilityState + ', focus on ' + (document.activeElement?.id || 'nothing') + ')\n' + document.body.innerText.slice(0, 2000)`))
	if err != nil {
		text = err.Error()
	}
	where, _ := chromedp.Run(b.ctx, chromedp.Location())
	been := strings.Join(b.been(), " ")
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("\nat %s (status %d), after %s\nwaits for %v\n%s", bare(where), b.status, been, slices.Collect(maps.Values(b.pending)), text)
}

// open navigates to an address and waits until the page has loaded.
func (b *tab) open(address string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		b.t.Fatalf("open %s: %v", bare(address), strings.ReplaceAll(err.Error(), address, bare(address)))
	}
}

// sees waits for an element, by a CSS selector.
func (b *tab) sees(selector string) {
	b.t.Helper()
	b.until(selector, fmt.Sprintf("document.readyState === 'complete' && document.querySelector(%q)?.checkVisibility()", selector))
}

// reads waits for a visible text.
func (b *tab) reads(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("the text %q", text), fmt.Sprintf("document.readyState === 'complete' && document.body.innerText.includes(%q)", text))
}

// text returns the visible text of an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	b.sees(selector)
	return evaluate[string](b.ctx, b.t, fmt.Sprintf("[...document.querySelectorAll(%q)].map(e => e.innerText).join('\\n')", selector))
}

// answered checks the status of the current page.
func (b *tab) answered(status int64) {
	b.t.Helper()
	b.mu.Lock()
	got := b.status
	b.mu.Unlock()
	if got != status {
		b.t.Errorf("the page's status is %d, want %d%s", got, status, b.dump())
	}
}

// point scrolls to an element and returns its middle. For a link over several lines it is
// the middle of the first line, because the middle of all may be outside the link.
func (b *tab) point(selector string) (x, y float64) {
	b.t.Helper()
	b.sees(selector)
	at := evaluate[[]float64](b.ctx, b.t, fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.scrollIntoView({block: 'center', behavior: 'instant'});
		const r = e.getClientRects()[0];
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`, selector))
	return at[0], at[1]
}

// click clicks an element with the mouse.
func (b *tab) click(selector string) {
	b.t.Helper()
	x, y := b.point(selector)
	b.act(chromedp.MouseClickXY(x, y))
}

// fill replaces the content of a field by typing.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.click(selector)
	b.act(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).select()", selector)))
	call(b, input.InsertText, input.InsertTextParams{Text: text})
}

// enter presses the Enter key.
func (b *tab) enter() {
	b.t.Helper()
	b.act(chromedp.KeyEvent("\r"))
}

// stays fails the test if the page is being left. A form that an input event submits has
// sent its request after some turns of the page's event loop.
func (b *tab) stays() {
	b.t.Helper()
	for range 20 {
		b.until("another turn of the page", "true")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) > 0 {
		b.t.Errorf("the page is left for %v", slices.Collect(maps.Values(b.pending)))
	}
}

// back presses the browser's back button. The page may come from the server or from the
// back/forward cache.
func (b *tab) back() {
	b.t.Helper()
	history := call(b, page.GetNavigationHistory, cdp.Empty{})
	to := history.CurrentIndex - 1
	call(b, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: history.Entries[to].ID})
	b.wait("the page before", func() bool {
		now, err := chromedp.Call(b.ctx, page.GetNavigationHistory, cdp.Empty{})
		return err == nil && now.CurrentIndex == to // it fails while the page is being replaced
	})
}

// reload presses the browser's reload button.
func (b *tab) reload() {
	b.t.Helper()
	b.act(chromedp.Reload())
}

// withoutScripts disables scripts of pages. The debugging protocol can still evaluate
// expressions.
func (b *tab) withoutScripts() *tab {
	b.t.Helper()
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	return b
}

// forget deletes a cookie of the server, as if it had expired.
func (b *tab) forget(origin, name string) {
	b.t.Helper()
	call(b, network.DeleteCookies, network.DeleteCookiesParams{Name: name, URL: origin + "/"})
	if b.cookie(origin, name) {
		b.t.Fatalf("the cookie %s is still there", name)
	}
}

// cookie reports whether the browser has a cookie for the server.
func (b *tab) cookie(origin, name string) bool {
	b.t.Helper()
	cookies := call(b, network.GetCookies, network.GetCookiesParams{URLs: []string{origin + "/"}}).Cookies
	return slices.ContainsFunc(cookies, func(c *network.Cookie) bool { return c.Name == name })
}
