package issuer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

func (s *service) revokeBy(caller, text string) error {
	s.T.Helper()
	_, err := s.Revoke(s.T.Context(), s.Listed(caller), text, testkit.Origin)
	return err
}

func (s *service) mustRevoke(text string) {
	s.T.Helper()
	if err := s.revokeBy(clientID, text); err != nil {
		s.T.Fatalf("revoking: %v", err)
	}
}

func TestRevokingARefreshTokenEndsTheGrantOnce(t *testing.T) {
	s := newResource(t)
	first := s.Login()
	second := s.Must(s.Renew(first.RefreshToken))
	for _, text := range []string{first.RefreshToken, second.RefreshToken, second.AccessToken, first.RefreshToken} {
		s.mustRevoke(text)
		s.revoked(first.GrantID, grant.ReasonClient, store.EventGrantRevoked)
	}
	s.Refused(grant.GrantRevoked)(s.Renew(second.RefreshToken))
	s.Dead(grant.GrantRevoked)(s.inspect(second.AccessToken))
}

func TestRevokingAnAccessTokenIsRecordedAndTheRefreshTokenLivesOn(t *testing.T) {
	s := newResource(t)
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s.format(format)
		first := s.Login()
		s.mustRevoke(first.AccessToken)
		s.mustRevoke(first.AccessToken)
		s.WantActive(first.GrantID, 1)
		s.Dead(grant.AccessRevoked)(s.inspect(first.AccessToken))
		events, err := s.Engine.Events(t.Context(), first.GrantID.String(), 10)
		if err != nil || len(events) != 1 || events[0].Name != store.EventAccessRevoked || events[0].Actor != clientID || events[0].At != s.At() {
			t.Errorf("events %+v, %v", events, err)
		}
		second := s.Must(s.Renew(first.RefreshToken))
		if _, err := s.inspect(second.AccessToken); err != nil {
			t.Errorf("the next access token: %v", err)
		}
		// The repeated answer has a new access token in place of the revoked one.
		s.mustRevoke(second.AccessToken)
		again := s.Must(s.Renew(first.RefreshToken))
		if again.RefreshToken != second.RefreshToken || again.AccessToken == second.AccessToken {
			t.Error("another refresh token, or the dead access token")
		}
		if _, err := s.inspect(again.AccessToken); err != nil {
			t.Errorf("the repeated access token: %v", err)
		}
	}
}

func TestAnotherClientsTokenIsNotRevoked(t *testing.T) {
	s := newResource(t)
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s.format(format)
		tokens := s.Login()
		before := s.Row(tokens.GrantID)
		for _, text := range []string{tokens.AccessToken, tokens.RefreshToken} {
			var refused *grant.Refused
			if err := s.revokeBy(apiID, text); !errors.As(err, &refused) || refused.Why != grant.OtherClient {
				t.Errorf("got %v, want refused: %s", err, grant.OtherClient)
			}
		}
		if s.Row(tokens.GrantID) != before {
			t.Error("the grant was changed")
		}
	}
}

func TestRevocationOfTextsThatAreNoTokens(t *testing.T) {
	s := newResource(t)
	code := s.NewCode()
	for _, text := range []string{code, "mintage_ac_made-up"} {
		if err := s.revokeBy(clientID, text); err != oauth.ErrTokenType {
			t.Errorf("a code: %v", err)
		}
	}
	s.Must(s.Redeem(code))
	for _, text := range []string{"", "x", "mintage_rt_", "mintage_at_x", "a.b.c", string(s.Secret)} {
		s.mustRevoke(text)
	}
}

func TestARevocationIsDurableBeforeItIsAnswered(t *testing.T) {
	for kind, pick := range map[string]func(issuer.Tokens) string{
		"access":  func(tokens issuer.Tokens) string { return tokens.AccessToken },
		"refresh": func(tokens issuer.Tokens) string { return tokens.RefreshToken },
	} {
		for name, fault := range map[string]storetest.Fault{"lost": storetest.Lost, "full": storetest.Full} {
			t.Run(kind+" token, "+name, func(t *testing.T) {
				s := newResource(t)
				tokens := s.Login()
				s.Faulty.Inject(storetest.UpdateGrant, 1, fault)
				if err := s.revokeBy(clientID, pick(tokens)); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("got %v, want temporarily unavailable", err)
				}
				if _, err := s.inspect(tokens.AccessToken); err != nil {
					t.Errorf("the token is inactive, although the write did not happen: %v", err)
				}
				s.mustRevoke(pick(tokens))
				if _, err := s.inspect(tokens.AccessToken); err == nil {
					t.Error("alive")
				}
			})
		}
	}
}

// A revocation ends with its request's context when the store hangs, and nothing was
// written.
func TestARevocationEndsWithItsRequest(t *testing.T) {
	s := newResource(t)
	tokens := s.Login()
	for _, text := range []string{tokens.AccessToken, tokens.RefreshToken} {
		s.Faulty.Inject(storetest.UpdateGrant, 1, storetest.Hangs)
		if _, err := s.Revoke(s.ShortContext(), s.Listed(clientID), text, testkit.Origin); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v, want temporarily unavailable", err)
		}
	}
	s.WantActive(tokens.GrantID, 1)
}

// undecided is a store that loses the first write after its decision, and lets another
// writer store a row instead.
type undecided struct {
	store.Store
	instead func(before grant.Grant)
}

func (u *undecided) UpdateGrant(ctx context.Context, id grant.ID, decide store.Decide) error {
	if u.instead == nil {
		return u.Store.UpdateGrant(ctx, id, decide)
	}
	before, err := u.Store.Grant(ctx, id)
	if err != nil {
		return err
	}
	decide(before)
	u.instead(before)
	u.instead = nil
	return storetest.ErrInjected
}

// Two revocations of one row differ only in the access floor. A revocation by another node
// whose clock is behind must not be mistaken for this node's own.
func TestAnotherNodesRevocationIsNotTakenForOurOwn(t *testing.T) {
	u := &undecided{}
	s := newService(t, testkit.Named, func(iss *issuer.Issuer) { u.Store, iss.Store = iss.Store, u })
	s.Administer(clientID, func(c *store.Client) { c.NoRotation = true })
	first := s.Login()
	s.Clock.Advance(time.Second)
	late := s.Must(s.Renew(first.RefreshToken))
	u.instead = func(before grant.Grant) {
		lower := before
		lower.Version++
		lower.AccessFloor = before.RotatedAt
		if err := storetest.Replace(t.Context(), s.Engine, lower); err != nil {
			t.Error(err)
		}
	}
	if err := s.revokeBy(clientID, late.AccessToken); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want temporarily unavailable", err)
	}
	if _, err := s.inspect(late.AccessToken); err != nil {
		t.Fatalf("the other node's revocation reaches too far: %v", err)
	}
	s.mustRevoke(late.AccessToken)
	s.Dead(grant.AccessRevoked)(s.inspect(late.AccessToken))
}

func TestRevokingATokenWithoutARowFails(t *testing.T) {
	s := newResource(t)
	tokens := s.Login()
	if _, deleted, err := s.Engine.Sweep(t.Context(), store.SweptGrants, "", 1<<47, 100); err != nil || deleted != 1 {
		t.Fatalf("swept %d, %v", deleted, err)
	}
	for _, text := range []string{tokens.AccessToken, tokens.RefreshToken} {
		var refused *grant.Refused
		if err := s.revokeBy(clientID, text); !errors.As(err, &refused) || refused.Why != grant.StoreBehind {
			t.Errorf("got %v, want refused: %s", err, grant.StoreBehind)
		}
	}
	s.Clock.Advance(32 * 24 * time.Hour)
	s.mustRevoke(tokens.AccessToken)
	s.mustRevoke(tokens.RefreshToken)
}
