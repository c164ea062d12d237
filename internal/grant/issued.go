package grant

import "time"

// Issued is what some grants tell of the refresh tokens that were issued to them:
// a measure for those that a store has lost.
type Issued struct {
	Latest     Instant // when the youngest was issued
	LastExpiry Instant // when the last one expires
	// Longest is the longest lifetime of one: refresh tokens may have been given
	// a longer one than they are given now.
	Longest time.Duration
}

// And is what both tell.
func (i Issued) And(o Issued) Issued {
	return Issued{max(i.Latest, o.Latest), max(i.LastExpiry, o.LastExpiry), max(i.Longest, o.Longest)}
}

// Issued tells of g's present refresh token.
func (g Grant) Issued() Issued {
	return Issued{g.RotatedAt, g.ExpiresAt, g.ExpiresAt.Since(g.RotatedAt)}
}
