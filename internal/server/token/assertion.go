package token

import (
	"context"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// assert accepts an assertion of another issuer as a grant (RFC 7523 section 2.1).
func (e *Endpoints) assert(ctx context.Context, c *store.Client, p oauth.Params, from grant.Origin) (issuer.Tokens, error) {
	a, err := e.Assertions.Assertion(ctx, c.ID, true, oauth.Secret(p["assertion"]))
	switch {
	case err != nil:
		return issuer.Tokens{}, err
	case a.Trust.Kind == store.TrustIDJAG && c.Public() && p["client_assertion"] == "":
		return issuer.Tokens{}, oauth.ErrClientGrantType // the draft requires an authenticated client
	}
	return issuer.Assertions{Issuer: e.Issuer}.AssertionToken(ctx, c, issuer.AssertionRequest{
		Trust: a.Trust, ID: a.ID, Subject: a.Subject, Named: a.Scope, NamesAny: a.Scoped, Resources: a.Resources,
		IssuedAt: a.IssuedAt, ExpiresAt: a.ExpiresAt, AuthTime: a.AuthTime, Actors: a.Actors, Bound: a.JKT, Digest: a.Digest,
		Scope: p["scope"], Resource: p["resource"], JKT: from.JKT,
	})
}
