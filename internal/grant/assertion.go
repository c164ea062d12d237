package grant

import (
	"time"

	"github.com/mintage/mintage/internal/oauth"
)

// An Assertion holds the verified claims of an assertion about a user (RFC 7523 section
// 2.1).
type Assertion struct {
	// GrantID is derived from issuer and jti: each assertion makes one grant.
	GrantID  ID
	Realm    string
	ClientID string
	Subject  string
	// Scope is the scope that the grant gets. It is not empty.
	Scope     oauth.Scope
	IssuedAt  Instant
	ExpiresAt Instant
	AuthTime  Instant
	// Digest distinguishes assertions with the same jti. It is the write nonce of the row.
	Digest uint64
	Facts
}

// Redeem decides the first presentation of a. If it allows the request, Next is a new
// grant without a refresh token. The row of the grant, also of a revoked one, outlives the
// assertion: otherwise the same assertion could create the grant again.
func (a Assertion) Redeem(asked oauth.Scope, r Redemption, p Policy, longest time.Duration, now Instant) Decision {
	at := max(now, r.Restore.At)
	g := Grant{
		ID: a.GrantID, Realm: a.Realm, ClientID: a.ClientID, Subject: a.Subject, Scope: a.Scope,
		AuthorizedAt: min(a.IssuedAt, now), AuthTime: a.AuthTime, Facts: a.Facts,
		Generation: 1, Version: 1, State: Active, RotatedAt: at, KeyID: r.KeyID, Attempt: a.Digest,
	}
	p.AccessLifetime = longest
	g.ExpiresAt = p.accessExpiry(max(a.ExpiresAt, at))
	g.DeleteAfter = p.deleteAfter(g.ExpiresAt)
	return g.asserted(a, asked, r, p, at, now)
}

// Asserted decides a repeated presentation of an assertion: the client gets another access
// token of the same grant, until the assertion or the grant has ended. The ID-JAG draft
// allows a client to send an assertion again.
func (g Grant) Asserted(a Assertion, asked oauth.Scope, r Redemption, p Policy, now Instant) Decision {
	switch {
	case g.ClientID != a.ClientID || g.Realm != a.Realm:
		return g.refuse(OtherClient)
	case g.Attempt != a.Digest || g.Trust != a.Trust:
		return g.refuse(AssertionReplayed)
	}
	return g.asserted(a, asked, r, p, max(now, g.RotatedAt, g.AccessFloor+1), now)
}

func (g Grant) asserted(a Assertion, asked oauth.Scope, r Redemption, p Policy, at, now Instant) Decision {
	switch {
	case g.State == Revoked:
		return g.refuse(GrantRevoked)
	case p.cutOff(g.AuthorizedAt, r.Cutoff):
		return g.refuse(CutOff)
	case r.Restore.explains(g.AuthorizedAt, now):
		// The restore may have lost a presentation of a, and the end of its grant.
		return g.refuse(CodeBeforeRestore)
	case now >= a.ExpiresAt:
		return g.refuse(CodeExpired)
	}
	return g.answer(at, asked, r.Allowed, r.Target, p, now, false)
}
