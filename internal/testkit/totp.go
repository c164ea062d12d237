package testkit

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"time"
)

// OneTimeCode returns the code that an authenticator app shows for a secret (RFC 6238, RFC
// 4226 section 5.3).
func OneTimeCode(secret []byte, at time.Time) string {
	h := hmac.New(sha1.New, secret)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(at.Unix()/30)))
	sum := h.Sum(nil)
	i := sum[len(sum)-1] & 15
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[i:])&0x7fffffff%1_000_000)
}
