package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/web"
)

// TestAnExpiredLoginOfOurOwnPagesLeadsBackThere: an expired login for one of the server's
// own pages leads back to that page, and not to an application.
func TestAnExpiredLoginOfOurOwnPagesLeadsBackThere(t *testing.T) {
	r := newFixture(t)
	b := r.browser()
	for link, begin := range map[string]func() shownPage{
		`href="/account/connections">Sign in again</a>`: func() shownPage { return b.follow(b.get(connectionsURL)) },
		`href="/device">Connect a device</a>`:           func() shownPage { return b.follow(b.post(publicURL+web.DevicePath, "user_code=BCDF-GHJK")) },
	} {
		page := begin().at(t, login.StepLogin)
		r.kit.Clock.Advance(11 * time.Minute)
		s := b.post(interactionURL, "id="+page.field("id"), "step=login", "username=alice", "password=x")
		if s.StatusCode != http.StatusGone || !strings.Contains(s.body, `<a id="again" class="button primary" `+link) || strings.Contains(s.body, "Go back to the application") {
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

// TestAnEndedAnswerToADeviceLeadsBackThere: the user of a device came to us from a device,
// and not from an application that can be gone back to.
func TestAnEndedAnswerToADeviceLeadsBackThere(t *testing.T) {
	r := newFixture(t)
	r.user("bob")
	cli := r.client(client.Registration{ID: "cli", Settings: store.Settings{Name: "Terminal", GrantTypes: []string{store.GrantDeviceCode, store.GrantRefreshToken}}})
	for name, end := range map[string]func(*browser, shownPage){
		"too late":     func(*browser, shownPage) { r.kit.Clock.Advance(11 * time.Minute) },
		"another user": func(b *browser, _ shownPage) { b.post(logoutURL); b.logIn(b.open(connectionsURL), "bob", password) },
		"answered otherwise": func(b *browser, page shownPage) {
			b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=deny")
		},
	} {
		asked := must(issuer.DeviceCodes{Issuer: r.kit.Issuer}.DeviceAuthorization(t.Context(), &cli, issuer.DeviceRequest{Scope: "a"}))
		b := r.signedIn("alice")
		page := b.follow(b.post(publicURL+web.DevicePath, "user_code="+asked.UserCode)).at(t, login.StepConsent)
		end(b, page)
		if s := b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=allow", "same=yes"); s.StatusCode < 400 || !strings.Contains(s.body, `href="/device"`) || strings.Contains(s.body, "Go back to the application") {
			t.Errorf("%s: %d\n%s", name, s.StatusCode, s.body)
		}
	}
}
