package resource_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/resource"
)

func TestJWTOfEveryAlgorithmIsAccepted(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		_, ed, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		s.keys = append(s.keys, signer{"key2", "EdDSA", ed}, signer{"key3", "RS256", rsaKey()})
		v := verifier(t, s.config())
		for _, k := range s.keys {
			for _, typ := range []string{"at+jwt", "application/at+jwt"} {
				header := altered(k.header(), map[string]any{"typ": typ})
				got, err := v.Verify(t.Context(), k.compact(header, s.claims()), "read")
				now := time.Now().UTC().Truncate(time.Second)
				want := resource.Principal{
					Subject: "alice", ClientID: "shop", Scope: []string{"read", "write"}, Audience: []string{audience},
					IssuedAt: now, ExpiresAt: now.Add(300 * time.Second), TokenID: s.claims()["jti"].(string),
				}
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s, %s: %+v, %v; want %+v", k.alg, typ, got, err, want)
				}
			}
		}
	})
}

func TestClaimsMayHaveTheirOtherForms(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		v := verifier(t, s.config())
		for what, change := range map[string]map[string]any{
			"several audiences":          {"aud": []string{"https://other.example", audience}},
			"fractions of a second":      {"exp": float64(time.Now().Unix()) + 0.5, "iat": float64(time.Now().Unix()) - 0.25},
			"not before, in the past":    {"nbf": time.Now().Unix() - 1},
			"no scope":                   {"scope": nil},
			"claims nobody has heard of": {"roles": []string{"a"}, "act": map[string]any{"sub": "bob"}},
			"a jti of another form":      {"jti": "1"},
		} {
			wants(t, what, v, s.token(change), nil)
		}
		if _, err := v.Verify(t.Context(), s.token(map[string]any{"scope": nil}), "read"); kinds(err) != 1 || !strings.Contains(err.Error(), "scope") {
			t.Errorf("a token without scope is accepted for read: %v", err)
		}
	})
}

// forged derives invalid tokens from the header and claims of a valid one. Each differs
// from it in one respect.
func forged(s *authServer) map[string]string {
	k := s.keys[0]
	h, c := k.header(), s.claims()
	sign := func(header, claims map[string]any) string {
		return k.compact(altered(h, header), altered(c, claims))
	}
	other := newES256(k.kid)
	public := must(x509.MarshalPKIXPublicKey(k.public()))
	list := map[string]string{
		"signed by another key of this name": other.compact(h, c),
		"no signature":                       encode(h) + "." + encode(c) + ".",
		"another token's claims":             swapPart(k.compact(h, c), 1, encode(altered(c, map[string]any{"sub": "mallory"}))),
		"another header":                     swapPart(k.compact(h, c), 0, encode(altered(h, map[string]any{"x": 1}))),
		"claims are a list":                  k.compact(h, []any{c}),
		"claims are no JSON":                 k.compact(h, `{"iss":`),
		"claims with something after them":   k.compact(h, `{} {}`),
		"a claim twice":                      k.compact(h, strings.Replace(string(mustJSON(c)), `{`, `{"sub":"mallory",`, 1)),
		"a claim in capitals":                k.compact(h, strings.Replace(string(mustJSON(c)), `"sub"`, `"Sub"`, 1)),
		"longer than 8 KiB":                  k.compact(h, altered(c, map[string]any{"x": strings.Repeat("x", 8192)})),
		"key and algorithm of another kind":  signer{"rsa", "RS256", rsaKey()}.compact(altered(h, map[string]any{"kid": k.kid, "alg": "RS256"}), c),
		"the right key by a wrong name":      k.compact(altered(h, map[string]any{"kid": "rsa"}), c),
		"stray bits in the signature":        stray(k.compact(h, c)),
		"padded":                             k.compact(h, c) + "=",
	}
	// Algorithm confusion: the public key is used as an HMAC key.
	for what, material := range map[string][]byte{
		"DER": public, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), "JWK": mustJSON(k.jwk()), "empty": {},
	} {
		list["HS256 with the public key as "+what] = signer{k.kid, "HS256", material}.compact(altered(h, map[string]any{"alg": "HS256"}), c)
	}
	for _, alg := range []any{"none", "None", "NONE", "nOnE", "", "ES384", "ES256K", "PS256", "RS1", "es256", "HS512", nil, 1, []string{"ES256"}} {
		list["alg "+string(mustJSON(alg))] = sign(map[string]any{"alg": alg}, nil)
		list["unsigned, alg "+string(mustJSON(alg))] = signer{}.compact(altered(h, map[string]any{"alg": alg}), c)
	}
	for what, header := range map[string]map[string]any{
		"no typ": {"typ": nil}, "typ JWT": {"typ": "JWT"}, "typ of a logout token": {"typ": "logout+jwt"}, "typ of a revocation list": {"typ": "revocations+jwt"},
		"typ of an introspection": {"typ": "token-introspection+jwt"}, "typ is a list": {"typ": []string{"at+jwt"}}, "typ with a parameter": {"typ": "at+jwt;x=1"},
		"crit": {"crit": []string{"exp"}, "exp": 1}, "crit of b64": {"crit": []string{"b64"}, "b64": true}, "b64": {"b64": false}, "empty crit": {"crit": []string{}},
		"no kid": {"kid": nil}, "unknown kid": {"kid": "key9"}, "empty kid": {"kid": ""}, "kid is a number": {"kid": 1}, "kid is a path": {"kid": "../../dev/null"},
	} {
		list[what] = sign(header, nil)
	}
	// The forged token contains or names the forger's own key.
	mallory := newES256("mallory")
	list["its own key, in jwk"] = mallory.compact(altered(h, map[string]any{"kid": "mallory", "jwk": mallory.jwk()}), c)
	list["its own key, in jwk, by our name"] = mallory.compact(altered(h, map[string]any{"jwk": mallory.jwk()}), c)
	list["its own key, behind jku"] = mallory.compact(altered(h, map[string]any{"kid": "mallory", "jku": "https://mallory.example/jwks"}), c)

	now := time.Now().Unix()
	for what, values := range map[string][]any{
		"iss":       {nil, "", issuer + "/", "https://auth.example.com/oauth2", "http://auth.example.com/oauth2/api", strings.ToUpper(issuer), []string{issuer}, 1},
		"aud":       {nil, "", "https://other.example", audience + "//", "https://api.example", []string{}, []string{"a", "b"}, 1, []any{1, audience}, map[string]any{audience: 1}, audience + " https://other.example"},
		"exp":       {nil, 0, -1, "9999999999", 1e30, now - 5, now - 300, true, []int64{now + 300}},
		"iat":       {nil, 0, "1", now + 6, now + 300, 1e30, true},
		"nbf":       {now + 6, now + 300, "1", true},
		"sub":       {nil, "", 1, []string{"alice"}, true, map[string]any{"a": 1}},
		"client_id": {nil, "", 1, []string{"shop"}},
		"jti":       {nil, "", 1},
		"scope":     {[]string{"read"}, 1},
		"nonce":     {"n", "", 1},
		"at_hash":   {"77QmUPtjPfzWtF2AnpK9RQ", ""},
		"cnf":       {map[string]any{"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}, map[string]any{"x5t#S256": "x"}, map[string]any{}, "x"},
	} {
		for _, value := range values {
			list[what+" "+string(mustJSON(value))] = sign(nil, map[string]any{what: value})
		}
	}
	return list
}

func mustJSON(v any) []byte { return must(json.Marshal(v)) }

func swapPart(token string, i int, part string) string {
	parts := strings.Split(token, ".")
	parts[i] = part
	return strings.Join(parts, ".")
}

// stray sets an unused bit of the last character. The decoded bytes stay the same.
func stray(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := strings.IndexByte(alphabet, token[len(token)-1])
	return token[:len(token)-1] + string(alphabet[last|1])
}

func TestTK09_ForgedJWTsAreRefused(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		s.keys = append(s.keys, signer{"rsa", "RS256", rsaKey()})
		v := verifier(t, s.config())
		good := s.keys[0].compact(s.keys[0].header(), s.claims())
		wants(t, "the good token", v, good, nil)
		for what, token := range forged(s) {
			if token == good {
				t.Errorf("%s: equal to the valid token", what)
			}
			wants(t, what, v, token, resource.ErrInvalidToken)
		}
		wants(t, "the good token, afterwards", v, good, nil)
		if n := s.times(lookupPath); n != 0 {
			t.Errorf("the server was called %d times for tokens that look like JWTs", n)
		}
	})
}

func TestPlainJWTTypeMustBeAllowed(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		k := s.keys[0]
		plain := altered(k.header(), map[string]any{"typ": "JWT"})
		cfg := s.config()
		wants(t, "by default", verifier(t, cfg), k.compact(plain, s.claims()), resource.ErrInvalidToken)

		cfg.AllowPlainJWTType = true
		v := verifier(t, cfg)
		wants(t, "allowed", v, k.compact(plain, s.claims()), nil)
		wants(t, "at+jwt", v, s.token(), nil)
		for _, typ := range []any{nil, "jwt", "logout+jwt", "revocations+jwt"} {
			wants(t, "type "+string(mustJSON(typ)), v, k.compact(altered(plain, map[string]any{"typ": typ}), s.claims()), resource.ErrInvalidToken)
		}
		// An ID token has no client_id, and no jti by default (OpenID Connect Core
		// section 2).
		idToken := maps.Clone(s.claims())
		delete(idToken, "client_id")
		idToken["nonce"], idToken["auth_time"], idToken["azp"] = "n", time.Now().Unix(), "shop"
		wants(t, "an ID token", v, k.compact(plain, idToken), resource.ErrInvalidToken)
		idToken["client_id"], idToken["aud"] = "shop", "shop"
		wants(t, "an ID token for the client", v, k.compact(plain, idToken), resource.ErrInvalidToken)
	})
}

func TestLeewayAppliesToBothEnds(t *testing.T) {
	for _, tt := range []struct {
		leeway, want time.Duration
	}{{0, 5 * time.Second}, {-1, 0}, {time.Second, time.Second}, {time.Minute, time.Minute}} {
		timed(t, func(t *testing.T, s *authServer) {
			cfg := s.config()
			cfg.Leeway = tt.leeway
			v := verifier(t, cfg)
			later := time.Now().Add(2 * time.Minute)
			early := s.token(map[string]any{"iat": later.Unix(), "exp": later.Unix() + 300})
			notBefore := s.token(map[string]any{"nbf": later.Unix(), "exp": later.Unix() + 300})
			time.Sleep(time.Until(later.Add(-tt.want)) - time.Millisecond)
			wants(t, "a token from the future", v, early, resource.ErrInvalidToken)
			wants(t, "not before a time in the future", v, notBefore, resource.ErrInvalidToken)
			time.Sleep(time.Millisecond)
			wants(t, "within the leeway of iat", v, early, nil)
			wants(t, "within the leeway of nbf", v, notBefore, nil)
			time.Sleep(time.Until(later.Add(300*time.Second+tt.want)) - time.Millisecond)
			wants(t, "within the leeway of exp", v, early, nil)
			time.Sleep(time.Millisecond)
			wants(t, "expired", v, early, resource.ErrInvalidToken)
		})
	}
}
