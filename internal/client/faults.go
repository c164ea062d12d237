package client

import (
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/oauth"
)

// ErrClient is the one error for a client that does not exist, is disabled or
// belongs to another realm, and for a wrong credential or method. The errors of
// Authenticate that are ErrClient are also AuthFaults.
var ErrClient = errors.New("client authentication failed")

// An AuthFault is why a client was not authenticated: an ErrClient with details for
// operators. The response to the client contains none of them.
type AuthFault string

const (
	UnknownClient  AuthFault = "unknown_client"  // or one of another realm
	ClientInactive AuthFault = "client_disabled" // or deleted
	WrongMethod    AuthFault = "wrong_method"    // not the one that it is registered for
	WrongSecret    AuthFault = "wrong_secret"
	ExpiredSecret  AuthFault = "expired_secret" // the right one, too late
	WrongAssertion AuthFault = "wrong_assertion"
)

// ErrUnregistered is the UnknownClient for an id in the form of a sealed registration.
var ErrUnregistered = fmt.Errorf("%w: its sealed id is not authentic, or no user has agreed to it", UnknownClient)

func (f AuthFault) Error() string { return ErrClient.Error() + ": " + string(f) }

// Is makes every AuthFault an ErrClient.
func (f AuthFault) Is(target error) bool { return target == ErrClient }

// An AssertionFault is WrongAssertion with the claim or the member of the header that
// failed. It repeats at most one value of the assertion, shortened and in quotes.
type AssertionFault struct{ Claim, Why string }

func (f *AssertionFault) Error() string {
	return WrongAssertion.Error() + ": " + f.Claim + " " + f.Why
}

func (f *AssertionFault) Unwrap() error { return WrongAssertion }

func wrongClaim(claim, why string) error { return &AssertionFault{claim, why} }

// wrongClaimWithValue is wrongClaim with the value, for the log.
func wrongClaimWithValue(value, claim, why string) error {
	return wrongClaim(claim, why+": it is "+oauth.Quoted(value))
}
