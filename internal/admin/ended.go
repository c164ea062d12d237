package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
)

// An Ended lists what has ended since a backup was made: it was revoked, disabled, deleted
// or withdrawn. The backup still holds all of it as valid.
type Ended struct {
	Keys      []grant.KeyID
	Cutoffs   []store.Cutoff
	Clients   []EndedClient
	APIs      []EndedAPI
	Trusts    []EndedTrust
	Users     []EndedUser
	Sessions  []store.DocumentKey
	Tokens    []EndedEntry // of the admin API
	Operators []EndedEntry // of the console
	// Grants calls a function with each grant that was revoked, or whose access
	// tokens were; only ID, State, Reason and AccessFloor count. It may call it
	// twice with the same grant. Nil: there is none.
	Grants func(context.Context, func(grant.Grant) error) error
}

// An EndedClient is a client that was disabled or deleted, or that had secrets revoked.
type EndedClient struct {
	Realm   string // "": the default one
	ID      string
	State   store.ClientState // disabled or deleted; "": neither
	Secrets []string          // the ids of those that were revoked
	// Own is the entry of one that registered itself, which the backup may lack.
	Own *store.Client
}

// An EndedAPI is what has ended of one API.
type EndedAPI struct {
	Realm   string // "": the default one
	ID      string
	Deleted bool          // also if it was registered again: that is another API
	At      grant.Instant // of the deletion, 0 if unknown: Merge leaves an API that was registered later
	Closed  bool          // to clients that registered themselves
	Scope   oauth.Scope   // that was removed
}

// An EndedTrust is a trust that was deleted, disabled or changed. Merge disables a changed
// trust in the restored store, because the trust of the backup may allow more.
type EndedTrust struct {
	Realm   string // "": the default one
	ID      string
	Deleted bool
	At      grant.Instant // of the end, 0 if unknown: Merge leaves a trust that was created later
}

// An EndedUser is what has ended of one built-in user.
type EndedUser struct {
	Realm    string // "": the default one
	Username string
	Subject  string // identifies the user if Username is ""
	Disabled bool
	// Now is the user's present record, if it is known: its password and its
	// second factor replace those of the backup.
	Now *account.User
}

// An EndedEntry is a token of the admin API that was revoked, or an operator of the console
// who was removed.
type EndedEntry struct {
	Name string
	At   grant.Instant // of the end, 0 if unknown: Merge leaves an entry that was created later
}

// ended reports whether a list contains the token or the operator with a name that was
// created at an instant.
func ended(list []EndedEntry, name string, created grant.Instant) bool {
	return slices.ContainsFunc(list, func(e EndedEntry) bool { return e.Name == name && (e.At == 0 || created <= e.At) })
}

// Merge ends in st, the restored store, everything that e lists. The caller may repeat it
// after an error. It skips what the store does not contain. Only keys, and users with
// their present record, need the key-encryption key. Events name the actor.
func (e Ended) Merge(ctx context.Context, st store.Store, kek *keys.KEK, actor string, clock func() time.Time) error {
	now := grant.At(clock())
	event := func(name store.EventName, about, detail string) store.Event {
		return store.Event{At: now, Name: name, About: about, Actor: actor, Detail: detail}
	}
	of := func(realm string) *store.RealmStore {
		return &store.RealmStore{Store: st, Name: cmp.Or(realm, oauth.DefaultRealm)}
	}
	if err := e.withdraw(ctx, st, kek, actor, clock); err != nil {
		return fmt.Errorf("withdraw keys: %w", err)
	}
	for _, c := range e.Clients {
		if err := c.merge(ctx, of(c.Realm), now, event); err != nil {
			return fmt.Errorf("client %s: %w", c.ID, err)
		}
	}
	ch, err := st.Changes(ctx, 0)
	if err != nil {
		return err
	}
	for _, a := range e.APIs {
		if err := a.merge(ctx, of(a.Realm), ch.OfRealm(of(a.Realm).Name), now, event); err != nil {
			return fmt.Errorf("API %s: %w", a.ID, err)
		}
	}
	for _, t := range e.Trusts {
		if err := t.merge(ctx, of(t.Realm), ch.OfRealm(of(t.Realm).Name), now, event); err != nil {
			return fmt.Errorf("trust %s: %w", t.ID, err)
		}
	}
	var ring *keys.Ring
	if slices.ContainsFunc(e.Users, func(u EndedUser) bool { return u.Now != nil }) {
		if ring, err = keys.Open(kek, ch.Keys); err != nil {
			return err
		}
	}
	for _, u := range e.Users {
		if err := u.merge(ctx, of(u.Realm), ring, now, event); err != nil {
			return fmt.Errorf("user %s: %w", cmp.Or(u.Username, u.Subject), err)
		}
	}
	for _, c := range e.Cutoffs {
		about := cmp.Or(c.ClientID, store.AboutSubject(c.Subject))
		if err := of(c.Realm).Commit(ctx, store.Change{Cutoffs: []store.Cutoff{c}, Events: []store.Event{event(store.EventCutoff, about, MergedDetail)}}); err != nil {
			return fmt.Errorf("cutoff: %w", err)
		}
	}
	err = tokens.Drop(ctx, st, func(t Token) (store.Event, bool) {
		return event(store.EventAdminTokenRevoked, aboutTokens, t.Name), ended(e.Tokens, t.Name, t.CreatedAt)
	})
	if err != nil {
		return fmt.Errorf("admin tokens: %w", err)
	}
	err = operator.Drop(ctx, st, func(o operator.Operator) (store.Event, bool) {
		return event(store.EventOperatorRemoved, operator.About, o.Name+": "+MergedDetail), ended(e.Operators, o.Name, o.CreatedAt)
	})
	if err != nil {
		return fmt.Errorf("operators: %w", err)
	}
	for _, key := range e.Sessions {
		if err := st.Commit(ctx, store.Change{Delete: []store.DocumentKey{key}}); err != nil {
			return fmt.Errorf("session: %w", err)
		}
	}
	if e.Grants == nil {
		return nil
	}
	if err := e.mergeGrants(ctx, st, event); err != nil {
		return fmt.Errorf("grants: %w", err)
	}
	return nil
}

// MergedDetail is the detail of the events that Merge records.
const MergedDetail = "had ended since the backup"

// withdraw withdraws the keys of e that the restored store holds and that are not
// withdrawn there.
func (e Ended) withdraw(ctx context.Context, st store.Store, kek *keys.KEK, actor string, clock func() time.Time) error {
	ch, err := st.Changes(ctx, 0)
	if err != nil {
		return err
	}
	var list []grant.KeyID
	for _, r := range ch.Keys {
		if slices.Contains(e.Keys, r.ID) && r.WithdrawnAt() == 0 {
			list = append(list, r.ID)
		}
	}
	if len(list) == 0 {
		return nil
	}
	_, err = directory.WithdrawKeys(ctx, st, kek, directory.Withdrawal{Keys: list, Actor: actor}, clock)
	return err
}

type eventOf func(name store.EventName, about, detail string) store.Event

func (e EndedClient) merge(ctx context.Context, st *store.RealmStore, now grant.Instant, event eventOf) error {
	c, err := st.Client(ctx, e.ID)
	if errors.Is(err, store.ErrNotFound) {
		if c, err = e.own(ctx, st); errors.Is(err, store.ErrNotFound) {
			return nil
		}
	}
	if err != nil {
		return err
	}
	var cutoffs []store.Cutoff
	var events []store.Event
	switch {
	case c.State == store.ClientDeleted:
		return nil
	case e.State == store.ClientDeleted:
		c.State, c.Secrets = e.State, []store.Secret{}
		cutoffs = []store.Cutoff{{Realm: st.Name, ClientID: c.ID, At: now}}
		events = []store.Event{event(store.EventClientDeleted, c.ID, MergedDetail)}
	default:
		if e.State == store.ClientDisabled && c.State != e.State {
			c.State = e.State
			events = append(events, event(store.EventClientChanged, c.ID, string(e.State)))
		}
		rest := []store.Secret{}
		for _, s := range c.Secrets {
			if slices.Contains(e.Secrets, s.ID) {
				events = append(events, event(store.EventSecretRevoked, c.ID, "secret "+s.ID))
			} else {
				rest = append(rest, s)
			}
		}
		c.Secrets = rest
	}
	if len(events) == 0 {
		return nil
	}
	c.Version++
	c.UpdatedAt = now
	return st.Commit(ctx, store.Change{Entries: []store.Entry{c.Entry()}, Cutoffs: cutoffs, Events: events})
}

// own returns a client that registered itself and has no entry in the directory. The
// entry that the caller writes disables or deletes the client.
func (e EndedClient) own(ctx context.Context, st *store.RealmStore) (store.Client, error) {
	if e.Own != nil {
		c := e.Own.Clone()
		c.State, c.Version = store.ClientEnabled, 0
		return c, nil
	}
	doc, err := st.Document(ctx, store.ClientKey(st.Name, e.ID))
	if err != nil {
		return store.Client{}, err
	}
	c, err := recorded(doc)
	c.Version = 0
	return c, err
}

func (e EndedAPI) merge(ctx context.Context, st *store.RealmStore, ch store.Changes, now grant.Instant, event eventOf) error {
	a := ch.FindAPI(e.ID)
	if a == nil || e.At != 0 && a.CreatedAt > e.At {
		return nil
	}
	next, name := *a, store.EventAPIChanged
	if e.Deleted {
		next, name = deletedAPI(next), store.EventAPIDeleted
	}
	next.Open = next.Open && !e.Closed
	next.Scopes = slices.DeleteFunc(slices.Clone(next.Scopes), func(s store.APIScope) bool { return e.Scope.Has(s.Name) })
	next.DefaultScope = next.DefaultScope.Without(e.Scope)
	if next.Deleted == a.Deleted && next.Open == a.Open && len(next.Scopes) == len(a.Scopes) {
		return nil
	}
	next.Version++
	next.UpdatedAt = now
	return st.Commit(ctx, store.Change{Entries: []store.Entry{next.Entry()}, Events: []store.Event{event(name, a.ID, MergedDetail)}})
}

func (e EndedTrust) merge(ctx context.Context, st *store.RealmStore, ch store.Changes, now grant.Instant, event eventOf) error {
	i := slices.IndexFunc(ch.Trusts, func(t store.Trust) bool { return t.ID == e.ID })
	if i < 0 || e.At != 0 && ch.Trusts[i].CreatedAt > e.At {
		return nil
	}
	next, name := ch.Trusts[i], store.EventTrustChanged
	if next.Deleted || next.Disabled && !e.Deleted {
		return nil
	}
	if next.Disabled = true; e.Deleted {
		next.Deleted, name = true, store.EventTrustDeleted
	}
	next.Version++
	next.UpdatedAt = now
	return st.Commit(ctx, store.Change{Entries: []store.Entry{next.Entry()}, Events: []store.Event{event(name, next.ID, MergedDetail)}})
}

func (e EndedUser) merge(ctx context.Context, st *store.RealmStore, ring *keys.Ring, now grant.Instant, event eventOf) error {
	u, err := e.find(ctx, st)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	next, name := u.Superseded(e.Now, ring, now), store.EventPasswordChanged
	if e.Disabled && next.State != account.Disabled {
		next, name = next.Disable(now), store.EventUserDisabled
	}
	if next.Version == u.Version {
		return nil
	}
	next.Version = u.Version + 1
	doc, err := next.Document()
	if err != nil {
		return err
	}
	return st.Commit(ctx, store.Change{Documents: []store.Document{doc}, Events: []store.Event{event(name, store.AboutSubject(u.Subject), MergedDetail)}})
}

func (e EndedUser) find(ctx context.Context, st *store.RealmStore) (account.User, error) {
	if e.Username != "" {
		return account.Find(ctx, st, st.Name, e.Username)
	}
	list, err := account.List(ctx, st, st.Name)
	if i := slices.IndexFunc(list, func(u account.User) bool { return u.Subject == e.Subject }); err == nil && i >= 0 {
		return list[i], nil
	}
	return account.User{}, cmp.Or(err, store.ErrNotFound)
}

// mergers is the number of goroutines that end grants: the store commits concurrent
// updates together (group commit).
const mergers = 64

func (e Ended) mergeGrants(ctx context.Context, st store.Store, event eventOf) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	list := make(chan grant.Grant)
	var working sync.WaitGroup
	for range mergers {
		working.Go(func() {
			for g := range list {
				err := st.UpdateGrant(ctx, g.ID, func(have grant.Grant) (grant.Grant, []store.Event) { return end(have, g, event) })
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					cancel(err)
				}
			}
		})
	}
	err := e.Grants(ctx, func(g grant.Grant) error {
		select {
		case list <- g:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(list)
	working.Wait()
	return errors.Join(err, context.Cause(ctx))
}

// end revokes a grant of a backup, or its access tokens, if the same grant was revoked, or
// had its access tokens revoked, since the backup was made.
func end(have, since grant.Grant, event eventOf) (grant.Grant, []store.Event) {
	switch {
	case since.State == grant.Revoked && have.State != grant.Revoked:
		return have.Revoke(since.Reason).Next, []store.Event{event(store.EventGrantRevoked, have.ID.String(), MergedDetail)}
	case since.AccessFloor > have.AccessFloor:
		have.AccessFloor = since.AccessFloor
		have.Version++
		return have, []store.Event{event(store.EventAccessRevoked, have.ID.String(), MergedDetail)}
	}
	return have, nil
}
