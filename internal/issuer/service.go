package issuer

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A ServiceRequest is the client_credentials operation of an authenticated client.
type ServiceRequest struct {
	Scope    string    // "": all that the client is registered for
	Resource string    // the API of the token (RFC 8707); "": every API of its scopes
	JKT      oauth.JKT // the key that signed the request's proof, or zero
}

// ServiceToken issues an access token to a client for itself (RFC 6749 section 4.4):
// without a user, a grant and a refresh token. Nothing is written.
func (iss *Issuer) ServiceToken(ctx context.Context, c *store.Client, r ServiceRequest) (Tokens, error) {
	view, err := iss.viewFor(r.JKT)
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	scope, apis, err := iss.of(view, c).serviceScope(r)
	if err != nil {
		return Tokens{}, err
	}
	if _, err := oauth.ParseScope(string(scope)); err != nil {
		return Tokens{}, oauth.ErrScope // the client's whole scope is too long for one token
	}
	var id grant.ID
	rand.Read(id[:])
	return iss.of(view, c).serviceToken(id, scope, apis, r.JKT, iss.now())
}

// serviceToken makes an access token with an id of its own for the client of e.
func (e entitlements) serviceToken(id grant.ID, scope oauth.Scope, apis []*store.API, key oauth.JKT, now grant.Instant) (Tokens, error) {
	iss, view, c := e.iss, e.view, e.c
	life, format, numbers := serviceForm(c, apis, iss.Policy.AccessLifetime)
	p := iss.Policy
	p.AccessLifetime = life
	t := Token{
		Kind: AccessToken, Form: SelfContained, GrantID: id, ClientID: c.ID, Subject: c.ID, Scope: scope, APIs: numbers,
		IssuedAt: now, ExpiresAt: p.AccessExpiry(now), AuthorizedAt: iss.AgreedAt(view, c.ID, c.ID, now), JKT: key,
	}
	if format == store.TokenJWT {
		t.Form, t.Audience = JWT, e.serviceAudience(apis)
	} else {
		t.Key = view.Ring.Current(keys.MAC, now)
	}
	text, err := iss.write(view, c, t, now)
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	return Tokens{
		Scope: scope, ExpiresIn: p.ExpiresIn(grant.Access{ExpiresAt: t.ExpiresAt}, now), AccessToken: text,
		GrantID: t.GrantID, Subject: c.ID, Format: format, Bound: t.JKT.Bound(),
	}, nil
}

// serviceForm returns the lifetime and the format of a service token for some APIs, and
// the APIs' numbers. The lifetime is the shortest one of the APIs. The format is JWT only
// if it is the format of all of them.
func serviceForm(c *store.Client, apis []*store.API, life time.Duration) (time.Duration, store.TokenFormat, []uint16) {
	if len(apis) == 0 {
		return life, c.TokenFormat, nil
	}
	shortest, format, numbers := grant.MaxAccessLifetime, store.TokenJWT, make([]uint16, len(apis))
	for i, api := range apis {
		numbers[i] = api.Number
		if api.Number == store.IssuerAPI {
			shortest = min(shortest, life)
		} else {
			shortest = min(shortest, api.Lifetime(life))
		}
		if cmp.Or(api.TokenFormat, c.TokenFormat) != store.TokenJWT {
			format = store.TokenOpaque
		}
	}
	return shortest, format, numbers
}

// serviceScope returns the scope of a request, which the client's registration must cover,
// and the APIs of the token. The scope openid is excluded, because it is about users.
func (e entitlements) serviceScope(r ServiceRequest) (scope oauth.Scope, apis []*store.API, err error) {
	allowed := e.c.Scope
	if e.iss.IDTokenLifetime != 0 {
		allowed = allowed.Without(oauth.OpenID)
	}
	wanted, err := oauth.ParseScope(r.Scope)
	wanted = wanted.Without(oauth.OfflineAccess)
	if err != nil || !allowed.Covers(wanted) || allowed == "" {
		return "", nil, oauth.Sent(oauth.ErrScope, e.iss.LoggedScope(e.view, r.Scope))
	}
	scope = cmp.Or(wanted, allowed)
	if r.Resource == "" {
		return scope, e.apisOf(scope), nil
	}
	api, ok := e.view.API(e.iss.Realm, r.Resource)
	if !ok || !slices.ContainsFunc(e.c.APIs, func(text string) bool {
		may, err := store.ReadAllowedAPI(text)
		return err == nil && oauth.CanonicalTarget(may.ID) == oauth.CanonicalTarget(api.ID)
	}) {
		return "", nil, oauth.ErrTarget
	}
	switch narrowed := scope.Common(api.Scope()); {
	case wanted != "" && narrowed != wanted:
		return "", nil, oauth.Sent(oauth.ErrScope, e.iss.LoggedScope(e.view, r.Scope)) // of another API
	case narrowed == "":
		return "", nil, oauth.ErrTarget
	default:
		return narrowed, []*store.API{api}, nil
	}
}

// serviceAudience is the audience of a service token: its APIs, or that of the client.
func (e entitlements) serviceAudience(apis []*store.API) []string {
	if len(apis) == 0 {
		return e.audience()
	}
	var list []string
	for _, api := range apis {
		if api == own {
			list = append(list, e.audience()...)
		} else {
			list = append(list, api.ID)
		}
	}
	return list
}

// services are the use cases of service tokens: access tokens that clients get for
// themselves.
type services struct{ *Issuer }

// inspect verifies a service token: its instants, client, trust and APIs, the cutoffs, and
// that it was not revoked. It returns the token with its audience and remaining scope.
func (iss services) inspect(ctx context.Context, view *directory.View, t Token) (Token, grant.Refusal, error) {
	if why := iss.inForce(view, t); why != grant.Allowed {
		return t, why, nil
	}
	c, ok := view.Client(iss.Realm, t.ClientID)
	trust, why := iss.trustedWorkload(view, &t)
	switch {
	case !ok || trust == nil && !c.MayUse(store.GrantClientCredentials):
		return t, grant.ClientDisabled, nil
	case why != grant.Allowed:
		return t, why, nil
	}
	if t.Subject != t.ClientID {
		return t, grant.TokenUnknown, nil // this server did not sign it
	}
	if trust != nil {
		if t.Scope = t.Scope.Common(view.ScopeOf(iss.Realm, trust.APIs)); t.Scope == "" {
			return t, grant.TrustEnded, nil
		}
	}
	if !iss.of(view, c).ownTargets(&t) {
		return t, grant.AccessRevoked, nil
	}
	why, err := iss.standing(ctx, t.revocationID())
	return t, why, err
}

// revocationID is the id under which a token is revoked alone.
func (t Token) revocationID() grant.ID {
	if t.Exchanged() {
		return t.Serial
	}
	return t.GrantID
}

// standing returns AccessRevoked if a token was revoked alone, by its own id, or Allowed.
func (iss services) standing(ctx context.Context, id grant.ID) (grant.Refusal, error) {
	switch _, err := iss.Store.Document(ctx, store.KeyOf(store.DocumentServiceRevoked, iss.Realm, id.String())); {
	case err == nil:
		return grant.AccessRevoked, nil
	case !errors.Is(err, store.ErrNotFound):
		return 0, store.Unavailable(err)
	}
	return grant.Allowed, nil
}

// inForce returns why a service token is inactive by its instants and key alone, or
// Allowed.
func (iss services) inForce(view *directory.View, t Token) grant.Refusal {
	presented := iss.presented(view, t, t.ClientID)
	presented.Cutoff = view.Cutoff(iss.Realm, t.ClientID, t.ClientID)
	return presented.InspectService(t.AuthorizedAt, iss.longest(view), iss.now())
}

// trustedWorkload returns the trust by which a service token was issued, or nil, and why
// the trust does not permit the token, or Allowed. It sets t.Trust if the trust permits t.
func (iss services) trustedWorkload(view *directory.View, t *Token) (*store.Trust, grant.Refusal) {
	trust := view.TrustOfToken(iss.Realm, t.GrantID)
	switch {
	case trust == nil:
		return nil, grant.Allowed
	case trust.Kind != store.TrustWorkload || trust.ClientID != t.ClientID:
		return trust, grant.TokenUnknown
	case !trust.Permits(t.IssuedAt):
		return trust, grant.TrustEnded
	}
	t.Trust = trust.ID
	return trust, grant.Allowed
}

// ownTargets sets the audience of a service token, and removes scopes that the client has
// lost. It reports whether all APIs still exist and a scope is left.
func (e entitlements) ownTargets(t *Token) bool {
	if t.Scope = t.Scope.Common(e.c.Scope); t.Scope == "" {
		return false
	}
	if t.Form == JWT {
		return !slices.ContainsFunc(t.Audience, func(aud string) bool {
			_, present := e.view.API(e.iss.Realm, aud)
			return !present && !slices.Contains(e.audience(), aud)
		})
	}
	var apis []*store.API
	for _, n := range t.APIs {
		api, present := e.view.APIByNumber(e.iss.Realm, n)
		if n == store.IssuerAPI {
			api, present = own, true
		}
		if !present {
			return false
		}
		apis = append(apis, api)
	}
	t.Audience = e.serviceAudience(apis)
	return true
}

// maxServiceRevoked is how many unexpired revocations a client may have. The next
// revocation ends all service tokens of the client.
const maxServiceRevoked = 1000

// A serviceRevocation is the body of the document about a revoked service token.
type serviceRevocation struct {
	ID    string        `json:"id"` // of the token, in all its forms
	At    grant.Instant `json:"at"` // when it was revoked
	Realm string        `json:"realm,omitempty"`
}

// revoke revokes a token that the client got for itself, or in exchange (RFC 7009). It
// stores a document that expires with the token. The document's key is the token's id,
// which JWTs made from an opaque token share, and which the list of revocations contains.
func (iss services) revoke(ctx context.Context, view *directory.View, c *store.Client, t Token) error {
	if t.ClientID != c.ID {
		return &grant.Refused{Why: grant.OtherClient, GrantID: t.GrantID}
	}
	if t.Exchanged() && iss.presented(view, t, c.ID).Expired(iss.longest(view), iss.now()) || !t.Exchanged() && iss.inForce(view, t) != grant.Allowed {
		return nil // inactive already
	}
	many, err := iss.manyRevoked(ctx, c)
	if err != nil {
		return store.Unavailable(err)
	}
	now := iss.now()
	id := t.revocationID().String()
	body, err := json.Marshal(serviceRevocation{id, now, store.OtherRealm(iss.Realm)})
	if err != nil {
		return err
	}
	change := store.Change{Documents: []store.Document{{
		Kind: store.DocumentServiceRevoked, Key: store.KeyOf(store.DocumentServiceRevoked, iss.Realm, id), Version: 1,
		ExpiresAt: t.ExpiresAt.Add(2*iss.Policy.MaxSkew + time.Minute), Owner: store.OwnerOf(iss.Realm, c.ID), Body: body,
	}}}
	if many {
		// Later tokens are dated after this cutoff: see AgreedAt.
		change = store.Change{
			Cutoffs: []store.Cutoff{{Realm: iss.Realm, Subject: c.ID, ClientID: c.ID, At: max(now, t.AuthorizedAt, t.ExchangedAt)}},
			Events: []store.Event{{At: now, Name: store.EventCutoff, About: c.ID, Actor: c.ID,
				Detail: fmt.Sprintf("ended all its own and exchanged tokens: it revoked more than %d that had not expired", maxServiceRevoked)}},
		}
	}
	err = iss.Store.Commit(ctx, change)
	if err == nil && many {
		err = iss.Directory.Poll(ctx)
	}
	if err != nil && !errors.Is(err, store.ErrConflict) { // else it is revoked already
		return store.Unavailable(err)
	}
	return nil
}

// manyRevoked reports whether a client has maxServiceRevoked unexpired revocations.
func (iss services) manyRevoked(ctx context.Context, c *store.Client) (bool, error) {
	list, err := iss.Store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentServiceRevoked, Owner: store.OwnerOf(iss.Realm, c.ID), Limit: 2 * maxServiceRevoked})
	now, living := iss.now(), 0
	for _, d := range list {
		if now < d.ExpiresAt {
			living++
		}
	}
	return living >= maxServiceRevoked || len(list) == 2*maxServiceRevoked, err
}

// LoggedScope returns a scope that was sent, for the log: names that nobody has
// registered are question marks, because they may be secrets in the wrong place.
func (iss *Issuer) LoggedScope(view *directory.View, text string) string {
	names := strings.Fields(text)
	names = names[:min(len(names), 20)]
	for i, name := range names {
		if name != oauth.OpenID && !view.KnowsScope(iss.Realm, name) {
			names[i] = "?"
		}
	}
	return strings.Join(names, " ")
}
