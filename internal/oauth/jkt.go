package oauth

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
)

// A JKT is the thumbprint of a client's public key (RFC 7638, RFC 9449 section 6.1),
// to which a code or token is bound. The zero JKT stands for no key.
type JKT [sha256.Size]byte

// Bound reports whether j names a key.
func (j JKT) Bound() bool { return j != JKT{} }

// String returns the form of the claim cnf.jkt, or "" for no key.
func (j JKT) String() string {
	if !j.Bound() {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(j[:])
}

// ParseJKT reads what String writes.
func ParseJKT(text string) (j JKT, ok bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(len(j)) {
		return JKT{}, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(j[:], []byte(text))
	return j, err == nil && n == len(j) && j.Bound()
}

// MarshalText returns the text of String.
func (j JKT) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

// UnmarshalText reads what MarshalText writes. An empty text is the zero JKT.
func (j *JKT) UnmarshalText(text []byte) error {
	key, ok := ParseJKT(string(text))
	if !ok && len(text) > 0 {
		return errors.New("not the SHA-256 thumbprint of a key")
	}
	*j = key
	return nil
}
