package keys

import (
	"crypto/x509"
	"encoding/pem"
	"slices"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/grant"
)

// JWKS returns the public part of the signing keys that are next, active or
// retired (RFC 7517), by purpose. The active key of a purpose comes first, for
// verifiers that use only the first key.
func (r *Ring) JWKS(now grant.Instant, s Schedule) []jose.JSONWebKey {
	list := []jose.JSONWebKey{}
	for _, p := range SigningAlgorithms {
		var others []jose.JSONWebKey
		for _, rec := range r.lines[p] {
			l := r.life(rec, now, s)
			k := jose.JSONWebKey{Key: r.byID[l.ID].signer.public, KeyID: l.ID.String(), Algorithm: string(p), Use: "sig"}
			switch l.Phase {
			case Active:
				list = append(list, k)
			case Next, Retired:
				others = append(others, k)
			}
		}
		// The newest first.
		slices.Reverse(others)
		list = append(list, others...)
	}
	return list
}

// PublicPEM returns one key of JWKS as a PEM "PUBLIC KEY" (RFC 7468 section 13).
func (r *Ring) PublicPEM(kid string, now grant.Instant, s Schedule) ([]byte, bool) {
	id, ok := parseKeyID(kid)
	k := r.byID[id]
	if !ok || k == nil || k.signer == nil || !r.good(id, now, s) {
		return nil, false
	}
	der, err := x509.MarshalPKIXPublicKey(k.signer.public)
	if err != nil {
		panic(err) // only for a type that no purpose has
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), true
}
