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

// TestMain ends the browser, which would leave its profile behind otherwise.
func TestMain(m *testing.M) {
	code := m.Run()
	if running != nil {
		chromedp.Cancel(running)
	}
	os.RemoveAll(samplesDirectory)
	os.Exit(code)
}

// within is how long a tab may take to get somewhere on a machine that is busy with other
// tests.
const within = 45 * time.Second

// A tab is used as a person would: with a mouse and a keyboard. What breaks a
// content security policy in it fails the test.
type tab struct {
	t    *testing.T
	ctx  context.Context
	main string // its frame

	mu         sync.Mutex
	visits     []string          // what the main frame asked for: URLs, redirects too
	status     int64             // of its last answer
	pending    map[string]string // what it asked for and has not got, by the protocol's ids
	violations []string
	allowed    bool // violations are what the test is about
}

// newWindow opens a browser with a tab in it.
func newWindow(t *testing.T) *tab {
	t.Helper()
	return newTab(t, start(t))
}

// during makes the tab serve a subtest, until the result is called.
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
	if err := chromedp.Do(ctx); err != nil { // its life is that of the first context
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
	// Several tabs have the focus at once: tests share the program.
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

// keepsNoCookies has the browser forget every cookie before it goes on with the answer that
// sets it: without windows, it has no settings that refuse them.
func (b *tab) keepsNoCookies() {
	b.t.Helper()
	err := chromedp.Listen(b.ctx, func(event any) {
		if e, ok := event.(*fetch.EventRequestPaused); ok {
			go func() { // a listener must not wait; what fails here leaves the tab where it is
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

// notice keeps what the protocol tells.
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

// broken is what has broken a policy so far.
func (b *tab) broken() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.violations)
}

// been is where the tab has been, without queries, since visited was called.
func (b *tab) been() (list []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range b.visits {
		list = append(list, bare(v))
	}
	return list
}

// visited is been, and forgets it.
func (b *tab) visited() []string {
	list := b.been()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.visits = nil
	return list
}

// last finds the last address that the tab asked for and that begins so, with
// its query, which is not for any log.
func (b *tab) last(prefix string) *url.URL {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range slices.Backward(b.visits) {
		if strings.HasPrefix(v, prefix) {
			u, err := url.Parse(v)
			if err != nil {
				b.t.Fatal("an address that is none")
			}
			return u
		}
	}
	b.t.Fatalf("the tab has not been at %s", prefix)
	return nil
}

// bare is an address without what may be secret in it.
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

// act does what takes no arguments that a log must not hold.
func (b *tab) act(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, within)
	defer cancel()
	do(ctx, b.t, steps...)
}

// holds evaluates a condition. A page that is just going away holds nothing, and may
// never answer: there is time to ask the next one.
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
			b.t.Fatalf("waited in vain for %s%s", what, b.dump())
		}
	}
}

// dump tells what the tab shows, and no address with its query.
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

// open goes to an address and waits until the page is there.
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

// reads waits for a text that people see.
func (b *tab) reads(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("the text %q", text), fmt.Sprintf("document.readyState === 'complete' && document.body.innerText.includes(%q)", text))
}

// text is what an element shows.
func (b *tab) text(selector string) string {
	b.t.Helper()
	b.sees(selector)
	return evaluate[string](b.ctx, b.t, fmt.Sprintf("[...document.querySelectorAll(%q)].map(e => e.innerText).join('\\n')", selector))
}

// answered checks the status of the page that is shown.
func (b *tab) answered(status int64) {
	b.t.Helper()
	b.mu.Lock()
	got := b.status
	b.mu.Unlock()
	if got != status {
		b.t.Errorf("the page's status is %d, want %d%s", got, status, b.dump())
	}
}

// point is the middle of an element, brought into view. A link may go over several lines,
// with nothing of it between them: it is that of the first.
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

// click presses an element with the mouse.
func (b *tab) click(selector string) {
	b.t.Helper()
	x, y := b.point(selector)
	b.act(chromedp.MouseClickXY(x, y))
}

// fill types into a field, in place of what is in it.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.click(selector)
	b.act(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).select()", selector)))
	call(b, input.InsertText, input.InsertTextParams{Text: text})
}

// enter is the key.
func (b *tab) enter() {
	b.t.Helper()
	b.act(chromedp.KeyEvent("\r"))
}

// stays fails the test if the page is left: after some turns of the page, a form that an
// input event has submitted is on its way.
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

// back is the browser's button. The page may come from the server, or from the
// browser's memory.
func (b *tab) back() {
	b.t.Helper()
	history := call(b, page.GetNavigationHistory, cdp.Empty{})
	to := history.CurrentIndex - 1
	call(b, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: history.Entries[to].ID})
	b.wait("the page before", func() bool {
		now, err := chromedp.Call(b.ctx, page.GetNavigationHistory, cdp.Empty{})
		return err == nil && now.CurrentIndex == to // there is no page while it is exchanged
	})
}

// reload is the browser's button.
func (b *tab) reload() {
	b.t.Helper()
	b.act(chromedp.Reload())
}

// withoutScripts is a browser in which scripts are switched off. The protocol
// can still look.
func (b *tab) withoutScripts() *tab {
	b.t.Helper()
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	return b
}

// forget removes a cookie of the server, as its end would.
func (b *tab) forget(origin, name string) {
	b.t.Helper()
	call(b, network.DeleteCookies, network.DeleteCookiesParams{Name: name, URL: origin + "/"})
	if b.cookie(origin, name) {
		b.t.Fatalf("the cookie %s is still there", name)
	}
}

// cookie reports whether the browser has one for the server.
func (b *tab) cookie(origin, name string) bool {
	b.t.Helper()
	cookies := call(b, network.GetCookies, network.GetCookiesParams{URLs: []string{origin + "/"}}).Cookies
	return slices.ContainsFunc(cookies, func(c *network.Cookie) bool { return c.Name == name })
}
