package storetest

import (
	"slices"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

var revocationPromises = []promise{
	{"Revocations lists what ended grants and access tokens, the latest first", func(t *testing.T, db Database) {
		st, other := open(t, db), open(t, db)
		untouched, first, second, third, access := newGrant(1), newGrant(2), newGrant(3), newGrant(4), newGrant(5)
		create(t, st, untouched, first, second, third, access)
		end(t, st, first, store.EventGrantRevoked, base+10)
		end(t, st, second, store.EventCodeReplayed, base+30)
		end(t, st, third, store.EventRefreshReplayed, base+20)
		raise(t, st, access, base+40, base+41)
		sameRevocations(t, other, base, 10, base,
			store.Revocation{Realm: "/api", GrantID: access.ID, Floor: base + 40, At: base + 41},
			store.Revocation{Realm: "/api", GrantID: second.ID, Floor: grant.Never, At: base + 30},
			store.Revocation{Realm: "/api", GrantID: third.ID, Floor: grant.Never, At: base + 20},
			store.Revocation{Realm: "/api", GrantID: first.ID, Floor: grant.Never, At: base + 10})
		sameRevocations(t, other, base+30, 10, base+30,
			store.Revocation{Realm: "/api", GrantID: access.ID, Floor: base + 40, At: base + 41},
			store.Revocation{Realm: "/api", GrantID: second.ID, Floor: grant.Never, At: base + 30})
		sameRevocations(t, other, base+42, 10, base+42)
	}},
	{"Revocations lists a grant once, in its present state", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(1)
		create(t, st, g)
		g = raise(t, st, g, base+10, base+10)
		sameRevocations(t, st, base, 10, base, store.Revocation{Realm: "/api", GrantID: g.ID, Floor: base + 10, At: base + 10})
		g = raise(t, st, g, base+20, base+20)
		sameRevocations(t, st, base, 10, base, store.Revocation{Realm: "/api", GrantID: g.ID, Floor: base + 20, At: base + 20})
		end(t, st, g, store.EventGrantRevoked, base+30)
		sameRevocations(t, st, base, 10, base, store.Revocation{Realm: "/api", GrantID: g.ID, Floor: grant.Never, At: base + 30})
	}},
	{"Revocations ignores other events", func(t *testing.T, db Database) {
		st := open(t, db)
		if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{newClient("a").Entry()}, Events: []store.Event{{At: base + 1, Name: store.EventClientCreated, About: "a"}}}); err != nil {
			t.Fatal(err)
		}
		addCutoff(t, st, store.Cutoff{Realm: "/api", Subject: "alice", At: base}, store.Event{At: base + 2, Name: store.EventCutoff, About: "alice"})
		sameRevocations(t, st, base, 10, base)
	}},
	{"Revocations forgets a grant whose row is gone", func(t *testing.T, db Database) {
		st := open(t, db)
		swept, kept := newGrant(1), newGrant(2)
		kept.DeleteAfter = base + 1_000_000
		create(t, st, swept, kept)
		end(t, st, swept, store.EventGrantRevoked, base+10)
		end(t, st, kept, store.EventGrantRevoked, base+10)
		if _, deleted, err := st.Sweep(t.Context(), store.SweptGrants, "", base+500_000, 10); err != nil || deleted != 1 {
			t.Fatalf("Sweep: %d deleted, %v", deleted, err)
		}
		sameRevocations(t, st, base, 10, base, store.Revocation{Realm: "/api", GrantID: kept.ID, Floor: grant.Never, At: base + 10})
	}},
	{"Revocations counts a grant once, however often its access tokens were revoked", func(t *testing.T, db Database) {
		st := open(t, db)
		often, other := newGrant(1), newGrant(2)
		create(t, st, often, other)
		end(t, st, other, store.EventGrantRevoked, base+10)
		for n := range grant.Instant(20) {
			often = raise(t, st, often, base+20+n, base+20+n)
		}
		sameRevocations(t, st, base, 2, base,
			store.Revocation{Realm: "/api", GrantID: often.ID, Floor: base + 39, At: base + 39},
			store.Revocation{Realm: "/api", GrantID: other.ID, Floor: grant.Never, At: base + 10})
	}},
	{"Revocations lists at most the given number of grants, and returns the instant since which the list is complete", func(t *testing.T, db Database) {
		st := open(t, db)
		var newest []store.Revocation
		for n := range 5 {
			g := newGrant(uint64(n))
			create(t, st, g)
			at := base + grant.Instant(10*n)
			end(t, st, g, store.EventGrantRevoked, at)
			newest = slices.Insert(newest, 0, store.Revocation{Realm: "/api", GrantID: g.ID, Floor: grant.Never, At: at})
		}
		for limit := 1; limit < 5; limit++ {
			sameRevocations(t, st, base, limit, newest[limit].At+1, newest[:limit]...)
		}
		sameRevocations(t, st, base, 5, base, newest...)
	}},
}

// end revokes a grant.
func end(t *testing.T, st store.Store, g grant.Grant, why store.EventName, at grant.Instant) {
	t.Helper()
	g.Version++
	g.State, g.Reason = grant.Revoked, grant.ReasonClient
	revise(t, st, g, why, at)
}

// raise revokes the access tokens of a grant that were issued up to a floor.
func raise(t *testing.T, st store.Store, g grant.Grant, floor, at grant.Instant) grant.Grant {
	t.Helper()
	g.Version++
	g.AccessFloor = floor
	revise(t, st, g, store.EventAccessRevoked, at)
	return g
}

func revise(t *testing.T, st store.Store, g grant.Grant, name store.EventName, at grant.Instant) {
	t.Helper()
	if err := Replace(t.Context(), st, g, store.Event{At: at, Name: name, About: g.ID.String(), Actor: g.ClientID}); err != nil {
		t.Fatal(err)
	}
}

func sameRevocations(t *testing.T, st store.Store, since grant.Instant, limit int, from grant.Instant, want ...store.Revocation) {
	t.Helper()
	list, got, err := st.Revocations(t.Context(), since, limit)
	if err != nil {
		t.Fatalf("Revocations: %v", err)
	}
	if got != from {
		t.Errorf("the list is complete since base%+d, want base%+d", got-base, from-base)
	}
	if !slices.Equal(list, want) {
		t.Errorf("%d revocations %+v, want %d: %+v", len(list), list, len(want), want)
	}
}
