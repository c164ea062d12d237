package issuer

import (
	"context"
	"errors"
	"slices"

	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// Inspect verifies an access token. It reads the row of the token's grant, or the
// revocation of a token without a grant, so that a revocation is effective on every node
// at once. If the token is not active, the error is a *grant.Refused. StoreBehind means
// that its grant is missing although it should exist.
func (iss *Issuer) Inspect(ctx context.Context, text string) (Token, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return Token{}, store.Unavailable(err)
	}
	t, view, err := iss.open(ctx, view, text, AccessToken)
	if err != nil {
		return Token{}, err
	}
	var active Token
	var why grant.Refusal
	if t.IsService() {
		active, why, err = services{iss}.inspect(ctx, view, t)
	} else {
		active, _, why, err = iss.inspectOfGrant(ctx, view, t)
	}
	switch {
	case err != nil:
		return Token{}, err
	case why != grant.Allowed:
		return Token{}, &grant.Refused{Why: why, GrantID: t.GrantID}
	}
	return active, nil
}

// tokenRecords holds the records on which an access token of a grant depends: the grant's row,
// and its client.
type tokenRecords struct {
	grant  grant.Grant
	client *store.Client
}

// inspectOfGrant verifies an access token of a grant. It returns the token with the fields
// that the grant and the client's registration hold.
func (iss *Issuer) inspectOfGrant(ctx context.Context, view *directory.View, t Token) (Token, tokenRecords, grant.Refusal, error) {
	var on tokenRecords
	now, policy, presented := iss.now(), iss.longest(view), iss.presented(view, t, "")
	if presented.Expired(policy, now) {
		return t, on, grant.GrantExpired, nil // without reading the store
	}
	g, err := iss.Store.Grant(ctx, t.GrantID)
	if errors.Is(err, store.ErrNotFound) {
		return t, on, presented.Unrecorded(policy, now), nil
	}
	if err != nil {
		return t, on, 0, store.Unavailable(err)
	}
	presented.Cutoff = view.Cutoff(g.Realm, g.Subject, g.ClientID)
	why := g.Inspect(presented, policy, now)
	c, err := iss.Directory.Client(ctx, view, g.Realm, g.ClientID)
	if err != nil {
		return t, on, 0, err
	}
	if why == grant.Allowed && c == nil {
		why = grant.ClientDisabled
	}
	if why != grant.Allowed {
		return t, on, why, nil
	}
	on = tokenRecords{g, c}
	var trust *store.Trust
	if g.Trust != "" {
		if trust = view.TrustRow(iss.Realm, g.Trust); !trust.Permits(g.RotatedAt) {
			return t, on, grant.TrustEnded, nil
		}
	}
	if t.Exchanged() {
		t, why, err = Exchanges{iss}.inspect(ctx, view, t, on)
		return t, on, why, err
	}
	if t.Form == JWT && (!g.Scope.Covers(t.Scope) || t.Subject != g.Subject || t.ClientID != g.ClientID) {
		// The signature verifies and the grant differs: this server did not sign it.
		return t, on, grant.TokenUnknown, nil
	}
	t = t.Of(g)
	t.MayAct = c.MayAct
	standing, e := false, iss.of(view, c)
	if trust != nil {
		if t.Scope = t.Scope.Common(view.ScopeOf(iss.Realm, trust.APIs)); t.Scope == "" {
			return t, on, grant.TrustEnded, nil
		}
	}
	if t.Form == JWT {
		standing = e.standing(g.APIs, t.Audience)
	} else {
		t.Audience, _, standing = e.named(g.APIs, t.apis)
	}
	if !standing {
		return t, on, grant.TargetGone, nil
	}
	if g.APIs != (grant.APIs{}) {
		t.Restricted = true
		t.ForClient = slices.Contains(g.APIs[:], store.ClientAudience) && t.IsFor(e.audience()...)
	}
	if g.InUserInfo != 0 {
		t.Named = claims.Set(g.InUserInfo) & claims.Of(c.Scope)
	}
	return t, on, grant.Allowed, nil
}

// inspect verifies an exchanged token whose grant is active: its API, the clients that
// act, their cutoffs, and that the token itself was not revoked.
func (iss Exchanges) inspect(ctx context.Context, view *directory.View, t Token, on tokenRecords) (Token, grant.Refusal, error) {
	if t.Form == JWT && (t.Subject != on.grant.Subject || t.GrantedTo != on.grant.ClientID) || t.ExchangedAt == 0 {
		return t, grant.TokenUnknown, nil // this server did not sign it
	}
	t = t.Of(on.grant)
	c, ok := view.Client(iss.Realm, t.ClientID)
	if !ok || !c.Exchanges() {
		return t, grant.ClientDisabled, nil
	}
	for _, a := range append([]grant.Actor{{Subject: t.ClientID}}, t.Actors...) {
		if a.Issuer != "" {
			continue
		}
		if _, ok := view.Client(iss.Realm, a.Subject); !ok {
			return t, grant.ClientDisabled, nil
		}
		cutoff := max(view.Cutoff(iss.Realm, t.Subject, a.Subject), view.Cutoff(iss.Realm, a.Subject, a.Subject))
		if grant.CutOffAt(t.ExchangedAt, cutoff, iss.Policy) {
			return t, grant.CutOff, nil
		}
	}
	if t.Form == JWT {
		for _, aud := range t.Audience {
			api, present := view.API(iss.Realm, aud)
			if !present {
				return t, grant.TargetGone, nil
			}
			t.APIs = append(t.APIs, api.Number)
		}
	} else {
		for _, n := range t.APIs {
			api, present := view.APIByNumber(iss.Realm, n)
			if !present {
				return t, grant.TargetGone, nil
			}
			t.Audience = append(t.Audience, api.ID)
		}
	}
	t.Restricted, t.MayAct = true, c.MayAct
	why, err := services{iss.Issuer}.standing(ctx, t.Serial)
	return t, why, err
}

// Introspect is token introspection (RFC 7662). A resource server may introspect the
// access tokens of every client that are for its audience. Any client may introspect its
// own tokens, including refresh tokens. The error for other tokens is a *grant.Refused,
// which the response reports as inactive.
func (iss *Issuer) Introspect(ctx context.Context, caller *store.Client, text string) (Token, error) {
	if kindOf(text) == RefreshToken {
		return iss.inspectRefresh(ctx, caller, text)
	}
	t, err := iss.Inspect(ctx, text)
	if err != nil {
		return Token{}, err
	}
	if t.ClientID == caller.ID {
		return t, nil
	}
	if !t.IntrospectableBy(caller) {
		return Token{}, &grant.Refused{Why: grant.OtherClient, GrantID: t.GrantID}
	}
	return t, nil
}

// IntrospectableBy reports whether caller may introspect t as a resource server: any token, or
// only those for its IntrospectAudience if that is set.
func (t Token) IntrospectableBy(caller *store.Client) bool {
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

// inspectRefresh introspects a refresh token for its owner. The token is active exactly
// while the token endpoint would accept it, so that a thief cannot find out when it was
// used.
func (iss *Issuer) inspectRefresh(ctx context.Context, caller *store.Client, text string) (Token, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return Token{}, store.Unavailable(err)
	}
	t, view, err := iss.open(ctx, view, text, RefreshToken)
	if err != nil {
		return Token{}, err
	}
	refused := func(why grant.Refusal) (Token, error) { return Token{}, &grant.Refused{Why: why, GrantID: t.GrantID} }
	now := iss.now()
	g, err := iss.Store.Grant(ctx, t.GrantID)
	if errors.Is(err, store.ErrNotFound) {
		return refused(iss.presents(view, caller, t).Unrecorded(iss.PolicyOf(caller), now))
	}
	if err != nil {
		return Token{}, store.Unavailable(err)
	}
	d := iss.Foresee(view, caller, t, g, now)
	if d.Refusal != grant.Allowed {
		return refused(d.Refusal)
	}
	if !caller.MayUse(store.GrantRefreshToken) {
		return refused(grant.ClientDisabled)
	}
	t = t.Of(g)
	t.Scope = t.Scope.Common(caller.Scope)
	return t, nil
}

// Foresee decides a refresh of g by the client now. Nothing is stored.
func (iss *Issuer) Foresee(view *directory.View, c *store.Client, t Token, g grant.Grant, now grant.Instant) grant.Decision {
	r := iss.presents(view, c, t)
	r.JKT = g.JKT
	r.Target = iss.EveryAPI(view, c, g.APIs)
	r.Cutoff, r.SpentByOther = view.Cutoff(g.Realm, g.Subject, g.ClientID), view.Ring.SpentByOther(g, t.Key)
	return g.Refresh(r, iss.PolicyOf(c), now)
}

// EveryAPI returns the target of a token request that names no API.
func (iss *Issuer) EveryAPI(view *directory.View, c *store.Client, apis grant.APIs) *grant.Target {
	return iss.of(view, c).target(apis, "")
}
