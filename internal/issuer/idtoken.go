package issuer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// about returns the claims about the user that the id_token has: those
// that the request named and the client is registered for, unless their scope was
// narrowed away (OpenID Connect Core section 5.5).
func (r *response) about(ctx context.Context) (claims.Claims, error) {
	g := &r.d.Next
	if g.InIDToken == 0 || r.iss.Claims == nil || !r.hasIDToken() {
		return nil, nil
	}
	set := claims.Set(g.InIDToken) & claims.Of(r.c.Scope) &^ (claims.Of(g.Scope) &^ claims.Of(r.d.Access.Scope))
	known, err := r.iss.Claims(ctx, g.Subject)
	if err != nil {
		return nil, store.Unavailable(err)
	}
	return known.Select(set), nil
}

// hasIDToken reports whether there is an id_token.
func (r *response) hasIDToken() bool {
	return r.iss.speaksOpenID(r.d.Access.Scope) && (r.d.Next.Generation == 1 || !r.c.NoRefreshIDToken)
}

// idToken returns the id_token (OpenID Connect Core section 3.1.3.3;
// section 12.2 for a refresh). It is a function of the row, the registration, the
// access token beside it and what is known about the user, signed by the key of its
// instant of issue: a repeated answer has the same id_token, as long as these are
// the same.
func (r *response) idToken(nonce, access string, about claims.Claims) (string, error) {
	g, issuedAt, alg, life := &r.d.Next, r.d.Access.IssuedAt, IDTokenAlg(r.c), r.iss.IDTokenLifetime
	if r.c.IDTokenLifetime != nil {
		life = r.c.IDTokenLifetime.Duration()
	}
	body, err := openid.Token{
		Issuer: r.iss.ID, Subject: g.Subject, ClientID: g.ClientID, IssuedAt: issuedAt, ExpiresAt: issuedAt.Add(life),
		AuthTime: g.AuthTime, Nonce: nonce, AccessToken: access, Facts: g.Facts, More: about,
	}.Claims(string(alg))
	if err != nil {
		return "", err
	}
	return r.view.Ring.Sign(alg, openid.Type, body, min(issuedAt, r.now))
}

// IDTokenAlg returns the algorithm of a client's id_tokens.
func IDTokenAlg(c *store.Client) keys.Purpose { return cmp.Or(c.IDTokenAlg, keys.RS256) }

// Logout returns a new logout token for a client (OpenID Connect Back-Channel
// Logout 1.0 section 2.4), signed as its id_tokens are. Without a sid, it says that
// all sessions of the subject have ended.
func (iss Signer) Logout(c *store.Client, subject, sid string) (string, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return "", store.Unavailable(err)
	}
	now := iss.now()
	claims, err := openid.LogoutToken{
		Issuer: iss.ID, Subject: subject, ClientID: c.ID, SessionID: sid, IssuedAt: now, ID: rand.Text(),
	}.Claims()
	if err != nil {
		return "", err
	}
	return view.Ring.Sign(IDTokenAlg(c), openid.LogoutType, claims, now)
}

// UserInfo returns claims about a user as a JWT for a client (OpenID Connect
// Core section 5.3.2), or "" if the client is registered for JSON. It is no
// id_token: without iat and exp, neither clients nor Hint take it for one.
func (iss Signer) UserInfo(ctx context.Context, clientID string, about claims.Claims) (string, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return "", store.Unavailable(err)
	}
	c, err := iss.present(ctx, view, clientID)
	if err != nil {
		return "", err
	}
	if c.UserInfoAlg == "" || c.UserInfoAlg == "none" {
		return "", nil
	}
	signed := maps.Clone(about)
	for name, text := range map[string]string{"iss": iss.ID, "aud": clientID} {
		if signed[name], err = json.Marshal(text); err != nil {
			return "", err
		}
	}
	body, err := json.Marshal(signed)
	if err != nil {
		return "", err
	}
	text, err := view.Ring.Sign(c.UserInfoAlg, openid.Type, body, iss.now())
	if err != nil {
		return "", store.Unavailable(err)
	}
	return text, nil
}

// Hint reads an id_token_hint (OpenID Connect Core section 3.1.2.1): an id_token
// of this issuer, expired or not, whose key was in use when it was issued. Every
// other text is openid.ErrHint. The caller compares the client.
func (iss *Issuer) Hint(text string) (openid.Hint, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return openid.Hint{}, store.Unavailable(err)
	}
	typ, payload, key, err := view.Ring.Verify(text)
	if err != nil {
		return openid.Hint{}, openid.ErrHint
	}
	h, err := openid.ReadHint(typ, payload, iss.ID)
	m := view.Ring.Maker(key)
	if err != nil || !m.Signed(h.IssuedAt, iss.Policy) || m.Until != 0 && iss.now() > m.Until.Add(iss.HintAge) {
		return openid.Hint{}, openid.ErrHint
	}
	return h, nil
}
