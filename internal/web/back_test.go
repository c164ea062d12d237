package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/web"
)

// TestAnExpiredLoginOfOurOwnPagesLeadsBackThere: an expired login for one of the server's
// own pages leads back to that page, and not to an application.
func TestAnExpiredLoginOfOurOwnPagesLeadsBackThere(t *testing.T) {
	r := newRoom(t)
	b := r.browser()
	for to, begin := range map[string]func() sight{
		connectionsURL:             func() sight { return b.follow(b.get(connectionsURL)) },
		publicURL + web.DevicePath: func() sight { return b.follow(b.post(publicURL+web.DevicePath, "user_code=BCDF-GHJK")) },
	} {
		page := begin().at(t, login.StepLogin)
		r.kit.Clock.Advance(11 * time.Minute)
		s := b.post(interactionURL, "id="+page.field("id"), "step=login", "username=alice", "password=x")
		if s.StatusCode != http.StatusGone || !strings.Contains(s.body, `<a id="again" class="button primary" href="`+strings.TrimPrefix(to, publicURL)+`">Sign in again</a>`) || strings.Contains(s.body, "Go back to the application") {
			t.Errorf("%d\n%s", s.StatusCode, s.body)
		}
		// In another browser, the page does not show what the login was for.
		if other := r.browser().get(interactionURL + "?id=" + page.field("id")); strings.Contains(other.body, `id="again"`) {
			t.Errorf("in another browser: %d\n%s", other.StatusCode, other.body)
		}
	}
	page := b.open(asking(r.shop)).at(t, login.StepLogin)
	r.kit.Clock.Advance(11 * time.Minute)
	if s := b.open(interactionURL + "?id=" + page.field("id")); !strings.Contains(s.body, "Back to <bdi>Shop</bdi>") || !strings.Contains(s.body, "Go back to the application") {
		t.Errorf("of an application: %d\n%s", s.StatusCode, s.body)
	}
}
