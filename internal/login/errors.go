package login

import (
	"errors"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

var (
	// ErrInteraction means that there is no such interaction in this browser.
	ErrInteraction = errors.New("no such interaction")
	// ErrExpired means that the user took too long.
	ErrExpired = errors.New("interaction expired")
	// ErrAnswered means that the client already has its answer: a different one, or
	// one that cannot be repeated any more.
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
	// ErrDescription means that a client's description of itself cannot be read, or
	// not now.
	ErrDescription = errors.New("description of the client cannot be read")
	// ErrSubject means that a login was refused because its subject is a client's id.
	ErrSubject = errors.New("subject refused")
	// ErrCrowded means that too many interactions are under way.
	ErrCrowded = errors.New("too many interactions")
	// ErrRecords means that the user has agreed to too many clients that registered
	// themselves.
	ErrRecords = errors.New("too many records of clients by one user")
	// ErrLimited means that this visitor may begin no interaction now.
	ErrLimited = errors.New("too many interactions of one address")
)

// publicError returns the error that is sent to the client for a fault.
func publicError(err error) *oauth.Error {
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
