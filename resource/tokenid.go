package resource

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// A tokenID holds the fields of the jti of a Mintage access token, in base64url:
//
//	grant 16 | generation 4 | issued 6 | authorized 6
//
// The jti of an exchanged token (RFC 8693) continues with its own id 16 | exchanged 6.
// Instants are milliseconds since 1970. The jti is a signed claim, so a caller cannot
// choose it.
type tokenID struct {
	grant        [16]byte
	issuedAt     int64 // of this token
	authorizedAt int64 // of the grant
	exchanged    bool
	own          [16]byte
	exchangedAt  int64
}

const (
	tokenIDSize     = 16 + 4 + 6 + 6
	exchangedIDSize = tokenIDSize + 16 + 6
)

func parseTokenID(jti string) (id tokenID, ok bool) {
	// The decoder skips line breaks: the length shows that there were none.
	b, err := base64.RawURLEncoding.Strict().DecodeString(jti)
	id.exchanged = len(b) == exchangedIDSize
	if err != nil || len(b) != tokenIDSize && !id.exchanged || len(jti) != base64.RawURLEncoding.EncodedLen(len(b)) {
		return id, false
	}
	copy(id.grant[:], b)
	id.issuedAt, id.authorizedAt = instant(b[20:]), instant(b[26:])
	if id.exchanged {
		copy(id.own[:], b[tokenIDSize:])
		id.exchangedAt = instant(b[tokenIDSize+16:])
	}
	return id, true
}

func instant(b []byte) int64 {
	return int64(binary.BigEndian.Uint16(b))<<32 | int64(binary.BigEndian.Uint32(b[2:]))
}

// blind returns the name of a grant, a subject or a client in a public list. It reveals
// the name only to readers that know or guess it.
func blind(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return base64.RawURLEncoding.EncodeToString(sum[:blindSize])
}

const blindSize = 16

// blindGrant returns the blinded name of a grant, or of an exchanged token.
func blindGrant(id [16]byte) string { return blind("mintage/grant", string(id[:])) }
