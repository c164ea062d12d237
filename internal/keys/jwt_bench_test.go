package keys_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/keys"
)

// benchClaims are the claims of an everyday access token.
var benchClaims = []byte(`{"iss":"https://auth.example.com/oauth2/api","sub":"alice","aud":"https://api.example.com","client_id":"billing",` +
	`"exp":1800000300,"iat":1800000000,"jti":"AAECAwQFBgcICQoLDA0ODwAAAAcBoxeZ4AEBoxeZ4AAAAAAAAAA","scope":"read write"}`)

// These benchmarks compare signing by a ring, the bare signature, and the JOSE library.

func BenchmarkSign(b *testing.B) {
	r := signingRing(b, nil, keys.ES256)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Sign(keys.ES256, "at+jwt", benchClaims, frozenAt); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignBare(b *testing.B) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		sum := sha256.Sum256(benchClaims)
		if _, _, err := ecdsa.Sign(rand.Reader, k, sum[:]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignLibrary(b *testing.B) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	opt := (&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", "0f1e2d3c")
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: k}, opt)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		signed, err := s.Sign(benchClaims)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := signed.CompactSerialize(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	r := signingRing(b, nil, keys.ES256)
	text := sign(b, r, keys.ES256)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := r.Verify(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerifyLibrary(b *testing.B) {
	r := signingRing(b, nil, keys.ES256)
	text, public := sign(b, r, keys.ES256), r.JWKS(frozenAt, noRotation)[0].Key
	b.ReportAllocs()
	for b.Loop() {
		jws, err := jose.ParseSignedCompact(text, libraryAlgorithms)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := jws.Verify(public); err != nil {
			b.Fatal(err)
		}
	}
}
