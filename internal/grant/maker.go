package grant

import "time"

// A Maker is the key that made a code or a token, with its period of use. The
// zero Maker stands for a key in use.
//
// A key that was copied makes texts that verify for ever. A retired key is
// therefore believed only about its own period: what says that it was issued
// later was made by somebody else.
type Maker struct {
	Key KeyID
	// Until is when every node had begun to use a later key; zero if there is no
	// later key.
	Until Instant
	// Withdrawn tells that an operator has declared the key untrusted: nothing
	// that it made counts, not even as a replay.
	Withdrawn bool
}

// MaxAccessLifetime is the longest that an access token can have been
// configured to live.
const MaxAccessLifetime = 24 * time.Hour

// disowns tells why m cannot have made what says that it was issued at an
// instant, or Allowed. Something may be dated ahead of the clock because a row,
// a cutoff or a restore forces it to: up to forced, by clocks that were wrong.
// What is dated so is believed, and expires with its key; see expiry.
func (m Maker) disowns(issuedAt, forced Instant, p Policy, now Instant) Refusal {
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

// expiry limits what a token claims about its own expiry: nothing that lives for
// a time can outlive its key's period of use by more than that time, and the
// second to which expiry is rounded up.
func (m Maker) expiry(claimed Instant, life time.Duration, p Policy) Instant {
	if m.Until == 0 {
		return claimed
	}
	return min(claimed, m.Until.Add(p.MaxSkew+life+time.Second))
}

// MarkAttempt is the Attempt of a rotation: random bits, and in the lower half
// the key of the token that the rotation spends. A repeat of the request
// presents that token, so it presents one by that key.
func MarkAttempt(random uint64, spent KeyID) uint64 { return random&^0xffff_ffff | uint64(spent) }

// SpentKey is the key that made the token which g's last rotation spent. A
// redemption, and a rotation by a version before MarkAttempt, leave a random
// number there, which is the id of no key.
func (g Grant) SpentKey() KeyID { return KeyID(g.Attempt) }
