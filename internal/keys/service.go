package keys

import (
	"encoding/binary"
	"errors"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// ServicePrefix begins the opaque access tokens of the client credentials grant (RFC 6749
// section 4.4) and of token exchange (RFC 8693).
const ServicePrefix = "mintage_st_"

// A ServiceToken holds the fields of a service token, about which nothing is stored.
type ServiceToken struct {
	ID           grant.ID // of the token itself, not of a grant
	ClientID     string   // at most 255 bytes
	APIs         []uint16 // numbers of the APIs that it is for; at most 255
	Scope        oauth.Scope
	IssuedAt     grant.Instant
	AuthorizedAt grant.Instant // the instant that cutoffs are compared with
	ExpiresAt    grant.Instant
	JKT          oauth.JKT   // the key that it is bound to
	Key          grant.KeyID // that made it; set by OpenService

	// These fields are set if the token was exchanged for a token of a grant (RFC 8693):
	// the grant, the generation of that token, and the actors, the current one first.
	// AuthorizedAt is then the instant of the exchange.
	GrantID    grant.ID
	Generation uint32
	Actors     []grant.Actor
}

// Layout of a service token after its prefix, in base64url without padding:
//
//	version 1 | key id 4 | id 16 | issued 6 | authorized 6 | expires 6 | JKT 32 (bound only) | APIs 1 + 2 each | client 1 + its length | scope | MAC 24
//
// An exchanged token always has a JKT, which may be zero, followed by
//
//	grant 16 | generation 4 | actors 1 | issuer 1 + its length, subject 1 + its length (each)
//
// The MAC covers the kind, the realm and all bytes before it.
const (
	serviceHead = 1 + 4 + 16 + 3*6
	// boundService is the version of service tokens that are bound to a client's key.
	boundService = 2
	// exchangedService is the version of tokens that were exchanged.
	exchangedService = 3
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
	exchanged := t.GrantID != grant.ID{}
	if t.JKT.Bound() || exchanged {
		b[0] = boundService
		b = append(b, t.JKT[:]...)
	}
	if exchanged {
		b[0] = exchangedService
		b = append(b, t.GrantID[:]...)
		b = append(binary.BigEndian.AppendUint32(b, t.Generation), byte(len(t.Actors)))
		for _, a := range t.Actors {
			b = append(append(b, byte(len(a.Issuer))), a.Issuer...)
			b = append(append(b, byte(len(a.Subject))), a.Subject...)
		}
	}
	b = append(b, byte(len(t.APIs)))
	for _, n := range t.APIs {
		b = binary.BigEndian.AppendUint16(b, n)
	}
	b = append(append(b, byte(len(t.ClientID))), t.ClientID...)
	b = append(b, t.Scope...)
	if len(b)+macSize > maxService {
		return "", errTokenTooLong
	}
	return k.sealText(ServicePrefix, realm, b), nil
}

var errTokenTooLong = errors.New("the names in an access token are too long together")

// OpenService verifies and decodes a service token.
func (r *Ring) OpenService(realm, text string) (ServiceToken, error) {
	var buf [maxService]byte
	_, b, err := r.openText(buf[:], MAC, ServicePrefix, exchangedService, realm, text, serviceHead+2)
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
	rest, ok := fields(b[serviceHead:]), true
	if b[0] != version {
		t.JKT = oauth.JKT(rest.take(len(t.JKT), &ok))
	}
	if b[0] == exchangedService {
		t.GrantID, t.Generation = grant.ID(rest.take(16, &ok)), binary.BigEndian.Uint32(rest.take(4, &ok))
		for range rest.take(1, &ok)[0] {
			t.Actors = append(t.Actors, grant.Actor{Issuer: rest.text(&ok), Subject: rest.text(&ok)})
		}
	}
	for range rest.take(1, &ok)[0] {
		t.APIs = append(t.APIs, binary.BigEndian.Uint16(rest.take(2, &ok)))
	}
	t.ClientID, t.Scope = rest.text(&ok), oauth.Scope(rest)
	if !ok {
		return t, ErrNotAuthentic
	}
	return t, nil
}

// fields are the bytes of a record that were not read yet.
type fields []byte

// take removes n bytes. If there are fewer, it returns zeros and sets ok to false.
func (f *fields) take(n int, ok *bool) []byte {
	if len(*f) < n {
		*ok = false
		return make([]byte, n)
	}
	b := (*f)[:n]
	*f = (*f)[n:]
	return b
}

// text removes a string, and the byte with its length before it.
func (f *fields) text(ok *bool) string { return string(f.take(int(f.take(1, ok)[0]), ok)) }
