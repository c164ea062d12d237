package store

import (
	"context"
	"errors"
	"slices"

	"github.com/mintage/mintage/internal/grant"
)

// A RealmStore is the part of a store that belongs to one realm: it finds and lists no rows
// of another realm. It does not filter documents: their keys and owners depend on the realm
// (see KeyOf and OwnerOf), and a document that is listed by its kind alone names its realm.
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
	// because ctx has ended. Without an error, the last call has returned.
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

// Client compares the realm: in the default realm, the id is the key itself (see InRealm),
// and a caller could pass the key of another realm's client.
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

// Commit adds the realm to About in the change's events. UpdateGrant does not: its events are
// about grants, whose ids are unique in all realms.
func (r *RealmStore) Commit(ctx context.Context, c Change) error {
	c.Events = slices.Clone(c.Events)
	for i := range c.Events {
		c.Events[i].About = InRealm(r.Name, c.Events[i].About)
	}
	return r.Store.Commit(ctx, c)
}

func (r *RealmStore) Events(ctx context.Context, about string, limit int) ([]Event, error) {
	if realm, _ := SplitRealm(about); realm != "" {
		return nil, nil // the key of another realm: no name here begins with a realm
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
