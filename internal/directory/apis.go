package directory

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// apis are the registered APIs of a View. It does not change.
type apis struct {
	byID     map[apiName]*store.API
	byNumber map[apiNumber]*store.API
	owner    map[apiName]*store.API // by the name of a scope
	longest  time.Duration          // that access tokens of an API ever lived
	shortest time.Duration          // that those of a present API live; 0: none has a lifetime of its own
}

type apiName struct{ realm, name string }

type apiNumber struct {
	realm  string
	number uint16
}

// with returns the APIs with those that have changed. a may be nil.
func (a *apis) with(changed []store.API) *apis {
	rows := map[apiName]*store.API{}
	if a != nil {
		maps.Copy(rows, a.byID)
	}
	for _, c := range changed {
		rows[apiName{c.Realm, oauth.CanonicalTarget(c.ID)}] = &c
	}
	next := &apis{byID: rows, byNumber: map[apiNumber]*store.API{}, owner: map[apiName]*store.API{}}
	for _, api := range rows {
		next.longest = max(next.longest, api.LongestLifetime.Duration())
		if api.Deleted {
			continue
		}
		next.byNumber[apiNumber{api.Realm, api.Number}] = api
		for _, s := range api.Scopes {
			next.owner[apiName{api.Realm, s.Name}] = api
		}
		if life := api.Lifetime(0); life != 0 && (next.shortest == 0 || life < next.shortest) {
			next.shortest = life
		}
	}
	return next
}

// clientsOfAPIs returns the clients that may have tokens for APIs, as registered,
// without those that have changed.
func (v *View) clientsOfAPIs(changed []store.Client) (list []store.Client) {
	for r := range v.everyClient() {
		if len(r.APIs) > 0 && !slices.ContainsFunc(changed, func(c store.Client) bool { return c.Realm == r.Realm && c.ID == r.ID }) {
			c := r.Client
			c.Scope = r.registered
			list = append(list, c)
		}
	}
	return list
}

// allow adds what c may have of APIs to its scope.
func (a *apis) allow(c *store.Client, registered oauth.Scope) {
	c.Scope = registered
	for _, text := range c.APIs {
		allowed, err := store.ReadAllowedAPI(text)
		if err != nil {
			continue // registration refuses it
		}
		if api := a.find(c.Realm, allowed.ID); api != nil {
			c.Scope = c.Scope.Union(allowed.Of(api))
		}
	}
}

// find returns a present API by its id, or nil. a may be nil.
func (a *apis) find(realm, id string) *store.API {
	if a == nil {
		return nil
	}
	api := a.byID[apiName{realm, oauth.CanonicalTarget(id)}]
	if api == nil || api.Deleted {
		return nil
	}
	return api
}

// HasAPIs reports whether an API is registered, or was.
func (v *View) HasAPIs() bool { return v.apis != nil }

// API returns a registered API by its id, as a client spells it (see
// oauth.CanonicalTarget).
func (v *View) API(realm, id string) (*store.API, bool) {
	api := v.apis.find(realm, id)
	return api, api != nil
}

// APIByNumber returns a registered API by its number.
func (v *View) APIByNumber(realm string, number uint16) (*store.API, bool) {
	if v.apis == nil {
		return nil, false
	}
	api := v.apis.byNumber[apiNumber{realm, number}]
	return api, api != nil
}

// APIOfScope returns the registered API that has a scope.
func (v *View) APIOfScope(realm, scope string) (*store.API, bool) {
	if v.apis == nil {
		return nil, false
	}
	api := v.apis.owner[apiName{realm, scope}]
	return api, api != nil
}

// APIs returns the registered APIs of a realm, sorted by id.
func (v *View) APIs(realm string) (list []*store.API) {
	if v.apis == nil {
		return nil
	}
	for n, api := range v.apis.byNumber {
		if n.realm == realm {
			list = append(list, api)
		}
	}
	slices.SortFunc(list, func(a, b *store.API) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// LongestAccess returns the longest lifetime that access tokens have, or had for an
// API, if the deployment's is life.
func (v *View) LongestAccess(life time.Duration) time.Duration {
	if v.apis == nil {
		return life
	}
	return max(life, v.apis.longest)
}

// ShortestAccess returns the shortest lifetime that access tokens have if the
// deployment's is life.
func (v *View) ShortestAccess(life time.Duration) time.Duration {
	if v.apis == nil || v.apis.shortest == 0 {
		return life
	}
	return min(life, v.apis.shortest)
}
