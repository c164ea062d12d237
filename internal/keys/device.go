package keys

import (
	"crypto/rand"
	"encoding/base64"

	"github.com/mintage/mintage/internal/grant"
)

// A DeviceCode holds the fields of a device code, which are sealed into its text.
type DeviceCode struct {
	GrantID   grant.ID // of the grant that it is redeemed for
	UserCode  [32]byte // key of the document about its user code
	ClientID  string   // at most 255 bytes
	IssuedAt  grant.Instant
	ExpiresAt grant.Instant
}

// Layout of the record that is sealed, as in an authorization code:
//
//	grant id 16 | user code 32 | issued 6 | expires 6 | client
const (
	deviceRecord  = 16 + 32 + 2*6
	maxDeviceCode = len(DevicePrefix) + (codeHead+deviceRecord+255+codeTag)*4/3 + 2
)

// SealDeviceCode returns the text of a device code, by the sealing key in use at its
// instant of issue.
func SealDeviceCode(r *Ring, realm string, d DeviceCode) (string, error) {
	k := r.current(Seal, d.IssuedAt)
	if k == nil {
		return "", ErrUnknownKey
	}
	rec := append(make([]byte, 0, deviceRecord+len(d.ClientID)), d.GrantID[:]...)
	rec = append(rec, d.UserCode[:]...)
	rec = append(d.ExpiresAt.Append(d.IssuedAt.Append(rec)), d.ClientID...)
	var nonce [NonceSize]byte
	rand.Read(nonce[:])
	return DevicePrefix + base64.RawURLEncoding.EncodeToString(k.seal(deviceCodes, realm, rec, nonce)), nil
}

// OpenDeviceCode verifies and decodes a device code. A code of a withdrawn key, or issued
// after its key's period of use, is not authentic.
func OpenDeviceCode(r *Ring, realm, text string) (DeviceCode, error) {
	size := base64.RawURLEncoding.DecodedLen(max(0, len(text)-len(DevicePrefix)))
	if len(text) > maxDeviceCode || size < codeHead+deviceRecord+codeTag {
		return DeviceCode{}, ErrNotAuthentic
	}
	b, ok := decode(make([]byte, size), DevicePrefix, text)
	if !ok {
		return DeviceCode{}, ErrNotAuthentic
	}
	k, rec, err := r.open(deviceCodes, realm, b)
	if err != nil {
		return DeviceCode{}, err
	}
	d := DeviceCode{
		GrantID: grant.ID(rec[:16]), UserCode: [32]byte(rec[16:48]),
		IssuedAt: grant.ReadInstant(rec[48:]), ExpiresAt: grant.ReadInstant(rec[54:]), ClientID: string(rec[deviceRecord:]),
	}
	if !k.maker.Signed(d.IssuedAt, grant.Policy{}) {
		return DeviceCode{}, ErrNotAuthentic
	}
	return d, nil
}
