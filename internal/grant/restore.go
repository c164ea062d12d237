package grant

import "time"

// A Restore declares that the store was restored to an earlier state, so that
// rows may lack rotations since then. It explains why an authentic token is ahead
// of its row, and until when such tokens exist. The zero Restore explains
// nothing.
type Restore struct {
	Backup Instant // when the backup was made
	// At is when the store was restored: everything issued since is dated At or
	// later, and everything issued before is dated earlier.
	At Instant
	// Until is when the last token from before the restore has expired.
	Until Instant
}

// InForce reports whether a token from before the restore can still be valid.
func (r Restore) InForce(now Instant) bool { return r.At != 0 && now < r.Until }

// explains reports whether the restore can have lost the record of a token issued
// at issuedAt.
func (r Restore) explains(issuedAt, now Instant) bool { return r.InForce(now) && issuedAt < r.At }

// Unrecorded returns the refusal of an authentic token without a row. Rows
// outlive tokens, so if the token has not expired, the store has lost the row:
// that is no fault of the client. After a declared restore, the refusal is final:
// the grant was made after the backup.
func (r Restore) Unrecorded(issuedAt, expiresAt, now Instant) Refusal {
	switch {
	case now >= expiresAt:
		return GrantExpired
	case r.explains(issuedAt, now):
		return RestoredLost
	}
	return StoreBehind
}

// Unrecorded returns the refusal of a refresh token without a row.
func (r Refresh) Unrecorded(p Policy, now Instant) Refusal {
	if r.Generation == 0 {
		return TokenUnknown
	}
	if why := r.Maker.rejects(r.IssuedAt, r.Restore.At, p, now); why != Allowed {
		return why
	}
	return r.Restore.Unrecorded(r.IssuedAt, r.ExpiresAt, now)
}

// RefreshAhead reports whether an authentic refresh token was issued by a
// rotation that g does not contain.
func (g Grant) RefreshAhead(generation uint32, issuedAt Instant) bool {
	return generation > g.Generation || generation == g.Generation && issuedAt != g.RotatedAt
}

// AccessAhead reports whether an authentic access token was issued by a rotation that g
// does not contain. A repeated response can contain an access token of a later instant
// than the row's rotation.
func (g Grant) AccessAhead(generation uint32, issuedAt Instant) bool {
	return generation > g.Generation || generation == g.Generation && issuedAt < g.RotatedAt
}

// caughtUp returns g as it was when r's token was issued, which the authentic
// token proves.
func (g Grant) caughtUp(r Refresh, p Policy) Grant {
	g.Version++
	g.Attempt = NewAttempt(r.Attempt, 0, r.JKT) // the key that the lost rotation spent is unknown
	g.Generation, g.RotatedAt, g.KeyID = r.Generation, r.IssuedAt, r.Maker.Key
	g.ExpiresAt = min(r.ExpiresAt, r.Restore.Until) // by then, every token from before the restore has expired
	g.DeleteAfter = max(g.DeleteAfter, p.deleteAfter(g.ExpiresAt))
	return g
}

// Issued summarises the refresh tokens of some grants. A restore needs it to
// bound the tokens that the store has lost.
type Issued struct {
	Latest     Instant // the latest issue
	LastExpiry Instant // the latest expiry
	// Longest is the longest lifetime. It may exceed the configured one, which may have
	// been shortened since.
	Longest time.Duration
}

// And returns the summary of the grants of i and of o.
func (i Issued) And(o Issued) Issued {
	return Issued{max(i.Latest, o.Latest), max(i.LastExpiry, o.LastExpiry), max(i.Longest, o.Longest)}
}

// Issued returns the summary of g's present refresh token.
func (g Grant) Issued() Issued {
	return Issued{g.RotatedAt, g.ExpiresAt, g.ExpiresAt.Since(g.RotatedAt)}
}
