package keys

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/mintage/mintage/internal/grant"
)

// Layout of a box: version 1 | key id 4 | nonce 24 | AES-256-GCM of the plain
// text, and its tag 16. The halves of the nonce are used as in an authorization
// code. The label, version and key id are associated data.

// SealBox encrypts data that the store holds, under the sealing key in use at now.
// OpenBox opens the box for as long as that key verifies. The label names the kind
// and the owner: a box does not open under another label.
func (r *Ring) SealBox(label string, plain []byte, now grant.Instant) []byte {
	var nonce [NonceSize]byte
	rand.Read(nonce[:])
	return r.current(Seal, now).seal(boxes, label, plain, nonce)
}

// OpenBox decrypts a box of SealBox, or returns ErrNotAuthentic.
func (r *Ring) OpenBox(label string, box []byte) ([]byte, error) {
	_, plain, err := r.open(boxes, label, box)
	return plain, err
}

// TagSize is the length of an HMAC tag in bytes.
const TagSize = 32

// Tag returns an HMAC tag, which proves that this deployment has written the
// parts in this order: the content of a cookie, for example. It is HMAC-SHA-256
// under the pepper, which never rotates. Compare tags in constant time.
func (r *Ring) Tag(label string, parts ...[]byte) []byte {
	text := append([]byte("mintage/1/mark\x00"), label...)
	text = append(text, 0)
	for _, p := range parts {
		text = binary.BigEndian.AppendUint32(text, uint32(len(p)))
		text = append(text, p...)
	}
	return r.current(Pepper, 0).mac(nil, text)
}
