//go:build e2e

package resource

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// libraries is a server under its own address, so that the libraries find it by
// themselves. Verifiers may cache its keys for a second.
type libraries struct {
	*binary.Server
	post *http.Client
	jwt  client

	before   string                // a token of the first key
	verifier *oidc.IDTokenVerifier // has cached the keys of before the rotation
	session  *session              // has cached the keys of before the first use of the new one
}

func kid(t *testing.T, token string) string {
	t.Helper()
	jws, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	return jws.Signatures[0].Header.KeyID
}

// noticed waits until the server has applied a change on its own.
func noticed(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 30 seconds")
		}
	}
}

// openLibraries starts the server and rotates its key. The server publishes the new key
// at once, and uses it when no verifier can lack it.
func openLibraries(t *testing.T) *libraries {
	t.Helper()
	configuration := write(t, filepath.Join(t.TempDir(), "mintage.yaml"), "jwks_max_age: 1s\n")
	l := &libraries{Server: binary.Start(t, t.TempDir(), "--config", configuration)}
	l.post = &http.Client{Transport: l.Transport(t, ""), Timeout: 10 * time.Second}
	l.jwt = register(t, l.Server, "JWT", "--access-token-format", "jwt", "--audience", audience)
	l.before = pair(t, l.Server, l.post, l.jwt, "read").AccessToken

	ctx := oidc.ClientContext(t.Context(), l.post)
	provider, err := oidc.NewProvider(ctx, l.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	l.verifier = provider.VerifierContext(ctx, &oidc.Config{ClientID: audience, SupportedSigningAlgs: []string{"ES256"}})
	if _, err := l.verifier.Verify(ctx, l.before); err != nil {
		t.Fatalf("go-oidc before the rotation: %v", err)
	}
	rotate(t, l.Server, l.post, "--config", configuration)

	// oauth4webapi ignores max-age and caches keys for five minutes.
	l.session = start(t, l.Server, "validate.mjs", l.Issuer)
	l.validate(t, l.before)
	return l
}

// rotate creates the next ES256 key, and waits until it is published.
func rotate(t *testing.T, s *binary.Server, get *http.Client, args ...string) {
	t.Helper()
	before := keys(t, s, get)
	s.Run(t, append([]string{"keys", "rotate", "--purpose", "ES256"}, args...)...)
	noticed(t, func() bool { return keys(t, s, get) > before })
}

// keys returns the number of published keys.
func keys(t *testing.T, s *binary.Server, get *http.Client) int {
	t.Helper()
	resp, err := get.Get(endpoint(s, "jwks"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var set jose.JSONWebKeySet
	text, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(text, &set) != nil {
		t.Fatalf("keys: status %d, %v", resp.StatusCode, err)
	}
	return len(set.Keys)
}

func (l *libraries) validate(t *testing.T, token string) {
	t.Helper()
	if got := l.session.do(t, map[string]string{"op": "validate", "token": token, "audience": audience}).claims(t); got.Subject != "alice" {
		t.Errorf("oauth4webapi: %+v", got)
	}
}

// checkRotation waits for the first token that the new key has signed.
func (l *libraries) checkRotation(t *testing.T) {
	var after string
	noticed(t, func() bool {
		after = pair(t, l.Server, l.post, l.jwt, "read").AccessToken
		return kid(t, after) != kid(t, l.before)
	})
	for name, token := range map[string]string{"new": after, "old": l.before} {
		if _, err := l.verifier.Verify(t.Context(), token); err != nil {
			t.Errorf("go-oidc refuses a token of the %s key: %v", name, err)
		}
		l.validate(t, token)
	}
	if r := l.session.do(t, map[string]string{"op": "sent"}); string(r.Value) != "2" {
		t.Errorf("oauth4webapi has sent %s requests; it needs 2 if the key was published ahead of its use", r.Value)
	}
	// This key was never published.
	stranger := resign(t, after)
	if _, err := l.verifier.Verify(t.Context(), stranger); err == nil {
		t.Error("go-oidc accepts a signature of an unpublished key")
	}
	if r := l.session.do(t, map[string]string{"op": "validate", "token": stranger, "audience": audience}); !strings.Contains(r.Error, "signature verification failed") {
		t.Errorf("oauth4webapi: %q", r.Error)
	}
}
