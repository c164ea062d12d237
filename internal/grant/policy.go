package grant

import "time"

// A Policy holds the settings of the deployment and of the client's registration
// that concern a grant. All durations are at least a millisecond, or zero.
type Policy struct {
	AccessLifetime  time.Duration // 5 minutes in the service's specification
	CodeLifetime    time.Duration // a minute by default
	RefreshLifetime time.Duration // 31 days, from the issue of each refresh token
	// GrantLifetime ends the grant that long after it was authorized, however
	// often it is refreshed. Zero: never.
	GrantLifetime time.Duration
	// RetryWindow is how long after a rotation the spent token gets the same
	// pair again, as long as the successor is unused. Zero: never.
	RetryWindow time.Duration
	// ReuseGrace is how long after its issue an earlier refresh token, of any
	// generation, is treated as the present one: several processes of the client
	// hold copies of one token. Zero: never.
	ReuseGrace time.Duration
	// MaxSkew is how far apart the clocks of nodes may be; zero with one node.
	MaxSkew time.Duration
	// NoRotation returns the same refresh token, whose lifetime does not slide.
	NoRotation bool
}

// ExpiresIn returns the expires_in of a response at now: the remaining lifetime in
// whole seconds, and at most the lifetime as configured.
func (p Policy) ExpiresIn(a Access, now Instant) int64 {
	life := p.AccessLifetime
	if a.Lifetime != 0 {
		life = a.Lifetime
	}
	return min(int64(a.ExpiresAt-now)/1000, int64(life/time.Second))
}

// AccessExpiry returns the expiry of an access token that is issued at an instant.
func (p Policy) AccessExpiry(issuedAt Instant) Instant { return p.accessExpiry(issuedAt) }

// accessExpiry rounds up to a second, so that a fresh token's expires_in is
// its whole lifetime.
func (p Policy) accessExpiry(issuedAt Instant) Instant {
	return issuedAt.nextSecond().Add(p.AccessLifetime)
}

// MaxReuseGrace is the longest ReuseGrace that a client may have.
const MaxReuseGrace = 24 * time.Hour

// nearlySpent is the remaining lifetime of an access token below which another holder of
// the refresh token gets a new pair instead of the present one.
const nearlySpent = time.Minute

// Expiry returns when g expires. GrantLifetime may have been lowered since its last
// refresh.
func (p Policy) Expiry(g Grant) Instant {
	if p.GrantLifetime == 0 {
		return g.ExpiresAt
	}
	return min(g.ExpiresAt, g.AuthorizedAt.Add(p.GrantLifetime))
}

// deleteAfter returns when a row may be deleted if its last token or code expires
// at expiry.
func (p Policy) deleteAfter(expiry Instant) Instant {
	return expiry.Add(2*p.MaxSkew + time.Hour)
}

// cutOff reports whether a cutoff ends a grant or token that was authorized at an
// instant. The clock that dated the cutoff may be behind by MaxSkew.
func (p Policy) cutOff(authorizedAt, cutoff Instant) bool {
	return cutoff != 0 && authorizedAt <= cutoff.Add(p.MaxSkew)
}

// CutOffAt reports whether a cutoff ends a token or login that a client got at an instant.
func CutOffAt(given, cutoff Instant, p Policy) bool { return p.cutOff(given, cutoff) }
