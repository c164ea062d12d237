package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/fetch"
)

// keySet holds the provider's keys. It fetches them again for a kid that it does not
// have and for a signature that does not verify, at most once a minute: anybody can
// send a logout token with a made-up kid.
type keySet struct {
	address string
	keys    *fetch.Cache[[]jose.JSONWebKey]
}

func (p *Provider) keySet(address string) *keySet {
	get := func(ctx context.Context, address string) (fetch.Answer, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return fetch.Answer{}, err
		}
		resp, err := p.client.Do(r)
		if err != nil {
			return fetch.Answer{}, err
		}
		body, err := io.ReadAll(resp.Body) // in memory: see transport
		return fetch.Answer{Body: body, Fresh: keepFor}, err
	}
	return &keySet{address, fetch.NewCache(get, readKeys, p.cfg.Now)}
}

// readKeys decodes a key set. It ignores keys of unknown types (RFC 7517 section 5).
func readKeys(_ string, body []byte) (list []jose.JSONWebKey, err error) {
	var set struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, err
	}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && key.IsPublic() {
			list = append(list, key)
		}
	}
	return list, nil
}

// VerifySignature returns the payload of a JWT that one of the keys verifies.
func (s *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	var algorithms []jose.SignatureAlgorithm
	for _, alg := range asymmetric { // the verifier checks that the provider uses it
		algorithms = append(algorithms, jose.SignatureAlgorithm(alg))
	}
	signed, err := jose.ParseSignedCompact(jwt, algorithms)
	if err != nil {
		return nil, errors.New("not a signed JWT")
	}
	kid := signed.Signatures[0].Header.KeyID
	fits := func(key jose.JSONWebKey) bool { return kid == "" || key.KeyID == kid }
	for _, enough := range []func([]jose.JSONWebKey) bool{
		func(keys []jose.JSONWebKey) bool { return slices.ContainsFunc(keys, fits) },
		func([]jose.JSONWebKey) bool { return false }, // the provider may have replaced a key under its kid
	} {
		keys, err := s.keys.Get(ctx, s.address, netip.Prefix{}, enough)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if !fits(key) {
				continue
			}
			if payload, err := signed.Verify(key); err == nil {
				return payload, nil
			}
		}
	}
	return nil, errors.New("none of the provider's keys verifies the signature")
}
