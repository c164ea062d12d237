package keys

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// MaxCode is the longest text of an authorization code, in characters. A code with
// the scope openid, with APIs or bound to a key has more fields, and may be
// MaxOpenIDCode long: the longest values of all fields together need 2,041 characters,
// and the token endpoint accepts MaxOpenIDCode.
const (
	MaxCode       = 1000
	MaxOpenIDCode = 2048
)

// NonceSize is the length in bytes of the nonce that SealCode takes.
const NonceSize = 24

// Layout of a code after its prefix, in base64url without padding:
//
//	version 1 | key id 4 | nonce 24 | AES-256-GCM of the record, and its tag 16
//
// The first half of the nonce selects a key of its own for each code, derived
// from the sealing key, so that the number of codes under one key has no
// practical limit; the second half is GCM's nonce. Kind and realm are
// associated data.
//
// The record: flags 1 | grant id 16 | redirect hash 32 | authorized 6 |
// expires 6 | challenge 32, if flagged | authenticated 6, if flagged |
// claims (length 1), if flagged | nonce (length 1), if flagged | further facts
// (length 1), if flagged | client, subject (length 1) | scope.
const (
	codeHead = 1 + 4 + NonceSize
	codeTag  = 16
)

// Flags of a record. A record without flags has the form of the first version.
const (
	flagChallenged = 1 << iota
	flagAuthTime
	flagClaims
	flagNonce
	flagFacts

	flagsEnd
)

// SealCode returns the text of a code. Equal arguments give equal texts; two
// different codes must never share a nonce. It fails if the text would be longer
// than MaxCode, or MaxOpenIDCode if its scope has openid, it has APIs or it is bound.
func (r *Ring) SealCode(id grant.KeyID, c grant.Code, nonce [NonceSize]byte) (string, error) {
	k := r.lookup(id, Seal)
	if k == nil {
		return "", ErrUnknownKey
	}
	if len(c.ClientID) > 255 || len(c.Subject) > 255 || len(c.Claims) > 255 || len(c.Nonce) > 255 {
		return "", fmt.Errorf("client id, subject, claims and nonce have at most 255 bytes each")
	}
	most := MaxCode
	if c.Scope.Has(oauth.OpenID) || c.APIs != (grant.APIs{}) || c.JKT.Bound() {
		most = MaxOpenIDCode
	}
	rec := append(make([]byte, 1, MaxCode), c.GrantID[:]...)
	rec = append(rec, c.RedirectHash[:]...)
	rec = c.AuthorizedAt.Append(rec)
	rec = c.ExpiresAt.Append(rec)
	if c.Challenged {
		rec[0] |= flagChallenged
		rec = append(rec, c.Challenge[:]...)
	}
	if c.AuthTime != 0 {
		rec[0] |= flagAuthTime
		rec = c.AuthTime.Append(rec)
	}
	var buf [64]byte
	for _, part := range []struct {
		flag byte
		text []byte
	}{{flagClaims, []byte(c.Claims)}, {flagNonce, []byte(c.Nonce)}, {flagFacts, c.Facts.Append(buf[:0])}} {
		if len(part.text) > 0 {
			rec[0] |= part.flag
			rec = append(append(rec, byte(len(part.text))), part.text...)
		}
	}
	rec = append(append(rec, byte(len(c.ClientID))), c.ClientID...)
	rec = append(append(rec, byte(len(c.Subject))), c.Subject...)
	rec = append(rec, c.Scope...)

	if n := len(CodePrefix) + base64.RawURLEncoding.EncodedLen(codeHead+len(rec)+codeTag); n > most {
		return "", fmt.Errorf("the code would have %d characters, and %d are allowed: shorten the subject or its claims, or ask for fewer scopes", n, most)
	}
	return CodePrefix + base64.RawURLEncoding.EncodeToString(k.seal(codes, c.Realm, rec, nonce)), nil
}

// OpenCode verifies and decodes a code.
func (r *Ring) OpenCode(realm, text string) (grant.Code, error) {
	size := base64.RawURLEncoding.DecodedLen(max(0, len(text)-len(CodePrefix)))
	if len(text) > MaxOpenIDCode || size < codeHead+codeTag {
		return grant.Code{}, ErrNotAuthentic
	}
	b, ok := decode(make([]byte, size), CodePrefix, text)
	if !ok {
		return grant.Code{}, ErrNotAuthentic
	}
	k, rec, err := r.open(codes, realm, b)
	if err != nil {
		return grant.Code{}, err
	}
	return parseCode(realm, k.ID, rec)
}

func parseCode(realm string, key grant.KeyID, rest fields) (grant.Code, error) {
	c := grant.Code{Realm: realm, KeyID: key}
	ok := true
	flags := rest.take(1, &ok)[0]
	c.Challenged = flags&flagChallenged != 0
	c.GrantID = grant.ID(rest.take(16, &ok))
	c.RedirectHash = [32]byte(rest.take(32, &ok))
	c.AuthorizedAt = grant.ReadInstant(rest.take(6, &ok))
	c.ExpiresAt = grant.ReadInstant(rest.take(6, &ok))
	if c.Challenged {
		c.Challenge = [32]byte(rest.take(32, &ok))
	}
	if flags&flagAuthTime != 0 {
		c.AuthTime = grant.ReadInstant(rest.take(6, &ok))
	}
	if flags&flagClaims != 0 {
		c.Claims = rest.text(&ok)
	}
	if flags&flagNonce != 0 {
		c.Nonce = rest.text(&ok)
	}
	if flags&flagFacts != 0 {
		ok = c.Facts.Read([]byte(rest.text(&ok))) == nil && ok
	}
	c.ClientID = rest.text(&ok)
	c.Subject = rest.text(&ok)
	c.Scope = oauth.Scope(rest)
	if !ok || flags >= flagsEnd { // flags of a later version
		return grant.Code{}, ErrNotAuthentic
	}
	return c, nil
}

// aead returns AES-256-GCM under a key that is derived from k by the label and the first
// half of the nonce. The label separates codes and boxes.
func (k *key) aead(label string, nonce [NonceSize]byte) cipher.AEAD {
	derived := k.mac(nil, []byte(label), nonce[:NonceSize/2])
	block, err := aes.NewCipher(derived)
	if err != nil {
		panic(err) // only for a key that is not 16, 24 or 32 bytes
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // only for a block size that is not 16
	}
	return aead
}

// A sealing is a kind of sealed text: codes, boxes or device codes. Each kind has its own
// label for deriving keys, and its own beginning of the associated data.
type sealing struct{ key, kind string }

var (
	codes = sealing{"mintage/1/code key\x00", CodePrefix}
	boxes = sealing{"mintage/1/box key\x00", "mintage/1/box\x00"}

	deviceCodes = sealing{"mintage/1/device code key\x00", DevicePrefix}
)

// binding returns the associated data: the kind, the realm or label, and the head.
func (s sealing) binding(name string, head []byte) []byte {
	return append(append([]byte(s.kind), name...), head...)
}

func (k *key) seal(s sealing, name string, plain []byte, nonce [NonceSize]byte) []byte {
	head := append(make([]byte, 0, codeHead+len(plain)+codeTag), version)
	head = binary.BigEndian.AppendUint32(head, uint32(k.ID))
	head = append(head, nonce[:]...)
	return k.aead(s.key, nonce).Seal(head, nonce[NonceSize/2:], plain, s.binding(name, head[:5]))
}

// open decrypts the output of seal, or returns ErrNotAuthentic.
func (r *Ring) open(s sealing, name string, b []byte) (*key, []byte, error) {
	if len(b) < codeHead+codeTag || b[0] != version {
		return nil, nil, ErrNotAuthentic
	}
	k := r.lookup(grant.KeyID(binary.BigEndian.Uint32(b[1:])), Seal)
	if k == nil {
		return nil, nil, ErrNotAuthentic
	}
	nonce := [NonceSize]byte(b[5:codeHead])
	plain, err := k.aead(s.key, nonce).Open(nil, nonce[NonceSize/2:], b[codeHead:], s.binding(name, b[:5]))
	if err != nil {
		return nil, nil, ErrNotAuthentic
	}
	return k, plain, nil
}
