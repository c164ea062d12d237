package client_test

import (
	"crypto/rsa"
	"encoding/json"
	"github.com/mintage/mintage/internal/keyset"

	"maps"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const clusterIssuer = "https://kubernetes.default.svc.cluster.local"

// TestFederatedAssertions: tokens of other issuers, like those of Kubernetes, SPIFFE and
// CI providers, and the claim for which each is refused.
func TestFederatedAssertions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cluster := newSigner(t, jose.RS256)
	b.Register(client.Registration{ID: "shop", Settings: store.Settings{Name: "Shop", Scope: "read", GrantTypes: []string{}, Auth: store.AuthFederated, Assertion: store.AssertionRule{
		Keys: cluster.set(), Issuer: clusterIssuer, Subject: "system:serviceaccount:shop:*", Audience: "mintage", Claims: []string{"env=prod", "run=7", "protected=true"},
	}}})
	now := b.Clock.Now().Unix()
	good := map[string]any{
		"iss": clusterIssuer, "sub": "system:serviceaccount:shop:orders", "aud": []string{"mintage"}, "iat": now, "nbf": now, "exp": now + 3607,
		"env": "prod", "run": 7, "protected": true, "kubernetes.io": map[string]any{"namespace": "shop"},
	}
	present := func(change map[string]any, typ string) string {
		c := maps.Clone(good)
		for name, value := range change {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
		s := *cluster
		s.typ = typ
		return failed(t, b.presentAs("shop", s.sign(c)))
	}
	for name, tt := range map[string]struct {
		change map[string]any
		wrong  string
	}{
		"good":                     {nil, ""},
		"aud as a text":            {map[string]any{"aud": "mintage"}, ""},
		"with a jti":               {map[string]any{"jti": "1"}, ""},
		"the same jti again":       {map[string]any{"jti": "1"}, ""},
		"another audience beside":  {map[string]any{"aud": []string{"mintage", "vault"}}, "aud"},
		"the issuer as audience":   {map[string]any{"aud": issuerID}, "aud"},
		"another issuer":           {map[string]any{"iss": "https://other.example"}, "iss"},
		"another namespace":        {map[string]any{"sub": "system:serviceaccount:bank:orders"}, "sub"},
		"a longer subject":         {map[string]any{"sub": "system:serviceaccount:shop:orders:admin"}, "sub"},
		"something before":         {map[string]any{"sub": "x:system:serviceaccount:shop:orders"}, "sub"},
		"nothing for the star":     {map[string]any{"sub": "system:serviceaccount:shop:"}, "sub"},
		"without exp":              {map[string]any{"exp": nil}, "exp"},
		"expired":                  {map[string]any{"exp": now}, "exp"},
		"70 minutes":               {map[string]any{"exp": now + 4200}, ""},
		"more than 70 minutes":     {map[string]any{"exp": now + 4202}, "exp"},
		"iat 61 s ahead":           {map[string]any{"iat": now + 61}, "iat"},
		"another environment":      {map[string]any{"env": "test"}, "env"},
		"no environment":           {map[string]any{"env": nil}, "env"},
		"an environment of a list": {map[string]any{"env": []string{"prod"}}, "env"},
		"another run":              {map[string]any{"run": 8}, "run"},
		"not protected":            {map[string]any{"protected": false}, "protected"},
	} {
		if got := present(tt.change, "JWT"); got != tt.wrong {
			t.Errorf("%s: the fault is %q, want %q", name, got, tt.wrong)
		}
	}
	for _, typ := range []string{"at+jwt", "logout+jwt", "secevent+jwt"} {
		if got := present(nil, typ); got != "typ" {
			t.Errorf("typ %s: the fault is %q", typ, got)
		}
	}
	b.Administer("shop", func(c *store.Client) { c.Assertion.Lifetime = store.InMilliseconds(24 * time.Hour) })
	if got := present(map[string]any{"exp": now + 86400}, "JWT"); got != "" {
		t.Errorf("a day, for a client that may: the fault is %q", got)
	}
	// Tokens of this server itself authenticate no client.
	b.Administer("shop", func(c *store.Client) { c.Assertion.Issuer = issuerID })
	if got := present(map[string]any{"iss": issuerID}, "JWT"); got != "iss" {
		t.Errorf("our own issuer: the fault is %q", got)
	}
	// A client may not sign its assertion instead of the issuer that it trusts.
	if got := failed(t, b.presentAs("shop", cluster.sign(map[string]any{"iss": "shop", "sub": "shop", "aud": issuerID, "jti": "2", "exp": now + 60}))); got != "iss" {
		t.Errorf("signed by the client: the fault is %q", got)
	}
}

func (b *bench) presentAs(id string, text oauth.Secret) error {
	_, err := b.auth.Authenticate(b.T.Context(), oauth.Credentials{ClientID: id, Assertion: text, Method: oauth.AuthPrivateKeyJWT}, from)
	return err
}

func TestSubjectPatterns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, subject string
		want             bool
	}{
		{"spiffe://example.org/ns/shop/sa/*", "spiffe://example.org/ns/shop/sa/orders", true},
		{"spiffe://example.org/ns/shop/sa/*", "spiffe://example.org/ns/shop/sa/orders/x", false},
		{"spiffe://example.org/ns/*/sa/orders", "spiffe://example.org/ns/a/b/sa/orders", false},
		{"repo:acme/*:ref:refs/heads/main", "repo:acme/shop:ref:refs/heads/main", true},
		{"repo:acme/*:ref:refs/heads/main", "repo:acme/shop:environment:x:ref:refs/heads/main", false},
		{"a.c", "abc", false},
		{"a*c*e", "abcde", true},
		{"a*", "a\n", true},
		{"a", "a\n", false},
		{"A", "a", false},
	} {
		if got := client.MatchSubject(tt.pattern, tt.subject); got != tt.want {
			t.Errorf("%q and %q: %v", tt.pattern, tt.subject, got)
		}
	}
}

// TestAssertionSettings: settings that cannot work are refused at registration.
func TestAssertionSettings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	jwks := b.signer.set()
	trust := store.AssertionRule{Keys: jwks, Alg: "ES256", Issuer: clusterIssuer, Subject: "system:serviceaccount:shop:orders"}
	with := func(change func(*store.AssertionRule)) store.AssertionRule {
		a := trust
		change(&a)
		return a
	}
	for name, tt := range map[string]struct {
		r    client.Registration
		flag string
	}{
		"keys for a secret":        {client.Registration{Settings: store.Settings{Auth: store.AuthEither, Assertion: store.AssertionRule{Keys: jwks}}}, "jwks"},
		"no keys":                  {client.Registration{Settings: store.Settings{Auth: store.AuthPrivateKeyJWT}}, "jwks"},
		"keys twice":               {client.Registration{Settings: store.Settings{Auth: store.AuthPrivateKeyJWT, Assertion: store.AssertionRule{Keys: jwks, KeysURI: "https://a.example/"}}}, "jwks"},
		"a private key":            {client.Registration{Settings: store.Settings{Auth: store.AuthPrivateKeyJWT, Assertion: store.AssertionRule{Keys: b.signer.private()}}}, "jwks"},
		"keys of another alg":      {client.Registration{Settings: store.Settings{Auth: store.AuthPrivateKeyJWT, Assertion: store.AssertionRule{Alg: "RS256", Keys: jwks}}}, "jwks"},
		"HS256":                    {client.Registration{Settings: store.Settings{Auth: store.AuthPrivateKeyJWT, Assertion: store.AssertionRule{Alg: "HS256", Keys: jwks}}}, "assertion-signing-alg"},
		"http":                     {client.Registration{Settings: store.Settings{Auth: store.AuthPrivateKeyJWT, Assertion: store.AssertionRule{KeysURI: "http://a.example/"}}}, "jwks-uri"},
		"a CA that is none":        {client.Registration{Settings: store.Settings{Auth: store.AuthPrivateKeyJWT, Assertion: store.AssertionRule{KeysURI: "https://a.example/", KeysCA: "x"}}}, "jwks-ca"},
		"an issuer for its own":    {client.Registration{Settings: store.Settings{Auth: store.AuthPrivateKeyJWT, Assertion: trust}}, "assertion-issuer"},
		"a secret":                 {client.Registration{Settings: store.Settings{Auth: store.AuthPrivateKeyJWT, Assertion: store.AssertionRule{Keys: jwks}}, Secret: "long enough"}, "secret"},
		"a lifetime for its own":   {client.Registration{Settings: store.Settings{Auth: store.AuthPrivateKeyJWT, Assertion: store.AssertionRule{Keys: jwks, Lifetime: store.InMilliseconds(time.Hour)}}}, "assertion-max-lifetime"},
		"a subject with a space":   {client.Registration{Settings: store.Settings{Auth: store.AuthFederated, Assertion: with(func(a *store.AssertionRule) { a.Subject = "a b" })}}, "assertion-subject"},
		"no issuer":                {client.Registration{Settings: store.Settings{Auth: store.AuthFederated, Assertion: with(func(a *store.AssertionRule) { a.Issuer = "" })}}, "assertion-issuer"},
		"no subject":               {client.Registration{Settings: store.Settings{Auth: store.AuthFederated, Assertion: with(func(a *store.AssertionRule) { a.Subject = "" })}}, "assertion-subject"},
		"any subject":              {client.Registration{Settings: store.Settings{Auth: store.AuthFederated, Assertion: with(func(a *store.AssertionRule) { a.Subject = "*" })}}, "assertion-subject"},
		"any subject with a colon": {client.Registration{Settings: store.Settings{Auth: store.AuthFederated, Assertion: with(func(a *store.AssertionRule) { a.Subject = "*:*" })}}, "assertion-subject"},
		"any repository":           {client.Registration{Settings: store.Settings{Auth: store.AuthFederated, Assertion: with(func(a *store.AssertionRule) { a.Subject = "repo:*/*:*" })}}, "assertion-subject"},
		"a claim without value":    {client.Registration{Settings: store.Settings{Auth: store.AuthFederated, Assertion: with(func(a *store.AssertionRule) { a.Claims = []string{"env"} })}}, "assertion-claim"},
		"a claim with a rule":      {client.Registration{Settings: store.Settings{Auth: store.AuthFederated, Assertion: with(func(a *store.AssertionRule) { a.Claims = []string{"sub=x"} })}}, "assertion-claim"},
		"more than a day":          {client.Registration{Settings: store.Settings{Auth: store.AuthFederated, Assertion: with(func(a *store.AssertionRule) { a.Lifetime = store.InMilliseconds(25 * time.Hour) })}}, "assertion-max-lifetime"},
		"good":                     {client.Registration{Settings: store.Settings{Auth: store.AuthFederated, Assertion: trust}}, ""},
	} {
		tt.r.Name, tt.r.Scope, tt.r.GrantTypes = "x", "read", []string{}
		_, secret, err := tt.r.Client(realm, b.View().Ring, b.Policy, b.At())
		var invalid *oauth.Invalid
		if tt.flag == "" && (err != nil || secret != "") || tt.flag != "" && (!asInvalid(err, &invalid) || invalid.Field != tt.flag) {
			t.Errorf("%s: %v and a secret of %d bytes, want a fault of --%s", name, err, len(secret), tt.flag)
		}
	}
}

// TestSubjectsWithAnyOwnerAreRefused: on a platform where everyone may have workloads, a
// pattern must name the owner.
func TestSubjectsWithAnyOwnerAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for subject, ok := range map[string]bool{
		"repo:*/*:*": false, "repo:*/shop:ref:refs/heads/main": false, "repo:acme*/shop:ref:refs/heads/main": false, "*:acme/shop:ref:refs/heads/main": false,
		"environment:prod:repo:*/*": false, "repository_owner:*:environment:prod": false, "project_path:*/*:ref_type:branch:ref:main": false,
		"org/*/project/1/user/2": false, "organization:*:project:p:workspace:w:run_phase:apply": false,
		"spiffe://*/ns/shop/sa/orders": false, "r*:acme/shop": false,
		"repo:acme/*:ref:refs/heads/main": true, "repo:acme/shop:*": true, "environment:prod:repo:acme/*": true, "project_path:acme/*:ref_type:branch:ref:main": true,
		"system:serviceaccount:shop:*": true, "system:serviceaccount:*:orders": true, "spiffe://example.org/ns/*/sa/orders": true, "orders-*": true, "orders": true,
	} {
		r := client.Registration{Settings: store.Settings{Name: "x", Scope: "read", GrantTypes: []string{}, Auth: store.AuthFederated, Assertion: store.AssertionRule{Keys: b.signer.set(), Alg: "ES256", Issuer: clusterIssuer, Subject: subject}}}
		var invalid *oauth.Invalid
		_, _, err := r.Client(realm, b.View().Ring, b.Policy, b.At())
		if (err == nil) != ok || err != nil && (!asInvalid(err, &invalid) || invalid.Field != "assertion-subject") {
			t.Errorf("%s: %v", subject, err)
		}
	}
	// A pattern that an earlier version accepted stays, until it is changed.
	before := b.Client("orders")
	before.Auth, before.Assertion.Alg, before.Assertion.Issuer, before.Assertion.Subject = store.AuthFederated, "ES256", clusterIssuer, "repo:*/shop:*"
	r := client.Registered(before)
	r.Name = "Renamed"
	if after, err := r.Change(before, b.Policy); err != nil || after.Name != "Renamed" || after.Assertion.Subject != before.Assertion.Subject {
		t.Errorf("%+v, %v", after.Assertion, err)
	}
	r.Assertion.Subject = "repo:*/other:*"
	if _, err := r.Change(before, b.Policy); err == nil {
		t.Error("the subject is changed to one of any owner")
	}
}

// TestRegisteredKeysStay: the limits apply to new keys. A client with larger keys from an
// earlier version still authenticates, and may be changed.
func TestRegisteredKeysStay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, large := range map[string]*rsa.PublicKey{
		"exponent 5":     {N: rsaKey().N, E: 5},
		"exponent 65539": {N: rsaKey().N, E: 65539},
	} {
		old := jose.JSONWebKey{Key: large, KeyID: "old"}
		set := func(list ...jose.JSONWebKey) json.RawMessage {
			body, err := json.Marshal(jose.JSONWebKeySet{Keys: list})
			if err != nil {
				t.Fatal(err)
			}
			return body
		}
		before := b.Client("orders")
		before.Assertion.Alg, before.Assertion.Keys = "RS256", set(old)
		r := client.Registered(before)
		r.Name = "Renamed"
		if after, err := r.Change(before, b.Policy); err != nil || after.Name != "Renamed" || string(after.Assertion.Keys) != string(before.Assertion.Keys) {
			t.Errorf("%s: %s, %v", name, after.Assertion.Keys, err)
		}
		r.Assertion.Keys = set(old, jose.JSONWebKey{Key: &rsaKey().PublicKey, KeyID: "new"})
		if after, err := r.Change(before, b.Policy); err != nil || string(after.Assertion.Keys) != string(r.Assertion.Keys) {
			t.Errorf("%s, and another one: %s, %v", name, after.Assertion.Keys, err)
		}
		if set, err := keyset.Parse(before.Assertion.Keys); err != nil || !set.Has("old", jose.RS256) {
			t.Errorf("%s: is not used: %v", name, err)
		}
		var invalid *oauth.Invalid
		before.Assertion.Keys = set(jose.JSONWebKey{Key: &rsaKey().PublicKey, KeyID: "new"})
		r = client.Registered(before)
		r.Assertion.Keys = set(old)
		if _, err := r.Change(before, b.Policy); !asInvalid(err, &invalid) || invalid.Field != "jwks" {
			t.Errorf("%s, as a new key: %v", name, err)
		}
		r = client.Registration{Settings: store.Settings{Name: "x", Scope: "read", GrantTypes: []string{}, Auth: store.AuthPrivateKeyJWT, Assertion: store.AssertionRule{Keys: set(old), Alg: "RS256"}}}
		if _, _, err := r.Client(realm, b.View().Ring, b.Policy, b.At()); !asInvalid(err, &invalid) || invalid.Field != "jwks" {
			t.Errorf("%s, of a new client: %v", name, err)
		}
	}
}

// TestReuseGraceIsADayAtMost: a longer grace is refused.
func TestReuseGraceIsADayAtMost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for grace, ok := range map[time.Duration]bool{0: true, 24 * time.Hour: true, 24*time.Hour + time.Second: false, -time.Second: false} {
		r := client.Registration{Settings: store.Settings{Name: "x", Scope: "read", RedirectURIs: []string{"https://x.example/cb"}, Auth: store.AuthNone, ReuseGrace: store.InMilliseconds(grace)}}
		var invalid *oauth.Invalid
		if _, _, err := r.Client(realm, b.View().Ring, b.Policy, b.At()); (err == nil) != ok || err != nil && !asInvalid(err, &invalid) {
			t.Errorf("%s: %v", grace, err)
		}
	}
}
