package login

import (
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A ClientError is an error that the client is to hear, at a redirect URI that
// is its own. If SignedIn is not set, nobody is known to sit at the browser
// (RFC 9700 section 4.11.2).
type ClientError struct {
	Told     *oauth.Error
	Client   *store.Client
	Request  oauth.AuthorizationRequest
	SignedIn bool
	Clicked  bool  // the user has just chosen to end it so
	Cause    error // for the log; may be nil
	issuer   string
	scope    string // that was refused, for the log
}

func (e *ClientError) Error() string {
	switch {
	case e.Cause != nil:
		return e.Told.Error() + ": " + e.Cause.Error()
	case e.scope != "":
		return oauth.Sent(e.Told, e.scope).Error()
	}
	return e.Told.Error()
}

// Callback returns the redirect URI with the error, whose description names the request.
func (e *ClientError) Callback(requestID string) string {
	if e.Told.Code == oauth.ErrDenied.Code {
		requestID = "" // nothing went wrong, and a repeated answer is the same
	}
	return errorCallback(e.Request, e.Told, e.issuer, requestID)
}

func (e *ClientError) Unwrap() error { return e.Cause }

// faultTold is what a client hears of a fault.
func faultTold(err error) *oauth.Error {
	var invalid *oauth.Invalid
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return oauth.ErrUnavailable
	case errors.As(err, &invalid) && invalid.Field == "scope":
		return oauth.ErrScope
	case errors.As(err, &invalid) && invalid.Field == "resource":
		return oauth.ErrTarget
	}
	return oauth.ErrInternal
}

func unavailable(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}
