package conformance_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// A signed is a verified JWT.
type signed struct {
	alg, typ string
	claims   map[string]any
}

// verified verifies a JWT with a third-party library and the published keys.
func (d *deployment) verified(text string) signed {
	d.t.Helper()
	jws, err := jose.ParseSigned(text, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA})
	if err != nil {
		d.t.Fatalf("a text of %d characters: %v", len(text), err)
	}
	header := jws.Signatures[0].Protected
	set := jose.JSONWebKeySet{Keys: d.ring().JWKS(grant.At(d.now()), keySchedule)}
	found := set.Key(header.KeyID)
	if len(found) != 1 || found[0].Algorithm != header.Algorithm {
		d.t.Fatalf("%d published keys %s for %s", len(found), header.KeyID, header.Algorithm)
	}
	payload, err := jws.Verify(found[0])
	if err != nil {
		d.t.Fatal(err)
	}
	typ, _ := header.ExtraHeaders[jose.HeaderType].(string)
	return signed{header.Algorithm, typ, members(d.t, string(payload))}
}

// sameMembers requires that two objects have the same members, except the named ones.
func sameMembers(t *testing.T, got, want map[string]any, except ...string) {
	t.Helper()
	for _, name := range except {
		delete(got, name)
		delete(want, name)
	}
	if a, b := marshal(t, got), marshal(t, want); a != b {
		t.Errorf("got  %s\nwant %s", a, b)
	}
}

const signedIntrospection = "application/token-introspection+jwt"

func TestIN14_TheAnswerAsAJWTIsSignedForTheOneWhoAsks(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	edwards := d.client(client.Registration{Settings: store.Settings{Introspect: true, SigningAlg: keys.EdDSA}})
	opaque, _ := d.tokens(d.a)
	jwt, _ := d.tokens(d.jwtClient("https://one.example", "https://two.example"))
	for _, c := range []struct {
		caller oauthClient
		alg    string
		token  string
	}{
		{rs, "ES256", opaque.AccessToken}, {rs, "ES256", jwt.AccessToken}, {edwards, "EdDSA", opaque.AccessToken},
		{rs, "ES256", "made-up"}, {rs, "ES256", opaque.RefreshToken}, {d.a, "ES256", opaque.RefreshToken}, {d.b, "ES256", opaque.AccessToken},
	} {
		plain := d.introspect(c.caller, c.token)
		for _, accept := range []string{signedIntrospection, "application/json;q=0.5, " + signedIntrospection} {
			a := d.introspect(c.caller, c.token, "Accept: "+accept)
			if a.status != http.StatusOK || len(a.header["Content-Type"]) != 1 || a.header["Content-Type"][0] != signedIntrospection {
				t.Fatalf("%d, Content-Type %q", a.status, a.header["Content-Type"])
			}
			compareHeader(t, a, "Content-Type: "+signedIntrospection)
			s := d.verified(a.body)
			if s.alg != c.alg || s.typ != "token-introspection+jwt" {
				t.Errorf("alg %s, typ %s", s.alg, s.typ)
			}
			// RFC 9701 section 5: no top-level claim may make the JWT look like an access
			// token of the subject.
			answer, ok := s.claims["token_introspection"].(map[string]any)
			if !ok {
				t.Fatalf("no answer in %v", s.claims)
			}
			sameMembers(t, answer, members(t, plain.body))
			iat := members(t, marshal(t, map[string]any{"iat": d.now().Unix()}))["iat"]
			sameMembers(t, s.claims, map[string]any{"iss": issuerID, "aud": c.caller.ID, "iat": iat}, "token_introspection")
			// The introspection JWT is not accepted as an access token.
			d.wantActive(rs, false, a.body)
			if v := d.verify(a.body); v.status != http.StatusUnauthorized {
				t.Errorf("as an access token: %v", v)
			}
		}
	}
}

func TestIN14_ThePhantomTokenSaysWhatTheOpaqueOneStandsFor(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	for _, c := range []oauthClient{
		d.a, d.jwtClient(), d.client(client.Registration{Settings: store.Settings{Audience: []string{"https://one.example", "https://two.example"}, SigningAlg: keys.EdDSA, JWTType: "JWT"}}),
	} {
		pair, _ := d.tokens(c)
		plain := members(t, d.introspect(rs, pair.AccessToken).body)
		a := d.introspect(rs, pair.AccessToken, "Accept: application/jwt")
		compareHeader(t, a, "Content-Type: application/jwt")
		s := d.verified(a.body)
		wantAlg, wantTyp := "ES256", "at+jwt"
		if c.SigningAlg != "" {
			wantAlg, wantTyp = string(c.SigningAlg), c.JWTType
		}
		if a.status != http.StatusOK || s.alg != wantAlg || s.typ != wantTyp {
			t.Errorf("%d, alg %s, typ %s", a.status, s.alg, s.typ)
		}
		sameMembers(t, s.claims, plain, "active", "token_type")
		// The JWT is valid as long as the opaque token, and ends with it.
		d.wantActive(rs, true, a.body)
		if v := d.verify(a.body); v.status != http.StatusOK {
			t.Errorf("as an access token: %v", v)
		}
		revoked(t, d.revoke(c, a.body))
		d.wantActive(rs, false, a.body, pair.AccessToken)
		dead := d.introspect(rs, pair.AccessToken, "Accept: application/jwt")
		if dead.body != inactive {
			t.Errorf("dead: %v", dead)
		}
		compareHeader(t, dead)
	}
	// There is no phantom token for a refresh token.
	pair, _ := d.tokens(d.a)
	if a := d.introspect(d.a, pair.RefreshToken, "Accept: application/jwt"); !strings.HasPrefix(a.body, `{"active":true,`) {
		t.Errorf("a refresh token: %v", a)
	}
}

func TestIN14_TheHeaviestOfSeveralWishesIsMet(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	pair, _ := d.tokens(d.a)
	for accept, want := range map[string]string{
		"application/jwt, application/json":                                      "application/jwt",
		"application/json;q=0.5, application/jwt":                                "application/jwt",
		"text/html, Application/JWT; q=0.1":                                      "application/jwt",
		"application/jwt;q=0.9, application/token-introspection+jwt":             "application/token-introspection+jwt",
		"application/token-introspection+jwt;q=0.1, */*;q=0.05, application/xml": "application/token-introspection+jwt",
	} {
		compareHeader(t, d.introspect(rs, pair.AccessToken, "Accept: "+accept), "Content-Type: "+want)
	}
}

func TestIN14_OtherWishesGetJSON(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	pair, _ := d.tokens(d.a)
	wanted := exactly(d.introspect(rs, pair.AccessToken))
	for _, accept := range []string{"*/*", "application/json", "application/*", "text/html", "nonsense", "application/xml;q=1",
		"application/jwt;q=0", "application/json, application/jwt", "application/jwt;q=0.5, application/json;q=0.6", "application/jwt;q=x"} {
		if got := exactly(d.introspect(rs, pair.AccessToken, "Accept: "+accept)); got != wanted {
			t.Errorf("Accept %s:\n%s\nwant\n%s", accept, got, wanted)
		}
	}
}

// A client with opaque tokens relies on immediate revocation. It must not get JWTs for
// them, which resource servers accept offline until they expire.
func TestIN14_WithoutTheRightNobodyGetsAPhantomToken(t *testing.T) {
	d := start(t)
	const one, two = "https://one.example", "https://two.example"
	for name, c := range map[string]oauthClient{
		"without the right":            d.a,
		"with JWTs anyway":             d.jwtClient(),
		"a right for another audience": d.client(client.Registration{Settings: store.Settings{Audience: []string{one}, Introspect: true, IntrospectAudience: []string{two}}}),
		"and an audience, without it":  d.client(client.Registration{Settings: store.Settings{Audience: []string{one}}}),
	} {
		pair, _ := d.tokens(c)
		plain := d.introspect(c, pair.AccessToken)
		a := d.introspect(c, pair.AccessToken, "Accept: application/jwt")
		if !strings.HasPrefix(a.body, `{"active":true,`) || exactly(a) != exactly(plain) {
			t.Errorf("%s: %v", name, a)
		}
	}
	// The right to introspect the token's audience suffices, whichever client owns the
	// token.
	c := d.client(client.Registration{Settings: store.Settings{Audience: []string{one}, Introspect: true, IntrospectAudience: []string{one}}})
	pair, _ := d.tokens(c)
	compareHeader(t, d.introspect(c, pair.AccessToken, "Accept: application/jwt"), "Content-Type: application/jwt")
}

// If the caller's signing key is missing, the response is 503: never unsigned, or signed
// with another algorithm.
func TestIN14_WithoutTheKeyThereIsNoAnswer(t *testing.T) {
	d := start(t)
	rs := d.client(client.Registration{Settings: store.Settings{Introspect: true, SigningAlg: keys.RS256}})
	rsa := d.client(client.Registration{Settings: store.Settings{SigningAlg: keys.RS256}})
	pair, _ := d.tokens(rsa)
	want(t, d.introspect(rs, pair.AccessToken, "Accept: "+signedIntrospection), 503, "temporarily_unavailable")
	want(t, d.introspect(rs, pair.AccessToken, "Accept: application/jwt"), 503, "temporarily_unavailable")
	want(t, d.introspect(rs, "made-up", "Accept: "+signedIntrospection), 503, "temporarily_unavailable")
	d.wantActive(rs, true, pair.AccessToken)
	rsa = d.change(rsa, func(c *store.Client) { c.TokenFormat = store.TokenJWT })
	want(t, d.post(rsa.redeem(d.code(rsa).Code)), 503, "temporarily_unavailable")
}
