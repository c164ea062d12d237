package issuer_test

import (
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// A thief has copied the store and the key-encryption key before a key rotation. ring
// holds the keys that the thief has.
type thief struct {
	s    *service
	ring *keys.Ring
	at   grant.Instant // of the copy
}

func (s *service) copied() thief { return thief{s, s.View().Ring, s.At()} }

// access forges an access token with the copied key.
func (x thief) access(tok keys.Token) string {
	x.s.T.Helper()
	text, err := x.ring.SealAccess(x.ring.Current(keys.MAC, x.at), realm, tok)
	if err != nil {
		x.s.T.Fatal(err)
	}
	return text
}

func (x thief) refresh(tok keys.Token) string {
	x.s.T.Helper()
	text, err := x.ring.SealRefresh(x.ring.Current(keys.MAC, x.at), realm, tok)
	if err != nil {
		x.s.T.Fatal(err)
	}
	return text
}

func (x thief) code(authorizedAt, expiresAt grant.Instant) string {
	x.s.T.Helper()
	c := grant.Code{
		Realm: realm, ClientID: clientID, Subject: "admin", Scope: allScopes, RedirectHash: grant.HashRedirectURI(redirectURI),
		AuthorizedAt: authorizedAt, ExpiresAt: expiresAt,
	}
	var nonce [keys.NonceSize]byte
	rand.Read(c.GrantID[:])
	rand.Read(nonce[:])
	text, err := x.ring.SealCode(x.ring.Current(keys.Seal, x.at), c, nonce)
	if err != nil {
		x.s.T.Fatal(err)
	}
	return text
}

func TestCopiedKeysForgeNothingAfterARotation(t *testing.T) {
	s := newNodes(t, testkit.Quick(), 1)[0]
	s.Administer(clientID, func(c *store.Client) { c.TokenFormat = store.TokenOpaque })
	mine := s.Login()
	x := s.copied()
	s.Clock.Advance(59 * time.Minute)
	s.RotateKeys()
	s.Clock.Advance(time.Minute + keysSettle)
	s.RotateKeys()
	if s.View().Ring.Current(keys.MAC, s.At()) == x.ring.Current(keys.MAC, x.at) {
		t.Fatal("the keys have not changed")
	}
	end := s.Lives(keys.MAC)[1].ActiveAt
	mine = s.Must(s.Renew(mine.RefreshToken))
	now := s.At() + 1
	s.Clock.Advance(time.Millisecond)
	g := s.Row(mine.GrantID)

	forged := func(why grant.Refusal, tok keys.Token) {
		t.Helper()
		tok.GrantID, tok.Bits = g.ID, 7
		s.Dead(why)(s.inspect(x.access(tok)))
	}
	forged(grant.TokenUnknown, keys.Token{Generation: 0, IssuedAt: end - 1000, ExpiresAt: grant.Never})
	forged(grant.TokenUnknown, keys.Token{Generation: 1, IssuedAt: end - 1000, ExpiresAt: grant.Never})
	forged(grant.KeyRetired, keys.Token{Generation: 2, IssuedAt: now, ExpiresAt: now.Add(5 * time.Minute)})
	forged(grant.KeyRetired, keys.Token{Generation: 1, IssuedAt: now.Add(day), ExpiresAt: now.Add(day + 5*time.Minute)})
	s.Refused(grant.KeyRetired)(s.Redeem(x.code(now, now.Add(time.Minute))))
	s.Refused(grant.KeyRetired)(s.Redeem(x.code(now.Add(day), grant.Never)))
	s.Refused(grant.KeyRetired)(s.Renew(x.refresh(keys.Token{GrantID: g.ID, Generation: 2, IssuedAt: g.RotatedAt, ExpiresAt: g.ExpiresAt})))
	s.Refused(grant.KeyRetired)(s.Renew(x.refresh(keys.Token{GrantID: g.ID, Generation: 1, IssuedAt: now, ExpiresAt: grant.Never})))
	s.Refused(grant.KeyRetired)(s.Renew(x.refresh(keys.Token{GrantID: grant.ID{1}, Generation: 9, IssuedAt: now, ExpiresAt: grant.Never})))
	s.WantActive(g.ID, 2)

	// A forged token that is dated in the key's period expires no later than the last
	// authentic one.
	s.Clock.Advance(5*time.Minute + 2*time.Second)
	s.RotateKeys()
	forged(grant.GrantExpired, keys.Token{Generation: 1, IssuedAt: end - 1, ExpiresAt: end.Add(day)})
	s.Refused(grant.CodeExpired)(s.Redeem(x.code(end-1, grant.Never)))

	// The owner's refresh token still works. If the thief forges the spent token to get
	// the answer of the last rotation repeated, the grant is revoked.
	mine = s.Must(s.Renew(mine.RefreshToken))
	s.Refused(grant.RefreshReplayed)(s.Renew(x.refresh(keys.Token{GrantID: g.ID, Generation: 2, IssuedAt: end - 1, ExpiresAt: grant.Never})))
	s.revoked(g.ID, grant.ReasonRefreshReplayed, store.EventRefreshReplayed)
}

// keysSettle is how long after its period a key's tokens may still be dated.
const keysSettle = 10 * time.Second

// Introspection refuses a JWT that a retired signing key signed later, although verifiers
// still hold the public key.
func TestIntrospectionRefusesLaterJWTsByARetiredKey(t *testing.T) {
	s := newNodes(t, testkit.Quick(), 1)[0]
	s.Administer(clientID, func(c *store.Client) { c.TokenFormat = store.TokenJWT })
	x := s.copied()
	s.Clock.Advance(59 * time.Minute)
	s.RotateKeys()
	s.Clock.Advance(time.Minute + keysSettle + time.Second)
	s.RotateKeys()
	mine := s.Login()
	typ, payload, _, err := s.View().Ring.Verify(mine.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.inspect(mine.AccessToken); err != nil {
		t.Fatal(err)
	}
	sign := func(change map[string]any) string {
		t.Helper()
		claims := map[string]any{}
		if err := json.Unmarshal(payload, &claims); err != nil {
			t.Fatal(err)
		}
		for k, v := range change {
			claims[k] = v
		}
		text, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		jwt, err := x.ring.Sign(keys.ES256, typ, text, x.at)
		if err != nil {
			t.Fatal(err)
		}
		return jwt
	}
	s.Dead(grant.KeyRetired)(s.inspect(sign(nil)))
	s.Dead(grant.TokenUnknown)(s.inspect(sign(map[string]any{"exp": 253402300799})))
	// After its retention the key is deleted, and the JWT cannot even be verified.
	s.Clock.Advance(testkit.Quick().Retention)
	s.RotateKeys()
	e, err := (&explain.Explainer{Realm: s.Realm, Store: s.Store, Directory: s.Directory, Now: s.Now, Issuer: s.Issuer}).Token(t.Context(), sign(map[string]any{"exp": s.At().Add(time.Hour) / 1000}))
	if err != nil || e.Authentic || e.JWT == nil || e.JWT.Fault != explain.JWTKeyGone || e.Answer.Why != grant.TokenUnknown {
		t.Errorf("a JWT by a key that is gone: genuine %t, %+v, %s, %v", e.Authentic, e.JWT, e.Answer.Why, err)
	}
}

// No authentic token is refused on either side of a rotation. An answer that is repeated
// across a rotation has the same bytes, and old refresh tokens remain valid.
func TestNothingAuthenticIsRefusedAroundARotation(t *testing.T) {
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s := newNodes(t, testkit.Quick(), 1)[0]
		s.Administer(clientID, func(c *store.Client) { c.TokenFormat = format })
		idle, idleCode := s.Login(), ""
		s.Clock.Advance(59*time.Minute + 45*time.Second)
		s.RotateKeys()
		end := s.Lives(keys.MAC)[1].ActiveAt
		before := s.Login()
		var spent []issuer.Tokens
		for s.At() < end.Add(30*time.Second) {
			idleCode = s.NewCode()
			after := s.Must(s.Renew(before.RefreshToken))
			s.Clock.Advance(3 * time.Second)
			s.Poll()
			again := s.Must(s.Renew(before.RefreshToken))
			if again.RefreshToken != after.RefreshToken || format == store.TokenOpaque && again.AccessToken != after.AccessToken {
				t.Errorf("%s, %s from the rotation: an answer is repeated with other bytes", format, s.At().Since(end))
			}
			for _, text := range []string{before.AccessToken, after.AccessToken, again.AccessToken} {
				if _, err := s.inspect(text); err != nil {
					t.Errorf("%s, %s from the rotation: %v", format, s.At().Since(end), err)
				}
			}
			s.Must(s.Redeem(idleCode))
			spent = append(spent, before)
			before = after
		}
		if s.Row(before.GrantID).KeyID == s.Row(idle.GrantID).KeyID {
			t.Fatal("the keys have not changed")
		}
		s.Clock.Advance(20 * 24 * time.Hour)
		s.RotateKeys()
		s.Must(s.Renew(idle.RefreshToken))
		// A spent token by a retired key still counts as a replay.
		s.Refused(grant.RefreshReplayed)(s.Renew(spent[0].RefreshToken))
	}
}

// A client without refresh token rotation holds a refresh token by a long-retired key. Its
// access tokens are by the current key.
func TestAccessTokensWithoutRotationAreByTodaysKey(t *testing.T) {
	s := newNodes(t, testkit.Quick(), 1)[0]
	s.Administer(clientID, func(c *store.Client) { c.TokenFormat, c.NoRotation = store.TokenOpaque, true })
	first := s.Login()
	for range 5 {
		s.Clock.Advance(59 * time.Minute)
		s.RotateKeys()
		s.Clock.Advance(time.Minute)
		s.RotateKeys()
		next := s.Must(s.Renew(first.RefreshToken))
		if next.RefreshToken != first.RefreshToken {
			t.Fatal("the refresh token rotates")
		}
		if _, err := s.inspect(next.AccessToken); err != nil {
			t.Fatal(err)
		}
	}
}

// The access floor may lie after a key rotation, and the answer that is repeated before
// it.
func TestARepeatAboveTheAccessFloorIsByTheKeyOfItsInstant(t *testing.T) {
	s := newNodes(t, testkit.Quick(), 1)[0]
	s.Administer(clientID, func(c *store.Client) { c.TokenFormat = store.TokenOpaque })
	s.Clock.Advance(59 * time.Minute)
	s.RotateKeys()
	first := s.Login()
	s.Clock.Advance(30 * time.Second)
	s.Poll()
	second := s.Must(s.Renew(first.RefreshToken))
	s.Clock.Advance(30*time.Second + keysSettle + time.Second)
	s.RotateKeys()
	if _, err := s.Revoke(t.Context(), s.Listed(clientID), second.AccessToken, testkit.Origin); err != nil {
		t.Fatal(err)
	}
	s.Clock.Advance(time.Second)
	third := s.Must(s.Renew(first.RefreshToken))
	if !third.Repeated || third.RefreshToken != second.RefreshToken || third.AccessToken == second.AccessToken {
		t.Fatalf("repeated %t", third.Repeated)
	}
	s.SamePair(third, s.Must(s.Renew(first.RefreshToken)))
	if _, err := s.inspect(third.AccessToken); err != nil {
		t.Error(err)
	}
	s.Dead(grant.AccessRevoked)(s.inspect(second.AccessToken))
}

// A clock that was a year ahead has dated rows: the grants still work after the clock was
// set right, and through later key rotations.
func TestAGrantDatedByAWrongClockSurvivesRotations(t *testing.T) {
	for name, look := range map[string]func(*service){"and made keys": (*service).RotateKeys, "and made none": (*service).Poll} {
		t.Run(name, func(t *testing.T) { wrongClock(t, look) })
	}
}

func wrongClock(t *testing.T, look func(*service)) {
	s := newNodes(t, testkit.Quick(), 1)[0]
	s.Administer(clientID, func(c *store.Client) { c.TokenFormat = store.TokenOpaque })
	s.Clock.Advance(20 * 24 * time.Hour)
	look(s)
	dated := s.Login()
	s.Clock.Advance(-20 * 24 * time.Hour)
	for range 5 {
		s.RotateKeys()
		again := s.Must(s.Renew(dated.RefreshToken))
		s.SamePair(again, s.Must(s.Renew(dated.RefreshToken)))
		dated = again
		if _, err := s.inspect(dated.AccessToken); err != nil {
			t.Error(err)
		}
		s.Clock.Advance(59*time.Minute + 50*time.Second)
		s.RotateKeys()
		dated = s.Must(s.Renew(dated.RefreshToken))
		s.Clock.Advance(10*time.Second + keysSettle + time.Second)
		s.RotateKeys()
		if _, err := s.inspect(dated.AccessToken); err != nil {
			t.Error(err)
		}
	}
	if g := s.Row(dated.GrantID); g.RotatedAt <= s.At() {
		t.Fatal("the row is not dated ahead")
	}
}

// Nodes whose clocks differ change keys at different instants, and still accept each
// other's codes and tokens.
func TestNodesWithSkewAcceptEachOthersTokensAroundARotation(t *testing.T) {
	sched := testkit.Quick()
	sched.MaxSkew = 2 * time.Second
	s := newNodes(t, sched, 1)[0]
	s.Administer(clientID, func(c *store.Client) { c.TokenFormat = store.TokenOpaque })
	s.Policy.MaxSkew = sched.MaxSkew
	other, late := *s.Service, testkit.NewClock()
	behind := &service{&other}
	iss := *s.Issuer
	iss.Now, iss.Feed = late.Now, nil
	behind.Issuer, behind.Clock = issuer.New(iss), late
	s.Clock.Advance(59*time.Minute + 40*time.Second)
	s.RotateKeys()
	tokens := s.Login()
	end := s.Lives(keys.MAC)[1].ActiveAt
	nodes := []*service{s, behind}
	for i := 0; s.At() < end.Add(20*time.Second); i++ {
		s.Clock.Advance(700 * time.Millisecond)
		s.Poll()
		late.Set(s.Clock.Now().Add(-2 * time.Second))
		one, other := nodes[i%2], nodes[(i+1)%2]
		next := one.Must(one.Renew(tokens.RefreshToken))
		if got, err := other.inspect(next.AccessToken); err != nil || got.GrantID != tokens.GrantID {
			t.Errorf("%s from the rotation: %v", s.At().Since(end), err)
		}
		other.SamePair(next, other.Must(other.Renew(tokens.RefreshToken)))
		other.Must(other.Redeem(one.NewCode()))
		tokens = next
	}
}

// A command dates a cutoff ahead. A code that is issued meanwhile is dated after the
// cutoff.
func TestACodeDatedAfterACutoffIsRedeemedAcrossARotation(t *testing.T) {
	s := newNodes(t, testkit.Quick(), 1)[0]
	s.Clock.Advance(59*time.Minute + 59*time.Second)
	s.RotateKeys()
	s.CutOff(store.Cutoff{Realm: realm, Subject: subject, At: s.At().Add(directory.CutoffReach)})
	code := s.NewCode()
	s.Clock.Advance(30 * time.Second)
	s.RotateKeys()
	if len(s.Lives(keys.Seal)) < 2 || s.Lives(keys.Seal)[1].Phase != keys.Active {
		t.Fatal("the keys have not changed")
	}
	s.Must(s.Redeem(code))
}

// After a restore, a row may not name the key that made the spent token: a repeated request
// still gets the same pair.
func TestARepeatOfARotationWhoseSpentKeyIsUnknownIsAnswered(t *testing.T) {
	s := newNodes(t, testkit.Quick(), 1)[0]
	s.Clock.Advance(59*time.Minute + 55*time.Second)
	s.RotateKeys()
	first := s.Login()
	s.Clock.Advance(10 * time.Second)
	s.RotateKeys()
	second := s.Must(s.Renew(first.RefreshToken))
	g := s.Row(second.GrantID)
	if g.SpentKey() == g.KeyID || !s.View().Ring.Has(g.SpentKey()) {
		t.Fatalf("the row says that %s was spent, and %s made", g.SpentKey(), g.KeyID)
	}
	g.Version++
	g.Attempt &^= 0xffff_ffff
	err := s.Engine.UpdateGrant(t.Context(), g.ID, func(grant.Grant) (grant.Grant, []store.Event) { return g, nil })
	if err != nil {
		t.Fatal(err)
	}
	s.SamePair(second, s.Must(s.Renew(first.RefreshToken)))
}
