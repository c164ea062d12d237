package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
)

// ParseChallenge reads an S256 code challenge: 43 base64url characters without
// padding (RFC 7636 section 4.2).
func ParseChallenge(s string) (challenge [sha256.Size]byte, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != len(challenge) || len(s) != 43 {
		return challenge, false
	}
	return [sha256.Size]byte(b), true
}

// VerifyS256 reports whether verifier answers challenge. A verifier of another
// form than RFC 7636 section 4.1 asks for never does, even if its hash fits.
func VerifyS256(verifier string, challenge [sha256.Size]byte) bool {
	if len(verifier) < 43 || len(verifier) > 128 {
		return false
	}
	for i := 0; i < len(verifier); i++ {
		c := verifier[i]
		unreserved := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			c == '-' || c == '.' || c == '_' || c == '~'
		if !unreserved {
			return false
		}
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare(sum[:], challenge[:]) == 1
}
