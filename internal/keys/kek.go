package keys

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// A KEK is the key-encryption key, which wraps every key at rest. It stays
// outside the store, so that a copy of the store alone is worth nothing.
type KEK struct {
	aead cipher.AEAD
	id   [4]byte // fingerprint, so that a wrong key is named and not guessed at
}

// NewKEKText makes a key-encryption key in its text form.
func NewKEKText() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.StdEncoding.EncodeToString(b) + "\n"
}

// ParseKEK reads the text form: 32 bytes in base64, perhaps a line break.
func ParseKEK(text string) (*KEK, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != 32 {
		return nil, errors.New("a key-encryption key is 32 bytes in base64 (make one with: openssl rand -base64 32)")
	}
	block, err := aes.NewCipher(b)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte("mintage/1/kek fingerprint\x00"), b...))
	return &KEK{aead: aead, id: [4]byte(sum[:4])}, nil
}

// Wrapped form: version 1, fingerprint (4), nonce (12), ciphertext and tag.
// The record's own fields are authenticated with it, so that nobody with
// access to the store alone can turn one kind of key into another.

func (k *KEK) wrap(r Record, material []byte) ([]byte, error) {
	out := append([]byte{1}, k.id[:]...)
	nonce := make([]byte, k.aead.NonceSize())
	rand.Read(nonce)
	out = append(out, nonce...)
	return k.aead.Seal(out, nonce, material, r.binding()), nil
}

func (k *KEK) unwrap(r Record) ([]byte, error) {
	w := r.Wrapped
	head := 5 + k.aead.NonceSize()
	if len(w) < head || w[0] != 1 {
		return nil, fmt.Errorf("key %s is stored in a form that this version cannot read: run the version that wrote it, or a later one", r.ID)
	}
	if [4]byte(w[1:5]) != k.id {
		return nil, fmt.Errorf("wrong key-encryption key: the store's keys are wrapped by %x, the one given is %x; "+
			"put back the kek file that belongs to this store (a new one cannot open it)", w[1:5], k.id)
	}
	material, err := k.aead.Open(nil, w[5:head], w[head:], r.binding())
	if err != nil {
		return nil, fmt.Errorf("key %s is damaged: restore the store from a backup", r.ID)
	}
	return material, nil
}

func (r Record) binding() []byte {
	b := []byte("mintage/1/key\x00")
	b = binary.BigEndian.AppendUint32(b, uint32(r.ID))
	b = binary.BigEndian.AppendUint64(b, uint64(r.CreatedAt))
	b = binary.BigEndian.AppendUint64(b, uint64(r.ActiveAt))
	return append(b, r.Purpose...)
}
