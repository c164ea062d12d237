package resource

import (
	"context"
	"slices"
	"time"
)

// A Principal is on whose behalf, and through which client, a request is made:
// what a verified access token says.
type Principal struct {
	// Subject is the user who has agreed (sub), as the authorization server
	// names them.
	Subject string
	// ClientID is the client that holds the token (client_id).
	ClientID string
	// Scope lists what the user has agreed to, in the token's order.
	Scope []string
	// Audience lists the APIs that the token is for (aud). Config.Audience is
	// one of them.
	Audience []string
	// IssuedAt and ExpiresAt are the token's (iat, exp), to the second and in
	// UTC. Long work for a request should not outlive ExpiresAt.
	IssuedAt, ExpiresAt time.Time
	// TokenID names the token (jti) without being of any use to a thief: it is
	// what an audit log should hold. Safe retries of a refresh repeat it.
	TokenID string
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

// clone keeps callers, who may change what they are given, out of the cache.
func (p Principal) clone() Principal {
	p.Scope = slices.Clone(p.Scope)
	p.Audience = slices.Clone(p.Audience)
	return p
}

type principalKey struct{}

// FromContext is the principal that [Verifier.Require] has put into a request's
// context. It reports false behind no such middleware.
func FromContext(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}

// NewContext is ctx with a principal, for middleware of your own around
// [Verifier.Verify], and for tests of handlers.
func NewContext(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}
