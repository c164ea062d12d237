package grant_test

import (
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// retiredAt is the instant from which no node uses the key of these tests.
const retiredAt = rotated + hour

func retired() grant.Maker { return grant.Maker{Key: 7, Until: retiredAt} }

// An access token by a retired key is accepted only if it is dated in the key's period. It
// expires no later than the lifetime of an access token after that period.
func TestAnAccessTokenOfARetiredKeyDatesFromTheKeysPeriod(t *testing.T) {
	p := specification()
	p.MaxSkew = 2e9
	g := third()
	ahead := third() // by a clock that was far ahead, and is right again
	ahead.RotatedAt = retiredAt + 100*day
	for _, tt := range []struct {
		name     string
		g        grant.Grant
		issuedAt grant.Instant
		edit     func(*grant.Presented)
		now      grant.Instant
		want     grant.Refusal
	}{
		{"of its period", g, retiredAt - minute, nil, retiredAt + minute, grant.Allowed},
		{"of its last moment, by a clock that is ahead", g, retiredAt + 2*second, nil, retiredAt + minute, grant.Allowed},
		{"of just after", g, retiredAt + 2*second + 1, nil, retiredAt + minute, grant.KeyRetired},
		{"of now", g, retiredAt + day, nil, retiredAt + day, grant.GrantExpired},
		{"of now, just after", g, retiredAt + minute, nil, retiredAt + minute, grant.KeyRetired},
		{"of its period, alive for ever", g, retiredAt - minute, func(q *grant.Presented) { q.ExpiresAt = grant.Never }, retiredAt + minute, grant.TokenUnknown},
		{"of its period, alive for a day", g, retiredAt - minute, func(q *grant.Presented) { q.ExpiresAt = q.IssuedAt + day }, retiredAt + 5*minute + 5*second - 1, grant.Allowed},
		{"of its period, alive for a day, later", g, retiredAt - minute, func(q *grant.Presented) { q.ExpiresAt = q.IssuedAt + day }, retiredAt + 5*minute + 5*second, grant.GrantExpired},
		{"of a generation that never is", g, retiredAt - minute, func(q *grant.Presented) { q.Generation = 0 }, retiredAt, grant.TokenUnknown},
		{"of the future", g, retiredAt + 100*day, nil, retiredAt + minute, grant.KeyRetired},
		{"of the future, as its row is", ahead, ahead.RotatedAt, nil, retiredAt + minute, grant.Allowed},
		{"of the future beyond its row", ahead, ahead.RotatedAt + 1, nil, retiredAt + minute, grant.KeyRetired},
		{"of the future, as its row is, when none can be alive", ahead, ahead.RotatedAt, nil, retiredAt + 5*minute + 5*second, grant.GrantExpired},
		{"by a key in use, alive for ever", g, retiredAt, func(q *grant.Presented) { q.Maker, q.ExpiresAt = grant.Maker{}, grant.Never }, retiredAt, grant.TokenUnknown},
		{"by a key in use, as long as one can be configured", g, retiredAt, func(q *grant.Presented) { q.Maker, q.ExpiresAt = grant.Maker{}, retiredAt+day+second }, retiredAt + day, grant.Allowed},
		{"by a key that was withdrawn", g, retiredAt - minute, func(q *grant.Presented) { q.Maker.Withdrawn = true }, retiredAt, grant.KeyWithdrawn},
		{"by a key that was withdrawn in use", g, retiredAt - minute, func(q *grant.Presented) { q.Maker = grant.Maker{Withdrawn: true} }, retiredAt, grant.KeyWithdrawn},
	} {
		q := grant.Presented{
			Realm: tt.g.Realm, ClientID: tt.g.ClientID, Generation: 3, IssuedAt: tt.issuedAt,
			ExpiresAt: tt.issuedAt + 5*minute, Maker: retired(),
		}
		if tt.edit != nil {
			tt.edit(&q)
		}
		got := tt.g.Inspect(q, p, tt.now)
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		// A text that is not an authentic token moves no access floor.
		if d := tt.g.RevokeAccess(q, p, tt.now); (d.Next != tt.g) != (tt.want == grant.Allowed) {
			t.Errorf("%s: revoking it makes %+v", tt.name, d.Next)
		}
		// If there is no row, only an authentic token means that the store has lost
		// commits.
		lost := q.Unrecorded(p, tt.now)
		if lost == grant.StoreBehind && got != grant.Allowed || got == grant.Allowed && tt.g == g && lost != grant.StoreBehind && lost != grant.GrantExpired {
			t.Errorf("%s, without a row: %s", tt.name, lost)
		}
	}
}

func TestACodeOfARetiredKeyDatesFromTheKeysPeriod(t *testing.T) {
	p := specification()
	p.MaxSkew, p.CodeLifetime = 2e9, 60e9
	for _, tt := range []struct {
		name         string
		authorizedAt grant.Instant
		edit         func(*grant.Code, *grant.Redemption)
		now          grant.Instant
		want         grant.Refusal
	}{
		{"of its period", retiredAt - second, nil, retiredAt + 58*second, grant.Allowed},
		{"of its last moment, by a clock that is ahead", retiredAt + 2*second, nil, retiredAt + minute, grant.Allowed},
		{"of just after", retiredAt + 2*second + 1, nil, retiredAt + 3*second, grant.KeyRetired},
		{"of now", retiredAt + day, nil, retiredAt + day, grant.KeyRetired},
		{"of its period, good for ever", retiredAt - second, func(c *grant.Code, _ *grant.Redemption) { c.ExpiresAt = grant.Never }, retiredAt + 63*second - 1, grant.Allowed},
		{"of its period, good for ever, later", retiredAt - second, func(c *grant.Code, _ *grant.Redemption) { c.ExpiresAt = grant.Never }, retiredAt + 63*second, grant.CodeExpired},
		{"after a cutoff that lies ahead", retiredAt + 7*second, func(_ *grant.Code, r *grant.Redemption) { r.Cutoff = retiredAt + 5*second - 1 }, retiredAt + second, grant.Allowed},
		{"beyond a cutoff that lies ahead", retiredAt + 7*second + 1, func(_ *grant.Code, r *grant.Redemption) { r.Cutoff = retiredAt + 5*second - 1 }, retiredAt + second, grant.KeyRetired},
		{"after a restore that lies ahead", retiredAt + 50*second, func(_ *grant.Code, r *grant.Redemption) { r.Restore.At = retiredAt + 50*second }, retiredAt + second, grant.Allowed},
		{"after a restore that has passed", retiredAt + 50*second, func(_ *grant.Code, r *grant.Redemption) { r.Restore.At = retiredAt + 50*second }, retiredAt + 51*second, grant.KeyRetired},
		{"by a key that was withdrawn", retiredAt - second, func(_ *grant.Code, r *grant.Redemption) { r.Maker.Withdrawn = true }, retiredAt, grant.KeyWithdrawn},
		{"another's, of now", retiredAt + day, func(_ *grant.Code, r *grant.Redemption) { r.ClientID = "other" }, retiredAt + day, grant.OtherClient},
	} {
		c, r := aCode(), aRedemption()
		c.AuthorizedAt, c.ExpiresAt, r.Maker = tt.authorizedAt, tt.authorizedAt+minute, retired()
		if tt.edit != nil {
			tt.edit(&c, &r)
		}
		if d := c.Redeem(r, p, tt.now); d.Refusal != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, d.Refusal, tt.want)
		}
	}
	if grant.CodeExpired.KeyRejected() || !grant.KeyRetired.KeyRejected() || !grant.KeyWithdrawn.KeyRejected() {
		t.Error("an expired code must count as a replay, and a code by a retired key must not")
	}
}

// The row names the key of its refresh token, the key of the spent token, and the instant
// between: a retired key can make no other token.
func TestARetiredKeyMakesNoRefreshTokens(t *testing.T) {
	g := third()
	g.KeyID = 8 // since retiredAt
	g.RotatedAt = retiredAt + hour
	g.ExpiresAt = g.RotatedAt + 31*day
	g.Attempt = grant.NewAttempt(0xabcd_0000_0000, 8, oauth.JKT{})
	old := g // not refreshed since
	old.KeyID, old.RotatedAt = 7, retiredAt-hour
	first := old // refreshed once since
	first.KeyID, first.RotatedAt = 8, g.RotatedAt
	first.Attempt = grant.NewAttempt(1, 7, oauth.JKT{})
	wrong := old // by a clock that was far ahead, and is right again
	wrong.RotatedAt, wrong.ExpiresAt = retiredAt+100*day, retiredAt+200*day
	soon := g.RotatedAt + second
	for _, tt := range []struct {
		name       string
		g          grant.Grant
		generation uint32
		issuedAt   grant.Instant
		edit       func(*grant.Refresh)
		now        grant.Instant
		want       grant.Refusal
		revokes    bool
	}{
		{"the row's own", old, 3, old.RotatedAt, nil, soon, grant.Allowed, false},
		{"the row's own, by a clock that was wrong", wrong, 3, wrong.RotatedAt, nil, soon, grant.Allowed, false},
		{"the row's own, by a clock that was wrong, once its instant has come", wrong, 3, wrong.RotatedAt, nil, wrong.RotatedAt + 1, grant.Allowed, false},
		{"of the row's moment, by the old key", g, 3, g.RotatedAt, nil, soon, grant.KeyRetired, false},
		{"repeated across the change of keys", first, 2, retiredAt - hour, func(r *grant.Refresh) { r.SpentByOther = false }, soon, grant.Allowed, false},
		{"made up to look like a repeat", g, 2, retiredAt - hour, nil, soon, grant.RefreshReplayed, true},
		{"spent in its period", g, 1, retiredAt - hour, nil, soon, grant.RefreshReplayed, true},
		{"spent, dated later", g, 1, g.RotatedAt - minute, nil, soon, grant.KeyRetired, false},
		{"ahead, dated later", g, 9, soon, nil, soon, grant.KeyRetired, false},
		{"ahead, of its period, after a restore", old, 9, retiredAt - minute, nil, soon, grant.Allowed, false},
		{"ahead, dated later, after a restore", old, 9, retiredAt + minute, nil, soon, grant.KeyRetired, false},
		{"of a generation that never is", first, 0, retiredAt - hour, nil, soon, grant.TokenUnknown, false},
		{"the row's own, by a key that was withdrawn", old, 3, old.RotatedAt, func(r *grant.Refresh) { r.Maker.Withdrawn = true }, soon, grant.KeyWithdrawn, false},
		{"spent, by a key that was withdrawn", g, 1, retiredAt - hour, func(r *grant.Refresh) { r.Maker.Withdrawn = true }, soon, grant.KeyWithdrawn, false},
		{"another client's", g, 3, g.RotatedAt, func(r *grant.Refresh) { r.ClientID = "other" }, soon, grant.OtherClient, false},
	} {
		r := presents(tt.g, tt.generation)
		r.IssuedAt, r.ExpiresAt, r.Maker = tt.issuedAt, tt.issuedAt+31*day, retired()
		r.Restore = grant.Restore{Backup: old.RotatedAt, At: retiredAt + 30*minute, Until: soon + 31*day}
		r.SpentByOther = tt.g.SpentKey() != 7
		if tt.edit != nil {
			tt.edit(&r)
		}
		p := specification()
		d := tt.g.Refresh(r, p, tt.now)
		if d.Refusal != tt.want || (d.Next.State == grant.Revoked) != tt.revokes {
			t.Errorf("%s: %s, %s; want %s", tt.name, d.Refusal, d.Next.State, tt.want)
		}
		if d.Refusal != grant.Allowed && !tt.revokes && d.Next != tt.g {
			t.Errorf("%s: the row changes to %+v", tt.name, d.Next)
		}
		r.Restore = grant.Restore{}
		believed := tt.issuedAt <= retiredAt && !r.Maker.Withdrawn && tt.generation > 0
		if lost := r.Unrecorded(p, tt.now); (lost == grant.StoreBehind) != believed {
			t.Errorf("%s, without a row: %s", tt.name, lost)
		}
	}
}

// Without rotation, the token that continued the grant after the restore remains valid,
// and the row names its key.
func TestAfterARestoreTheRowNamesTheKeyOfTheContinuingToken(t *testing.T) {
	g := third()
	p := specification()
	p.NoRotation = true
	r := presents(g, 4)
	r.Restore, r.IssuedAt, r.Maker.Key = putBack(), rotated+2*hour, 9
	r.ExpiresAt = grant.Never
	d := g.Refresh(r, p, putBackAt+hour)
	if d.Refusal != grant.Allowed || d.Next.KeyID != 9 || d.Next.SpentKey() != 0 {
		t.Fatalf("%s, %+v", d.Refusal, d.Next)
	}
	if d.Next.ExpiresAt != r.Restore.Until {
		t.Errorf("the grant lives until %s: no token from before outlives the restore", d.Next.ExpiresAt.Time())
	}
	if again := d.Next.Refresh(r, p, putBackAt+2*hour); again.Refusal != grant.Allowed || again.Next != d.Next {
		t.Errorf("again: %s, %+v", again.Refusal, again.Next)
	}
}

// The instants of a grant never decrease: a token of a later generation than its row has
// no earlier date.
func TestAfterARestoreNoOlderTokenContinuesTheGrant(t *testing.T) {
	g := third()
	r := presents(g, 9)
	r.Restore, r.IssuedAt, r.ExpiresAt, r.Maker = putBack(), g.RotatedAt-1, grant.Never, retired()
	d := g.Refresh(r, specification(), putBackAt+hour)
	if d.Refusal != grant.TokenUnknown || d.Next != g {
		t.Errorf("a token of a later generation and an earlier instant: %s, %+v", d.Refusal, d.Next)
	}
	r.IssuedAt = g.RotatedAt
	if d := g.Refresh(r, specification(), putBackAt+hour); d.Refusal != grant.Allowed {
		t.Errorf("a token that was issued with the row or later: %s", d.Refusal)
	}
}
