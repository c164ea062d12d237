package grant_test

import (
	"testing"

	"github.com/mintage/mintage/internal/grant"
)

// putBackAt is the instant at which the store was restored to a backup from the time of
// third's pair. Until then, the clients had continued.
const putBackAt = rotated + 10*hour

func putBack() grant.Restore {
	return grant.Restore{Backup: rotated + minute, At: putBackAt, Until: putBackAt + 31*day}
}

func TestOP13_AfterARestoreTheFirstEarlierTokenContinuesTheGrant(t *testing.T) {
	g := third()
	at := putBackAt + hour
	since := next(g, at-minute) // rotated after the restore
	idle := g                   // expired by the row, which has not heard of later rotations
	idle.ExpiresAt = rotated + hour
	lived := func(r grant.Restore) func(*grant.Refresh) { return func(q *grant.Refresh) { q.Restore = r } }
	// carried returns g after a token of a generation has continued it.
	carried := func(generation uint32, at grant.Instant) grant.Grant {
		want := next(g, at)
		want.Generation = generation + 1
		return want
	}
	for _, tt := range []struct {
		name       string
		g          grant.Grant
		generation uint32
		edit       func(*grant.Refresh)
		now        grant.Instant
		want       grant.Refusal
		next       grant.Grant // zero: g as it was
	}{
		{"the row's own token goes on", g, 3, nil, at, grant.Allowed, carried(3, at)},
		{"one generation ahead", g, 4, nil, at, grant.Allowed, carried(4, at)},
		{"many generations ahead", g, 9, nil, at, grant.Allowed, carried(9, at)},
		{"a clock behind the restore issues at the restore", g, 9, nil, putBackAt - minute, grant.Allowed, carried(9, putBackAt)},
		{"an idle row is judged by the token", idle, 9, nil, at, grant.Allowed, carried(9, at)},
		{"no restore was declared", g, 9, lived(grant.Restore{}), at, grant.StoreBehind, grant.Grant{}},
		{"the restore is over", g, 9, func(q *grant.Refresh) { q.ExpiresAt = putBackAt + 40*day }, putBackAt + 31*day, grant.StoreBehind, grant.Grant{}},
		{"the last moment of the restore", g, 9, func(q *grant.Refresh) { q.IssuedAt, q.ExpiresAt = putBackAt-1, putBackAt+31*day }, putBackAt + 31*day - 1, grant.Allowed, carried(9, putBackAt+31*day-1)},
		{"issued at the restore: a loss of later", g, 4, func(q *grant.Refresh) { q.IssuedAt = putBackAt }, at, grant.StoreBehind, grant.Grant{}},
		{"issued just before", g, 4, func(q *grant.Refresh) { q.IssuedAt = putBackAt - 1 }, at, grant.Allowed, carried(4, at)},
		{"expired, and ahead", g, 9, func(q *grant.Refresh) { q.ExpiresAt = at }, at, grant.GrantExpired, grant.Grant{}},
		{"older than the row is a replay, as ever", g, 2, nil, at, grant.RefreshReplayed, revoked(g, grant.ReasonRefreshReplayed)},
		{"a second holder, ahead of a row that has gone on", since, 9, func(q *grant.Refresh) { q.IssuedAt = putBackAt - hour }, at, grant.RefreshReplayed, revoked(since, grant.ReasonRefreshReplayed)},
		{"a second holder, of the same generation", since, 4, func(q *grant.Refresh) { q.IssuedAt = putBackAt - hour }, at, grant.RefreshReplayed, revoked(since, grant.ReasonRefreshReplayed)},
		// If the store had been restored before, two tokens of one generation may be from
		// before the later restore.
		{"a second holder of the row's generation, rotated later", g, 3, func(q *grant.Refresh) { q.IssuedAt = rotated + minute }, at, grant.RefreshReplayed, revoked(g, grant.ReasonRefreshReplayed)},
		{"a second holder of the row's generation, rotated earlier", g, 3, func(q *grant.Refresh) { q.IssuedAt = rotated - minute }, at, grant.RefreshReplayed, revoked(g, grant.ReasonRefreshReplayed)},
		{"a second holder who comes after the expiry is caught all the same", since, 9,
			func(q *grant.Refresh) { q.IssuedAt, q.ExpiresAt = putBackAt-hour, at }, at, grant.RefreshReplayed, revoked(since, grant.ReasonRefreshReplayed)},
		{"the same request again gets the same pair", since, 3, nil, at, grant.Allowed, since},
		{"another client's token ends nothing", since, 9, func(q *grant.Refresh) { q.ClientID, q.IssuedAt = "other", putBackAt-hour }, at, grant.OtherClient, grant.Grant{}},
		{"cut off stays cut off", g, 9, func(q *grant.Refresh) { q.Cutoff = t0 }, at, grant.CutOff, grant.Grant{}},
		{"a revocation that the backup knows stands", revoked(g, grant.ReasonOperator), 9, nil, at, grant.GrantRevoked, grant.Grant{}},
		{"a scope typo changes nothing", g, 9, func(q *grant.Refresh) { q.Scope = "mail" }, at, grant.ScopeTooWide, grant.Grant{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := presents(tt.g, tt.generation)
			r.Restore = putBack()
			if tt.generation > 3 && tt.g == g || tt.g == idle {
				r.IssuedAt = rotated + 2*hour // some time before the restore
				r.ExpiresAt = r.IssuedAt + 31*day
			}
			if tt.edit != nil {
				tt.edit(&r)
			}
			want := tt.next
			if want == (grant.Grant{}) {
				want = tt.g
			}
			d := tt.g.Refresh(r, specification(), tt.now)
			if d.Refusal != tt.want || d.Next != want {
				t.Errorf("%s,\n%+v\nwant %s,\n%+v", d.Refusal, d.Next, tt.want, want)
			}
			if tt.want == grant.Allowed && !d.Repeated && d.Access.IssuedAt != want.RotatedAt {
				t.Errorf("the access token is dated %d ms from its pair", d.Access.IssuedAt-want.RotatedAt)
			}
		})
	}
}

// A client without rotation keeps its refresh token across the restore.
func TestOP13_WithoutRotationAnEarlierTokenStaysValid(t *testing.T) {
	g := third()
	p := specification()
	p.NoRotation = true
	r := presents(g, 4)
	r.Restore, r.IssuedAt = putBack(), rotated+2*hour
	r.ExpiresAt = r.IssuedAt + 31*day
	d := g.Refresh(r, p, putBackAt+hour)
	if d.Refusal != grant.Allowed || d.Next.Version != g.Version+1 || d.Next.Generation != 4 || d.Next.RotatedAt != r.IssuedAt || d.Next.ExpiresAt != r.ExpiresAt {
		t.Fatalf("first: %s, %+v", d.Refusal, d.Next)
	}
	if d.Next.DeleteAfter < r.ExpiresAt {
		t.Error("the row may be deleted before its token expires")
	}
	again := d.Next.Refresh(r, p, putBackAt+2*hour)
	if again.Refusal != grant.Allowed || again.Next != d.Next {
		t.Errorf("again: %s, %+v", again.Refusal, again.Next)
	}
}

func TestOP13_ACodeFromBeforeTheRestoreIsRefused(t *testing.T) {
	restored := grant.Restore{Backup: t0 - hour, At: t0 + 10*second, Until: t0 + 31*day}
	for _, tt := range []struct {
		name         string
		authorizedAt grant.Instant
		restore      grant.Restore
		want         grant.Refusal
	}{
		{"before", t0 + 10*second - 1, restored, grant.CodeBeforeRestore},
		{"at the restore", t0 + 10*second, restored, grant.Allowed},
		{"none was declared", t0, grant.Restore{}, grant.Allowed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, r := aCode(), aRedemption()
			c.AuthorizedAt, r.Restore = tt.authorizedAt, tt.restore
			d := c.Redeem(r, specification(), t0+20*second)
			if d.Refusal != tt.want {
				t.Fatalf("%s, want %s", d.Refusal, tt.want)
			}
			if d.Refusal != grant.Allowed && d.Next != (grant.Grant{}) {
				t.Errorf("a refused code makes %+v", d.Next)
			}
		})
	}
	c, r := aCode(), aRedemption()
	c.AuthorizedAt, r.Restore = t0+10*second, restored
	if d := c.Redeem(r, specification(), t0); d.Next.RotatedAt != restored.At {
		t.Errorf("a clock behind the restore dates a token %d ms from it", d.Next.RotatedAt-restored.At)
	}
}

func TestOP13_AnAccessTokenAheadOfItsRowIsActiveIfOlderThanTheRestore(t *testing.T) {
	for _, tt := range []struct {
		name       string
		generation uint32
		issuedAt   grant.Instant
		restore    grant.Restore
		want       grant.Refusal
	}{
		{"ahead, of before", 9, putBackAt - minute, putBack(), grant.Allowed},
		{"ahead, of after", 9, putBackAt, putBack(), grant.StoreBehind},
		{"ahead, undeclared", 9, putBackAt - minute, grant.Restore{}, grant.StoreBehind},
		{"the same generation, of a rotation that was lost", 4, putBackAt - minute, putBack(), grant.Allowed},
		{"the row's own", 4, putBackAt + minute, putBack(), grant.Allowed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := next(third(), putBackAt+minute)
			tok := carried(g)
			tok.Generation, tok.IssuedAt, tok.ExpiresAt, tok.Restore = tt.generation, tt.issuedAt, tt.issuedAt+5*minute, tt.restore
			if why := g.Inspect(tok, specification(), putBackAt+2*minute); why != tt.want {
				t.Errorf("%s, want %s", why, tt.want)
			}
		})
	}
}

func TestOP13_ATokenWithoutARowIsRefusedOnceARestoreIsDeclared(t *testing.T) {
	for _, tt := range []struct {
		issuedAt, expiresAt, now grant.Instant
		want                     grant.Refusal
	}{
		{putBackAt - 1, putBackAt + day, putBackAt, grant.RestoredLost},
		{putBackAt, putBackAt + day, putBackAt, grant.StoreBehind},
		{putBackAt - 1, putBackAt + day, putBackAt + day, grant.GrantExpired},
		{putBackAt - 1, putBackAt + 40*day, putBackAt + 31*day, grant.StoreBehind},
	} {
		if got := putBack().Unrecorded(tt.issuedAt, tt.expiresAt, tt.now); got != tt.want {
			t.Errorf("issued %d ms after the restore, seen %d ms after: %s, want %s", tt.issuedAt-putBackAt, tt.now-putBackAt, got, tt.want)
		}
	}
}
