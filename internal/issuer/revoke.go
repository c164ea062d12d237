package issuer

import (
	"context"
	"errors"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Revoke revokes a token of the client (RFC 7009): for a refresh token its grant, for
// an access token all access tokens of the grant so far. An unknown or expired token is
// no error; for a token of another client, the error is a *grant.Refused. When Revoke
// returns nil, the revocation is durable. The Token is zero unless text is authentic.
func (iss *Issuer) Revoke(ctx context.Context, c *store.Client, text string, from grant.Origin) (Token, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return Token{}, store.Unavailable(err)
	}
	if strings.HasPrefix(text, keys.CodePrefix) {
		return Token{}, oauth.ErrTokenType // it expires within a minute
	}
	t, view, err := iss.open(ctx, view, text, kindOf(text))
	var unknown *grant.Refused
	switch {
	case errors.As(err, &unknown):
		return Token{}, nil
	case err != nil:
		return Token{}, err
	case t.IsService(), t.Exchanged():
		return t, services{iss}.revoke(ctx, view, c, t)
	}
	presented, refresh := iss.presented(view, t, c.ID), t.Kind == RefreshToken
	d, now, err := iss.update(ctx, t.GrantID, evidence{act: "revoked by its client", from: from}, func(g grant.Grant, now grant.Instant) grant.Decision {
		if refresh {
			return g.RevokeRefresh(presented)
		}
		return g.RevokeAccess(presented, iss.longest(view), now)
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		why := presented.Unrecorded(iss.longest(view), now)
		if refresh {
			why = iss.presents(view, c, t).Unrecorded(iss.Policy, now)
		}
		if why == grant.StoreBehind {
			return t, &grant.Refused{Why: why, GrantID: t.GrantID}
		}
		return t, nil
	case err != nil:
		return t, err
	case d.Refusal != grant.Allowed:
		return t, &grant.Refused{Why: d.Refusal, GrantID: t.GrantID}
	}
	return t, nil
}
