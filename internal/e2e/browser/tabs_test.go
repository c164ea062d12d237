//go:build e2e

package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
)

// backButton checks UI-21: the back button never shows an outdated page that still works.
func (w *world) backButton(t *testing.T) {
	t.Parallel()
	password := w.user(t, "beth", "Beth")
	shop := w.openShop(t, "Back Shop")
	b := newWindow(t)
	b.open(shop.origin)
	b.click("#sign-in")
	b.signIn("beth", password)
	b.back()
	b.sees("#allow") // the current state, and no password form
	b.click("#allow")
	b.sees("#refresh")
	b.back()
	if b.sees("main"); b.holds("document.querySelector('#allow')") {
		b.click("#allow") // the page came from the back/forward cache
	}
	b.reads("This is already done")
	b.answered(http.StatusConflict)
	b.open(shop.origin)
	b.sees("#refresh")
	if n := w.grants(t, "beth"); n != 1 {
		t.Errorf("there are %d grants of one consent", n)
	}
}

// doubleClick checks AZ-62: a double click consents once.
func (w *world) doubleClick(t *testing.T) {
	t.Parallel()
	password := w.user(t, "dora", "Dora")
	shop := w.openShop(t, "Double Shop")
	b := newWindow(t)
	b.open(shop.origin)
	b.click("#sign-in")
	b.signIn("dora", password)
	x, y := b.point("#allow")
	b.act(chromedp.MouseClickXY(x, y), chromedp.MouseClickXY(x, y, chromedp.ClickCount(2)))
	// The second click's response is either the same redirect, or the page that says it
	// is done.
	b.until("the client, or a page that explains",
		fmt.Sprintf("location.origin === %q || document.body.innerText.includes('This is already done')", shop.origin))
	b.open(shop.origin)
	b.sees("#refresh")
	b.click("#refresh")
	b.until("a refresh", "document.querySelector('#renewed')?.innerText === '1'")
	if n := w.grants(t, "dora"); n != 1 {
		t.Errorf("there are %d grants of one consent", n)
	}
}

// twoTabs checks AZ-61: two tabs make the same authorization request simultaneously, and
// each gets its own response.
func (w *world) twoTabs(t *testing.T) {
	t.Parallel()
	password := w.user(t, "tina", "Tina")
	shop := w.openShop(t, "Tab Shop")
	one := newWindow(t)
	one.open(shop.origin)
	two := one.another()
	two.open(shop.origin)
	one.click("#sign-in")
	one.sees("#password")
	two.click("#sign-in")
	two.signIn("tina", password)
	one.reload()
	one.sees("#allow") // signed in by the other tab
	one.click("#allow")
	one.sees("#refresh")
	two.click("#allow")
	two.sees("#refresh") // the client checks that the state belongs to this tab
	if n := w.grants(t, "tina"); n != 2 {
		t.Errorf("there are %d grants of two consents", n)
	}
}

// switchedUser checks UI-13: another user cannot answer one user's consent page.
func (w *world) switchedUser(t *testing.T) {
	t.Parallel()
	passwords := map[string]string{"uma": w.user(t, "uma", "Uma"), "udo": w.user(t, "udo", "Udo")}
	c := w.register(t, "Switched", "https://client.example:"+serveHTTPS(t, "127.0.0.1:0", http.HandlerFunc(landing))+"/callback")
	w.waitFor(t, c)
	one := newWindow(t)
	one.open(w.authorizeURL(c, nil))
	one.signIn("uma", passwords["uma"])
	two := one.another()
	two.open(w.authorizeURL(c, url.Values{"prompt": {"login"}}))
	two.signIn("udo", passwords["udo"])
	one.click("#allow")
	one.reads("Another account is signed in now")
	one.answered(http.StatusForbidden)
	two.reads("Signed in as Udo")
	two.click("#allow")
	two.reads("code: true")
}

// cookiesOff: a browser that refuses cookies gets an explanation, and no redirect loop.
func (w *world) cookiesOff(t *testing.T) {
	t.Parallel()
	c := w.register(t, "Cookieless", "https://client.example:1/callback")
	w.waitFor(t, c)
	b := newWindow(t)
	b.keepsNoCookies()
	for _, address := range []string{w.authorizeURL(c, nil), w.origin + "/account/connections"} {
		b.open(address)
		b.reads("This page needs a cookie")
		b.answered(http.StatusBadRequest)
	}
}
