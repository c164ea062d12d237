package issuer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

func TestClaimsAreStoredCompactlyAndAmbiguousOnesRefused(t *testing.T) {
	long := `{"tenant":"` + strings.Repeat("t", 115) + `"}`
	for _, c := range []struct{ claims, want string }{
		{"", ""}, {" \n", ""}, {"null", ""}, {"{}", ""}, {" { } ", ""},
		{`{"tenant":"t1"}`, `{"tenant":"t1"}`},
		{" {\n \"tenant\" : \"t1\",\t\"n\": [1, -2.5e3, {\"deep\": null}], \"ok\": true }", `{"tenant":"t1","n":[1,-2.5e3,{"deep":null}],"ok":true}`},
		{`{"https://example.com/tenant":"日本 <é>"}`, `{"https://example.com/tenant":"日本 <é>"}`},
		{`{"big":12345678901234567890}`, `{"big":12345678901234567890}`},
		{`{"a":{"sub":"not at the top"}}`, `{"a":{"sub":"not at the top"}}`},
		{`{"roles":["admin"],"level":"2","by":["otp"]}`, `{"roles":["admin"],"level":"2","by":["otp"]}`},
		{long, long},
	} {
		if got, err := issuer.CheckClaims(json.RawMessage(c.claims)); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.claims, got, err, c.want)
		}
	}
	for name, claims := range map[string]string{
		"no JSON": `{"tenant"`, "two values": `{"a":1}{"b":2}`, "a list": `["tenant"]`, "a string": `"tenant"`, "a number": `7`, "true": `true`,
		"too long": `{"tenant":"` + strings.Repeat("t", 116) + `"}`, "a byte that is not UTF-8": "{\"a\":\"\xff\"}",
		"a name that is not UTF-8": "{\"\xff\":1}", "a control character": `{"a":"\u0000"}`, "one above ASCII": "{\"a\":\"\u0085\"}",
		"one deep inside": `{"a":[{"b":["\n"]}]}`, "one in a name": `{"a\tb":1}`, "one in a name inside": `{"a":{"b\u001f":1}}`,
		"half of a pair": `{"a":"\ud83d"}`, "half of a pair in a name": `{"\udc00":1}`, "no name": `{"":1}`,
		"a name twice": `{"a":1,"a":2}`, "a name twice, once escaped": `{"a":1,"\u0061":2}`, "a name twice inside": `{"x":{"a":1,"a":2}}`,
		"a number that no reader holds": `{"a":1e999}`,
	} {
		got, err := issuer.CheckClaims(json.RawMessage(claims))
		var invalid *oauth.Invalid
		if !errors.As(err, &invalid) || invalid.Field != "claims" || invalid.Message == "" || got != "" {
			t.Errorf("%s: %q, %v; want it refused", name, got, err)
		}
	}
}

// authenticated issues a code with claims about the subject, and redeems it.
func (s *service) authenticated(at time.Time, claims string) issuer.Tokens {
	s.T.Helper()
	a := testkit.Authorization()
	a.AuthTime, a.Claims = at, json.RawMessage(claims)
	code, err := s.Codes().Issue(s.T.Context(), a)
	if err != nil {
		s.T.Fatal(err)
	}
	return s.Must(s.Redeem(code.Code))
}

func TestClaimsOfTheCodeAreInEveryTokenOfTheGrant(t *testing.T) {
	s := newResource(t)
	at := s.Clock.Now().Add(-90 * time.Minute)
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		s.format(format)
		pair := s.authenticated(at, ` {"tenant": "t1", "level": 2}`)
		if g := s.Row(pair.GrantID); g.AuthTime != grant.At(at) || g.Claims != `{"tenant":"t1","level":2}` {
			t.Errorf("the row says %d, %s", g.AuthTime, g.Claims)
		}
		for range 3 {
			tok, err := s.introspect(apiID, pair.AccessToken)
			if err != nil || tok.AuthTime != grant.At(at) || tok.Claims != `{"tenant":"t1","level":2}` {
				t.Errorf("%s: the access token says %d, %s, %v", format, tok.AuthTime, tok.Claims, err)
			}
			text := pair.AccessToken
			if format == store.TokenOpaque {
				if text, err = s.Signer().Phantom(t.Context(), tok); err != nil {
					t.Fatal(err)
				}
			}
			_, claims := s.claims(text)
			if claims["auth_time"] != float64(at.Unix()) || claims["tenant"] != "t1" || claims["level"] != 2.0 || claims["sub"] != subject {
				t.Errorf("%s: claims %v", format, claims)
			}
			refresh, err := s.introspect(clientID, pair.RefreshToken)
			if err != nil || refresh.AuthTime != tok.AuthTime || refresh.Claims != tok.Claims {
				t.Errorf("%s: the refresh token says %d, %s, %v", format, refresh.AuthTime, refresh.Claims, err)
			}
			s.Clock.Advance(time.Minute)
			pair = s.Must(s.Renew(pair.RefreshToken))
		}
	}
}

func TestTheTimeOfAuthenticationIsPastOrCorrectedToNow(t *testing.T) {
	s := newService(t)
	now := s.Clock.Now()
	for _, c := range []struct {
		at   time.Time
		want grant.Instant // zero: unknown
	}{
		{time.Time{}, 0}, {now, s.At()}, {now.Add(-30 * 24 * time.Hour), s.At().Add(-30 * 24 * time.Hour)},
		{time.UnixMilli(1), 1}, {now.Add(time.Second), s.At()}, {now.Add(time.Minute), s.At()},
		{now.In(time.FixedZone("", 3600)), s.At()},
	} {
		if g := s.Row(s.authenticated(c.at, "").GrantID); g.AuthTime != c.want || g.Claims != "" {
			t.Errorf("authenticated at %s: %d, want %d", c.at, g.AuthTime, c.want)
		}
	}
	for _, at := range []time.Time{now.Add(time.Minute + time.Millisecond), now.Add(1e6 * time.Hour), time.UnixMilli(0), time.UnixMilli(-1), time.Time{}.Add(1)} {
		a := testkit.Authorization()
		a.AuthTime = at
		var invalid *oauth.Invalid
		if code, err := s.Codes().Issue(t.Context(), a); !errors.As(err, &invalid) || invalid.Field != "auth_time" || code.Code != "" {
			t.Errorf("authenticated at %s: %v, want it refused", at, err)
		}
	}
	a := testkit.Authorization()
	a.Claims = json.RawMessage(`{"sub":"mallory"}`)
	var invalid *oauth.Invalid
	if code, err := s.Codes().Issue(t.Context(), a); !errors.As(err, &invalid) || invalid.Field != "claims" || code.Code != "" {
		t.Errorf("invalid claims: %v, want a refusal", err)
	}
}

func TestAClaimNeverReplacesARegisteredMember(t *testing.T) {
	s := newResource(t)
	s.format(store.TokenJWT)
	_, plain := s.claims(s.authenticated(s.Clock.Now(), "").AccessToken)
	names := slices.Concat(slices.Sorted(maps.Keys(plain)), []string{
		"active", "token_type", "username", "realm", "grant_id", "nbf", "cnf", "act", "may_act", "azp", "acr", "amr", "nonce", "at_hash", "c_hash", "sid", "events", "expires_in", "access_token", "grant_type",
	})
	if len(plain) != 9 {
		t.Errorf("a JWT with auth_time has the members %v", names[:len(plain)])
	}
	var claims []string
	for _, name := range names {
		for _, spelled := range []string{name, strings.ToUpper(name), fmt.Sprintf(`\u%04x%s`, name[0], name[1:]), strings.Replace(name, "s", "ſ", 1)} {
			claims = append(claims, fmt.Sprintf(`"%s":"forged"`, spelled))
			if got, err := issuer.CheckClaims(json.RawMessage(`{"tenant":"t1","` + spelled + `":1}`)); err == nil {
				t.Errorf("%s is accepted: %s", spelled, got)
			}
		}
	}
	// An earlier version, with fewer registered members, could have stored such claims in
	// a row.
	for i, claim := range claims {
		code := grant.Code{
			Realm: realm, ClientID: clientID, Subject: subject, Scope: allScopes, RedirectHash: grant.HashRedirectURI(redirectURI),
			AuthorizedAt: s.At(), ExpiresAt: s.At().Add(time.Minute), AuthTime: s.At(), Facts: grant.Facts{Claims: "{" + claim + `,"tenant":"t1"}`},
		}
		code.GrantID[0], code.GrantID[1] = byte(i), 1
		ring := s.View().Ring
		text, err := ring.SealCode(ring.Current(keys.Seal, s.At()), code, [keys.NonceSize]byte{byte(i)})
		if err != nil {
			t.Fatal(err)
		}
		_, got := s.claims(s.Must(s.Redeem(text)).AccessToken)
		if got["tenant"] != "t1" {
			t.Errorf("%s: the other claim is lost: %v", claim, got)
		}
		delete(got, "tenant")
		got["jti"] = plain["jti"] // of another grant
		if a, b := fmt.Sprint(got), fmt.Sprint(plain); a != b {
			t.Errorf("%s: %s, want %s", claim, a, b)
		}
	}
}

func FuzzClaims(f *testing.F) {
	for _, claims := range []string{
		"", "{}", "null", `{"tenant":"t1"}`, `{"\u0073ub":1}`, `{"a":{"b":[1,2,{"c":null}]}}`, `{"a":1,"a":2}`, `{"a":"\ud800"}`, `{"a":1e999}`, "{\"\xff\":1}",
	} {
		f.Add(claims)
	}
	object := []byte(`{"iss":"i","sub":"alice","exp":1}`)
	f.Fuzz(func(t *testing.T, claims string) {
		text, err := issuer.CheckClaims(json.RawMessage(claims))
		if err != nil {
			return
		}
		if again, err := issuer.CheckClaims(json.RawMessage(text)); err != nil || again != text || len(text) > issuer.MaxClaims {
			t.Fatalf("%q becomes %q, and then %q, %v", claims, text, again, err)
		}
		var own, merged map[string]any
		if text != "" && json.Unmarshal([]byte(text), &own) != nil {
			t.Fatalf("%q is no object", text)
		}
		if err := json.Unmarshal(issuer.AddClaims(object, text), &merged); err != nil {
			t.Fatalf("with %q: %v", text, err)
		}
		if len(merged) != 3+len(own) || merged["iss"] != "i" || merged["sub"] != "alice" || merged["exp"] != 1.0 {
			t.Fatalf("with %q: %v", text, merged)
		}
		for name, value := range own {
			if fmt.Sprint(merged[name]) != fmt.Sprint(value) {
				t.Fatalf("with %q: member %q is %v", text, name, merged[name])
			}
		}
	})
}
