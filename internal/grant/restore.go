package grant

// A Restore tells that the store was put back to what it was at an earlier
// instant, so that rows may lack what their grants did since. It explains why a
// genuine token is ahead of its row, and for how long that may be met. The zero
// Restore explains nothing.
type Restore struct {
	Backup Instant // what the store is a copy of
	// At is when the store was put back: everything issued since carries this
	// instant or a later one, and everything before carries an earlier one.
	At Instant
	// Until is when the last token of before has expired.
	Until Instant
}

// InForce reports whether a token of before the restore can still be met.
func (r Restore) InForce(now Instant) bool { return r.At != 0 && now < r.Until }

// explains reports whether the restore can have lost the record of what was
// issued at an instant.
func (r Restore) explains(issuedAt, now Instant) bool { return r.InForce(now) && issuedAt < r.At }

// Unrecorded is the refusal of an authentic token that has no row. Rows outlast
// tokens, so while the token is unexpired, this is our loss and not the client's
// fault; once the loss was declared, it is final: the grant was made after the
// backup.
func (r Restore) Unrecorded(issuedAt, expiresAt, now Instant) Refusal {
	switch {
	case now >= expiresAt:
		return GrantExpired
	case r.explains(issuedAt, now):
		return RestoredLost
	}
	return StoreBehind
}

// Unrecorded is the refusal of a refresh token that has no row.
func (r Refresh) Unrecorded(p Policy, now Instant) Refusal {
	if r.Generation == 0 {
		return TokenUnknown
	}
	if why := r.Maker.disowns(r.IssuedAt, r.Restore.At, p, now); why != Allowed {
		return why
	}
	return r.Restore.Unrecorded(r.IssuedAt, r.ExpiresAt, now)
}

// RefreshAhead reports whether a genuine refresh token was issued by a rotation
// that g has not heard of.
func (g Grant) RefreshAhead(generation uint32, issuedAt Instant) bool {
	return generation > g.Generation || generation == g.Generation && issuedAt != g.RotatedAt
}

// AccessAhead reports the same of an access token, of which a repeated answer
// can carry a later one.
func (g Grant) AccessAhead(generation uint32, issuedAt Instant) bool {
	return generation > g.Generation || generation == g.Generation && issuedAt < g.RotatedAt
}

// caughtUp is g as it was when r's token was issued. That the token is genuine
// proves it.
func (g Grant) caughtUp(r Refresh, p Policy) Grant {
	g.Version++
	g.Attempt = MarkAttempt(r.Attempt, 0) // nobody knows what the token's rotation spent
	g.Generation, g.RotatedAt, g.KeyID = r.Generation, r.IssuedAt, r.Maker.Key
	g.ExpiresAt = min(r.ExpiresAt, r.Restore.Until) // by then, every token of before has expired
	g.DeleteAfter = max(g.DeleteAfter, p.deleteAfter(g.ExpiresAt))
	return g
}
