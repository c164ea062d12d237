package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/dpop"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// wireError maps an error to the status and the OAuth error of the answer. The status is
// that of statusOf, except for some failed client authentications.
func (s *Server) wireError(r *Request, err error) (status int, wire *oauth.Error) {
	var refused *grant.Refused
	switch {
	case errors.As(err, &wire):
	case errors.As(err, &refused):
		wire = refusal(refused.Why)
	case errors.Is(err, client.ErrClient):
		wire = oauth.ErrClient
	case errors.As(err, new(*overload.TooMany)):
		wire = oauth.ErrTooManyRequests
	case errors.Is(err, overload.ErrShed), errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrBusy):
		wire = oauth.ErrUnavailable
	default:
		wire = oauth.ErrInternal
	}
	// Self-registered clients register again only after a 401.
	if wire == oauth.ErrClient && errors.Is(err, client.ErrUnregistered) {
		return http.StatusUnauthorized, wire
	}
	if wire == oauth.ErrClient && len(r.Header["Authorization"]) > 0 {
		return s.BasicAuthStatus, wire
	}
	return statusOf(wire), wire
}

// statuses maps the errors whose status is not 400.
var statuses = map[*oauth.Error]int{
	oauth.ErrMethod:            http.StatusMethodNotAllowed,
	oauth.ErrNotGet:            http.StatusMethodNotAllowed,
	oauth.ErrNotGetOrPost:      http.StatusMethodNotAllowed,
	oauth.ErrNotFound:          http.StatusNotFound,
	oauth.ErrTooLarge:          http.StatusRequestEntityTooLarge,
	oauth.ErrIncompleteBody:    http.StatusRequestTimeout,
	oauth.ErrTooManyRequests:   http.StatusTooManyRequests,
	oauth.ErrUnavailable:       http.StatusServiceUnavailable,
	oauth.ErrInternal:          http.StatusInternalServerError,
	oauth.ErrNoBearer:          http.StatusUnauthorized,
	oauth.ErrInvalidToken:      http.StatusUnauthorized,
	oauth.ErrTokenProof:        http.StatusUnauthorized,
	oauth.ErrTokenNonce:        http.StatusUnauthorized,
	oauth.ErrInsufficientLogin: http.StatusUnauthorized,
	oauth.ErrInsufficientScope: http.StatusForbidden,
	oauth.ErrNoActor:           http.StatusForbidden,
	oauth.ErrActor:             http.StatusForbidden,
}

func statusOf(wire *oauth.Error) int { return cmp.Or(statuses[wire], http.StatusBadRequest) }

// refusal returns the error for a refused grant. Most reasons share ErrGrant, because
// the remedy is the same: the client sends the user to log in again.
func refusal(why grant.Refusal) *oauth.Error {
	switch why {
	case grant.StoreBehind:
		return oauth.ErrUnavailable
	case grant.ScopeTooWide:
		return oauth.ErrScope
	case grant.TargetUnknown:
		return oauth.ErrTarget
	}
	return oauth.ErrGrant
}

// Refusal returns the status and the error code of the answer about a refused grant.
func Refusal(why grant.Refusal) (status int, code oauth.ErrorCode) {
	wire := refusal(why)
	return statusOf(wire), wire.Code
}

// MissingScope is the error of an access token that lacks a scope.
type MissingScope struct{ Scope oauth.Scope }

func (e *MissingScope) Error() string { return oauth.ErrInsufficientScope.Error() }
func (e *MissingScope) Unwrap() error { return oauth.ErrInsufficientScope }

// A WeakLogin is the error of an access token whose user must sign in again (RFC 9470
// section 3). Its fields are parameters of the challenge.
type WeakLogin struct{ ACRValues, MaxAge string }

func (e *WeakLogin) Error() string { return oauth.ErrInsufficientLogin.Error() }
func (e *WeakLogin) Unwrap() error { return oauth.ErrInsufficientLogin }

// challenge returns the WWW-Authenticate header of the Bearer scheme (RFC 6750 section
// 3), or of DPoP (RFC 9449 section 7.1). Scopes need no escaping: they contain no quote
// and no backslash.
func (s *Server) challenge(r *Request, wire *oauth.Error, err error) string {
	c := `Bearer realm="` + s.Realm + `"`
	if r.dpop {
		c = `DPoP realm="` + s.Realm + `", algs="` + strings.Join(dpop.Algorithms, " ") + `"`
	}
	if wire.Code != "" {
		c += `, error="` + string(wire.Code) + `", error_description="` + wire.Description + `"`
	}
	if missing, ok := errors.AsType[*MissingScope](err); ok && missing.Scope != "" {
		c += `, scope="` + string(missing.Scope) + `"`
	}
	var weak *WeakLogin
	if errors.As(err, &weak) && weak.ACRValues != "" {
		c += `, acr_values="` + weak.ACRValues + `"`
	}
	if weak != nil && weak.MaxAge != "" {
		c += `, max_age="` + weak.MaxAge + `"`
	}
	return c
}

// retryAfter returns Retry-After for 429 and 503. For 503 it is random within a range, so
// that the clients that were refused together do not return together.
func retryAfter(status int, err error) string {
	var early *overload.TooMany
	switch {
	case status == http.StatusTooManyRequests && errors.As(err, &early):
		return InSeconds(early.Wait)
	case status == http.StatusTooManyRequests:
		return "60" // the limits of failures are per minute
	case errors.Is(err, overload.ErrShed):
		return strconv.Itoa(1 + rand.IntN(shedSpread))
	}
	return strconv.Itoa(1 + rand.IntN(3))
}

// shedSpread is the longest Retry-After of a request that was shed, in
// seconds: requests that were shed together come back at different times.
const shedSpread = 8

// InSeconds returns a wait in the form of Retry-After. It rounds up, so that the limit
// allows a request after that time.
func InSeconds(wait time.Duration) string { return strconv.Itoa(int(math.Ceil(wait.Seconds()))) }

// aboutTokens are the errors about access tokens: their answers contain a challenge on
// every route.
var aboutTokens = []*oauth.Error{oauth.ErrNoBearer, oauth.ErrInvalidToken, oauth.ErrInsufficientScope, oauth.ErrInsufficientLogin,
	oauth.ErrNoActor, oauth.ErrActor, oauth.ErrBearer, oauth.ErrTwoTokens, oauth.ErrTokenProof, oauth.ErrTokenNonce}

// oauthError returns the JSON answer about an error (RFC 6749 section 5.2), and sets the
// headers that its status requires.
func (s *Server) oauthError(h http.Header, r *Request, _ Report, err error) Answer {
	status, wire := s.wireError(r, err)
	switch {
	case r.Route.Protected && status == http.StatusBadRequest, slices.Contains(aboutTokens, wire):
		h["Www-Authenticate"] = []string{s.challenge(r, wire, err) + r.Challenge}
	}
	a := Answer{Status: status}
	switch status {
	case http.StatusUnauthorized:
		switch { // RFC 6749 section 5.2: the challenge matches the scheme used.
		case wire != oauth.ErrClient:
		case r.bearer:
			h["Www-Authenticate"] = []string{s.challenge(r, oauth.ErrInvalidToken, nil)} // RFC 7662 section 2.3
		default:
			h["Www-Authenticate"] = []string{`Basic realm="` + s.Realm + `", charset="UTF-8"`}
		}
	default:
		StatusHeaders(h, r, status, err)
	}
	if wire.Code == "" {
		a.Header = http.Header{"Content-Type": nil}
		return a
	}
	a.Body, _ = json.Marshal(struct {
		Error       oauth.ErrorCode `json:"error"`
		Description string          `json:"error_description"`
		State       string          `json:"state,omitempty"`
	}{wire.Code, wire.Description, r.state})
	return a
}

// StatusHeaders sets the headers that the status of an error requires.
func StatusHeaders(h http.Header, r *Request, status int, err error) {
	switch status {
	case http.StatusMethodNotAllowed:
		h["Allow"] = []string{r.Route.allow}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h["Retry-After"] = []string{retryAfter(status, err)}
	case http.StatusRequestEntityTooLarge, http.StatusRequestTimeout:
		h["Connection"] = headerClose
	}
}
