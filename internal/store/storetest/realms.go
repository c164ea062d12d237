package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

var realmPromises = []promise{
	{"two realms have clients, APIs and events of the same names", func(t *testing.T, db Database) {
		st, a, b := realms(t, db)
		own, other := newClient("billing"), newClient("billing")
		other.Realm, other.Name, other.Secrets = "/b", "Other", []store.Secret{}
		register := func(st store.Store, c store.Client, at grant.Instant) {
			api := store.API{ID: "https://api.example", Realm: c.Realm, Name: c.Name, Number: 1, Version: 1, Scopes: []store.APIScope{}}
			commit(t, st, store.Change{
				Entries: []store.Entry{c.Entry(), api.Entry()}, Cutoffs: []store.Cutoff{{Realm: c.Realm, Subject: "alice", At: at}},
				Events: []store.Event{event(c.ID, at, 1)},
			})
		}
		register(a, own, base)
		register(b, other, base+1)
		for _, c := range []struct {
			st   store.Store
			want store.Client
			at   grant.Instant
		}{{a, own, base}, {b, other, base + 1}} {
			holdsClient(t, c.st, c.want)
			ch := changes(t, c.st, 0)
			sameClients(t, ch.Clients, c.want)
			sameCutoffs(t, ch.Cutoffs, []store.Cutoff{{Realm: c.want.Realm, Subject: "alice", At: c.at}})
			if len(ch.APIs) != 1 || ch.APIs[0].Realm != c.want.Realm {
				t.Errorf("APIs of %s: %+v", c.want.Realm, ch.APIs)
			}
			if list := recorded(t, c.st, "billing"); !slices.Equal(list, []store.Event{event("billing", c.at, 1)}) {
				t.Errorf("events of %s: %+v", c.want.Realm, list)
			}
		}
		if ch := changes(t, st, 0); len(ch.Clients) != 2 || len(ch.APIs) != 2 || len(ch.Cutoffs) != 2 {
			t.Errorf("the whole store holds %d clients, %d APIs, %d cutoffs", len(ch.Clients), len(ch.APIs), len(ch.Cutoffs))
		}
	}},
	{"no name in the default realm finds a record of another realm", func(t *testing.T, db Database) {
		st, a, b := realms(t, db)
		other := newClient("billing")
		other.Realm, other.Secrets = "/b", []store.Secret{}
		commit(t, b, store.Change{Entries: []store.Entry{other.Entry()}, Events: []store.Event{event(other.ID, base, 1)}})
		holdsClient(t, b, other)
		key := store.InRealm("/b", other.ID)
		if got, err := a.Client(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Client of %q: %+v, %v, want ErrNotFound", key, got, err)
		}
		if list := recorded(t, a, key); len(list) != 0 {
			t.Errorf("events of %q: %+v", key, list)
		}
		if list := recorded(t, st, key); len(list) != 1 {
			t.Errorf("the whole store has these events of %q: %+v", key, list)
		}
	}},
	{"a realm does not find, list or change a grant of another realm", func(t *testing.T, db Database) {
		st, a, b := realms(t, db)
		own, other := newGrant(1), newGrant(2)
		other.Realm = "/b"
		create(t, st, own, other)
		holds(t, a, own)
		holds(t, b, other)
		if _, err := a.Grant(t.Context(), other.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Grant: %v, want ErrNotFound", err)
		}
		for _, f := range []store.GrantFilter{{Limit: 10}, {Realm: "/b", Limit: 10}, {Subject: own.Subject, Limit: 10}} {
			if list, err := a.Grants(t.Context(), f); err != nil || !slices.Equal(list, []grant.Grant{own}) {
				t.Errorf("Grants of %+v: %v, %v", f, list, err)
			}
		}
		err := a.UpdateGrant(t.Context(), other.ID, func(g grant.Grant) (grant.Grant, []store.Event) {
			t.Error("decide got a grant of another realm")
			return g.Revoke(grant.ReasonClient).Next, nil
		})
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("UpdateGrant: %v, want ErrNotFound", err)
		}
		holds(t, st, other)
		end(t, a, own, store.EventGrantRevoked, base+10)
		end(t, b, other, store.EventGrantRevoked, base+20)
		sameRevocations(t, a, base, 10, base, store.Revocation{Realm: "/api", GrantID: own.ID, Floor: grant.Never, At: base + 10})
		sameRevocations(t, b, base, 10, base, store.Revocation{Realm: "/b", GrantID: other.ID, Floor: grant.Never, At: base + 20})
		if list := recorded(t, a, own.ID.String()); len(list) != 1 {
			t.Errorf("events of the realm's own grant: %+v", list)
		}
		if list := recorded(t, a, other.ID.String()); len(list) != 0 {
			t.Errorf("events of another realm's grant: %+v", list)
		}
	}},
}

// realms opens a store, and two realms in it.
func realms(t *testing.T, db Database) (st, a, b store.Store) {
	st = open(t, db)
	return st, &store.RealmStore{Store: st, Name: "/api"}, &store.RealmStore{Store: st, Name: "/b"}
}
