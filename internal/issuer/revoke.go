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
// an access token all access tokens of the grant so far. An unknown or expired
// token is no error; that of another client is Refused. When Revoke returns nil,
// the revocation is durable.
func (iss *Issuer) Revoke(ctx context.Context, c *store.Client, text string, from grant.Origin) (grant.ID, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return grant.ID{}, store.Unavailable(err)
	}
	if strings.HasPrefix(text, keys.CodePrefix) {
		return grant.ID{}, oauth.ErrTokenType // it expires within a minute
	}
	switch fresh, err := iss.Directory.Learn(ctx, view, text); {
	case err != nil:
		return grant.ID{}, store.Unavailable(err)
	case fresh != nil:
		view = fresh
	}
	refresh := strings.HasPrefix(text, keys.RefreshPrefix)
	var tok keys.Token
	if refresh {
		tok, err = view.Ring.OpenRefresh(iss.Realm, text)
	} else {
		var a accessToken
		if a, err = iss.openAccess(view, text); err == nil {
			if s := a.service(); s != nil {
				return s.ID, iss.revokeService(ctx, view, c, *s)
			}
		}
		tok = a.Token
	}
	if err != nil {
		return grant.ID{}, nil
	}
	presented := grant.Presented{
		Realm: iss.Realm, ClientID: c.ID, Generation: tok.Generation, IssuedAt: tok.IssuedAt, ExpiresAt: tok.ExpiresAt,
		Maker: view.Ring.Maker(tok.Key), Restore: view.Restore(),
	}
	d, now, err := iss.update(ctx, tok.GrantID, evidence{act: "revoked by its client", from: from}, func(g grant.Grant, now grant.Instant) grant.Decision {
		if refresh {
			return g.RevokeRefresh(presented)
		}
		return g.RevokeAccess(presented, iss.longest(view), now)
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		why := presented.Unrecorded(iss.longest(view), now)
		if refresh {
			why = iss.presents(view, c, tok).Unrecorded(iss.Policy, now)
		}
		if why == grant.StoreBehind {
			return tok.GrantID, &grant.Refused{Why: why, GrantID: tok.GrantID}
		}
		return tok.GrantID, nil
	case err != nil:
		return tok.GrantID, err
	case d.Refusal != grant.Allowed:
		return tok.GrantID, &grant.Refused{Why: d.Refusal, GrantID: tok.GrantID}
	}
	return tok.GrantID, nil
}
