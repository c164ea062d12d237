package keys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"math/big"

	"github.com/mintage/mintage/internal/grant"
)

// A signer is the private key of a signing key, with values that each signature
// needs.
type signer struct {
	private crypto.Signer
	public  crypto.PublicKey
	header  string      // up to the type: {"alg":"ES256","kid":"0f1e2d3c","typ":"
	size    int         // of a signature, in bytes
	hash    crypto.Hash // applied before signing; zero for EdDSA, which hashes itself
}

// newPrivateKey generates a private key in PKCS #8.
func newPrivateKey(alg Purpose) ([]byte, error) {
	var private any
	var err error
	switch alg {
	case ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	case RS256:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		err = fmt.Errorf("%s is not the name of a signing algorithm", alg)
	}
	if err != nil {
		return nil, err
	}
	return x509.MarshalPKCS8PrivateKey(private)
}

// newSigner decodes a private key of newPrivateKey. It refuses a key of another
// algorithm than the record's purpose.
func newSigner(rec Stored, material []byte) (*signer, error) {
	private, err := x509.ParsePKCS8PrivateKey(material)
	if err != nil {
		return nil, fmt.Errorf("key %s is damaged: %w", rec.ID, err)
	}
	s := &signer{header: headerUpToType(rec.Purpose, rec.ID)}
	switch k := private.(type) {
	case *ecdsa.PrivateKey:
		if rec.Purpose == ES256 && k.Curve == elliptic.P256() {
			s.private, s.size, s.hash = k, 64, crypto.SHA256
		}
	case ed25519.PrivateKey:
		if rec.Purpose == EdDSA {
			s.private, s.size = k, ed25519.SignatureSize
		}
	case *rsa.PrivateKey:
		if rec.Purpose == RS256 {
			s.private, s.size, s.hash = k, k.Size(), crypto.SHA256
		}
	}
	if s.private == nil {
		return nil, fmt.Errorf("key %s is not one for %s", rec.ID, rec.Purpose)
	}
	s.public = s.private.Public()
	return s, nil
}

// sign returns the signature of text by RFC 7518 section 3 or RFC 8037 section
// 3.1. ECDSA is deterministic (RFC 6979), as the others are.
func (s *signer) sign(text []byte) ([]byte, error) {
	if s.hash == 0 {
		return s.private.Sign(nil, text, s.hash)
	}
	digest := sha256.Sum256(text)
	signature, err := s.private.Sign(nil, digest[:], s.hash)
	if _, isECDSA := s.public.(*ecdsa.PublicKey); !isECDSA || err != nil {
		return signature, err
	}
	var point struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &point); err != nil {
		return nil, err
	}
	signature = make([]byte, s.size)
	point.R.FillBytes(signature[:s.size/2])
	point.S.FillBytes(signature[s.size/2:])
	return signature, nil
}

func (s *signer) verify(text, signature []byte) bool {
	if len(signature) != s.size {
		return false
	}
	switch k := s.public.(type) {
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(text)
		x, y := new(big.Int).SetBytes(signature[:s.size/2]), new(big.Int).SetBytes(signature[s.size/2:])
		return ecdsa.Verify(k, digest[:], x, y)
	case ed25519.PublicKey:
		return ed25519.Verify(k, text, signature)
	case *rsa.PublicKey:
		digest := sha256.Sum256(text)
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, digest[:], signature) == nil
	}
	return false
}

// Every JWT has this form of header, and no other is accepted: members that name
// another key (jku, jwk, x5u) and extensions (crit) cannot occur.
const (
	headerAlg = `{"alg":"`
	headerKid = `","kid":"`
	headerTyp = `","typ":"`
	headerEnd = `"}`
)

func headerUpToType(alg Purpose, id grant.KeyID) string {
	return headerAlg + string(alg) + headerKid + id.String() + headerTyp
}
