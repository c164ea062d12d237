package resource

import (
	"context"
	"slices"
	"time"
)

// A Principal holds the verified fields of a request's access token: the user and
// the client.
type Principal struct {
	// Subject is the authorization server's name of the user (sub).
	Subject string
	// ClientID is the client that holds the token (client_id).
	ClientID string
	// Scope lists the granted scopes, in the token's order.
	Scope []string
	// Audience lists the APIs that the token is for (aud). Config.Audience is
	// one of them.
	Audience []string
	// IssuedAt and ExpiresAt are the token's (iat, exp), to the second and in UTC.
	// Long work for a request should end before ExpiresAt.
	IssuedAt, ExpiresAt time.Time
	// AuthTime is when the user signed in (auth_time), to the second; zero if the server does
	// not report it, and for a client's own tokens.
	AuthTime time.Time
	// ACR is how the user signed in (acr), if the client has asked for a class of login
	// (RFC 9470), or "".
	ACR string
	// TokenID identifies the token (jti). Log it in place of the token: it does not work as a
	// token. A safe retry of a refresh returns the same one.
	TokenID string
	// KeyThumbprint names the client's key to which the token is bound (cnf.jkt, RFC
	// 9449), or is "" for a bearer token.
	KeyThumbprint string
	// Actors lists the parties that act for the user (act, RFC 8693 section 4.1), the current
	// one first. It is empty if the client that the user authorized uses the token itself.
	// Decide access only by the first one: the others have passed the request on.
	Actors []Actor
}

// An Actor is a party that acts for the user of a token.
type Actor struct {
	// Issuer is the authorization server that identifies the actor, if it is not the issuer
	// of the token, or "".
	Issuer string
	// Subject is the id of a client or, with an Issuer, what that issuer calls the actor.
	Subject string
}

// Actor returns the party that acts for the user now, and whether there is one.
func (p Principal) Actor() (Actor, bool) {
	if len(p.Actors) == 0 {
		return Actor{}, false
	}
	return p.Actors[0], true
}

// HasScope reports whether the token was granted every one of these scopes.
func (p Principal) HasScope(scopes ...string) bool {
	for _, s := range scopes {
		if !slices.Contains(p.Scope, s) {
			return false
		}
	}
	return true
}

type principalKey struct{}

// FromContext returns the principal that [Verifier.Require] has put into a request's
// context. It reports false without that middleware.
func FromContext(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}

// NewContext returns ctx with a principal. It is for your own middleware around
// [Verifier.Verify], and for tests of handlers.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}
