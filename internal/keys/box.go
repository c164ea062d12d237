package keys

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/mintage/mintage/internal/grant"
)

// Layout of a box: version 1 | key id 4 | nonce 24 | AES-256-GCM of the plain
// text, and its tag 16. The nonce works as in a code. The label and the head
// are associated data.

const boxKeyLabel = "mintage/1/box key\x00"

// SealBox encrypts data that the store holds, under the sealing key in use at now.
// It can be opened for as long as its key verifies. The label names the kind and
// the owner: a box does not open under another label.
func (r *Ring) SealBox(label string, plain []byte, now grant.Instant) []byte {
	k := r.current(Seal, now)
	var nonce [NonceSize]byte
	rand.Read(nonce[:])
	head := append(make([]byte, 0, codeHead+len(plain)+codeTag), version)
	head = binary.BigEndian.AppendUint32(head, uint32(k.ID))
	head = append(head, nonce[:]...)
	return k.aead(boxKeyLabel, nonce).Seal(head, nonce[NonceSize/2:], plain, boxBinding(label, head[:5]))
}

// OpenBox decrypts what SealBox has made, or returns ErrNotAuthentic.
func (r *Ring) OpenBox(label string, box []byte) ([]byte, error) {
	if len(box) < codeHead+codeTag || box[0] != version {
		return nil, ErrNotAuthentic
	}
	k := r.lookup(grant.KeyID(binary.BigEndian.Uint32(box[1:])), Seal)
	if k == nil {
		return nil, ErrNotAuthentic
	}
	nonce := [NonceSize]byte(box[5:codeHead])
	plain, err := k.aead(boxKeyLabel, nonce).Open(nil, nonce[NonceSize/2:], box[codeHead:], boxBinding(label, box[:5]))
	if err != nil {
		return nil, ErrNotAuthentic
	}
	return plain, nil
}

func boxBinding(label string, head []byte) []byte {
	return append(append([]byte("mintage/1/box\x00"), label...), head...)
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
