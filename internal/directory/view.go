package directory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
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
	restores      []grant.Restore            // all that were declared
	apis          *apis                      // nil if none was ever registered
	trusts        *trusts                    // nil if none was ever created
	scopes        func() map[string][]string // of clients, by realm, computed once
}

type cutoffName struct{ realm, subject, client string }

func noView() *View {
	return &View{
		clients: noClients(), scopes: func() map[string][]string { return nil },
		sortedCutoffs: order[store.Cutoff]{compare: func(a, b store.Cutoff) int { return compareCutoffs(a, b.Realm, b.Subject, b.ClientID) }},
	}
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

// HasCutoff reports whether there is a cutoff of just this name.
func (v *View) HasCutoff(realm, subject, client string) bool {
	return v.cutoffs.get(cutoffName{realm, subject, client}) != 0
}

// Cutoffs lists the cutoffs of a realm, sorted by subject and client.
func (v *View) Cutoffs(realm string) iter.Seq[store.Cutoff] { return v.CutoffsFrom(realm, "", "") }

// CutoffsFrom lists the cutoffs of a realm, sorted by subject and client, from a
// subject and a client on.
func (v *View) CutoffsFrom(realm, subject, client string) iter.Seq[store.Cutoff] {
	return func(yield func(store.Cutoff) bool) {
		for c := range v.sortedCutoffs.from(func(c store.Cutoff) int { return compareCutoffs(c, realm, subject, client) }) {
			if c.Realm != realm || !yield(c) {
				return
			}
		}
	}
}

// Restores returns the restores as they were declared.
func (v *View) Restores() []grant.Restore { return v.restores }

// Restore returns the latest declared restore, or zero. It lasts until all earlier
// ones have ended as well: a token from before an earlier restore may live longer
// than those from before the latest.
func (v *View) Restore() grant.Restore { return v.restore }

// IsScriptOrigin reports whether origin is that of a redirect URI of an enabled
// public client, at the cost of one or two lookups. It reads the directory as
// last polled, however long ago: a script must be able to read a 503.
func (d *Directory) IsScriptOrigin(realm, origin string) bool {
	v := d.view.Load()
	if v.clients.origins.get(originName{realm, origin}) > 0 {
		return true
	}
	chosen := oauth.OriginOfAnyPort(origin)
	return chosen != "" && v.clients.origins.get(originName{realm, chosen}) > 0
}

// scopesOf returns the scopes that enabled clients of each realm may ask for, sorted. If
// APIs are registered, they are those of OpenID Connect and of open APIs: some clients
// ask for every scope of the metadata.
func (v *View) scopesOf() map[string][]string {
	lists := map[string][]string{}
	for name := range v.clients.offered.all {
		if v.apis == nil || oauth.OpenIDScopes.Has(name.scope) {
			lists[name.realm] = append(lists[name.realm], name.scope)
		}
	}
	if v.apis != nil {
		for api := range v.apis.open.all {
			lists[api.Realm] = append(lists[api.Realm], api.Scope().Tokens()...)
		}
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
	Realm, ClientID string
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
