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
	"encoding/base64"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/grant"
)

// MaxJWT is the longest accepted JWT, in characters.
const MaxJWT = 8 << 10

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

// parseHeader parses a header of the only accepted form: that of headerUpToType, a type
// and headerEnd.
func parseHeader(h string) (alg Purpose, id grant.KeyID, typ string, ok bool) {
	h, begins := strings.CutPrefix(h, headerAlg)
	name, h, hasKid := strings.Cut(h, headerKid)
	kid, h, hasTyp := strings.Cut(h, headerTyp)
	typ, ends := strings.CutSuffix(h, headerEnd)
	if !begins || !hasKid || !hasTyp || !ends || !isType(typ) {
		return "", 0, "", false
	}
	id, ok = parseKeyID(kid)
	return Purpose(name), id, typ, ok
}

// parseKeyID is the inverse of KeyID.String.
func parseKeyID(kid string) (grant.KeyID, bool) {
	n, err := strconv.ParseUint(kid, 16, 32)
	id := grant.KeyID(n)
	return id, err == nil && id.String() == kid // one spelling only
}

// isType reports whether typ can be part of a media type (RFC 7515 section 4.1.9)
// and needs no JSON escapes.
func isType(typ string) bool {
	return typ != "" && len(typ) <= 64 && strings.Trim(typ, alphanumeric+"+-.") == ""
}

// Sign returns the JWT of claims, which are JSON, signed by the algorithm's key in
// use at now. Equal claims under one key give equal texts.
func (r *Ring) Sign(alg Purpose, typ string, claims []byte, now grant.Instant) (string, error) {
	k := r.current(alg, now)
	if k == nil || k.signer == nil {
		return "", ErrUnknownKey
	}
	if !isType(typ) {
		return "", fmt.Errorf("%q cannot be the type of a JWT", typ)
	}
	s := k.signer
	var head [len(headerAlg) + len(headerKid) + len(headerTyp) + len(headerEnd) + 5 + 8 + 64]byte
	header := append(append(append(head[:0], s.header...), typ...), headerEnd...)
	enc := base64.RawURLEncoding
	size := enc.EncodedLen(len(header)) + 1 + enc.EncodedLen(len(claims)) + 1 + enc.EncodedLen(s.size)
	text := enc.AppendEncode(make([]byte, 0, size), header)
	text = enc.AppendEncode(append(text, '.'), claims)
	signature, err := s.sign(text)
	if err != nil {
		return "", err
	}
	text = enc.AppendEncode(append(text, '.'), signature)
	return string(text), nil
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

// Verify verifies a JWT under any key of the ring, whatever its phase, and returns the
// JWT's type, its claims and the key's id. A key verifies signatures of its own
// algorithm only. Verify returns ErrNotAuthentic for every other text. The caller
// checks the claims and the key's period of use.
func (r *Ring) Verify(text string) (typ string, claims []byte, id grant.KeyID, err error) {
	if len(text) > MaxJWT {
		return "", nil, 0, ErrNotAuthentic
	}
	header64, rest, dot := strings.Cut(text, ".")
	claims64, signature64, more := strings.Cut(rest, ".")
	header, err1 := decodeSegment(header64)
	claims, err2 := decodeSegment(claims64)
	signature, err3 := decodeSegment(signature64)
	if !dot || !more || err1 != nil || err2 != nil || err3 != nil {
		return "", nil, 0, ErrNotAuthentic
	}
	alg, id, typ, ok := parseHeader(string(header))
	if !ok || !alg.Signs() {
		return "", nil, 0, ErrNotAuthentic
	}
	k := r.lookup(id, alg)
	if k == nil || !k.signer.verify([]byte(text[:len(header64)+1+len(claims64)]), signature) {
		return "", nil, 0, ErrNotAuthentic
	}
	return typ, claims, id, nil
}

// VerifyAt is Verify, but refuses keys that are gone or withdrawn.
func (r *Ring) VerifyAt(text string, now grant.Instant, s Schedule) (typ string, claims []byte, id grant.KeyID, err error) {
	typ, claims, id, err = r.Verify(text)
	if err != nil || !r.good(id, now, s) {
		return "", nil, 0, ErrNotAuthentic
	}
	return typ, claims, id, nil
}

// good reports whether signatures of a signing key are accepted.
func (r *Ring) good(id grant.KeyID, now grant.Instant, s Schedule) bool {
	p := r.Phase(id, now, s)
	return p != Gone && p != Withdrawn
}

// decodeSegment accepts one spelling only: no padding, no line breaks, no bits
// beyond the last byte.
func decodeSegment(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") { // the decoder skips them
		return nil, ErrNotAuthentic
	}
	return base64.RawURLEncoding.Strict().DecodeString(text)
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
