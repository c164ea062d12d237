package resource

import (
	"errors"
	"fmt"
)

// The defects of a request. Each error of this package wraps exactly one of them.
// The rest of its text is for a log, and contains no part of a token.
var (
	// ErrNoToken is for a request without a bearer token: 401, and a challenge
	// that names no error (RFC 6750 section 3.1).
	ErrNoToken = errors.New("no bearer token")
	// ErrInvalidRequest is for a malformed or repeated Authorization header: 400,
	// error="invalid_request".
	ErrInvalidRequest = errors.New("malformed authorization")
	// ErrInvalidToken is for a token that is forged, expired, revoked or for
	// another audience: 401, error="invalid_token".
	ErrInvalidToken = errors.New("invalid token")
	// ErrInsufficientScope is for a valid token that lacks a scope, or that Config.Actors
	// excludes: 403, error="insufficient_scope".
	ErrInsufficientScope = errors.New("insufficient scope")
	// ErrInsufficientLogin is for a valid token whose user must sign in again, as an
	// [Authentication] says: 401, error="insufficient_user_authentication" (RFC 9470).
	ErrInsufficientLogin = errors.New("insufficient user authentication")
	// ErrInvalidProof is for a DPoP proof that breaks a rule of RFC 9449 section 4.3, or
	// was used before: 401, error="invalid_dpop_proof".
	ErrInvalidProof = errors.New("invalid DPoP proof")
	// ErrUseNonce is for a DPoP proof without a current nonce, with Config.NonceKey: 401,
	// error="use_dpop_nonce", and the nonce in the header DPoP-Nonce.
	ErrUseNonce = errors.New("DPoP proof without a present nonce")
	// ErrUnavailable is for a token that cannot be verified now, because the
	// authorization server did not respond, or failed: 503 with Retry-After. The
	// token may be valid, so the client must not log in again.
	ErrUnavailable = errors.New("token cannot be checked now")
)

// Errors by Config.Actors, which a token with more scopes would cause as well.
var (
	errNoActor = fmt.Errorf("%w: token names no actor", ErrInsufficientScope)
	errActor   = fmt.Errorf("%w: token names an actor", ErrInsufficientScope)
)

// noOrigin is the reason why DPoP proofs are refused if Config.Origin is empty.
const noOrigin = "Config.Audience is no https address: set Config.Origin to that at which clients reach this API"

// errBound is the reason for a token that is bound to a key and came without a proof.
var errBound = fmt.Errorf("%w: bound to a key, and no bearer token", ErrInvalidToken)

func invalid(reason string) error { return fmt.Errorf("%w: %s", ErrInvalidToken, reason) }

func unavailable(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
