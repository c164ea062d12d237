package explain_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// says requires texts in the explanation of a token.
func (s *service) says(about, text string, want ...string) {
	s.T.Helper()
	printed := s.explained(s.T.(*testing.T), text, adminapi.LogLine{})
	for _, w := range want {
		if !strings.Contains(printed, w) {
			s.T.Errorf("%s: %q is missing in\n%s", about, w, printed)
		}
	}
	if strings.Contains(printed, text) {
		s.T.Errorf("%s: the explanation holds the token", about)
	}
}

// The explanation of a device code predicts the response to its next poll.
func TestExplainForeseesThePollOfADevice(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.Register(client.Registration{ID: "cli", Settings: store.Settings{Name: "Terminal", Auth: store.AuthNone, Scope: "read", RedirectURIs: []string{}, GrantTypes: []string{store.GrantDeviceCode, store.GrantRefreshToken}}})
	c, devices := s.Listed("cli"), issuer.DeviceCodes{Issuer: s.Issuer}
	ask := func() issuer.DeviceAnswer {
		t.Helper()
		a, err := devices.DeviceAuthorization(t.Context(), c, issuer.DeviceRequest{From: netip.MustParseAddr("192.0.2.7")})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	decide := func(a issuer.DeviceAnswer, allow bool) {
		t.Helper()
		d, err := devices.FindDevice(t.Context(), s.View(), a.UserCode)
		if d.Denied = !allow; err == nil && allow {
			d, err = devices.AllowDevice(c, d, issuer.Agreement{
				Authorization: issuer.Authorization{ClientID: "cli", Subject: "alice", Scope: "read"},
				KeyID:         s.View().Ring.Current(keys.Seal, s.At()), AuthorizedAt: s.At(),
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		doc, err := devices.DeviceDocument(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Engine.Commit(context.Background(), store.Change{Documents: []store.Document{doc}}); err != nil {
			t.Fatal(err)
		}
	}
	waits, denied, allowed := ask(), ask(), ask()
	s.says("waiting", waits.DeviceCode, "device code", "authorization_pending", "no user has answered yet", "192.0.2.7", "/device")
	decide(denied, false)
	s.says("denied", denied.DeviceCode, "access_denied", "the user has denied it")
	decide(allowed, true)
	s.says("allowed", allowed.DeviceCode, "a user has allowed it, and the device has not polled since")
	tokens, err := devices.DeviceToken(t.Context(), c, issuer.CodeRequest{Code: allowed.DeviceCode, From: testkit.Origin})
	if err != nil {
		t.Fatal(err)
	}
	s.says("redeemed", allowed.DeviceCode, "it was redeemed on", "the same request gets the same pair")
	if _, err := s.Issuer.Revoke(t.Context(), c, tokens.RefreshToken, testkit.Origin); err != nil {
		t.Fatal(err)
	}
	s.says("revoked", allowed.DeviceCode, "invalid_grant", "the grant was revoked")
	s.Clock.Advance(issuer.DeviceLifetime)
	s.says("expired", waits.DeviceCode, "expired_token", "no user had answered by")
}

// The explanation of an exchanged token names the actor, and the grants and clients on
// which it depends.
func TestExplainTellsOfExchangedTokens(t *testing.T) {
	t.Parallel()
	s := withAPIs(t)
	s.Register(client.Registration{ID: "gateway", Settings: store.Settings{Name: "Gateway", Auth: store.AuthEither, ExchangeFrom: []string{"shop"}, ServesAPIs: []string{orders}, ExchangeAPIs: []string{orders, invoices}}})
	code, err := s.Codes().Issue(t.Context(), issuer.Authorization{ClientID: "shop", RedirectURI: redirectURI, Subject: "alice", Scope: "orders:read invoices", Resources: []string{orders, invoices}})
	if err != nil {
		t.Fatal(err)
	}
	tokens := s.Must(s.Exchange(t.Context(), s.Listed("shop"), issuer.CodeRequest{Code: code.Code, RedirectURI: redirectURI, From: testkit.Origin}))
	for _, api := range []string{orders, invoices} { // the tokens of one are opaque, of the other JWTs
		got, err := issuer.Exchanges{Issuer: s.Issuer}.ExchangeToken(t.Context(), s.Listed("gateway"), issuer.ExchangeRequest{SubjectToken: tokens.AccessToken, Resource: api})
		if err != nil {
			t.Fatal(err)
		}
		s.says(api, got.AccessToken, "would be answered now", "gateway", "alice", api, tokens.GrantID.String())
		s.Administer("gateway", func(c *store.Client) { c.State = store.ClientDisabled })
		s.says(api+", disabled", got.AccessToken, "refused now", "client_disabled")
		s.Administer("gateway", func(c *store.Client) { c.State = store.ClientEnabled })
		s.Clock.Advance(time.Second)
		s.CutOff(store.Cutoff{Realm: realm, Subject: "alice", ClientID: "gateway", At: s.At()})
		s.says(api+", cut off", got.AccessToken, "refused now", "cut_off")
		s.Clock.Advance(time.Minute)
	}
}

// This server accepts no identity assertion, and explain says what it is.
func TestExplainTellsOfIdentityAssertions(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.Administer(clientID, func(c *store.Client) { c.IDJAGs = []string{"https://chat.example client=there alg=ES256"} })
	got, err := issuer.Exchanges{Issuer: s.Issuer}.IDJAG(t.Context(), s.Listed(clientID), issuer.IDJAGRequest{SubjectToken: s.Login().RefreshToken, Refresh: true, Audience: "https://chat.example", From: testkit.Origin})
	if err != nil {
		t.Fatal(err)
	}
	s.says("assertion", got.AccessToken, "refused", `it was made here for another use: its type is "oauth-id-jag+jwt"`)
}

// TestExplainTellsOfTheGrantOfAnAssertion: such a grant has neither code nor refresh
// token, and its client needs no grant type.
func TestExplainTellsOfTheGrantOfAnAssertion(t *testing.T) {
	t.Parallel()
	s := withAPIs(t)
	s.Register(client.Registration{ID: "agent", Settings: store.Settings{Name: "Agent", GrantTypes: []string{}, APIs: []string{orders}, Auth: store.AuthEither}})
	trust := s.Put(store.Trust{Issuer: "https://idp.example", Kind: store.TrustIDJAG, ClientID: "agent", APIs: []string{orders}, SubjectFrom: store.SubjectSub})
	s.Clock.Advance(time.Second)
	got, err := issuer.Assertions{Issuer: s.Issuer}.AssertionToken(t.Context(), s.Listed("agent"), issuer.AssertionRequest{
		Trust: &trust, ID: "j-1", Subject: "https://idp.example|u-1", IssuedAt: s.At(), ExpiresAt: s.At().Add(5 * time.Minute), Digest: 7,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{got.AccessToken, got.GrantID.String()} {
		v, err := explainer(s.Issuer, s.Engine).Explain(t.Context(), explain.Parse(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := v.Print(&out); err != nil {
			t.Fatal(err)
		}
		for _, w := range []string{"It would be answered now", "trust " + trust.ID, "last access token expires"} {
			if !strings.Contains(out.String(), w) {
				t.Errorf("the explanation lacks %q:\n%s", w, out.String())
			}
		}
		for _, w := range []string{"client_disabled", "code redeemed", "refresh token expires", "register another"} {
			if strings.Contains(out.String(), w) {
				t.Errorf("%q is in\n%s", w, out.String())
			}
		}
	}
	refused := func(want grant.Refusal) {
		t.Helper()
		if e, err := explainer(s.Issuer, s.Engine).Grant(t.Context(), got.GrantID); err != nil || e.Answer.Why != want {
			t.Errorf("%v, %v, want %v", e.Answer, err, want)
		}
	}
	refused(grant.Allowed)
	trust.Disabled = true
	trust = s.Put(trust)
	refused(grant.TrustEnded)
	s.CutOff(store.Cutoff{Realm: realm, ClientID: "agent", At: s.At()})
	refused(grant.CutOff)
	s.Administer("agent", func(c *store.Client) { c.State = store.ClientDisabled })
	if e, err := explainer(s.Issuer, s.Engine).Grant(t.Context(), got.GrantID); err != nil || e.Answer.Client != string(store.ClientDisabled) {
		t.Errorf("%v, %v", e.Answer, err)
	}
}
