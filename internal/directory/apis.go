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

// apis holds the registered APIs of a View. It is immutable.
type apis struct {
	byID     table[apiName, *store.API] // also deleted ones
	byNumber table[apiNumber, *store.API]
	owner    table[apiName, *store.API] // by the name of a scope
	sorted   order[*store.API]          // by realm and id; searchable by id and name
	open     order[*store.API]          // the APIs that are open to clients which registered themselves
	timed    order[*store.API]          // the APIs with a lifetime of their own, the shortest first
	last     map[string]uint16          // the highest number of an API, by realm
	longest  time.Duration              // the longest lifetime that an API ever gave its access tokens
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
	return cmp.Or(strings.Compare(a.Realm, b.Realm), cmp.Compare(a.Lifetime(0), b.Lifetime(0)), compareAPIs(a, b))
}

func noAPIs() *apis {
	text := func(api *store.API) string { return strings.ToLower(api.ID + "\x00" + api.Name) }
	return &apis{sorted: order[*store.API]{compare: compareAPIs, text: text}, open: order[*store.API]{compare: compareAPIs}, timed: order[*store.API]{compare: compareLifetimes}}
}

// with returns a copy of a with the changed APIs in place of their predecessors.
func (a *apis) with(changed []store.API) *apis {
	byID, byNumber, owner := a.byID.change(), a.byNumber.change(), a.owner.change()
	sorted, open, timed := a.sorted.change(), a.open.change(), a.timed.change()
	room := len(changed) / shardCount
	byID.room, byNumber.room, owner.room = room, room, room
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

// apisOf lists the APIs of a realm that follow an id. With a lower-case text, it skips most
// APIs without the text in id or name; the caller must filter the rest.
func apisOf(sorted order[*store.API], realm, after, text string) iter.Seq[*store.API] {
	past := func(api *store.API) int {
		return cmp.Or(strings.Compare(api.Realm, realm), strings.Compare(api.ID, after), -1)
	}
	return sorted.having(text, past, func(api *store.API) bool { return api.Realm == realm })
}

// scopeOf returns the scopes that a list of APIs allows (see store.ReadAllowedAPI).
func (a *apis) scopeOf(realm string, list []string) (scope oauth.Scope) {
	for _, text := range list {
		allowed, err := store.ReadAllowedAPI(text)
		if api := a.find(realm, allowed.ID); api != nil && err == nil { // registration refuses others
			scope = scope.Union(allowed.Of(api))
		}
	}
	return scope
}

// find returns a present API by its id, or nil.
func (a *apis) find(realm, id string) *store.API {
	api := a.byID.get(apiName{realm, oauth.CanonicalTarget(id)})
	if api == nil || api.Deleted {
		return nil
	}
	return api
}

// HasAPIs reports whether an API of a realm is registered, or was.
func (v *View) HasAPIs(realm string) bool { return v.LastAPI(realm) != 0 }

// API returns a registered API by its id, as a client spells it (see
// oauth.CanonicalTarget).
func (v *View) API(realm, id string) (*store.API, bool) {
	api := v.apis.find(realm, id)
	return api, api != nil
}

// APIByNumber returns a registered API by its number.
func (v *View) APIByNumber(realm string, number uint16) (*store.API, bool) {
	api := v.apis.byNumber.get(apiNumber{realm, number})
	return api, api != nil
}

// APIOfScope returns the registered API that has a scope.
func (v *View) APIOfScope(realm, scope string) (*store.API, bool) {
	api := v.apis.owner.get(apiName{realm, scope})
	return api, api != nil
}

// APIs returns the registered APIs of a realm, sorted by id.
func (v *View) APIs(realm string) []*store.API { return slices.Collect(v.APIsAfter(realm, "", "")) }

// APIsAfter lists the registered APIs of a realm that follow an id, sorted by id. With a
// lower-case text, it skips most APIs without the text in id or name; the caller must filter
// the rest.
func (v *View) APIsAfter(realm, id, text string) iter.Seq[*store.API] {
	return apisOf(v.apis.sorted, realm, id, text)
}

// ScopeOf returns the scopes that a list of APIs allows (see store.ReadAllowedAPI).
func (v *View) ScopeOf(realm string, list []string) oauth.Scope { return v.apis.scopeOf(realm, list) }

// APIRow returns the row of an API's id, present or deleted; the zero API if there is
// none.
func (v *View) APIRow(realm, id string) (row store.API) {
	if api := v.apis.byID.get(apiName{realm, oauth.CanonicalTarget(id)}); api != nil {
		row = *api
	}
	return row
}

// LastAPI returns the highest number that an API of a realm has, or had.
func (v *View) LastAPI(realm string) uint16 {
	return v.apis.last[realm]
}

// LongestAccess returns the longest lifetime that access tokens have, or had for an API.
// life is the deployment's lifetime.
func (v *View) LongestAccess(life time.Duration) time.Duration {
	return max(life, v.apis.longest)
}

// ShortestAccess returns the shortest lifetime that access tokens of a realm have. life is
// the realm's own lifetime.
func (v *View) ShortestAccess(realm string, life time.Duration) time.Duration {
	from := func(api *store.API) int { return strings.Compare(api.Realm, realm) }
	for api := range v.apis.timed.having("", from, func(api *store.API) bool { return api.Realm == realm }) {
		return min(life, api.Lifetime(life)) // the first is the shortest
	}
	return life
}
