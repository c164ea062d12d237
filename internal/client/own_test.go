package client_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const ownKeys = "https://agent.example/jwks.json"

// agent describes a client with a jwks_uri. keys is called at each fetch of the key set,
// and returns the error of the fetch.
func (b *bench) agent(methods, more string, keys func(from netip.Prefix, enough bool) error) {
	b.T.Helper()
	b.describe(fmt.Appendf(nil, `{"client_id":%q,"redirect_uris":["https://agent.example/cb"],"token_endpoint_auth_methods_supported":%s,"jwks_uri":%q%s}`, address, methods, ownKeys, more))
	set, err := keyset.Parse(b.signer.set())
	if err != nil {
		b.T.Fatal(err)
	}
	b.auth.Keys = func(context.Context, string, string, time.Time, func(keyset.Set) bool) (keyset.Set, error) {
		b.T.Error("the keys of a self-registered client are fetched by the function for operators' clients")
		return nil, errors.New("no")
	}
	b.auth.OwnKeys = func(_ context.Context, uri string, from netip.Prefix, enough func(keyset.Set) bool) (keyset.Set, error) {
		if uri != ownKeys {
			b.T.Errorf("fetched %s", uri)
		}
		return set, keys(from, enough(set))
	}
}

// describe stores the record of a client from its metadata document.
func (b *bench) describe(document []byte) {
	b.T.Helper()
	doc, err := client.ReadDocument(address, document)
	if err != nil {
		b.T.Fatal(err)
	}
	described := client.Documents{Realm: realm, Now: b.Clock.Now, Fetch: func(context.Context, string, netip.Prefix) (client.Document, error) { return doc, nil }}
	c, err := described.Client(b.T.Context(), address, "https://agent.example/cb", netip.Prefix{})
	if err == nil {
		err = b.Engine.Commit(b.T.Context(), store.Change{Documents: []store.Document{c.Record(b.At(), b.At().Add(time.Hour))}})
	}
	if err != nil {
		b.T.Fatal(err)
	}
	b.Directory.AdmitSelfRegistered(func(_, id string) bool { return id == address })
}

func (b *bench) own(change map[string]any) map[string]any {
	c := b.claims(map[string]any{"iss": address, "sub": address})
	maps.Copy(c, change)
	return c
}

// TestClientsThatRegisteredThemselvesSignAssertions: ChatGPT's document lists both
// methods.
func TestClientsThatRegisteredThemselvesSignAssertions(t *testing.T) {
	t.Parallel()
	for methods, public := range map[string]bool{`["none","private_key_jwt"]`: true, `["private_key_jwt"]`: false} {
		b := newBench(t)
		fetched := netip.Prefix{}
		b.agent(methods, "", func(from netip.Prefix, _ bool) error { fetched = from; return nil })
		c, err := b.auth.Authenticate(t.Context(), oauth.Credentials{ClientID: address, Assertion: b.signer.sign(b.own(nil)), Method: oauth.AuthPrivateKeyJWT}, netip.MustParseAddr("192.0.2.7"))
		if err != nil || c.ID != address || c.Public() != public || fetched != netip.MustParsePrefix("192.0.2.0/24") {
			t.Fatalf("%s: %+v, keys fetched for %s, %v", methods, c, fetched, err)
		}
		if c.MayUse(store.GrantClientCredentials) || !c.MayUse(store.GrantRefreshToken) {
			t.Errorf("%s: grant types %q", methods, c.GrantTypes)
		}
		for name, tt := range map[string]struct {
			change map[string]any
			wrong  string
		}{
			"the token endpoint as audience": {map[string]any{"aud": tokenEndpoint}, ""},
			"another audience":               {map[string]any{"aud": "https://other.example"}, "aud"},
			"two audiences":                  {map[string]any{"aud": []string{issuerID, tokenEndpoint}}, "aud"},
			"of another client":              {map[string]any{"sub": "orders"}, "sub"},
			"without jti":                    {map[string]any{"jti": ""}, "jti"},
			"issued in 1970":                 {map[string]any{"iat": 1}, "exp"},
			"six minutes":                    {map[string]any{"exp": b.Clock.Now().Unix() + 301}, "exp"},
		} {
			if got := failed(t, b.presentAs(address, b.signer.sign(b.own(tt.change)))); got != tt.wrong {
				t.Errorf("%s, %s: the fault is %q, want %q", methods, name, got, tt.wrong)
			}
		}
		used := b.signer.sign(b.own(nil))
		if err := b.presentAs(address, used); err != nil {
			t.Error(err)
		}
		if got := failed(t, b.presentAs(address, used)); got != "jti" {
			t.Errorf("%s: presented again, the fault is %q", methods, got)
		}
		foreign := *newSigner(t, jose.ES256)
		if got := failed(t, b.presentAs(address, foreign.sign(b.own(nil)))); got != "signature" {
			t.Errorf("%s: by another key, the fault is %q", methods, got)
		}
		_, err = b.auth.Authenticate(t.Context(), oauth.Credentials{ClientID: address, Method: oauth.AuthNone}, from)
		if (err == nil) != public || err != nil && !errors.Is(err, client.WrongMethod) && !errors.Is(err, client.UnknownClient) {
			t.Errorf("%s: without assertion: %v", methods, err)
		}
		b.Directory.AdmitSelfRegistered(func(_, _ string) bool { return false })
		if err := b.presentAs(address, b.signer.sign(b.own(nil))); !errors.Is(err, client.ErrClient) {
			t.Errorf("%s: no longer admitted: %v", methods, err)
		}
	}
}

// TestKeysInADocument: keys are read from the current document, so that the client can
// replace them.
func TestKeysInADocument(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	document := func() []byte {
		return fmt.Appendf(nil, `{"client_id":%q,"redirect_uris":["https://agent.example/cb"],"token_endpoint_auth_method":"private_key_jwt","jwks":%s}`, address, b.signer.set())
	}
	b.describe(document())
	b.auth.OwnKeys = func(_ context.Context, uri string, _ netip.Prefix, enough func(keyset.Set) bool) (keyset.Set, error) {
		if uri != address {
			t.Errorf("fetched %s", uri)
		}
		return keyset.ParseFetched(document(), false)
	}
	for _, replaced := range []bool{false, true} {
		if replaced {
			b.signer = newSigner(t, jose.ES256)
		}
		if got := failed(t, b.presentAs(address, b.signer.sign(b.own(nil)))); got != "" {
			t.Errorf("replaced %t: the fault is %q", replaced, got)
		}
	}
	foreign := newSigner(t, jose.ES256)
	if got := failed(t, b.presentAs(address, foreign.sign(b.own(nil)))); got != "signature" {
		t.Errorf("by another key, the fault is %q", got)
	}
}

// TestTheAlgorithmOfADocumentIsPinned: if the document names no algorithm, the keys
// determine it.
func TestTheAlgorithmOfADocumentIsPinned(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{`,"token_endpoint_auth_signing_alg":"RS256"`: "alg", `,"token_endpoint_auth_signing_alg":"ES256"`: "", "": ""} {
		b := newBench(t)
		b.agent(`["private_key_jwt"]`, more, func(netip.Prefix, bool) error { return nil })
		if got := failed(t, b.presentAs(address, b.signer.sign(b.own(nil)))); got != want {
			t.Errorf("%s: the fault is %q, want %q", more, got, want)
		}
		s := *b.signer
		s.alg, s.key = jose.EdDSA, newSigner(t, jose.EdDSA).key
		if got := failed(t, b.presentAs(address, s.sign(b.own(nil)))); got != "kid" && got != "alg" {
			t.Errorf("%s: of another algorithm, the fault is %q", more, got)
		}
	}
}

// TestKeysThatCannotBeFetchedAreNoFaultOfTheClient: after invalid_client, the client would
// discard its tokens.
func TestKeysThatCannotBeFetchedAreNoFaultOfTheClient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	enough := true
	b.agent(`["none","private_key_jwt"]`, "", func(_ netip.Prefix, e bool) error { enough = e; return errors.New("no answer") })
	s := *b.signer
	s.kid = "unknown"
	if err := b.presentAs(address, s.sign(b.own(nil))); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, client.ErrClient) || enough {
		t.Errorf("%v; the set is enough: %t", err, enough)
	}
	b.auth.OwnKeys = nil
	if err := b.presentAs(address, b.signer.sign(b.own(nil))); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("where none are fetched: %v", err)
	}
}

// TestAForeignTokenDoesNotNameTheClient: the sub of a platform's token may equal the id of
// a client that trusts the platform, so the request must name the client.
func TestAForeignTokenDoesNotNameTheClient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := newSigner(t, jose.RS256)
	b.Register(client.Registration{ID: "shop", Settings: store.Settings{Name: "Shop", Scope: "read", GrantTypes: []string{}, Auth: store.AuthFederated, Assertion: store.AssertionRule{
		Keys: cluster.set(), Issuer: clusterIssuer, Subject: "shop", Audience: "mintage"}}})
	now := b.Clock.Now().Unix()
	text := cluster.sign(map[string]any{"iss": clusterIssuer, "sub": "shop", "aud": "mintage", "exp": now + 600})
	for _, form := range []oauth.Params{{"client_id": "shop"}, {}} {
		form["client_assertion"], form["client_assertion_type"] = string(text), "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
		cred, err := oauth.ParseCredentials(nil, form)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if cred.Unnamed {
			want = "client_id"
			if cred.ClientID, err = client.Named(cred.Assertion); err != nil || cred.ClientID != "shop" {
				t.Fatal(cred.ClientID, err)
			}
		}
		_, err = b.auth.Authenticate(t.Context(), cred, from)
		if got := failed(t, err); got != want {
			t.Errorf("client_id %q in the form: the fault is %q, want %q", form["client_id"], got, want)
		}
	}
}

// TestAnUnreadableAssertionNamesItsDefect: also if the form does not name the client, so
// that no registration is found.
func TestAnUnreadableAssertionNamesItsDefect(t *testing.T) {
	t.Parallel()
	s := newSigner(t, jose.ES256)
	for text, want := range map[oauth.Secret]string{
		"not a JWT":                                             "alg",
		"eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl":                 "alg", // HS256
		s.sign(map[string]any{"sub": 7}):                        "sub",
		s.sign(map[string]any{"iss": "shop"}):                   "sub",
		s.sign(map[string]any{"sub": strings.Repeat("a", 256)}): "sub",
	} {
		id, err := client.Named(text)
		if got := failed(t, err); id != "" || got != want {
			t.Errorf("%q names the client %q, and its fault is %q, want %q", string(text), id, got, want)
		}
	}
}
