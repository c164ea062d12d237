package issuer_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const apiID = "invoices-api"

// newResource returns a service with a resource server that may introspect tokens for the
// given audiences, or for all.
func newResource(t *testing.T, audiences ...string) *service {
	t.Helper()
	s := newService(t, testkit.Named)
	s.Register(client.Registration{ID: apiID, Settings: store.Settings{Name: "Invoices", Introspect: true, IntrospectAudience: audiences, Auth: store.AuthEither}})
	s.Faulty.Calls()
	return s
}

// format switches the form of the client's access tokens.
func (s *service) format(f store.TokenFormat) {
	s.T.Helper()
	s.Administer(clientID, func(c *store.Client) { c.TokenFormat = f })
	s.Faulty.Calls()
}

func (s *service) inspect(text string) (issuer.Token, error) { return s.Inspect(s.T.Context(), text) }

func (s *service) introspect(caller, text string) (issuer.Token, error) {
	s.T.Helper()
	return s.Introspect(s.T.Context(), s.Listed(caller), text)
}

func TestATokenHasTheSameContentInBothForms(t *testing.T) {
	s := newResource(t)
	ids := map[string]bool{}
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s.format(format)
		first := s.Login()
		second := s.Must(s.RenewScope(first.RefreshToken, "write"))
		for text, want := range map[string]issuer.Token{
			first.AccessToken:  {Scope: allScopes, Generation: 1},
			second.AccessToken: {Scope: "write", Generation: 2},
		} {
			got, err := s.inspect(text)
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if got.Kind != issuer.AccessToken || got.GrantID != first.GrantID || got.ClientID != clientID || got.Subject != subject || got.Scope != want.Scope || got.Generation != want.Generation {
				t.Errorf("%s: %+v", format, got)
			}
			if len(got.Audience) != 1 || got.Audience[0] != issuerID || ids[got.ID()] || len(got.ID()) != 43 {
				t.Errorf("%s: audience %q, id %q", format, got.Audience, got.ID())
			}
			ids[got.ID()] = true
			// An opaque token has milliseconds. A JWT's exp is in whole seconds: every
			// expiry is rounded up to seconds at issuance.
			if got.IssuedAt != s.At() || got.ExpiresAt != 1_700_000_301_000 || s.ExpiresIn(got) != 300 {
				t.Errorf("%s: issued at %d, expires at %d, in %d", format, got.IssuedAt, got.ExpiresAt, s.ExpiresIn(got))
			}
			lower := *s.Issuer // access_token_lifetime is lowered while the token lives
			lower.Policy.AccessLifetime = time.Minute
			if left := lower.ExpiresIn(got); left != 300 {
				t.Errorf("%s: expires in %d under a shorter lifetime", format, left)
			}
		}
	}
}

func TestTheBudgetOfStoreCallsAtIntrospectionAndRevocation(t *testing.T) {
	s := newResource(t)
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s.format(format)
		tokens := s.Login()
		s.Faulty.Calls()
		one := func(m storetest.Method) map[storetest.Method]int { return map[storetest.Method]int{m: 1} }
		spent := func(what string, want map[storetest.Method]int) {
			t.Helper()
			calls := s.Faulty.Calls()
			for _, m := range storetest.Methods {
				if calls[m] != want[m] {
					t.Errorf("%s, %s: %d calls of %s, want %d", format, what, calls[m], m, want[m])
				}
			}
		}
		s.inspect(tokens.AccessToken)
		spent("an access token", one(storetest.Grant))
		s.introspect(apiID, tokens.AccessToken)
		spent("one that a resource server asks about", one(storetest.Grant))
		s.introspect(clientID, tokens.RefreshToken)
		spent("a refresh token", one(storetest.Grant))
		s.introspect(apiID, "made-up")
		s.introspect(clientID, "mintage_rt_made-up")
		s.inspect("a.b.c")
		spent("what is not genuine", nil)
		s.revokeBy(clientID, tokens.AccessToken)
		spent("revoking an access token", one(storetest.UpdateGrant))
		s.revokeBy(clientID, tokens.RefreshToken)
		spent("revoking a refresh token", one(storetest.UpdateGrant))
		s.revokeBy(clientID, "made-up")
		s.revokeBy(clientID, "mintage_ac_made-up")
		spent("revoking what is not genuine", nil)
		s.Clock.Advance(301 * time.Second)
		s.inspect(tokens.AccessToken)
		spent("an expired one", nil)
	}
}

func TestARefreshTokenIsActiveWhileItWorksAndIntrospectionChangesNothing(t *testing.T) {
	s := newResource(t)
	first := s.Login()
	tok, err := s.introspect(clientID, first.RefreshToken)
	if err != nil || tok.Kind != issuer.RefreshToken || tok.Scope != allScopes || tok.Audience != nil || tok.ID() != "" || tok.ExpiresAt != s.Row(first.GrantID).ExpiresAt {
		t.Errorf("%+v, %v", tok, err)
	}
	second := s.Must(s.Renew(first.RefreshToken))
	third := s.Must(s.Renew(second.RefreshToken))
	before := s.Row(first.GrantID)
	s.Dead(grant.RefreshReplayed)(s.introspect(clientID, first.RefreshToken))
	if _, err := s.introspect(clientID, second.RefreshToken); err != nil {
		t.Errorf("a spent token within the retry window: %v", err)
	}
	s.Dead(grant.OtherClient)(s.introspect(apiID, third.RefreshToken))
	if s.Row(first.GrantID) != before {
		t.Error("introspection changed the grant")
	}
	s.Clock.Advance(2*time.Minute + time.Millisecond)
	s.Dead(grant.RefreshReplayed)(s.introspect(clientID, second.RefreshToken))
	s.Administer(clientID, func(c *store.Client) { c.GrantTypes = []string{store.GrantAuthorizationCode} })
	s.Dead(grant.ClientDisabled)(s.introspect(clientID, third.RefreshToken))
}

func TestAudiencesLimitAResourceServer(t *testing.T) {
	const one, two = "https://one.example", "https://two.example"
	s := newResource(t, one)
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s.format(format)
		for _, c := range []struct {
			audience []string
			seen     bool
		}{{nil, false}, {[]string{one}, true}, {[]string{two}, false}, {[]string{two, one}, true}} {
			s.Administer(clientID, func(client *store.Client) { client.Audience = c.audience })
			text := s.Login().AccessToken
			tok, err := s.introspect(apiID, text)
			if (err == nil) != c.seen {
				t.Errorf("%s for %q: %v, want it seen: %t", format, c.audience, err, c.seen)
			}
			if !c.seen {
				s.Dead(grant.OtherClient)(tok, err)
			}
			if _, err := s.introspect(clientID, text); err != nil {
				t.Errorf("its owner: %v", err)
			}
		}
	}
	s.Administer(apiID, func(c *store.Client) { c.Introspect = false })
	s.Dead(grant.OtherClient)(s.introspect(apiID, s.Login().AccessToken))
}

// another opens another node on the same database: the two share only what is stored.
func (s *service) another() *issuer.Issuer {
	s.T.Helper()
	directory, err := directory.Open(s.T.Context(), s.Engine, s.KEK, testkit.Schedule(), slog.New(slog.DiscardHandler), s.Uptime.Now)
	if err != nil {
		s.T.Fatal(err)
	}
	return issuer.New(issuer.Issuer{
		Realm: realm, ID: issuerID, Store: s.Engine, Directory: directory, Policy: s.Policy,
		RetryWindowPublic: s.RetryWindowPublic, CodeLifetime: s.CodeLifetime, Now: s.Clock.Now, Log: s.Log,
	})
}

func TestIN12_RV17_WhatOneNodeEndsIsDeadOnTheNextCallAtAnother(t *testing.T) {
	s := newResource(t)
	other := s.another()
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s.format(format)
		if err := other.Directory.Poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, end := range map[string]func(issuer.Tokens, string){
			"access token revoked":  func(tokens issuer.Tokens, _ string) { s.revokeBy(clientID, tokens.AccessToken) },
			"refresh token revoked": func(tokens issuer.Tokens, _ string) { s.revokeBy(clientID, tokens.RefreshToken) },
			"code replayed":         func(_ issuer.Tokens, code string) { s.Redeem(code) },
			"refresh token replayed": func(tokens issuer.Tokens, _ string) {
				s.Must(s.Renew(s.Must(s.Renew(tokens.RefreshToken)).RefreshToken))
				s.Renew(tokens.RefreshToken)
			},
		} {
			code := s.NewCode()
			tokens := s.Must(s.Redeem(code))
			if _, err := other.Inspect(t.Context(), tokens.AccessToken); err != nil {
				t.Errorf("%s: dead before: %v", name, err)
			}
			end(tokens, code)
			if _, err := other.Inspect(t.Context(), tokens.AccessToken); err == nil {
				t.Errorf("%s, %s: still alive at the other node", name, format)
			}
		}
		// Changes of the directory apply at the other node after its poll.
		for name, cutoff := range applying {
			s.Clock.Advance(time.Second)
			tokens := s.Login()
			cutoff.At = s.At()
			s.CutOff(cutoff)
			s.Dead(grant.CutOff)(s.inspect(tokens.AccessToken))
			if err := other.Directory.Poll(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := other.Inspect(t.Context(), tokens.AccessToken); err == nil {
				t.Errorf("cutoff of %s: still alive at the other node", name)
			}
			s.Clock.Advance(time.Second)
		}
	}
}

func TestInspectingDuringAFault(t *testing.T) {
	s := newResource(t)
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s.format(format)
		tokens := s.Login()
		down := func(_ issuer.Token, err error) {
			t.Helper()
			var refused *grant.Refused
			if !errors.Is(err, store.ErrUnavailable) || errors.As(err, &refused) {
				t.Errorf("got %v, want temporarily unavailable", err)
			}
		}
		for _, fault := range []storetest.Fault{storetest.Lost, storetest.Unanswered, storetest.Full} {
			s.Faulty.Inject(storetest.Grant, 3, fault)
			down(s.inspect(tokens.AccessToken))
			down(s.introspect(apiID, tokens.AccessToken))
			down(s.introspect(clientID, tokens.RefreshToken))
		}
		if _, err := s.inspect(tokens.AccessToken); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		// A missing row of a live token means that the store has lost commits:
		// introspection must not report the token as inactive.
		if _, deleted, err := s.Engine.Sweep(t.Context(), store.SweptGrants, "", 1<<47, 100); err != nil || deleted == 0 {
			t.Fatalf("swept %d, %v", deleted, err)
		}
		s.Dead(grant.StoreBehind)(s.inspect(tokens.AccessToken))
		s.Dead(grant.StoreBehind)(s.introspect(clientID, tokens.RefreshToken))
		s.Clock.Advance(301 * time.Second)
		s.Dead(grant.GrantExpired)(s.inspect(tokens.AccessToken))
	}
	s.Faulty.Inject(storetest.Changes, 10, storetest.Lost)
	s.Uptime.Advance(6 * time.Second)
	if _, err := s.inspect("made-up"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a node without news: %v", err)
	}
}

func TestAnotherRealmsIssuerKnowsNoneOfTheTokens(t *testing.T) {
	s := newResource(t)
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s.format(format)
		tokens := s.Login()
		other := s.another()
		other.Realm, other.ID = "/other", "https://auth.example/oauth2/other"
		_, err := other.Inspect(t.Context(), tokens.AccessToken)
		s.Dead(grant.TokenUnknown)(issuer.Token{}, err)
		c := &store.Client{ID: clientID, Realm: "/other", Settings: store.Settings{Scope: oauth.Scope(allScopes), GrantTypes: store.GrantTypes}}
		for _, text := range []string{tokens.AccessToken, tokens.RefreshToken} {
			if _, err := other.Revoke(t.Context(), c, text, testkit.Origin); err != nil {
				t.Errorf("revoking at another realm: %v", err)
			}
		}
		s.WantActive(tokens.GrantID, 1)
	}
}
