package grant

import "time"

// Issued summarises the refresh tokens of some grants. A restore needs it to
// bound the tokens that the store has lost.
type Issued struct {
	Latest     Instant // the latest issue
	LastExpiry Instant // the latest expiry
	// Longest is the longest lifetime: it may have been configured longer than it
	// is now.
	Longest time.Duration
}

// And returns the summary of both.
func (i Issued) And(o Issued) Issued {
	return Issued{max(i.Latest, o.Latest), max(i.LastExpiry, o.LastExpiry), max(i.Longest, o.Longest)}
}

// Issued returns the summary of g's present refresh token.
func (g Grant) Issued() Issued {
	return Issued{g.RotatedAt, g.ExpiresAt, g.ExpiresAt.Since(g.RotatedAt)}
}
