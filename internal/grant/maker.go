package grant

import (
	"encoding/binary"
	"time"

	"github.com/mintage/mintage/internal/oauth"
)

// A Maker is the key that made a code or a token, with its period of use. The
// zero Maker stands for a key in use.
//
// Whoever has copied a key can make tokens that verify for ever. A retired key is
// therefore accepted for its own period only: a token that names a later instant
// of issue is forged.
type Maker struct {
	Key KeyID
	// Until is when every node used a later key; zero if there is none.
	Until Instant
	// Withdrawn reports that an operator has declared the key untrusted: nothing
	// made by it is accepted, or treated as a replay.
	Withdrawn bool
}

// MaxAccessLifetime is the largest access token lifetime that the configuration
// accepts.
const MaxAccessLifetime = 24 * time.Hour

// Signed reports whether m can have signed a text that names issuedAt.
func (m Maker) Signed(issuedAt Instant, p Policy) bool {
	return m.rejects(issuedAt, 0, p, 0) == Allowed
}

// rejects returns why m cannot have made a token that names issuedAt, or Allowed.
// A row, a cutoff or a restore dated by a clock that was ahead forces later
// tokens to be dated ahead as well, up to forced. Such a token is accepted and
// expires with its key; see expiry.
func (m Maker) rejects(issuedAt, forced Instant, p Policy, now Instant) Refusal {
	switch {
	case m.Withdrawn:
		return KeyWithdrawn
	case m.Until == 0 || issuedAt <= m.Until.Add(p.MaxSkew):
		return Allowed
	case issuedAt <= forced && forced > now.Add(p.MaxSkew):
		return Allowed
	}
	return KeyRetired
}

// expiry limits the expiry that a token claims: a token outlives its key's period of use
// by at most its lifetime life, MaxSkew, and the second to which expiry is rounded up.
func (m Maker) expiry(claimed Instant, life time.Duration, p Policy) Instant {
	if m.Until == 0 {
		return claimed
	}
	return min(claimed, m.Until.Add(p.MaxSkew+life+time.Second))
}

// NewAttempt returns the Attempt of a rotation: random bits and, in the lower half, the id of
// the key that made the token that the rotation spends. A retry presents the same token, so
// that id must be the same. If the access token is bound to a client's key (RFC 9449), bits
// of that key's thumbprint replace 16 of the random bits.
func NewAttempt(random uint64, spent KeyID, bound oauth.JKT) uint64 {
	if bound.Bound() {
		random = random&^(0xffff<<32) | uint64(binary.BigEndian.Uint16(bound[:]))<<32
	}
	return random&^0xffff_ffff | uint64(spent)
}

// boundAs reports whether g's last rotation can have been made with a key. A repeated
// response binds its access token to the same key as the first one.
func (g Grant) boundAs(key oauth.JKT) bool {
	return !key.Bound() || uint16(g.Attempt>>32) == binary.BigEndian.Uint16(key[:])
}

// SpentKey returns the key of the token that g's last rotation spent. After a redemption,
// it is random, and after a restore it may be 0: then it is the id of no key.
func (g Grant) SpentKey() KeyID { return KeyID(g.Attempt) }
