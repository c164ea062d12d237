package issuer_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// claims reads a JWT of the service's own keys.
func (s *service) claims(text string) (typ string, claims map[string]any) {
	s.T.Helper()
	typ, payload, _, err := s.View().Ring.Verify(text)
	if err == nil {
		err = json.Unmarshal(payload, &claims)
	}
	if err != nil {
		s.T.Fatal(err)
	}
	return typ, claims
}

func TestAClientIsSwitchedToJWTsAndBackAndItsTokensLiveOn(t *testing.T) {
	s := newResource(t)
	opaque := s.Login()
	s.format(store.TokenJWT)
	jwt := s.Must(s.Renew(opaque.RefreshToken))
	s.format("")
	back := s.Must(s.Renew(jwt.RefreshToken))
	for text, isJWT := range map[string]bool{opaque.AccessToken: false, jwt.AccessToken: true, back.AccessToken: false} {
		if strings.HasPrefix(text, keys.AccessPrefix) == isJWT || strings.Count(text, ".") == 2 != isJWT {
			t.Errorf("a text of %d characters is a JWT: %t", len(text), !isJWT)
		}
		if _, err := s.inspect(text); err != nil {
			t.Errorf("JWT %t: %v", isJWT, err)
		}
	}
}

func TestAJWTHasItsClientsTypeAlgorithmAndAudience(t *testing.T) {
	s := newResource(t)
	for _, c := range []struct {
		alg      keys.Purpose
		typ      string
		audience []string
		wantTyp  string
		wantAlg  string
		wantAud  any
	}{
		{"", "", nil, "at+jwt", "ES256", issuerID},
		{keys.EdDSA, "JWT", []string{"https://one.example"}, "JWT", "EdDSA", "https://one.example"},
		{keys.ES256, "at+jwt", []string{"a", "b"}, "at+jwt", "ES256", []any{"a", "b"}},
	} {
		s.Administer(clientID, func(client *store.Client) {
			client.TokenFormat, client.SigningAlg, client.JWTType, client.Audience = store.TokenJWT, c.alg, c.typ, c.audience
		})
		text := s.Login().AccessToken
		typ, claims := s.claims(text)
		header, err := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[0])
		if err != nil || typ != c.wantTyp || !strings.Contains(string(header), `"alg":"`+c.wantAlg+`"`) {
			t.Errorf("header %s, want %s, %s", header, c.wantAlg, c.wantTyp)
		}
		names := slices.Sorted(maps.Keys(claims))
		if want := []string{"aud", "client_id", "exp", "iat", "iss", "jti", "scope", "sub"}; !slices.Equal(names, want) {
			t.Errorf("claims %v, want %v", names, want)
		}
		aud, _ := json.Marshal(claims["aud"])
		if wantAud, _ := json.Marshal(c.wantAud); string(aud) != string(wantAud) {
			t.Errorf("aud %s, want %s", aud, wantAud)
		}
	}
}

// The jti contains the grant, the generation and the instants: verifiers that subscribe to
// the list of revocations read it.
func TestTheTokenIdIsGrantGenerationAndInstants(t *testing.T) {
	s := newResource(t)
	s.format(store.TokenJWT)
	authorized := s.At()
	first := s.Login()
	s.Clock.Advance(90 * time.Second)
	second := s.Must(s.Renew(first.RefreshToken))
	for generation, text := range map[uint32]string{1: first.AccessToken, 2: second.AccessToken} {
		_, claims := s.claims(text)
		id, err := base64.RawURLEncoding.DecodeString(claims["jti"].(string))
		if err != nil || len(id) != 32 {
			t.Fatalf("jti of %d bytes, %v", len(id), err)
		}
		instant := func(b []byte) grant.Instant {
			return grant.Instant(binary.BigEndian.Uint64(append([]byte{0, 0}, b...)))
		}
		issued := authorized.Add(time.Duration(generation-1) * 90 * time.Second)
		if grant.ID(id[:16]) != first.GrantID || binary.BigEndian.Uint32(id[16:]) != generation || instant(id[20:26]) != issued || instant(id[26:]) != authorized {
			t.Errorf("jti %x of generation %d", id, generation)
		}
		tok, err := s.inspect(text)
		if err != nil || tok.ID() != claims["jti"] {
			t.Errorf("inspected as %q, %v", tok.ID(), err)
		}
	}
}

// JWTs outlive their key: another key signs new ones, and the old ones remain valid.
func TestAJWTIsGoodAfterItsKeyIsRetired(t *testing.T) {
	s := newResource(t)
	s.format(store.TokenJWT)
	old := s.Login()
	key, err := keys.New(s.KEK, keys.ES256, s.At(), s.At()+1)
	if err != nil {
		t.Fatal(err)
	}
	s.AddKey(key)
	s.Poll()
	s.Clock.Advance(time.Second)
	fresh := s.Must(s.Renew(old.RefreshToken))
	kid := `"kid":"` + key.ID.String() + `"`
	for text, want := range map[string]bool{old.AccessToken: false, fresh.AccessToken: true} {
		header, _ := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[0])
		if strings.Contains(string(header), kid) != want {
			t.Errorf("header %s: signed by the new key, want %t", header, want)
		}
		if _, err := s.inspect(text); err != nil {
			t.Error(err)
		}
	}
}

func TestAPhantomTokenIsRevokedWithItsToken(t *testing.T) {
	s := newResource(t)
	s.Administer(clientID, func(c *store.Client) { c.Audience = []string{"https://one.example"} })
	tokens := s.Login()
	opaque, err := s.introspect(apiID, tokens.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.Signer().Phantom(t.Context(), opaque)
	if err != nil {
		t.Fatal(err)
	}
	phantom, err := s.introspect(apiID, text)
	if err != nil || phantom.ID() != opaque.ID() || phantom.ExpiresAt != opaque.ExpiresAt || phantom.IssuedAt != opaque.IssuedAt ||
		phantom.Scope != opaque.Scope || !slices.Equal(phantom.Audience, opaque.Audience) {
		t.Errorf("%+v, %v\nwant %+v", phantom, err, opaque)
	}
	s.mustRevoke(tokens.AccessToken)
	s.Dead(grant.AccessRevoked)(s.inspect(text))
}

func TestASignedIntrospectionIsForItsCallerAndNoAccessToken(t *testing.T) {
	s := newResource(t)
	text, err := s.Signer().Introspection(s.Listed(apiID), json.RawMessage(`{"active":false}`))
	if err != nil {
		t.Fatal(err)
	}
	typ, claims := s.claims(text)
	got, _ := json.Marshal(claims)
	want := `{"aud":"invoices-api","iat":1700000000,"iss":"` + issuerID + `","token_introspection":{"active":false}}`
	if typ != "token-introspection+jwt" || string(got) != want {
		t.Errorf("%s %s\nwant %s", typ, got, want)
	}
	s.Dead(grant.TokenUnknown)(s.inspect(text))
	s.mustRevoke(text)
}

// A thief of a signing key can sign like the service. The grant's row still limits the use
// of such a token.
func TestAValidSignatureIsLimitedByTheGrant(t *testing.T) {
	s := newResource(t)
	s.format(store.TokenJWT)
	typ, claims := s.claims(s.Login().AccessToken)
	sign := func(name string, value any) string {
		changed := maps.Clone(claims)
		changed[name] = value
		text, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		jwt, err := s.View().Ring.Sign(keys.ES256, typ, text, s.At())
		if err != nil {
			t.Fatal(err)
		}
		return jwt
	}
	if _, err := s.inspect(sign("aud", "https://elsewhere.example")); err != nil {
		t.Fatalf("a token made by hand: %v", err) // so the others are refused for what they say
	}
	for name, value := range map[string]any{
		"scope": claims["scope"].(string) + " other", "sub": "mallory", "client_id": "another", "iss": "https://elsewhere.example",
	} {
		s.Dead(grant.TokenUnknown)(s.inspect(sign(name, value)))
	}
}

func TestOnlyJWTsTypedAsAccessTokensAreAccepted(t *testing.T) {
	s := newResource(t)
	s.format(store.TokenJWT)
	_, good := s.claims(s.Login().AccessToken)
	sign := func(typ string, change map[string]any) string {
		t.Helper()
		altered := maps.Clone(good)
		maps.Copy(altered, change)
		claims, err := json.Marshal(altered)
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.View().Ring.Sign(keys.ES256, typ, claims, s.At())
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, typ := range store.JWTTypes {
		if _, err := s.inspect(sign(typ, nil)); err != nil {
			t.Errorf("typ %s: %v", typ, err)
		}
	}
	for _, typ := range []string{"token-introspection+jwt", "revocations+jwt", "logout+jwt", "dpop+jwt", "AT+JWT", "jwt", "JOSE"} {
		s.Dead(grant.TokenUnknown)(s.inspect(sign(typ, nil)))
	}
	for name, change := range map[string]map[string]any{
		"another issuer": {"iss": "https://evil.example"}, "no issuer": {"iss": nil}, "no jti": {"jti": nil}, "a short jti": {"jti": "AAAA"},
		"a jti that is no text": {"jti": 7}, "a padded jti": {"jti": good["jti"].(string) + "="}, "an exp that is no number": {"exp": "1800000000"},
	} {
		if tok, err := s.inspect(sign("at+jwt", change)); err == nil {
			t.Errorf("%s: %+v", name, tok)
		}
	}
	// A valid signature over the id of an unknown grant means that the store has lost the
	// grant.
	id, err := base64.RawURLEncoding.DecodeString(good["jti"].(string))
	if err != nil {
		t.Fatal(err)
	}
	clear(id[:16])
	lost := base64.RawURLEncoding.EncodeToString(id)
	s.Dead(grant.StoreBehind)(s.inspect(sign("at+jwt", map[string]any{"jti": lost})))
}

func TestAccessTokensOfARegistrationAreChecked(t *testing.T) {
	s := newService(t)
	long := strings.Repeat("a", 256)
	good := client.Registration{Settings: store.Settings{Name: "x", Scope: "a", RedirectURIs: []string{redirectURI}, Auth: store.AuthEither}}
	for _, c := range []struct {
		field  string
		change func(*client.Registration)
	}{
		{"access-token-format", func(r *client.Registration) { r.TokenFormat = "saml" }},
		{"access-token-format", func(r *client.Registration) { r.TokenFormat = "JWT" }},
		{"signing-alg", func(r *client.Registration) { r.SigningAlg = "none" }},
		{"signing-alg", func(r *client.Registration) { r.SigningAlg = "HS256" }},
		{"signing-alg", func(r *client.Registration) { r.SigningAlg = keys.MAC }},
		{"jwt-type", func(r *client.Registration) { r.JWTType = "revocations+jwt" }},
		{"audience", func(r *client.Registration) { r.Audience = []string{""} }},
		{"audience", func(r *client.Registration) { r.Audience = []string{"a b"} }},
		{"audience", func(r *client.Registration) { r.Audience = []string{"\u00fc"} }},
		{"audience", func(r *client.Registration) { r.Audience = []string{long} }},
		{"audience", func(r *client.Registration) { r.Audience = slices.Repeat([]string{"a"}, 6) }},
		{"introspect", func(r *client.Registration) { r.Introspect, r.Auth = true, store.AuthNone }},
		{"introspect-audience", func(r *client.Registration) { r.IntrospectAudience = []string{"a"} }},
		{"introspect-audience", func(r *client.Registration) { r.Introspect, r.IntrospectAudience = true, []string{"a\n"} }},
		{"scope", func(r *client.Registration) { r.Introspect, r.Scope = true, "" }},
		{"redirect-uri", func(r *client.Registration) { r.RedirectURIs = nil }},
	} {
		r := good
		c.change(&r)
		_, _, err := r.Client(realm, s.View().Ring, s.Policy, s.At())
		if invalid, ok := err.(*oauth.Invalid); !ok || invalid.Field != c.field {
			t.Errorf("%+v: %v, want a fault of %s", r, err, c.field)
		}
	}
	// A resource server needs neither callbacks nor scopes, and may only introspect.
	c, secret, err := client.Registration{Settings: store.Settings{Name: "x", Introspect: true, Auth: store.AuthEither}}.Client(realm, s.View().Ring, s.Policy, s.At())
	if err != nil || secret == "" || !c.Introspect || len(c.GrantTypes) != 0 || c.MayUse(store.GrantAuthorizationCode) {
		t.Errorf("a resource server: %+v, %v", c, err)
	}
	// Changing a client to its own registration changes nothing, also for a resource
	// server.
	again, err := client.Registered(c).Change(c, s.Policy)
	if err != nil || len(again.GrantTypes) != 0 || !again.Introspect {
		t.Errorf("unchanged: %+v, %v", again, err)
	}
}

// An access token has the acr claim only if the client requested it.
func TestTheClassOfALogin(t *testing.T) {
	for want, f := range map[string]grant.Facts{"": {ACR: 2, ReportedACR: "x"}, "urn:mintage:2": {ACR: 2, SaysACR: true}, "gold": {ReportedACR: "gold", SaysACR: true}} {
		if got := issuer.ClassOf(f); got != want {
			t.Errorf("%+v: %q", f, got)
		}
	}
}
