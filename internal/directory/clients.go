package directory

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// clients holds the clients of a View, and counts that would otherwise need a scan of all
// clients. It is immutable.
type clients struct {
	byID    table[clientName, *registration]
	sorted  order[*registration]   // by realm, name and id
	origins table[originName, int] // number of redirect URIs of public clients
	known   table[scopeName, int]  // number of clients that have a scope without an API
	offered table[scopeName, int]  // of those, the enabled ones that log users in
	windows table[windowName, int] // number of clients, but deleted ones, with a retry window
	marked  [marks]table[clientName, *registration]
	// expiring are the secrets of enabled clients that expire, the next first.
	expiring order[ExpiringSecret]
	// longest is the longest lifetime of id_tokens that a registration gives, or gave.
	longest time.Duration
}

// A Mark is a property that few clients have. A table finds them without a scan of all.
type Mark int

const (
	Barred   Mark = iota // registered itself, and an operator has disabled or deleted it
	beyond               // may exchange users' tokens for more than the users agreed to
	Notified             // is notified of logouts, if it is enabled
	Ending               // its grants end with the session
	Stopped              // is disabled or deleted
	departed             // deviates from the specification
	marks
)

// has reports whether c, an entry of the directory, has a mark.
func (m Mark) has(c *store.Client) bool {
	enabled := c.State == store.ClientEnabled
	switch m {
	case Barred:
		return c.SelfRegistered()
	case beyond:
		return enabled && len(c.Beyond) > 0
	case Notified:
		return c.LogoutURI != ""
	case Ending:
		return c.LogoutEndsGrants
	case Stopped:
		return !enabled
	}
	return enabled && c.NoRotation && !c.FAPI()
}

type registration struct {
	*store.Client              // as registered
	key           string       // by which lists are sorted
	uses          []*use       // of Client.Secrets, in their order
	origins       []originName // of a public client's redirect URIs
	allowed       atomic.Pointer[allowedClient]
}

// uses holds the last use of each secret that the directory has read, and which of
// them the store lacks.
type uses struct {
	byID map[string]*use // by secret id

	mu    sync.Mutex
	noted map[*use]bool // those that may be newer than the stored ones
}

// A use is the last use of a secret: at in memory, and written in the store.
type use struct {
	id          string
	all         *uses
	at, written atomic.Int64
}

func newUses() *uses { return &uses{byID: map[string]*use{}, noted: map[*use]bool{}} }

// of returns the use of a secret.
func (u *uses) of(secret string) *use {
	found := u.byID[secret]
	if found == nil {
		found = &use{id: secret, all: u}
		u.byID[secret] = found
	}
	return found
}

// An allowedClient is a client with the scopes in its Scope that it is allowed of apis.
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
		}, text: func(r *registration) string { return strings.ToLower(r.key) }},
		expiring: order[ExpiringSecret]{compare: func(a, b ExpiringSecret) int {
			return cmp.Or(cmp.Compare(a.ExpiresAt, b.ExpiresAt), cmp.Compare(a.Realm, b.Realm), cmp.Compare(a.ClientID, b.ClientID), cmp.Compare(a.ID, b.ID))
		}},
	}
}

// with returns a copy of c with the changed clients in place of their predecessors. The
// caller must not write to changed any more.
func (c *clients) with(changed []store.Client, uses *uses) *clients {
	byID, sorted, expiring := c.byID.change(), c.sorted.change(), c.expiring.change()
	origins, known, offered, windows := c.origins.change(), c.known.change(), c.offered.change(), c.windows.change()
	next := &clients{longest: c.longest, marked: c.marked}
	var marked [marks]*tableChange[clientName, *registration] // nil: no client with the mark has changed
	with := func(m Mark) *tableChange[clientName, *registration] {
		if marked[m] == nil {
			marked[m] = c.marked[m].change()
		}
		return marked[m]
	}
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
	byID.room = len(changed) / shardCount
	made := make([]*registration, 0, len(changed))
	for i := range changed {
		client := &changed[i]
		name := clientName{client.Realm, client.ID}
		if was := byID.get(name); was != nil {
			count(was, -1)
			sorted.remove(was)
			byID.delete(name)
			for m := range marks {
				if m.has(was.Client) {
					with(m).delete(name)
				}
			}
			for _, s := range was.expiring() {
				expiring.remove(s)
			}
		}
		if client.Decides() {
			made = append(made, &registration{Client: client, key: strings.ToLower(client.Name) + client.ID, origins: scriptOrigins(client)})
		}
	}
	// At the start of a node, one processor sorts all clients while another counts.
	var sorting sync.WaitGroup
	sorting.Go(func() { sorted.insertAll(made) })
	for _, r := range made {
		name := clientName{r.Realm, r.ID}
		for _, s := range r.Secrets {
			r.uses = append(r.uses, uses.of(s.ID))
		}
		count(r, 1)
		byID.set(name, r)
		for m := range marks {
			if m.has(r.Client) {
				with(m).set(name, r)
			}
		}
		for _, s := range r.expiring() {
			expiring.insert(s)
		}
		next.longest = max(next.longest, r.LongestIDTokens())
	}
	sorting.Wait()
	for m, changed := range marked {
		if changed != nil {
			next.marked[m] = changed.table
		}
	}
	next.byID, next.sorted, next.expiring = byID.table, sorted.order, expiring.order
	next.origins, next.known, next.offered, next.windows = origins.table, known.table, offered.table, windows.table
	return next
}

// find returns a client in any state, or nil.
func (c *clients) find(realm, id string) *registration { return c.byID.get(clientName{realm, id}) }

// scriptOrigins returns the web origins whose scripts redeem and refresh the
// client's tokens: those of its redirect URIs, if it is a public client that may
// authenticate.
func scriptOrigins(c *store.Client) (list []originName) {
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

// An ExpiringSecret is a secret of an enabled client that expires, or has expired in the
// last seven days (lately).
type ExpiringSecret struct {
	Realm, ClientID string
	store.Secret
	Replaced bool // another secret of the client outlives it
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

// at returns the client with the scopes in its Scope that it is allowed of apis. The result
// is computed when the client is used and cached until apis changes, so that a change of an
// API does not scan every client.
func (r *registration) at(apis *apis) *store.Client {
	if len(r.APIs) == 0 {
		return r.Client
	}
	known := r.allowed.Load()
	if known == nil || known.apis != apis {
		known = &allowedClient{*r.Client, apis}
		known.Scope = r.Scope.Union(apis.scopeOf(r.Realm, r.APIs))
		r.allowed.Store(known)
	}
	return &known.Client
}

func (c *clients) after(realm, key, text string) iter.Seq[*store.Client] {
	return func(yield func(*store.Client) bool) {
		past := func(r *registration) int {
			return cmp.Or(strings.Compare(r.Realm, realm), strings.Compare(r.key, key), -1)
		}
		for r := range c.sorted.having(text, past, func(r *registration) bool { return r.Realm == realm }) {
			if strings.Contains(c.sorted.text(r), text) && !yield(r.Client) {
				return
			}
		}
	}
}
