package resource

import (
	"errors"
	"fmt"
)

// What can be wrong with a request. The errors of this package wrap exactly one
// of them; the rest of their text is for a log, and holds nothing of a token.
var (
	// ErrNoToken is for a request without a bearer token: 401, and a challenge
	// that names no error (RFC 6750 section 3.1).
	ErrNoToken = errors.New("no bearer token")
	// ErrInvalidRequest is for an Authorization header that is malformed, or
	// there more than once: 400, error="invalid_request".
	ErrInvalidRequest = errors.New("malformed authorization")
	// ErrInvalidToken is for a token that is not good here: forged, expired,
	// revoked, for another audience: 401, error="invalid_token".
	ErrInvalidToken = errors.New("invalid token")
	// ErrInsufficientScope is for a good token that lacks a scope: 403,
	// error="insufficient_scope".
	ErrInsufficientScope = errors.New("insufficient scope")
	// ErrUnavailable is for a token about which nothing could be found out,
	// because the authorization server did not answer, or not as it should:
	// 503 with Retry-After. It says nothing about the token, so no client is
	// sent to log in again for a fault that is not its own.
	ErrUnavailable = errors.New("token cannot be checked now")
)

func invalid(reason string) error { return fmt.Errorf("%w: %s", ErrInvalidToken, reason) }

func unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
