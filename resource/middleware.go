package resource

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

// Require is middleware that lets requests pass whose access token is good and
// was granted every one of scopes; without scopes, any good token will do.
// Handlers behind it find out who asks with [FromContext].
//
// The token is taken from the Authorization header (RFC 6750 section 2.1) and
// from nowhere else: URLs and bodies end up in logs. Other requests are
// answered as RFC 6750 section 3 says, and never reach the handler: 401 without
// a token or with one that is not good, 403 for a missing scope, 400 for a
// malformed header, 503 while nothing can be found out. Nothing of the token is
// repeated in the answer.
//
// Middleware for cross-origin requests belongs outside of it: preflights carry
// no token. It panics if a scope is not one that RFC 6749 section 3.3 allows.
func (v *Verifier) Require(scopes ...string) func(http.Handler) http.Handler {
	for _, s := range scopes {
		if s == "" || !quotable(s) || strings.Contains(s, " ") {
			panic(fmt.Sprintf("resource: %q is not a scope", s))
		}
	}
	wanted := strings.Join(scopes, " ")
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token, err := bearerToken(r.Header)
			var p Principal
			if err == nil {
				p, err = v.Verify(r.Context(), token, scopes...)
			}
			if err != nil {
				v.refuse(w, r, err, wanted)
				return
			}
			next.ServeHTTP(w, r.WithContext(NewContext(r.Context(), p)))
		})
	}
}

// bearerToken is the token of a request. Whatever is not clearly one token is
// refused, since two readers might see two different ones.
func bearerToken(h http.Header) (string, error) {
	all := h["Authorization"]
	if len(all) > 1 {
		return "", fmt.Errorf("%w: %d Authorization headers", ErrInvalidRequest, len(all))
	}
	if len(all) == 0 {
		return "", ErrNoToken
	}
	// RFC 9110 section 11.1: the scheme is case-insensitive.
	scheme, rest, _ := strings.Cut(all[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", ErrNoToken
	}
	token := strings.TrimLeft(rest, " ")
	if !isToken(token) {
		return "", fmt.Errorf("%w: not one token after Bearer", ErrInvalidRequest)
	}
	return token, nil
}

// refuse answers a request that does not pass.
func (v *Verifier) refuse(w http.ResponseWriter, r *http.Request, err error, scope string) {
	challenge := `Bearer realm="` + v.cfg.Audience + `"`
	var status int
	var text string
	switch {
	case errors.Is(err, ErrNoToken):
		// RFC 6750 section 3.1: "SHOULD NOT include an error code".
		status, text = http.StatusUnauthorized, "an access token is required"
	case errors.Is(err, ErrInvalidToken):
		status, text = http.StatusUnauthorized, "the access token is not valid"
		challenge += `, error="invalid_token"`
	case errors.Is(err, ErrInvalidRequest):
		status, text = http.StatusBadRequest, "the Authorization header is malformed"
		challenge += `, error="invalid_request"`
	case errors.Is(err, ErrInsufficientScope):
		status, text = http.StatusForbidden, "the access token lacks a scope"
		challenge += `, error="insufficient_scope", scope="` + scope + `"`
	default:
		status, text = http.StatusServiceUnavailable, "the access token cannot be checked now"
		challenge = ""
		// Spread, so that those who were refused together do not return so.
		w.Header().Set("Retry-After", strconv.Itoa(1+rand.IntN(3)))
	}
	if challenge != "" {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	w.Header().Set("Cache-Control", "no-store")
	if v.cfg.ErrorHandler != nil {
		v.cfg.ErrorHandler(w, r, status, err)
		return
	}
	http.Error(w, text, status)
}
