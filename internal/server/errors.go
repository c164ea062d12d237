package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// wireError is the one map from what we know to what we tell. Everything that
// a request check finds is 400; the other statuses are for requests that were
// not checked, for faults of ours, and for a failed Authorization header.
func (s *Server) wireError(x *exchange, err error) (status int, told *oauth.Error) {
	var refused *grant.Refused
	switch {
	case errors.As(err, &told):
	case errors.As(err, &refused):
		told = s.wireRefusal(x, refused.Why)
	case errors.Is(err, issuer.ErrClient):
		told = oauth.ErrClient
	case errors.As(err, new(*overload.TooMany)):
		told = oauth.ErrTooManyRequests
	case errors.Is(err, overload.ErrShed), errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrBusy):
		told = oauth.ErrUnavailable
	default:
		told = oauth.ErrInternal
	}
	switch told {
	case oauth.ErrMethod, oauth.ErrNotGet:
		return http.StatusMethodNotAllowed, told
	case oauth.ErrNotFound:
		return http.StatusNotFound, told
	case oauth.ErrTooLarge:
		return http.StatusRequestEntityTooLarge, told
	case oauth.ErrIncompleteBody:
		return http.StatusRequestTimeout, told
	case oauth.ErrTooManyRequests:
		return http.StatusTooManyRequests, told
	case oauth.ErrUnavailable:
		return http.StatusServiceUnavailable, told
	case oauth.ErrInternal:
		return http.StatusInternalServerError, told
	case oauth.ErrNoBearer, oauth.ErrInvalidToken:
		return http.StatusUnauthorized, told
	case oauth.ErrInsufficientScope:
		return http.StatusForbidden, told
	case oauth.ErrClient:
		if x.header {
			return s.opt.BasicAuthStatus, told
		}
	}
	return http.StatusBadRequest, told
}

// wireRefusal tells a client one thing about its grant, whatever is wrong
// with it: send the user to log in again.
func (s *Server) wireRefusal(x *exchange, why grant.Refusal) *oauth.Error {
	switch why {
	case grant.StoreBehind:
		return oauth.ErrUnavailable
	case grant.ScopeTooWide:
		return oauth.ErrScope
	case grant.TokenUnknown:
		if s.opt.InvalidRequestForDeadRefresh && x.grantType == store.GrantRefreshToken {
			return oauth.ErrDeadRefreshToken
		}
	}
	return oauth.ErrGrant
}

// retryAfter is the header of that name, for 429 and 503. The latter's is spread,
// so that those who were refused together do not return so.
func retryAfter(status int, err error) string {
	var early *overload.TooMany
	switch {
	case status == http.StatusTooManyRequests && errors.As(err, &early):
		return inSeconds(early.Wait)
	case status == http.StatusTooManyRequests:
		return "60" // a minute restores the limits of failures
	case errors.Is(err, overload.ErrShed):
		return strconv.Itoa(1 + rand.IntN(shedSpread))
	}
	return strconv.Itoa(1 + rand.IntN(3))
}

// shedSpread is the longest Retry-After of a request that was turned away, in
// seconds: those who were turned away together come back at different times.
const shedSpread = 8

// inSeconds is a wait as Retry-After says it: never less, so that who waits so
// long is let in.
func inSeconds(wait time.Duration) string { return strconv.Itoa(int(math.Ceil(wait.Seconds()))) }

// errorAnswer is the answer for err, with the headers that its kind needs.
func (s *Server) errorAnswer(h http.Header, x *exchange, err error) answer {
	status, told := s.wireError(x, err)
	a := answer{status: status}
	switch status {
	case http.StatusUnauthorized:
		// RFC 6749 section 5.2: the challenge matches the scheme used.
		h["Www-Authenticate"] = []string{cmp.Or(x.challenge, `Basic realm="`+s.issuer.Realm+`", charset="UTF-8"`)}
	case http.StatusForbidden:
		h["Www-Authenticate"] = []string{x.challenge}
	case http.StatusBadRequest:
		if told == oauth.ErrBearer {
			h["Www-Authenticate"] = []string{x.challenge} // RFC 6750 section 3
		}
	case http.StatusMethodNotAllowed:
		h["Allow"] = []string{x.allow}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h["Retry-After"] = []string{retryAfter(status, err)}
	case http.StatusRequestEntityTooLarge, http.StatusRequestTimeout:
		h["Connection"] = headerClose
	}
	if told.Code == "" {
		a.header = http.Header{"Content-Type": nil}
		return a
	}
	a.body, _ = json.Marshal(struct {
		Error       oauth.ErrorCode `json:"error"`
		Description string          `json:"error_description"`
		State       string          `json:"state,omitempty"`
	}{told.Code, told.Description, x.state})
	return a
}
