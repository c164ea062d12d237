package issuer

import (
	"iter"
	"maps"
	"slices"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// maxScopes bounds the list of scopes in the metadata.
const maxScopes = 200

// A View is the directory at one version. It does not change.
type View struct {
	Ring    *keys.Ring
	version int64
	clients map[string]*registration
	origins map[originName]int // how many URIs of public clients have it
	cutoffs map[cutoffName]grant.Instant
	restore grant.Restore
	scopes  func() []string // made once, of clients
}

type registration struct {
	store.Client
	uses    []*use       // of Client.Secrets, in their order
	origins []originName // of a public client's redirect URIs
}

type cutoffName struct{ realm, subject, client string }

type originName struct{ realm, origin string }

func noView() *View {
	return &View{clients: map[string]*registration{}, origins: map[originName]int{}, cutoffs: map[cutoffName]grant.Instant{}, scopes: func() []string { return nil }}
}

// Cutoff is the latest cutoff that applies to a subject's grant to a client,
// or zero.
func (v *View) Cutoff(realm, subject, client string) grant.Instant {
	if len(v.cutoffs) == 0 {
		return 0
	}
	return max(
		v.cutoffs[cutoffName{realm, subject, ""}],
		v.cutoffs[cutoffName{realm, "", client}],
		v.cutoffs[cutoffName{realm, subject, client}],
	)
}

// Cutoffs lists the cutoffs of a realm, in no order.
func (v *View) Cutoffs(realm string) iter.Seq[store.Cutoff] {
	return func(yield func(store.Cutoff) bool) {
		for name, at := range v.cutoffs {
			if name.realm == realm && !yield(store.Cutoff{Realm: realm, Subject: name.subject, ClientID: name.client, At: at}) {
				return
			}
		}
	}
}

// CutoffsOf lists the cutoffs that name a subject, a client or the pair.
func (v *View) CutoffsOf(realm, subject, client string) (list []store.Cutoff) {
	for _, name := range []cutoffName{{realm, subject, ""}, {realm, "", client}, {realm, subject, client}} {
		if at := v.cutoffs[name]; at != 0 {
			list = append(list, store.Cutoff{Realm: realm, Subject: name.subject, ClientID: name.client, At: at})
		}
	}
	return list
}

// Restore is the latest that was declared, or the zero Restore. What an earlier
// one explains, the later one explains too: it lasts until all of them have
// ended, because a token of before an earlier one may live longer than those of
// before the later one.
func (v *View) Restore() grant.Restore { return v.restore }

// Client finds an enabled client of a realm.
func (v *View) Client(realm, id string) (*store.Client, bool) {
	r := v.clients[id]
	if r == nil || r.Realm != realm || r.State != store.ClientEnabled {
		return nil, false
	}
	return &r.Client, true
}

// Registered finds a client of a realm in whatever state.
func (v *View) Registered(realm, id string) (*store.Client, bool) {
	r := v.clients[id]
	if r == nil || r.Realm != realm {
		return nil, false
	}
	return &r.Client, true
}

// Clients lists the clients of a realm in whatever state, in no order.
func (v *View) Clients(realm string) iter.Seq[*store.Client] {
	return func(yield func(*store.Client) bool) {
		for _, r := range v.clients {
			if r.Realm == realm && !yield(&r.Client) {
				return
			}
		}
	}
}

// scriptOrigins returns the web origins whose scripts redeem and refresh the
// client's tokens: those of its redirect URIs, if it is a public client that may
// authenticate.
func scriptOrigins(c store.Client) (list []originName) {
	if !c.Public() || c.State != store.ClientEnabled {
		return nil
	}
	for _, uri := range c.RedirectURIs {
		if origin := oauth.RedirectOrigin(uri, c.Native); origin != "" {
			list = append(list, originName{c.Realm, origin})
		}
	}
	return list
}

// countOrigins adds n for each of r's redirect URIs. r may be nil.
func (v *View) countOrigins(r *registration, n int) {
	if r == nil {
		return
	}
	for _, o := range r.origins {
		if v.origins[o] += n; v.origins[o] == 0 {
			delete(v.origins, o)
		}
	}
}

// IsScriptOrigin reports whether origin is that of a redirect URI of an enabled
// public client, at the cost of one or two lookups. It reads the directory as
// last polled, however long ago: a script must be able to read a 503.
func (d *Directory) IsScriptOrigin(realm, origin string) bool {
	v := d.view.Load()
	if v.origins[originName{realm, origin}] > 0 {
		return true
	}
	chosen := oauth.OriginOfAnyPort(origin)
	return chosen != "" && v.origins[originName{realm, chosen}] > 0
}

// scopesOf returns the scopes that enabled clients may ask for, sorted.
func scopesOf(clients map[string]*registration) []string {
	set := map[string]bool{}
	for _, r := range clients {
		if r.State == store.ClientEnabled && r.MayUse(store.GrantAuthorizationCode) {
			for _, name := range r.Scope.Tokens() {
				set[name] = true
			}
		}
	}
	list := slices.Sorted(maps.Keys(set))
	return list[:min(len(list), maxScopes)]
}

// Scopes returns the scopes that enabled clients may ask for, sorted; of very
// many, the first. It reads the directory as last polled, however long ago.
func (d *Directory) Scopes() []string { return d.view.Load().scopes() }
