// Package dpop reads and verifies DPoP proofs (RFC 9449 section 4): JWTs by which a
// client proves, for one request, that it holds the private key to a public key. It does
// no I/O, and the time is passed in. The server and package resource use it.
package dpop

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"math/big"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/json"

	"github.com/mintage/mintage/internal/plain"
)

// Algorithms are the signature algorithms of proofs. RS256 is not among them (FAPI 2.0
// section 5.4.1).
var Algorithms = []string{"ES256", "EdDSA", "PS256"}

// Window is how far the iat of a proof may be from the verifier's clock, either way.
const Window = time.Minute

// Limits of a proof.
const (
	maxProof = 6 << 10 // bytes of the header
	maxJTI   = 256
	minRSA   = 2048
	maxRSA   = 4096
)

// A Fault is why a proof is not valid, for logs. It contains nothing of the proof.
type Fault string

func (f Fault) Error() string { return string(f) }

// A Proof is a parsed proof. Do not trust its contents before Verify.
type Proof struct {
	// Key is the SHA-256 thumbprint of its public key (RFC 7638).
	Key [sha256.Size]byte
	// ID is its jti, and Nonce its nonce, which a server has made, or "".
	ID, Nonce string

	method, uri, tokenHash string
	issued                 float64 // seconds
	header                 string  // encoded
	public                 crypto.PublicKey
	signed, signature      []byte
}

type header struct {
	Type string          `json:"typ"`
	Alg  string          `json:"alg"`
	Key  json.RawMessage `json:"jwk"`
	// A proof with any of these is rejected: extensions and certificates are not supported.
	Crit   json.RawMessage `json:"crit"`
	B64    json.RawMessage `json:"b64"`
	Zip    json.RawMessage `json:"zip"`
	Chain  json.RawMessage `json:"x5c"`
	URL    json.RawMessage `json:"x5u"`
	SetURL json.RawMessage `json:"jku"`
}

type payload struct {
	ID        string  `json:"jti"`
	Method    string  `json:"htm"`
	URI       string  `json:"htu"`
	IssuedAt  float64 `json:"iat"`
	TokenHash string  `json:"ath"`
	Nonce     string  `json:"nonce"`
}

// claims are the members of a payload, for the proofs that most clients make.
var claims = []plain.Member[payload]{
	plain.At("jti", func(p *plain.Reader, c *payload) { c.ID = p.Text() }),
	plain.At("htm", func(p *plain.Reader, c *payload) { c.Method = p.Text() }),
	plain.At("htu", func(p *plain.Reader, c *payload) { c.URI = p.Text() }),
	plain.At("iat", func(p *plain.Reader, c *payload) { c.IssuedAt = float64(p.Number()) }),
	plain.At("ath", func(p *plain.Reader, c *payload) { c.TokenHash = p.Text() }),
	plain.At("nonce", func(p *plain.Reader, c *payload) { c.Nonce = p.Text() }),
}

// readPayload reads the encoded claims of a proof.
func readPayload(text string) (c payload, ok bool) {
	b, ok := decode(text)
	if !ok || plain.Decode(claims, string(b), &c) {
		return c, ok
	}
	c = payload{}
	return c, json.Unmarshal(b, &c) == nil
}

// read reads the proof in the DPoP header fields of a request, of which there must be
// one (RFC 9449 section 4.3). keyOf returns the key in the encoded header. The errors of
// read are Faults.
func read(fields []string, keyOf func(text string) (key, error)) (*Proof, error) {
	if len(fields) != 1 {
		return nil, Fault("there is more than one DPoP header, or none")
	}
	text := fields[0]
	first, rest, _ := strings.Cut(text, ".")
	second, third, _ := strings.Cut(rest, ".")
	if len(text) > maxProof {
		return nil, Fault("it is too long")
	}
	c, ok := readPayload(second)
	if !ok {
		return nil, Fault("its claims are no JSON object with members of the right types")
	}
	signature, ok := decode(third)
	switch {
	case !ok:
		return nil, Fault("its signature is not base64url")
	case c.ID == "" || len(c.ID) > maxJTI:
		return nil, Fault("its jti is missing, or longer than 256 bytes")
	case c.Method == "" || c.URI == "":
		return nil, Fault("its htm or htu is missing")
	case c.IssuedAt == 0:
		return nil, Fault("its iat is missing")
	}
	k, err := keyOf(first)
	if err != nil {
		return nil, err
	}
	return &Proof{
		Key: k.print, ID: c.ID, Nonce: c.Nonce, method: c.Method, uri: c.URI, tokenHash: c.TokenHash, issued: c.IssuedAt,
		header: first, public: k.public, signed: []byte(text[:len(first)+1+len(second)]), signature: signature,
	}, nil
}

// A key is the public key in the header of a proof, and its thumbprint.
type key struct {
	public crypto.PublicKey
	print  [sha256.Size]byte
}

// readHeader reads the encoded header of a proof.
func readHeader(text string) (key, error) {
	var h header
	if !decodeJSON(text, &h) {
		return key{}, Fault("its header is no JSON object with members of the right types")
	}
	switch {
	case !strings.EqualFold(strings.TrimPrefix(h.Type, "application/"), "dpop+jwt"):
		return key{}, Fault("its typ is not dpop+jwt")
	case h.Crit != nil || h.B64 != nil || h.Zip != nil:
		return key{}, Fault("its header has crit, b64 or zip")
	case h.Chain != nil || h.URL != nil || h.SetURL != nil:
		return key{}, Fault("its header has a certificate, or an address of keys")
	}
	public, print, err := readKey(h.Alg, h.Key)
	return key{public, print}, err
}

// A Request is what a proof must be made for.
type Request struct {
	Method string
	URI    string // its query and fragment do not count
	Token  string // the access token beside the proof, or ""
}

// Verify verifies that p was made for r, about now, and by the holder of its key.
func (p *Proof) Verify(r Request, now time.Time) error {
	at := float64(now.UnixMilli()) / 1000
	switch {
	case p.method != r.Method:
		return Fault("its htm is not the method of the request")
	case !sameURI(p.uri, r.URI):
		return Fault("its htu is not the address of the request")
	case !(p.issued > at-Window.Seconds()-1 && p.issued < at+Window.Seconds()):
		return Fault("its iat is more than a minute ago or ahead: compare the clocks")
	}
	if r.Token != "" {
		sum := sha256.Sum256([]byte(r.Token))
		if want := base64.RawURLEncoding.EncodeToString(sum[:]); subtle.ConstantTimeCompare([]byte(want), []byte(p.tokenHash)) != 1 {
			return Fault("its ath is not the hash of the access token")
		}
	}
	if !p.verifies() {
		return Fault("its signature does not verify by its key")
	}
	return nil
}

func (p *Proof) verifies() bool {
	sum := sha256.Sum256(p.signed)
	switch key := p.public.(type) {
	case *ecdsa.PublicKey: // RFC 7518 section 3.4
		return len(p.signature) == 64 && ecdsa.VerifyASN1(key, sum[:], inASN1(p.signature))
	case ed25519.PublicKey:
		return ed25519.Verify(key, p.signed, p.signature)
	case *rsa.PublicKey: // RFC 7518 section 3.5
		return rsa.VerifyPSS(key, crypto.SHA256, sum[:], p.signature, &rsa.PSSOptions{SaltLength: sha256.Size}) == nil
	}
	return false
}

// inASN1 returns the ASN.1 sequence of the two numbers of an ES256 signature, in DER
// (RFC 3279 section 2.2.3). ecdsa.Verify does this by way of big.Int, with ten allocations
// more.
func inASN1(signature []byte) []byte {
	const sequence, integer = 0x30, 0x02
	text := append(make([]byte, 0, 72), sequence, 0)
	for _, n := range [][]byte{signature[:32], signature[32:]} {
		for len(n) > 1 && n[0] == 0 {
			n = n[1:]
		}
		if n[0] < 0x80 {
			text = append(text, integer, byte(len(n)))
		} else { // with a zero in front, because the first bit is the sign
			text = append(text, integer, byte(len(n)+1), 0)
		}
		text = append(text, n...)
	}
	text[1] = byte(len(text) - 2)
	return text
}

// jwk is a public key (RFC 7517). The members of private keys, and certificates, are
// there to be refused.
type jwk struct {
	Kty string `json:"kty"`
	Crv string `json:"crv"`
	X   string `json:"x"`
	Y   string `json:"y"`
	N   string `json:"n"`
	E   string `json:"e"`

	D     json.RawMessage `json:"d"`
	P     json.RawMessage `json:"p"`
	Q     json.RawMessage `json:"q"`
	K     json.RawMessage `json:"k"`
	Chain json.RawMessage `json:"x5c"`
	URL   json.RawMessage `json:"x5u"`
}

// readKey returns the public key of a proof and its thumbprint, over the members in the
// order of RFC 7638 section 3.2. It accepts one encoding only of each member.
func readKey(alg string, text json.RawMessage) (public crypto.PublicKey, print [sha256.Size]byte, err error) {
	var k jwk
	if json.Unmarshal(text, &k) != nil {
		return nil, print, Fault("its jwk is missing, or no JSON Web Key")
	}
	if k.D != nil || k.P != nil || k.Q != nil || k.K != nil || k.Chain != nil || k.URL != nil {
		return nil, print, Fault("its jwk has private members or a certificate")
	}
	var canonical string
	switch {
	case alg == "ES256" && k.Kty == "EC" && k.Crv == "P-256":
		x, okX := decode(k.X)
		y, okY := decode(k.Y)
		if okX && okY && len(x) == 32 && len(y) == 32 {
			if key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...)); err == nil {
				public, canonical = key, `{"crv":"P-256","kty":"EC","x":"`+k.X+`","y":"`+k.Y+`"}`
			}
		}
	case alg == "EdDSA" && k.Kty == "OKP" && k.Crv == "Ed25519":
		if x, ok := decode(k.X); ok && len(x) == ed25519.PublicKeySize {
			public, canonical = ed25519.PublicKey(x), `{"crv":"Ed25519","kty":"OKP","x":"`+k.X+`"}`
		}
	case alg == "PS256" && k.Kty == "RSA":
		n, okN := decode(k.N)
		e, okE := decode(k.E)
		if modulus := new(big.Int).SetBytes(n); okN && okE && modulus.BitLen() >= minRSA && modulus.BitLen() <= maxRSA && n[0] != 0 && len(e) > 0 && len(e) <= 3 && e[0] != 0 {
			if exponent := int(new(big.Int).SetBytes(e).Int64()); exponent >= 3 && exponent%2 == 1 {
				public, canonical = &rsa.PublicKey{N: modulus, E: exponent}, `{"e":"`+k.E+`","kty":"RSA","n":"`+k.N+`"}`
			}
		}
	default:
		return nil, print, Fault("its alg is none of ES256, EdDSA and PS256, or does not fit its jwk")
	}
	if public == nil {
		return nil, print, Fault("its jwk is no public key, or too weak")
	}
	return public, sha256.Sum256([]byte(canonical)), nil
}

var strict = base64.RawURLEncoding.Strict()

// decode decodes base64url, of which it accepts only the canonical encoding.
func decode(text string) ([]byte, bool) {
	b, err := strict.DecodeString(text)
	// The decoder skips line breaks: compare the length to find them.
	return b, err == nil && base64.RawURLEncoding.EncodedLen(len(b)) == len(text)
}

// decodeJSON reads a JSON object in base64url. It compares names exactly, and refuses
// duplicates.
func decodeJSON(text string, into any) bool {
	b, ok := decode(text)
	return ok && json.Unmarshal(b, into) == nil
}
