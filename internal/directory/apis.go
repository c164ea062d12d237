package directory

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// apis are the registered APIs of a View. It does not change.
type apis struct {
	byID     table[apiName, *store.API] // also deleted ones
	byNumber table[apiNumber, *store.API]
	owner    table[apiName, *store.API] // by the name of a scope
	sorted   order[*store.API]          // by realm and id
	open     order[*store.API]          // of sorted, those of clients that registered themselves
	timed    order[*store.API]          // those with a lifetime of their own, the shortest first
	last     map[string]uint16          // the highest number of a realm
	longest  time.Duration              // that access tokens of an API ever lived
}

type apiName struct{ realm, name string }

type apiNumber struct {
	realm  string
	number uint16
}

func compareAPIs(a, b *store.API) int {
	return cmp.Or(strings.Compare(a.Realm, b.Realm), strings.Compare(a.ID, b.ID))
}

func compareLifetimes(a, b *store.API) int {
	return cmp.Or(cmp.Compare(a.Lifetime(0), b.Lifetime(0)), compareAPIs(a, b))
}

// with returns the APIs with those that have changed. a may be nil.
func (a *apis) with(changed []store.API) *apis {
	if a == nil {
		a = &apis{sorted: order[*store.API]{compare: compareAPIs}, open: order[*store.API]{compare: compareAPIs}, timed: order[*store.API]{compare: compareLifetimes}}
	}
	byID, byNumber, owner := a.byID.change(), a.byNumber.change(), a.owner.change()
	sorted, open, timed := a.sorted.change(), a.open.change(), a.timed.change()
	next := &apis{last: maps.Clone(a.last), longest: a.longest}
	if next.last == nil {
		next.last = map[string]uint16{}
	}
	for i := range changed {
		api := &changed[i]
		name := apiName{api.Realm, oauth.CanonicalTarget(api.ID)}
		if was := byID.get(name); was != nil && !was.Deleted {
			byNumber.delete(apiNumber{was.Realm, was.Number})
			for _, s := range was.Scopes {
				if scope := (apiName{was.Realm, s.Name}); owner.get(scope) == was {
					owner.delete(scope)
				}
			}
			sorted.remove(was)
			open.remove(was)
			timed.remove(was)
		}
		byID.set(name, api)
		next.longest = max(next.longest, api.LongestLifetime.Duration())
		next.last[api.Realm] = max(next.last[api.Realm], api.Number)
		if api.Deleted {
			continue
		}
		byNumber.set(apiNumber{api.Realm, api.Number}, api)
		for _, s := range api.Scopes {
			owner.set(apiName{api.Realm, s.Name}, api)
		}
		sorted.insert(api)
		if api.Open {
			open.insert(api)
		}
		if api.Lifetime(0) != 0 {
			timed.insert(api)
		}
	}
	next.byID, next.byNumber, next.owner = byID.table, byNumber.table, owner.table
	next.sorted, next.open, next.timed = sorted.order, open.order, timed.order
	return next
}

// apisOf lists the APIs of a realm, after an id.
func apisOf(sorted order[*store.API], realm, after string) iter.Seq[*store.API] {
	return func(yield func(*store.API) bool) {
		for api := range sorted.from(func(api *store.API) int {
			return cmp.Or(strings.Compare(api.Realm, realm), strings.Compare(api.ID, after))
		}) {
			if api.Realm != realm || (after == "" || api.ID != after) && !yield(api) {
				return
			}
		}
	}
}

// allowed returns the scope of c with what it may have of APIs. a may be nil.
func (a *apis) allowed(c *store.Client, registered oauth.Scope) oauth.Scope {
	for _, text := range c.APIs {
		allowed, err := store.ReadAllowedAPI(text)
		if err != nil {
			continue // registration refuses it
		}
		if api := a.find(c.Realm, allowed.ID); api != nil {
			registered = registered.Union(allowed.Of(api))
		}
	}
	return registered
}

// find returns a present API by its id, or nil. a may be nil.
func (a *apis) find(realm, id string) *store.API {
	if a == nil {
		return nil
	}
	api := a.byID.get(apiName{realm, oauth.CanonicalTarget(id)})
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
	api := v.apis.byNumber.get(apiNumber{realm, number})
	return api, api != nil
}

// APIOfScope returns the registered API that has a scope.
func (v *View) APIOfScope(realm, scope string) (*store.API, bool) {
	if v.apis == nil {
		return nil, false
	}
	api := v.apis.owner.get(apiName{realm, scope})
	return api, api != nil
}

// APIs returns the registered APIs of a realm, sorted by id.
func (v *View) APIs(realm string) []*store.API { return slices.Collect(v.APIsAfter(realm, "")) }

// APIsAfter lists the registered APIs of a realm in the order of their ids, after one.
func (v *View) APIsAfter(realm, id string) iter.Seq[*store.API] {
	if v.apis == nil {
		return func(func(*store.API) bool) {}
	}
	return apisOf(v.apis.sorted, realm, id)
}

// APIRow returns the row of an API's id, present or deleted; the zero API if there is
// none.
func (v *View) APIRow(realm, id string) (row store.API) {
	if v.apis != nil {
		if api := v.apis.byID.get(apiName{realm, oauth.CanonicalTarget(id)}); api != nil {
			row = *api
		}
	}
	return row
}

// LastAPI returns the highest number that an API of a realm has, or had.
func (v *View) LastAPI(realm string) uint16 {
	if v.apis == nil {
		return 0
	}
	return v.apis.last[realm]
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
	if v.apis != nil {
		for api := range v.apis.timed.all {
			return min(life, api.Lifetime(life))
		}
	}
	return life
}
