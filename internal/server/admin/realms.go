package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
)

const realmsPath = "/admin/v1/realms"

// Realms returns the handler of the admin APIs of all realms, the default one first. The
// paths of other realms are below /admin/v1/realms/{realm}/.
func Realms(list []*API) http.Handler {
	others := map[string]http.Handler{}
	var realms []adminapi.Realm
	for _, a := range list {
		realms = append(realms, a.Realm)
	}
	for _, a := range list {
		a.realms, a.changes, a.rows, a.lists, a.lookups, a.searches = realms, list[0].changes, list[0].rows, list[0].lists, list[0].lookups, list[0].searches
		a.cases.OperatorRealm = list[0].cases.OperatorRealm
		others[a.Realm.Name] = a.Handler()
	}
	main := others[list[0].Realm.Name]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, named := strings.CutPrefix(r.URL.EscapedPath(), realmsPath+"/")
		name, below, deeper := strings.Cut(rest, "/")
		path, _ := url.PathUnescape(below) // EscapedPath is valid
		of := others[name]
		if !named || !deeper || of == nil {
			main.ServeHTTP(w, r)
			return
		}
		next, u := *r, *r.URL
		u.Path, u.RawPath = "/admin/v1/"+path, "/admin/v1/"+below
		next.URL = &u
		of.ServeHTTP(w, &next)
	})
}

func (a *API) listRealms(x *call, _ *admin.Admin) (any, error) {
	list := a.realms
	if x.actor.Realm != "" {
		list = []adminapi.Realm{a.Realm} // its own realm: see reaches
	}
	return adminapi.Realms{Realms: list}, nil
}

// ofRealm reports whether the route is about what one realm has. Every other route is the
// deployment's, also a new one until it is listed here.
func (rt Route) ofRealm() bool {
	return rt.about("clients", "apis", "trusts", "assertions", "users", "imports", "grants", "sessions", "cutoffs", "events", "codes", "logins", "explain") || rt.Path == realmsPath || rt.Path == auditPath
}

// about reports whether the route's path begins with one of resources.
func (rt Route) about(resources ...string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(rt.Path, "/admin/v1/"), "/")
	return slices.Contains(resources, first)
}
