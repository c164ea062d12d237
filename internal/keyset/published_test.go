package keyset_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"math"
	"math/big"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/keyset"
)

// modulus returns an odd number of a bit length. It is not a product of two primes, but a
// verifier cannot detect that.
func modulus(t *testing.T, bits int) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits-1)))
	if err != nil {
		t.Fatal(err)
	}
	return n.SetBit(n.SetBit(n, bits-1, 1), 0, 1)
}

func setOf(t *testing.T, list ...jose.JSONWebKey) []byte {
	t.Helper()
	body, err := json.Marshal(jose.JSONWebKeySet{Keys: list})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestWhichRSAKeysAreAccepted tests keys of self-registered clients, at addresses that
// operators registered, and inline in existing registrations, which are limited only when
// they are made.
func TestWhichRSAKeysAreAccepted(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	// Each case uses another address, so that nothing is cached.
	fetch := func(name string, operators bool) (keyset.Set, error) {
		c := keyset.NewCache(func() time.Time { return p.now }, p.outside(), nil)
		if operators {
			return c.Registered(t.Context(), p.URL+"/"+name, p.ca(), time.Time{}, nil)
		}
		return c.SelfRegistered(t.Context(), "https://example.com/"+name, netip.Prefix{}, nil)
	}
	for name, tt := range map[string]struct {
		bits, e                      int
		own, ofOperators, registered bool
	}{
		"1024":            {1024, 65537, false, false, false},
		"2047":            {2047, 65537, false, false, false},
		"2048":            {2048, 65537, true, true, true},
		"4096":            {4096, 65537, true, true, true},
		"4097":            {4097, 65537, false, false, false}, // go-jose reads no key of this size
		"exponent-3":      {2048, 3, false, true, true},
		"exponent-5":      {2048, 5, false, false, true},
		"exponent-65539":  {2048, 65539, false, false, true},
		"a-huge-exponent": {2048, math.MaxInt32, false, false, true},
	} {
		body := setOf(t, jose.JSONWebKey{Key: &rsa.PublicKey{N: modulus(t, tt.bits), E: tt.e}, KeyID: "a"})
		p.body.Store(&body)
		for who, c := range map[string]struct {
			want bool
			read func() (keyset.Set, error)
		}{
			"a client's own":    {tt.own, func() (keyset.Set, error) { return fetch(name, false) }},
			"at an operator's":  {tt.ofOperators, func() (keyset.Set, error) { return fetch(name, true) }},
			"registered before": {tt.registered, func() (keyset.Set, error) { return keyset.Parse(body) }},
		} {
			set, err := c.read()
			if (err == nil) != c.want || c.want && !set.Has("a", jose.RS256) {
				t.Errorf("%s, %s: accepted %t: %v", name, who, err == nil, err)
			}
		}
	}
}

// TestAPublishedSetHasTenKeysAtMost: keys that cannot verify a signature do not count.
func TestAPublishedSetHasTenKeysAtMost(t *testing.T) {
	t.Parallel()
	var list []jose.JSONWebKey
	for i := range 10 {
		list = append(list, jose.JSONWebKey{Key: newES256(t), KeyID: strconv.Itoa(i)}, jose.JSONWebKey{Key: newES256(t), KeyID: strconv.Itoa(i), Use: "enc"})
	}
	for _, operators := range []bool{true, false} {
		if set, err := keyset.ParseFetched(setOf(t, list...), operators); err != nil || len(set) != 10 {
			t.Errorf("operators' %t: %d of ten keys: %v", operators, len(set), err)
		}
		if _, err := keyset.ParseFetched(setOf(t, append(list, jose.JSONWebKey{Key: newES256(t)})...), operators); err == nil {
			t.Errorf("operators' %t: eleven keys were accepted", operators)
		}
	}
	// An attack from practice: 63 KB of RSA keys with a huge exponent and without a kid
	// made each request cost 0.2 s.
	list = nil
	for range 87 {
		list = append(list, jose.JSONWebKey{Key: &rsa.PublicKey{N: modulus(t, 4096), E: math.MaxInt32}})
	}
	if set, err := keyset.ParseFetched(setOf(t, list...), false); err == nil {
		t.Errorf("87 keys with a huge exponent: %d were accepted", len(set))
	}
}

// TestMembersOfNullAreAbsent: a fetched key set may have the member "jwks" with null.
func TestMembersOfNullAreAbsent(t *testing.T) {
	t.Parallel()
	body := append([]byte(`{"jwks":null,`), setOf(t, jose.JSONWebKey{Key: newES256(t), KeyID: "a"})[1:]...)
	if set, err := keyset.ParseFetched(body, false); err != nil || !set.Has("a", jose.ES256) {
		t.Errorf("%d keys, %v", len(set), err)
	}
}
