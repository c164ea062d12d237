package directory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// maxScopes limits the list of scopes in the metadata.
const maxScopes = 200

// A View is the directory at one version. It does not change.
type View struct {
	Ring    *keys.Ring
	version int64
	clients map[string]registrations // by realm
	origins map[originName]int       // number of redirect URIs of public clients
	cutoffs map[cutoffName]grant.Instant
	restore grant.Restore
	apis    *apis                      // nil if none was ever registered
	scopes  func() map[string][]string // of clients, by realm, computed once
	// named holds the name of every scope of a client or an API, computed once.
	named func() map[scopeName]bool
	// idTokens is the longest lifetime of id_tokens that a client asks for, or did.
	idTokens func() time.Duration
}

type registration struct {
	store.Client
	registered oauth.Scope  // without that of APIs
	uses       []*use       // of Client.Secrets, in their order
	origins    []originName // of a public client's redirect URIs
}

// registrations are the clients of a realm by id.
type registrations map[string]*registration

type scopeName struct{ realm, scope string }

type cutoffName struct{ realm, subject, client string }

type originName struct{ realm, origin string }

func noView() *View {
	return &View{
		clients: map[string]registrations{}, origins: map[originName]int{}, cutoffs: map[cutoffName]grant.Instant{},
		scopes: func() map[string][]string { return nil }, named: func() map[scopeName]bool { return nil }, idTokens: func() time.Duration { return 0 },
	}
}

// IDTokenLifetime returns the longest lifetime that a client's registration gives, or
// gave, its id_tokens, or zero.
func (v *View) IDTokenLifetime() time.Duration { return v.idTokens() }

func (v *View) longestIDToken() (longest time.Duration) {
	for c := range v.everyClient() {
		longest = max(longest, c.LongestIDTokens())
	}
	return longest
}

// everyClient returns the clients of all realms, in no order.
func (v *View) everyClient() iter.Seq[*registration] {
	return func(yield func(*registration) bool) {
		for _, clients := range v.clients {
			for _, r := range clients {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Cutoff returns the latest cutoff that applies to a subject's grants to a client,
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

// Restore returns the latest declared restore, or zero. It lasts until all earlier
// ones have ended as well: a token from before an earlier restore may live longer
// than those from before the latest.
func (v *View) Restore() grant.Restore { return v.restore }

// Client returns an enabled client of a realm. Its Scope includes what it may have
// of APIs.
func (v *View) Client(realm, id string) (*store.Client, bool) {
	r := v.clients[realm][id]
	if r == nil || r.State != store.ClientEnabled {
		return nil, false
	}
	return &r.Client, true
}

// Registered returns a client of a realm in any state.
func (v *View) Registered(realm, id string) (*store.Client, bool) {
	r := v.clients[realm][id]
	if r == nil {
		return nil, false
	}
	return &r.Client, true
}

// Clients lists the clients of a realm in any state, in no order.
func (v *View) Clients(realm string) iter.Seq[*store.Client] {
	return func(yield func(*store.Client) bool) {
		for _, r := range v.clients[realm] {
			if !yield(&r.Client) {
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
		if origin := oauth.RedirectOrigin(uri); origin != "" {
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

// scopesOf returns the scopes that enabled clients of each realm may ask for, sorted. If
// APIs are registered, they are those of OpenID Connect and of open APIs: some clients
// ask for every scope of the metadata.
func (v *View) scopesOf() map[string][]string {
	set := v.scopeNames(func(r *registration, name string) bool {
		return r.State == store.ClientEnabled && r.MayUse(store.GrantAuthorizationCode) && (v.apis == nil || oauth.OpenIDScopes.Has(name))
	}, func(api *store.API) bool { return api.Open })
	lists := map[string][]string{}
	for name := range set {
		lists[name.realm] = append(lists[name.realm], name.scope)
	}
	for realm, list := range lists {
		slices.Sort(list)
		lists[realm] = list[:min(len(list), maxScopes)]
	}
	return lists
}

// KnowsScope reports whether a client or an API of a realm has a scope.
func (v *View) KnowsScope(realm, name string) bool { return v.named()[scopeName{realm, name}] }

// scopeNames returns the names of the scopes of clients and APIs, of those that the
// functions select.
func (v *View) scopeNames(ofClient func(*registration, string) bool, ofAPI func(*store.API) bool) map[scopeName]bool {
	set := map[scopeName]bool{}
	for r := range v.everyClient() {
		for _, name := range r.Scope.Tokens() {
			if ofClient(r, name) {
				set[scopeName{r.Realm, name}] = true
			}
		}
	}
	if v.apis != nil {
		for name, api := range v.apis.owner {
			if ofAPI(api) {
				set[scopeName{name.realm, name.name}] = true
			}
		}
	}
	return set
}

// Scopes returns the scopes that enabled clients of a realm may ask for, sorted; of very
// many, the first. It reads the directory as last polled, however long ago.
func (d *Directory) Scopes(realm string) []string { return d.view.Load().scopes()[realm] }

// A Condition describes a directory for monitoring.
type Condition struct {
	Age        time.Duration // since the last successful poll
	ClockFault error         // nil if this node's clock is right
	Active     []keys.Life   // the keys in use; EndsAt is when the successor of each is used, or is due
	Due        int           // keys that are due and were not created
	Expiring   []ExpiringSecret
	Restore    grant.Restore // the latest
}

// An ExpiringSecret is a secret of an enabled client that expires, or has expired
// within lately.
type ExpiringSecret struct {
	ClientID string
	store.Secret
	Replaced bool // another secret of the client outlives it
}

const (
	// maxExpiring limits Condition.Expiring to those that expire next.
	maxExpiring = 200
	lately      = 7 * 24 * time.Hour
)

// Condition returns the present condition, also of a stale directory.
func (d *Directory) Condition() Condition {
	clock := d.clock()
	view, now := d.view.Load(), grant.At(clock)
	c := Condition{
		Age: clock.Sub(d.origin) - time.Duration(d.polled.Load()), Restore: view.Restore(),
		ClockFault: d.ClockFault(),
		Due:        len(view.Ring.Due(now, d.Schedule)), Expiring: view.expiring(now),
	}
	for _, l := range view.Ring.Lives(now, d.Schedule) {
		if l.Phase != keys.Active {
			continue
		}
		if l.EndsAt == 0 && d.Schedule.Lifetime > 0 && slices.Contains(d.Schedule.Rotating(), l.Purpose) {
			l.EndsAt = l.ActiveAt.Add(d.Schedule.Lifetime)
		}
		c.Active = append(c.Active, l)
	}
	return c
}

func (v *View) expiring(now grant.Instant) (list []ExpiringSecret) {
	for r := range v.everyClient() {
		if r.State != store.ClientEnabled {
			continue
		}
		for _, s := range r.Secrets {
			if s.ExpiresAt == 0 || now.Since(s.ExpiresAt) > lately {
				continue
			}
			outlives := func(o store.Secret) bool { return o.ExpiresAt == 0 || o.ExpiresAt > s.ExpiresAt }
			list = append(list, ExpiringSecret{r.ID, s, slices.ContainsFunc(r.Secrets, outlives)})
		}
	}
	slices.SortFunc(list, func(a, b ExpiringSecret) int {
		return cmp.Or(cmp.Compare(a.ExpiresAt, b.ExpiresAt), cmp.Compare(a.ClientID, b.ClientID), cmp.Compare(a.ID, b.ID))
	})
	return list[:min(len(list), maxExpiring)]
}

// An issuer identifier must not change: it is in every JWT, and clients and resource
// servers compare it. The store keeps it, so that an accidental change is detected.

type identity struct {
	Issuer string `json:"issuer"`
}

func identityKey(realm string) store.DocumentKey {
	return store.KeyOf(store.DocumentDeployment, realm, "issuer")
}

// RememberedIssuer returns the issuer identifier that the store has for a realm, or
// "".
func RememberedIssuer(ctx context.Context, st store.Store, realm string) (string, error) {
	_, id, err := readIdentity(ctx, st, realm)
	return id.Issuer, err
}

func readIdentity(ctx context.Context, st store.Store, realm string) (store.Document, identity, error) {
	var id identity
	d, err := st.Document(ctx, identityKey(realm))
	if errors.Is(err, store.ErrNotFound) {
		return store.Document{Kind: store.DocumentDeployment, Key: identityKey(realm)}, id, nil
	}
	if err == nil {
		err = json.Unmarshal(d.Body, &id)
	}
	return d, id, err
}

// RememberIssuer stores an issuer identifier unless there is one already, and
// returns the stored one.
func RememberIssuer(ctx context.Context, st store.Store, realm, id string) (string, error) {
	return keepIssuer(ctx, st, realm, id, false)
}

// AdoptIssuer replaces the stored issuer identifier.
func AdoptIssuer(ctx context.Context, st store.Store, realm, id string) error {
	_, err := keepIssuer(ctx, st, realm, id, true)
	return err
}

func keepIssuer(ctx context.Context, st store.Store, realm, id string, instead bool) (string, error) {
	for {
		d, known, err := readIdentity(ctx, st, realm)
		if err != nil || known.Issuer == id || known.Issuer != "" && !instead {
			return known.Issuer, err
		}
		d.Version++
		if d.Body, err = json.Marshal(identity{id}); err != nil {
			return "", err
		}
		err = st.Commit(ctx, store.Change{Documents: []store.Document{d}})
		if !errors.Is(err, store.ErrConflict) { // else another node was faster
			return id, err
		}
	}
}
