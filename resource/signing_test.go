package resource_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"sync"

	"github.com/go-jose/go-jose/v4"
)

// A signer signs like the authorization server, or like a forger.
type signer struct {
	kid string
	alg string
	key any // *ecdsa.PrivateKey, ed25519.PrivateKey, *rsa.PrivateKey, []byte (HMAC), or nil: no signature
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newES256(kid string) signer {
	return signer{kid, "ES256", must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
}

// Generating RSA keys is slow. These test keys are not secret.
var (
	rsaKey  = sync.OnceValue(func() *rsa.PrivateKey { return readRSA("testdata/rsa2048.pem") })
	weakRSA = sync.OnceValue(func() *rsa.PrivateKey { return readRSA("testdata/rsa1024.pem") })
)

func readRSA(name string) *rsa.PrivateKey {
	block, _ := pem.Decode(must(os.ReadFile(name)))
	return must(x509.ParsePKCS8PrivateKey(block.Bytes)).(*rsa.PrivateKey)
}

func (s signer) public() any {
	if s.key == nil {
		return nil
	}
	return s.key.(crypto.Signer).Public()
}

// jwk is the public key as the server publishes it.
func (s signer) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.public(), KeyID: s.kid, Algorithm: s.alg, Use: "sig"}
}

// header returns the header of a token signed by s.
func (s signer) header() map[string]any {
	return map[string]any{"alg": s.alg, "kid": s.kid, "typ": "at+jwt"}
}

func encode(v any) string {
	if text, ok := v.(string); ok { // raw JSON, which an encoder would not make
		return base64.RawURLEncoding.EncodeToString([]byte(text))
	}
	return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v)))
}

// compact signs any header and claims as a compact JWS.
func (s signer) compact(header map[string]any, claims any) string {
	text := encode(header) + "." + encode(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(s.signature(text))
}

func (s signer) signature(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	switch k := s.key.(type) {
	case *ecdsa.PrivateKey:
		r, t, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			panic(err)
		}
		out := make([]byte, 64)
		r.FillBytes(out[:32])
		t.FillBytes(out[32:])
		return out
	case ed25519.PrivateKey:
		return ed25519.Sign(k, []byte(text))
	case *rsa.PrivateKey:
		return must(rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:]))
	case []byte:
		mac := hmac.New(sha256.New, k)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	return nil
}
