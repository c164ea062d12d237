package grant_test

import (
	"math"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

const rotated = t0 + 2*hour

// third returns a grant in its third generation.
func third() grant.Grant {
	g := issued(rotated)
	g.Generation, g.Version, g.Attempt = 3, 3, 33
	return g
}

// presents returns the owner's request with the refresh token of a generation. Tokens of
// earlier generations are older. The row does not have later generations yet.
func presents(g grant.Grant, generation uint32) grant.Refresh {
	issuedAt := g.RotatedAt + (grant.Instant(generation)-grant.Instant(g.Generation))*hour
	return grant.Refresh{
		Realm: g.Realm, ClientID: g.ClientID, Allowed: g.Scope, Generation: generation,
		IssuedAt: issuedAt, ExpiresAt: issuedAt + 31*day, Maker: grant.Maker{Key: g.KeyID}, Attempt: 44, KeyID: 8,
	}
}

// next returns g after a rotation at an instant.
func next(g grant.Grant, at grant.Instant) grant.Grant {
	g.Generation++
	g.Version++
	g.RotatedAt, g.ExpiresAt, g.DeleteAfter = at, at+31*day, at+31*day+hour
	g.KeyID, g.Attempt = 8, 44
	return g
}

func TestRefresh(t *testing.T) {
	g := third()
	with := func(edit func(*grant.Grant)) grant.Grant {
		edited := g
		edit(&edited)
		return edited
	}
	all := g.Scope
	at := rotated + 10*minute
	floored := with(func(g *grant.Grant) { g.AccessFloor = rotated + 90*second })
	ended := revoked(g, grant.ReasonOperator)
	capped := specification()
	capped.GrantLifetime = 3 * time.Hour
	unrotated := specification()
	unrotated.NoRotation = true
	ask := func(s oauth.Scope) func(*grant.Refresh) { return func(r *grant.Refresh) { r.Scope = s } }

	for _, tt := range []struct {
		name       string
		g          grant.Grant
		generation uint32
		edit       func(*grant.Refresh)
		policy     grant.Policy // specification if zero
		now        grant.Instant
		want       grant.Decision
	}{
		{
			name: "present token rotates", g: g, generation: 3, now: at,
			want: grant.Decision{Next: next(g, at), Access: access(all, at, at+5*minute)},
		},
		{
			name: "rotation on a clock that went back issues at the last instant", g: g, generation: 3, now: rotated - minute,
			want: grant.Decision{Next: next(g, rotated), Access: access(all, rotated, rotated+5*minute)},
		},
		{
			name: "rotation under the access floor issues above it", g: floored, generation: 3, now: rotated + minute,
			want: grant.Decision{
				Next:   next(floored, rotated+90*second+1),
				Access: access(all, rotated+90*second+1, rotated+91*second+5*minute),
			},
		},
		{
			name: "last millisecond of the refresh token", g: g, generation: 3, now: g.ExpiresAt - 1,
			want: grant.Decision{Next: next(g, g.ExpiresAt-1), Access: access(all, g.ExpiresAt-1, g.ExpiresAt+5*minute)},
		},
		{
			name: "expired", g: g, generation: 3, now: g.ExpiresAt,
			want: grant.Decision{Next: g, Refusal: grant.GrantExpired},
		},
		{
			name: "predecessor repeats and gets the present pair", g: g, generation: 2, now: rotated + minute,
			want: grant.Decision{Next: g, Access: access(all, rotated, rotated+5*minute), Repeated: true},
		},
		{
			name: "repeat under the access floor mints an access token above it", g: floored, generation: 2, now: rotated + minute,
			want: grant.Decision{
				Next: floored, Repeated: true,
				Access: access(all, rotated+90*second+1, rotated+91*second+5*minute),
			},
		},
		{
			name: "two generations back is a replay, within the window too", g: g, generation: 1, now: rotated + second,
			want: grant.Decision{Next: revoked(g, grant.ReasonRefreshReplayed), Refusal: grant.RefreshReplayed},
		},
		{
			name: "replay is found out although the grant has expired", g: g, generation: 1, now: g.ExpiresAt + day,
			want: grant.Decision{Next: revoked(g, grant.ReasonRefreshReplayed), Refusal: grant.RefreshReplayed},
		},
		{
			name: "replay is found out although the scope is wrong", g: g, generation: 1, edit: ask("mail"), now: at,
			want: grant.Decision{Next: revoked(g, grant.ReasonRefreshReplayed), Refusal: grant.RefreshReplayed},
		},
		{
			name: "predecessor of an expired grant within the window", generation: 2, now: rotated + minute,
			g:    with(func(g *grant.Grant) { g.ExpiresAt = rotated + minute }),
			want: grant.Decision{Next: with(func(g *grant.Grant) { g.ExpiresAt = rotated + minute }), Refusal: grant.GrantExpired},
		},
		{
			name: "another client's token", g: g, generation: 3, now: at,
			edit: func(r *grant.Refresh) { r.ClientID = "other" },
			want: grant.Decision{Next: g, Refusal: grant.OtherClient},
		},
		{
			name: "another client's spent token is no replay", g: g, generation: 1, now: at,
			edit: func(r *grant.Refresh) { r.ClientID = "other" },
			want: grant.Decision{Next: g, Refusal: grant.OtherClient},
		},
		{
			name: "another realm's client", g: g, generation: 1, now: at,
			edit: func(r *grant.Refresh) { r.Realm = "/other" },
			want: grant.Decision{Next: g, Refusal: grant.OtherClient},
		},
		{
			name: "revoked", g: ended, generation: 3, now: at,
			want: grant.Decision{Next: ended, Refusal: grant.GrantRevoked},
		},
		{
			name: "replay of a revoked grant keeps its reason", g: ended, generation: 1, now: at,
			want: grant.Decision{Next: ended, Refusal: grant.GrantRevoked},
		},
		{
			name: "cut off at the instant of authorization", g: g, generation: 3, now: at,
			edit: func(r *grant.Refresh) { r.Cutoff = t0 },
			want: grant.Decision{Next: g, Refusal: grant.CutOff},
		},
		{
			name: "cutoff compares with the authorization, not the rotation", g: g, generation: 3, now: at,
			edit: func(r *grant.Refresh) { r.Cutoff = rotated - 1 },
			want: grant.Decision{Next: g, Refusal: grant.CutOff},
		},
		{
			name: "authorized after the cutoff", g: g, generation: 3, now: at,
			edit: func(r *grant.Refresh) { r.Cutoff = t0 - 1 },
			want: grant.Decision{Next: next(g, at), Access: access(all, at, at+5*minute)},
		},
		{
			name: "token ahead of its row is our loss", g: g, generation: 4, now: at,
			want: grant.Decision{Next: g, Refusal: grant.StoreBehind},
		},
		{
			name: "expired token ahead of its row", g: g, generation: 4, now: at,
			edit: func(r *grant.Refresh) { r.ExpiresAt = at },
			want: grant.Decision{Next: g, Refusal: grant.GrantExpired},
		},
		{
			name: "row's generation with another issue instant is our loss", g: g, generation: 3, now: at,
			edit: func(r *grant.Refresh) { r.IssuedAt-- },
			want: grant.Decision{Next: g, Refusal: grant.StoreBehind},
		},
		{
			name: "narrowed scope narrows the access token and not the grant", g: g, generation: 3, edit: ask("admin read"), now: at,
			want: grant.Decision{Next: next(g, at), Access: access("read admin", at, at+5*minute)},
		},
		{
			name: "wider scope costs nothing", g: g, generation: 3, edit: ask("read mail"), now: at,
			want: grant.Decision{Next: g, Refusal: grant.ScopeTooWide},
		},
		{
			name: "unparsable scope costs nothing", g: g, generation: 3, edit: ask(`"`), now: at,
			want: grant.Decision{Next: g, Refusal: grant.ScopeTooWide},
		},
		{
			name: "client's registration shrank: what is left is granted", g: g, generation: 3, now: at,
			edit: func(r *grant.Refresh) { r.Allowed = "write other" },
			want: grant.Decision{Next: next(g, at), Access: access("write", at, at+5*minute)},
		},
		{
			name: "client's registration shrank below what is asked", g: g, generation: 3, now: at,
			edit: func(r *grant.Refresh) { r.Allowed, r.Scope = "write", "read" },
			want: grant.Decision{Next: g, Refusal: grant.ScopeTooWide},
		},
		{
			name: "client's registration has nothing in common with the grant", g: g, generation: 3, now: at,
			edit: func(r *grant.Refresh) { r.Allowed = "mail" },
			want: grant.Decision{Next: g, Refusal: grant.ScopeTooWide},
		},
		{
			name: "repeat with another scope gets the same refresh token", g: g, generation: 2, edit: ask("write"), now: rotated + 1,
			want: grant.Decision{Next: g, Access: access("write", rotated, rotated+5*minute), Repeated: true},
		},
		{
			name: "repeat with a wider scope is refused and ends nothing", g: g, generation: 2, edit: ask("mail"), now: rotated + 1,
			want: grant.Decision{Next: g, Refusal: grant.ScopeTooWide},
		},
		{
			name: "repeat when the access token has less than a second left", g: g, generation: 2, now: rotated + 5*minute - 999,
			policy: func() grant.Policy { p := specification(); p.RetryWindow = time.Hour; return p }(),
			want:   grant.Decision{Next: g, Refusal: grant.GrantExpired},
		},
		{
			name: "grant lifetime counts from the authorization and caps both tokens", g: g, generation: 3, policy: capped, now: t0 + 3*hour - minute,
			want: func() grant.Decision {
				n := next(g, t0+3*hour-minute)
				n.ExpiresAt, n.DeleteAfter = t0+3*hour, g.DeleteAfter
				return grant.Decision{Next: n, Access: access(all, t0+3*hour-minute, t0+3*hour)}
			}(),
		},
		{
			name: "a second left of the grant lifetime", g: g, generation: 3, policy: capped, now: t0 + 3*hour - second,
			want: func() grant.Decision {
				n := next(g, t0+3*hour-second)
				n.ExpiresAt, n.DeleteAfter = t0+3*hour, g.DeleteAfter
				return grant.Decision{Next: n, Access: access(all, t0+3*hour-second, t0+3*hour)}
			}(),
		},
		{
			name: "less than a second left of the grant lifetime", g: g, generation: 3, policy: capped, now: t0 + 3*hour - second + 1,
			want: grant.Decision{Next: g, Refusal: grant.GrantExpired},
		},
		{
			name: "without rotation the row stays and the access token is fresh", g: g, generation: 3, policy: unrotated, now: at,
			want: grant.Decision{Next: g, Access: access(all, at, at+5*minute)},
		},
		{
			name: "without rotation a clock that went back issues at the last instant", g: g, generation: 3, policy: unrotated, now: rotated - hour,
			want: grant.Decision{Next: g, Access: access(all, rotated, rotated+5*minute)},
		},
		{
			name: "without rotation no access token outlives the refresh token", g: g, generation: 3, policy: unrotated, now: g.ExpiresAt - minute,
			want: grant.Decision{Next: g, Access: access(all, g.ExpiresAt-minute, g.ExpiresAt)},
		},
		{
			name: "without rotation the grant lifetime ends the grant, also if it was lowered since", g: g, generation: 3,
			policy: func() grant.Policy { p := unrotated; p.GrantLifetime = 3 * time.Hour; return p }(), now: t0 + 3*hour,
			want: grant.Decision{Next: g, Refusal: grant.GrantExpired},
		},
		{
			name: "without rotation an older generation is still a replay", g: g, generation: 1, policy: unrotated, now: at,
			want: grant.Decision{Next: revoked(g, grant.ReasonRefreshReplayed), Refusal: grant.RefreshReplayed},
		},
		{
			name: "last generation there can be", generation: math.MaxUint32, now: at,
			g:    with(func(g *grant.Grant) { g.Generation = math.MaxUint32 }),
			want: grant.Decision{Next: with(func(g *grant.Grant) { g.Generation = math.MaxUint32 }), Refusal: grant.GrantExpired},
		},
		{
			name: "rotation into the last generation", generation: math.MaxUint32 - 1, now: at,
			g: with(func(g *grant.Grant) { g.Generation = math.MaxUint32 - 1 }),
			want: grant.Decision{
				Next:   next(with(func(g *grant.Grant) { g.Generation = math.MaxUint32 - 1 }), at),
				Access: access(all, at, at+5*minute),
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, p := presents(tt.g, tt.generation), tt.policy
			if tt.edit != nil {
				tt.edit(&r)
			}
			if p == (grant.Policy{}) {
				p = specification()
			}
			if got := tt.g.Refresh(r, p, tt.now); got != tt.want {
				t.Errorf("decision\n%+v\nwant\n%+v", got, tt.want)
			}
		})
	}
}

// The checks are made in the order of the steps G of
// internal/conformance/section3_grant_test.go: G3, G8, G10, G4, G2, and then the scope.
// Only a replay may change the grant.
func TestRefreshRefusesInOrder(t *testing.T) {
	type request struct {
		g   grant.Grant
		r   grant.Refresh
		now grant.Instant
	}
	faults := []struct {
		why   grant.Refusal
		apply func(*request)
	}{
		{grant.OtherClient, func(q *request) { q.r.ClientID = "other" }},
		{grant.GrantRevoked, func(q *request) { q.g.State = grant.Revoked }},
		{grant.CutOff, func(q *request) { q.r.Cutoff = q.g.AuthorizedAt }},
		{grant.StoreBehind, func(q *request) { q.r.Generation, q.r.ExpiresAt = q.g.Generation+1, q.g.ExpiresAt+1 }},
		{grant.RefreshReplayed, func(q *request) { q.r.Generation = q.g.Generation - 2 }},
		{grant.GrantExpired, func(q *request) { q.now = q.g.ExpiresAt }},
		{grant.ScopeTooWide, func(q *request) { q.r.Scope = "mail" }},
	}
	for i, first := range faults {
		for _, second := range faults[i:] {
			if first.why == grant.StoreBehind && second.why == grant.RefreshReplayed {
				continue // a token is not both ahead of its row and behind it
			}
			q := request{third(), presents(third(), 3), rotated + minute}
			first.apply(&q)
			second.apply(&q)
			want := grant.Decision{Next: q.g, Refusal: first.why}
			if first.why == grant.RefreshReplayed {
				want.Next = revoked(q.g, grant.ReasonRefreshReplayed)
			}
			if got := q.g.Refresh(q.r, specification(), q.now); got != want {
				t.Errorf("%s and %s: decision\n%+v\nwant\n%+v", first.why, second.why, got, want)
			}
		}
	}
}

func TestRetryWindow(t *testing.T) {
	g := third()
	for _, tt := range []struct {
		name         string
		window, skew time.Duration
		age          grant.Instant
		repeats      bool
	}{
		{"at once", 2 * time.Minute, 0, 0, true},
		{"a millisecond before the end", 2 * time.Minute, 0, 2*minute - 1, true},
		{"at the end", 2 * time.Minute, 0, 2 * minute, true},
		{"a millisecond after the end", 2 * time.Minute, 0, 2*minute + 1, false},
		{"at the end on the fastest clock", 2 * time.Minute, 2 * time.Second, 2*minute + 2*second, true},
		{"after the end on the fastest clock", 2 * time.Minute, 2 * time.Second, 2*minute + 2*second + 1, false},
		{"rotated by a clock ahead: a negative age counts as none", 2 * time.Minute, 0, -minute, true},
		{"clock that went back a year", 2 * time.Minute, 0, -365 * day, true},
		{"no window", 0, 0, 0, false},
		{"no window, and skew does not open one", 0, 2 * time.Second, 0, false},
		{"no window, and a negative age does not open one", 0, 0, -second, false},
		{"negative window", -time.Second, 2 * time.Second, 0, false},
		{"window of a millisecond, inside", time.Millisecond, 0, 1, true},
		{"window of a millisecond, outside", time.Millisecond, 0, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := specification()
			p.RetryWindow, p.MaxSkew = tt.window, tt.skew
			want := grant.Decision{Next: revoked(g, grant.ReasonRefreshReplayed), Refusal: grant.RefreshReplayed}
			if tt.repeats {
				want = grant.Decision{Next: g, Access: access(g.Scope, rotated, rotated+5*minute), Repeated: true}
			}
			if got := g.Refresh(presents(g, 2), p, rotated+tt.age); got != want {
				t.Errorf("decision\n%+v\nwant\n%+v", got, want)
			}
		})
	}
}

func TestDeleteAfterIsNeverShortened(t *testing.T) {
	g := third()
	p := specification()
	p.RefreshLifetime = time.Hour // the deployment shortened it after the last rotation
	d := g.Refresh(presents(g, 3), p, rotated+minute)
	if d.Refusal != grant.Allowed || d.Next.ExpiresAt != rotated+minute+hour {
		t.Fatalf("decision %+v", d)
	}
	if d.Next.DeleteAfter != g.DeleteAfter {
		t.Errorf("DeleteAfter moved from %d to %d: older generations would be unrecorded instead of replayed", g.DeleteAfter, d.Next.DeleteAfter)
	}
}
