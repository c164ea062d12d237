package web_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
	"github.com/mintage/mintage/internal/web"
)

// A user of a provider or of a handoff login page enters the user code first, then signs
// in there, and is then asked for consent here. The other system cannot give the consent.
func TestADeviceOfAUserWhoSignsInElsewhere(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	for name, elsewhere := range map[string]struct {
		choose  func(*fixture, *choice)
		signIn  func(r *fixture, b *browser, s shownPage) shownPage
		subject string
		at      string // address of the login in the form-action policy
	}{
		"provider": {atProvider(p), func(_ *fixture, b *browser, s shownPage) shownPage {
			return b.follow(b.get(callbackURL + "?code=c&state=" + p.sent(s)))
		}, "people:42", " " + p.url},
		"portal": {handoff, func(r *fixture, b *browser, s shownPage) shownPage {
			next := must(r.Authorizer.AcceptLogin(t.Context(), s.query().Get("challenge"), login.Identity{Subject: "42", Name: "Ulla"}))
			return b.follow(b.get(next))
		}, "42", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, elsewhere.choose)
			cli := r.client(client.Registration{ID: "cli", Settings: store.Settings{Name: "Terminal", FirstParty: true, GrantTypes: []string{store.GrantDeviceCode, store.GrantRefreshToken}}})
			devices := issuer.DeviceCodes{Issuer: r.kit.Issuer}
			asked := must(devices.DeviceAuthorization(t.Context(), &cli, issuer.DeviceRequest{Scope: "openid a", From: netip.MustParseAddr("192.0.2.7")}))
			poll := func() (issuer.Tokens, error) {
				r.kit.Clock.Advance(5 * time.Second)
				return devices.DeviceToken(t.Context(), &cli, issuer.CodeRequest{Code: asked.DeviceCode, From: testkit.Origin})
			}
			b := r.browser()
			// Chromium applies form-action to redirects of a form too, so the policy must
			// allow the login.
			for name, s := range map[string]shownPage{"the first": b.get(publicURL + web.DevicePath), "after a wrong code": b.post(publicURL+web.DevicePath, "user_code=x")} {
				if csp := s.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' https:"+elsewhere.at+";") {
					t.Errorf("the form of the code, %s: %s", name, csp)
				}
			}
			page := elsewhere.signIn(r, b, b.follow(b.post(publicURL+web.DevicePath, "user_code="+asked.UserCode))).at(t, login.StepConsent)
			for _, shown := range []string{asked.UserCode, "Terminal", "192.0.2.7", `name="same"`} {
				if !strings.Contains(page.body, shown) {
					t.Errorf("the page does not contain %s", shown)
				}
			}
			if _, err := poll(); err != oauth.ErrPending {
				t.Errorf("before the answer: %v", err)
			}
			b.follow(b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=allow", "same=yes"))
			tokens, err := poll()
			if err != nil || tokens.Subject != elsewhere.subject || tokens.IDToken == "" {
				t.Fatalf("after the answer: subject %q, %v", tokens.Subject, err)
			}
			// A signed-in user is still asked about the next device.
			asked = must(devices.DeviceAuthorization(t.Context(), &cli, issuer.DeviceRequest{Scope: "openid a"}))
			b.follow(b.post(publicURL+web.DevicePath, "user_code="+asked.UserCode)).at(t, login.StepConsent)
			if _, err := poll(); err != oauth.ErrPending {
				t.Errorf("the next device: %v", err)
			}
		})
	}
}
