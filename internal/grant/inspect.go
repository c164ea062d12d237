package grant

import "time"

// A Presented holds the fields of an authentic refresh or access token and, for a
// revocation, the client that presents it.
type Presented struct {
	Realm      string
	ClientID   string // the authenticated client that asks to revoke
	Generation uint32
	IssuedAt   Instant
	ExpiresAt  Instant
	Maker      Maker
	Cutoff     Instant // of the grant's subject and client; zero if none
	Restore    Restore // the latest; zero if none
}

// Expired reports whether an access token has expired by its own fields. It is
// accepted for MaxSkew longer, because the clock of this node may be ahead of the
// issuing node's.
func (t Presented) Expired(p Policy, now Instant) bool {
	return now >= t.Maker.expiry(t.ExpiresAt, p.AccessLifetime, p).Add(p.MaxSkew)
}

// Unrecorded returns the refusal of an access token without a row.
func (t Presented) Unrecorded(p Policy, now Instant) Refusal {
	if why := t.disowned(t.Restore.At, p, now); why != Allowed {
		return why
	}
	return t.Restore.Unrecorded(t.IssuedAt, t.Maker.expiry(t.ExpiresAt, p.AccessLifetime, p), now)
}

// disowned returns why no node can have made t, or Allowed.
func (t Presented) disowned(forced Instant, p Policy, now Instant) Refusal {
	if t.Generation == 0 || t.ExpiresAt > t.IssuedAt.Add(MaxAccessLifetime+time.Second) {
		return TokenUnknown
	}
	return t.Maker.rejects(t.IssuedAt, forced, p, now)
}

// InspectService returns why an access token without a grant is not active, or
// Allowed. Cutoffs are compared with authorizedAt. A token from before a declared
// restore is inactive: the restore may have lost the token's revocation.
func (t Presented) InspectService(authorizedAt Instant, p Policy, now Instant) Refusal {
	switch {
	case t.ExpiresAt > t.IssuedAt.Add(MaxAccessLifetime+time.Second):
		return TokenUnknown
	case t.Expired(p, now):
		return GrantExpired
	case p.cutOff(authorizedAt, t.Cutoff):
		return CutOff
	case t.Restore.explains(authorizedAt, now):
		return RestoredLost
	}
	return t.Maker.rejects(t.IssuedAt, t.Restore.At, p, now)
}

// Inspect returns why an access token of g is not active, or Allowed. It changes
// nothing: no access token causes a write.
func (g Grant) Inspect(t Presented, p Policy, now Instant) Refusal {
	switch {
	case g.Realm != t.Realm:
		return OtherClient
	case t.Expired(p, now):
		return GrantExpired
	case g.State == Revoked:
		return GrantRevoked
	case p.cutOff(g.AuthorizedAt, t.Cutoff):
		return CutOff
	case t.IssuedAt <= g.AccessFloor:
		return AccessRevoked
	}
	if why := t.disowned(g.RotatedAt, p, now); why != Allowed {
		return why
	}
	if g.AccessAhead(t.Generation, t.IssuedAt) && !t.Restore.explains(t.IssuedAt, now) {
		// The token is authentic, so the store has lost the rotation.
		return StoreBehind
	}
	return Allowed
}

// RevokeRefresh decides the revocation of a refresh token by its client: the
// whole grant ends (RFC 7009 section 2.1), also if the token is spent or
// expired.
func (g Grant) RevokeRefresh(t Presented) Decision {
	if g.ClientID != t.ClientID || g.Realm != t.Realm {
		return g.refuse(OtherClient)
	}
	return g.Revoke(ReasonClient)
}

// RevokeAccess decides the revocation of an access token by its client: it ends
// this token and every earlier one of the grant, because only their instants of
// issue differ. The refresh token stays valid. A token that is inactive already
// changes nothing.
func (g Grant) RevokeAccess(t Presented, p Policy, now Instant) Decision {
	if g.ClientID != t.ClientID || g.Realm != t.Realm {
		return g.refuse(OtherClient)
	}
	if g.State == Revoked || t.IssuedAt <= g.AccessFloor || t.Expired(p, now) || t.disowned(g.RotatedAt, p, now) != Allowed {
		return Decision{Next: g}
	}
	next := g
	next.Version++
	// A pair can be dated after now, if its node's clock was ahead or this one was set back.
	// The floor never decreases: t was issued after the present floor.
	next.AccessFloor = max(now, t.IssuedAt, g.RotatedAt)
	return Decision{Next: next}
}
