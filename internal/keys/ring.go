// Package keys makes and verifies authorization codes, refresh and access tokens,
// JWTs, and the stored form of client secrets. It holds the key ring, the phases
// of a key and the text formats. It does not decide what a token may be used for,
// and does not read the store.
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

// A Draft is a key without instants. The generation of an RSA key takes so long
// that its instants are set afterwards.
type Draft struct {
	Purpose  Purpose
	material []byte
}

// NewDraft generates a private key for a signing purpose, or else 256 random bits.
func NewDraft(purpose Purpose) (Draft, error) {
	if purpose.Signs() {
		material, err := newPrivateKey(purpose)
		return Draft{purpose, material}, err
	}
	material := make([]byte, 32)
	rand.Read(material)
	return Draft{purpose, material}, nil
}

// Wrap returns d as a record that is used from activeAt on.
func (d Draft) Wrap(kek *KEK, now, activeAt grant.Instant) Stored {
	var id [4]byte
	rand.Read(id[:])
	r := Stored{
		ID: grant.KeyID(binary.BigEndian.Uint32(id[:])), Purpose: d.Purpose,
		CreatedAt: now, ActiveAt: activeAt,
	}
	r.Wrapped = kek.wrap(r, d.material, 0)
	return r
}

// New generates and wraps a key.
func New(kek *KEK, purpose Purpose, now, activeAt grant.Instant) (Stored, error) {
	d, err := NewDraft(purpose)
	if err != nil {
		return Stored{}, err
	}
	return d.Wrap(kek, now, activeAt), nil
}

// A Ring is an immutable set of keys, safe for concurrent use.
type Ring struct {
	Timeline
	byID map[grant.KeyID]*key
}

type key struct {
	Stored
	macs   sync.Pool // of *macState, keyed with the unwrapped key
	signer *signer   // of a signing key
	maker  grant.Maker
}

// Open unwraps records into a ring. It fails if it cannot unwrap one of them: an
// incomplete ring would refuse authentic tokens.
func Open(kek *KEK, records []Stored) (*Ring, error) {
	r := &Ring{Timeline: NewTimeline(records), byID: map[grant.KeyID]*key{}}
	for _, rec := range records {
		material, err := kek.unwrap(rec)
		if err != nil {
			return nil, err
		}
		k := &key{Stored: rec, maker: r.Timeline.maker(rec)}
		k.macs.New = func() any { return &macState{hash: hmac.New(sha256.New, material)} }
		if rec.Purpose.Signs() {
			if k.signer, err = newSigner(rec, material); err != nil {
				return nil, err
			}
		}
		r.byID[rec.ID] = k
	}
	for _, p := range Purposes {
		if len(r.used[p]) == 0 {
			return nil, fmt.Errorf("the key ring has no %s key", p)
		}
	}
	return r, nil
}

// Maker returns the period of use of a key.
func (r *Ring) Maker(id grant.KeyID) grant.Maker {
	if k := r.byID[id]; k != nil {
		return k.maker
	}
	rec, _ := r.record(id) // the keys of a LockedRing have no entry in byID
	return r.maker(rec)
}

// SpentByOther reports whether a key of the ring other than id made the token that
// a grant's last rotation spent.
func (r *Ring) SpentByOther(g grant.Grant, id grant.KeyID) bool {
	spent := g.SpentKey()
	return spent != id && r.lookup(spent, MAC) != nil
}

// Has reports whether the ring holds the key.
func (r *Ring) Has(id grant.KeyID) bool { return r.byID[id] != nil }

// Current returns the key for new tokens at an instant. The ring must hold a key of
// the purpose.
func (r *Ring) Current(p Purpose, now grant.Instant) grant.KeyID { return r.current(p, now).ID }

// current returns nil if the ring has no key of the purpose.
func (r *Ring) current(p Purpose, now grant.Instant) *key {
	line := r.used[p]
	if len(line) == 0 {
		return nil
	}
	return r.byID[line[active(line, now)].ID]
}

// lookup finds a key of a purpose. No key has two purposes.
func (r *Ring) lookup(id grant.KeyID, p Purpose) *key {
	if k := r.byID[id]; k != nil && k.Purpose == p {
		return k
	}
	return nil
}

// A macState computes one MAC after another. It copies inputs and outputs through
// its own buffer, so that those of its callers stay on the stack: a request
// computes five MACs.
type macState struct {
	hash hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

// mac appends the HMAC-SHA-256 of the parts to dst. The caller makes the
// concatenation unambiguous.
func (k *key) mac(dst []byte, parts ...[]byte) []byte {
	m := k.macs.Get().(*macState)
	m.text = m.text[:0]
	for _, p := range parts {
		m.text = append(m.text, p...)
	}
	m.hash.Reset()
	m.hash.Write(m.text)
	dst = append(dst, m.hash.Sum(m.sum[:0])...)
	clear(m.text) // it may be a secret
	k.macs.Put(m)
	return dst
}

// ErrUnknownKey is returned for a key id that the ring does not hold.
var ErrUnknownKey = errors.New("unknown key")
