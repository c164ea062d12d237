package grant_test

import (
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

var (
	aKey     = oauth.JKT{0: 0xaa, 1: 0x01, 31: 1}
	otherKey = oauth.JKT{0: 0xbb, 1: 0x02, 31: 2}
)

// The client and the keys of a code and a proof decide whether the code is redeemed, and
// to which key the grant is bound (RFC 9449 sections 5 and 10).
func TestRedeemWithAKey(t *testing.T) {
	none := oauth.JKT{}
	for name, c := range map[string]struct {
		code, proof oauth.JKT
		public      bool
		why         grant.Refusal
		row         oauth.JKT
	}{
		"no key":                               {none, none, true, grant.Allowed, none},
		"public, with a proof":                 {none, aKey, true, grant.Allowed, aKey},
		"confidential, with a proof":           {none, aKey, false, grant.Allowed, none},
		"bound code, its key, public":          {aKey, aKey, true, grant.Allowed, aKey},
		"bound code, its key, confidential":    {aKey, aKey, false, grant.Allowed, none},
		"bound code, another key":              {aKey, otherKey, true, grant.KeyMismatch, none},
		"bound code, another key, own client":  {aKey, otherKey, false, grant.KeyMismatch, none},
		"bound code, no proof":                 {aKey, none, true, grant.KeyMismatch, none},
		"bound code, no proof, own client too": {aKey, none, false, grant.KeyMismatch, none},
	} {
		code, r := aCode(), aRedemption()
		code.JKT, r.JKT, r.Public = c.code, c.proof, c.public
		d := code.Redeem(r, specification(), t0+second)
		if d.Refusal != c.why || d.Next.JKT != c.row {
			t.Errorf("%s: %s, bound to %q", name, d.Refusal, d.Next.JKT)
		}
		if d.Refusal != grant.Allowed && !d.Refusal.Foreign() {
			t.Errorf("%s: a request without the code's key would end the grant", name)
		}
	}
}

// A refresh token of a bound grant has no effect without a proof of the key: not even a
// replay ends the grant.
func TestRefreshOfABoundGrant(t *testing.T) {
	g := third()
	g.JKT = aKey
	for name, key := range map[string]oauth.JKT{"another key": otherKey, "no proof": {}} {
		for _, generation := range []uint32{1, 2, 3, 4} {
			r := presents(g, generation)
			r.JKT = key
			if d := g.Refresh(r, specification(), g.RotatedAt+hour); d.Refusal != grant.KeyMismatch || d.Next != g {
				t.Errorf("%s, generation %d: %s, changed: %t", name, generation, d.Refusal, d.Next != g)
			}
		}
	}
	r := presents(g, 3)
	r.JKT = aKey
	d := g.Refresh(r, specification(), g.RotatedAt+hour)
	if d.Refusal != grant.Allowed || d.Next.Generation != 4 || d.Next.JKT != aKey {
		t.Errorf("its key: %s, generation %d, key %q", d.Refusal, d.Next.Generation, d.Next.JKT)
	}
	r = presents(g, 1)
	r.JKT = aKey
	if d := g.Refresh(r, specification(), g.RotatedAt+hour); d.Refusal != grant.RefreshReplayed || d.Next.State != grant.Revoked {
		t.Errorf("a replay with its key: %s", d.Refusal)
	}
}

// A confidential client may change its key at each refresh, but a repeated answer keeps
// the key to which it was bound.
func TestRepeatedRefreshOfAConfidentialClientKeepsItsKey(t *testing.T) {
	g := third()
	r := presents(g, 3)
	r.JKT, r.Attempt = aKey, grant.NewAttempt(0xffff_ffff_ffff_ffff, 7, aKey)
	rotated := g.Refresh(r, specification(), g.RotatedAt+hour).Next
	for name, c := range map[string]struct {
		key oauth.JKT
		why grant.Refusal
	}{"the same key": {aKey, grant.Allowed}, "another key": {otherKey, grant.KeyMismatch}} {
		again := presents(g, 3)
		again.JKT = c.key
		d := rotated.Refresh(again, specification(), rotated.RotatedAt+second)
		if d.Refusal != c.why || d.Next != rotated || d.Repeated != (c.why == grant.Allowed) {
			t.Errorf("%s: %s, repeated %t", name, d.Refusal, d.Repeated)
		}
	}
	next := presents(rotated, 4)
	next.JKT = otherKey
	if d := rotated.Refresh(next, specification(), rotated.RotatedAt+hour); d.Refusal != grant.Allowed {
		t.Errorf("a new key at the next refresh: %s", d.Refusal)
	}
}
