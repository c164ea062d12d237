//go:build e2e

package browser

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/mintage/mintage/internal/pages"
)

// narrow is the width of WCAG 2.2, 1.4.10: a window of 1280 pixels at 400 %. It is
// narrower than the 640 pixels at 200 %, and so covers them.
const (
	narrow = 320
	wide   = 1280
	// least is the smallest width at which the console's tables have columns. A window of
	// 1280 pixels at 150 % is little wider.
	least = 769
)

const runAxe = `axe.run(document, {runOnly: {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}, resultTypes: ['violations'], preload: false, iframes: false}).then(r => ({
	passes: r.passes.length,
	violations: r.violations.map(v => v.id + ': ' + v.help + ': ' + v.nodes.map(n => n.html + ' ' + n.failureSummary).join(' | ')),
}))`

type findings struct {
	Passes     int      `json:"passes"`
	Violations []string `json:"violations"`
}

func do(ctx context.Context, t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

func evaluate[T any](ctx context.Context, t *testing.T, expression string) T {
	t.Helper()
	result, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func axe(ctx context.Context, t *testing.T) {
	t.Helper()
	found := evaluate[findings](ctx, t, runAxe)
	if found.Passes == 0 {
		t.Error("no rule applied: nothing was examined")
	}
	for _, violation := range found.Violations {
		t.Error(violation)
	}
}

// TestPagesAreAccessible shows every page in every state, in three languages, light and
// dark, wide and narrow. No automatically checkable rule of WCAG 2.2 AA may be violated,
// nothing may need horizontal scrolling, and the keyboard must suffice.
func TestPagesAreAccessible(t *testing.T) {
	g := openGallery(t)
	for _, sample := range samples() {
		t.Run("en/"+sample.Name, func(t *testing.T) {
			do(g.tab, t, look("light", wide, 900), chromedp.Navigate(g.address+"/en/"+sample.Name))
			// Wait for two frames: the browser applies autofocus before it draws.
			if !evaluate[bool](g.tab, t, `new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))
				.then(() => document.activeElement === (document.querySelector('[autofocus]') ?? document.body))`) {
				t.Error("the focus is not where the user goes on")
			}
			g.take(t, "en", sample.Name)
			// Colours do not depend on the width, so the dark scheme is checked only at
			// the narrow one.
			scheme, whole := "light", !isOfMany(sample.Name)
			if whole {
				axe(g.tab, t)
				scheme = "dark"
			}
			do(g.tab, t, look(scheme, narrow, 640))
			noOverflow(g.tab, t)
			if touched := evaluate[string](g.tab, t, `[...document.querySelectorAll('.note, .alert, .done')]
				.filter(e => e.nextElementSibling?.checkVisibility() && e.nextElementSibling.getBoundingClientRect().top - e.getBoundingClientRect().bottom < 8)
				.map(e => e.innerText).join('; ')`); touched != "" {
				t.Errorf("what follows touches the box: %s", touched)
			}
			axe(g.tab, t)
			if whole {
				keyboard(g.tab, t)
			}
			if _, ok := sample.Page.(pages.Consent); ok {
				denyIsAsEasy(g.tab, t)
			}
		})
	}
	// Another language has the same elements, but its words may not fit. German has the
	// longest words, and Japanese no spaces. The pages are written into one document in
	// turn, because starting the rules anew for each would take most of the time.
	for _, locale := range []string{"de", "ja"} {
		do(g.tab, t, look("dark", narrow, 640), chromedp.Navigate(g.address+"/"+locale+"/login"))
		for _, sample := range samples() {
			t.Run(locale+"/"+sample.Name, func(t *testing.T) {
				g.write(t, locale, sample.Page)
				noOverflow(g.tab, t)
				if !isOfMany(sample.Name) {
					axe(g.tab, t)
				}
				g.take(t, locale, sample.Name)
			})
		}
	}
	t.Run("a spoiled page is found", func(t *testing.T) { spoil(t, g) })
}

// With letters of twice the size on a narrow screen, nothing is wider than the window, and the
// words keep most of its width: margins do not grow with the letters.
func TestLargeLettersOnANarrowScreen(t *testing.T) {
	g := openGallery(t)
	do(g.tab, t, look("light", narrow, 640), chromedp.Navigate(g.address+"/en/login"))
	for _, sample := range samples() {
		t.Run(sample.Name, func(t *testing.T) {
			g.write(t, "de", sample.Page)
			if width := evaluate[float64](g.tab, t, `document.documentElement.style.fontSize = '200%', document.querySelector('h1').getBoundingClientRect().width`); width < .7*narrow {
				t.Errorf("words have %.0f of %d pixels", width, narrow)
			}
			noOverflow(g.tab, t)
		})
	}
}

// isOfMany reports whether a sample is a message page that differs from message-too_many
// only in its words, so that the rules need not be checked again.
func isOfMany(name string) bool {
	return strings.HasPrefix(name, "message-") && name != "message-too_many"
}

// denyIsAsEasy checks UI-14: both buttons are side by side and equal in size and
// lettering. The button that allows is filled; the one that denies has an outline.
func denyIsAsEasy(ctx context.Context, t *testing.T) {
	t.Helper()
	buttons := evaluate[[]map[string]string](ctx, t, `['deny', 'allow'].map(id => {
		const e = document.getElementById(id), box = e.getBoundingClientRect(), style = getComputedStyle(e), none = 'rgba(0, 0, 0, 0)';
		return {same: [box.top, Math.round(box.width), Math.round(box.height), style.fontSize, style.fontWeight, style.borderWidth].join(),
			look: style.backgroundColor !== none ? 'filled' : style.borderTopColor !== none ? 'outlined' : 'plain'};
	})`)
	if len(buttons) != 2 || buttons[0]["same"] != buttons[1]["same"] || buttons[0]["look"] != "outlined" || buttons[1]["look"] != "filled" {
		t.Errorf("deny and allow are %v", buttons)
	}
}

func noOverflow(ctx context.Context, t *testing.T) {
	t.Helper()
	beyond := evaluate[[]string](ctx, t, `[...document.querySelectorAll('body, body *')]
		.filter(e => e.checkVisibility() && !e.closest('.unseen') && e.getBoundingClientRect().right > innerWidth + .5)
		.map(e => e.tagName + '.' + e.className)`)
	if len(beyond) > 0 {
		t.Errorf("wider than the window: %s", strings.Join(beyond, ", "))
	}
	if beyond := evaluate[int](ctx, t, `document.documentElement.scrollWidth - innerWidth`); beyond > 0 {
		t.Errorf("the page is %d pixels wider than its window", beyond)
	}
}

// focused returns which control has the focus, or -1, and whether the focus is visible.
const focused = `(() => {
	const e = document.activeElement, style = getComputedStyle(e);
	return {index: controls.indexOf(e), name: e.tagName + '#' + e.id,
		visible: e.matches(':focus-visible') && style.outlineStyle === 'solid' && parseFloat(style.outlineWidth) >= 2};
})()`

type focus struct {
	Index   int    `json:"index"`
	Name    string `json:"name"`
	Visible bool   `json:"visible"`
}

// keyboard presses the tab key from the beginning of the page to its last control. It
// must reach every control in document order, with a visible focus. It does not go round:
// at the end, the browser takes the focus from the page and returns it at an
// unpredictable time. keyboard leaves every details element open.
func keyboard(ctx context.Context, t *testing.T) {
	t.Helper()
	// autofocus takes effect in a later frame: start after it.
	count := evaluate[int](ctx, t, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
		document.querySelectorAll('details').forEach(e => e.open = true);
		window.controls = [...document.querySelectorAll('a[href], button, input, summary, select, textarea')]
			.filter(e => e.type !== 'hidden' && e.checkVisibility());
		document.body.tabIndex = -1;
		document.body.focus();
		done(controls.length);
	})))`)
	for want := range count {
		do(ctx, t, chromedp.KeyEvent("\t"))
		at := evaluate[focus](ctx, t, focused)
		if at.Index != want {
			t.Errorf("the tab key leads to %d (%s) where control %d is next", at.Index, at.Name, want)
		}
		if at.Index >= 0 && !at.Visible {
			t.Errorf("the focus on %s is not visible", at.Name)
		}
	}
	evaluate[bool](ctx, t, `document.body.removeAttribute('tabindex'), true`)
}

// spoil breaks a page in ways that axe must find.
func spoil(t *testing.T, g *gallery) {
	do(g.tab, t, look("light", narrow, 640))
	for rule, change := range map[string]string{
		"label":          `document.querySelector('label').remove()`,
		"color-contrast": `document.querySelector('h1').style.color = '#ccc'`,
		"html-has-lang":  `document.documentElement.removeAttribute('lang')`,
		"target-size":    `document.querySelectorAll('button').forEach(b => {b.style.cssText = 'min-height:0;height:9px;padding:0;font-size:6px'; b.parentNode.style.gap = 0})`,
	} {
		g.write(t, "en", pages.Login{Client: "x", Cancel: true})
		evaluate[bool](g.tab, t, change+`, true`)
		found := evaluate[findings](g.tab, t, runAxe)
		if !slices.ContainsFunc(found.Violations, func(v string) bool { return strings.HasPrefix(v, rule+":") }) {
			t.Errorf("%s is not found: %q", rule, found.Violations)
		}
	}
}
