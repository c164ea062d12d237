package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
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

// ChallengeOf returns the S256 code challenge of a verifier (RFC 7636 section 4.2).
func ChallengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// IsVerifier reports whether s has the form of a code verifier: 43 to 128
// unreserved characters (RFC 7636 section 4.1).
func IsVerifier(s string) bool {
	const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	return len(s) >= 43 && len(s) <= 128 && strings.Trim(s, unreserved) == ""
}

// VerifyS256 reports whether challenge is the S256 challenge of verifier. It returns
// false if verifier does not have the form of a verifier, even if the hash is the same.
func VerifyS256(verifier string, challenge [sha256.Size]byte) bool {
	if !IsVerifier(verifier) {
		return false
	}
	sum := sha256.Sum256([]byte(verifier))
	return subtle.ConstantTimeCompare(sum[:], challenge[:]) == 1
}
