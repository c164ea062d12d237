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
	Scope    string // "": all that the client is registered for
	Resource string // the API that it is for (RFC 8707); "": each whose scopes it has
}

// ServiceToken issues an access token to a client for itself (RFC 6749 section 4.4):
// without a user, a grant and a refresh token. Nothing is written.
func (iss *Issuer) ServiceToken(ctx context.Context, c *store.Client, r ServiceRequest) (Tokens, error) {
	view, err := iss.Directory.View()
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	scope, apis, err := iss.serviceScope(view, c, r)
	if err != nil {
		return Tokens{}, err
	}
	if _, err := oauth.ParseScope(string(scope)); err != nil {
		return Tokens{}, oauth.ErrScope // all that it is registered for is too much for one token
	}
	now := iss.now()
	life, format, numbers := serviceForm(c, apis, iss.Policy.AccessLifetime)
	p := iss.Policy
	p.AccessLifetime = life
	t := keys.ServiceToken{ClientID: c.ID, APIs: numbers, Scope: scope, IssuedAt: now, AuthorizedAt: iss.AgreedAt(view, c.ID, c.ID, now), ExpiresAt: p.AccessExpiry(now)}
	rand.Read(t.ID[:])
	out := Tokens{Scope: scope, ExpiresIn: p.ExpiresIn(grant.Access{ExpiresAt: t.ExpiresAt}, now), GrantID: t.ID, Subject: c.ID, Format: format}
	if format == store.TokenJWT {
		s := service{ServiceToken: t, audience: iss.serviceAudience(c, apis)}
		out.AccessToken, err = iss.signAccess(view, c, s.token(), now)
	} else {
		out.AccessToken, err = view.Ring.SealService(view.Ring.Current(keys.MAC, now), iss.Realm, t)
	}
	if err != nil {
		return Tokens{}, store.Unavailable(err)
	}
	return out, nil
}

// serviceForm returns the lifetime of a service token for some APIs, which is the
// shortest, its format, which is a JWT only if that of all is, and their numbers.
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

// own stands for the client's audience beside those of APIs.
var own = &store.API{Number: store.IssuerAPI}

// serviceScope returns what a request asks for, of what the client is registered for,
// and the APIs that it is for. Scopes of OpenID Connect are about users.
func (iss *Issuer) serviceScope(view *directory.View, c *store.Client, r ServiceRequest) (scope oauth.Scope, apis []*store.API, err error) {
	allowed := c.Scope
	if iss.IDTokenLifetime != 0 {
		allowed = allowed.Without(oauth.OpenID)
	}
	wanted, err := oauth.ParseScope(r.Scope)
	wanted = wanted.Without(oauth.OfflineAccess)
	if err != nil || !allowed.Covers(wanted) || allowed == "" {
		return "", nil, oauth.Sent(oauth.ErrScope, iss.LoggedScope(view, r.Scope))
	}
	if scope = wanted; scope == "" {
		scope = allowed
	}
	if r.Resource == "" {
		return scope, iss.apisOf(view, c, scope), nil
	}
	api, ok := view.API(iss.Realm, r.Resource)
	if !ok || !slices.ContainsFunc(c.APIs, func(text string) bool {
		may, err := store.ReadAllowedAPI(text)
		return err == nil && oauth.CanonicalTarget(may.ID) == oauth.CanonicalTarget(api.ID)
	}) {
		return "", nil, oauth.ErrTarget
	}
	switch narrowed := scope.Common(api.Scope()); {
	case wanted != "" && narrowed != wanted:
		return "", nil, oauth.Sent(oauth.ErrScope, iss.LoggedScope(view, r.Scope)) // of another API
	case narrowed == "":
		return "", nil, oauth.ErrTarget
	default:
		return narrowed, []*store.API{api}, nil
	}
}

// apisOf returns the APIs that scopes of a client belong to, none if all of them belong
// to none.
func (iss *Issuer) apisOf(view *directory.View, c *store.Client, scope oauth.Scope) (apis []*store.API) {
	for _, name := range scope.Tokens() {
		api := own
		if of, ok := view.APIOfScope(iss.Realm, name); ok {
			if r, may := iss.allowed(view, c, of.Number); may && r.scope.Has(name) {
				api = of
			}
		}
		if !slices.Contains(apis, api) {
			apis = append(apis, api)
		}
	}
	if len(apis) == 1 && apis[0] == own {
		return nil
	}
	return apis
}

// serviceAudience is the audience of a service token: its APIs, or that of the client.
func (iss *Issuer) serviceAudience(c *store.Client, apis []*store.API) []string {
	if len(apis) == 0 {
		return iss.Audience(c)
	}
	var list []string
	for _, api := range apis {
		if api == own {
			list = append(list, iss.Audience(c)...)
		} else {
			list = append(list, api.ID)
		}
	}
	return list
}

// A service is an authentic service token, of either form.
type service struct {
	keys.ServiceToken
	jwt      bool
	subject  string   // of a JWT
	audience []string // of a JWT
}

func (s service) token() Token {
	return Token{
		Service: true, GrantID: s.ID, ClientID: s.ClientID, Subject: s.ClientID, Scope: s.Scope, Audience: s.audience,
		IssuedAt: s.IssuedAt, ExpiresAt: s.ExpiresAt, ID: tokenID(s.ID, 0, s.IssuedAt, s.AuthorizedAt),
	}
}

// service returns the fields of a service token, or nil for a token of a grant. The
// jti of a JWT of no grant has generation 0.
func (t accessToken) service() *service {
	switch {
	case t.unstored != nil:
		return &service{ServiceToken: *t.unstored}
	case t.jwt && t.Generation == 0:
		return &service{
			ServiceToken: keys.ServiceToken{
				ID: t.GrantID, ClientID: t.clientID, Scope: t.scope, IssuedAt: t.IssuedAt, AuthorizedAt: t.authorized, ExpiresAt: t.ExpiresAt, Key: t.Key,
			},
			jwt: true, subject: t.subject, audience: t.audience,
		}
	}
	return nil
}

// OpenService returns the fields of an authentic service token, active or not, and
// whether it is a JWT. It reads nothing from the store.
func (iss *Issuer) OpenService(view *directory.View, text string) (t keys.ServiceToken, jwt, ok bool) {
	a, err := iss.openAccess(view, text)
	if err != nil {
		return t, false, false
	}
	s := a.service()
	if s == nil {
		return t, false, false
	}
	return s.ServiceToken, s.jwt, true
}

// IsServiceToken reports whether a text is an authentic service token, active or not.
func (iss *Issuer) IsServiceToken(text string) bool {
	view, err := iss.Directory.View()
	if err != nil {
		return false
	}
	_, _, is := iss.OpenService(view, text)
	return is
}

// inspectService verifies a service token: its client, the cutoffs, and that it was
// not revoked.
func (iss *Issuer) inspectService(ctx context.Context, view *directory.View, s service) (Token, error) {
	refused := func(why grant.Refusal) (Token, error) { return Token{}, &grant.Refused{Why: why, GrantID: s.ID} }
	if why := iss.serviceInForce(view, s); why != grant.Allowed {
		return refused(why)
	}
	c, ok := view.Client(iss.Realm, s.ClientID)
	if !ok || !c.MayUse(store.GrantClientCredentials) {
		return refused(grant.ClientDisabled)
	}
	if s.jwt && s.subject != s.ClientID {
		return refused(grant.TokenUnknown) // this server did not sign it
	}
	if !iss.serviceTargets(view, c, &s) {
		return refused(grant.AccessRevoked)
	}
	switch _, err := iss.Store.Document(ctx, store.KeyOf(store.DocumentServiceRevoked, iss.Realm, s.ID.String())); {
	case err == nil:
		return refused(grant.AccessRevoked)
	case !errors.Is(err, store.ErrNotFound):
		return Token{}, store.Unavailable(err)
	}
	return s.token(), nil
}

// serviceInForce returns why a token is dead by its instants alone, or Allowed.
func (iss *Issuer) serviceInForce(view *directory.View, s service) grant.Refusal {
	p := iss.Policy
	p.AccessLifetime = view.LongestAccess(p.AccessLifetime)
	presented := grant.Presented{
		Realm: iss.Realm, ClientID: s.ClientID, IssuedAt: s.IssuedAt, ExpiresAt: s.ExpiresAt,
		Maker: view.Ring.Maker(s.Key), Restore: view.Restore(), Cutoff: view.Cutoff(iss.Realm, s.ClientID, s.ClientID),
	}
	return presented.InspectService(s.AuthorizedAt, p, iss.now())
}

// serviceTargets completes the audience, and takes away scopes that the client has
// lost. It reports whether all APIs still exist and a scope is left.
func (iss *Issuer) serviceTargets(view *directory.View, c *store.Client, s *service) bool {
	if s.Scope = s.Scope.Common(c.Scope); s.Scope == "" {
		return false
	}
	if s.jwt {
		return !slices.ContainsFunc(s.audience, func(aud string) bool {
			_, present := view.API(iss.Realm, aud)
			return !present && !slices.Contains(iss.Audience(c), aud)
		})
	}
	var apis []*store.API
	for _, n := range s.APIs {
		api, present := view.APIByNumber(iss.Realm, n)
		if n == store.IssuerAPI {
			api, present = own, true
		}
		if !present {
			return false
		}
		apis = append(apis, api)
	}
	s.audience = iss.serviceAudience(c, apis)
	return true
}

// maxServiceRevoked is how many living revocations a client may have: the next ends
// all its service tokens.
const maxServiceRevoked = 1000

// A serviceRevocation is the body of the document about a revoked service token.
type serviceRevocation struct {
	ID string        `json:"id"` // of the token, in all its forms
	At grant.Instant `json:"at"` // when it was revoked
}

// revokeService revokes a service token of the client (RFC 7009) by a document that
// expires with it. The document is under the token's id, which the JWTs that were made
// of an opaque token have as well, and the list of revocations names it.
func (iss *Issuer) revokeService(ctx context.Context, view *directory.View, c *store.Client, s service) error {
	if s.ClientID != c.ID {
		return &grant.Refused{Why: grant.OtherClient, GrantID: s.ID}
	}
	if iss.serviceInForce(view, s) != grant.Allowed {
		return nil // dead already
	}
	many, err := iss.manyRevoked(ctx, c)
	if err != nil {
		return store.Unavailable(err)
	}
	now := iss.now()
	body, err := json.Marshal(serviceRevocation{s.ID.String(), now})
	if err != nil {
		return err
	}
	change := store.Change{Documents: []store.Document{{
		Kind: store.DocumentServiceRevoked, Key: store.KeyOf(store.DocumentServiceRevoked, iss.Realm, s.ID.String()), Version: 1,
		ExpiresAt: s.ExpiresAt.Add(2*iss.Policy.MaxSkew + time.Minute), Owner: store.OwnerOf(iss.Realm, c.ID), Body: body,
	}}}
	if many {
		// Later tokens are dated after it: see AgreedAt.
		change = store.Change{
			Cutoffs: []store.Cutoff{{Realm: iss.Realm, Subject: c.ID, ClientID: c.ID, At: max(now, s.AuthorizedAt)}},
			Events: []store.Event{{At: now, Name: store.EventCutoff, About: c.ID, Actor: c.ID,
				Detail: fmt.Sprintf("all of its own tokens: it has revoked more than %d that have not expired", maxServiceRevoked)}},
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

// revokedServices returns the living revocations of service tokens. It fails if there
// are far more than the list of revocations can name.
func (iss *Issuer) revokedServices(ctx context.Context, now grant.Instant) (list []store.Revocation, err error) {
	f := store.DocumentFilter{Kind: store.DocumentServiceRevoked, Limit: iss.Feed.limit}
	for range 10 {
		page, err := iss.Store.Documents(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, d := range page {
			var r serviceRevocation
			if err := json.Unmarshal(d.Body, &r); err != nil {
				return nil, err
			}
			if id, err := grant.ParseID(r.ID); err == nil && now < d.ExpiresAt {
				list = append(list, store.Revocation{GrantID: id, At: r.At, Floor: grant.Never})
			}
			f.After = d.Key
		}
		if len(page) < f.Limit {
			return list, nil
		}
	}
	return nil, fmt.Errorf("more than %d revocations of service tokens", 10*iss.Feed.limit)
}

// manyRevoked reports whether a client has maxServiceRevoked living revocations.
func (iss *Issuer) manyRevoked(ctx context.Context, c *store.Client) (bool, error) {
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
		if name != oauth.OpenID && !view.KnowsScope(name) {
			names[i] = "?"
		}
	}
	return strings.Join(names, " ")
}
