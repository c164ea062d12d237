package keyset_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/fetch"
	"github.com/mintage/mintage/internal/keyset"
)

// A publisher is a server with a key set and a settable clock.
type publisher struct {
	*httptest.Server
	fetches atomic.Int64
	body    atomic.Pointer[[]byte] // nil for a 500
	now     time.Time
}

func newPublisher(t *testing.T) *publisher {
	p := &publisher{now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.fetches.Add(1)
		body := p.body.Load()
		if body == nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/jwk-set+json")
		w.Write(*body)
	}))
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.StartTLS()
	t.Cleanup(p.Close)
	return p
}

// publish serves a key set with one ES256 key.
func (p *publisher) publish(t *testing.T, kid string) {
	body, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: newES256(t), KeyID: kid}}})
	if err != nil {
		t.Fatal(err)
	}
	p.body.Store(&body)
}

func newES256(t *testing.T) *ecdsa.PublicKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &key.PublicKey
}

// ca returns the server's certificate in PEM.
func (p *publisher) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}))
}

// outside returns a client for which example.com is the publisher, at a public address.
func (p *publisher) outside() *fetch.Client {
	roots := x509.NewCertPool()
	roots.AddCert(p.Certificate())
	return &fetch.Client{
		Roots: roots,
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", p.Listener.Addr().String())
		},
	}
}

func has(kid string) func(keyset.Set) bool {
	return func(s keyset.Set) bool { return s.Has(kid, jose.ES256) }
}

// TestKeysOfClientsThatRegisteredThemselvesAreFetchedInPublicOnly: an operator's client
// may have its keys on a private network; a self-registered client cannot make the server
// connect there.
func TestKeysOfClientsThatRegisteredThemselvesAreFetchedInPublicOnly(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	p.publish(t, "a")
	told := map[string]error{}
	c := keyset.NewCache(func() time.Time { return p.now }, &fetch.Client{}, func(address string, err error) { told[address] = err })
	if set, err := c.Registered(t.Context(), p.URL+"/jwks", p.ca(), time.Time{}, has("a")); err != nil || len(set) != 1 {
		t.Fatalf("an operator's: %d keys, %v", len(set), err)
	}
	before := p.fetches.Load()
	_, port, _ := net.SplitHostPort(p.Listener.Addr().String())
	for _, uri := range []string{p.URL + "/jwks", "https://localhost:" + port, "https://[::ffff:127.0.0.1]:" + port, "https://2130706433:" + port, "http://example.com/jwks"} {
		if _, err := c.SelfRegistered(t.Context(), uri, netip.Prefix{}, nil); !errors.Is(err, fetch.ErrAddress) {
			t.Errorf("%s: %v", uri, err)
		}
		if !errors.Is(told[uri], fetch.ErrAddress) {
			t.Errorf("%s: noted as %v", uri, told[uri])
		}
	}
	if n := p.fetches.Load(); n != before {
		t.Errorf("%d fetches from inside", n-before)
	}
	c = keyset.NewCache(func() time.Time { return p.now }, p.outside(), nil)
	if set, err := c.SelfRegistered(t.Context(), "https://example.com/jwks", netip.Prefix{}, has("a")); err != nil || len(set) != 1 {
		t.Errorf("in public: %d keys, %v", len(set), err)
	}
}

// TestKeysAreFetchedForAnUnknownKidOnceAndServeADay tests the keys of operators' clients
// and of self-registered ones.
func TestKeysAreFetchedForAnUnknownKidOnceAndServeADay(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	c := keyset.NewCache(func() time.Time { return p.now }, p.outside(), nil)
	for name, get := range map[string]func(kid string) (keyset.Set, error){
		"operator's": func(kid string) (keyset.Set, error) {
			return c.Registered(t.Context(), p.URL, p.ca(), time.Time{}, has(kid))
		},
		"own": func(kid string) (keyset.Set, error) {
			return c.SelfRegistered(t.Context(), "https://example.com/", netip.MustParsePrefix("192.0.2.0/24"), has(kid))
		},
	} {
		p.fetches.Store(0)
		p.publish(t, "a")
		expect := func(when, kid string, there bool, fetches int64) {
			t.Helper()
			set, err := get(kid)
			if (err == nil && set.Has(kid, jose.ES256)) != there || p.fetches.Load() != fetches {
				t.Errorf("%s, %s: %d keys after %d fetches, want %d: %v", name, when, len(set), p.fetches.Load(), fetches, err)
			}
		}
		expect("first", "a", true, 1)
		expect("again", "a", true, 1)
		p.publish(t, "b")
		expect("an unknown kid at once", "b", false, 1)
		p.now = p.now.Add(time.Minute)
		expect("an unknown kid", "b", true, 2)
		expect("the key that was rotated out", "a", false, 2)
		p.body.Store(nil)
		p.now = p.now.Add(6 * time.Minute)
		expect("while they cannot be fetched", "b", true, 3)
		p.now = p.now.Add(23 * time.Hour)
		expect("most of a day later", "b", true, 4)
		p.now = p.now.Add(time.Hour)
		expect("after a day", "b", false, 5)
	}
}

// TestKeysOfBeforeATrustDoNotCount: an operator deletes a trust because a key was stolen,
// and creates it again when the issuer has a new key.
func TestKeysOfBeforeATrustDoNotCount(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	c := keyset.NewCache(func() time.Time { return p.now }, p.outside(), nil)
	p.publish(t, "stolen")
	first := p.now
	expect := func(when string, since time.Time, kid string, there bool, fetches int64) {
		t.Helper()
		set, err := c.Registered(t.Context(), p.URL, p.ca(), since, has(kid))
		if (err == nil && set.Has(kid, jose.ES256)) != there || p.fetches.Load() != fetches {
			t.Errorf("%s: %d keys after %d fetches, want %d: %v", when, len(set), p.fetches.Load(), fetches, err)
		}
	}
	expect("the first trust", first, "stolen", true, 1)
	p.now = p.now.Add(10 * time.Second)
	p.publish(t, "new")
	expect("a trust of another node, whose clock is ahead", p.now.Add(time.Hour), "stolen", true, 1)
	again := p.now
	expect("the trust again", again, "stolen", false, 2)
	expect("the new key", again, "new", true, 2)
	p.now = p.now.Add(10 * time.Second)
	p.body.Store(nil)
	expect("once more, while they cannot be fetched", p.now, "new", false, 3)
}

// TestWhichKeysVerifyWhat: a key fits the algorithms of its type, unless its set
// restricts them.
func TestWhichKeysVerifyWhat(t *testing.T) {
	t.Parallel()
	ed, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ordinary, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	small, err := rsa.GenerateKey(rand.Reader, 2040)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: newES256(t), KeyID: "es"}, {Key: ed, KeyID: "ed"}, {Key: &ordinary.PublicKey, KeyID: "rsa"}, {Key: &ordinary.PublicKey, KeyID: "ps", Algorithm: "PS256"},
		{Key: &small.PublicKey, KeyID: "small"}, {Key: newES256(t), KeyID: "enc", Use: "enc"}, {Key: &p384.PublicKey, KeyID: "p384"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := keyset.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	for kid, want := range map[string]map[jose.SignatureAlgorithm]bool{
		"es": {jose.ES256: true}, "ed": {jose.EdDSA: true}, "rsa": {jose.PS256: true, jose.RS256: true}, "ps": {jose.PS256: true}, "enc": {}, "p384": {}, "small": {}, "other": {},
	} {
		for _, alg := range append([]jose.SignatureAlgorithm{jose.HS256, jose.ES384}, keyset.Algorithms...) {
			if set.Has(kid, alg) != want[alg] {
				t.Errorf("%s has a key for %s: %t", kid, alg, !want[alg])
			}
		}
	}
	if n := len(set.Find("", jose.PS256)); n != 2 {
		t.Errorf("without a kid, %d keys for PS256", n)
	}
}

// TestInvalidKeySets: invalid key sets are rejected.
func TestInvalidKeySets(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key, KeyID: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	var many jose.JSONWebKeySet
	for range 101 {
		many.Keys = append(many.Keys, jose.JSONWebKey{Key: &key.PublicKey})
	}
	crowd, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"a private key": string(private), "too many": string(crowd), "none": `{"keys":[]}`, "a list": `[]`,
		"a secret": `{"keys":[{"kty":"oct","k":"AAAA"}]}`, "unknown types": `{"keys":[{"kty":"x"},7]}`,
	} {
		if set, err := keyset.Parse([]byte(body)); err == nil {
			t.Errorf("%s: %d keys", name, len(set))
		}
	}
}

// TestKeysByTheMetadataOfAnIssuer: the metadata must contain the exact issuer, and are
// found at either of two addresses.
func TestKeysByTheMetadataOfAnIssuer(t *testing.T) {
	t.Parallel()
	p := newPublisher(t)
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: newES256(t), KeyID: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	var issuer string
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/a/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/b", "/.well-known/openid-configuration":
			json.NewEncoder(w).Encode(map[string]string{"issuer": issuer, "jwks_uri": p.URL + "/keys"})
		case "/keys":
			w.Write(keys)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	for name, row := range map[string]struct {
		asked, says string
		there       bool
	}{
		"OpenID Connect":                 {p.URL + "/a", p.URL + "/a", true},
		"RFC 8414":                       {p.URL + "/b", p.URL + "/b", true},
		"without a path":                 {p.URL, p.URL, true},
		"another issuer":                 {p.URL + "/a", p.URL + "/b", false},
		"the issuer with a slash":        {p.URL + "/a", p.URL + "/a/", false},
		"no metadata":                    {p.URL + "/c", p.URL + "/c", false},
		"without TLS":                    {"http" + p.URL[len("https"):], "http" + p.URL[len("https"):], false},
		"what is no address of a server": {"job@example.com", "job@example.com", false},
	} {
		issuer = row.says
		c := keyset.NewCache(func() time.Time { return p.now }, p.outside(), nil)
		set, err := c.Discovered(t.Context(), row.asked, p.ca(), time.Time{}, has("a"))
		if (err == nil && set.Has("a", jose.ES256)) != row.there {
			t.Errorf("%s: %d keys, %v", name, len(set), err)
		}
	}
}
