package keys

import (
	"encoding/hex"

	"github.com/mintage/mintage/internal/grant"
)

// Fingerprint names the key-encryption key in backups and errors. It is part of a
// hash of the key and reveals nothing about it.
func (k *KEK) Fingerprint() string { return hex.EncodeToString(k.id[:]) }

// WrappedBy returns the Fingerprint of the key-encryption key that wraps r, or ""
// if this version cannot read r.
func (r Stored) WrappedBy() string {
	if len(r.Wrapped) < 5 || r.Wrapped[0] != inUse && r.WithdrawnAt() == 0 {
		return ""
	}
	return hex.EncodeToString(r.Wrapped[1:5])
}

// CompleteUntil returns the first instant at which a key may be in use that a copy
// of the ring lacks. The copy was made at the instant made, and keys rotate by the
// schedule only. It is zero if no key rotates.
func (t Timeline) CompleteUntil(made grant.Instant, s Schedule) grant.Instant {
	if s.Lifetime <= 0 {
		return 0
	}
	var until grant.Instant
	for _, p := range s.Rotating() {
		line := t.used[p]
		if len(line) == 0 && p == Audit {
			continue // of a version before it: no client needs it
		}
		if len(line) == 0 {
			return made // it is made with the next start
		}
		line = line[active(line, made):]
		last := line[0].ActiveAt
		for _, r := range line[1:] {
			if r.ActiveAt > last.Add(s.Lifetime) {
				break
			}
			last = r.ActiveAt
		}
		// The key is late if no server ran when it was due.
		if end := max(last.Add(s.Lifetime), made.Add(s.Notice(p))); until == 0 || end < until {
			until = end
		}
	}
	return until
}
