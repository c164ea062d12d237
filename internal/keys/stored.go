package keys

import (
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/mintage/mintage/internal/grant"
)

// A Purpose is the one use of a key.
type Purpose string

const (
	MAC    Purpose = "mac"    // refresh and opaque access tokens
	Seal   Purpose = "seal"   // authorization codes, device codes and boxes
	Pepper Purpose = "pepper" // stored secrets and HMAC tags; never rotates
	Audit  Purpose = "audit"  // lines of the audit log

	// The signing keys, by the name of their algorithm in a JWS (RFC 7518
	// section 3.1, RFC 8037 section 3.1).
	ES256 Purpose = "ES256"
	EdDSA Purpose = "EdDSA"
	RS256 Purpose = "RS256"
)

// Registration is the purpose of keys that seal the registrations of clients which
// registered themselves (RFC 7591). Its keys are kept for RegistrationRetention after
// their successor key came into use.
const Registration Purpose = "registration"

// Purposes lists the purposes that every ring must have. A ring of an earlier
// version has no Audit key until a server has made one.
var Purposes = []Purpose{MAC, Seal, Pepper}

// SigningAlgorithms lists the purposes of signing keys: the only algorithms
// that a JWT may name. The first one is the default.
var SigningAlgorithms = []Purpose{ES256, EdDSA, RS256}

// Signs reports whether p is the purpose of a signing key.
func (p Purpose) Signs() bool { return slices.Contains(SigningAlgorithms, p) }

// Stored is a key as the store has it, wrapped by the key-encryption key. Its instants never
// change. The wrapped form changes if the key is withdrawn or the key-encryption
// key is replaced.
type Stored struct {
	ID        grant.KeyID
	Purpose   Purpose
	CreatedAt grant.Instant
	// ActiveAt is when the key is first used for new tokens. It is used until the
	// next key's ActiveAt.
	ActiveAt grant.Instant
	Wrapped  []byte
}

// The wrapped form of a key is: version 1, fingerprint (4), nonce (12), ciphertext
// and tag. A withdrawn key has version 2 and, after the fingerprint, the instant
// (8); earlier versions of the program refuse it. The record's fields are
// associated data, so that an attacker with access to the store cannot turn one
// kind of key into another.
const (
	inUse     = 1
	withdrawn = 2
)

// WithdrawnAt returns when the key was declared untrusted, or zero.
func (r Stored) WithdrawnAt() grant.Instant {
	if len(r.Wrapped) < 13 || r.Wrapped[0] != withdrawn {
		return 0
	}
	return grant.Instant(binary.BigEndian.Uint64(r.Wrapped[5:]))
}

// WrappedBy returns the Fingerprint of the key-encryption key that wraps r, or ""
// if this version cannot read r.
func (r Stored) WrappedBy() string {
	if len(r.Wrapped) < 5 || r.Wrapped[0] != inUse && r.WithdrawnAt() == 0 {
		return ""
	}
	return hex.EncodeToString(r.Wrapped[1:5])
}
