package directory

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
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
	clients *clients
	cutoffs table[cutoffName, grant.Instant]
	// sortedCutoffs are cutoffs by realm, subject and client.
	sortedCutoffs order[store.Cutoff]
	restore       grant.Restore
	restores      []grant.Restore // all that were declared
	apis          *apis
	trusts        *trusts
	scopes        func() map[string][]string // of clients, by realm, computed once
}

type cutoffName struct{ realm, subject, client string }

func noView() *View {
	return &View{
		clients: noClients(), apis: noAPIs(), trusts: noTrusts(), scopes: func() map[string][]string { return nil },
		sortedCutoffs: order[store.Cutoff]{compare: func(a, b store.Cutoff) int { return compareCutoffs(a, b.Realm, b.Subject, b.ClientID) }},
	}
}

// apply returns the view after changes. Its cost depends on the number of changes and not
// on the size of the view: 100,000 clients make a change no slower.
func (d *Directory) apply(old *View, ch store.Changes) (*View, error) {
	v := *old
	v.version = ch.Version
	if len(ch.Keys) > 0 || v.Ring == nil && d.kek.Load() == nil {
		changed := func(r keys.Stored) bool {
			return slices.ContainsFunc(ch.Keys, func(c keys.Stored) bool { return c.ID == r.ID })
		}
		records := append(slices.DeleteFunc(slices.Clone(d.records), changed), ch.Keys...)
		ring, err := d.openRing(records)
		if err != nil {
			return nil, err
		}
		d.records, v.Ring = records, ring
	}
	if v.Ring == nil {
		return nil, errNoKeys
	}
	var done sync.WaitGroup
	if len(ch.APIs) > 0 {
		done.Go(func() { v.apis = old.apis.with(ch.APIs) })
	}
	if len(ch.Trusts) > 0 {
		v.trusts = old.trusts.with(ch.Trusts)
	}
	if len(ch.Clients) > 0 {
		v.clients = old.clients.with(ch.Clients, d.uses)
	}
	done.Wait()
	if len(ch.Clients) > 0 || len(ch.APIs) > 0 {
		v.scopes = sync.OnceValue(v.scopesOf)
	}
	if len(ch.Cutoffs) > 0 {
		byName, sorted := v.cutoffs.change(), v.sortedCutoffs.change()
		for _, c := range ch.Cutoffs {
			byName.set(cutoffName{c.Realm, c.Subject, c.ClientID}, c.At)
			sorted.insert(c)
		}
		v.cutoffs, v.sortedCutoffs = byName.table, sorted.order
	}
	v.restores = slices.Concat(old.restores, ch.Restores)
	for _, r := range ch.Restores {
		until := max(v.restore.Until, r.Until)
		if r.At > v.restore.At {
			v.restore = r
		}
		v.restore.Until = until
	}
	return &v, nil
}

// Version returns the version of the directory.
func (v *View) Version() int64 { return v.version }

func compareCutoffs(c store.Cutoff, realm, subject, client string) int {
	return cmp.Or(strings.Compare(c.Realm, realm), strings.Compare(c.Subject, subject), strings.Compare(c.ClientID, client))
}

// Cutoff returns the latest cutoff that applies to a subject's grants to a client,
// or zero.
func (v *View) Cutoff(realm, subject, client string) grant.Instant {
	if v.cutoffs.shards == nil {
		return 0
	}
	return max(
		v.cutoffs.get(cutoffName{realm, subject, ""}),
		v.cutoffs.get(cutoffName{realm, "", client}),
		v.cutoffs.get(cutoffName{realm, subject, client}),
	)
}

// HasCutoff reports whether there is a cutoff of exactly this subject and client.
func (v *View) HasCutoff(realm, subject, client string) bool {
	return v.cutoffs.get(cutoffName{realm, subject, client}) != 0
}

// Cutoffs lists the cutoffs of a realm, sorted by subject and client.
func (v *View) Cutoffs(realm string) iter.Seq[store.Cutoff] { return v.CutoffsFrom(realm, "", "") }

// CutoffsFrom lists the cutoffs of a realm, sorted by subject and client, from a
// subject and a client on.
func (v *View) CutoffsFrom(realm, subject, client string) iter.Seq[store.Cutoff] {
	from := func(c store.Cutoff) int { return compareCutoffs(c, realm, subject, client) }
	return v.sortedCutoffs.having("", from, func(c store.Cutoff) bool { return c.Realm == realm })
}

// Restores returns the restores as they were declared.
func (v *View) Restores() []grant.Restore { return v.restores }

// Restore returns the latest declared restore, or zero. It lasts until all earlier
// ones have ended as well: a token from before an earlier restore may live longer
// than those from before the latest.
func (v *View) Restore() grant.Restore { return v.restore }

// scopesOf returns the scopes that enabled clients of each realm may request, sorted. For a
// realm with APIs, it returns only those of OpenID Connect and of open APIs, because some
// clients request every scope that the metadata list.
func (v *View) scopesOf() map[string][]string {
	lists := map[string][]string{}
	for name := range v.clients.offered.all {
		if !v.HasAPIs(name.realm) || oauth.OpenIDScopes.Has(name.scope) {
			lists[name.realm] = append(lists[name.realm], name.scope)
		}
	}
	for api := range v.apis.open.all {
		lists[api.Realm] = append(lists[api.Realm], api.Scope().Tokens()...)
	}
	for realm, list := range lists {
		slices.Sort(list)
		list = slices.Compact(list)
		lists[realm] = list[:min(len(list), maxScopes)]
	}
	return lists
}

// KnowsScope reports whether a client or an API of a realm has a scope.
func (v *View) KnowsScope(realm, name string) bool {
	_, ofAPI := v.APIOfScope(realm, name)
	return ofAPI || v.ClientsHave(realm, name)
}

// Client returns an enabled client of a realm. Its Scope includes the scopes that it is
// allowed of APIs.
func (v *View) Client(realm, id string) (*store.Client, bool) {
	r := v.clients.find(realm, id)
	if r == nil || r.State != store.ClientEnabled {
		return nil, false
	}
	return r.at(v.apis), true
}

// Registered returns a client of a realm in any state. Its Scope includes the scopes that
// it is allowed of APIs.
func (v *View) Registered(realm, id string) (*store.Client, bool) {
	r := v.clients.find(realm, id)
	if r == nil {
		return nil, false
	}
	return r.at(v.apis), true
}

// Clients lists the clients of a realm in any state as they are registered, sorted by name,
// ignoring case, and then by id.
func (v *View) Clients(realm string) iter.Seq[*store.Client] { return v.clients.after(realm, "", "") }

// ClientsAfter lists the clients that follow the client with an id in the order of Clients,
// and reports whether that client exists. An empty id is before the first client. With a
// lower-case text, it skips most clients without the text in name or id.
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

// Marked lists the clients of a realm that have a mark, in any state and in no order.
func (v *View) Marked(m Mark, realm string) iter.Seq[*store.Client] {
	return func(yield func(*store.Client) bool) {
		for name, r := range v.clients.marked[m].all {
			if name.realm == realm && !yield(r.Client) {
				return
			}
		}
	}
}

// AnyMarked reports whether a client of a realm has a mark.
func (v *View) AnyMarked(m Mark, realm string) bool {
	for range v.Marked(m, realm) {
		return true
	}
	return false
}

// Beyond lists, sorted by name, the clients that may exchange tokens of the users of a
// client for more than the users agreed to.
func (v *View) Beyond(realm, id string) (list []*store.Client) {
	for c := range v.Marked(beyond, realm) {
		if slices.Contains(c.ExchangeFrom, id) || slices.Contains(c.ExchangeFrom, grant.EveryClient) {
			list = append(list, c)
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

const (
	// maxExpiring limits Condition.Expiring to those that expire next.
	maxExpiring = 200
	lately      = 7 * 24 * time.Hour
)

func (v *View) expiring(now grant.Instant) (list []ExpiringSecret) {
	from := now.Add(-lately)
	for s := range v.clients.expiring.from(func(s ExpiringSecret) int { return cmp.Compare(s.ExpiresAt, from) }) {
		if list = append(list, s); len(list) == maxExpiring {
			break
		}
	}
	return list
}

// An issuer identifier must not change: it is in every JWT, and clients and resource
// servers compare it. The store keeps it, so that an accidental change is detected.

type identity struct {
	Issuer string `json:"issuer"`
}

// RememberedIssuer returns the issuer identifier that the store has for a realm, or
// "".
func RememberedIssuer(ctx context.Context, st store.Store, realm string) (string, error) {
	_, id, err := readIdentity(ctx, st, realm)
	return id.Issuer, err
}

func readIdentity(ctx context.Context, st store.Store, realm string) (d store.Document, id identity, err error) {
	d, err = store.ReadDocument(ctx, st, store.DocumentDeployment, store.KeyOf(store.DocumentDeployment, realm, "issuer"), &id)
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
		err = store.PutDocument(ctx, st, d, identity{id})
		if !errors.Is(err, store.ErrConflict) { // else another node was faster
			return id, err
		}
	}
}
