package grant_test

import (
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// graced returns the policy of a client whose processes share a token file.
func graced() grant.Policy {
	p := specification()
	p.RetryWindow, p.ReuseGrace = time.Minute, 24*time.Hour
	return p
}

// An earlier token gets what the present one would get, and never more.
func TestReuseGraceAcceptsAnEarlierTokenLikeThePresentOne(t *testing.T) {
	g := third()
	g.Generation = 9
	issuedAt := func(at grant.Instant) func(*grant.Refresh) {
		return func(r *grant.Refresh) { r.IssuedAt, r.ExpiresAt = at, at+31*day }
	}
	same := func(g grant.Grant) grant.Decision {
		return grant.Decision{Next: g, Access: access(g.Scope, rotated, rotated+5*minute), Repeated: true, Shared: true}
	}
	rotation := func(g grant.Grant, at grant.Instant) grant.Decision {
		return grant.Decision{Next: next(g, at), Access: access(g.Scope, at, (at+999)/1000*1000+5*minute), Shared: true}
	}
	replay := grant.Decision{Next: revoked(g, grant.ReasonRefreshReplayed), Refusal: grant.RefreshReplayed}
	refused := func(why grant.Refusal) grant.Decision { return grant.Decision{Next: g, Refusal: why} }
	lostResponse := same(g)
	lostResponse.Shared = false
	floored := g
	floored.AccessFloor = rotated + 100*second
	ended := revoked(g, grant.ReasonOperator)
	soon := g
	soon.ExpiresAt = rotated + 10*minute

	for _, tt := range []struct {
		name       string
		g          grant.Grant
		generation uint32
		edit       func(*grant.Refresh)
		policy     func(*grant.Policy)
		now        grant.Instant
		want       grant.Decision
	}{
		{"the generation before, within the retry window, has lost its response", g, 8, nil, nil, rotated + minute, lostResponse},
		{"the generation before, after the window", g, 8, nil, nil, rotated + minute + 1, same(g)},
		{"two generations ago, within the window", g, 7, nil, nil, rotated + second, same(g)},
		{"the first generation", g, 1, nil, nil, rotated + 2*minute, same(g)},
		{"the access token has a minute left", g, 5, nil, nil, rotated + 4*minute, same(g)},
		{"it has less", g, 5, nil, nil, rotated + 4*minute + 1, rotation(g, rotated+4*minute+1)},
		{"it has expired", g, 5, nil, nil, rotated + 10*hour, rotation(g, rotated+10*hour)},
		{"a window longer than that", g, 5, nil, func(p *grant.Policy) { p.RetryWindow = 6 * time.Minute }, rotated + 5*minute - second, same(g)},
		{"no retry window", g, 8, nil, func(p *grant.Policy) { p.RetryWindow = 0 }, rotated + second, same(g)},
		{"under an access floor, a new access token beside the same refresh token", floored, 5, nil, nil, rotated + 2*minute,
			grant.Decision{Next: floored, Access: access(g.Scope, rotated+100*second+1, rotated+101*second+5*minute), Repeated: true, Shared: true}},
		{"narrower scope", g, 5, func(r *grant.Refresh) { r.Scope = "read" }, nil, rotated + 2*minute,
			grant.Decision{Next: g, Access: access("read", rotated, rotated+5*minute), Repeated: true, Shared: true}},
		{"by another key than the one that the last rotation has spent", g, 8, func(r *grant.Refresh) { r.SpentByOther = true }, nil, rotated + second, same(g)},
		{"by a key that has retired since", g, 5, func(r *grant.Refresh) { r.Maker = grant.Maker{Key: 3, Until: r.IssuedAt} }, nil, rotated + 2*minute, same(g)},

		{"the last millisecond of the grace", g, 1, issuedAt(t0), nil, t0 + day - 1, rotation(g, t0+day-1)},
		{"a token as old as the grace ends the grant", g, 1, issuedAt(t0), nil, t0 + day, replay},
		{"one generation ago, and older than the grace", g, 8, issuedAt(t0), nil, t0 + day, replay},
		{"clocks apart: not yet", g, 1, issuedAt(t0), func(p *grant.Policy) { p.MaxSkew = 2 * time.Second }, t0 + day + 2*second - 1, func() grant.Decision {
			d := rotation(g, t0+day+2*second-1)
			d.Next.DeleteAfter += 4 * second
			return d
		}()},
		{"clocks apart: now", g, 1, issuedAt(t0), func(p *grant.Policy) { p.MaxSkew = 2 * time.Second }, t0 + day + 2*second, replay},
		{"a grace of an hour", g, 1, issuedAt(rotated - hour), func(p *grant.Policy) { p.ReuseGrace = time.Hour }, rotated, replay},
		{"no grace", g, 7, nil, func(p *grant.Policy) { p.ReuseGrace = 0 }, rotated + second, replay},
		{"a token dated after the present one is not an earlier one", g, 5, issuedAt(rotated + 1), nil, rotated + minute, replay},

		{"another client's", g, 5, func(r *grant.Refresh) { r.ClientID = "other" }, nil, rotated + minute, refused(grant.OtherClient)},
		{"of a revoked grant", ended, 5, nil, nil, rotated + minute, grant.Decision{Next: ended, Refusal: grant.GrantRevoked}},
		{"cut off", g, 5, func(r *grant.Refresh) { r.Cutoff = t0 }, nil, rotated + minute, refused(grant.CutOff)},
		{"by a withdrawn key", g, 5, func(r *grant.Refresh) { r.Maker.Withdrawn = true }, nil, rotated + minute, refused(grant.KeyWithdrawn)},
		{"dated after its key's period of use", g, 5, func(r *grant.Refresh) { r.Maker = grant.Maker{Key: 3, Until: r.IssuedAt - 1} }, nil, rotated + minute, refused(grant.KeyRetired)},
		{"of an expired grant", soon, 5, nil, nil, rotated + 10*minute, grant.Decision{Next: soon, Refusal: grant.GrantExpired}},
		{"ahead of its row", g, 10, nil, nil, rotated + minute, refused(grant.StoreBehind)},
		{"a wider scope ends nothing", g, 5, func(r *grant.Refresh) { r.Scope = "mail" }, nil, rotated + minute, refused(grant.ScopeTooWide)},
		{"the present one rotates", g, 9, nil, nil, rotated + second, func() grant.Decision {
			d := rotation(g, rotated+second)
			d.Shared = false
			return d
		}()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, p := presents(tt.g, tt.generation), graced()
			r.IssuedAt = tt.g.RotatedAt - (grant.Instant(tt.g.Generation)-grant.Instant(tt.generation))*minute
			if tt.generation > tt.g.Generation {
				r.IssuedAt = tt.g.RotatedAt + hour
			}
			if tt.edit != nil {
				tt.edit(&r)
			}
			if tt.policy != nil {
				tt.policy(&p)
			}
			if got := tt.g.Refresh(r, p, tt.now); got != tt.want {
				t.Errorf("decision\n%+v\nwant\n%+v", got, tt.want)
			}
		})
	}
}

// After a restore, each holder may have a token that the row has lost. The first one
// continues the grant. The others count as earlier tokens, whatever their generation.
func TestReuseGraceHoldsAcrossARestore(t *testing.T) {
	lost := func(g grant.Grant, generation uint32, at grant.Instant) grant.Refresh {
		r := presents(g, generation)
		r.Restore, r.IssuedAt, r.ExpiresAt = putBack(), at, at+31*day
		return r
	}
	for _, first := range []uint32{3, 4, 9} {
		g, at := third(), grant.Instant(putBackAt+hour)
		held := map[uint32]grant.Instant{3: rotated, 4: putBackAt - 9*hour, 9: putBackAt - hour}
		d := g.Refresh(lost(g, first, held[first]), graced(), at)
		if d.Refusal != grant.Allowed || d.Shared || d.Next.Generation != first+1 {
			t.Fatalf("generation %d: %+v", first, d)
		}
		for generation, issued := range held {
			again := d.Next.Refresh(lost(d.Next, generation, issued), graced(), at+2*minute)
			if again.Refusal != grant.Allowed || !again.Repeated || !again.Shared || again.Next != d.Next {
				t.Errorf("generation %d after %d: %+v", generation, first, again)
			}
			late := d.Next.Refresh(lost(d.Next, generation, issued), graced(), issued+day)
			if late.Refusal != grant.RefreshReplayed || late.Next.State != grant.Revoked {
				t.Errorf("generation %d after %d, older than the grace: %+v", generation, first, late)
			}
		}
	}
}
