package resource_test

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mintage/mintage/resource"
)

// A header must name the algorithm of its key. go-jose refuses a key of another type
// anyway, so this test checks the reason that is given. A header with an unsupported
// algorithm is refused before its key is looked up, so the test also counts the loads of
// the key set.
func TestATokenMustNameTheAlgorithmOfItsKey(t *testing.T) {
	timed(t, func(t *testing.T, s *authServer) {
		loads := atomic.Int32{}
		s.answerWith(jwksPath, func(w http.ResponseWriter, r *http.Request) {
			loads.Add(1)
			s.answer(w, r)
		})
		v := verifier(t, s.config())
		wants(t, "a good token", v, s.token(), nil)
		k := s.keys[0]
		reason := func(name, token, want string) {
			t.Helper()
			_, err := v.Verify(t.Context(), token)
			if !errors.Is(err, resource.ErrInvalidToken) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
		other := signer{k.kid, "RS256", must(rsa.GenerateKey(rand.Reader, 2048))}
		reason("another algorithm by the key's name", other.compact(altered(k.header(), map[string]any{"alg": "RS256"}), s.claims()), "the key is for another algorithm")
		before := loads.Load()
		for _, alg := range []string{"PS256", "PS384", "PS512", "RS384", "RS512", "ES384", "ES512", "HS256"} {
			header := altered(k.header(), map[string]any{"alg": alg, "kid": "key9"})
			reason(alg, k.compact(header, s.claims()), "not a JWS with ES256, EdDSA or RS256")
		}
		if n := loads.Load(); n != before {
			t.Errorf("the key set was loaded %d times for algorithms that no key has", n-before)
		}
	})
}
