package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const idp = "https://idp.example"

// A trusting is a bench with trusts in an identity provider and a platform.
type trusting struct {
	*bench
	idp, platform, other *signer
}

func newTrusting(t *testing.T) *trusting {
	b := &trusting{bench: newBench(t), idp: newSigner(t, jose.RS256), platform: newSigner(t, jose.ES256), other: newSigner(t, jose.ES256)}
	b.idp.typ = oauth.JWTIDJAG
	b.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "orders", APIs: []string{"https://api.example/orders"}, Keys: b.idp.set(), SubjectFrom: store.SubjectSub})
	b.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "named", Tenant: "t1", Subjects: []string{"u-*"}, Keys: b.idp.set(), SubjectFrom: store.SubjectAudSub, Lifetime: store.InMilliseconds(time.Hour)})
	b.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "mailed", Keys: b.idp.set(), SubjectFrom: store.SubjectEmail, Domains: []string{"example.com"}})
	b.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "mapped", Keys: b.idp.set(), SubjectFrom: store.SubjectUpstream})
	b.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "off", Keys: b.idp.set(), Disabled: true})
	b.Put(store.Trust{Issuer: issuerID, Kind: store.TrustIDJAG, ClientID: "orders", Keys: b.idp.set()}) // which no operator can create
	b.Put(store.Trust{Issuer: "https://platform.example", Kind: store.TrustWorkload, ClientID: "job", Subjects: []string{"ns:shop:*"}, Audience: tokenEndpoint, Keys: b.platform.set()})
	b.Put(store.Trust{Issuer: "https://platform.example", Kind: store.TrustWorkload, ClientID: "twin", Subjects: []string{"ns:shop:b", "ns:twin:b"}, Audience: tokenEndpoint, Keys: b.platform.set()})
	return b
}

// idjag are the claims of a good ID-JAG of a client, but for the changes.
func (b *trusting) idjag(clientID string, change map[string]any) map[string]any {
	c := b.claims(map[string]any{"iss": idp, "sub": "u-1", "client_id": clientID, "scope": "orders:read", "resource": "https://api.example/orders"})
	for name, value := range change {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

func (b *trusting) workload(change map[string]any) map[string]any {
	c := b.claims(map[string]any{"iss": "https://platform.example", "sub": "ns:shop:a", "aud": tokenEndpoint, "jti": nil})
	for name, value := range change {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

// refused is the claim that was wrong, "" if the assertion was accepted.
func refused(t testing.TB, err error) string {
	t.Helper()
	var fault *client.GrantFault
	switch {
	case err == nil:
		return ""
	case errors.As(err, &fault) && errors.Is(err, oauth.ErrGrant) && !errors.Is(err, client.ErrClient):
		return fault.Claim
	}
	return err.Error()
}

// TestRefusedAssertions: what is forged, stale, misaddressed or overreaching, and the
// claim that says why.
func TestRefusedAssertions(t *testing.T) {
	t.Parallel()
	b := newTrusting(t)
	now := b.Clock.Now().Unix()
	with := func(s *signer, change func(*signer)) *signer {
		next := *s
		change(&next)
		return &next
	}
	typed := func(s *signer, typ string) *signer { return with(s, func(s *signer) { s.typ = typ }) }
	extended := func(name jose.HeaderKey, value any) *signer {
		return with(b.idp, func(s *signer) { s.more = map[jose.HeaderKey]any{name: value} })
	}
	type changes = map[string]any
	jag := func(c changes) map[string]any { return b.idjag("orders", c) }
	for name, row := range map[string]struct {
		client string
		by     *signer
		claims map[string]any
		want   string
	}{
		// What is right, so that the others are refused for what they say.
		"an ID-JAG":                      {"orders", b.idp, jag(nil), ""},
		"of the issuer with a slash":     {"orders", b.idp, jag(changes{"aud": issuerID + "/"}), ""},
		"an audience of a list of one":   {"orders", b.idp, jag(changes{"aud": []string{issuerID}}), ""},
		"without scope and resource":     {"orders", b.idp, jag(changes{"scope": nil, "resource": nil}), ""},
		"an ID-JAG of an hour":           {"named", b.idp, b.idjag("named", changes{"exp": now + 3600, "tenant": "t1", "aud_sub": "jane"}), ""},
		"a verified address":             {"mailed", b.idp, b.idjag("mailed", changes{"email": "Jane@Example.com", "email_verified": true}), ""},
		"a workload's":                   {"job", b.platform, b.workload(nil), ""},
		"a workload's of type JWT":       {"job", typed(b.platform, "JWT"), b.workload(nil), ""},
		"an actor of the issuer":         {"orders", b.idp, jag(changes{"act": changes{"sub": "agent"}}), ""},
		"a thumbprint":                   {"orders", b.idp, jag(changes{"cnf": changes{"jkt": strings.Repeat("A", 42) + "E"}}), ""},
		"one of two patterns, by client": {"twin", b.platform, b.workload(changes{"sub": "ns:shop:b"}), ""},

		// Forged.
		"signed by another key":            {"orders", typed(b.other, oauth.JWTIDJAG), jag(nil), "kid"},
		"signed by the platform":           {"orders", typed(b.platform, oauth.JWTIDJAG), jag(nil), "kid"},
		"another key of the same kid":      {"job", b.other, b.workload(nil), "signature"},
		"a kid that there is not":          {"orders", with(b.idp, func(s *signer) { s.kid = "other" }), jag(nil), "kid"},
		"a critical extension":             {"orders", extended("crit", []string{"x"}), jag(nil), "crit"},
		"compressed":                       {"orders", extended("zip", "DEF"), jag(nil), "zip"},
		"an unknown issuer":                {"orders", b.idp, jag(changes{"iss": "https://evil.example"}), "iss"},
		"no issuer":                        {"orders", b.idp, jag(changes{"iss": nil}), "iss"},
		"an issuer with a slash":           {"orders", b.idp, jag(changes{"iss": idp + "/"}), "iss"},
		"this server as the issuer":        {"orders", b.idp, jag(changes{"iss": issuerID}), "iss"},
		"a disabled trust":                 {"off", b.idp, b.idjag("off", nil), "iss"},
		"a client without a trust":         {"stranger", b.idp, b.idjag("stranger", nil), "iss"},
		"a trust of the other kind":        {"job", typed(b.platform, oauth.JWTIDJAG), b.workload(nil), "iss"},
		"the users' issuer as a workload":  {"orders", typed(b.idp, "JWT"), jag(nil), "iss"},
		"the platform's for another":       {"orders", b.platform, b.workload(nil), "iss"},
		"a type in other letters":          {"orders", typed(b.idp, "OAUTH-ID-JAG+JWT"), jag(nil), "typ"},
		"a type with its prefix":           {"orders", typed(b.idp, "application/oauth-id-jag+jwt"), jag(nil), "typ"},
		"an access token":                  {"job", typed(b.platform, "at+jwt"), b.workload(nil), "typ"},
		"a logout token":                   {"job", typed(b.platform, "logout+jwt"), b.workload(nil), "typ"},
		"a proof":                          {"job", typed(b.platform, "dpop+jwt"), b.workload(nil), "typ"},
		"an answer of introspection":       {"job", typed(b.platform, "token-introspection+jwt"), b.workload(nil), "typ"},
		"an id_token by its nonce":         {"job", b.platform, b.workload(changes{"nonce": "n"}), "nonce"},
		"an id_token by its hash":          {"job", b.platform, b.workload(changes{"at_hash": "h"}), "nonce"},
		"an id_token by the code's hash":   {"job", b.platform, b.workload(changes{"c_hash": "h"}), "nonce"},
		"an event":                         {"job", b.platform, b.workload(changes{"events": changes{}}), "events"},
		"a subject that is not a string":   {"orders", b.idp, jag(changes{"sub": 7}), "claims"},
		"an actor that is this server's":   {"orders", b.idp, jag(changes{"act": changes{"sub": "orders", "iss": issuerID}}), "act"},
		"a subject with control character": {"orders", b.idp, jag(changes{"sub": "a\nb"}), "sub"},

		// Stale.
		"expired":                     {"orders", b.idp, jag(changes{"iat": now - 60, "exp": now}), "exp"},
		"without expiry":              {"orders", b.idp, jag(changes{"exp": nil}), "exp"},
		"issued tomorrow":             {"orders", b.idp, jag(changes{"iat": now + 31, "exp": now + 60}), "iat"},
		"not valid yet":               {"orders", b.idp, jag(changes{"nbf": now + 31}), "nbf"},
		"without issue":               {"orders", b.idp, jag(changes{"iat": nil}), "iat"},
		"living too long":             {"orders", b.idp, jag(changes{"exp": now + 301}), "exp"},
		"too long by an old issue":    {"orders", b.idp, jag(changes{"iat": now - 299, "exp": now + 2}), "exp"},
		"times that are no numbers":   {"orders", b.idp, jag(changes{"exp": "soon"}), "claims"},
		"a time beyond all":           {"orders", b.idp, jag(changes{"exp": 1e300}), "exp"},
		"a workload's of two hours":   {"job", b.platform, b.workload(changes{"exp": now + 7200}), "exp"},
		"a workload's that is over":   {"job", b.platform, b.workload(changes{"iat": now - 9, "exp": now - 1}), "exp"},
		"an ID-JAG of over one hour":  {"named", b.idp, b.idjag("named", changes{"exp": now + 3601, "tenant": "t1", "aud_sub": "jane"}), "exp"},
		"without jti, as no replay":   {"orders", b.idp, jag(changes{"jti": nil}), "jti"},
		"an overlong jti":             {"orders", b.idp, jag(changes{"jti": strings.Repeat("j", 256)}), "jti"},
		"an empty jti":                {"orders", b.idp, jag(changes{"jti": ""}), "jti"},
		"an auth_time that is a text": {"orders", b.idp, jag(changes{"auth_time": "now"}), "claims"},

		// Misaddressed.
		"for another client":              {"orders", b.idp, jag(changes{"client_id": "job"}), "client_id"},
		"for no client":                   {"orders", b.idp, jag(changes{"client_id": nil}), "client_id"},
		"for the token endpoint":          {"orders", b.idp, jag(changes{"aud": tokenEndpoint}), "aud"},
		"for another server":              {"orders", b.idp, jag(changes{"aud": "https://other.example"}), "aud"},
		"for the client":                  {"orders", b.idp, jag(changes{"aud": "orders"}), "aud"},
		"for two":                         {"orders", b.idp, jag(changes{"aud": []string{issuerID, "https://other.example"}}), "aud"},
		"for the same twice":              {"orders", b.idp, jag(changes{"aud": []string{issuerID, issuerID}}), "aud"},
		"for nobody":                      {"orders", b.idp, jag(changes{"aud": nil}), "aud"},
		"for the issuer with two slashes": {"orders", b.idp, jag(changes{"aud": issuerID + "//"}), "aud"},
		"a workload's for the issuer":     {"job", b.platform, b.workload(changes{"aud": issuerID}), "aud"},
		"a workload's for two":            {"job", b.platform, b.workload(changes{"aud": []string{tokenEndpoint, issuerID}}), "aud"},

		// Overreaching.
		"a tenant where there is none":         {"orders", b.idp, jag(changes{"tenant": "t1"}), "tenant"},
		"an empty tenant":                      {"named", b.idp, b.idjag("named", changes{"tenant": "", "aud_sub": "jane"}), "tenant"},
		"no tenant":                            {"named", b.idp, b.idjag("named", changes{"aud_sub": "jane"}), "tenant"},
		"another tenant":                       {"named", b.idp, b.idjag("named", changes{"tenant": "t2", "aud_sub": "jane"}), "tenant"},
		"a subject of no pattern":              {"named", b.idp, b.idjag("named", changes{"tenant": "t1", "aud_sub": "jane", "sub": "admin"}), "sub"},
		"a subject beyond a pattern":           {"named", b.idp, b.idjag("named", changes{"tenant": "t1", "aud_sub": "jane", "sub": "u-1:root"}), "sub"},
		"no subject":                           {"orders", b.idp, jag(changes{"sub": nil}), "sub"},
		"an overlong subject":                  {"orders", b.idp, jag(changes{"sub": strings.Repeat("u", 255)}), "sub"},
		"no name here":                         {"named", b.idp, b.idjag("named", changes{"tenant": "t1"}), "aud_sub"},
		"no address":                           {"mailed", b.idp, b.idjag("mailed", nil), "email"},
		"an address that is not verified":      {"mailed", b.idp, b.idjag("mailed", changes{"email": "jane@example.com"}), "email"},
		"an address that is verified by text":  {"mailed", b.idp, b.idjag("mailed", changes{"email": "jane@example.com", "email_verified": "true"}), "email"},
		"an address of another domain":         {"mailed", b.idp, b.idjag("mailed", changes{"email": "jane@example.com.evil.example", "email_verified": true}), "email"},
		"an address with two domains":          {"mailed", b.idp, b.idjag("mailed", changes{"email": "a@evil.example@example.com", "email_verified": true}), "email"},
		"a mapping that there is not":          {"mapped", b.idp, b.idjag("mapped", nil), "sub"},
		"details of authorization":             {"orders", b.idp, jag(changes{"authorization_details": []any{changes{"type": "x"}}}), "authorization_details"},
		"empty details":                        {"orders", b.idp, jag(changes{"authorization_details": []any{}}), "authorization_details"},
		"a tenant of the audience":             {"orders", b.idp, jag(changes{"aud_tenant": "t"}), "aud_tenant"},
		"another confirmation":                 {"orders", b.idp, jag(changes{"cnf": changes{"x5t#S256": "x"}}), "cnf"},
		"two confirmations":                    {"orders", b.idp, jag(changes{"cnf": changes{"jkt": strings.Repeat("A", 42) + "E", "x5t#S256": "x"}}), "cnf"},
		"an empty confirmation":                {"orders", b.idp, jag(changes{"cnf": changes{}}), "cnf"},
		"a confirmation that is no thumbprint": {"orders", b.idp, jag(changes{"cnf": changes{"jkt": "short"}}), "cnf"},
		"five actors":                          {"orders", b.idp, jag(changes{"act": chain(5)}), "act"},
		"an actor without a name":              {"orders", b.idp, jag(changes{"act": changes{"iss": idp}}), "act"},
		"actors with long names":               {"orders", b.idp, jag(changes{"act": changes{"sub": strings.Repeat("a", 250)}}), "act"},
		"an actor of a workload":               {"job", b.platform, b.workload(changes{"act": chain(1)}), "act"},
		"a malformed scope":                    {"orders", b.idp, jag(changes{"scope": `a"b`}), "scope"},
		"a scope that is a list":               {"orders", b.idp, jag(changes{"scope": []string{"a"}}), "claims"},
		"an empty list of resources":           {"orders", b.idp, jag(changes{"resource": []string{}}), "resource"},
		"an empty resource":                    {"orders", b.idp, jag(changes{"resource": ""}), "resource"},
		"a workload of no pattern":             {"job", b.platform, b.workload(changes{"sub": "ns:admin:a"}), "sub"},
		"a workload beyond a pattern":          {"job", b.platform, b.workload(changes{"sub": "ns:shop:a:b"}), "sub"},
		"a workload without a name":            {"job", b.platform, b.workload(changes{"sub": nil}), "sub"},
	} {
		text := row.by.sign(row.claims)
		_, err := b.auth.Assertion(t.Context(), row.client, true, text)
		if got := refused(t, err); got != row.want {
			t.Errorf("%s: %q, want %q: %v", name, got, row.want, err)
		}
		// What "mintage trust test" prints says the same, where the assertion names its client.
		if row.by == b.idp && row.claims["client_id"] == row.client {
			findings, _, err := b.auth.Findings(t.Context(), text)
			if err != nil || first(findings) != row.want {
				t.Errorf("%s: found %q, want %q: %v", name, first(findings), row.want, err)
			}
		}
	}
	for name, text := range map[string]string{"nothing": "", "no JWT": "x", "two dots": "..", "unsigned": "eyJhbGciOiJub25lIn0.e30.", "by a secret": "eyJhbGciOiJIUzI1NiJ9.e30.AAAA"} {
		if _, err := b.auth.Assertion(t.Context(), "orders", true, oauth.Secret(text)); refused(t, err) != "alg" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func chain(n int) map[string]any {
	act := map[string]any{"sub": fmt.Sprint("agent ", n)}
	if n > 1 {
		act["act"] = chain(n - 1)
	}
	return act
}

// first is the claim of the first fault.
func first(findings []client.Finding) string {
	for _, f := range findings {
		if f.Fault != "" {
			claim, _, _ := strings.Cut(f.Fault, " ")
			return claim
		}
	}
	return ""
}

// What an assertion says becomes what is granted.
func TestWhatAnAssertionSays(t *testing.T) {
	t.Parallel()
	b := newTrusting(t)
	for name, row := range map[string]struct {
		client string
		change map[string]any
		want   string
	}{
		"sub":     {"orders", nil, idp + "|u-1 [orders:read true https://api.example/orders] []"},
		"aud_sub": {"named", map[string]any{"tenant": "t1", "aud_sub": "jane", "scope": nil, "resource": nil}, "jane [ false ] []"},
		"email":   {"mailed", map[string]any{"email": "Jane@Example.COM", "email_verified": true, "scope": ""}, "jane@example.com [ true https://api.example/orders] []"},
		"actors":  {"orders", map[string]any{"act": map[string]any{"sub": "a", "iss": "https://x.example", "act": map[string]any{"sub": "b"}}}, idp + "|u-1 [orders:read true https://api.example/orders] [{https://x.example a} {https://idp.example b}]"},
	} {
		a, err := b.auth.Assertion(t.Context(), row.client, true, b.idp.sign(b.idjag(row.client, row.change)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := fmt.Sprintf("%s [%s %t %s] %v", a.Subject, a.Scope, a.Scoped, strings.Join(a.Resources, " "), a.Actors); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
	b.auth.UpstreamSubject = func(issuer string, claims map[string]json.RawMessage) (string, error) {
		return "corp:" + issuer + string(claims["sub"]), nil
	}
	if a, err := b.auth.Assertion(t.Context(), "mapped", true, b.idp.sign(b.idjag("mapped", nil))); err != nil || a.Subject != `corp:https://idp.example"u-1"` {
		t.Errorf("upstream: %v, %v", a, err)
	}
}

// Without the name of a client, one trust must fit; an ID-JAG needs a client that has
// authenticated.
func TestWorkloadsWithoutAClient(t *testing.T) {
	t.Parallel()
	b := newTrusting(t)
	for name, row := range map[string]struct{ client, subject, aud, want string }{
		"one fits":              {"", "ns:shop:a", tokenEndpoint, "job"},
		"the other fits":        {"", "ns:twin:b", tokenEndpoint, "twin"},
		"two fit":               {"", "ns:shop:b", tokenEndpoint, "iss"},
		"of two, by its client": {"twin", "ns:shop:b", tokenEndpoint, "twin"},
		"none fits":             {"", "ns:none:b", tokenEndpoint, "iss"},
		"not for its audience":  {"", "ns:shop:a", issuerID, "iss"},
		"of another client":     {"orders", "ns:shop:a", tokenEndpoint, "iss"},
	} {
		a, err := b.auth.Assertion(t.Context(), row.client, false, b.platform.sign(b.workload(map[string]any{"sub": row.subject, "aud": row.aud})))
		got := refused(t, err)
		if err == nil {
			got = a.Trust.ClientID
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	for _, name := range []string{"", "orders"} {
		if _, err := b.auth.Assertion(t.Context(), name, false, b.idp.sign(b.idjag("orders", nil))); !errors.Is(err, oauth.ErrClient) {
			t.Errorf("an ID-JAG of nobody, as client %q: %v", name, err)
		}
	}
	// A trust that is disabled fits nothing; as often as it lives, the token is good.
	text := b.platform.sign(b.workload(nil))
	for range 3 {
		if _, err := b.auth.Assertion(t.Context(), "", false, text); err != nil {
			t.Errorf("again: %v", err)
		}
	}
	b.Put(store.Trust{Issuer: "https://platform.example", Kind: store.TrustWorkload, ClientID: "job", Subjects: []string{"ns:shop:*"}, Audience: tokenEndpoint, Keys: b.platform.set(), Disabled: true})
	if _, err := b.auth.Assertion(t.Context(), "", false, text); refused(t, err) != "iss" {
		t.Errorf("disabled: %v", err)
	}
}

// The keys of an issuer that cannot be fetched are a fault of the server: the client keeps
// its assertion, and tries again.
func TestKeysOfAnIssuerThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	b := newTrusting(t)
	asked := ""
	var failure error
	fetch := func(_ context.Context, address, _ string, enough func(keyset.Set) bool) (keyset.Set, error) {
		asked = address
		set, _ := keyset.Parse(b.idp.set())
		enough(set)
		return set, failure
	}
	for want, trust := range map[string]store.Trust{
		idp + "/keys": {Issuer: idp, Kind: store.TrustIDJAG, ClientID: "orders", KeysURI: idp + "/keys"},
		idp:           {Issuer: idp, Kind: store.TrustIDJAG, ClientID: "orders"},
	} {
		b.auth.Keys, b.auth.Discovered, failure = fetch, fetch, nil
		b.Put(trust)
		if _, err := b.auth.Assertion(t.Context(), "orders", true, b.idp.sign(b.idjag("orders", nil))); err != nil || asked != want {
			t.Errorf("%s: asked %s: %v", want, asked, err)
		}
		failure = errors.New("no answer")
		if _, err := b.auth.Assertion(t.Context(), "orders", true, b.idp.sign(b.idjag("orders", nil))); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, oauth.ErrGrant) {
			t.Errorf("%s: %v, want a fault of the server", want, err)
		}
		b.auth.Keys, b.auth.Discovered = nil, nil
		if _, err := b.auth.Assertion(t.Context(), "orders", true, b.idp.sign(b.idjag("orders", nil))); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s, where nothing is fetched: %v", want, err)
		}
	}
}

// No text makes the reader panic, and none is accepted that its issuer has not signed.
func FuzzGrantAssertion(f *testing.F) {
	key := newSigner(f, jose.ES256)
	key.typ = oauth.JWTIDJAG
	now := time.Now().Unix()
	f.Add(string(key.sign(map[string]any{"iss": idp, "sub": "u", "aud": issuerID, "client_id": "orders", "jti": "1", "iat": now, "exp": now + 60})))
	f.Add("eyJhbGciOiJFUzI1NiIsInR5cCI6Im9hdXRoLWlkLWphZytqd3QifQ.eyJhY3QiOnsiYWN0Ijp7fX0sImNuZiI6e30sInJlc291cmNlIjpbXX0.AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		b := newTrusting(t)
		for _, name := range []string{"", "orders", "job"} {
			if a, err := b.auth.Assertion(t.Context(), name, name != "", oauth.Secret(text)); err == nil {
				t.Errorf("accepted as %+v", a)
			}
		}
		if list, _, err := b.auth.Findings(t.Context(), oauth.Secret(text)); err != nil || first(list) == "" {
			t.Errorf("no fault is found: %v", err)
		}
	})
}

// Trusts that no operator may have.
func TestTrustsThatAreRefused(t *testing.T) {
	t.Parallel()
	key := newSigner(t, jose.ES256)
	good := store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "orders", APIs: []string{"https://api.example/orders"}}
	work := store.Trust{Issuer: idp, Kind: store.TrustWorkload, ClientID: "orders", Subjects: []string{"repo:acme/shop:ref:refs/heads/main"}}
	for name, row := range map[string]struct {
		trust  store.Trust
		change func(*store.Trust)
		field  string
	}{
		"good":                        {good, func(*store.Trust) {}, ""},
		"a good workload":             {work, func(*store.Trust) {}, ""},
		"an email as issuer":          {work, func(t *store.Trust) { t.Issuer, t.Keys = "job@example.com", key.set() }, ""},
		"no kind":                     {good, func(t *store.Trust) { t.Kind = "" }, "kind"},
		"no issuer":                   {good, func(t *store.Trust) { t.Issuer = "" }, "issuer"},
		"this server":                 {good, func(t *store.Trust) { t.Issuer = issuerID }, "issuer"},
		"this server with a slash":    {work, func(t *store.Trust) { t.Issuer = issuerID + "/" }, "issuer"},
		"plain http":                  {good, func(t *store.Trust) { t.Issuer = "http://idp.example" }, "issuer"},
		"a query":                     {good, func(t *store.Trust) { t.Issuer = idp + "?a" }, "issuer"},
		"a bar, which divides names":  {good, func(t *store.Trust) { t.Issuer = idp + "/a|b" }, "issuer"},
		"discovery of an email":       {work, func(t *store.Trust) { t.Issuer = "job@example.com" }, "issuer"},
		"keys twice":                  {good, func(t *store.Trust) { t.Keys, t.KeysURI = key.set(), idp+"/keys" }, "jwks"},
		"private keys":                {good, func(t *store.Trust) { t.Keys = key.private() }, "jwks"},
		"keys by http":                {good, func(t *store.Trust) { t.KeysURI = "http://idp.example/keys" }, "jwks_uri"},
		"no certificates":             {good, func(t *store.Trust) { t.KeysCA = "x" }, "jwks_ca"},
		"an audience of users":        {good, func(t *store.Trust) { t.Audience = "x" }, "audience"},
		"two hours of users":          {good, func(t *store.Trust) { t.Lifetime = store.InMilliseconds(2 * time.Hour) }, "max_lifetime"},
		"two days of workloads":       {work, func(t *store.Trust) { t.Lifetime = store.InMilliseconds(48 * time.Hour) }, "max_lifetime"},
		"a tenant with a bar":         {good, func(t *store.Trust) { t.Tenant = "a|b" }, "tenant"},
		"workloads without a pattern": {work, func(t *store.Trust) { t.Subjects = nil }, "subjects"},
		"every workload":              {work, func(t *store.Trust) { t.Subjects = []string{"*"} }, "subjects"},
		"workloads of any owner":      {work, func(t *store.Trust) { t.Subjects = []string{"repo:*:ref:refs/heads/main"} }, "subjects"},
		"a mapping of workloads":      {work, func(t *store.Trust) { t.SubjectFrom = store.SubjectSub }, "subject_from"},
		"another mapping":             {good, func(t *store.Trust) { t.SubjectFrom = "name" }, "subject_from"},
		"email without domains":       {good, func(t *store.Trust) { t.SubjectFrom = store.SubjectEmail }, "email_domains"},
		"domains without email":       {good, func(t *store.Trust) { t.Domains = []string{"example.com"} }, "email_domains"},
		"a domain of everybody":       {good, func(t *store.Trust) { t.SubjectFrom, t.Domains = store.SubjectEmail, []string{"*.com"} }, "email_domains"},
	} {
		trust := row.trust
		row.change(&trust)
		err := client.CheckTrust(&trust, store.Trust{}, issuerID)
		var invalid *oauth.Invalid
		field := ""
		if asInvalid(err, &invalid) {
			field = invalid.Field
		}
		if field != row.field || (err == nil) != (row.field == "") {
			t.Errorf("%s: %v, want a fault of %q", name, err, row.field)
		}
	}
}
