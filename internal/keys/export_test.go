package keys

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/mintage/mintage/internal/grant"
)

// SignHeader is a JWT by a key of the ring, under any header.
func (r *Ring) SignHeader(id grant.KeyID, header string, claims []byte) (string, error) {
	enc := base64.RawURLEncoding
	text := enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString(claims)
	signature, err := r.byID[id].signer.sign([]byte(text))
	return text + "." + enc.EncodeToString(signature), err
}

// SealRecord is a code that holds any record.
func (r *Ring) SealRecord(id grant.KeyID, realm string, rec []byte, nonce [NonceSize]byte) string {
	head := binary.BigEndian.AppendUint32([]byte{version}, uint32(id))
	sealed := r.byID[id].aead(codeKeyLabel, nonce).Seal(append(head, nonce[:]...), nonce[NonceSize/2:], rec, codeBinding(realm, head))
	return CodePrefix + base64.RawURLEncoding.EncodeToString(sealed)
}
