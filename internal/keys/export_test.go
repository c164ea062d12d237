package keys

import (
	"encoding/base64"

	"github.com/mintage/mintage/internal/grant"
)

// SignHeader signs a JWT with a key of the ring and any header.
func (r *Ring) SignHeader(id grant.KeyID, header string, claims []byte) (string, error) {
	enc := base64.RawURLEncoding
	text := enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString(claims)
	signature, err := r.byID[id].signer.sign([]byte(text))
	return text + "." + enc.EncodeToString(signature), err
}

// SealRecord seals any record as a code.
func (r *Ring) SealRecord(id grant.KeyID, realm string, rec []byte, nonce [NonceSize]byte) string {
	return CodePrefix + base64.RawURLEncoding.EncodeToString(r.byID[id].seal(codes, realm, rec, nonce))
}
