package grant_test

import (
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// t0 is when the code of these tests is issued: a whole second, so that the
// rounding of an access token's expiry shows only where a test asks for it.
const t0 grant.Instant = 1_800_000_000_000

const (
	ms     grant.Instant = 1
	second               = 1000 * ms
	minute               = 60 * second
	hour                 = 60 * minute
	day                  = 24 * hour
)

const (
	redirectURI = "https://shop.example/cb"
	// This is the example of RFC 7636 appendix B.
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

func specification() grant.Policy {
	return grant.Policy{AccessLifetime: 5 * time.Minute, RefreshLifetime: 31 * 24 * time.Hour, RetryWindow: 2 * time.Minute}
}

func aCode() grant.Code {
	return grant.Code{
		GrantID: grant.ID{1, 2, 3}, Realm: "/api", ClientID: "shop", Subject: "alice", Scope: "read write admin",
		RedirectHash: grant.HashRedirectURI(redirectURI), AuthorizedAt: t0, ExpiresAt: t0 + minute,
		AuthTime: t0 - hour, Facts: grant.Facts{Claims: `{"tenant":"t1"}`},
	}
}

func aRedemption() grant.Redemption {
	return grant.Redemption{
		Realm: "/api", ClientID: "shop", Allowed: "read write admin", RedirectURI: redirectURI, Attempt: 11, KeyID: 7,
	}
}

// issued returns the grant that a redemption of aCode at the instant creates.
func issued(at grant.Instant) grant.Grant {
	return grant.Grant{
		ID: grant.ID{1, 2, 3}, Realm: "/api", ClientID: "shop", Subject: "alice", Scope: "read write admin",
		AuthorizedAt: t0, AuthTime: t0 - hour, Facts: grant.Facts{Claims: `{"tenant":"t1"}`}, Generation: 1, Version: 1, RotatedAt: at, KeyID: 7,
		ExpiresAt: at + 31*day, DeleteAfter: at + 31*day + hour, State: grant.Active, Attempt: 11,
	}
}

func access(scope oauth.Scope, issuedAt, expiresAt grant.Instant) grant.Access {
	return grant.Access{Scope: scope, IssuedAt: issuedAt, ExpiresAt: expiresAt}
}

func revoked(g grant.Grant, why grant.Reason) grant.Grant {
	g.Version++
	g.State, g.Reason = grant.Revoked, why
	return g
}

func TestRedeem(t *testing.T) {
	proof, ok := oauth.ParseChallenge(challenge)
	if !ok {
		t.Fatal("the example challenge of RFC 7636 is not accepted")
	}
	challenged := func(c *grant.Code, _ *grant.Redemption, _ *grant.Policy) { c.Challenge, c.Challenged = proof, true }
	type edit = func(*grant.Code, *grant.Redemption, *grant.Policy)
	refused := func(why grant.Refusal) grant.Decision { return grant.Decision{Refusal: why} }
	at := t0 + 5*second

	for _, tt := range []struct {
		name string
		edit []edit
		now  grant.Instant
		want grant.Decision
	}{
		{
			name: "first presentation makes generation 1 with the whole scope", now: at,
			want: grant.Decision{Next: issued(at), Access: access("read write admin", at, at+5*minute)},
		},
		{
			name: "access token's expiry is rounded up to a second", now: at + 1,
			want: grant.Decision{Next: issued(at + 1), Access: access("read write admin", at+1, at+second+5*minute)},
		},
		{
			name: "code is good until the last millisecond", now: t0 + minute - 1,
			want: grant.Decision{Next: issued(t0 + minute - 1), Access: access("read write admin", t0+minute-1, t0+6*minute)},
		},
		{name: "code is expired at its expiry", now: t0 + minute, want: refused(grant.CodeExpired)},
		{
			name: "clock behind the issuing node's still redeems", now: t0 - 2*second,
			want: grant.Decision{Next: issued(t0 - 2*second), Access: access("read write admin", t0-2*second, t0-2*second+5*minute)},
		},
		{
			name: "another client's code", now: at, want: refused(grant.OtherClient),
			edit: []edit{func(_ *grant.Code, r *grant.Redemption, _ *grant.Policy) { r.ClientID = "other" }},
		},
		{
			name: "another realm's code", now: at, want: refused(grant.OtherClient),
			edit: []edit{func(_ *grant.Code, r *grant.Redemption, _ *grant.Policy) { r.Realm = "/other" }},
		},
		{
			name: "redirect URI that differs in one character", now: at, want: refused(grant.RedirectMismatch),
			edit: []edit{func(_ *grant.Code, r *grant.Redemption, _ *grant.Policy) { r.RedirectURI += "/" }},
		},
		{
			name: "challenge answered", now: at,
			edit: []edit{challenged, func(_ *grant.Code, r *grant.Redemption, _ *grant.Policy) { r.Verifier = verifier }},
			want: grant.Decision{Next: issued(at), Access: access("read write admin", at, at+5*minute)},
		},
		{name: "challenge without verifier", now: at, edit: []edit{challenged}, want: refused(grant.ProofMismatch)},
		{
			name: "challenge with the wrong verifier", now: at, want: refused(grant.ProofMismatch),
			edit: []edit{challenged, func(_ *grant.Code, r *grant.Redemption, _ *grant.Policy) {
				r.Verifier = verifier[:42] + "l"
			}},
		},
		{
			name: "challenge itself as verifier (method plain)", now: at, want: refused(grant.ProofMismatch),
			edit: []edit{challenged, func(_ *grant.Code, r *grant.Redemption, _ *grant.Policy) { r.Verifier = challenge }},
		},
		{
			name: "verifier without a challenge (RFC 9700 section 4.8.2)", now: at, want: refused(grant.ProofMismatch),
			edit: []edit{func(_ *grant.Code, r *grant.Redemption, _ *grant.Policy) { r.Verifier = verifier }},
		},
		{
			name: "authorized at the cutoff", now: at, want: refused(grant.CutOff),
			edit: []edit{func(_ *grant.Code, r *grant.Redemption, _ *grant.Policy) { r.Cutoff = t0 }},
		},
		{
			name: "authorized a millisecond after the cutoff", now: at,
			edit: []edit{func(_ *grant.Code, r *grant.Redemption, _ *grant.Policy) { r.Cutoff = t0 - 1 }},
			want: grant.Decision{Next: issued(at), Access: access("read write admin", at, at+5*minute)},
		},
		{
			name: "cutoff from a node whose clock is behind", now: at, want: refused(grant.CutOff),
			edit: []edit{func(_ *grant.Code, r *grant.Redemption, p *grant.Policy) {
				r.Cutoff, p.MaxSkew = t0-2*second, 2*time.Second
			}},
		},
		{
			name: "cutoff further back than clocks may differ", now: at,
			edit: []edit{func(_ *grant.Code, r *grant.Redemption, p *grant.Policy) {
				r.Cutoff, p.MaxSkew = t0-2*second-1, 2*time.Second
			}},
			want: func() grant.Decision {
				g := issued(at)
				g.DeleteAfter += 4 * second
				return grant.Decision{Next: g, Access: access("read write admin", at, at+5*minute)}
			}(),
		},
		{
			name: "client's registration lost a scope meanwhile", now: at,
			edit: []edit{func(_ *grant.Code, r *grant.Redemption, _ *grant.Policy) { r.Allowed = "admin read" }},
			want: grant.Decision{Next: issued(at), Access: access("read admin", at, at+5*minute)},
		},
		{
			name: "client's registration lost every scope meanwhile", now: at, want: refused(grant.ScopeTooWide),
			edit: []edit{func(_ *grant.Code, r *grant.Redemption, _ *grant.Policy) { r.Allowed = "mail" }},
		},
		{
			name: "grant lifetime caps both tokens", now: at,
			edit: []edit{func(_ *grant.Code, _ *grant.Redemption, p *grant.Policy) { p.GrantLifetime = 2 * time.Minute }},
			want: func() grant.Decision {
				g := issued(at)
				g.ExpiresAt, g.DeleteAfter = t0+2*minute, t0+2*minute+hour
				return grant.Decision{Next: g, Access: access("read write admin", at, t0+2*minute)}
			}(),
		},
		{
			name: "grant lifetime that leaves less than a second", now: at, want: refused(grant.GrantExpired),
			edit: []edit{func(_ *grant.Code, _ *grant.Redemption, p *grant.Policy) {
				p.GrantLifetime = 5*time.Second + 999*time.Millisecond
			}},
		},
		{
			name: "row outlasts a code that outlives its tokens", now: t0,
			edit: []edit{func(c *grant.Code, _ *grant.Redemption, p *grant.Policy) {
				c.ExpiresAt, p.GrantLifetime = t0+10*minute, 2*time.Minute
			}},
			want: func() grant.Decision {
				g := issued(t0)
				g.ExpiresAt, g.DeleteAfter = t0+2*minute, t0+10*minute+hour
				return grant.Decision{Next: g, Access: access("read write admin", t0, t0+2*minute)}
			}(),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, r, p := aCode(), aRedemption(), specification()
			for _, edit := range tt.edit {
				edit(&c, &r, &p)
			}
			if got := c.Redeem(r, p, tt.now); got != tt.want {
				t.Errorf("decision\n%+v\nwant\n%+v", got, tt.want)
			}
		})
	}
}

// A refusal must not tell another client whether a code is valid, so the client, the
// redirect URI and the proof are checked before the expiry.
func TestRedeemRefusesInOrder(t *testing.T) {
	type request struct {
		c   grant.Code
		r   grant.Redemption
		now grant.Instant
	}
	faults := []struct {
		why   grant.Refusal
		apply func(*request)
	}{
		{grant.OtherClient, func(q *request) { q.r.ClientID = "other" }},
		{grant.RedirectMismatch, func(q *request) { q.r.RedirectURI = "https://evil.example/cb" }},
		{grant.ProofMismatch, func(q *request) { q.c.Challenged, q.c.Challenge = true, sha256.Sum256([]byte("x")) }},
		{grant.CodeExpired, func(q *request) { q.now = q.c.ExpiresAt }},
		{grant.CutOff, func(q *request) { q.r.Cutoff = q.c.AuthorizedAt }},
		{grant.ScopeTooWide, func(q *request) { q.r.Allowed = "mail" }},
	}
	for i, first := range faults {
		for _, second := range faults[i:] {
			q := request{aCode(), aRedemption(), t0 + 1}
			first.apply(&q)
			second.apply(&q)
			if got, want := q.c.Redeem(q.r, specification(), q.now), (grant.Decision{Refusal: first.why}); got != want {
				t.Errorf("%s and %s: decision %+v, want %s and nothing else", first.why, second.why, got, first.why)
			}
		}
	}
}

func TestForeignRefusalsAreThoseOfAnotherPartysRequest(t *testing.T) {
	foreign := map[grant.Refusal]bool{grant.OtherClient: true, grant.RedirectMismatch: true, grant.ProofMismatch: true}
	for r := range grant.ClientDisabled + 1 {
		if r.Foreign() != foreign[r] {
			t.Errorf("%s.Foreign() = %t", r, r.Foreign())
		}
	}
}

func TestReplayOfACode(t *testing.T) {
	g := issued(t0)
	g.Generation, g.Version = 4, 9
	ended := revoked(g, grant.ReasonOperator)
	for _, tt := range []struct {
		name string
		g    grant.Grant
		edit func(*grant.Redemption)
		want grant.Decision
	}{
		{
			name: "owner's replay ends the grant, however far it was rotated", g: g, edit: func(*grant.Redemption) {},
			want: grant.Decision{Next: revoked(g, grant.ReasonCodeReplayed), Refusal: grant.CodeReplayed},
		},
		{
			name: "replay of an ended grant changes nothing, its reason neither", g: ended, edit: func(*grant.Redemption) {},
			want: grant.Decision{Next: ended, Refusal: grant.CodeReplayed},
		},
		{
			name: "another client ends nothing", g: g, edit: func(r *grant.Redemption) { r.ClientID = "other" },
			want: grant.Decision{Next: g, Refusal: grant.OtherClient},
		},
		{
			name: "another realm's client ends nothing", g: g, edit: func(r *grant.Redemption) { r.Realm = "/other" },
			want: grant.Decision{Next: g, Refusal: grant.OtherClient},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := aRedemption()
			tt.edit(&r)
			if got := tt.g.Replay(r); got != tt.want {
				t.Errorf("decision\n%+v\nwant\n%+v", got, tt.want)
			}
		})
	}
}

func TestRevoke(t *testing.T) {
	g := issued(t0)
	ended := revoked(g, grant.ReasonRefreshReplayed)
	if got, want := g.Revoke(grant.ReasonOperator), (grant.Decision{Next: revoked(g, grant.ReasonOperator)}); got != want {
		t.Errorf("active grant: decision\n%+v\nwant\n%+v", got, want)
	}
	if got, want := ended.Revoke(grant.ReasonOperator), (grant.Decision{Next: ended}); got != want {
		t.Errorf("ended grant: decision\n%+v\nwant no change", got)
	}
	if got := g.Revoke(grant.ReasonOperator).Next.DeleteAfter; got != g.DeleteAfter {
		t.Errorf("revoking changed DeleteAfter by %s: a replay of its code would find no row", got.Since(g.DeleteAfter))
	}
}

func TestChallengeIsTheHashOfItsVerifier(t *testing.T) {
	sum := sha256.Sum256([]byte(verifier))
	if got := base64.RawURLEncoding.EncodeToString(sum[:]); got != challenge {
		t.Errorf("S256 of RFC 7636's verifier is %s", got)
	}
}
