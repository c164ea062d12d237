package issuer

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// entitlements are what a client may have of the realm's APIs, by one view of the
// directory.
type entitlements struct {
	iss  *Issuer
	view *directory.View
	c    *store.Client
}

// of returns the entitlements of a client.
func (iss *Issuer) of(view *directory.View, c *store.Client) entitlements {
	return entitlements{iss, view, c}
}

// A resource is an API as a client may ask for it: a registered one, the issuer, to
// which the scopes of OpenID Connect belong, or the audience of the client's
// registration, to which the scopes of no API belong.
type resource struct {
	audience []string // the aud of its tokens
	number   uint16
	api      *store.API  // nil for the issuer, unless an operator has registered it
	scope    oauth.Scope // that the client may have of it
}

// is reports whether a URI names r.
func (r resource) is(uri string) bool {
	return slices.ContainsFunc(r.audience, func(aud string) bool { return oauth.CanonicalTarget(aud) == oauth.CanonicalTarget(uri) })
}

// Resources are the APIs that an authorization request asks for, by resource or by its
// scope.
type Resources struct {
	// APIs are the numbers of the APIs; zero if there are none.
	APIs grant.APIs
	// Scope is what the client may ask for.
	Scope oauth.Scope
	// Default is the scope that the client gets if it asks for none.
	Default oauth.Scope
}

// Resources reads the parameters resource of an authorization request (RFC 8707
// section 2.1), or else the APIs of its scope. Its error is oauth.ErrTarget.
//
// A client that may have tokens for no API has only the audience of its registration,
// which a resource may name, and its scopes that belong to no API.
func (iss *Issuer) Resources(view *directory.View, c *store.Client, uris []string, scope oauth.Scope) (r Resources, err error) {
	e := iss.of(view, c)
	r = Resources{Scope: c.Scope, Default: c.Scope}
	switch {
	case !c.SelfRegistered() && len(uris) == 0:
		r.APIs, err = e.ofScope(cmp.Or(scope.Without(oauth.OfflineAccess), c.Scope))
		return r, err
	case c.SelfRegistered() && !view.HasAPIs(iss.Realm):
		return r, nil
	case len(uris) == 0:
		if uris = iss.OpenOf(view, scope); len(uris) == 0 {
			return r, oauth.ErrTarget
		}
	}
	var named []resource
	foreign := 0 // URIs that name the client's audience and no API
	for _, uri := range uris {
		found, ok := e.findResource(uri)
		switch {
		case ok && slices.ContainsFunc(named, func(o resource) bool { return o.number == found.number }):
		case ok:
			named = append(named, found)
		case !slices.Contains(e.audience(), uri) || c.SelfRegistered():
			return r, oauth.ErrTarget
		default:
			foreign++
		}
	}
	switch {
	case len(named) == 0:
		if r.Scope = e.ownScope(); r.Scope == "" {
			err = oauth.ErrTarget
		}
		r.Default = r.Scope
		return r, err
	case foreign > 0 || len(named) > grant.MaxAPIs:
		return r, oauth.ErrTarget
	}
	r.Scope, r.Default = e.openIDScope(), ""
	if !c.SelfRegistered() {
		r.Default = r.Scope
	}
	for i, n := range named {
		r.APIs[i] = n.number
		r.Scope = r.Scope.Union(n.scope)
		switch {
		case !c.SelfRegistered():
			r.Default = r.Default.Union(n.scope)
		case n.api != nil:
			r.Default = r.Default.Union(n.api.DefaultScope)
		}
	}
	return r, nil
}

// ofScope returns the APIs to which the scopes of an operator's client belong. It appends
// the client's own audience if some scopes belong to no API. It returns none for a client
// without APIs, whose tokens are for its own audience alone.
func (e entitlements) ofScope(scope oauth.Scope) (apis grant.APIs, err error) {
	if len(e.c.APIs) == 0 {
		return apis, nil
	}
	n, rest := 0, false
	for _, api := range e.apisOf(scope.Common(e.c.Scope)) {
		switch {
		case api == own:
			rest = true
		case n == grant.MaxAPIs:
			return grant.APIs{}, oauth.ErrTarget
		default:
			apis[n] = api.Number
			n++
		}
	}
	if rest && n > 0 {
		apis[n] = store.ClientAudience
	}
	return apis, nil
}

// OpenOf returns the ids of the open APIs that a client which registered itself gets if
// its request names none: the only open API, or those to which the scopes belong.
func (iss *Issuer) OpenOf(view *directory.View, scope oauth.Scope) (ids []string) {
	open := view.OpenAPIs(iss.Realm)
	for _, a := range open {
		has := a.Scope()
		if oauth.CanonicalTarget(a.ID) == oauth.CanonicalTarget(iss.ID) {
			has = has.Union(oauth.OpenIDScopes)
		}
		if len(open) == 1 || has.Common(scope) != "" {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// ownScope returns the scopes of an operator-registered client that belong to none of its
// APIs.
func (e entitlements) ownScope() oauth.Scope {
	return e.c.Scope.Without(e.view.ScopeOf(e.iss.Realm, e.c.APIs))
}

// openIDScope returns the scopes of OpenID Connect that the client may have. A client that
// registered itself may have them if an operator has registered the issuer as an open
// API.
func (e entitlements) openIDScope() oauth.Scope {
	if !e.c.SelfRegistered() {
		return e.c.Scope.Common(oauth.OpenIDScopes)
	}
	if a, ok := e.view.API(e.iss.Realm, e.iss.ID); ok && a.Open {
		return oauth.OpenIDScopes
	}
	return ""
}

// AllowedScope returns the scopes that a client may have now.
func (iss *Issuer) AllowedScope(view *directory.View, c *store.Client) oauth.Scope {
	if !c.SelfRegistered() {
		return c.Scope
	}
	return c.Scope.Union(iss.of(view, c).openIDScope())
}

// findResource returns what the client may have of the API that a URI names.
func (e entitlements) findResource(uri string) (resource, bool) {
	if api, ok := e.view.API(e.iss.Realm, uri); ok {
		return e.allowed(api.Number)
	}
	if e.view.HasAPIs(e.iss.Realm) && oauth.CanonicalTarget(uri) == oauth.CanonicalTarget(e.iss.ID) {
		return e.allowed(store.IssuerAPI)
	}
	return resource{}, false
}

// lookup returns an API by its number, if it is still registered.
func (e entitlements) lookup(number uint16) (resource, bool) {
	switch number {
	case store.IssuerAPI:
		return resource{audience: []string{e.iss.ID}, number: number}, true
	case store.ClientAudience:
		return resource{audience: e.audience(), number: number}, true
	}
	api, ok := e.view.APIByNumber(e.iss.Realm, number)
	if !ok {
		return resource{}, false
	}
	return resource{audience: []string{api.ID}, number: number, api: api}, true
}

// allowed returns an API by its number, if the client may have tokens for it.
func (e entitlements) allowed(number uint16) (resource, bool) {
	r, ok := e.lookup(number)
	if !ok {
		return r, false
	}
	if r.is(e.iss.ID) {
		r.scope = e.openIDScope()
	}
	switch {
	case number == store.ClientAudience:
		r.scope = e.ownScope()
		return r, r.scope != ""
	case r.api == nil:
		return r, len(e.c.APIs) > 0 && r.scope != ""
	case e.c.SelfRegistered():
		r.scope = r.scope.Union(r.api.Scope())
		return r, r.api.Open
	}
	for _, text := range e.c.APIs {
		if l, err := store.ReadAllowedAPI(text); err == nil && r.is(l.ID) {
			r.scope = r.scope.Union(l.Of(r.api))
			return r, true
		}
	}
	return r, false
}

// target returns which of a grant's APIs a token request is for: the API that uri names, or
// all. For a grant without APIs it is nil, but refuses if the client has APIs and uri is
// not in the client's own audience.
func (e entitlements) target(apis grant.APIs, uri string) *grant.Target {
	if apis == (grant.APIs{}) {
		if uri == "" || len(e.c.APIs) == 0 || slices.Contains(e.audience(), uri) {
			return nil
		}
		return &grant.Target{Refusal: grant.TargetUnknown}
	}
	t := &grant.Target{}
	for i, number := range apis {
		r, ok := e.allowed(number)
		if number == 0 || !ok || uri != "" && !r.is(uri) {
			continue
		}
		t.APIs |= 1 << i
		if uri != "" {
			t.Scope = t.Scope.Union(r.scope).Union(oauth.OpenIDScopes)
		}
		if number == store.ClientAudience {
			continue // the APIs beside it decide
		}
		life := e.iss.Policy.AccessLifetime
		if r.api != nil {
			life = r.api.Lifetime(life)
		}
		if t.Lifetime == 0 || life < t.Lifetime {
			t.Lifetime = life
		}
	}
	switch {
	case t.APIs != 0:
		t.Lifetime = cmp.Or(t.Lifetime, e.iss.Policy.AccessLifetime)
	case uri != "":
		t.Refusal = grant.TargetUnknown
	default:
		t.Refusal = grant.TargetGone
	}
	return t
}

// named returns the audience and the format of access tokens for some of a grant's APIs:
// those whose positions in apis are set in positions. The format is JWT only if each of them
// has JWTs; the client's own audience counts only if it is alone. Without positions, both
// are those of the client's registration. named reports false if an API is no longer
// registered.
func (e entitlements) named(apis grant.APIs, positions uint8) (audience []string, format store.TokenFormat, ok bool) {
	if positions == 0 {
		return e.audience(), e.c.TokenFormat, apis == grant.APIs{}
	}
	for i, number := range apis {
		if positions&(1<<i) == 0 {
			continue
		}
		r, ok := e.lookup(number)
		if !ok {
			return nil, "", false
		}
		for _, aud := range r.audience {
			if !slices.Contains(audience, aud) {
				audience = append(audience, aud)
			}
		}
		if number == store.ClientAudience {
			continue
		}
		of := e.c.TokenFormat
		if r.api != nil {
			of = cmp.Or(r.api.TokenFormat, of)
		}
		if format == "" || of != store.TokenJWT {
			format = cmp.Or(of, store.TokenOpaque)
		}
	}
	return audience, cmp.Or(format, e.c.TokenFormat), len(audience) > 0 && positions>>len(apis) == 0
}

// standing reports whether every audience of a JWT is an API of its grant that is
// still registered. It reports true for a grant without APIs.
func (e entitlements) standing(apis grant.APIs, audience []string) bool {
	if apis == (grant.APIs{}) {
		return true
	}
	for _, id := range audience {
		if !slices.ContainsFunc(apis[:], func(number uint16) bool {
			r, ok := e.lookup(number)
			return ok && slices.Contains(r.audience, id)
		}) {
			return false
		}
	}
	return true
}

// longest returns the policy for verifying access tokens. Its access lifetime is the
// longest of all APIs.
func (iss *Issuer) longest(view *directory.View) grant.Policy {
	p := iss.Policy
	p.AccessLifetime = view.LongestAccess(p.AccessLifetime)
	return p
}

// An audience is one string or a list (RFC 7519 section 4.1.3). A list of one is
// written as a string, which every verifier understands.
type audience []string

func (a audience) MarshalJSON() ([]byte, error) {
	if len(a) == 1 {
		return json.Marshal(a[0])
	}
	return json.Marshal([]string(a))
}

func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// audience returns the audience of the client's access tokens.
func (e entitlements) audience() []string {
	if len(e.c.Audience) > 0 {
		return e.c.Audience
	}
	return []string{e.iss.ID}
}

// own stands for the client's audience beside those of APIs.
var own = &store.API{Number: store.IssuerAPI}

// apisOf returns the APIs that scopes of the client belong to. It includes own for scopes
// that belong to no API, but returns nil if all scopes do.
func (e entitlements) apisOf(scope oauth.Scope) (apis []*store.API) {
	for _, name := range scope.Tokens() {
		api := own
		if of, ok := e.view.APIOfScope(e.iss.Realm, name); ok {
			if r, may := e.allowed(of.Number); may && r.scope.Has(name) {
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
