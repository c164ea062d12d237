package issuer

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A Token describes an active token.
type Token struct {
	Refresh   bool // a refresh token; otherwise an access token
	GrantID   grant.ID
	ClientID  string
	Subject   string
	Scope     oauth.Scope
	Audience  []string // never empty for an access token
	IssuedAt  grant.Instant
	ExpiresAt grant.Instant
	AuthTime  grant.Instant // when the subject was authenticated; zero if unknown
	Claims    string        // for AddClaims
	// Named are claims for userinfo beside those of Scope: the request named them.
	Named claims.Set
	// ID is the jti of RFC 9068, for tokens that are not JWTs as well.
	ID string
	// Service is set if the client got it for itself: there is no user and no grant,
	// and GrantID is the token's own.
	Service bool
	// Lifetime is that of a token for APIs; 0: the deployment's.
	Lifetime time.Duration
	// Restricted is set if the token names APIs, which are its audience.
	Restricted bool
	// ForClient is set if it is for the audience of its client's registration as well.
	ForClient bool
	// First is set if it was issued for a code, not by a refresh.
	First bool
}

// Inspect verifies an access token and reads its grant: a revocation is effective on
// every node at once. A token that is not active is *Refused; one whose grant is
// missing although it should exist is Refused as StoreBehind.
func (iss *Issuer) Inspect(ctx context.Context, text string) (Token, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return Token{}, store.Unavailable(err)
	}
	t, view, err := open(ctx, iss, view, text, (*Issuer).openAccess)
	if err != nil {
		return Token{}, err
	}
	if s := t.service(); s != nil {
		return iss.inspectService(ctx, view, *s)
	}
	now, policy := iss.now(), iss.longest(view)
	presented := grant.Presented{
		Realm: iss.Realm, Generation: t.Generation, IssuedAt: t.IssuedAt, ExpiresAt: t.ExpiresAt,
		Maker: view.Ring.Maker(t.Key), Restore: view.Restore(),
	}
	if presented.Expired(policy, now) {
		return Token{}, &grant.Refused{Why: grant.GrantExpired, GrantID: t.GrantID} // without reading the store
	}
	g, err := iss.Store.Grant(ctx, t.GrantID)
	if errors.Is(err, store.ErrNotFound) {
		return Token{}, &grant.Refused{Why: presented.Unrecorded(policy, now), GrantID: t.GrantID}
	}
	if err != nil {
		return Token{}, store.Unavailable(err)
	}
	presented.Cutoff = view.Cutoff(g.Realm, g.Subject, g.ClientID)
	why := g.Inspect(presented, policy, now)
	c, err := iss.Directory.Client(ctx, view, g.Realm, g.ClientID)
	if err != nil {
		return Token{}, err
	}
	if why == grant.Allowed && c == nil {
		why = grant.ClientDisabled
	}
	if why != grant.Allowed {
		return Token{}, &grant.Refused{Why: why, GrantID: t.GrantID}
	}
	if t.jwt && (!g.Scope.Covers(t.scope) || t.subject != g.Subject || t.clientID != g.ClientID) {
		// The signature verifies and the grant differs: this server did not sign it.
		return Token{}, &grant.Refused{Why: grant.TokenUnknown, GrantID: t.GrantID}
	}
	out := Token{
		GrantID: g.ID, ClientID: g.ClientID, Subject: g.Subject, Scope: t.scope, Audience: t.audience,
		IssuedAt: t.IssuedAt, ExpiresAt: t.ExpiresAt, AuthTime: g.AuthTime, Claims: g.Claims, First: t.Generation == 1,
	}
	standing := false
	if t.jwt {
		standing = iss.standing(view, c, g.APIs, t.audience)
	} else {
		out.Scope = g.Scope.Pick(t.Bits)
		out.Audience, _, standing = iss.named(view, c, g.APIs, t.APIs)
	}
	if !standing {
		return Token{}, &grant.Refused{Why: grant.TargetGone, GrantID: t.GrantID}
	}
	if g.APIs != (grant.APIs{}) {
		out.Restricted, out.Lifetime = true, t.ExpiresAt.Since(t.IssuedAt).Truncate(time.Second)
		out.ForClient = slices.Contains(g.APIs[:], store.ClientAudience) && out.IsFor(iss.Audience(c)...)
	}
	if g.InUserInfo != 0 {
		out.Named = claims.Set(g.InUserInfo) & claims.Of(c.Scope)
	}
	out.ID = tokenID(g.ID, t.Generation, t.IssuedAt, g.AuthorizedAt)
	return out, nil
}

// Introspect is token introspection (RFC 7662). A resource server may introspect the
// access tokens of every client that are for its audience; any client its own
// tokens, including refresh tokens. Everything else is Refused, which the caller
// sees as inactive.
func (iss *Issuer) Introspect(ctx context.Context, caller *store.Client, text string) (Token, error) {
	if strings.HasPrefix(text, keys.RefreshPrefix) {
		return iss.inspectRefresh(ctx, caller, text)
	}
	t, err := iss.Inspect(ctx, text)
	if err != nil {
		return Token{}, err
	}
	if t.ClientID == caller.ID {
		return t, nil
	}
	if !t.MayBeAskedBy(caller) {
		return Token{}, &grant.Refused{Why: grant.OtherClient, GrantID: t.GrantID}
	}
	return t, nil
}

// MayBeAskedBy reports whether caller is a resource server in the audience of t.
func (t Token) MayBeAskedBy(caller *store.Client) bool {
	limits := caller.IntrospectAudience
	return caller.Introspect && (len(limits) == 0 || t.IsFor(limits...))
}

// IsFor reports whether an audience of t is one of those named. APIs are compared
// without a trailing slash.
func (t Token) IsFor(audience ...string) bool {
	return slices.ContainsFunc(t.Audience, func(have string) bool {
		return slices.ContainsFunc(audience, func(named string) bool {
			return have == named || t.Restricted && oauth.CanonicalTarget(have) == oauth.CanonicalTarget(named)
		})
	})
}

// inspectRefresh introspects a refresh token for its owner. It is active exactly
// while the token endpoint would accept it, so that a thief cannot learn when it
// was used.
func (iss *Issuer) inspectRefresh(ctx context.Context, caller *store.Client, text string) (Token, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return Token{}, store.Unavailable(err)
	}
	tok, view, err := open(ctx, iss, view, text, (*Issuer).openRefresh)
	if err != nil {
		return Token{}, err
	}
	refused := func(why grant.Refusal) (Token, error) { return Token{}, &grant.Refused{Why: why, GrantID: tok.GrantID} }
	now := iss.now()
	g, err := iss.Store.Grant(ctx, tok.GrantID)
	if errors.Is(err, store.ErrNotFound) {
		return refused(iss.presents(view, caller, tok).Unrecorded(iss.PolicyOf(caller), now))
	}
	if err != nil {
		return Token{}, store.Unavailable(err)
	}
	d := iss.Foresee(view, caller, tok, g, now)
	if d.Refusal != grant.Allowed {
		return refused(d.Refusal)
	}
	if !caller.MayUse(store.GrantRefreshToken) {
		return refused(grant.ClientDisabled)
	}
	return Token{
		Refresh: true, GrantID: g.ID, ClientID: g.ClientID, Subject: g.Subject, Scope: g.Scope.Common(caller.Scope),
		IssuedAt: tok.IssuedAt, ExpiresAt: tok.ExpiresAt, AuthTime: g.AuthTime, Claims: g.Claims,
	}, nil
}

// Foresee decides a refresh of g by the client now. Nothing is stored.
func (iss *Issuer) Foresee(view *directory.View, c *store.Client, tok keys.Token, g grant.Grant, now grant.Instant) grant.Decision {
	r := iss.presents(view, c, tok)
	r.Target = iss.EveryAPI(view, c, g.APIs)
	r.Cutoff, r.SpentByOther = view.Cutoff(g.Realm, g.Subject, g.ClientID), view.Ring.SpentByOther(g, tok.Key)
	return g.Refresh(r, iss.PolicyOf(c), now)
}

// EveryAPI returns the target of a token request that names no API.
func (iss *Issuer) EveryAPI(view *directory.View, c *store.Client, apis grant.APIs) *grant.Target {
	return iss.target(view, c, apis, "")
}

// presents returns the client's refresh request with a token.
func (iss *Issuer) presents(view *directory.View, c *store.Client, tok keys.Token) grant.Refresh {
	return grant.Refresh{
		Realm: iss.Realm, ClientID: c.ID, Allowed: iss.AllowedScope(view, c),
		Generation: tok.Generation, IssuedAt: tok.IssuedAt, ExpiresAt: tok.ExpiresAt,
		Maker: view.Ring.Maker(tok.Key), Restore: view.Restore(),
	}
}

// An accessToken is the content of an access token. A JWT contains its scope and
// audience; an opaque token contains positions in its grant's scope.
type accessToken struct {
	keys.Token
	jwt      bool
	scope    oauth.Scope
	audience []string

	subject, clientID string
	authorized        grant.Instant
	unstored          *keys.ServiceToken // of an opaque token without a grant
}

// openAccess verifies that a text is an access token of this issuer, of either
// format, before anything is read from the store.
func (iss *Issuer) openAccess(view *directory.View, text string) (accessToken, error) {
	if strings.HasPrefix(text, keys.AccessPrefix) {
		t, err := view.Ring.OpenAccess(iss.Realm, text)
		return accessToken{Token: t}, err
	}
	if strings.HasPrefix(text, keys.ServicePrefix) {
		t, err := view.Ring.OpenService(iss.Realm, text)
		return accessToken{unstored: &t, Token: keys.Token{GrantID: t.ID, IssuedAt: t.IssuedAt, ExpiresAt: t.ExpiresAt, Key: t.Key}}, err
	}
	typ, payload, key, err := view.Ring.VerifyAt(text, iss.now(), iss.Directory.Schedule.Retaining(view.LongestAccess(0)))
	if err != nil {
		return accessToken{}, err
	}
	var c AccessClaims
	// Other JWTs of this issuer have types of their own (RFC 8725 section 3.11).
	if !slices.Contains(store.JWTTypes, typ) || json.Unmarshal(payload, &c) != nil || c.Issuer != iss.ID {
		return accessToken{}, keys.ErrNotAuthentic
	}
	id, ok := ParseTokenID(c.ID)
	if !ok {
		return accessToken{}, keys.ErrNotAuthentic
	}
	return accessToken{
		Token: keys.Token{
			GrantID: id.GrantID, Generation: id.Generation, IssuedAt: id.IssuedAt, ExpiresAt: grant.Instant(c.ExpiresAt) * 1000, Key: key,
		},
		jwt: true, scope: c.Scope, audience: c.Audience, subject: c.Subject, clientID: c.ClientID, authorized: id.AuthorizedAt,
	}, nil
}

// IsAccessToken reports whether a text is an access token of this issuer, active or
// not.
func (iss *Issuer) IsAccessToken(view *directory.View, text string) bool {
	_, err := iss.openAccess(view, text)
	return err == nil
}

// Audience returns the audience of a client's access tokens.
func (iss *Issuer) Audience(c *store.Client) []string {
	if len(c.Audience) > 0 {
		return c.Audience
	}
	return []string{iss.ID}
}
