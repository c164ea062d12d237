package resource

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Require returns middleware that passes a request if its access token is valid and
// has all of scopes. Without scopes, every valid token passes. Handlers get the
// subject and the client with [FromContext].
//
// The token is read from the Authorization header only (RFC 6750 section 2.1): URLs
// and bodies end up in logs. Other requests do not reach the handler. The response
// follows RFC 6750 section 3: 401 without a token or with an invalid one, 403 for a
// missing scope, 400 for a malformed header, 503 if the token cannot be verified
// now. It contains no part of the token.
//
// Put middleware for cross-origin requests outside of it, because preflights have
// no token. Require panics if RFC 6749 section 3.3 does not allow a scope.
func (v *Verifier) Require(scopes ...string) func(http.Handler) http.Handler {
	return v.RequireLogin(Authentication{}, scopes...)
}

// RequireLogin is [Verifier.Require] for what needs a fresh or a stronger login: others
// get 401, and what the client must ask the authorization server for (RFC 9470). It
// panics if how cannot be in a challenge.
func (v *Verifier) RequireLogin(how Authentication, scopes ...string) func(http.Handler) http.Handler {
	if err := how.valid(); err != nil {
		panic("resource: " + err.Error())
	}
	for _, s := range scopes {
		if s == "" || !quotable(s) || strings.Contains(s, " ") {
			panic(fmt.Sprintf("resource: %q is not a scope", s))
		}
	}
	wanted := strings.Join(scopes, " ")
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			token, bound, err := presentedToken(r.Header)
			var p Principal
			switch {
			case err != nil:
			case bound:
				p, err = v.VerifyBound(r.Context(), token, v.proofOf(r), scopes...)
			default:
				p, err = v.Verify(r.Context(), token, scopes...)
			}
			if err == nil {
				err = how.Check(p, time.Now())
			}
			if v.nonces != nil && bound {
				w.Header().Set("DPoP-Nonce", v.nonces.At(time.Now()))
			}
			if err != nil {
				v.refuse(w, r, err, wanted, how)
				return
			}
			next.ServeHTTP(w, r.WithContext(NewContext(r.Context(), p)))
		})
	}
}

// presentedToken returns the token of a request, and whether it came by the scheme DPoP.
// It refuses an ambiguous header, which another parser could read differently.
func presentedToken(h http.Header) (token string, bound bool, err error) {
	all := h["Authorization"]
	if len(all) > 1 {
		return "", false, fmt.Errorf("%w: %d Authorization headers", ErrInvalidRequest, len(all))
	}
	if len(all) == 0 {
		return "", false, ErrNoToken
	}
	// RFC 9110 section 11.1: the scheme is case-insensitive.
	scheme, rest, _ := strings.Cut(all[0], " ")
	bound = strings.EqualFold(scheme, "DPoP")
	if !bound && !strings.EqualFold(scheme, "Bearer") {
		return "", false, ErrNoToken
	}
	if token = strings.TrimLeft(rest, " "); !isToken(token) {
		return "", bound, fmt.Errorf("%w: not one token after the scheme", ErrInvalidRequest)
	}
	return token, bound, nil
}

// refuse answers a request that does not pass.
func (v *Verifier) refuse(w http.ResponseWriter, r *http.Request, err error, scope string, how Authentication) {
	challenge := v.scheme(r, err)
	var status int
	var text string
	switch {
	case errors.Is(err, ErrNoToken):
		// RFC 6750 section 3.1: "SHOULD NOT include an error code".
		status, text = http.StatusUnauthorized, "an access token is required"
	case errors.Is(err, ErrInvalidToken):
		status, text = http.StatusUnauthorized, "the access token is not valid"
		challenge += `, error="invalid_token"`
	case errors.Is(err, ErrInvalidProof):
		status, text = http.StatusUnauthorized, "the DPoP proof is not valid"
		challenge += `, error="invalid_dpop_proof"`
	case errors.Is(err, ErrUseNonce):
		status, text = http.StatusUnauthorized, "the DPoP proof needs the nonce of DPoP-Nonce"
		challenge += `, error="use_dpop_nonce"`
	case errors.Is(err, ErrInsufficientLogin):
		status, text = http.StatusUnauthorized, "the user must sign in again"
		challenge += `, error="insufficient_user_authentication"` + how.challenge()
	case errors.Is(err, ErrInvalidRequest):
		status, text = http.StatusBadRequest, "the Authorization header is malformed"
		challenge += `, error="invalid_request"`
	case errors.Is(err, errNoActor):
		status, text = http.StatusForbidden, "the access token names no actor"
		challenge += `, error="insufficient_scope"`
	case errors.Is(err, errActor):
		status, text = http.StatusForbidden, "the access token names an actor"
		challenge += `, error="insufficient_scope"`
	case errors.Is(err, ErrInsufficientScope):
		status, text = http.StatusForbidden, "the access token lacks a scope"
		challenge += `, error="insufficient_scope", scope="` + scope + `"`
	default:
		status, text = http.StatusServiceUnavailable, "the access token cannot be checked now"
		challenge = ""
		// Random, so that requests refused together do not return together.
		w.Header().Set("Retry-After", strconv.Itoa(1+rand.IntN(3)))
	}
	if challenge != "" && v.cfg.PublishMetadata {
		if scope != "" && status == http.StatusUnauthorized {
			challenge += `, scope="` + scope + `"` // what to ask for
		}
		challenge += `, resource_metadata="` + v.metadataURL() + `"` // RFC 9728 section 5.1
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
