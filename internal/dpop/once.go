package dpop

import (
	"crypto/subtle"
	"encoding/base64"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxSeen bounds what one period of Seen holds, at about 10 bytes for each proof.
const maxSeen = 200_000

// A Seen holds at most 8,192 keys, of headers of at most 1 KiB.
const (
	maxKeys   = 4096 // in one period
	maxHeader = 1024
)

// Seen remembers the proofs of the last minutes, so that each counts once (RFC 9449
// section 11.1). It is in the memory of one node. If there are more than 200,000 proofs in
// two minutes, it forgets the oldest first. Server nonces limit replays of a proof that it
// has forgotten. It also remembers the keys in the headers, so that reading the next proof
// of a client costs less. The zero value is ready; it is safe for concurrent use.
type Seen struct {
	mu               sync.Mutex
	began            time.Time
	present, last    *ids
	keys, keysOfLast map[string]key // by the encoded header
}

// Read reads the proof in the DPoP header fields of a request, of which there must be
// one (RFC 9449 section 4.3). If an earlier proof with the same header was verified, Read
// does not parse the header again. Its errors are Faults.
func (s *Seen) Read(fields []string) (*Proof, error) {
	return read(fields, func(header string) (key, error) {
		s.mu.Lock()
		k, known := s.keys[header]
		if !known {
			k, known = s.keysOfLast[header]
		}
		s.mu.Unlock()
		if known {
			return k, nil
		}
		return readHeader(header)
	})
}

// First notes a proof that was verified, and reports whether it was not seen before.
func (s *Seen) First(p *Proof, now time.Time) bool {
	id := idOf(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	// A proof is valid from Window before its iat to Window after it.
	if s.present == nil || now.Sub(s.began) > 2*Window+2*time.Second || s.present.count >= maxSeen {
		s.nextPeriod(now)
	}
	if _, known := s.keys[p.header]; !known && len(p.header) <= maxHeader && len(s.keys) < maxKeys {
		s.keys[strings.Clone(p.header)] = key{p.public, p.Key}
	}
	before := s.last != nil && s.last.holds(id)
	return s.present.add(id) && !before
}

// nextPeriod begins a period. It forgets the last but one, whose memory it uses again.
func (s *Seen) nextPeriod(now time.Time) {
	s.last, s.present, s.began = s.present, s.last, now
	s.keysOfLast, s.keys = s.keys, map[string]key{}
	if s.present == nil {
		s.present = new(ids)
	}
	s.present.clear()
}

// ids is a set. A Go map would take twice as much memory, and the process up to five
// times the memory of the map, until garbage is collected.
type ids struct {
	shards [1024][]uint64
	count  int
}

func (s *ids) shard(id uint64) *[]uint64 { return &s.shards[id%uint64(len(s.shards))] }

func (s *ids) holds(id uint64) bool { return slices.Contains(*s.shard(id), id) }

// add adds an id, and reports whether it is new.
func (s *ids) add(id uint64) bool {
	if s.holds(id) {
		return false
	}
	shard := s.shard(id)
	*shard = append(*shard, id)
	s.count++
	return true
}

func (s *ids) clear() {
	for i := range s.shards {
		s.shards[i] = s.shards[i][:0]
	}
	s.count = 0
}

var idSeed = maphash.MakeSeed()

// idOf returns the hash of a proof's key and id. Nobody outside the process knows the
// seed, so nobody can make a proof with the hash of another one. The probability that two
// of 400,000 proofs have the same hash by chance is 1 in 200 million.
func idOf(p *Proof) uint64 {
	var h maphash.Hash
	h.SetSeed(idSeed)
	h.Write(p.Key[:])
	h.WriteString(p.ID)
	return h.Sum64()
}

// Nonces returns the MAC of a minute, of at least 16 bytes, under a key that all nodes
// of a server share and nobody else has.
type Nonces func(minute int64) []byte

// At returns the nonce of an instant (RFC 9449 section 8). Nothing is stored.
func (n Nonces) At(now time.Time) string {
	return base64.RawURLEncoding.EncodeToString(n(now.Unix() / 60)[:16])
}

// Valid reports whether a nonce is that of this minute or of the one before. It also
// accepts the nonce of the next minute, because another node's clock may be ahead.
func (n Nonces) Valid(nonce string, now time.Time) bool {
	for _, at := range []time.Duration{0, -time.Minute, time.Minute} {
		if subtle.ConstantTimeCompare([]byte(n.At(now.Add(at))), []byte(nonce)) == 1 {
			return true
		}
	}
	return false
}
