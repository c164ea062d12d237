package resource_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/mintage/mintage/resource"
)

// prove makes a DPoP proof for GET of uri with a token, with changes to the claims.
func (s signer) prove(uri, token string, changes ...map[string]any) string {
	sum := sha256.Sum256([]byte(token))
	claims := map[string]any{"jti": rand.Text(), "htm": "GET", "htu": uri, "iat": time.Now().Unix(), "ath": base64.RawURLEncoding.EncodeToString(sum[:])}
	return s.compact(map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": jose.JSONWebKey{Key: s.public()}}, altered(claims, changes...))
}

func (s signer) cnf() map[string]any {
	print := must((&jose.JSONWebKey{Key: s.public()}).Thumbprint(crypto.SHA256))
	return map[string]any{"jkt": base64.RawURLEncoding.EncodeToString(print)}
}

// askHandler sends a request with these header lines to the handler.
func askHandler(h http.Handler, lines ...string) *http.Response {
	r := httptest.NewRequest("GET", "http://backend:8080/any?page=2", nil)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

const at = audience + "/any"

// A bound token of either form is accepted once with a proof of its key for this request.
func TestBoundTokensPassWithAProof(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		client, thief := newES256("client"), newES256("thief")
		v := verifier(t, s.config())
		h := v.Require("read")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p, _ := resource.FromContext(r.Context())
			fmt.Fprint(w, p.KeyThumbprint)
		}))
		cnf := map[string]any{"cnf": client.cnf()}
		plain := s.token()
		for form, token := range map[string]string{"JWT": s.token(cnf), "opaque": s.issue("bound", cnf, map[string]any{"token_type": "DPoP"})} {
			proof := client.prove(at, token)
			for _, scheme := range []string{"DPoP", "dpop"} {
				if resp := askHandler(h, "Authorization: "+scheme+" "+token, "DPoP: "+client.prove(at+"#x", token)); resp.StatusCode != 200 {
					t.Errorf("%s, %s: %d", form, scheme, resp.StatusCode)
				}
			}
			for name, c := range map[string]struct {
				code  string
				lines []string
			}{
				"as Bearer":               {"invalid_token", []string{"Authorization: Bearer " + token}},
				"as Bearer, with a proof": {"invalid_token", []string{"Authorization: Bearer " + token, "DPoP: " + client.prove(at, token)}},
				"no proof":                {"invalid_dpop_proof", []string{"Authorization: DPoP " + token}},
				"two":                     {"invalid_dpop_proof", []string{"Authorization: DPoP " + token, "DPoP: " + proof, "DPoP: " + proof}},
				"another key":             {"invalid_token", []string{"Authorization: DPoP " + token, "DPoP: " + thief.prove(at, token)}},
				"another token":           {"invalid_dpop_proof", []string{"Authorization: DPoP " + token, "DPoP: " + client.prove(at, plain)}},
				"method":                  {"invalid_dpop_proof", []string{"Authorization: DPoP " + token, "DPoP: " + client.prove(at, token, map[string]any{"htm": "POST"})}},
				"address":                 {"invalid_dpop_proof", []string{"Authorization: DPoP " + token, "DPoP: " + client.prove("http://backend:8080/any", token)}},
				"old":                     {"invalid_dpop_proof", []string{"Authorization: DPoP " + token, "DPoP: " + client.prove(at, token, map[string]any{"iat": time.Now().Unix() - 120})}},
				"bearer token":            {"invalid_token", []string{"Authorization: DPoP " + plain, "DPoP: " + client.prove(at, plain)}},
			} {
				resp := askHandler(h, c.lines...)
				challenge := resp.Header.Get("WWW-Authenticate")
				if resp.StatusCode != 401 || !strings.HasPrefix(challenge, `DPoP realm="`+audience+`", algs="ES256 EdDSA PS256", error="`+c.code+`"`) {
					t.Errorf("%s, %s: %d %s", form, name, resp.StatusCode, challenge)
				}
			}
			once := client.prove(at, token, map[string]any{"jti": "once " + form})
			if first, again := askHandler(h, "Authorization: DPoP "+token, "DPoP: "+once), askHandler(h, "Authorization: DPoP "+token, "DPoP: "+once); first.StatusCode != 200 || again.StatusCode != 401 {
				t.Errorf("%s: a proof passes with %d and then %d", form, first.StatusCode, again.StatusCode)
			}
			if _, err := v.Verify(t.Context(), token); !errors.Is(err, resource.ErrInvalidToken) {
				t.Errorf("%s without a proof: %v", form, err)
			}
			p, err := v.VerifyBound(t.Context(), token, resource.Proof{Header: []string{client.prove(at, token)}, Method: "GET", URL: at}, "admin")
			if !errors.Is(err, resource.ErrInsufficientScope) || p.Subject != "" {
				t.Errorf("%s, a scope that was not granted: %v", form, err)
			}
		}
		if resp := askHandler(h, "Authorization: Bearer "+plain); resp.StatusCode != 200 {
			t.Errorf("a bearer token: %d", resp.StatusCode)
		}
		for what, cnf := range map[string]any{"certificate": map[string]any{"x5t#S256": "x"}, "both": map[string]any{"jkt": client.cnf()["jkt"], "x5t#S256": "x"}, "empty": map[string]any{}} {
			token := s.token(map[string]any{"cnf": cnf})
			if resp := askHandler(h, "Authorization: DPoP "+token, "DPoP: "+client.prove(at, token)); resp.StatusCode != 401 {
				t.Errorf("bound by %s: %d", what, resp.StatusCode)
			}
		}
		s.answerWith(jwksPath, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
		token := s.token(cnf)
		if resp := askHandler(verifier(t, s.config()).Require()(h), "Authorization: DPoP "+token, "DPoP: "+client.prove(at, token)); resp.StatusCode != 503 {
			t.Errorf("without the keys: %d", resp.StatusCode)
		}
	})
}

// The htu of a proof is compared with the encoded path of the request. Only unreserved
// characters may be encoded differently (RFC 9449 section 4.3, check 9; RFC 3986 section
// 6.2.2).
func TestProofsNameTheEncodedPath(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		client := newES256("client")
		token := s.token(map[string]any{"cnf": client.cnf()})
		h := verifier(t, s.config()).Require()(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for _, c := range []struct {
			sent, proven string
			status       int
		}{
			{"/v/x%3Fadmin=1", "/v/x", 401},
			{"/v/x%23frag", "/v/x", 401},
			{"/v/a%252Fb", "/v/a%2Fb", 401},
			{"/v/a/..%2Fb", "/v/b", 401},
			{"/v/a%2Fb", "/v/a/b", 401},
			{"/v/a%2Fb", "/v/a%2Fb", 200},
			{"/v/a%2Fb", "/v/%61%2fb", 200},
			{"/v/100%25", "/v/100%25", 200},
			{"/v/a%3Fb", "/v/a%3Fb", 200},
			{"/v/a%3Fb?page=2", "/v/a%3Fb", 200},
		} {
			r := httptest.NewRequest("GET", "http://backend:8080"+c.sent, nil)
			r.Header.Set("Authorization", "DPoP "+token)
			r.Header.Set("DPoP", client.prove(audience+c.proven, token))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("%s with a proof for %s: %d, want %d", c.sent, c.proven, w.Code, c.status)
			}
		}
	})
}

// A handler that is mounted under a prefix gets a path without the prefix, but clients use
// the whole path.
func TestProofsNameThePathBeforeAPrefixIsStripped(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		client := newES256("client")
		token := s.token(map[string]any{"cnf": client.cnf()})
		h := http.StripPrefix("/v1", verifier(t, s.config()).Require()(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		for proven, status := range map[string]int{"/v1/a%2Fb": 200, "/a%2Fb": 401, "/v1/a/b": 401} {
			r := httptest.NewRequest("GET", "/v1/a%2Fb?page=2", nil)
			r.Header.Set("Authorization", "DPoP "+token)
			r.Header.Set("DPoP", client.prove(audience+proven, token))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != status {
				t.Errorf("a proof for %s: %d, want %d", proven, w.Code, status)
			}
		}
	})
}

// If the audience is not a URL, a proof's htu cannot be checked. New logs this, and the
// refusal says so, until Config.Origin is set.
func TestProofsNeedTheAddressOfTheAPI(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		client := newES256("client")
		token := s.token(map[string]any{"cnf": client.cnf(), "aud": "orders"})
		for origin, status := range map[string]int{"": 401, audience: 200} {
			var log bytes.Buffer
			var refused error
			cfg := s.config()
			cfg.Audience, cfg.Origin, cfg.Logger = "orders", origin, slog.New(slog.NewTextHandler(&log, nil))
			cfg.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, status int, err error) {
				refused = err
				w.WriteHeader(status)
			}
			h := verifier(t, cfg).Require()(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			said := strings.Contains(log.String(), "Config.Origin")
			if resp := askHandler(h, "Authorization: DPoP "+token, "DPoP: "+client.prove(at, token)); resp.StatusCode != status {
				t.Errorf("Origin %q: %d, want %d", origin, resp.StatusCode, status)
			}
			if want := status == 401; said != want || want != (errors.Is(refused, resource.ErrInvalidProof) && strings.Contains(refused.Error(), "Config.Origin")) {
				t.Errorf("Origin %q: the log has %q, the error is %v", origin, &log, refused)
			}
			if resp := askHandler(h, "Authorization: Bearer "+s.token(map[string]any{"aud": "orders"})); resp.StatusCode != 200 {
				t.Errorf("Origin %q: a bearer token, which needs none: %d", origin, resp.StatusCode)
			}
		}
	})
}

// With Config.NonceKey, all instances make the same nonces, and proofs require one.
func TestNoncesOfAResource(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		client := newES256("client")
		token := s.token(map[string]any{"cnf": client.cnf(), "exp": time.Now().Unix() + 3000})
		cfg := s.config()
		cfg.NonceKey = make([]byte, 32)
		handler := func() http.Handler {
			return verifier(t, cfg).Require()(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		}
		one, other := handler(), handler()
		resp := askHandler(one, "Authorization: DPoP "+token, "DPoP: "+client.prove(at, token))
		nonce := resp.Header.Get("DPoP-Nonce")
		if resp.StatusCode != 401 || nonce == "" || !strings.Contains(resp.Header.Get("WWW-Authenticate"), `error="use_dpop_nonce"`) {
			t.Fatalf("%d %v", resp.StatusCode, resp.Header)
		}
		with := map[string]any{"nonce": nonce}
		time.Sleep(time.Minute)
		synctest.Wait()
		if resp := askHandler(other, "Authorization: DPoP "+token, "DPoP: "+client.prove(at, token, with)); resp.StatusCode != 200 || resp.Header.Get("DPoP-Nonce") == "" {
			t.Errorf("on another instance: %d", resp.StatusCode)
		}
		time.Sleep(2 * time.Minute)
		if resp := askHandler(one, "Authorization: DPoP "+token, "DPoP: "+client.prove(at, token, with)); resp.StatusCode != 401 {
			t.Errorf("an old nonce: %d", resp.StatusCode)
		}
	})
}
