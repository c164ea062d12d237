package resource

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
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

// RequireLogin is [Verifier.Require] for resources that need a fresh or a stronger login.
// Other tokens get 401, with a challenge that names the required login (RFC 9470). It
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
			case bound && v.cfg.Origin == "":
				err = badProof(errors.New(noOrigin))
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

// A refusal is the response for an error.
type refusal struct {
	err    error
	status int
	code   string // of the challenge; "": it names none
	text   string
}

// refusals are searched in this order. Any other error gets 503.
var refusals = []refusal{
	{ErrNoToken, http.StatusUnauthorized, "", "an access token is required"}, // RFC 6750 section 3.1: "SHOULD NOT include an error code".
	{ErrInvalidToken, http.StatusUnauthorized, "invalid_token", "the access token is not valid"},
	{ErrInvalidProof, http.StatusUnauthorized, "invalid_dpop_proof", "the DPoP proof is not valid"},
	{ErrUseNonce, http.StatusUnauthorized, "use_dpop_nonce", "the DPoP proof needs the nonce of DPoP-Nonce"},
	{ErrInsufficientLogin, http.StatusUnauthorized, "insufficient_user_authentication", "the user must sign in again"},
	{ErrInvalidRequest, http.StatusBadRequest, "invalid_request", "the Authorization header is malformed"},
	{errNoActor, http.StatusForbidden, "insufficient_scope", "the access token names no actor"},
	{errActor, http.StatusForbidden, "insufficient_scope", "the access token names an actor"},
	{ErrInsufficientScope, http.StatusForbidden, "insufficient_scope", "the access token lacks a scope"},
}

// refuse answers a request that does not pass.
func (v *Verifier) refuse(w http.ResponseWriter, r *http.Request, err error, scope string, how Authentication) {
	status, text := http.StatusServiceUnavailable, "the access token cannot be checked now"
	if i := slices.IndexFunc(refusals, func(a refusal) bool { return errors.Is(err, a.err) }); i >= 0 {
		status, text = refusals[i].status, refusals[i].text
		w.Header().Set("WWW-Authenticate", v.challenge(r, err, refusals[i], scope, how))
	} else {
		// Random, so that requests refused together do not return together.
		w.Header().Set("Retry-After", strconv.Itoa(1+rand.IntN(3)))
	}
	w.Header().Set("Cache-Control", "no-store")
	if v.cfg.ErrorHandler != nil {
		v.cfg.ErrorHandler(w, r, status, err)
		return
	}
	http.Error(w, text, status)
}

// challenge returns the challenge of a refusal.
func (v *Verifier) challenge(r *http.Request, err error, a refusal, scope string, how Authentication) string {
	text := v.scheme(r, err)
	if a.code != "" {
		text += `, error="` + a.code + `"`
	}
	if a.err == ErrInsufficientLogin {
		text += how.challenge()
	}
	// The scopes that the token lacks, or that the client should request.
	if a.err == ErrInsufficientScope || scope != "" && v.cfg.PublishMetadata && a.status == http.StatusUnauthorized {
		text += `, scope="` + scope + `"`
	}
	if v.cfg.PublishMetadata {
		text += `, resource_metadata="` + v.metadataURL() + `"` // RFC 9728 section 5.1
	}
	return text
}
