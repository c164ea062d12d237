package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/operator"
)

// TestABrowserThatKeepsNoCookies: after a sign-in whose cookie the browser has not kept,
// the page says so. Other visitors do not see this text.
func TestABrowserThatKeepsNoCookies(t *testing.T) {
	r := open(t)
	if err := operator.Add(t.Context(), r.store, operator.Operator{Name: "alice", Role: operator.Admin}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.cases.Users().Create(t.Context(), account.Registration{Username: "alice"}); err != nil {
		t.Fatal(err)
	}
	enter := func(keeps bool) (b *browser, page string) {
		b = &browser{fixture: r}
		w := b.post(r.invitation("alice"), nil)
		if w.Code != http.StatusSeeOther || b.cookie == nil {
			t.Fatalf("the invitation: %d", w.Code)
		}
		if !keeps {
			b.cookie = nil
		}
		return b, w.Header().Get("Location")
	}
	for kept, want := range map[bool]string{true: "/", false: ""} {
		b, page := enter(kept)
		w := b.get(page)
		if to := w.Header().Get("Location"); to != want || kept == strings.Contains(w.Body.String(), "has not kept the cookie") {
			t.Errorf("kept %t: to %q\n%s", kept, to, w.Body)
		}
		if body := b.get("/sign-in").Body.String(); strings.Contains(body, "has not kept the cookie") {
			t.Error("the sign-in page says so before any sign-in")
		}
	}
	r.console.Users = r.users // with a second factor
	if b, page := enter(true); b.get(page).Header().Get("Location") != "/factor" {
		t.Error("the console does not ask for the second factor that the user owes")
	}
}

// The first operator has nobody to ask for an invitation.
func TestTheSignInPageNamesTheWayIn(t *testing.T) {
	r := open(t)
	for _, users := range []bool{false, true} {
		if users {
			r.console.Users = r.users
		}
		if body := (&browser{fixture: r}).get("/sign-in").Body.String(); !strings.Contains(body, "mintage console invite NAME") || strings.Contains(body, `name="password"`) != users {
			t.Errorf("built-in users %t:\n%s", users, body)
		}
	}
}
