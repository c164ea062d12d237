package grant_test

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// carried returns the access token of g's present pair, as presented by its client.
func carried(g grant.Grant) grant.Presented {
	return grant.Presented{
		Realm: g.Realm, ClientID: g.ClientID, Generation: g.Generation, IssuedAt: g.RotatedAt, ExpiresAt: g.RotatedAt + 5*minute,
	}
}

func TestAnAccessTokenIsAliveOrDeadForOneReason(t *testing.T) {
	revoked := third().Revoke(grant.ReasonOperator).Next
	floored := third()
	floored.AccessFloor = rotated
	for _, c := range []struct {
		name    string
		g       grant.Grant
		present func(*grant.Presented)
		now     grant.Instant
		want    grant.Refusal
	}{
		{"fresh", third(), nil, rotated, grant.Allowed},
		{"on a node whose clock is behind", third(), nil, rotated - hour, grant.Allowed},
		{"in its last millisecond", third(), nil, rotated + 5*minute - 1, grant.Allowed},
		{"expired", third(), nil, rotated + 5*minute, grant.GrantExpired},
		{"of an earlier pair", third(), func(p *grant.Presented) { p.Generation, p.IssuedAt = 1, t0 }, rotated, grant.Allowed},
		{"of another realm", third(), func(p *grant.Presented) { p.Realm = "/other" }, rotated, grant.OtherClient},
		{"whoever asks", third(), func(p *grant.Presented) { p.ClientID = "bank" }, rotated, grant.Allowed},
		{"of a revoked grant", revoked, nil, rotated, grant.GrantRevoked},
		{"issued at the floor", floored, nil, rotated, grant.AccessRevoked},
		{"issued before the floor", floored, func(p *grant.Presented) { p.Generation, p.IssuedAt = 2, rotated-1 }, rotated, grant.AccessRevoked},
		{"issued after the floor", floored, func(p *grant.Presented) { p.IssuedAt++ }, rotated + 1, grant.Allowed},
		{"authorized at the cutoff", third(), func(p *grant.Presented) { p.Cutoff = t0 }, rotated, grant.CutOff},
		{"authorized after the cutoff", third(), func(p *grant.Presented) { p.Cutoff = t0 - 1 }, rotated, grant.Allowed},
		{"of a generation that the row has not reached", third(), func(p *grant.Presented) { p.Generation++ }, rotated, grant.StoreBehind},
		{"of a rotation that the row has not made", third(), func(p *grant.Presented) { p.IssuedAt-- }, rotated, grant.StoreBehind},
		{"of a later answer of the same generation", third(), func(p *grant.Presented) { p.IssuedAt += second }, rotated, grant.Allowed},
		// The reasons that reveal less come first.
		{"expired and unrecorded", third(), func(p *grant.Presented) { p.Generation++ }, rotated + 5*minute, grant.GrantExpired},
		{"of a revoked grant, unrecorded", revoked, func(p *grant.Presented) { p.Generation++ }, rotated, grant.GrantRevoked},
		{"under the floor, unrecorded", floored, func(p *grant.Presented) { p.Generation++ }, rotated, grant.AccessRevoked},
		{"cut off, unrecorded", third(), func(p *grant.Presented) { p.Cutoff = t0; p.Generation++ }, rotated, grant.CutOff},
	} {
		p := carried(third())
		if c.present != nil {
			c.present(&p)
		}
		if got := c.g.Inspect(p, specification(), c.now); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAnAccessTokenOutlivesItsExpiryByTheSkewAndACutoffReachesAsFar(t *testing.T) {
	p := specification()
	p.MaxSkew = 2 * time.Second
	tok := carried(third())
	for _, c := range []struct {
		cutoff, now grant.Instant
		want        grant.Refusal
	}{
		{0, tok.ExpiresAt + 2*second - 1, grant.Allowed},
		{0, tok.ExpiresAt + 2*second, grant.GrantExpired},
		{t0 - 2*second, rotated, grant.CutOff},
		{t0 - 2*second - 1, rotated, grant.Allowed},
	} {
		tok.Cutoff = c.cutoff
		if got := third().Inspect(tok, p, c.now); got != c.want {
			t.Errorf("cutoff %d, at %d: %s, want %s", c.cutoff-t0, c.now-rotated, got, c.want)
		}
	}
}

func TestAnyGenerationsRefreshTokenRevokesTheGrantForItsClientAlone(t *testing.T) {
	for _, generation := range []uint32{1, 2, 3, 4} {
		tok := carried(third())
		tok.Generation, tok.ExpiresAt = generation, 1 // spent and long expired
		d := third().RevokeRefresh(tok)
		want := third()
		want.Version, want.State, want.Reason = third().Version+1, grant.Revoked, grant.ReasonClient
		if d.Refusal != grant.Allowed || d.Next != want {
			t.Errorf("generation %d: %s\n%+v, want\n%+v", generation, d.Refusal, d.Next, want)
		}
		if again := d.Next.RevokeRefresh(tok); again.Refusal != grant.Allowed || again.Next != d.Next {
			t.Errorf("again: %s\n%+v", again.Refusal, again.Next)
		}
	}
	replayed := third()
	replayed.State, replayed.Reason = grant.Revoked, grant.ReasonRefreshReplayed
	if d := replayed.RevokeRefresh(carried(third())); d.Next != replayed {
		t.Errorf("the reason of an earlier end was lost: %s", d.Next.Reason)
	}
}

func TestOtherClientsAndRealmsRevokeNothing(t *testing.T) {
	p := specification()
	for _, foreign := range []func(*grant.Presented){
		func(tok *grant.Presented) { tok.ClientID = "bank" },
		func(tok *grant.Presented) { tok.Realm = "/other" },
		func(tok *grant.Presented) { tok.ClientID = "" },
	} {
		tok := carried(third())
		foreign(&tok)
		for _, g := range []grant.Grant{third(), third().Revoke(grant.ReasonOperator).Next} {
			if d := g.RevokeRefresh(tok); d.Refusal != grant.OtherClient || d.Next != g {
				t.Errorf("a refresh token of %s at %s: %s, %+v", tok.ClientID, tok.Realm, d.Refusal, d.Next)
			}
			if d := g.RevokeAccess(tok, p, rotated); d.Refusal != grant.OtherClient || d.Next != g {
				t.Errorf("an access token of %s at %s: %s, %+v", tok.ClientID, tok.Realm, d.Refusal, d.Next)
			}
		}
	}
}

func TestRevokingAnAccessTokenEndsTheAccessTokensSoFarAndNothingElse(t *testing.T) {
	p := specification()
	for name, now := range map[string]grant.Instant{
		"later": rotated + minute, "at once": rotated, "by a clock that was put back": rotated - hour,
	} {
		tok := carried(third())
		d := third().RevokeAccess(tok, p, now)
		want := third()
		want.Version++
		want.AccessFloor = max(now, rotated)
		if d.Refusal != grant.Allowed || d.Next != want {
			t.Fatalf("%s: %s\n%+v, want\n%+v", name, d.Refusal, d.Next, want)
		}
		if why := d.Next.Inspect(tok, p, now); why != grant.AccessRevoked {
			t.Errorf("%s: the token is %s", name, why)
		}
		if again := d.Next.RevokeAccess(tok, p, now+second); again.Refusal != grant.Allowed || again.Next != d.Next {
			t.Errorf("%s, again: %s, %+v", name, again.Refusal, again.Next)
		}
		// Tokens issued afterwards are valid, even in the same millisecond.
		next := d.Next.Refresh(presents(d.Next, 3), p, now)
		if next.Refusal != grant.Allowed || next.Access.IssuedAt <= d.Next.AccessFloor {
			t.Fatalf("%s: a refresh afterwards: %s, issued at %d", name, next.Refusal, next.Access.IssuedAt-rotated)
		}
		fresh := carried(next.Next)
		fresh.IssuedAt, fresh.ExpiresAt = next.Access.IssuedAt, next.Access.ExpiresAt
		if why := next.Next.Inspect(fresh, p, now); why != grant.Allowed {
			t.Errorf("%s: the next token is %s", name, why)
		}
		if why := next.Next.Inspect(tok, p, now); why != grant.AccessRevoked {
			t.Errorf("%s: after a refresh the token is %s", name, why)
		}
	}
}

// The present pair, of generation 3, was issued after the revoked token of generation 2,
// and later than the time of the clock, which was set back.
func TestRevokingAnEarlierAccessTokenEndsThePresentOneToo(t *testing.T) {
	tok := carried(third())
	tok.Generation, tok.IssuedAt = 2, rotated-minute
	d := third().RevokeAccess(tok, specification(), rotated-second)
	if why := d.Next.Inspect(carried(third()), specification(), rotated); why != grant.AccessRevoked {
		t.Errorf("the present access token is %s", why)
	}
}

func TestRevokingADeadAccessTokenChangesNothing(t *testing.T) {
	p := specification()
	p.MaxSkew = 2 * time.Second
	tok := carried(third())
	if d := third().RevokeAccess(tok, p, tok.ExpiresAt+2*second); d.Refusal != grant.Allowed || d.Next != third() {
		t.Errorf("expired: %s, %+v", d.Refusal, d.Next)
	}
	// With the clock skew, the token may still be active on some node.
	if d := third().RevokeAccess(tok, p, tok.ExpiresAt+2*second-1); d.Next == third() {
		t.Error("a token that is active for another millisecond was not revoked")
	}
	revoked := third().Revoke(grant.ReasonOperator).Next
	if d := revoked.RevokeAccess(tok, p, rotated); d.Refusal != grant.Allowed || d.Next != revoked {
		t.Errorf("revoked: %s, %+v", d.Refusal, d.Next)
	}
}

// A token may be ahead of its row after a restore. Its revocation still applies.
func TestAnAccessTokenAheadOfItsRowCanBeRevoked(t *testing.T) {
	tok := carried(third())
	tok.Generation, tok.IssuedAt = 9, rotated+minute
	d := third().RevokeAccess(tok, specification(), rotated)
	if why := d.Next.Inspect(tok, specification(), rotated); why != grant.AccessRevoked {
		t.Errorf("the token is %s, floor %d", why, d.Next.AccessFloor-rotated)
	}
}
