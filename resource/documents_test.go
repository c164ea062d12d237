package resource_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/resource"
)

// If the server's documents are faulty, the verifier must not report the token as invalid.
func TestFaultyDocumentsDoNotMakeTokensInvalid(t *testing.T) {
	text := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
	}
	meta := func(changes map[string]any) http.HandlerFunc {
		return text(string(mustJSON(altered(newAuthServer().metadata(), changes))))
	}
	elsewhere := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://auth.example.com/elsewhere", http.StatusFound)
	}
	k, weak := newES256("key1"), signer{"weak", "RS256", weakRSA()}
	curve := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	jwk := string(mustJSON(k.jwk()))
	private := k.jwk()
	private.Key = k.key
	encryption := k.jwk()
	encryption.Use = "enc"
	mislabelled := k.jwk()
	mislabelled.Algorithm = "EdDSA"
	nameless := k.jwk()
	nameless.KeyID = ""
	for _, tt := range []struct {
		what, path string
		answer     http.HandlerFunc
	}{
		{"not found", metadataPath, status(404)},
		{"no content", metadataPath, status(204)},
		{"redirect", metadataPath, elsewhere},
		{"not JSON", metadataPath, text("<html>")},
		{"another issuer", metadataPath, meta(map[string]any{"issuer": issuer + "/"})},
		{"no issuer", metadataPath, meta(map[string]any{"issuer": nil})},
		{"two issuers", metadataPath, text(`{"issuer":"https://mallory.example",` + string(mustJSON(newAuthServer().metadata()))[1:])},
		{"no jwks_uri", metadataPath, meta(map[string]any{"jwks_uri": nil})},
		{"keys over http", metadataPath, meta(map[string]any{"jwks_uri": "http://auth.example.com/oauth2/jwks"})},
		{"keys from a file", metadataPath, meta(map[string]any{"jwks_uri": "file:///etc/passwd"})},
		{"introspection over http", metadataPath, meta(map[string]any{"introspection_endpoint": "http://auth.example.com/oauth2/introspect"})},
		{"too long", metadataPath, text(`{"issuer":"` + strings.Repeat("x", 64<<10) + `"}`)},
		{"unchanged, which nobody asked", metadataPath, status(304)},
		{"server error", jwksPath, status(500)},
		{"redirect", jwksPath, elsewhere},
		{"unchanged, which nobody asked", jwksPath, status(304)},
		{"not JSON", jwksPath, text("<html>")},
		{"no keys", jwksPath, text(`{"keys":[]}`)},
		{"null", jwksPath, text(`null`)},
		{"too long", jwksPath, text(`{"keys":[` + jwk + strings.Repeat(" ", 256<<10) + `]}`)},
		{"more than 100 keys", jwksPath, text(`{"keys":[` + strings.Repeat(`{},`, 100) + jwk + `]}`)},
		{"two keys of one name", jwksPath, text(`{"keys":[` + jwk + "," + string(mustJSON(newES256("key1").jwk())) + `]}`)},
		{"a private key", jwksPath, text(`{"keys":[` + string(mustJSON(private)) + `]}`)},
		{"a key for encryption", jwksPath, text(`{"keys":[` + string(mustJSON(encryption)) + `]}`)},
		{"a key for another algorithm", jwksPath, text(`{"keys":[` + string(mustJSON(mislabelled)) + `]}`)},
		{"a key without a name", jwksPath, text(`{"keys":[` + string(mustJSON(nameless)) + `]}`)},
		{"a secret key", jwksPath, text(`{"keys":[{"kty":"oct","kid":"key1","k":"c2VjcmV0","alg":"HS256"}]}`)},
		{"an EC key of another curve", jwksPath, text(`{"keys":[` + string(mustJSON(jose.JSONWebKey{Key: curve.Public(), KeyID: "key1"})) + `]}`)},
		{"an RSA key of 4104 bits", jwksPath, text(`{"keys":[` + string(mustJSON(jose.JSONWebKey{Key: &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 4103, 1), E: 65537}, KeyID: "key1"})) + `]}`)},
		{"an RSA key of 1024 bits", jwksPath, text(`{"keys":[` + string(mustJSON(weak.jwk())) + `]}`)},
	} {
		timed(t, func(t *testing.T, s *authServer) {
			s.keys = []signer{k}
			s.answerWith(tt.path, tt.answer)
			v := verifier(t, s.config())
			wants(t, tt.path+": "+tt.what, v, s.token(), resource.ErrUnavailable)
			if err := v.Ready(t.Context()); kinds(err) != 1 {
				t.Errorf("%s: %s: Ready reports %v", tt.path, tt.what, err)
			}
			if n := s.times("/elsewhere"); n != 0 {
				t.Errorf("a redirect was followed")
			}
			s.answerWith(tt.path, nil)
			time.Sleep(5 * time.Second)
			wants(t, tt.path+": put right", v, s.token(), nil)
			if err := v.Ready(t.Context()); err != nil {
				t.Errorf("%s: put right, Ready reports %v", tt.path, err)
			}
		})
	}
}

func TestUnsupportedKeysAreIgnored(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		s.answerWith(jwksPath, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"keys":[{"kty":"AKP","kid":"pq","alg":"ML-DSA-99","pub":"AA"},{"kty":"EC","crv":"P-256","kid":"off","x":"AA","y":"AA"},7,%s]}`,
				mustJSON(jose.JSONWebKey{Key: s.keys[0].public(), KeyID: s.keys[0].kid})) // RFC 7517: alg and use are optional
		})
		wants(t, "the key that is understood", verifier(t, s.config()), s.token(), nil)
	})
}

func TestListThatCannotBeTrustedIsNotUsed(t *testing.T) {
	stranger := newES256("key1")
	for what, spoil := range map[string]func(*feed){
		"signed by another":           func(f *feed) { f.by = &stranger },
		"signed by an unknown key":    func(f *feed) { f.by = &signer{"key9", "ES256", stranger.key} },
		"not signed":                  func(f *feed) { f.by = &signer{"key1", "none", nil} },
		"an access token":             func(f *feed) { f.typ = "at+jwt" },
		"a plain JWT":                 func(f *feed) { f.typ = "JWT" },
		"of another issuer":           func(f *feed) { f.change = map[string]any{"iss": "https://other.example"} },
		"without issuer":              func(f *feed) { f.change = map[string]any{"iss": nil} },
		"ended":                       func(f *feed) { f.lag = time.Minute },
		"without end":                 func(f *feed) { f.change = map[string]any{"exp": nil} },
		"from the future":             func(f *feed) { f.lag = -6 * time.Second },
		"without beginning":           func(f *feed) { f.change = map[string]any{"iat": nil} },
		"without reach":               func(f *feed) { f.change = map[string]any{"covers_ms": nil} },
		"with negative reach":         func(f *feed) { f.change = map[string]any{"covers_ms": -1} },
		"with reach beyond all time":  func(f *feed) { f.change = map[string]any{"covers_ms": int64(1<<63 - 1)} },
		"without grants":              func(f *feed) { f.change = map[string]any{"grants": nil} },
		"without cutoffs":             func(f *feed) { f.change = map[string]any{"cutoffs": nil} },
		"grants are a list":           func(f *feed) { f.change = map[string]any{"grants": []string{"x"}} },
		"an entry that is too short":  func(f *feed) { f.grants["AAAA"] = 1 },
		"an entry that is no base64":  func(f *feed) { f.grants["!!!!!!!!!!!!!!!!!!!!!!"] = 1 },
		"a time that is not a number": func(f *feed) { f.cutoffs[blinded("x")] = "1" },
	} {
		timed(t, func(t *testing.T, s *authServer) {
			spoil(&s.list)
			v := following(t, s)
			wants(t, what, v, s.token(), resource.ErrUnavailable)
			s.change(func() { s.list = newFeed(); s.list.revoke(2, never) })
			time.Sleep(10 * time.Second)
			wants(t, what+", put right", v, s.token(), nil)
			dead := s.token(map[string]any{"jti": jti(2, time.Now(), time.Now())})
			wants(t, what+", put right, revoked", v, dead, resource.ErrInvalidToken)

			s.change(func() { spoil(&s.list) })
			time.Sleep(20 * time.Second)
			wants(t, what+", with a good list at hand", v, s.token(), nil)
			wants(t, what+", with a good list at hand, revoked", v, dead, resource.ErrInvalidToken)
		})
	}
	timed(t, func(t *testing.T, s *authServer) {
		for what, h := range map[string]http.HandlerFunc{
			"server error": status(500), "not found": status(404), "unchanged, which nobody asked": status(304), "empty": status(200), "hangs": s.slowly(time.Hour),
			"redirects": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			"too long":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 8<<20+1)) },
		} {
			s.answerWith(listPath, h)
			v := following(t, s)
			wants(t, what, v, s.token(), resource.ErrUnavailable)
			if err := v.Ready(t.Context()); kinds(err) != 1 {
				t.Errorf("%s: Ready reports %v", what, err)
			}
			s.answerWith(listPath, nil)
			time.Sleep(10 * time.Second)
			wants(t, what+", put right", v, s.token(), nil)
			if err := v.Ready(t.Context()); err != nil {
				t.Errorf("%s, put right: Ready reports %v", what, err)
			}
			v.Close()
		}
	})
}
