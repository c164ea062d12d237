package client_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	realm         = testkit.Realm
	issuerID      = "https://auth.example/oauth2/api"
	tokenEndpoint = "https://auth.example/oauth2/api/access_token"
)

// A signer signs assertions.
type signer struct {
	t   testing.TB
	key crypto.Signer
	alg jose.SignatureAlgorithm
	kid string
	typ string
	// more has further members of the header.
	more map[jose.HeaderKey]any
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func newSigner(t testing.TB, alg jose.SignatureAlgorithm) *signer {
	s := &signer{t: t, alg: alg, kid: "k1"}
	var err error
	switch alg {
	case jose.EdDSA:
		_, s.key, err = ed25519.GenerateKey(rand.Reader)
	case jose.ES256:
		s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		s.key = rsaKey()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *signer) set() json.RawMessage {
	b, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.key.Public(), KeyID: s.kid}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// private returns the set with the private key, which a client must not register.
func (s *signer) private() json.RawMessage {
	b, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.key, KeyID: s.kid}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func asInvalid(err error, to **oauth.Invalid) bool { return errors.As(err, to) }

var from netip.Addr

func (s *signer) sign(claims map[string]any) oauth.Secret {
	s.t.Helper()
	opt := &jose.SignerOptions{ExtraHeaders: maps.Clone(s.more)}
	if s.typ != "" {
		opt.WithType(jose.ContentType(s.typ))
	}
	made, err := jose.NewSigner(jose.SigningKey{Algorithm: s.alg, Key: jose.JSONWebKey{Key: s.key, KeyID: s.kid}}, opt)
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		s.t.Fatal(err)
	}
	signed, err := made.Sign(body)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		s.t.Fatal(err)
	}
	return oauth.Secret(text)
}

// A bench is the fixture: an authenticator, and a client that signs assertions for it.
type bench struct {
	*testkit.Kit
	auth   *client.Authenticator
	signer *signer
	jti    int
}

func newBench(t *testing.T) *bench {
	kit := testkit.New(t)
	b := &bench{Kit: kit, signer: newSigner(t, jose.ES256)}
	b.auth = b.authenticator()
	b.Register(client.Registration{ID: "orders", Settings: store.Settings{Name: "Orders", Scope: "read", GrantTypes: []string{}, Auth: store.AuthPrivateKeyJWT, Assertion: store.AssertionRule{Keys: b.signer.set()}}})
	return b
}

func (b *bench) authenticator() *client.Authenticator {
	began := b.Clock.Now()
	return &client.Authenticator{
		Realm: testkit.Realm, Store: b.Faulty, Directory: b.Directory, Now: b.Clock.Now, Log: b.Log, Slow: client.NewSlowPool(),
		Issuer: issuerID, TokenEndpoint: []string{tokenEndpoint}, Running: func() time.Duration { return b.Clock.Now().Sub(began) },
	}
}

// claims returns the claims of a valid assertion with changes. A nil value removes a
// claim.
func (b *bench) claims(change map[string]any) map[string]any {
	b.jti++
	now := b.Clock.Now().Unix()
	c := map[string]any{"iss": "orders", "sub": "orders", "aud": issuerID, "jti": fmt.Sprint(b.jti), "iat": now, "exp": now + 60}
	for name, value := range change {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

func (b *bench) present(a *client.Authenticator, text oauth.Secret) error {
	_, err := a.Authenticate(b.T.Context(), oauth.Credentials{ClientID: "orders", Assertion: text, Method: oauth.AuthPrivateKeyJWT}, from)
	return err
}

// failed returns the claim for which an assertion was refused, or "" if the client was
// authenticated.
func failed(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var fault *client.AssertionFault
	if !errors.As(err, &fault) || !errors.Is(err, client.ErrClient) {
		t.Errorf("got %v, which is not an AssertionFault", err)
		return "another error"
	}
	return fault.Claim
}

// TestAssertions: RFC 7523 section 3, and the limits of this service.
func TestAssertions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := b.Clock.Now().Unix()
	for name, tt := range map[string]struct {
		change map[string]any
		wrong  string
	}{
		"good":                            {nil, ""},
		"aud as a list of one":            {map[string]any{"aud": []string{issuerID}}, ""},
		"aud as a list of two":            {map[string]any{"aud": []string{issuerID, "https://other.example"}}, "aud"},
		"aud is the token endpoint":       {map[string]any{"aud": tokenEndpoint}, "aud"},
		"aud is another server":           {map[string]any{"aud": "https://other.example"}, "aud"},
		"without aud":                     {map[string]any{"aud": nil}, "aud"},
		"iss of another client":           {map[string]any{"iss": "billing"}, "iss"},
		"without iss":                     {map[string]any{"iss": nil}, "iss"},
		"sub of another client":           {map[string]any{"sub": "billing"}, "sub"},
		"without jti":                     {map[string]any{"jti": nil}, "jti"},
		"jti of 256 bytes":                {map[string]any{"jti": strings.Repeat("j", 256)}, "jti"},
		"without exp":                     {map[string]any{"exp": nil}, "exp"},
		"expired":                         {map[string]any{"exp": now}, "exp"},
		"lives 300 s":                     {map[string]any{"exp": now + 300}, ""},
		"lives 301 s":                     {map[string]any{"exp": now + 301}, "exp"},
		"exp 360 s ahead, iat 30 s ahead": {map[string]any{"iat": now + 30, "exp": now + 330}, ""},
		"without iat, exp 360 s ahead":    {map[string]any{"iat": nil, "exp": now + 360}, ""},
		"without iat, exp 362 s ahead":    {map[string]any{"iat": nil, "exp": now + 362}, "exp"},
		"iat 10 s ahead (FAPI 2.0)":       {map[string]any{"iat": now + 10}, ""},
		"iat 31 s ahead":                  {map[string]any{"iat": now + 31, "exp": now + 100}, "iat"},
		"iat 61 s ahead":                  {map[string]any{"iat": now + 61, "exp": now + 100}, "iat"},
		"issued in 1970":                  {map[string]any{"iat": 1}, "exp"},
		"nbf 10 s ahead":                  {map[string]any{"nbf": now + 10}, ""},
		"nbf 30 s ahead":                  {map[string]any{"nbf": now + 30}, ""},
		"nbf 31 s ahead":                  {map[string]any{"nbf": now + 31}, "nbf"},
		"nbf 61 s ahead":                  {map[string]any{"nbf": now + 61}, "nbf"},
		"exp is a text":                   {map[string]any{"exp": "soon"}, "exp"},
		"exp is a fraction":               {map[string]any{"exp": float64(now) + 60.5}, ""},
	} {
		if got := failed(t, b.present(b.auth, b.signer.sign(b.claims(tt.change)))); got != tt.wrong {
			t.Errorf("%s: the fault is %q, want %q", name, got, tt.wrong)
		}
	}
	b.Administer("orders", func(c *store.Client) { c.Assertion.TokenEndpoint = true })
	for aud, wrong := range map[string]string{issuerID: "", tokenEndpoint: "", "https://other.example": "aud"} {
		if got := failed(t, b.present(b.auth, b.signer.sign(b.claims(map[string]any{"aud": aud})))); got != wrong {
			t.Errorf("with the token endpoint as an audience, aud %s: the fault is %q, want %q", aud, got, wrong)
		}
	}
}

// TestAssertionHeaders: the registration determines the algorithm, and tokens of other
// types are not assertions (RFC 8725 sections 3.1 and 3.11).
func TestAssertionHeaders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	check := func(what string, text oauth.Secret, wrong string) {
		t.Helper()
		if got := failed(t, b.present(b.auth, text)); got != wrong {
			t.Errorf("%s: the fault is %q, want %q", what, got, wrong)
		}
	}
	other := newSigner(t, jose.ES256)
	check("another key with the same kid", other.sign(b.claims(nil)), "signature")
	other.kid = "k2"
	check("a kid that the client lacks", other.sign(b.claims(nil)), "kid")
	nameless := *b.signer
	nameless.kid = ""
	check("no kid", nameless.sign(b.claims(nil)), "")
	check("another algorithm", newSigner(t, jose.EdDSA).sign(b.claims(nil)), "alg")
	made, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(b.signer.set())}, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(b.claims(nil))
	signed, _ := made.Sign(body)
	text, _ := signed.CompactSerialize()
	check("HS256 with the public key as the secret", oauth.Secret(text), "alg")
	check("alg none", oauth.Secret("eyJhbGciOiJub25lIn0."+strings.Split(string(b.signer.sign(b.claims(nil))), ".")[1]+"."), "alg")
	for typ, wrong := range map[string]string{"JWT": "", "client-authentication+jwt": "", "at+jwt": "typ", "application/at+jwt": "typ", "AT+JWT": "typ", "logout+jwt": "typ", "secevent+jwt": "typ", "dpop+jwt": "typ", "oauth-id-jag+jwt": "typ", "application/OAuth-ID-JAG+jwt": "typ"} {
		typed := *b.signer
		typed.typ = typ
		check("typ "+typ, typed.sign(b.claims(nil)), wrong)
	}
	// A verifier must support these extensions or refuse them (RFC 7515 section 4.1.11).
	for member, value := range map[jose.HeaderKey]any{"b64": true, "crit": []string{}, "zip": "DEF"} {
		extended := *b.signer
		extended.more = map[jose.HeaderKey]any{member: value}
		check("with "+string(member), extended.sign(b.claims(nil)), string(member))
	}
	good := string(b.signer.sign(b.claims(nil)))
	check("one bit of the signature", oauth.Secret(good[:len(good)-10]+flip(good[len(good)-10:])), "signature")
	check("no JWT", "abc", "alg")
}

func flip(s string) string {
	if s[0] == 'A' {
		return "B" + s[1:]
	}
	return "A" + s[1:]
}

// TestAssertionAlgorithms: each of the four algorithms is accepted with its own key only.
func TestAssertionAlgorithms(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, alg := range keyset.Algorithms {
		s := newSigner(t, alg)
		b.Administer("orders", func(c *store.Client) { c.Assertion.Alg, c.Assertion.Keys = string(alg), s.set() })
		if got := failed(t, b.present(b.auth, s.sign(b.claims(nil)))); got != "" {
			t.Errorf("%s: the fault is %q", alg, got)
		}
	}
	// RS256 with the key of PS256 is refused.
	s := newSigner(t, jose.RS256)
	b.Administer("orders", func(c *store.Client) { c.Assertion.Alg = string(jose.PS256) })
	if got := failed(t, b.present(b.auth, s.sign(b.claims(nil)))); got != "alg" {
		t.Errorf("RS256 for PS256: the fault is %q", got)
	}
}

// TestPublishedKeysAndTheirKids: a kid selects the key among the published keys of a
// client or its provider. At most two keys with the same kid are tried, and none after the
// request has ended.
func TestPublishedKeysAndTheirKids(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	others := []*signer{newSigner(t, jose.ES256), newSigner(t, jose.ES256)}
	publish := func(list ...*signer) {
		var set keyset.Set
		for _, s := range list {
			set = append(set, jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid})
		}
		b.auth.Keys = func(context.Context, string, string, time.Time, func(keyset.Set) bool) (keyset.Set, error) {
			return set, nil
		}
	}
	b.Administer("orders", func(c *store.Client) { c.Assertion.Keys, c.Assertion.KeysURI = nil, "https://orders.example/jwks" })
	for _, tt := range []struct {
		what  string
		set   []*signer
		kid   string
		wrong string
	}{
		{"one key", []*signer{b.signer}, "k1", ""},
		{"one key, no kid", []*signer{b.signer}, "", ""},
		{"two keys, no kid", []*signer{b.signer, others[0]}, "", "kid"},
		{"the second of one kid", []*signer{others[0], b.signer}, "k1", ""},
		{"the third of one kid", []*signer{others[0], others[1], b.signer}, "k1", "signature"},
	} {
		publish(tt.set...)
		s := *b.signer
		s.kid = tt.kid
		if got := failed(t, b.present(b.auth, s.sign(b.claims(nil)))); got != tt.wrong {
			t.Errorf("%s: the fault is %q, want %q", tt.what, got, tt.wrong)
		}
	}
	publish(b.signer)
	b.Clock.Advance(2 * time.Minute) // after this time, no call of the store is needed
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	cred := oauth.Credentials{ClientID: "orders", Assertion: b.signer.sign(b.claims(nil)), Method: oauth.AuthPrivateKeyJWT}
	if _, err := b.auth.Authenticate(ended, cred, from); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, client.ErrClient) {
		t.Errorf("after the end of the request: %v", err)
	}
	// Keys that an operator registered by value may have no kid: all of them are tried.
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: others[0].key.Public()}, {Key: others[1].key.Public()}, {Key: b.signer.key.Public()}}})
	if err != nil {
		t.Fatal(err)
	}
	b.Administer("orders", func(c *store.Client) { c.Assertion.Keys, c.Assertion.KeysURI = set, "" })
	s := *b.signer
	s.kid = ""
	if got := failed(t, b.present(b.auth, s.sign(b.claims(nil)))); got != "" {
		t.Errorf("the third by value, no kid: the fault is %q", got)
	}
}

// TestAnAssertionIsUsedOnce: RFC 7523 section 3 item 7, in memory and with the store.
func TestAnAssertionIsUsedOnce(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		b := newBench(t)
		b.auth.Shared = shared
		nodes := []*client.Authenticator{b.auth, b.auth}
		if shared {
			nodes[1] = b.authenticator()
			nodes[1].Shared = true
		}
		b.Clock.Advance(2 * time.Minute) // in the first minute after the start, the store is used, too
		claims := b.claims(nil)
		// A failed attempt does not spend the jti.
		bad := maps.Clone(claims)
		bad["aud"] = "https://other.example"
		if got := failed(t, b.present(nodes[0], b.signer.sign(bad))); got != "aud" {
			t.Errorf("shared %v: the fault is %q", shared, got)
		}
		text := b.signer.sign(claims)
		var mu sync.Mutex
		var all sync.WaitGroup
		count := map[string]int{}
		for i := range 8 {
			all.Go(func() {
				got := failed(t, b.present(nodes[i%2], text))
				mu.Lock()
				count[got]++
				mu.Unlock()
			})
		}
		all.Wait()
		if count[""] != 1 || count["jti"] != 7 {
			t.Errorf("shared %v: 8 uses of one assertion ended %v", shared, count)
		}
		b.Clock.Advance(59 * time.Second)
		if got := failed(t, b.present(nodes[1], text)); got != "jti" {
			t.Errorf("shared %v: a second before its end, the fault is %q", shared, got)
		}
	}
}

// TestAnAssertionCostsOneWrite: only if other nodes use the store. A token for the client
// itself needs no other write.
func TestAnAssertionCostsOneWrite(t *testing.T) {
	t.Parallel()
	for shared, want := range map[bool]int{false: 0, true: 1} {
		b := newBench(t)
		b.auth.Shared = shared
		b.Clock.Advance(2 * time.Minute) // in the first minute after the start, the store is used, too
		b.Faulty.Calls()
		if err := b.present(b.auth, b.signer.sign(b.claims(nil))); err != nil {
			t.Fatal(err)
		}
		calls, all := b.Faulty.Calls(), 0
		for _, n := range calls {
			all += n
		}
		if calls[storetest.CommitDocument] != want || all != want {
			t.Errorf("shared %v: %v", shared, calls)
		}
	}
}

// TestUsedAssertionsOutliveTheirPeriod: an assertion stays in memory until it has expired.
func TestUsedAssertionsOutliveTheirPeriod(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.signer.sign(b.claims(map[string]any{"exp": b.Clock.Now().Unix() + 300}))
	if err := b.present(b.auth, first); err != nil {
		t.Fatal(err)
	}
	for range 9 {
		b.Clock.Advance(33 * time.Second)
		if err := b.present(b.auth, b.signer.sign(b.claims(nil))); err != nil {
			t.Fatal(err)
		}
		if got := failed(t, b.present(b.auth, first)); got != "jti" {
			t.Fatalf("after %s the first assertion's fault is %q", b.Clock.Now().Sub(testkit.Started.Time()), got)
		}
	}
}

// TestARestartForgetsNoAssertion: an assertion from before the start may have been used,
// so it is not accepted. The error is that of an unavailable service, because the
// assertion may be right.
func TestARestartForgetsNoAssertion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	text := b.signer.sign(b.claims(nil))
	b.Clock.Advance(3 * time.Second)
	again := b.authenticator()
	if err := b.present(again, text); !errors.As(err, new(*store.ExternalFault)) || errors.Is(err, client.ErrClient) {
		t.Errorf("an assertion from before the start: %v", err)
	}
	if err := b.present(again, b.signer.sign(b.claims(nil))); err != nil {
		t.Errorf("one of afterwards: %v", err)
	}
	// A store that other nodes use has a record of used assertions.
	again.Shared = true
	if err := b.present(again, text); err != nil {
		t.Errorf("with a shared store, an assertion from before the start: %v", err)
	}
	if got := failed(t, b.present(again, text)); got != "jti" {
		t.Errorf("once more: the fault is %q", got)
	}
}

// TestTheInstantOfTheStartFollowsTheCorrectedClock: a machine starts with a wrong clock,
// which NTP then sets. A clock that was ahead must not cause refusals until that time is
// reached, and one that was behind must not let assertions from before the start be used
// again.
func TestTheInstantOfTheStartFollowsTheCorrectedClock(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		b := newBench(t)
		used := b.signer.sign(b.claims(nil))
		b.Clock.Advance(3*time.Second + off)
		again := b.authenticator()
		again.Running = func() time.Duration { return 2 * time.Second }
		b.Clock.Advance(2*time.Second - off)
		if err := b.present(again, used); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("off by %s, an assertion from before the start: %v", off, err)
		}
		if err := b.present(again, b.signer.sign(b.claims(nil))); err != nil {
			t.Errorf("off by %s, one of afterwards: %v", off, err)
		}
	}
}

// TestARestartForgetsNoAssertionOfAClockAhead: an assertion whose iat is ahead of the
// server's clock looks newer than a restart, so the store must remember it.
func TestARestartForgetsNoAssertionOfAClockAhead(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]map[string]any{
		"iat 30 s ahead":               {"iat": testkit.Started.Time().Unix() + 30, "exp": testkit.Started.Time().Unix() + 330},
		"without iat, exp 360 s ahead": {"iat": nil, "exp": testkit.Started.Time().Unix() + 360},
	} {
		b := newBench(t)
		text := b.signer.sign(b.claims(ahead))
		if err := b.present(b.auth, text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, after := range []time.Duration{2 * time.Second, 40 * time.Second, 4 * time.Minute} {
			b.Clock.Advance(after)
			if err := b.present(b.authenticator(), text); err == nil {
				t.Errorf("%s: accepted again %s after the last restart", name, after)
			}
		}
		// Without a restart, long after the start.
		b = newBench(t)
		b.auth.Running = func() time.Duration { return time.Hour }
		text = b.signer.sign(b.claims(ahead))
		if err := b.present(b.auth, text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b.Clock.Advance(2 * time.Minute)
		if got := failed(t, b.present(b.auth, text)); got != "jti" {
			t.Errorf("%s: two minutes later, the fault is %q", name, got)
		}
		// With one restart, and presented again after the time in which the store is
		// always used.
		b = newBench(t)
		text = b.signer.sign(b.claims(ahead))
		if err := b.present(b.auth, text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b.Clock.Advance(time.Second)
		again := b.authenticator()
		b.Clock.Advance(2 * time.Minute)
		if got := failed(t, b.present(again, text)); got != "jti" {
			t.Errorf("%s: two minutes after a restart, the fault is %q", name, got)
		}
		// Used long after the start, when only such assertions go to the store, and
		// presented again after a restart.
		b = newBench(t)
		b.auth.Running = func() time.Duration { return time.Hour }
		text = b.signer.sign(b.claims(ahead))
		if err := b.present(b.auth, text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b.Clock.Advance(time.Second)
		again = b.authenticator()
		for range 2 {
			b.Clock.Advance(10 * time.Second)
			if got := failed(t, b.present(again, text)); got != "jti" {
				t.Errorf("%s: used before a restart and presented after it, the fault is %q", name, got)
			}
		}
	}
}

// TestAnAssertionOutlivesASweepByAClockAhead: a node whose clock is ahead deletes expired
// documents early by the other nodes' clocks.
func TestAnAssertionOutlivesASweepByAClockAhead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.auth.Shared = true
	text := b.signer.sign(b.claims(nil))
	if err := b.present(b.auth, text); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(55 * time.Second)
	ahead := grant.At(b.Clock.Now()).Add(10 * time.Second) // the largest max_skew
	if _, _, err := b.Engine.Sweep(t.Context(), store.SweptDocuments, "", ahead, 100); err != nil {
		t.Fatal(err)
	}
	if got := failed(t, b.present(b.auth, text)); got != "jti" {
		t.Errorf("after a sweep by a clock that is ahead, the fault is %q", got)
	}
}

// TestFaultsOfTheServerAreNotInvalidClient: a client that gets invalid_client may discard
// its credentials.
func TestFaultsOfTheServerAreNotInvalidClient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.auth.Shared = true
	b.Faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
	if err := b.present(b.auth, b.signer.sign(b.claims(nil))); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, client.ErrClient) {
		t.Errorf("the jti cannot be stored: %v", err)
	}
	b.Faulty.Heal()
	b.Administer("orders", func(c *store.Client) {
		c.Assertion.Keys, c.Assertion.KeysURI, c.UpdatedAt = nil, "https://orders.example/jwks", 5000
	})
	set, _ := keyset.Parse(b.signer.set())
	var fault error
	b.auth.Keys = func(_ context.Context, uri, _ string, since time.Time, enough func(keyset.Set) bool) (keyset.Set, error) {
		if uri != "https://orders.example/jwks" || !since.Equal(time.UnixMilli(5000)) || !enough(set) {
			t.Errorf("fetched %s, since %s", uri, since)
		}
		return set, fault
	}
	fault = errors.New("no answer")
	if err := b.present(b.auth, b.signer.sign(b.claims(nil))); !errors.As(err, new(*store.ExternalFault)) || !errors.Is(err, store.ErrUnavailable) || errors.Is(err, client.ErrClient) {
		t.Errorf("the keys cannot be fetched: %v", err)
	}
	fault = nil
	if err := b.present(b.auth, b.signer.sign(b.claims(nil))); err != nil {
		t.Error(err)
	}
}
