package login

import (
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

var (
	// ErrInteraction means that there is no such interaction in this browser.
	ErrInteraction = errors.New("no such interaction")
	// ErrExpired means that the user took too long.
	ErrExpired = errors.New("interaction expired")
	// ErrAnswered means that the client has its answer, another one or too
	// long ago for the same to be given again.
	ErrAnswered = errors.New("interaction answered before")
	// ErrSwitched means that another user has signed in since.
	ErrSwitched = errors.New("another user is signed in")
	// ErrMoved means that the interaction was begun again, as another one.
	ErrMoved = errors.New("interaction begun again")
	// ErrStep means that a form belongs to another step than the present one.
	ErrStep = errors.New("form of another step")
	// ErrSignedOut means that a session has ended: the user has to sign in
	// again.
	ErrSignedOut = errors.New("session ended")
	// ErrClientChanged means that the client, or its redirect URI, has gone
	// since the interaction began.
	ErrClientChanged = errors.New("client changed")
	// ErrSignInFirst means that a client is looked up only for a browser that is signed
	// in: an unauthenticated visitor cannot make this server send requests.
	ErrSignInFirst = errors.New("client is looked up for signed-in users only")
	// ErrDescription means that a client's description of itself cannot be read, or
	// not now.
	ErrDescription = errors.New("description of the client cannot be read")
	// ErrSubject means that nobody may sign in by a name: it is the id of a client.
	ErrSubject = errors.New("subject refused")
	// ErrCrowded means that too many interactions are under way.
	ErrCrowded = errors.New("too many interactions")
	// ErrRecords means that the user has agreed to too many clients that registered
	// themselves.
	ErrRecords = errors.New("too many records of clients by one user")
	// ErrLimited means that this visitor may begin no interaction now.
	ErrLimited = errors.New("too many interactions of one address")
)

// A ClientError is an error that is sent to the client, at a redirect URI that
// is its own. If SignedIn is not set, nobody is known to sit at the browser
// (RFC 9700 section 4.11.2).
type ClientError struct {
	Public   *oauth.Error
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
		return e.Public.Error() + ": " + e.Cause.Error()
	case e.scope != "":
		return oauth.Sent(e.Public, e.scope).Error()
	}
	return e.Public.Error()
}

// Callback returns the redirect URI with the error, whose description names the request.
func (e *ClientError) Callback(requestID string) string {
	if e.Public.Code == oauth.ErrDenied.Code {
		requestID = "" // nothing went wrong, and a repeated answer is the same
	}
	return errorCallback(e.Request, e.Public, e.issuer, requestID)
}

func (e *ClientError) Unwrap() error { return e.Cause }

// faultTold returns the error that is sent to the client for a fault.
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

// errorCallback is the client's redirect URI with an error (RFC 6749 section 4.1.2.1).
func errorCallback(r oauth.AuthorizationRequest, public *oauth.Error, issuerID, requestID string) string {
	description := public.Description
	if requestID != "" {
		description += " (request " + requestID + ")"
	}
	uri := issuer.AppendQuery(r.RedirectURI, "error", string(public.Code))
	uri = issuer.AppendQuery(uri, "error_description", description)
	if r.State != nil {
		uri = issuer.AppendQuery(uri, "state", string(r.State))
	}
	return issuer.AppendQuery(uri, "iss", issuerID)
}

// describe returns the constant text of an error code that the login system has chosen.
func describe(code oauth.ErrorCode) string {
	for _, known := range refusals {
		if known.Code == code {
			return known.Description
		}
	}
	return ""
}

// refusals are the errors by which an interaction can end.
var refusals = []*oauth.Error{
	oauth.ErrDenied, oauth.ErrLoginRequired, oauth.ErrUnmet, oauth.ErrInteraction, oauth.ErrAccountSelection, oauth.ErrConsentRequired,
	oauth.ErrUnavailable, oauth.ErrInternal,
}
