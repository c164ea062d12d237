package conformance_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
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

func TestTK08_AJWTAccessTokenHasEveryClaimOfRFC9068(t *testing.T) {
	d := start(t)
	for _, c := range []struct {
		r         client.Registration
		alg, typ  string
		aud       any
		wantScope string
	}{
		{client.Registration{}, "ES256", "at+jwt", issuerID, "a b c"},
		{client.Registration{Settings: store.Settings{JWTType: "at+jwt", SigningAlg: keys.ES256}}, "ES256", "at+jwt", issuerID, "a b c"},
		{client.Registration{Settings: store.Settings{JWTType: "JWT", SigningAlg: keys.EdDSA, Scope: "only"}}, "EdDSA", "JWT", issuerID, "only"},
		{client.Registration{Settings: store.Settings{Audience: []string{"https://one.example"}}}, "ES256", "at+jwt", "https://one.example", "a b c"},
		{client.Registration{Settings: store.Settings{Audience: []string{"https://one.example", "two"}}}, "ES256", "at+jwt", []any{"https://one.example", "two"}, "a b c"},
	} {
		c.r.TokenFormat = store.TokenJWT
		client := d.client(c.r)
		d.step(777 * time.Millisecond)
		pair, id := d.tokens(client)
		ids := map[any]bool{}
		for range 3 {
			s := d.verified(pair.AccessToken)
			if s.alg != c.alg || s.typ != c.typ {
				t.Errorf("alg %s, typ %s; want %s, %s", s.alg, s.typ, c.alg, c.typ)
			}
			if ids[s.claims["jti"]] || len(s.claims["jti"].(string)) != 43 {
				t.Errorf("jti %q", s.claims["jti"])
			}
			ids[s.claims["jti"]] = true
			wanted := members(t, marshal(t, map[string]any{
				"iss": issuerID, "sub": "alice", "aud": c.aud, "client_id": client.ID,
				"exp": d.expiry(id), "iat": int64(d.row(id).RotatedAt) / 1000, "scope": c.wantScope,
			}))
			sameMembers(t, s.claims, wanted, "jti")
			pair = d.alive(client, pair.RefreshToken)
		}
		// TK-05: the token must fit into a request's header.
		if len(pair.AccessToken) > 1024 {
			t.Errorf("a JWT of %d characters", len(pair.AccessToken))
		}
	}
}

// A repeat returns byte for byte the same token, also with ES256 (RFC 6979).
func TestTK08_TR13_ARepeatedAnswerHasTheSameJWT(t *testing.T) {
	d := start(t)
	c := d.jwtClient()
	pair, _ := d.tokens(c)
	next := d.alive(c, pair.RefreshToken)
	for range 5 {
		d.step(time.Second)
		if again := d.alive(c, pair.RefreshToken); again.AccessToken != next.AccessToken || again.RefreshToken != next.RefreshToken {
			t.Error("the repeat is another pair")
		}
	}
}

// Even the longest registered claims give a token that fits.
func TestTK08_TK05_TheLongestJWTIsUnderFourKiB(t *testing.T) {
	d := start(t)
	r := client.Registration{ID: strings.Repeat("i", 64), Settings: store.Settings{TokenFormat: store.TokenJWT, Scope: oauth.Scope(strings.Repeat("s", 256))}}
	for i := range 5 {
		r.Audience = append(r.Audience, strings.Repeat(string(rune('a'+i)), 255))
	}
	c := d.client(r)
	code := d.code(c, func(a *issuer.Authorization) { a.Subject = strings.Repeat("\u00fc", 127) })
	pair := d.mustIssue(d.post(c.redeem(code.Code)))
	if len(pair.AccessToken) > 4096 {
		t.Errorf("a JWT of %d characters", len(pair.AccessToken))
	}
	d.wantActive(d.resourceServer(), true, pair.AccessToken)
}

// forgeries returns texts derived from a valid JWT access token that must all be
// rejected.
func (d *deployment) forgeries(good string) map[string]string {
	d.t.Helper()
	enc := base64.RawURLEncoding.EncodeToString
	parts := strings.Split(good, ".")
	header, err := base64.RawURLEncoding.DecodeString(parts[0])
	if err != nil {
		d.t.Fatal(err)
	}
	claims := d.verified(good).claims
	now := grant.At(d.now())
	sign := func(ring *keys.Ring, alg keys.Purpose, typ string, change map[string]any) string {
		altered := maps.Clone(claims)
		for name, value := range change {
			if altered[name] = value; value == nil {
				delete(altered, name)
			}
		}
		text, err := ring.Sign(alg, typ, []byte(marshal(d.t, altered)), now)
		if err != nil {
			d.t.Fatal(err)
		}
		return text
	}
	if again := sign(d.ring(), keys.ES256, "at+jwt", nil); !strings.HasPrefix(d.introspect(d.resourceServer(), again).body, `{"active":true,`) {
		d.t.Fatal("what is signed here is not accepted even unaltered")
	}
	own := func(change map[string]any) string { return sign(d.ring(), keys.ES256, "at+jwt", change) }
	wider := enc([]byte(strings.Replace(string(mustDecode(d.t, parts[1])), `"scope":"a b c"`, `"scope":"a b c admin"`, 1)))
	list := map[string]string{
		"another deployment's key": sign(foreignRing(d.t), keys.ES256, "at+jwt", nil),
		"a wider scope":            parts[0] + "." + wider + "." + parts[2],
		"another's signature":      parts[0] + "." + parts[1] + "." + strings.Split(own(map[string]any{"sub": "bob"}), ".")[2],
		"another issuer":           own(map[string]any{"iss": "https://evil.example"}),
		"an issuer's longer name":  own(map[string]any{"iss": issuerID + "/"}),
		"no issuer":                own(map[string]any{"iss": nil}),
		"no exp":                   own(map[string]any{"exp": nil}),
		"an exp long ago":          own(map[string]any{"exp": 1}),
		"no jti":                   own(map[string]any{"jti": nil}),
		"a jti of another kind":    own(map[string]any{"jti": "0123456789"}),
		"a longer jti":             own(map[string]any{"jti": claims["jti"].(string) + "AAAA"}),
		// Other JWTs of the server, including id_tokens (TK-07).
		"an introspection":    sign(d.ring(), keys.ES256, "token-introspection+jwt", nil),
		"a revocation list":   sign(d.ring(), keys.ES256, "revocations+jwt", nil),
		"a type that is like": sign(d.ring(), keys.ES256, "AT+JWT", nil),
		"an ID token":         sign(d.ring(), keys.ES256, "JWT", map[string]any{"jti": nil, "nonce": "n", "aud": claims["client_id"]}),
		"no JSON":             mustSign(d.t, d.ring(), "at+jwt", "claims", now),
		"a JSON list":         mustSign(d.t, d.ring(), "at+jwt", "[1]", now),
	}
	for _, alg := range []string{"none", "None", "NonE", "NONE", "", "HS256", "RS256", "ES384", "EdDSA"} {
		h := enc([]byte(strings.Replace(string(header), `"ES256"`, `"`+alg+`"`, 1)))
		mac := hmac.New(sha256.New, header)
		mac.Write([]byte(h + "." + parts[1]))
		list["alg "+alg] = h + "." + parts[1] + "." + parts[2]
		list["alg "+alg+" without a signature"] = h + "." + parts[1] + "."
		list["alg "+alg+" with a MAC"] = h + "." + parts[1] + "." + enc(mac.Sum(nil))
	}
	for name, h := range map[string]string{
		"crit": `,"crit":["exp"]`, "jku": `,"jku":"https://evil.example/jwks"`, "jwk": `,"jwk":{"kty":"oct","k":"AA"}`, "another kid": `,"kid":"00000000"`,
	} {
		list["a header with "+name] = enc([]byte(strings.TrimSuffix(string(header), "}")+h+"}")) + "." + parts[1] + "." + parts[2]
	}
	return list
}

func mustDecode(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustSign(t *testing.T, ring *keys.Ring, typ, claims string, now grant.Instant) string {
	t.Helper()
	text, err := ring.Sign(keys.ES256, typ, []byte(claims), now)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTK09_IN04_TK07_AForgedJWTIsNoToken(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	c := d.jwtClient()
	pair, id := d.tokens(c)
	list := d.forgeries(pair.AccessToken)
	if len(list) < 40 {
		t.Fatalf("only %d forgeries", len(list))
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		text := list[name]
		if a := d.introspect(rs, text); a.status != http.StatusOK || a.body != inactive {
			t.Errorf("%s at introspection: %v", name, a)
		}
		if a := d.verify(text); a.status != http.StatusUnauthorized || a.Error != "invalid_token" {
			t.Errorf("%s at verify: %v", name, a)
		}
		if a := d.tokenInfo(text); a.status != http.StatusUnauthorized || a.Error != "invalid_token" {
			t.Errorf("%s at tokeninfo: %v", name, a)
		}
		revoked(t, d.revoke(c, text))
		want(t, d.post(c.refresh(text)), 400, "invalid_grant")
	}
	if g := d.row(id); g.Version != 1 {
		t.Errorf("a forgery changed the grant: version %d", g.Version)
	}
	d.wantActive(rs, true, pair.AccessToken)
}

// A token for another audience is valid only there (RFC 9068 section 4).
func TestTK09_AJWTForAnotherAudienceIsRefused(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.jwtClient("https://one.example"))
	for aud, status := range map[string]int{"https://one.example": 200, "https://two.example": 401, issuerID: 401} {
		if a := d.verify(pair.AccessToken, "X-Required-Audience: "+aud); a.status != status {
			t.Errorf("demanding %s: %v, want %d", aud, a, status)
		}
	}
	d.wantActive(d.resourceServer("https://two.example"), false, pair.AccessToken)
	d.wantActive(d.resourceServer("https://one.example"), true, pair.AccessToken)
}
