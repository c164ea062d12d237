//go:build e2e

package resource

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// context returns a context with an HTTP client that finds auth.example.com at this
// server.
func (w *world) context(t *testing.T) context.Context {
	t.Helper()
	var d net.Dialer
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: w.ca.pool()},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "tcp", w.host())
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return oidc.ClientContext(context.Background(), &http.Client{Transport: transport})
}

// verifier configures go-oidc for a resource server: by discovery, with its audience in
// place of the client id. It names the algorithm, because the library would take it from
// a metadata member about ID tokens.
func (w *world) verifier(t *testing.T, alg string) *oidc.IDTokenVerifier {
	t.Helper()
	provider, err := oidc.NewProvider(w.context(t), issuer)
	if err != nil {
		t.Fatalf("discovery: %v", err)
	}
	return provider.VerifierContext(w.context(t), &oidc.Config{ClientID: audience, SupportedSigningAlgs: []string{alg}})
}

func (w *world) checkGoOIDC(t *testing.T) {
	for _, alg := range []string{"ES256", "EdDSA", "RS256"} {
		t.Run(alg, func(t *testing.T) {
			verifier := w.verifier(t, alg)
			c := register(t, w.Server, alg, "--access-token-format", "jwt", "--signing-alg", alg, "--audience", audience)
			token := w.pair(t, c, "read").AccessToken
			got, err := verifier.Verify(t.Context(), token)
			if err != nil {
				t.Fatalf("a valid token is refused: %v", err)
			}
			if got.Issuer != issuer || got.Subject != "alice" || len(got.Audience) != 1 || got.Audience[0] != audience {
				t.Errorf("iss %q, sub %q, aud %q", got.Issuer, got.Subject, got.Audience)
			}
			for name, bad := range map[string]string{
				"changed": forge(token), "cut off": token[:len(token)-4], "unsigned": unsigned(token), "signed by a stranger": resign(t, token),
				"opaque": w.pair(t, w.opaque, "read").AccessToken,
			} {
				if _, err := verifier.Verify(t.Context(), bad); err == nil {
					t.Errorf("a token that is %s is accepted", name)
				}
			}
		})
	}
	t.Run("a token for another audience is refused", func(t *testing.T) {
		_, err := w.verifier(t, "ES256").Verify(t.Context(), w.pair(t, w.others[1], "read").AccessToken)
		if err == nil || !strings.Contains(err.Error(), "audience") {
			t.Errorf("error %v, want one about the audience", err)
		}
	})
}

// resign returns a JWT with the same claims and key id, signed by another key.
func resign(t *testing.T, token string) string {
	t.Helper()
	genuine, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256})
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: genuine.Signatures[0].Header.KeyID}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	forged, err := signer.Sign(genuine.UnsafePayloadWithoutVerification())
	if err != nil {
		t.Fatal(err)
	}
	text, err := forged.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
