package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/oauth"
)

// A Prover has an ES256 key, and makes DPoP proofs (RFC 9449) with it.
type Prover struct {
	JKT oauth.JKT

	t   testing.TB
	key *ecdsa.PrivateKey
	jwk map[string]string
}

// NewProver makes a key.
func NewProver(t testing.TB) *Prover {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	p := &Prover{t: t, key: key, jwk: map[string]string{"crv": "P-256", "kty": "EC", "x": inBase64(point[1:33]), "y": inBase64(point[33:])}}
	p.JKT = sha256.Sum256(p.json(p.jwk))
	return p
}

func inBase64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func (p *Prover) json(v any) []byte {
	p.t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

// Proof makes a proof for a request, with an access token if token is not "". Each edit
// changes the proof's claims.
func (p *Prover) Proof(method, uri, token string, at time.Time, edit ...func(claims map[string]any)) string {
	p.t.Helper()
	claims := map[string]any{"jti": rand.Text(), "htm": method, "htu": uri, "iat": at.Unix()}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims["ath"] = inBase64(sum[:])
	}
	for _, f := range edit {
		f(claims)
	}
	text := inBase64(p.json(map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": p.jwk})) + "." + inBase64(p.json(claims))
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, p.key, sum[:])
	if err != nil {
		p.t.Fatal(err)
	}
	return text + "." + inBase64(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// WithNonce returns an edit that adds a server's nonce to a proof.
func WithNonce(nonce string) func(map[string]any) {
	return func(claims map[string]any) { claims["nonce"] = nonce }
}
