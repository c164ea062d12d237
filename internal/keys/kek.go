package keys

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/grant"
)

// A KEK is the key-encryption key, which wraps every key at rest. It is not in the
// store, so that a copy of the store alone reveals no key. While it is replaced, it
// holds the old key and then the new one; see Of.
type KEK struct {
	aead cipher.AEAD
	id   [4]byte // fingerprint, which the error about a wrong key names
	next *KEK    // the new key while k is replaced, or nil
}

// NewKEKText generates a key-encryption key in its text form.
func NewKEKText() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.StdEncoding.EncodeToString(b) + "\n"
}

// ParseKEK decodes the text form: 32 bytes in base64 and an optional line break.
// While the key is replaced, the second line is the new key.
func ParseKEK(text string) (*KEK, error) {
	lines := strings.Fields(text)
	if len(lines) == 0 || len(lines) > 2 {
		return nil, errKEKForm
	}
	var kek *KEK
	for _, line := range slices.Backward(lines) {
		k, err := parseKEK(line)
		if err != nil {
			return nil, err
		}
		k.next, kek = kek, k
	}
	return kek, nil
}

var errKEKForm = errors.New("a key-encryption key is 32 bytes in base64: put back that of the store from its copy, because no other opens it (only for a new store make one with: openssl rand -base64 32)")

func parseKEK(line string) (*KEK, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(line)
	if err != nil || len(b) != 32 {
		return nil, errKEKForm
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

// Next returns the key that replaces k, or nil.
func (k *KEK) Next() *KEK { return k.next }

// Of returns the key-encryption key that wraps the records: Next or k; and k if there
// are none. Wrap new records with that key: other nodes may lack Next.
func (k *KEK) Of(records []Stored) *KEK {
	if k.next != nil && len(records) > 0 && records[0].WrappedBy() == k.next.Fingerprint() {
		return k.next
	}
	return k
}

func (k *KEK) wrap(r Stored, material []byte, withdrawnAt grant.Instant) []byte {
	out := append([]byte{inUse}, k.id[:]...)
	if withdrawnAt != 0 {
		out[0] = withdrawn
		out = binary.BigEndian.AppendUint64(out, uint64(withdrawnAt))
	}
	nonce := make([]byte, k.aead.NonceSize())
	rand.Read(nonce)
	bound := r.binding(out)
	out = append(out, nonce...)
	return k.aead.Seal(out, nonce, material, bound)
}

// Withdraw returns r marked as untrusted since an instant.
func (k *KEK) Withdraw(r Stored, at grant.Instant) (Stored, error) {
	material, err := k.unwrap(r)
	if err == nil {
		r.Wrapped = k.wrap(r, material, at)
	}
	return r, err
}

// Rewrap returns r, which from or its Next wraps, wrapped by k instead.
func (k *KEK) Rewrap(from *KEK, r Stored) (Stored, error) {
	material, err := from.unwrap(r)
	if err == nil {
		r.Wrapped = k.wrap(r, material, r.WithdrawnAt())
	}
	return r, err
}

// OtherKEK is the error for keys that another key-encryption key wraps.
type OtherKEK struct{ Needs, Given string }

func (e *OtherKEK) Error() string {
	return fmt.Sprintf("wrong key-encryption key: the store's keys are wrapped by %s, the one given is %s; "+
		"put back the kek file that belongs to this store (a new one cannot open it)", e.Needs, e.Given)
}

func (k *KEK) unwrap(r Stored) ([]byte, error) {
	w := r.Wrapped
	head := 5
	if len(w) > 0 && w[0] == withdrawn {
		head += 8
	}
	if len(w) < head+k.aead.NonceSize() || w[0] != inUse && w[0] != withdrawn {
		return nil, fmt.Errorf("key %s is stored in a form that this version cannot read: run the version that wrote it, or a later one", r.ID)
	}
	by := k
	for by != nil && [4]byte(w[1:5]) != by.id {
		by = by.next
	}
	if by == nil {
		return nil, &OtherKEK{r.WrappedBy(), k.Fingerprint()}
	}
	body := head + by.aead.NonceSize()
	material, err := by.aead.Open(nil, w[head:body], w[body:], r.binding(w[:head]))
	if err != nil {
		return nil, fmt.Errorf("key %s is damaged: restore the store from a backup", r.ID)
	}
	return material, nil
}

// binding returns the associated data of the wrapped form, which begins with head.
func (r Stored) binding(head []byte) []byte {
	b := []byte("mintage/1/key\x00")
	b = binary.BigEndian.AppendUint32(b, uint32(r.ID))
	b = binary.BigEndian.AppendUint64(b, uint64(r.CreatedAt))
	b = binary.BigEndian.AppendUint64(b, uint64(r.ActiveAt))
	b = append(b, r.Purpose...)
	if head[0] == withdrawn {
		b = append(append(b, 0), head...)
	}
	return b
}

// Fingerprint names the key-encryption key in backups and errors. It is part of a
// hash of the key and reveals nothing about it.
func (k *KEK) Fingerprint() string { return hex.EncodeToString(k.id[:]) }
