package issuer

import (
	"cmp"
	"errors"
	"slices"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A resource is an API as a client may ask for it: a registered one, or the issuer,
// to which the scopes of OpenID Connect belong.
type resource struct {
	id     string // the aud of its tokens
	number uint16
	api    *store.API  // nil for the issuer, unless an operator has registered it
	scope  oauth.Scope // that the client may have of it
}

// Resources are what an authorization request asks for by resource.
type Resources struct {
	// APIs are the numbers of the APIs named; zero if none is.
	APIs grant.APIs
	// Scope is what the client may ask for.
	Scope oauth.Scope
	// Default is what it gets if it asks for no scope.
	Default oauth.Scope
}

// Resources reads the parameters resource of an authorization request (RFC 8707
// section 2.1). Its error is oauth.ErrTarget.
//
// For an operator's client, no resource means what it always meant: the audience of
// its registration. So does a resource of that audience, unless the client may have
// tokens for APIs. A client that registered itself gets the only API that is open.
func (iss *Issuer) Resources(view *directory.View, c *store.Client, uris []string) (r Resources, err error) {
	r = Resources{Scope: c.Scope, Default: c.Scope}
	if c.SelfRegistered() {
		open := view.OpenAPIs(iss.Realm)
		switch {
		case len(open) == 0 && !view.HasAPIs():
			return r, nil
		case len(uris) == 0 && len(open) == 1:
			uris = []string{open[0].ID}
		case len(uris) == 0:
			return r, oauth.ErrTarget
		}
	}
	var named []resource
	foreign := 0 // of the audience, and no API
	for _, uri := range uris {
		found, ok := iss.findResource(view, c, uri)
		switch {
		case ok && slices.ContainsFunc(named, func(o resource) bool { return o.number == found.number }):
		case ok:
			named = append(named, found)
		case !slices.Contains(iss.Audience(c), uri) || c.SelfRegistered():
			return r, oauth.ErrTarget
		default:
			foreign++
		}
	}
	switch {
	case len(named) == 0:
		return r, nil
	case foreign > 0 || len(named) > grant.MaxAPIs:
		return r, oauth.ErrTarget
	}
	r.Scope, r.Default = iss.openIDScope(view, c), ""
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

// openIDScope returns the scopes of OpenID Connect that a client may have. One that
// registered itself may have them if an operator has registered the issuer as an open
// API.
func (iss *Issuer) openIDScope(view *directory.View, c *store.Client) oauth.Scope {
	if !c.SelfRegistered() {
		return c.Scope.Common(oauth.OpenIDScopes)
	}
	if a, ok := view.API(iss.Realm, iss.ID); ok && a.Open {
		return oauth.OpenIDScopes
	}
	return ""
}

// AllowedScope returns the scopes that a client may have now.
func (iss *Issuer) AllowedScope(view *directory.View, c *store.Client) oauth.Scope {
	if !c.SelfRegistered() {
		return c.Scope
	}
	return c.Scope.Union(iss.openIDScope(view, c))
}

// findResource returns what a client may have of the API that a URI names.
func (iss *Issuer) findResource(view *directory.View, c *store.Client, uri string) (resource, bool) {
	if api, ok := view.API(iss.Realm, uri); ok {
		return iss.allowed(view, c, api.Number)
	}
	if view.HasAPIs() && oauth.CanonicalTarget(uri) == oauth.CanonicalTarget(iss.ID) {
		return iss.allowed(view, c, store.IssuerAPI)
	}
	return resource{}, false
}

// lookup returns an API by its number, if it is still registered.
func (iss *Issuer) lookup(view *directory.View, number uint16) (resource, bool) {
	if number == store.IssuerAPI {
		return resource{id: iss.ID, number: number}, true
	}
	api, ok := view.APIByNumber(iss.Realm, number)
	if !ok {
		return resource{}, false
	}
	return resource{id: api.ID, number: number, api: api}, true
}

// allowed returns an API by its number, if the client may have tokens for it.
func (iss *Issuer) allowed(view *directory.View, c *store.Client, number uint16) (resource, bool) {
	r, ok := iss.lookup(view, number)
	if !ok {
		return r, false
	}
	if oauth.CanonicalTarget(r.id) == oauth.CanonicalTarget(iss.ID) {
		r.scope = iss.openIDScope(view, c)
	}
	switch {
	case r.api == nil:
		return r, len(c.APIs) > 0 && r.scope != ""
	case c.SelfRegistered():
		r.scope = r.scope.Union(r.api.Scope())
		return r, r.api.Open
	}
	for _, text := range c.APIs {
		if l, err := store.ReadAllowedAPI(text); err == nil && oauth.CanonicalTarget(l.ID) == oauth.CanonicalTarget(r.id) {
			r.scope = r.scope.Union(l.Of(r.api))
			return r, true
		}
	}
	return r, false
}

// checkResources adds the APIs of an authorization to its code.
func (iss *Issuer) checkResources(r Resources, code *grant.Code) error {
	switch {
	case r.APIs == grant.APIs{}:
		return nil
	case iss.Directory.OlderNodes(store.FormsOfAPIs):
		return store.Unavailable(errors.New("a node runs an earlier version, which cannot read codes and tokens for APIs: upgrade all nodes"))
	}
	code.APIs = r.APIs
	return nil
}

// target returns what a token request asks for of a grant's APIs, or nil if APIs do
// not matter: the grant has none, and the client names none that matters.
func (iss *Issuer) target(view *directory.View, c *store.Client, apis grant.APIs, uri string) *grant.Target {
	if apis == (grant.APIs{}) {
		if uri == "" || len(c.APIs) == 0 || slices.Contains(iss.Audience(c), uri) {
			return nil
		}
		return &grant.Target{Refusal: grant.TargetUnknown}
	}
	t := &grant.Target{}
	for i, number := range apis {
		r, ok := iss.allowed(view, c, number)
		if number == 0 || !ok || uri != "" && oauth.CanonicalTarget(uri) != oauth.CanonicalTarget(r.id) {
			continue
		}
		t.APIs |= 1 << i
		if uri != "" {
			t.Scope = r.scope.Union(oauth.OpenIDScopes)
		}
		life := iss.Policy.AccessLifetime
		if r.api != nil {
			life = r.api.Lifetime(life)
		}
		if t.Lifetime == 0 || life < t.Lifetime {
			t.Lifetime = life
		}
	}
	switch {
	case t.APIs != 0:
	case uri != "":
		t.Refusal = grant.TargetUnknown
	default:
		t.Refusal = grant.TargetGone
	}
	return t
}

// named returns the audience and the format of access tokens that name positions in
// a grant's APIs: a JWT only if all of them have JWTs. Without APIs, both are as
// the client is registered. It reports false if an API is no longer registered.
func (iss *Issuer) named(view *directory.View, c *store.Client, apis grant.APIs, positions uint8) (audience []string, format store.TokenFormat, ok bool) {
	if positions == 0 {
		return iss.Audience(c), c.TokenFormat, apis == grant.APIs{}
	}
	format = store.TokenJWT
	for i, number := range apis {
		if positions&(1<<i) == 0 {
			continue
		}
		r, ok := iss.lookup(view, number)
		if !ok {
			return nil, "", false
		}
		of := c.TokenFormat
		if r.api != nil {
			of = cmp.Or(r.api.TokenFormat, of)
		}
		if of != store.TokenJWT {
			format = store.TokenOpaque
		}
		audience = append(audience, r.id)
	}
	return audience, format, len(audience) > 0 && positions>>grant.MaxAPIs == 0
}

// standing reports whether every audience of a JWT is an API of its grant that is
// still registered. A grant without APIs has none to look up.
func (iss *Issuer) standing(view *directory.View, apis grant.APIs, audience []string) bool {
	if apis == (grant.APIs{}) {
		return true
	}
	for _, id := range audience {
		if !slices.ContainsFunc(apis[:], func(number uint16) bool {
			r, ok := iss.lookup(view, number)
			return ok && r.id == id
		}) {
			return false
		}
	}
	return true
}

// longest is the policy by which access tokens are verified: those of an API may
// live longer than others.
func (iss *Issuer) longest(view *directory.View) grant.Policy {
	p := iss.Policy
	p.AccessLifetime = view.LongestAccess(p.AccessLifetime)
	return p
}
