package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

const idp = "https://idp.example"

// A trusting is a bench with trusts in an identity provider and in a platform.
type trusting struct {
	*bench
	idp, platform, other *signer
}

func newTrusting(t *testing.T) *trusting {
	b := &trusting{bench: newBench(t), idp: newSigner(t, jose.RS256), platform: newSigner(t, jose.ES256), other: newSigner(t, jose.ES256)}
	b.idp.typ = oauth.JWTIDJAG
	b.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "orders", APIs: []string{"https://api.example/orders"}, Keys: b.idp.set(), SubjectFrom: store.SubjectSub})
	b.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "named", Tenant: "t1", Subjects: []string{"u-*"}, Keys: b.idp.set(), SubjectFrom: store.SubjectAudSub, Lifetime: store.InMilliseconds(time.Hour)})
	b.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "mailed", Keys: b.idp.set(), SubjectFrom: store.SubjectEmail, Domains: []string{"example.com", "kiosk.example"}})
	b.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "mapped", Keys: b.idp.set(), SubjectFrom: store.SubjectUpstream})
	b.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "off", Keys: b.idp.set(), Disabled: true})
	b.Put(store.Trust{Issuer: issuerID, Kind: store.TrustIDJAG, ClientID: "orders", Keys: b.idp.set()}) // which no operator can create
	b.Put(store.Trust{Issuer: "https://platform.example", Kind: store.TrustWorkload, ClientID: "job", Subjects: []string{"ns:shop:*"}, Audience: tokenEndpoint, Keys: b.platform.set()})
	b.Put(store.Trust{Issuer: "https://platform.example", Kind: store.TrustWorkload, ClientID: "twin", Subjects: []string{"ns:shop:b", "ns:twin:b"}, Audience: tokenEndpoint, Keys: b.platform.set()})
	return b
}

// idjag returns the claims of a client's valid ID-JAG, with changes.
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

// refused returns the claim for which the assertion was refused, or "" if it was accepted.
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

// reason returns the claim like refused, followed by what is wrong with it.
func reason(t testing.TB, err error) string {
	t.Helper()
	var fault *client.GrantFault
	if errors.As(err, &fault) {
		return refused(t, err) + " " + fault.Why
	}
	return refused(t, err)
}

// TestRefusedAssertions: forged, stale, misaddressed and overreaching assertions, with the
// reason that "mintage trust test" shows for the assertion, and "mintage explain" for the
// request.
func TestRefusedAssertions(t *testing.T) {
	t.Parallel()
	b := newTrusting(t)
	at := newEndpoint(b)
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
		// Valid assertions, so that the others are refused for their differences.
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
		"signed by another key":            {"orders", typed(b.other, oauth.JWTIDJAG), jag(nil), "kid names none of the issuer's keys for ES256: it is \"k1\""},
		"signed by the platform":           {"orders", typed(b.platform, oauth.JWTIDJAG), jag(nil), "kid names none of the issuer's keys for ES256"},
		"another key of the same kid":      {"job", b.other, b.workload(nil), "signature does not verify"},
		"a kid that there is not":          {"orders", with(b.idp, func(s *signer) { s.kid = "other" }), jag(nil), "kid names none of the issuer's keys for RS256: it is \"other\""},
		"a critical extension":             {"orders", extended("crit", []string{"x"}), jag(nil), "crit is in the header"},
		"compressed":                       {"orders", extended("zip", "DEF"), jag(nil), "zip is in the header"},
		"an unknown issuer":                {"orders", b.idp, jag(changes{"iss": "https://evil.example"}), "iss has no id-jag trust for the client: it is \"https://evil.example\""},
		"no issuer":                        {"orders", b.idp, jag(changes{"iss": nil}), "iss has no id-jag trust for the client: it is \"\""},
		"an issuer with a slash":           {"orders", b.idp, jag(changes{"iss": idp + "/"}), "iss has no id-jag trust for the client: it is \"https://idp.example/\""},
		"this server as the issuer":        {"orders", b.idp, jag(changes{"iss": issuerID}), "iss is this server"},
		"a disabled trust":                 {"off", b.idp, b.idjag("off", nil), "iss is one whose trust is disabled"},
		"a client without a trust":         {"stranger", b.idp, b.idjag("stranger", nil), "iss has no id-jag trust for the client"},
		"a trust of the other kind":        {"job", typed(b.platform, oauth.JWTIDJAG), b.workload(nil), "typ is oauth-id-jag+jwt, and the client's trust is for workloads"},
		"the users' issuer as a workload":  {"orders", typed(b.idp, "JWT"), jag(nil), "typ is not oauth-id-jag+jwt, and the client's trust is for ID-JAGs: it is \"JWT\""},
		"the users' issuer without a type": {"orders", typed(b.idp, ""), jag(nil), "typ is not oauth-id-jag+jwt, and the client's trust is for ID-JAGs: it is \"\""},
		"the platform's for another":       {"orders", b.platform, b.workload(nil), "iss has no workload trust for the client"},
		"a type in other letters":          {"orders", typed(b.idp, "OAUTH-ID-JAG+JWT"), jag(nil), "typ is not written oauth-id-jag+jwt: it is \"OAUTH-ID-JAG+JWT\""},
		"a type with its prefix":           {"orders", typed(b.idp, "application/oauth-id-jag+jwt"), jag(nil), "typ is not written oauth-id-jag+jwt"},
		"an access token":                  {"job", typed(b.platform, "at+jwt"), b.workload(nil), "typ is that of another kind of token: it is \"at+jwt\""},
		"a logout token":                   {"job", typed(b.platform, "logout+jwt"), b.workload(nil), "typ is that of another kind of token: it is \"logout+jwt\""},
		"a proof":                          {"job", typed(b.platform, "dpop+jwt"), b.workload(nil), "typ is that of another kind of token"},
		"an answer of introspection":       {"job", typed(b.platform, "token-introspection+jwt"), b.workload(nil), "typ is that of another kind of token"},
		"an id_token by its nonce":         {"job", b.platform, b.workload(changes{"nonce": "n"}), "nonce is there: an id_token"},
		"an id_token by its hash":          {"job", b.platform, b.workload(changes{"at_hash": "h"}), "at_hash is there: an id_token"},
		"an id_token by the code's hash":   {"job", b.platform, b.workload(changes{"c_hash": "h"}), "c_hash is there: an id_token"},
		"an event":                         {"job", b.platform, b.workload(changes{"events": changes{}}), "events is there"},
		"a subject that is not a string":   {"orders", b.idp, jag(changes{"sub": 7}), "sub has the wrong JSON type"},
		"an actor that is this server's":   {"orders", b.idp, jag(changes{"act": changes{"sub": "orders", "iss": issuerID}}), "act names a party of this server"},
		"an actor of ours, with a slash":   {"orders", b.idp, jag(changes{"act": changes{"sub": "orders", "iss": issuerID + "/"}}), "act names a party of this server"},
		"a subject with control character": {"orders", b.idp, jag(changes{"sub": "a\nb"}), "sub makes a subject that is not UTF-8 text"},

		// Stale.
		"expired":                     {"orders", b.idp, jag(changes{"iat": now - 60, "exp": now}), "exp is over"},
		"without expiry":              {"orders", b.idp, jag(changes{"exp": nil}), "exp is missing"},
		"issued tomorrow":             {"orders", b.idp, jag(changes{"iat": now + 31, "exp": now + 60}), "iat is in the future"},
		"not valid yet":               {"orders", b.idp, jag(changes{"nbf": now + 31}), "nbf is in the future"},
		"without issue":               {"orders", b.idp, jag(changes{"iat": nil}), "iat is missing"},
		"living too long":             {"orders", b.idp, jag(changes{"exp": now + 301}), "exp is more than 5m0s after iat"},
		"too long by an old issue":    {"orders", b.idp, jag(changes{"iat": now - 299, "exp": now + 2}), "exp is more than 5m0s after iat"},
		"times that are no numbers":   {"orders", b.idp, jag(changes{"exp": "soon"}), "exp has the wrong JSON type"},
		"a time beyond all":           {"orders", b.idp, jag(changes{"exp": 1e300}), "exp is not a time in seconds"},
		"a workload's of two hours":   {"job", b.platform, b.workload(changes{"exp": now + 7200}), "exp is more than 1h10m30s ahead"},
		"a workload's that is over":   {"job", b.platform, b.workload(changes{"iat": now - 9, "exp": now - 1}), "exp is over"},
		"an ID-JAG of over one hour":  {"named", b.idp, b.idjag("named", changes{"exp": now + 3601, "tenant": "t1", "aud_sub": "jane"}), "exp is more than 1h0m0s after iat"},
		"without jti, as no replay":   {"orders", b.idp, jag(changes{"jti": nil}), "jti is missing"},
		"an overlong jti":             {"orders", b.idp, jag(changes{"jti": strings.Repeat("j", 256)}), "jti is longer than 255 bytes"},
		"an empty jti":                {"orders", b.idp, jag(changes{"jti": ""}), "jti is missing"},
		"an auth_time that is a text": {"orders", b.idp, jag(changes{"auth_time": "now"}), "auth_time has the wrong JSON type"},

		// Misaddressed.
		"for another client":              {"orders", b.idp, jag(changes{"client_id": "job"}), "client_id is not the client that presents it: it is \"job\""},
		"for no client":                   {"orders", b.idp, jag(changes{"client_id": nil}), "client_id is not the client that presents it: it is \"\""},
		"for the token endpoint":          {"orders", b.idp, jag(changes{"aud": tokenEndpoint}), "aud is an address below the issuer"},
		"for another server":              {"orders", b.idp, jag(changes{"aud": "https://other.example"}), "aud is not the issuer of this server: it is \"https://other.example\""},
		"for the client":                  {"orders", b.idp, jag(changes{"aud": "orders"}), "aud is not the issuer of this server"},
		"for two":                         {"orders", b.idp, jag(changes{"aud": []string{issuerID, "https://other.example"}}), "aud has 2 audiences"},
		"for the same twice":              {"orders", b.idp, jag(changes{"aud": []string{issuerID, issuerID}}), "aud has 2 audiences"},
		"for nobody":                      {"orders", b.idp, jag(changes{"aud": nil}), "aud has 0 audiences"},
		"for the issuer with two slashes": {"orders", b.idp, jag(changes{"aud": issuerID + "//"}), "aud is an address below the issuer"},
		"a workload's for the issuer":     {"job", b.platform, b.workload(changes{"aud": issuerID}), "aud is not the audience of the trust: it is \"https://auth.example/oauth2/api\""},
		"a workload's for two":            {"job", b.platform, b.workload(changes{"aud": []string{tokenEndpoint, issuerID}}), "aud has 2 audiences"},

		// Overreaching.
		"a tenant where there is none":         {"orders", b.idp, jag(changes{"tenant": "t1"}), "tenant is not that of the trust: it is \"t1\""},
		"an empty tenant":                      {"named", b.idp, b.idjag("named", changes{"tenant": "", "aud_sub": "jane"}), "tenant is not that of the trust: it is \"\""},
		"no tenant":                            {"named", b.idp, b.idjag("named", changes{"aud_sub": "jane"}), "tenant is missing"},
		"another tenant":                       {"named", b.idp, b.idjag("named", changes{"tenant": "t2", "aud_sub": "jane"}), "tenant is not that of the trust: it is \"t2\""},
		"a subject of no pattern":              {"named", b.idp, b.idjag("named", changes{"tenant": "t1", "aud_sub": "jane", "sub": "admin"}), "sub is not one of the subjects of the trust: it is \"admin\""},
		"a subject beyond a pattern":           {"named", b.idp, b.idjag("named", changes{"tenant": "t1", "aud_sub": "jane", "sub": "u-1:root"}), "sub is not one of the subjects of the trust: it is \"u-1:root\""},
		"no subject":                           {"orders", b.idp, jag(changes{"sub": nil}), "sub is missing"},
		"an overlong subject":                  {"orders", b.idp, jag(changes{"sub": strings.Repeat("u", 255)}), "sub makes a subject that is not UTF-8 text of at most 255 bytes"},
		"no name here":                         {"named", b.idp, b.idjag("named", changes{"tenant": "t1"}), "aud_sub is missing"},
		"no address":                           {"mailed", b.idp, b.idjag("mailed", nil), "email is missing"},
		"an address that is not verified":      {"mailed", b.idp, b.idjag("mailed", changes{"email": "jane@example.com"}), "email is not email_verified"},
		"an address that is verified by text":  {"mailed", b.idp, b.idjag("mailed", changes{"email": "jane@example.com", "email_verified": "true"}), "email is not email_verified"},
		"an address of another domain":         {"mailed", b.idp, b.idjag("mailed", changes{"email": "jane@example.com.evil.example", "email_verified": true}), "email is of a domain that the trust does not list: it is \"example.com.evil.example\""},
		"a domain with the Kelvin sign":        {"mailed", b.idp, b.idjag("mailed", changes{"email": "jane@\u212aiosk.example", "email_verified": true}), "email is of a domain that the trust does not list"},
		"an address with two domains":          {"mailed", b.idp, b.idjag("mailed", changes{"email": "a@evil.example@example.com", "email_verified": true}), "email is missing, or no address"},
		"a mapping that there is not":          {"mapped", b.idp, b.idjag("mapped", nil), "sub cannot be mapped"},
		"details of authorization":             {"orders", b.idp, jag(changes{"authorization_details": []any{changes{"type": "x"}}}), "authorization_details is there"},
		"empty details":                        {"orders", b.idp, jag(changes{"authorization_details": []any{}}), "authorization_details is there"},
		"a tenant of the audience":             {"orders", b.idp, jag(changes{"aud_tenant": "t"}), "aud_tenant is there"},
		"another confirmation":                 {"orders", b.idp, jag(changes{"cnf": changes{"x5t#S256": "x"}}), "cnf has another member"},
		"two confirmations":                    {"orders", b.idp, jag(changes{"cnf": changes{"jkt": strings.Repeat("A", 42) + "E", "x5t#S256": "x"}}), "cnf has another member"},
		"an empty confirmation":                {"orders", b.idp, jag(changes{"cnf": changes{}}), "cnf has another member"},
		"a confirmation that is no thumbprint": {"orders", b.idp, jag(changes{"cnf": changes{"jkt": "short"}}), "cnf has a jkt that is no thumbprint"},
		"five actors":                          {"orders", b.idp, jag(changes{"act": chain(5)}), "act has more than 4 actors"},
		"an actor without a name":              {"orders", b.idp, jag(changes{"act": changes{"iss": idp}}), "act has no sub"},
		"actors with long names":               {"orders", b.idp, jag(changes{"act": changes{"sub": strings.Repeat("a", 250)}}), "act has more than 4 actors, or names that are too long"},
		"an actor of a workload":               {"job", b.platform, b.workload(changes{"act": chain(1)}), "act is there: a workload acts for itself"},
		"a malformed scope":                    {"orders", b.idp, jag(changes{"scope": `a"b`}), "scope is malformed"},
		"a scope that is a list":               {"orders", b.idp, jag(changes{"scope": []string{"a"}}), "scope has the wrong JSON type"},
		"an empty list of resources":           {"orders", b.idp, jag(changes{"resource": []string{}}), "resource is empty"},
		"an empty resource":                    {"orders", b.idp, jag(changes{"resource": ""}), "resource is empty"},
		"a workload of no pattern":             {"job", b.platform, b.workload(changes{"sub": "ns:admin:a"}), "sub is not one of the subjects of the trust: it is \"ns:admin:a\""},
		"a workload beyond a pattern":          {"job", b.platform, b.workload(changes{"sub": "ns:shop:a:b"}), "sub is not one of the subjects of the trust"},
		"a workload without a name":            {"job", b.platform, b.workload(changes{"sub": nil}), "sub is missing"},
	} {
		text := row.by.sign(row.claims)
		_, err := b.auth.Assertion(t.Context(), row.client, true, text)
		because := reason(t, err)
		if !strings.HasPrefix(because, row.want) || (because == "") != (row.want == "") {
			t.Errorf("%s: %q, want %q: %v", name, because, row.want, err)
		}
		// "mintage trust test" gives the same reason, if the assertion names its client.
		if row.by == b.idp && row.claims["client_id"] == row.client {
			findings, _, err := b.auth.Findings(t.Context(), text)
			if err != nil || first(findings) != because {
				t.Errorf("%s: found %q, want %q: %v", name, first(findings), because, err)
			}
		}
		if because != "" {
			at.present(name, row.client, text, because)
		}
	}
	at.explain()
	findings, _, err := b.auth.Findings(t.Context(), typed(b.idp, "JWT").sign(jag(nil)))
	if want := "typ is not oauth-id-jag+jwt"; err != nil || !strings.HasPrefix(first(findings), want) {
		t.Errorf("a token of another type: found %q, %v, want %s", first(findings), err, want)
	}
	for name, text := range map[string]string{"nothing": "", "no JWT": "x", "two dots": "..", "unsigned": "eyJhbGciOiJub25lIn0.e30.", "by a secret": "eyJhbGciOiJIUzI1NiJ9.e30.AAAA"} {
		if _, err := b.auth.Assertion(t.Context(), "orders", true, oauth.Secret(text)); refused(t, err) != "alg" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FAPI 2.0 section 5.4.1 applies to every JWT that the server processes.
func TestAFAPIClientMayNotPresentRS256Assertions(t *testing.T) {
	t.Parallel()
	b := newTrusting(t)
	bank := client.Registration{ID: "bank", Settings: store.Settings{Name: "Bank", Scope: "read", RedirectURIs: []string{"https://bank.example/cb"}, Profile: store.ProfileFAPI2, Assertion: store.AssertionRule{Keys: b.signer.set()}}}
	bank.Follow()
	b.Register(bank)
	b.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: "bank", Keys: b.idp.set()})
	b.Put(store.Trust{Issuer: "https://platform.example", Kind: store.TrustWorkload, ClientID: "bank", Subjects: []string{"ns:bank:*"}, Audience: tokenEndpoint, Keys: b.platform.set()})
	text := b.idp.sign(b.idjag("bank", nil))
	_, err := b.auth.Assertion(t.Context(), "bank", true, text)
	because := reason(t, err)
	if !strings.HasPrefix(because, "alg is RS256, and the client follows the FAPI 2.0 Security Profile") {
		t.Errorf("by RS256: %q, %v", because, err)
	}
	if findings, _, err := b.auth.Findings(t.Context(), text); err != nil || first(findings) != because {
		t.Errorf("found %q, %v, want %q", first(findings), err, because)
	}
	if _, err := b.auth.Assertion(t.Context(), "bank", true, b.platform.sign(b.workload(map[string]any{"sub": "ns:bank:a"}))); err != nil {
		t.Errorf("by ES256: %v", err)
	}
}

func chain(n int) map[string]any {
	act := map[string]any{"sub": fmt.Sprint("agent ", n)}
	if n > 1 {
		act["act"] = chain(n - 1)
	}
	return act
}

// first returns the first fault.
func first(findings []client.Finding) string {
	for _, f := range findings {
		if f.Fault != "" {
			return f.Fault
		}
	}
	return ""
}

// The contents of an assertion become the contents of its grant.
func TestContentsOfAnAssertion(t *testing.T) {
	t.Parallel()
	b := newTrusting(t)
	for name, row := range map[string]struct {
		client string
		change map[string]any
		want   string
	}{
		"sub":     {"orders", nil, idp + "|u-1 [orders:read true https://api.example/orders] []"},
		"aud_sub": {"named", map[string]any{"tenant": "t1", "aud_sub": "jane", "scope": nil, "resource": nil}, "jane [ false ] []"},
		"kelvin":  {"mailed", map[string]any{"email": "\u212aIM@example.com", "email_verified": true, "scope": ""}, "\u212aim@example.com [ true https://api.example/orders] []"},
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

// If the request does not name a client, exactly one trust must fit. An ID-JAG requires an
// authenticated client.
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
	for subject, want := range map[string]string{
		"ns:none:b": "iss with sub and aud fits no trust of workloads", "ns:shop:b": "iss with sub and aud fits 2 trusts of workloads",
	} {
		_, err := b.auth.Assertion(t.Context(), "", false, b.platform.sign(b.workload(map[string]any{"sub": subject})))
		if !strings.HasPrefix(reason(t, err), want) {
			t.Errorf("%s: %v, want %s", subject, err, want)
		}
	}
	for _, name := range []string{"", "orders"} {
		if _, err := b.auth.Assertion(t.Context(), name, false, b.idp.sign(b.idjag("orders", nil))); !errors.Is(err, oauth.ErrClient) {
			t.Errorf("an ID-JAG without an authenticated client, as client %q: %v", name, err)
		}
	}
	// A disabled trust does not fit. A valid token may be presented repeatedly.
	text := b.platform.sign(b.workload(nil))
	for range 3 {
		if _, err := b.auth.Assertion(t.Context(), "", false, text); err != nil {
			t.Errorf("again: %v", err)
		}
	}
	b.Put(store.Trust{Issuer: "https://platform.example", Kind: store.TrustWorkload, ClientID: "job", Subjects: []string{"ns:shop:*"}, Audience: tokenEndpoint, Keys: b.platform.set(), Disabled: true})
	if _, err := b.auth.Assertion(t.Context(), "", false, text); !strings.HasPrefix(reason(t, err), "iss is one whose trust is disabled") {
		t.Errorf("disabled: %v", err)
	}
	// A trust without subjects fits no token.
	b.Put(store.Trust{Issuer: "https://platform.example", Kind: store.TrustWorkload, ClientID: "job", Audience: tokenEndpoint, Keys: b.platform.set()})
	if _, err := b.auth.Assertion(t.Context(), "job", false, text); refused(t, err) != "sub" {
		t.Errorf("without subjects: %v", err)
	}
}

// If an issuer's keys cannot be fetched, the fault is the server's: the client keeps its
// assertion and tries again.
func TestKeysOfAnIssuerThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	b := newTrusting(t)
	asked, since := "", time.Time{}
	var failure error
	fetch := func(_ context.Context, address, _ string, from time.Time, enough func(keyset.Set) bool) (keyset.Set, error) {
		asked, since = address, from
		set, _ := keyset.Parse(b.idp.set())
		enough(set)
		return set, failure
	}
	for want, trust := range map[string]store.Trust{
		idp + "/keys": {Issuer: idp, Kind: store.TrustIDJAG, ClientID: "orders", KeysURI: idp + "/keys", Since: 5000},
		idp:           {Issuer: idp, Kind: store.TrustIDJAG, ClientID: "orders", Since: 5000},
	} {
		b.auth.Keys, b.auth.Discovered, failure = fetch, fetch, nil
		b.Put(trust)
		if _, err := b.auth.Assertion(t.Context(), "orders", true, b.idp.sign(b.idjag("orders", nil))); err != nil || asked != want || !since.Equal(trust.Since.Time()) {
			t.Errorf("%s: fetched %s for keys since %s: %v", want, asked, since, err)
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

// A self-registered client authenticates by the document at its id, without a user's
// consent, if a trust in the issuer of its ID-JAG names the client. Documents of other
// clients are not fetched.
func TestATrustVouchesForADocument(t *testing.T) {
	t.Parallel()
	b := newTrusting(t)
	const address = "https://agent.example/client.json"
	b.Put(store.Trust{Issuer: idp, Kind: store.TrustIDJAG, ClientID: address, Keys: b.idp.set()})
	b.Put(store.Trust{Issuer: "https://off.example", Kind: store.TrustIDJAG, ClientID: address, Keys: b.idp.set(), Disabled: true})
	b.Put(store.Trust{Issuer: "https://platform.example", Kind: store.TrustWorkload, ClientID: address, Keys: b.idp.set()})
	fetched, admitted, auth := 0, true, store.AuthPrivateKeyJWT
	var failure error
	b.auth.Described = func(_ context.Context, id string, _ netip.Prefix) (*store.Client, error) {
		fetched++
		return &store.Client{ID: id, Realm: realm, State: store.ClientEnabled, RegisteredBy: store.ByDocument,
			Settings: store.Settings{Auth: auth, Assertion: store.AssertionRule{KeysURI: address}}}, failure
	}
	b.auth.OwnKeys = func(context.Context, string, netip.Prefix, func(keyset.Set) bool) (keyset.Set, error) {
		return keyset.Parse(b.signer.set())
	}
	b.Directory.AdmitSelfRegistered(func(_, id string) bool { return admitted && id == address })
	present := func(issuer string) error {
		var grant oauth.Secret
		if issuer != "" {
			grant = b.idp.sign(b.idjag(address, map[string]any{"iss": issuer}))
		}
		_, err := b.auth.Authenticate(t.Context(), oauth.Credentials{
			ClientID: address, Method: oauth.AuthPrivateKeyJWT, Grant: grant,
			Assertion: b.signer.sign(b.claims(map[string]any{"iss": address, "sub": address})),
		}, from)
		return err
	}
	if err := present(idp); err != nil || fetched != 1 {
		t.Errorf("%v, after %d fetches", err, fetched)
	}
	for _, issuer := range []string{"", "https://evil.example", "https://off.example", "https://platform.example"} {
		if err := present(issuer); !errors.Is(err, client.UnknownClient) || fetched != 1 {
			t.Errorf("issuer %q: %v, after %d fetches", issuer, err, fetched)
		}
	}
	admitted = false
	if err := present(idp); !errors.Is(err, client.UnknownClient) || fetched != 1 {
		t.Errorf("not admitted: %v, after %d fetches", err, fetched)
	}
	admitted, auth = true, store.AuthNone
	if err := present(idp); !errors.Is(err, client.ErrClient) {
		t.Errorf("a public one: %v", err)
	}
	failure = errors.New("no document")
	if err := present(idp); !errors.As(err, new(*store.ExternalFault)) {
		t.Errorf("a document that cannot be read: %v", err)
	}
}

// No input causes a panic, and only assertions that their issuer signed are accepted.
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

// Trusts that no operator may create.
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
