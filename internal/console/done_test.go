package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/operator"
)

// TestWhatWasDoneStillHolds: a page says that a client or a user is disabled only as long
// as it is. The back button, a reload or a link shows the page again after a change.
func TestWhatWasDoneStillHolds(t *testing.T) {
	r := open(t)
	r.shop("Shop", "shop")
	alice := r.operator("alice", operator.Admin)
	if w := alice.post("/new/user", url.Values{"once": {operator.NewForm()}, "username": {"erin"}}); w.Code != http.StatusOK {
		t.Fatalf("a user: %d", w.Code)
	}
	if _, _, err := r.cases.Users().SetTOTP(t.Context(), "erin", ""); err != nil {
		t.Fatal(err)
	}
	says := func(path, text string) bool {
		w := alice.get(path)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, w.Code)
		}
		return strings.Contains(w.Body.String(), text)
	}
	const disabled, userDisabled, removed = "The client is disabled: its requests are refused.", "The user is disabled: sessions and grants have ended.", "The second factor is removed."
	w := alice.post("/clients/shop/state", url.Values{"state": {"disabled"}})
	page := w.Header().Get("Location")
	if !says(page, disabled) || says("/clients/shop?done=enabled", "The client is enabled.") {
		t.Error("a client that is disabled is not said to be, or to be enabled")
	}
	alice.post("/clients/shop/state", url.Values{"state": {"enabled"}})
	if says(page, disabled) || says(page, "mintage client disable") {
		t.Error("a client that is enabled again is said to be disabled")
	}
	if says("/users/erin?done=disabled", userDisabled) || says("/users/erin?done=factor", removed) {
		t.Error("a link says of a user what is not so")
	}
	alice.post("/users/erin/factor", url.Values{"typed": {"erin"}})
	alice.post("/users/erin/disable", url.Values{"counted": {"0"}})
	if !says("/users/erin?done=disabled", userDisabled) || !says("/users/erin?done=factor", removed) || says("/users/erin?done=enabled", "The user is enabled.") {
		t.Error("what was done to a user is not said")
	}
}
