package resource

import "net/http"

// For fuzzing: what reads a stranger's text.

func BearerToken(h http.Header) (string, error) {
	token, _, err := presentedToken(h)
	return token, err
}

func ParseTokenID(jti string) (grant [16]byte, issuedAt, authorizedAt int64, ok bool) {
	id, ok := parseTokenID(jti)
	return id.grant, id.issuedAt, id.authorizedAt, ok
}
