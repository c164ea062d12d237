package issuer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

// applying are the cutoffs that concern the grants of these tests.
var applying = map[string]store.Cutoff{
	"subject":                   {Realm: realm, Subject: subject},
	"client":                    {Realm: realm, ClientID: clientID},
	"one client of one subject": {Realm: realm, Subject: subject, ClientID: clientID},
}

func TestACutoffRefusesWhatWasAuthorizedAtOrBefore(t *testing.T) {
	t.Parallel()
	for name, cutoff := range applying {
		for _, skew := range []time.Duration{0, 2 * time.Second} {
			t.Run(fmt.Sprintf("%s, clocks %s apart", name, skew), func(t *testing.T) {
				s := newService(t, func(iss *issuer.Issuer) { iss.Policy.MaxSkew = skew })
				authorized := s.At()
				unredeemed, tokens := s.NewCode(), s.Login()
				// A later rotation or redemption does not lift the cutoff.
				s.Clock.Advance(30 * time.Second)
				tokens = s.Must(s.Renew(tokens.RefreshToken))
				late := s.Must(s.Redeem(unredeemed))
				unredeemed = s.codeAuthorizedAt(authorized)

				cutoff.At = authorized.Add(-skew) - 1
				s.CutOff(cutoff)
				tokens = s.Must(s.Renew(tokens.RefreshToken))

				cutoff.At++
				s.CutOff(cutoff)
				s.Refused(grant.CutOff)(s.Renew(tokens.RefreshToken))
				s.Refused(grant.CutOff)(s.Renew(late.RefreshToken))
				s.Refused(grant.CutOff)(s.Redeem(unredeemed))
				// It stays refused, and nothing was written for it.
				s.Refused(grant.CutOff)(s.Renew(tokens.RefreshToken))
				s.Refused(grant.CutOff)(s.Redeem(unredeemed))
				s.WantActive(tokens.GrantID, 3)
			})
		}
	}
}

// codeAuthorizedAt returns a code that was issued at that instant and is not redeemed yet.
func (s *service) codeAuthorizedAt(at grant.Instant) string {
	s.T.Helper()
	now := s.Clock.Now()
	s.Clock.Advance(at.Time().Sub(now))
	defer func() { s.Clock.Advance(now.Sub(s.Clock.Now())) }()
	return s.NewCode()
}

func TestALoginIsDatedAfterAnyEarlierCutoff(t *testing.T) {
	t.Parallel()
	for name, cutoff := range applying {
		for _, skew := range []time.Duration{0, 2 * time.Second} {
			t.Run(fmt.Sprintf("%s, clocks %s apart", name, skew), func(t *testing.T) {
				s := newService(t, func(iss *issuer.Issuer) { iss.Policy.MaxSkew = skew })
				before := s.Login()
				cutoff.At = s.At()
				s.CutOff(cutoff)
				s.Refused(grant.CutOff)(s.Renew(before.RefreshToken))
				// In the same millisecond.
				tokens := s.Login()
				if at := s.Row(tokens.GrantID).AuthorizedAt; at <= cutoff.At.Add(skew) {
					t.Errorf("authorized at %d, cut off until %d", at, cutoff.At.Add(skew))
				}
				s.Must(s.Renew(tokens.RefreshToken))
				s.Refused(grant.CutOff)(s.Renew(before.RefreshToken))
				// The next cutoff ends this grant, too.
				s.Clock.Advance(10 * time.Second)
				cutoff.At = s.At()
				s.CutOff(cutoff)
				s.Refused(grant.CutOff)(s.Renew(tokens.RefreshToken))
			})
		}
	}
}

func TestACutoffOfOthersRefusesNothing(t *testing.T) {
	s := newService(t)
	tokens := s.Login()
	for _, cutoff := range []store.Cutoff{
		{Realm: realm, Subject: "bob"}, {Realm: realm, ClientID: "mail"}, {Realm: realm, Subject: clientID}, {Realm: realm, ClientID: subject},
		{Realm: realm, Subject: subject, ClientID: "mail"}, {Realm: realm, Subject: "bob", ClientID: clientID},
		{Realm: "/other", Subject: subject}, {Realm: "/other", ClientID: clientID},
	} {
		cutoff.At = s.At().Add(time.Hour)
		s.CutOff(cutoff)
		tokens = s.Must(s.Renew(tokens.RefreshToken))
	}
	s.Login()
}

func TestACutoffIsNotAReasonToRevoke(t *testing.T) {
	// A replay of a cut-off token is no reason to revoke: the checks are of ownership,
	// then state, then cutoffs, and only then of replay.
	s := newService(t)
	first := s.Login()
	second := s.Must(s.Renew(first.RefreshToken))
	s.Must(s.Renew(second.RefreshToken))
	s.CutOff(store.Cutoff{Realm: realm, Subject: subject, At: s.At()})
	s.Refused(grant.CutOff)(s.Renew(first.RefreshToken))
	s.WantActive(first.GrantID, 3)
}

func TestDeletingAClientCutsOffItsGrants(t *testing.T) {
	s := newService(t)
	code := s.NewCode()
	tokens := s.Login()
	c := *s.Listed(clientID) // of a request that has authenticated already
	s.Administer(clientID, func(c *store.Client) { c.State = store.ClientDeleted }, store.Cutoff{Realm: realm, ClientID: clientID, At: s.At()})
	s.Refused(grant.CutOff)(s.Refresh(t.Context(), &c, issuer.RefreshRequest{RefreshToken: tokens.RefreshToken}))
	s.Refused(grant.CutOff)(s.Exchange(t.Context(), &c, issuer.CodeRequest{Code: code, RedirectURI: redirectURI}))
}
