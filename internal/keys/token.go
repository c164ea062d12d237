package keys

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// Prefixes of codes and tokens, by which people and secret scanners recognise
// them. Version and kind are also inputs of every MAC and seal: a changed prefix
// does not turn one kind into another.
const (
	CodePrefix    = "mintage_ac_"
	RefreshPrefix = "mintage_rt_"
	AccessPrefix  = "mintage_at_"
	DevicePrefix  = "mintage_dc_" // of device codes (RFC 8628 section 3.2)
)

const (
	version = 1
	// targeted is the version of opaque access tokens that name APIs.
	targeted = 2
	// bound is the version of opaque access tokens that are bound to a client's key.
	bound = 3
)

// A Token holds the fields of a refresh or opaque access token. Bits are the
// positions of an access token's scopes in the grant's list; zero for a refresh
// token.
type Token struct {
	GrantID    grant.ID
	Generation uint32
	IssuedAt   grant.Instant
	ExpiresAt  grant.Instant
	Bits       uint64
	APIs       uint8       // of an access token: positions in the grant's APIs
	JKT        oauth.JKT   // of an access token: the key that it is bound to
	Key        grant.KeyID // that made it; set when the token is opened
}

// Layout of a token after its prefix, in base64url without padding:
//
//	version 1 | key id 4 | grant id 16 | generation 4 | issued 6 | expires 6 | bits 8 (access only) | APIs 1 (targeted, bound) | JKT 32 (bound only) | MAC 24
//
// The MAC covers the kind, the realm and all bytes before it.
const (
	refreshSize  = 1 + 4 + 16 + 4 + 6 + 6
	accessSize   = refreshSize + 8
	targetedSize = accessSize + 1
	boundSize    = targetedSize + 32
	macSize      = 24 // 192 bits of HMAC-SHA-256
)

// ErrNotAuthentic is returned for a text that is not authentic: of another kind or
// realm, altered, or forged.
var ErrNotAuthentic = errors.New("not authentic")

// SealRefresh returns the text of a refresh token. Equal arguments give equal
// texts.
func (r *Ring) SealRefresh(id grant.KeyID, realm string, t Token) (string, error) {
	return r.sealToken(RefreshPrefix, refreshSize, id, realm, t)
}

// SealAccess returns the text of an opaque access token. Equal arguments give equal
// texts.
func (r *Ring) SealAccess(id grant.KeyID, realm string, t Token) (string, error) {
	switch {
	case t.JKT.Bound():
		return r.sealToken(AccessPrefix, boundSize, id, realm, t)
	case t.APIs != 0:
		return r.sealToken(AccessPrefix, targetedSize, id, realm, t)
	}
	return r.sealToken(AccessPrefix, accessSize, id, realm, t)
}

// OpenRefresh verifies and decodes a refresh token.
func (r *Ring) OpenRefresh(realm, text string) (Token, error) {
	return r.openToken(RefreshPrefix, version, refreshSize, realm, text)
}

// OpenAccess verifies and decodes an opaque access token.
func (r *Ring) OpenAccess(realm, text string) (Token, error) {
	return r.openToken(AccessPrefix, bound, accessSize, realm, text)
}

func (r *Ring) sealToken(prefix string, size int, id grant.KeyID, realm string, t Token) (string, error) {
	k := r.lookup(id, MAC)
	if k == nil {
		return "", ErrUnknownKey
	}
	var buf [boundSize + 32]byte // room for a whole HMAC, of which macSize is kept
	b := append(buf[:0], versionOf(size))
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	b = append(b, t.GrantID[:]...)
	b = binary.BigEndian.AppendUint32(b, t.Generation)
	b = t.IssuedAt.Append(b)
	b = t.ExpiresAt.Append(b)
	if size >= accessSize {
		b = binary.BigEndian.AppendUint64(b, t.Bits)
	}
	if size >= targetedSize {
		b = append(b, t.APIs)
	}
	if size == boundSize {
		b = append(b, t.JKT[:]...)
	}
	return k.sealText(prefix, realm, b), nil
}

// versionOf returns the first byte of a token of a size.
func versionOf(size int) byte {
	switch size {
	case targetedSize:
		return targeted
	case boundSize:
		return bound
	}
	return version
}

func (r *Ring) openToken(prefix string, newest byte, least int, realm, text string) (Token, error) {
	var buf [boundSize + macSize]byte
	_, b, err := r.openText(buf[:], MAC, prefix, newest, realm, text, least)
	if err != nil || b[0] != versionOf(len(b)) {
		return Token{}, ErrNotAuthentic
	}
	t := readToken(b)
	if len(b) >= accessSize {
		t.Bits = binary.BigEndian.Uint64(b[refreshSize:])
	}
	if len(b) >= targetedSize {
		t.APIs = b[accessSize]
	}
	if len(b) == boundSize {
		t.JKT = oauth.JKT(b[targetedSize:])
	}
	return t, nil
}

// readToken decodes the fields that refresh and access tokens share. The slice has at
// least refreshSize bytes.
func readToken(b []byte) Token {
	return Token{
		GrantID:    grant.ID(b[5:21]),
		Generation: binary.BigEndian.Uint32(b[21:]),
		IssuedAt:   grant.ReadInstant(b[25:]),
		ExpiresAt:  grant.ReadInstant(b[31:]),
		Key:        grant.KeyID(binary.BigEndian.Uint32(b[1:])),
	}
}

// macToken appends the MAC of body under a kind and a realm. All prefixes have one
// length. The body begins with its version, a byte that no realm contains, so the
// concatenation is unambiguous.
func (k *key) macToken(dst []byte, prefix, realm string, body []byte) []byte {
	var label [64]byte
	l := append(label[:0], prefix...)
	l = append(l, realm...)
	return k.mac(dst, l, body)
}

// decode decodes text after prefix into b. It accepts one spelling only: no
// padding, no line breaks, no bits beyond the last byte, exactly len(b) bytes.
func decode(b []byte, prefix, text string) ([]byte, bool) {
	if len(text) != len(prefix)+base64.RawURLEncoding.EncodedLen(len(b)) || text[:len(prefix)] != prefix {
		return nil, false
	}
	// The decoder skips line breaks, and then finds too few bytes.
	n, err := base64.RawURLEncoding.Strict().Decode(b, []byte(text[len(prefix):]))
	return b, err == nil && n == len(b)
}

// sealText returns the text of a body: its prefix, and in base64url the body and a
// MAC. The body begins with its version and the key id.
func (k *key) sealText(prefix, realm string, b []byte) string {
	b = k.macToken(b, prefix, realm, b)[:len(b)+macSize]
	var buf [len(RefreshPrefix) + (boundSize+macSize)*4/3 + 2]byte // enough for tokens of grants
	text := append(buf[:0], prefix...)
	return string(base64.RawURLEncoding.AppendEncode(text, b))
}

// openText verifies a text of sealText and returns its key and body, or
// ErrNotAuthentic. It accepts keys of purpose p, versions up to newest, and bodies of
// at least least bytes; buf has room for the body and the MAC. The comparison of the
// MAC takes constant time.
func (r *Ring) openText(buf []byte, p Purpose, prefix string, newest byte, realm, text string, least int) (*key, []byte, error) {
	size := base64.RawURLEncoding.DecodedLen(max(0, len(text)-len(prefix)))
	if size < least+macSize || size > len(buf) {
		return nil, nil, ErrNotAuthentic
	}
	b, ok := decode(buf[:size], prefix, text)
	if !ok || b[0] < version || b[0] > newest {
		return nil, nil, ErrNotAuthentic
	}
	b, sum := b[:size-macSize], b[size-macSize:]
	k := r.lookup(grant.KeyID(binary.BigEndian.Uint32(b[1:])), p)
	var made [32]byte
	if k == nil || subtle.ConstantTimeCompare(k.macToken(made[:0], prefix, realm, b)[:macSize], sum) != 1 {
		return nil, nil, ErrNotAuthentic
	}
	return k, b, nil
}
