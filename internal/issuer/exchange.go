package issuer

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// An ExchangeRequest is the token exchange of an authenticated client (RFC 8693 section
// 2.1).
type ExchangeRequest struct {
	SubjectToken string
	SubjectJWT   bool   // the request declares SubjectToken a JWT
	ActorToken   string // "" for none
	ActorJWT     bool
	AsJWT        bool // a JWT is asked for
	Scope        string
	Resource     string    // the API that the token is to be for; "": that of SubjectToken
	JKT          oauth.JKT // the key that signed the request's proof, or zero
}

// ExchangeToken exchanges an access token of a user for one of the client (RFC 8693).
// Nothing is written.
func (iss Exchanges) ExchangeToken(ctx context.Context, c *store.Client, r ExchangeRequest) (Tokens, error) {
	view, err := iss.Directory.View()
	if err == nil && iss.Directory.OlderNodes(store.FormsExchanged) {
		err = errOlderNodes
	}
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	subject, on, view, err := iss.subject(ctx, view, r)
	if err != nil {
		return Tokens{}, unacceptable(oauth.ErrSubjectToken, err)
	}
	ends := subject.ExpiresAt
	if r.ActorToken != "" {
		actor, err := iss.Inspect(ctx, r.ActorToken)
		if err == nil && (!actor.IsService() || actor.ClientID != c.ID || r.ActorJWT && actor.Form != JWT) {
			err = &grant.Refused{Why: grant.OtherClient}
		}
		if err != nil {
			return Tokens{}, unacceptable(oauth.ErrActorToken, err)
		}
		ends = min(ends, actor.ExpiresAt)
	}
	refused := func(why grant.Refusal) error { return &grant.Refused{Why: why, GrantID: subject.GrantID} }
	asked, err := oauth.ParseScope(r.Scope)
	if err != nil {
		return Tokens{}, oauth.Sent(oauth.ErrScope, iss.LoggedScope(view, r.Scope))
	}
	e := iss.of(view, c)
	api, available := e.exchanged(r.Resource, subject, on)
	x := grant.Exchange{
		ClientID: c.ID, From: c.ExchangeFrom, Serves: subject.IsFor(c.ServesAPIs...), Hides: c.ExchangeMode == store.Impersonate && r.ActorToken == "",
		GrantedTo: on.grant.ClientID, Holder: subject.ClientID, MayAct: subject.MayAct, Actors: subject.Actors,
		Available: available, Scope: asked.Without(oauth.OfflineAccess),
	}
	actors, scope, why := x.Exchange()
	switch {
	case why == grant.TargetUnknown || why == grant.ScopeTooWide:
		return Tokens{}, refused(why)
	case why != grant.Allowed:
		return Tokens{}, unacceptable(oauth.ErrSubjectToken, refused(why))
	}
	format := cmp.Or(api.TokenFormat, c.TokenFormat, store.TokenOpaque)
	if r.AsJWT && format != store.TokenJWT {
		return Tokens{}, oauth.ErrRequestedType
	}

	now, p := iss.now(), iss.Policy
	p.AccessLifetime = api.Lifetime(p.AccessLifetime)
	at := max(now, subject.IssuedAt)
	t := Token{
		Kind: AccessToken, Form: SelfContained, GrantID: subject.GrantID, Generation: subject.Generation, ClientID: c.ID, Subject: subject.Subject,
		Scope: scope, Audience: []string{api.ID}, APIs: []uint16{api.Number}, IssuedAt: at, ExpiresAt: min(ends, p.AccessExpiry(at)),
		AuthorizedAt: subject.AuthorizedAt, AuthTime: subject.AuthTime, ACR: subject.ACR, Claims: subject.Claims, JKT: r.JKT,
		Actors: actors, MayAct: c.MayAct, GrantedTo: on.grant.ClientID,
		ExchangedAt: max(iss.AgreedAt(view, subject.Subject, c.ID, now), iss.AgreedAt(view, c.ID, c.ID, now)),
	}
	rand.Read(t.Serial[:])
	expires := p.ExpiresIn(grant.Access{ExpiresAt: t.ExpiresAt}, now)
	if expires < 1 {
		return Tokens{}, unacceptable(oauth.ErrSubjectToken, refused(grant.GrantExpired))
	}
	if format == store.TokenJWT {
		t.Form = JWT
	} else {
		t.Key = view.Ring.Current(keys.MAC, now)
	}
	text, err := iss.write(view, c, t, now)
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	return Tokens{
		Scope: scope, ExpiresIn: expires, AccessToken: text, GrantID: t.GrantID, Subject: t.Subject, Generation: t.Generation,
		Format: format, Bound: t.JKT.Bound(), Exchanged: &Exchanged{From: subject.ClientID, AsJWT: r.AsJWT, Impersonates: x.Hides},
	}, nil
}

// unacceptable wraps the refusal of a token of the request in told, the error for the
// client (RFC 8693 section 2.2.2). It returns faults of the server unchanged.
func unacceptable(told *oauth.Error, err error) error {
	if refused, ok := errors.AsType[*grant.Refused](err); ok && refused.Why != grant.StoreBehind {
		return fmt.Errorf("%w: %w", told, err)
	}
	return err
}

// subject returns the active access token of a user that is to be exchanged, and the
// records on which the token depends.
func (iss Exchanges) subject(ctx context.Context, view *directory.View, r ExchangeRequest) (Token, tokenRecords, *directory.View, error) {
	t, view, err := iss.open(ctx, view, r.SubjectToken, AccessToken)
	if err != nil {
		return t, tokenRecords{}, view, err
	}
	if t.IsService() || r.SubjectJWT && t.Form != JWT {
		return t, tokenRecords{}, view, &grant.Refused{Why: grant.TokenUnknown} // a token about no user, or not the declared JWT
	}
	t, on, why, err := iss.inspectOfGrant(ctx, view, t)
	if err == nil && why != grant.Allowed {
		err = &grant.Refused{Why: why, GrantID: t.GrantID}
	}
	return t, on, view, err
}

// exchanged returns the API that an exchange by the client is for, and the scope that is
// available there: the token's own for an API of the subject token, and the granted scope
// for another API of the grant. An operator may allow more (Beyond). The scope is "" if
// the client may not exchange tokens for the API.
func (e entitlements) exchanged(uri string, subject Token, on tokenRecords) (*store.API, oauth.Scope) {
	if uri == "" && len(subject.Audience) == 1 {
		uri = subject.Audience[0]
	}
	api, ok := e.view.API(e.iss.Realm, uri)
	if !ok {
		return nil, ""
	}
	named := oauth.CanonicalTarget(api.ID)
	var scope, may oauth.Scope
	for _, text := range e.c.ExchangeAPIs {
		if l, err := store.ReadAllowedAPI(text); err == nil && oauth.CanonicalTarget(l.ID) == named {
			may = may.Union(l.Of(api))
		}
	}
	switch {
	case subject.IsFor(api.ID):
		scope = subject.Scope.Common(api.Scope())
	case slices.Contains(on.grant.APIs[:], api.Number):
		agreed, _ := e.iss.of(e.view, on.client).allowed(api.Number)
		scope = on.grant.Scope.Common(agreed.scope)
	}
	for _, b := range e.c.Beyond {
		if oauth.CanonicalTarget(b.API) == named && b.Since < on.grant.AuthorizedAt {
			scope = scope.Union(b.Scope)
		}
	}
	// The user's claims are only for the client at which the user has signed in.
	return api, scope.Common(may).Without(oauth.OpenIDScopes)
}
