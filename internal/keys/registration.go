package keys

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

// RegistrationPrefix begins the id of a client that registered itself.
const RegistrationPrefix = "mintage_ci_"

// IsRegistration reports whether an id has the form of a sealed registration.
func IsRegistration(id string) bool { return strings.HasPrefix(id, RegistrationPrefix) }

// Limits of a sealed registration: its text has at most 255 characters.
const (
	MaxSealedRedirects = 5
	MaxSealedName      = 64
)

// A SealedRegistration holds the metadata of a client that registered itself. The
// client id contains it, so that a flood of registrations writes nothing.
type SealedRegistration struct {
	Redirects [][16]byte // digests of its redirect URIs, see RedirectDigest
	Method    byte       // of authentication, as the caller numbers them; below 64
	Device    bool       // it asks for the device grant
	Bound     bool       // all its tokens are bound to keys
	Name      string     // UTF-8
	At        grant.Instant
}

// RedirectDigest returns the digest of a redirect URI in a sealed registration.
func RedirectDigest(uri string) [16]byte {
	sum := sha256.Sum256([]byte(uri))
	return [16]byte(sum[:16])
}

// Layout of the id after its prefix, in base64url without padding:
//
//	version 1 | key id 4 | at 6 | method 1 | number of digests 1 | digests 16 each | name | MAC 24
//
// The MAC covers the kind, the realm and all bytes before it.
const (
	registrationHead = 1 + 4 + 6 + 1 + 1
	maxRegistration  = registrationHead + 16*MaxSealedRedirects + MaxSealedName + macSize
)

// sealedDevice and sealedBound are the bits of the method's byte that stand for Device
// and Bound. A version without these flags reads an unknown method and refuses the client.
const (
	sealedDevice = 0x80
	sealedBound  = 0x40
)

// Registrations seals and opens the registrations of a realm.
type Registrations struct {
	ring  *Ring
	realm string
}

// Registrations returns the Registrations of a realm.
func (r *Ring) Registrations(realm string) Registrations { return Registrations{r, realm} }

// Seal returns the client id that contains s, sealed by the key in use at s.At.
func (r Registrations) Seal(s SealedRegistration) (string, error) {
	k := r.ring.current(Registration, s.At)
	switch {
	case k == nil:
		return "", ErrUnknownKey
	case len(s.Redirects) == 0 || len(s.Redirects) > MaxSealedRedirects || len(s.Name) > MaxSealedName || !utf8.ValidString(s.Name):
		return "", errors.New("a registration has 1 to 5 redirect URIs, and a name of at most 64 bytes of UTF-8")
	}
	b := append(make([]byte, 0, 255), version)
	b = binary.BigEndian.AppendUint32(b, uint32(k.ID))
	b = s.At.Append(b)
	if s.Device {
		s.Method |= sealedDevice
	}
	if s.Bound {
		s.Method |= sealedBound
	}
	b = append(b, s.Method, byte(len(s.Redirects)))
	for _, d := range s.Redirects {
		b = append(b, d[:]...)
	}
	b = append(b, s.Name...)
	return k.sealText(RegistrationPrefix, r.realm, b), nil
}

// Open verifies and decodes a client id. It accepts an id for
// RegistrationRetention after its key's period of use, and only if it names an
// instant in that period. The comparison of the MAC takes constant time.
func (r Registrations) Open(id string, now grant.Instant) (SealedRegistration, error) {
	k, b, err := r.open(id)
	if err != nil {
		return SealedRegistration{}, err
	}
	s := SealedRegistration{At: grant.ReadInstant(b[5:]), Method: b[11] &^ (sealedDevice | sealedBound), Device: b[11]&sealedDevice != 0, Bound: b[11]&sealedBound != 0}
	n := int(b[12])
	if n == 0 || n > MaxSealedRedirects || len(b) < registrationHead+16*n || len(b) > registrationHead+16*n+MaxSealedName {
		return SealedRegistration{}, ErrNotAuthentic
	}
	for d := range slices.Chunk(b[registrationHead:registrationHead+16*n], 16) {
		s.Redirects = append(s.Redirects, [16]byte(d))
	}
	s.Name = string(b[registrationHead+16*n:])
	switch m := k.maker; {
	case !m.Signed(s.At, grant.Policy{}):
		return SealedRegistration{}, ErrNotAuthentic
	case m.Until != 0 && now > m.Until.Add(RegistrationRetention):
		return SealedRegistration{}, ErrNotAuthentic
	}
	return s, nil
}

func (r Registrations) open(id string) (*key, []byte, error) {
	return r.ring.openText(make([]byte, maxRegistration), Registration, RegistrationPrefix, version, r.realm, id, registrationHead)
}

// RegistrationKey returns the key that a client id names, without verifying the id, or
// 0 if the id is no sealed registration.
func RegistrationKey(id string) grant.KeyID {
	body, sealed := strings.CutPrefix(id, RegistrationPrefix)
	b, err := base64.RawURLEncoding.DecodeString(body)
	if !sealed || err != nil || len(b) < registrationHead {
		return 0
	}
	return grant.KeyID(binary.BigEndian.Uint32(b[1:]))
}

// Secret returns the client secret of a sealed id: an HMAC of the id, so that it is
// stored nowhere.
func (r Registrations) Secret(id string) (oauth.Secret, error) {
	k, _, err := r.open(id)
	if err != nil {
		return "", err
	}
	sum := k.mac(nil, []byte("mintage/1/registration secret\x00"), []byte(r.realm), []byte{0}, []byte(id))
	return oauth.Secret(base64.RawURLEncoding.EncodeToString(sum)), nil
}
