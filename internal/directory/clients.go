package directory

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// clients are the clients of a View, and what is counted of them, so that nothing has
// to read all of them. It does not change.
type clients struct {
	byID    table[clientName, *registration]
	sorted  order[*registration]             // by realm, name and id
	origins table[originName, int]           // number of redirect URIs of public clients
	known   table[scopeName, int]            // number of clients that have a scope without an API
	offered table[scopeName, int]            // of those, the enabled ones that log users in
	windows table[windowName, int]           // number of clients, but deleted ones, with a retry window
	barred  table[clientName, *registration] // those of byID that registered themselves
	beyond  table[clientName, *registration] // enabled ones with Beyond
	// expiring are the secrets of enabled clients that expire, the next first.
	expiring order[ExpiringSecret]
	// longest is the longest lifetime of id_tokens that a registration gives, or gave.
	longest time.Duration
}

type registration struct {
	store.Client              // as registered
	key          string       // by which lists are sorted
	uses         []*use       // of Client.Secrets, in their order
	origins      []originName // of a public client's redirect URIs
	allowed      atomic.Pointer[allowedClient]
}

// An allowedClient is a client with what it may have of APIs.
type allowedClient struct {
	store.Client
	apis *apis
}

type (
	clientName struct{ realm, id string }
	originName struct{ realm, origin string }
	scopeName  struct{ realm, scope string }
	windowName struct {
		realm  string
		window store.Milliseconds
	}
)

func noClients() *clients {
	return &clients{
		sorted: order[*registration]{compare: func(a, b *registration) int {
			return cmp.Or(strings.Compare(a.Realm, b.Realm), strings.Compare(a.key, b.key))
		}},
		expiring: order[ExpiringSecret]{compare: func(a, b ExpiringSecret) int {
			return cmp.Or(cmp.Compare(a.ExpiresAt, b.ExpiresAt), cmp.Compare(a.Realm, b.Realm), cmp.Compare(a.ClientID, b.ClientID), cmp.Compare(a.ID, b.ID))
		}},
	}
}

// with returns the clients with those that have changed.
func (c *clients) with(changed []store.Client, uses *uses) *clients {
	byID, barred, beyond, sorted, expiring := c.byID.change(), c.barred.change(), c.beyond.change(), c.sorted.change(), c.expiring.change()
	origins, known, offered, windows := c.origins.change(), c.known.change(), c.offered.change(), c.windows.change()
	next := &clients{longest: c.longest}
	count := func(r *registration, n int) {
		for _, o := range r.origins {
			add(origins, o, n)
		}
		for _, scope := range r.Scope.Tokens() {
			add(known, scopeName{r.Realm, scope}, n)
			if r.State == store.ClientEnabled && r.MayUse(store.GrantAuthorizationCode) {
				add(offered, scopeName{r.Realm, scope}, n)
			}
		}
		if r.RetryWindow != nil && r.State != store.ClientDeleted {
			add(windows, windowName{r.Realm, *r.RetryWindow}, n)
		}
	}
	for _, client := range changed {
		name := clientName{client.Realm, client.ID}
		if was := byID.get(name); was != nil {
			count(was, -1)
			sorted.remove(was)
			byID.delete(name)
			barred.delete(name)
			beyond.delete(name)
			for _, s := range was.expiring() {
				expiring.remove(s)
			}
		}
		if !client.Decides() {
			continue
		}
		r := &registration{Client: client, key: strings.ToLower(client.Name) + client.ID, origins: scriptOrigins(client)}
		for _, s := range client.Secrets {
			r.uses = append(r.uses, uses.of(s.ID))
		}
		count(r, 1)
		sorted.insert(r)
		byID.set(name, r)
		if client.SelfRegistered() {
			barred.set(name, r)
		}
		if r.State == store.ClientEnabled && len(r.Beyond) > 0 {
			beyond.set(name, r)
		}
		for _, s := range r.expiring() {
			expiring.insert(s)
		}
		next.longest = max(next.longest, client.LongestIDTokens())
	}
	next.byID, next.barred, next.beyond, next.sorted, next.expiring = byID.table, barred.table, beyond.table, sorted.order, expiring.order
	next.origins, next.known, next.offered, next.windows = origins.table, known.table, offered.table, windows.table
	return next
}

// find returns a client in any state, or nil.
func (c *clients) find(realm, id string) *registration { return c.byID.get(clientName{realm, id}) }

// scriptOrigins returns the web origins whose scripts redeem and refresh the
// client's tokens: those of its redirect URIs, if it is a public client that may
// authenticate.
func scriptOrigins(c store.Client) (list []originName) {
	if !c.Public() || c.State != store.ClientEnabled {
		return nil
	}
	for _, uri := range c.RedirectURIs {
		if origin := oauth.RedirectOrigin(uri); origin != "" {
			list = append(list, originName{c.Realm, origin})
		}
	}
	return list
}

// expiring returns the secrets of an enabled client that expire.
func (r *registration) expiring() (list []ExpiringSecret) {
	if r.State != store.ClientEnabled {
		return nil
	}
	for _, s := range r.Secrets {
		if s.ExpiresAt != 0 {
			outlives := func(o store.Secret) bool { return o.ExpiresAt == 0 || o.ExpiresAt > s.ExpiresAt }
			list = append(list, ExpiringSecret{r.Realm, r.ID, s, slices.ContainsFunc(r.Secrets, outlives)})
		}
	}
	return list
}

// at returns the client as it stands with the APIs of a view: a scope of an API that a
// client may have is in its Scope. It is computed once for each set of APIs, when the
// client is used, so that a change of an API does not visit every client.
func (r *registration) at(apis *apis) *store.Client {
	if len(r.APIs) == 0 {
		return &r.Client
	}
	known := r.allowed.Load()
	if known == nil || known.apis != apis {
		known = &allowedClient{r.Client, apis}
		known.Scope = apis.allowed(&r.Client, r.Scope)
		r.allowed.Store(known)
	}
	return &known.Client
}

// Client returns an enabled client of a realm. Its Scope includes what it may have
// of APIs.
func (v *View) Client(realm, id string) (*store.Client, bool) {
	r := v.clients.find(realm, id)
	if r == nil || r.State != store.ClientEnabled {
		return nil, false
	}
	return r.at(v.apis), true
}

// Registered returns a client of a realm in any state. Its Scope includes what it may
// have of APIs.
func (v *View) Registered(realm, id string) (*store.Client, bool) {
	r := v.clients.find(realm, id)
	if r == nil {
		return nil, false
	}
	return r.at(v.apis), true
}

// Clients lists the clients of a realm in any state as they are registered, sorted by
// name: in any case, and those of one name by id.
func (v *View) Clients(realm string) iter.Seq[*store.Client] { return v.clients.after(realm, "", "") }

// ClientsAfter lists what follows a client in the list of Clients, and reports whether
// the client is in it. An empty id is before the first. With a text in small letters, it
// leaves out most clients that have it neither in the name nor in the id.
func (v *View) ClientsAfter(realm, id, text string) (iter.Seq[*store.Client], bool) {
	if id == "" {
		return v.clients.after(realm, "", text), true
	}
	r := v.clients.find(realm, id)
	if r == nil {
		return nil, false
	}
	return v.clients.after(realm, r.key, text), true
}

func (c *clients) after(realm, key, text string) iter.Seq[*store.Client] {
	return func(yield func(*store.Client) bool) {
		for r := range c.sorted.from(func(r *registration) int { return cmp.Or(strings.Compare(r.Realm, realm), strings.Compare(r.key, key)) }) {
			if r.Realm == realm && (r.key == key || !strings.Contains(strings.ToLower(r.key), text)) {
				continue
			}
			if r.Realm != realm || !yield(&r.Client) {
				return
			}
		}
	}
}

// Barred lists the clients of a realm that registered themselves and that an operator
// has disabled or deleted, in no order.
func (v *View) Barred(realm string) iter.Seq[*store.Client] {
	return func(yield func(*store.Client) bool) {
		for name, r := range v.clients.barred.all {
			if name.realm == realm && !yield(&r.Client) {
				return
			}
		}
	}
}

// Beyond lists the clients that may have more than the users of a client agree to, by
// exchanging their tokens, sorted by name.
func (v *View) Beyond(realm, id string) (list []*store.Client) {
	for name, r := range v.clients.beyond.all {
		if name.realm == realm && (slices.Contains(r.ExchangeFrom, id) || slices.Contains(r.ExchangeFrom, grant.EveryClient)) {
			list = append(list, &r.Client)
		}
	}
	slices.SortFunc(list, func(a, b *store.Client) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return list
}

// ClientsHave reports whether a client of a realm has a scope without an API, or had it
// when it was deleted.
func (v *View) ClientsHave(realm, scope string) bool {
	return v.clients.known.get(scopeName{realm, scope}) > 0
}

// LongestRetryWindow returns the longest retry window that the registration of a client
// of a realm gives, or zero.
func (v *View) LongestRetryWindow(realm string) (longest time.Duration) {
	for name := range v.clients.windows.all {
		if name.realm == realm {
			longest = max(longest, name.window.Duration())
		}
	}
	return longest
}

// IDTokenLifetime returns the longest lifetime that a client's registration gives, or
// gave, its id_tokens, or zero.
func (v *View) IDTokenLifetime() time.Duration { return v.clients.longest }
