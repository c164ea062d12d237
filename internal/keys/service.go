package keys

import (
	"encoding/binary"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// ServicePrefix is that of opaque access tokens without a grant, which clients get
// for themselves (RFC 6749 section 4.4).
const ServicePrefix = "mintage_st_"

// A ServiceToken holds the fields of such a token: nothing is stored about it.
type ServiceToken struct {
	ID           grant.ID // of the token; of no grant
	ClientID     string   // at most 255 bytes
	APIs         []uint16 // numbers of those that it is for; at most 255
	Scope        oauth.Scope
	IssuedAt     grant.Instant
	AuthorizedAt grant.Instant // what cutoffs compare
	ExpiresAt    grant.Instant
	JKT          oauth.JKT   // the key that it is bound to
	Key          grant.KeyID // that made it; known when it is opened
}

// Layout of a service token after its prefix, in base64url without padding:
//
//	version 1 | key id 4 | id 16 | issued 6 | authorized 6 | expires 6 | JKT 32 (bound only) | APIs 1 + 2 each | client 1 + its length | scope | MAC 24
//
// The MAC covers the kind, the realm and all bytes before it.
const (
	serviceHead = 1 + 4 + 16 + 3*6
	// boundService is the version of service tokens that are bound to a client's key.
	boundService = 2
	// maxService limits the bytes of a service token: names, and scopes of 256 bytes
	// for each of some APIs.
	maxService = 2048
)

// SealService returns the text of a service token.
func (r *Ring) SealService(id grant.KeyID, realm string, t ServiceToken) (string, error) {
	k := r.lookup(id, MAC)
	if k == nil {
		return "", ErrUnknownKey
	}
	b := append(make([]byte, 0, serviceHead+len(t.JKT)+2+2*len(t.APIs)+len(t.ClientID)+len(t.Scope)+32), version)
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	b = append(b, t.ID[:]...)
	b = t.ExpiresAt.Append(t.AuthorizedAt.Append(t.IssuedAt.Append(b)))
	if t.JKT.Bound() {
		b[0] = boundService
		b = append(b, t.JKT[:]...)
	}
	b = append(b, byte(len(t.APIs)))
	for _, n := range t.APIs {
		b = binary.BigEndian.AppendUint16(b, n)
	}
	b = append(append(b, byte(len(t.ClientID))), t.ClientID...)
	b = append(b, t.Scope...)
	return k.sealText(ServicePrefix, realm, b), nil
}

// OpenService verifies and decodes a service token.
func (r *Ring) OpenService(realm, text string) (ServiceToken, error) {
	var buf [maxService]byte
	_, b, err := r.openText(buf[:], MAC, ServicePrefix, boundService, realm, text, serviceHead+2)
	if err != nil {
		return ServiceToken{}, err
	}
	return readService(b)
}

// readService decodes the fields. The slice has at least serviceHead bytes.
func readService(b []byte) (ServiceToken, error) {
	t := ServiceToken{
		ID: grant.ID(b[5:21]), IssuedAt: grant.ReadInstant(b[21:]), AuthorizedAt: grant.ReadInstant(b[27:]), ExpiresAt: grant.ReadInstant(b[33:]),
		Key: grant.KeyID(binary.BigEndian.Uint32(b[1:])),
	}
	rest := b[serviceHead:]
	if b[0] == boundService {
		if len(rest) < len(t.JKT) {
			return t, ErrNotAuthentic
		}
		t.JKT, rest = oauth.JKT(rest), rest[len(t.JKT):]
	}
	if len(rest) < 1 || len(rest) < 2+2*int(rest[0]) {
		return t, ErrNotAuthentic
	}
	n, rest := int(rest[0]), rest[1:]
	for range n {
		t.APIs = append(t.APIs, binary.BigEndian.Uint16(rest))
		rest = rest[2:]
	}
	if len(rest) < 1+int(rest[0]) {
		return t, ErrNotAuthentic
	}
	t.ClientID, t.Scope = string(rest[1:1+int(rest[0])]), oauth.Scope(rest[1+int(rest[0]):])
	return t, nil
}
