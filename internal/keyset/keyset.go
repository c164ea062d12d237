// Package keyset reads sets of public keys (RFC 7517 section 5), by which signatures of
// clients and other issuers are verified.
package keyset

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// Algorithms are the accepted signature algorithms. The HS family is not among
// them, because every party that can verify can also sign.
var Algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.PS256, jose.RS256}

const (
	// maxKeys limits the keys of a set, including those that cannot verify signatures.
	// maxFetched limits the keys of a fetched set that can.
	maxKeys, maxFetched = 100, 10
	// minRSA and maxRSA limit the bits of RSA keys (RFC 7518 section 3.3). maxRSA and the
	// exponents apply to fetched keys and new registrations, not to keys registered earlier.
	minRSA, maxRSA = 2048, 4096
	// exponent is the public exponent of nearly every RSA key. A large exponent makes
	// verification slow. Keys that operators register may also have operatorsExponent.
	exponent, operatorsExponent = 65537, 3
)

// A Set holds public keys for signatures.
type Set []jose.JSONWebKey

// Parse decodes a key set. It ignores keys of unknown types and keys that cannot
// verify signatures (RFC 7517 section 5), and fails if none is left or if one of
// them is private.
func Parse(body []byte) (Set, error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &document); errors.As(err, new(*json.UnmarshalTypeError)) {
		return nil, errors.New("not a key set: an object with a list of keys (RFC 7517 section 5)")
	} else if err != nil {
		return nil, fmt.Errorf("decode key set: %w", err)
	}
	if len(document.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys, and %d are allowed", len(document.Keys), maxKeys)
	}
	var set Set
	for _, raw := range document.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) != nil {
			continue
		}
		_, symmetric := key.Key.([]byte)
		if !symmetric && !key.IsPublic() {
			return nil, errors.New("the key set has a private key: leave out its private members, and replace the key")
		}
		if slices.ContainsFunc(Algorithms, func(alg jose.SignatureAlgorithm) bool { return fits(key, alg) }) {
			set = append(set, key)
		}
	}
	if len(set) == 0 {
		return nil, ErrNone
	}
	return set, nil
}

// ErrNone is the error about a set without an accepted key.
var ErrNone = errors.New("the key set has no public key for ES256, EdDSA, PS256 or RS256 (RSA keys have 2048 to 4096 bits and the exponent 65537)")

// ParseFetched is Parse for a key set that a client, or its provider, publishes. It
// fails if more than maxFetched keys can verify signatures. Operators reports whether an
// operator has registered the address: RSA keys may then have the exponent 3. Otherwise,
// body may be a client's metadata document with the member jwks (RFC 7591 section 2).
func ParseFetched(body []byte, operators bool) (Set, error) {
	var document struct {
		Keys json.RawMessage `json:"jwks"`
	}
	if !operators && json.Unmarshal(body, &document) == nil && len(document.Keys) > 0 && string(document.Keys) != "null" {
		body = document.Keys
	}
	set, err := Parse(body)
	if err != nil {
		return nil, err
	}
	set = set.Bounded(operators, nil)
	switch {
	case len(set) == 0:
		return nil, ErrNone
	case len(set) > maxFetched:
		return nil, fmt.Errorf("the key set has %d keys for signatures, and %d are allowed: remove old ones", len(set), maxFetched)
	}
	return set, nil
}

// Bounded returns s without RSA keys that are slow to verify with, unless they are in
// before. It modifies s.
func (s Set) Bounded(operators bool, before Set) Set {
	return slices.DeleteFunc(s, func(key jose.JSONWebKey) bool {
		k, ok := key.Key.(*rsa.PublicKey)
		bounded := !ok || k.N.BitLen() <= maxRSA && (k.E == exponent || k.E == operatorsExponent && operators)
		return !bounded && !slices.ContainsFunc(before, func(old jose.JSONWebKey) bool { return k.Equal(old.Key) })
	})
}

// Find returns the keys for an algorithm that have a kid, or all of them if the kid
// is "".
func (s Set) Find(kid string, alg jose.SignatureAlgorithm) (list []jose.JSONWebKey) {
	for _, key := range s {
		if (kid == "" || key.KeyID == kid) && fits(key, alg) {
			list = append(list, key)
		}
	}
	return list
}

// fits reports whether a key verifies signatures of an algorithm.
func fits(key jose.JSONWebKey, alg jose.SignatureAlgorithm) bool {
	if key.Use != "" && key.Use != "sig" || key.Algorithm != "" && key.Algorithm != string(alg) {
		return false
	}
	switch k := key.Key.(type) {
	case *ecdsa.PublicKey:
		return alg == jose.ES256 && k.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return alg == jose.EdDSA
	case *rsa.PublicKey:
		return (alg == jose.PS256 || alg == jose.RS256) && k.N.BitLen() >= minRSA
	}
	return false
}

// Has reports whether a key for an algorithm has a kid.
func (s Set) Has(kid string, alg jose.SignatureAlgorithm) bool { return len(s.Find(kid, alg)) > 0 }

// Roots returns the system's certificates with those of a PEM text; nil, which stands
// for the system's, if the text is empty.
func Roots(ca string) (*x509.CertPool, error) {
	if ca == "" {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM([]byte(ca)) {
		return nil, errors.New("no certificate in PEM")
	}
	return pool, nil
}
