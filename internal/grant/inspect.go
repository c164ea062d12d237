package grant

import "time"

// A Presented token is what a genuine refresh or access token says, and who
// presents it where that matters.
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

// Expired reports whether an access token is dead by its own claims. It outlives
// its expiry by MaxSkew, because the node that issued it may have had a clock
// that was ahead.
func (t Presented) Expired(p Policy, now Instant) bool {
	return now >= t.Maker.expiry(t.ExpiresAt, p.AccessLifetime, p).Add(p.MaxSkew)
}

// Unrecorded is the refusal of an access token that has no row.
func (t Presented) Unrecorded(p Policy, now Instant) Refusal {
	if why := t.disowned(t.Restore.At, p, now); why != Allowed {
		return why
	}
	return t.Restore.Unrecorded(t.IssuedAt, t.Maker.expiry(t.ExpiresAt, p.AccessLifetime, p), now)
}

// disowned tells why nobody here can have made t, or Allowed.
func (t Presented) disowned(forced Instant, p Policy, now Instant) Refusal {
	if t.Generation == 0 || t.ExpiresAt > t.IssuedAt.Add(MaxAccessLifetime+time.Second) {
		return TokenUnknown
	}
	return t.Maker.disowns(t.IssuedAt, forced, p, now)
}

// Inspect tells why an access token of g is not alive, or Allowed. It changes
// nothing: no access token ever causes a write.
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
		// We signed this token, and our row has not heard of it.
		return StoreBehind
	}
	return Allowed
}

// RevokeRefresh decides what the client's wish to revoke a refresh token does:
// the whole grant ends (RFC 7009 section 2.1), whichever of its generations the
// client still holds, spent and expired ones too.
func (g Grant) RevokeRefresh(t Presented) Decision {
	if g.ClientID != t.ClientID || g.Realm != t.Realm {
		return g.refuse(OtherClient)
	}
	return g.Revoke(ReasonClient)
}

// RevokeAccess decides what the client's wish to revoke an access token does:
// this one ends and so do all that the grant has given so far, because they
// are told apart by the instant of their issue alone. The refresh token lives
// on. What is dead already stays as it is.
func (g Grant) RevokeAccess(t Presented, p Policy, now Instant) Decision {
	if g.ClientID != t.ClientID || g.Realm != t.Realm {
		return g.refuse(OtherClient)
	}
	if g.State == Revoked || t.IssuedAt <= g.AccessFloor || t.Expired(p, now) || t.disowned(g.RotatedAt, p, now) != Allowed {
		return Decision{Next: g}
	}
	next := g
	next.Version++
	// A pair of another clock, or of one that was put back, can be later than now.
	// The floor never moves back: t was issued after the present one.
	next.AccessFloor = max(now, t.IssuedAt, g.RotatedAt)
	return Decision{Next: next}
}
