package issuer

import (
	"cmp"
	"context"
	"fmt"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
)

// Tokens is the result of a token request. The texts are secrets.
type Tokens struct {
	Scope        oauth.Scope
	ExpiresIn    int64 // seconds left of AccessToken
	RefreshToken string
	AccessToken  string
	IDToken      string // "" unless Scope has openid

	GrantID    grant.ID
	Subject    string
	Generation uint32
	Repeated   bool              // the same pair as before; see grant.Decision
	Shared     bool              // for a second holder of the token; see grant.Decision
	Format     store.TokenFormat // of the access token; "": opaque
	Bound      bool              // AccessToken is bound to a key
	Exchanged  *Exchanged        // of an exchange
	Trust      string            // by which an assertion was accepted, or ""
}

// A response computes the token response to an allowed decision about a client's grant,
// from the grant's row.
type response struct {
	iss  *Issuer
	view *directory.View
	c    *store.Client
	d    *grant.Decision
	jkt  oauth.JKT // of the request's proof
	now  grant.Instant
}

// tokens returns the pair, and the id_token beside it. It fails if this node lacks the
// row's key: the next poll of the directory reads the key.
func (r *response) tokens(nonce string, about claims.Claims) (out Tokens, err error) {
	g := &r.d.Next
	if r.mayRefresh() {
		out.RefreshToken, err = r.iss.write(r.view, r.c, Token{
			Kind: RefreshToken, Form: OfGrant, Key: g.KeyID, GrantID: g.ID, Generation: g.Generation, IssuedAt: g.RotatedAt, ExpiresAt: g.ExpiresAt,
		}, r.now)
	}
	if err == nil {
		out.AccessToken, out.Format, err = r.accessToken()
	}
	if err == nil && r.hasIDToken() {
		out.IDToken, err = r.idToken(nonce, out.AccessToken, about)
	}
	if err != nil {
		return Tokens{}, store.Unavailable(fmt.Errorf("grant %s needs key %s: %w", g.ID, g.KeyID, err))
	}
	out.Scope, out.ExpiresIn = r.d.Access.Scope, r.iss.Policy.ExpiresIn(r.d.Access, r.now)
	out.GrantID, out.Subject, out.Generation, out.Repeated, out.Shared = g.ID, g.Subject, g.Generation, r.d.Repeated, r.d.Shared
	out.Bound = r.binding().Bound()
	return out, nil
}

// mayRefresh reports whether there is a refresh token. An operator's client that is not
// registered to use one receives it nevertheless: existing clients expect the member.
func (r *response) mayRefresh() bool {
	return !r.c.SelfRegistered() || r.c.MayUse(store.GrantRefreshToken)
}

// binding returns the key that the access token is bound to. The grant of a public
// client that began without a key stays without: its refresh token is a bearer token,
// and a bound access token beside it would promise too much.
func (r *response) binding() oauth.JKT {
	if r.c.Public() {
		return r.d.Next.JKT
	}
	return r.jkt
}

// accessToken returns the access token, in the format of its APIs or
// of the client.
func (r *response) accessToken() (string, store.TokenFormat, error) {
	g, a := &r.d.Next, r.d.Access
	t := Token{
		Kind: AccessToken, Form: OfGrant, GrantID: g.ID, Generation: g.Generation, ClientID: g.ClientID, Subject: g.Subject, Scope: a.Scope,
		IssuedAt: a.IssuedAt, ExpiresAt: a.ExpiresAt, AuthorizedAt: g.AuthorizedAt, AuthTime: g.AuthTime, ACR: ClassOf(g.Facts), Claims: g.Claims, JKT: r.binding(), apis: a.APIs,
		MayAct: r.c.MayAct, Actors: g.Actors(),
	}
	format := r.c.TokenFormat
	if a.APIs != 0 {
		var ok bool
		if t.Audience, format, ok = r.iss.of(r.view, r.c).named(g.APIs, a.APIs); !ok {
			return "", "", fmt.Errorf("an API of grant %s was deleted a moment ago", g.ID)
		}
	}
	if format == store.TokenJWT {
		t.Form = JWT
		if t.Audience == nil {
			t.Audience = r.iss.of(r.view, r.c).audience()
		}
	} else {
		// A repeated response has the same bytes as long as its access token is the
		// same. Any other token is made by the key in use at its own instant.
		t.Key = g.KeyID
		if !r.d.Repeated || a.IssuedAt != g.RotatedAt {
			t.Key = r.view.Ring.Current(keys.MAC, min(a.IssuedAt, r.now))
		}
		t.scopes, _ = g.Scope.Bits(a.Scope)
	}
	text, err := r.iss.write(r.view, r.c, t, r.now)
	return text, format, err
}

// about returns the claims about the user for the id_token: those that the authorization
// request named and the client is registered for, unless the token request has narrowed
// their scope away (OpenID Connect Core section 5.5).
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
	g, issuedAt, alg, life := &r.d.Next, r.d.Access.IssuedAt, IDTokenAlg(r.c), r.c.IDTokenLifetime.Or(r.iss.IDTokenLifetime)
	body, err := openid.Token{
		Issuer: r.iss.ID, Subject: g.Subject, ClientID: g.ClientID, IssuedAt: issuedAt, ExpiresAt: issuedAt.Add(life),
		AuthTime: g.AuthTime, Nonce: nonce, AccessToken: access, AuthorizedAt: g.AuthorizedAt, Facts: g.Facts, More: about,
	}.Claims(string(alg))
	if err != nil {
		return "", err
	}
	return r.view.Ring.Sign(alg, openid.Type, body, min(issuedAt, r.now))
}

// IDTokenAlg returns the algorithm of a client's id_tokens.
func IDTokenAlg(c *store.Client) keys.Purpose { return cmp.Or(c.IDTokenAlg, keys.RS256) }
