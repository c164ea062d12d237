package keys

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/mintage/mintage/internal/grant"
)

// MaxJWT is the longest accepted JWT, in characters.
const MaxJWT = 8 << 10

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

// decodeSegment accepts one spelling only: no padding, no line breaks, no bits
// beyond the last byte.
func decodeSegment(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") { // the decoder skips them
		return nil, ErrNotAuthentic
	}
	return base64.RawURLEncoding.Strict().DecodeString(text)
}
