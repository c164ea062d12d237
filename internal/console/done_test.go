package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/operator"
)

// TestPagesReportChangesOnlyWhileTheyHold: a page says "disabled" about a client or a user
// only while it is true. The back button, a reload or a link may show the page again after
// another change.
func TestPagesReportChangesOnlyWhileTheyHold(t *testing.T) {
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
		t.Error("the page of a disabled client does not say so, or says that it is enabled")
	}
	alice.post("/clients/shop/state", url.Values{"state": {"enabled"}})
	if says(page, disabled) || says(page, "mintage client disable") {
		t.Error("the page of a client that is enabled again says that it is disabled")
	}
	if says("/users/erin?done=disabled", userDisabled) || says("/users/erin?done=factor", removed) {
		t.Error("a link makes the page say something false about a user")
	}
	alice.post("/users/erin/factor", url.Values{"typed": {"erin"}})
	alice.post("/users/erin/disable", url.Values{"counted": {"0"}})
	if !says("/users/erin?done=disabled", userDisabled) || !says("/users/erin?done=factor", removed) || says("/users/erin?done=enabled", "The user is enabled.") {
		t.Error("the page does not report the change of the user")
	}
}
