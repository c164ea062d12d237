package resource

import (
	"net/http"
	"time"
)

// These functions parse untrusted text. They are exported for fuzzing.

func BearerToken(h http.Header) (string, error) {
	token, _, err := presentedToken(h)
	return token, err
}

func ParseTokenID(jti string) (grant [16]byte, issuedAt, authorizedAt int64, ok bool) {
	id, ok := parseTokenID(jti)
	return id.grant, id.issuedAt, id.authorizedAt, ok
}

// PutBackClock changes the verifier's list as if it were from before the clocks were set
// back.
func (v *Verifier) PutBackClock(by time.Duration) {
	l := *v.revocations.current.Load()
	l.IssuedAt += numericDate(by.Milliseconds())
	l.ExpiresAt += numericDate(by.Milliseconds())
	v.revocations.current.Store(&l)
}
