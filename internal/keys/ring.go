// Package keys makes and checks everything that proves itself: authorization
// codes, refresh and access tokens, and the stored form of client secrets. It
// knows the key ring and the text formats; it does not know what a token may
// be used for, and it never reads a store.
package keys

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync"

	"github.com/mintage/mintage/internal/grant"
)

// A Purpose is the one use of a key.
type Purpose string

const (
	MAC    Purpose = "mac"    // refresh and access tokens
	Seal   Purpose = "seal"   // authorization codes
	Pepper Purpose = "pepper" // stored client secrets; never rotates
)

// Purposes lists those that a ring needs to be complete.
var Purposes = []Purpose{MAC, Seal, Pepper}

// A Record is a key as it is stored: wrapped by the key-encryption key. Its
// instants never change once written.
type Record struct {
	ID        grant.KeyID
	Purpose   Purpose
	CreatedAt grant.Instant
	// ActiveAt is when the key begins to be used for new tokens, until one of
	// a later ActiveAt takes its place. It verifies at any time.
	ActiveAt grant.Instant
	Wrapped  []byte
}

// New makes a key of 256 random bits and wraps it.
func New(kek *KEK, purpose Purpose, now, activeAt grant.Instant) (Record, error) {
	var id [4]byte
	material := make([]byte, 32)
	rand.Read(id[:])
	rand.Read(material)
	r := Record{
		ID: grant.KeyID(binary.BigEndian.Uint32(id[:])), Purpose: purpose,
		CreatedAt: now, ActiveAt: activeAt,
	}
	var err error
	r.Wrapped, err = kek.wrap(r, material)
	return r, err
}

// A Ring is an immutable set of keys, safe for concurrent use.
type Ring struct {
	byID      map[grant.KeyID]*key
	byPurpose map[Purpose][]*key
}

type key struct {
	Record
	material []byte
	macs     sync.Pool // of hash.Hash, keyed with material
}

// Open unwraps records into a ring. It fails if one does not unwrap: a ring
// with a hole would refuse good tokens.
func Open(kek *KEK, records []Record) (*Ring, error) {
	r := &Ring{byID: map[grant.KeyID]*key{}, byPurpose: map[Purpose][]*key{}}
	for _, rec := range records {
		material, err := kek.unwrap(rec)
		if err != nil {
			return nil, err
		}
		k := &key{Record: rec, material: material}
		k.macs.New = func() any { return hmac.New(sha256.New, material) }
		r.byID[rec.ID] = k
		r.byPurpose[rec.Purpose] = append(r.byPurpose[rec.Purpose], k)
	}
	for _, p := range Purposes {
		if len(r.byPurpose[p]) == 0 {
			return nil, fmt.Errorf("the key ring has no %s key", p)
		}
	}
	return r, nil
}

// Has reports whether the ring holds the key.
func (r *Ring) Has(id grant.KeyID) bool { return r.byID[id] != nil }

// Current is the key to use for new things at the given instant.
func (r *Ring) Current(p Purpose, now grant.Instant) grant.KeyID { return r.current(p, now).ID }

// current falls back to the key that becomes active first, for a clock that is
// behind the one which made the ring.
func (r *Ring) current(p Purpose, now grant.Instant) *key {
	var best, first *key
	for _, k := range r.byPurpose[p] {
		if k.ActiveAt <= now && (best == nil || k.ActiveAt > best.ActiveAt) {
			best = k
		}
		if first == nil || k.ActiveAt < first.ActiveAt {
			first = k
		}
	}
	if best == nil {
		return first
	}
	return best
}

// lookup finds a key of the given purpose; a key never serves two.
func (r *Ring) lookup(id grant.KeyID, p Purpose) *key {
	if k := r.byID[id]; k != nil && k.Purpose == p {
		return k
	}
	return nil
}

// mac appends the HMAC-SHA-256 of the parts to dst. The caller makes the
// concatenation unambiguous.
func (k *key) mac(dst []byte, parts ...[]byte) []byte {
	h := k.macs.Get().(hash.Hash)
	h.Reset()
	for _, p := range parts {
		h.Write(p)
	}
	dst = h.Sum(dst)
	k.macs.Put(h)
	return dst
}

// ErrUnknownKey is returned for a key id that the ring does not hold.
var ErrUnknownKey = errors.New("unknown key")
