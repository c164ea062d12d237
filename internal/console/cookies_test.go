package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/operator"
)

// TestABrowserThatKeepsNoCookies: whoever comes in reads why they are not in, and others
// are led on.
func TestABrowserThatKeepsNoCookies(t *testing.T) {
	r := open(t)
	if err := operator.Add(t.Context(), r.store, operator.Operator{Name: "alice", Role: operator.Admin}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.cases.Users().Create(t.Context(), account.Registration{Username: "alice"}); err != nil {
		t.Fatal(err)
	}
	enter := func(keeps bool) (b *browser, page string) {
		b = &browser{room: r}
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
			t.Error("nobody has tried to come in")
		}
	}
	r.console.Users = r.users // with a second factor
	if b, page := enter(true); b.get(page).Header().Get("Location") != "/factor" {
		t.Error("whoever owes a second factor is not asked for it")
	}
}
