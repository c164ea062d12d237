package dpop

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"sync"
	"time"
)

// maxSeen bounds what one period of Seen holds, at about 40 bytes for each proof.
const maxSeen = 200_000

// Seen remembers the proofs of the last minutes, so that each counts once (RFC 9449
// section 11.1): those of one node, in memory. If there are more than 200,000 in two
// minutes, it forgets the oldest first. What it forgets, and what another node has seen,
// server nonces limit. The zero value is ready; it is safe for concurrent use.
type Seen struct {
	mu            sync.Mutex
	began         time.Time
	present, last map[[16]byte]struct{}
}

// First notes a proof that was verified, and reports whether it was not seen before.
func (s *Seen) First(p *Proof, now time.Time) bool {
	sum := sha256.Sum256(append(p.Key[:], p.ID...))
	key := [16]byte(sum[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	// A proof is valid from Window before its iat to Window after it.
	if s.present == nil || now.Sub(s.began) > 2*Window+2*time.Second || len(s.present) >= maxSeen {
		s.last, s.present, s.began = s.present, map[[16]byte]struct{}{}, now
	}
	_, again := s.present[key]
	_, before := s.last[key]
	s.present[key] = struct{}{}
	return !again && !before
}

// Nonces returns the MAC of a minute, of at least 16 bytes, under a key that all nodes
// of a server share and nobody else has.
type Nonces func(minute int64) []byte

// At returns the nonce of an instant (RFC 9449 section 8). Nothing is stored.
func (n Nonces) At(now time.Time) string {
	return base64.RawURLEncoding.EncodeToString(n(now.Unix() / 60)[:16])
}

// Valid reports whether a nonce is that of this minute or of the one before. That of the
// next is from a node whose clock is ahead.
func (n Nonces) Valid(nonce string, now time.Time) bool {
	for _, at := range []time.Duration{0, -time.Minute, time.Minute} {
		if subtle.ConstantTimeCompare([]byte(n.At(now.Add(at))), []byte(nonce)) == 1 {
			return true
		}
	}
	return false
}
