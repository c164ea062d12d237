package resource

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

const (
	maxKeySet = 256 << 10 // bytes
	maxKeys   = 100
)

// algorithms are the accepted signature algorithms. The algorithm that a token names
// is only compared with this list and with the key's own (RFC 8725 section 3.1).
var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256}

// A keySet holds a server's public signature keys by their kid.
type keySet map[string]publicKey

type publicKey struct {
	algorithm jose.SignatureAlgorithm
	key       any // as go-jose takes it
}

func (v *Verifier) keysAddress(ctx context.Context) (string, error) {
	m, err := v.metadata.get(ctx)
	return m.JWKS, err
}

// parseKeySet decodes a JWKS. It ignores keys of unknown types and keys that cannot
// sign tokens (RFC 7517 section 5). It fails if two keys have one kid, or if no key
// is left.
func parseKeySet(body []byte) (keySet, error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, err
	}
	if len(document.Keys) > maxKeys {
		return nil, fmt.Errorf("more than %d keys", maxKeys)
	}
	set := keySet{}
	for _, raw := range document.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(raw, &k) != nil || k.KeyID == "" || k.Use != "" && k.Use != "sig" {
			continue
		}
		algorithm := algorithmOf(k.Key)
		if algorithm == "" || k.Algorithm != "" && k.Algorithm != string(algorithm) {
			continue
		}
		if _, ok := set[k.KeyID]; ok {
			return nil, fmt.Errorf("two keys are called %q", k.KeyID)
		}
		set[k.KeyID] = publicKey{algorithm, k.Key}
	}
	if len(set) == 0 {
		return nil, errors.New("no key for ES256, EdDSA or RS256")
	}
	return set, nil
}

// algorithmOf returns the one algorithm of a public key, if any. It rejects RSA keys of
// less than 2048 bits; go-jose rejects those so long that verification is slow.
func algorithmOf(key any) jose.SignatureAlgorithm {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() {
			return jose.ES256
		}
	case ed25519.PublicKey:
		return jose.EdDSA
	case *rsa.PublicKey:
		if k.N.BitLen() >= 2048 {
			return jose.RS256
		}
	}
	return ""
}

// open verifies the signature of a JWT of one of these types by the server's keys,
// and returns its claims. Its errors are ErrInvalidToken and ErrUnavailable.
func (v *Verifier) open(ctx context.Context, text string, types ...string) ([]byte, error) {
	for part := range strings.SplitSeq(text, ".") {
		// Accept one spelling only: go-jose ignores bits beyond the last byte.
		if _, err := base64.RawURLEncoding.Strict().DecodeString(part); err != nil {
			return nil, invalid("not base64url")
		}
	}
	// go-jose's errors quote the token, so they are not returned.
	jws, err := jose.ParseSignedCompact(text, algorithms)
	if err != nil {
		return nil, invalid("not a JWS with ES256, EdDSA or RS256")
	}
	h := jws.Signatures[0].Protected
	for _, name := range []jose.HeaderKey{"crit", "b64"} {
		if _, ok := h.ExtraHeaders[name]; ok {
			return nil, invalid("a header extension that is not understood") // RFC 7515 section 4.1.11
		}
	}
	// The type keeps tokens of one purpose from being used for another (RFC 8725
	// section 3.11).
	if typ, _ := h.ExtraHeaders[jose.HeaderType].(string); !slices.Contains(types, typ) {
		return nil, invalid("unexpected typ header")
	}
	k, err := v.key(ctx, h.KeyID)
	if err != nil {
		return nil, err
	}
	if h.Algorithm != string(k.algorithm) {
		return nil, invalid("the key is for another algorithm")
	}
	claims, err := jws.Verify(k.key)
	if err != nil {
		return nil, invalid("wrong signature")
	}
	return claims, nil
}

// key finds the key that a token names. An unknown key may be new, so the set is
// loaded again, at most as often as document.newer allows: unauthenticated callers
// can invent names.
func (v *Verifier) key(ctx context.Context, id string) (publicKey, error) {
	set, err := v.keys.get(ctx)
	if err != nil {
		return publicKey{}, err
	}
	k, ok := set[id]
	if !ok && id != "" {
		if set, err = v.keys.newer(ctx); err != nil {
			return publicKey{}, err
		}
		k, ok = set[id]
	}
	if !ok {
		return publicKey{}, invalid("signed by no key of the server")
	}
	return k, nil
}
