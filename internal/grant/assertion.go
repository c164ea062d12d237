package grant

import (
	"time"

	"github.com/mintage/mintage/internal/oauth"
)

// An Assertion holds what an assertion about a user (RFC 7523 section 2.1) says, whose
// signature and claims were verified.
type Assertion struct {
	// GrantID follows from its issuer and its jti: each assertion makes one grant.
	GrantID  ID
	Realm    string
	ClientID string
	Subject  string
	// Scope is what there may be of it: it is not empty.
	Scope     oauth.Scope
	IssuedAt  Instant
	ExpiresAt Instant
	AuthTime  Instant
	// Digest tells assertions of one jti apart. It is the write nonce of the row.
	Digest uint64
	Facts
}

// Redeem decides the first presentation of a. If it allows the request, Next is a new
// grant without a refresh token. Its row, and the mark that it was revoked, outlive the
// assertion: otherwise the same assertion would bring the grant back.
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

// Asserted decides a presentation of an assertion that was presented before: it gets
// another access token of the same grant, as long as neither has ended. The draft allows
// a client to send an assertion again.
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
		// It may have been presented, and the restore may have lost that its grant ended.
		return g.refuse(CodeBeforeRestore)
	case now >= a.ExpiresAt:
		return g.refuse(CodeExpired)
	}
	return g.answer(at, asked, r.Allowed, r.Target, p, now, false)
}
