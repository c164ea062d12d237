package grant_test

import (
	"pgregory.net/rapid"

	"github.com/mintage/mintage/internal/grant"
)

// An accessToken has the contents of an access token.
type accessToken struct {
	ID         grant.ID
	Generation uint32
	IssuedAt   grant.Instant
	ExpiresAt  grant.Instant
	// revoked means that its client revoked it, or a later one of its grant.
	revoked bool
	// kept means that the refresh token did not rotate: the row does not contain the
	// instant at which this token was issued.
	kept bool
}

// revokeRefresh revokes a refresh token, by its client or by another one.
func (h *history) revokeRefresh(t *rapid.T) {
	if len(h.handed) == 0 || rapid.IntRange(0, 19).Draw(t, "luck") != 0 {
		return
	}
	tok := rapid.SampledFrom(h.handed).Draw(t, "token")
	before := h.rows[tok.ID]
	p := grant.Presented{
		Realm: "/api", ClientID: rapid.SampledFrom(append(clients, before.ClientID)).Draw(t, "client"),
		Generation: tok.Generation, IssuedAt: tok.IssuedAt, ExpiresAt: tok.ExpiresAt,
	}
	d := before.RevokeRefresh(p)
	if d.Refusal == grant.Allowed {
		h.seen["refresh token revoked"]++
		if d.Next.State != grant.Revoked {
			t.Fatal("alive after its client revoked it")
		}
	}
	h.commit(t, before, d, p.ClientID)
}

// revokeAccess revokes an access token, by its client or by another one.
func (h *history) revokeAccess(t *rapid.T) {
	if len(h.given) == 0 || rapid.IntRange(0, 4).Draw(t, "luck") != 0 {
		return
	}
	tok := rapid.SampledFrom(h.given[max(0, len(h.given)-6):]).Draw(t, "token")
	before := h.rows[tok.ID]
	p := h.presented(tok)
	p.ClientID = rapid.SampledFrom(append(clients, before.ClientID, before.ClientID)).Draw(t, "client")
	d := before.RevokeAccess(p, h.policy, h.now)
	if d.Refusal == grant.Allowed && d.Next != before {
		h.seen["access token revoked"]++
		if d.Next.State != before.State || d.Next.Generation != before.Generation || d.Next.ExpiresAt != before.ExpiresAt {
			t.Fatalf("revoking an access token changed the refresh token:\n%+v\nto\n%+v", before, d.Next)
		}
		for i, other := range h.given {
			if other.ID == tok.ID && (!other.kept || other.IssuedAt <= max(h.now, before.RotatedAt, tok.IssuedAt)) {
				h.given[i].revoked = true
			}
		}
	}
	h.commit(t, before, d, p.ClientID)
}

func (h *history) presented(tok accessToken) grant.Presented {
	return grant.Presented{
		Realm: "/api", Generation: tok.Generation, IssuedAt: tok.IssuedAt, ExpiresAt: tok.ExpiresAt,
		Cutoff: h.cutoffs[h.rows[tok.ID].Subject],
	}
}

// checkAccess inspects every access token, and compares the result with what was done to
// it.
func (h *history) checkAccess(t *rapid.T) {
	for _, tok := range h.given {
		g := h.rows[tok.ID]
		cutoff, cut := h.cutoffs[g.Subject]
		dead := tok.revoked || g.State == grant.Revoked || cut && g.AuthorizedAt <= cutoff.Add(h.policy.MaxSkew) ||
			h.now >= tok.ExpiresAt.Add(h.policy.MaxSkew)
		why := g.Inspect(h.presented(tok), h.policy, h.now)
		if why == grant.StoreBehind || dead == (why == grant.Allowed) {
			t.Fatalf("an access token that must be dead (%t) is %s:\n%+v\n%+v", dead, why, tok, g)
		}
		h.seen["inspected: "+why.String()]++
	}
}
