package store

import (
	"context"
	"errors"
	"slices"

	"github.com/mintage/mintage/internal/grant"
)

// A RealmStore is the part of a store that belongs to one realm: nothing of another realm is
// found by any id, or listed. Documents are not looked into: their keys and owners are
// of a realm (see KeyOf and OwnerOf), and those that are listed by their kind say whose
// they are.
type RealmStore struct {
	Store
	Name string
}

// Grant implements Store, as do the methods below.
func (r *RealmStore) Grant(ctx context.Context, id grant.ID) (grant.Grant, error) {
	g, err := r.Store.Grant(ctx, id)
	if err == nil && g.Realm != r.Name {
		return grant.Grant{}, ErrNotFound
	}
	return g, err
}

func (r *RealmStore) UpdateGrant(ctx context.Context, id grant.ID, decide Decide) error {
	// A call of decide may still be running when UpdateGrant has returned an error
	// because ctx has ended. Without an error, the last has returned.
	foreign := make(chan struct{}, 1)
	err := r.Store.UpdateGrant(ctx, id, func(g grant.Grant) (grant.Grant, []Event) {
		if g.Realm != r.Name {
			select {
			case foreign <- struct{}{}:
			default:
			}
			return g, nil
		}
		return decide(g)
	})
	if err == nil && len(foreign) > 0 {
		return ErrNotFound // the realm of a grant never changes
	}
	return err
}

func (r *RealmStore) Grants(ctx context.Context, f GrantFilter) ([]grant.Grant, error) {
	f.Realm = r.Name
	return r.Store.Grants(ctx, f)
}

func (r *RealmStore) Changes(ctx context.Context, since int64) (Changes, error) {
	ch, err := r.Store.Changes(ctx, since)
	return ch.OfRealm(r.Name), err
}

// OfRealm returns a copy without what belongs to other realms.
func (ch Changes) OfRealm(realm string) Changes {
	ch.Clients = slices.DeleteFunc(slices.Clone(ch.Clients), func(c Client) bool { return c.Realm != realm })
	ch.APIs = slices.DeleteFunc(slices.Clone(ch.APIs), func(a API) bool { return a.Realm != realm })
	ch.Trusts = slices.DeleteFunc(slices.Clone(ch.Trusts), func(t Trust) bool { return t.Realm != realm })
	ch.Cutoffs = slices.DeleteFunc(slices.Clone(ch.Cutoffs), func(c Cutoff) bool { return c.Realm != realm })
	return ch
}

// Client compares the realm: in the default one, an id that a caller chose can be the key
// of another realm's client.
func (r *RealmStore) Client(ctx context.Context, id string) (Client, error) {
	c, err := r.Store.Client(ctx, InRealm(r.Name, id))
	if err == nil && c.Realm != r.Name {
		return Client{}, ErrNotFound
	}
	return c, err
}

func (r *RealmStore) Revocations(ctx context.Context, since grant.Instant, limit int) (list []Revocation, from grant.Instant, err error) {
	list, from, err = r.Store.Revocations(ctx, since, limit)
	return slices.DeleteFunc(list, func(v Revocation) bool { return v.Realm != r.Name }), from, err
}

// Commit names the realm in what its events are about. Those about grants come with
// UpdateGrant: the ids of grants are unique.
func (r *RealmStore) Commit(ctx context.Context, c Change) error {
	c.Events = slices.Clone(c.Events)
	for i := range c.Events {
		c.Events[i].About = InRealm(r.Name, c.Events[i].About)
	}
	return r.Store.Commit(ctx, c)
}

func (r *RealmStore) Events(ctx context.Context, about string, limit int) ([]Event, error) {
	if realm, _ := SplitRealm(about); realm != "" {
		return nil, nil // of another realm: no name begins so
	}
	key := InRealm(r.Name, about)
	if id, err := grant.ParseID(about); err == nil {
		g, err := r.Store.Grant(ctx, id)
		switch {
		case err == nil && g.Realm != r.Name:
			return nil, nil
		case err == nil:
			key = about
		case !errors.Is(err, ErrNotFound):
			return nil, err
		}
	}
	list, err := r.Store.Events(ctx, key, limit)
	for i := range list {
		list[i].About = about
	}
	return list, err
}
