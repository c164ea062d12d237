package storetest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

var directoryPromises = []promise{
	{"Changes reads everything after version 0, and nothing after the version it returned", func(t *testing.T, db Database) {
		st := open(t, db)
		a, b := newClient("a"), newClient("b")
		createClient(t, st, a)
		createClient(t, st, b)
		cutoff := store.Cutoff{Realm: "/api", Subject: "alice", At: base}
		addCutoff(t, st, cutoff)
		ring := []keys.Stored{newKey(1), newKey(1<<32 - 1)}
		addKeys(t, st, ring)
		ch := changes(t, st, 0)
		sameClients(t, ch.Clients, a, b)
		sameCutoffs(t, ch.Cutoffs, []store.Cutoff{cutoff})
		sameKeys(t, ch.Keys, ring)
		nothingNew(t, st, ch.Version)
	}},
	{"Changes of an empty store are empty", func(t *testing.T, db Database) {
		st := open(t, db)
		ch := changes(t, st, 0)
		if len(ch.Clients)+len(ch.Cutoffs)+len(ch.Keys) != 0 {
			t.Errorf("an empty store holds %d clients, %d cutoffs, %d keys", len(ch.Clients), len(ch.Cutoffs), len(ch.Keys))
		}
		nothingNew(t, st, ch.Version)
	}},
	{"Changes reads what changed after a version, and the version grows with each change", func(t *testing.T, db Database) {
		st := open(t, db)
		version := changes(t, st, 0).Version
		next := func() store.Changes {
			t.Helper()
			ch := changes(t, st, version)
			if ch.Version <= version {
				t.Errorf("version %d after %d", ch.Version, version)
			}
			version = ch.Version
			nothingNew(t, st, version)
			return ch
		}
		only := func(ch store.Changes, clients, cutoffs, records int) {
			t.Helper()
			if len(ch.Clients) != clients || len(ch.Cutoffs) != cutoffs || len(ch.Keys) != records {
				t.Errorf("%d clients, %d cutoffs, %d keys; want %d, %d, %d",
					len(ch.Clients), len(ch.Cutoffs), len(ch.Keys), clients, cutoffs, records)
			}
		}
		a, b := newClient("a"), newClient("b")
		createClient(t, st, a)
		ch := next()
		only(ch, 1, 0, 0)
		sameClients(t, ch.Clients, a)
		createClient(t, st, b)
		ch = next()
		only(ch, 1, 0, 0)
		sameClients(t, ch.Clients, b)
		a.Version, a.State = 2, store.ClientDeleted
		updateClient(t, st, a, nil)
		ch = next()
		only(ch, 1, 0, 0)
		sameClients(t, ch.Clients, a) // a deleted client, too: every node must drop it
		addCutoff(t, st, store.Cutoff{Realm: "/api", ClientID: "a", At: base})
		only(next(), 0, 1, 0)
		addCutoff(t, st, store.Cutoff{Realm: "/api", ClientID: "a", At: base + 1})
		only(next(), 0, 1, 0)
		addKeys(t, st, []keys.Stored{newKey(1)})
		only(next(), 0, 0, 1)
		only(changes(t, st, 0), 2, 1, 1)
	}},
	{"a restore is returned once, and is never replaced", func(t *testing.T, db Database) {
		st := open(t, db)
		version := changes(t, st, 0).Version
		first := grant.Restore{Backup: base - 7, At: base, Until: base + 1000}
		later := grant.Restore{Backup: base - 9, At: base + 1, Until: base + 1001}
		for _, r := range []grant.Restore{later, first} {
			if err := st.Commit(t.Context(), store.Change{Restores: []grant.Restore{r}, Events: []store.Event{event("store", r.At, 0)}}); err != nil {
				t.Fatalf("Commit: %v", err)
			}
			ch := changes(t, st, version)
			if !slices.Equal(ch.Restores, []grant.Restore{r}) || ch.Version <= version {
				t.Errorf("version %d after %d, restores %v, want %v", ch.Version, version, ch.Restores, r)
			}
			version = ch.Version
		}
		another := first
		another.Until++
		if err := st.Commit(t.Context(), store.Change{Restores: []grant.Restore{another}, Events: []store.Event{event("store", base, 1)}}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("a second restore of one instant: %v, want ErrConflict", err)
		}
		nothingNew(t, st, version)
		if ch := changes(t, open(t, db), 0); len(ch.Restores) != 2 || !slices.Contains(ch.Restores, first) || !slices.Contains(ch.Restores, later) {
			t.Errorf("another process reads %v", ch.Restores)
		}
		if list := recorded(t, st, "store"); len(list) != 2 {
			t.Errorf("%d events of 2 restores", len(list))
		}
	}},
	{"no poll misses a change", followChanges},
	{"Commit keeps the later instant of one name", func(t *testing.T, db Database) {
		st := open(t, db)
		names := []store.Cutoff{
			{Realm: "/api", Subject: "alice"}, {Realm: "/api", ClientID: "billing"},
			{Realm: "/api", Subject: "alice", ClientID: "billing"}, {Realm: "/other", Subject: "alice"},
			{Realm: "/api", Subject: "billing"}, // a subject with a client's name
		}
		// The instants are later, earlier and equal ones, in mixed order.
		for _, at := range []grant.Instant{base + 5, base + 4, base + 7, base + 7, base + 1} {
			for i, c := range names {
				c.At = at + grant.Instant(i)
				addCutoff(t, st, c, event(c.Subject+"/"+c.ClientID, at, i))
			}
		}
		for i := range names {
			names[i].At = base + 7 + grant.Instant(i)
		}
		sameCutoffs(t, changes(t, st, 0).Cutoffs, names)
		if list := recorded(t, st, "alice/billing"); len(list) != 5 {
			t.Errorf("%d events of 5 cutoffs", len(list))
		}
	}},
	{"of concurrent cutoffs of one name the latest stands", func(t *testing.T, db Database) {
		st := open(t, db)
		atOnce(32, func(n int) {
			if err := st.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "alice", At: base + grant.Instant(n*7%32)}}}); err != nil {
				t.Errorf("Commit: %v", err)
			}
		})
		sameCutoffs(t, changes(t, st, 0).Cutoffs, []store.Cutoff{{Realm: "/api", Subject: "alice", At: base + 31}})
	}},
	{"of concurrent Commits of keys at one version of the directory one succeeds", func(t *testing.T, db Database) {
		st, other := open(t, db), open(t, db)
		version := changes(t, st, 0).Version
		rings, errs := make([][]keys.Stored, 16), make([]error, 16)
		atOnce(len(rings), func(n int) {
			rings[n] = []keys.Stored{newKey(grant.KeyID(3*n + 1)), newKey(grant.KeyID(3*n + 2)), newKey(grant.KeyID(3*n + 3))}
			errs[n] = []store.Store{st, other}[n%2].Commit(t.Context(), store.Change{Expect: version, Keys: rings[n], Events: []store.Event{event(fmt.Sprintf("ring %d", n), base, n)}})
		})
		won := -1
		for n, err := range errs {
			if err == nil && won < 0 {
				won = n
			} else if !errors.Is(err, store.ErrConflict) {
				t.Errorf("Commit of keys at a version that is gone: %v, want ErrConflict", err)
			}
		}
		if won < 0 {
			t.Fatal("nobody added keys")
		}
		for n := range rings {
			if list := recorded(t, st, fmt.Sprintf("ring %d", n)); len(list) == 1 != (n == won) {
				t.Errorf("%d events of the keys of number %d; number %d added them", len(list), n, won)
			}
		}
		sameKeys(t, changes(t, st, 0).Keys, rings[won])
	}},
	{"Commit adds no keys after any other change", func(t *testing.T, db Database) {
		st := open(t, db)
		version := changes(t, st, 0).Version
		for n, change := range []func(){
			func() { createClient(t, st, newClient("a")) },
			func() { addCutoff(t, st, store.Cutoff{Realm: "/api", Subject: "alice", At: base}) },
			func() { addKeys(t, st, []keys.Stored{newKey(1)}) },
		} {
			change()
			for _, stale := range []int64{version, version - 1, version + 2} {
				if err := st.Commit(t.Context(), store.Change{Expect: stale, Keys: []keys.Stored{newKey(9)}, Events: []store.Event{event("stale", base, n)}}); !errors.Is(err, store.ErrConflict) {
					t.Errorf("Commit of keys at version %d after a change: %v, want ErrConflict", stale, err)
				}
			}
			version = changes(t, st, 0).Version
		}
		sameKeys(t, changes(t, st, 0).Keys, []keys.Stored{newKey(1)})
		if list := recorded(t, st, "stale"); len(list) != 0 {
			t.Errorf("%d events of keys that were not added", len(list))
		}
	}},
	{"Commit adds all keys or none", func(t *testing.T, db Database) {
		st := open(t, db)
		addKeys(t, st, []keys.Stored{newKey(5)})
		version := changes(t, st, 0).Version
		if err := st.Commit(t.Context(), store.Change{Expect: version, Keys: []keys.Stored{newKey(6), newKey(5)}, Events: []store.Event{event("twice", base, 1)}}); err == nil {
			t.Error("a key's id was taken twice")
		}
		if list := recorded(t, st, "twice"); len(list) != 0 {
			t.Errorf("%d events of keys that were not added", len(list))
		}
		nothingNew(t, st, version)
		sameKeys(t, changes(t, st, 0).Keys, []keys.Stored{newKey(5)})
	}},
	{"Commit replaces wrapped forms of keys and adds keys, all or nothing, at one version", func(t *testing.T, db Database) {
		st, other := open(t, db), open(t, db)
		addKeys(t, st, []keys.Stored{newKey(5), newKey(6)})
		version := changes(t, st, 0).Version
		changed := newKey(5)
		changed.Wrapped = []byte("wrapped otherwise")
		signing := newKey(6)
		signing.Purpose = keys.ES256
		for name, c := range map[string]struct {
			version        int64
			changed, added []keys.Stored
		}{
			"at a version that is gone":   {version - 1, []keys.Stored{changed}, []keys.Stored{newKey(7)}},
			"of what a key is for":        {version, []keys.Stored{changed, signing}, []keys.Stored{newKey(7)}},
			"with a record that is there": {version, []keys.Stored{changed}, []keys.Stored{newKey(7), newKey(6)}},
		} {
			if err := st.Commit(t.Context(), store.Change{Expect: c.version, Keys: slices.Concat(c.changed, c.added), Events: []store.Event{event("not done", base, 1)}}); err == nil {
				t.Errorf("a change %s was made", name)
			}
		}
		nothingNew(t, st, version)
		if list := recorded(t, st, "not done"); len(list) != 0 {
			t.Errorf("%d events of changes that were not made", len(list))
		}
		if err := st.Commit(t.Context(), store.Change{Expect: version, Keys: []keys.Stored{changed, newKey(7)}, Events: []store.Event{event("done", base, 1)}}); err != nil {
			t.Fatal(err)
		}
		// A poll returns the changed key and the new one, and no other.
		sameKeys(t, changes(t, other, version).Keys, []keys.Stored{changed, newKey(7)})
		sameKeys(t, changes(t, other, 0).Keys, []keys.Stored{changed, newKey(6), newKey(7)})
		if list := recorded(t, st, "done"); len(list) != 1 {
			t.Errorf("%d events of one change", len(list))
		}
	}},
}

// followChanges lets two nodes poll while two others write. Each reader merges the changes
// that it receives, and must end with what the store contains.
func followChanges(t *testing.T, db Database) {
	writers := []store.Store{open(t, db), open(t, db)}
	readers := []store.Store{open(t, db), open(t, db)}
	const each = 15
	heard := make([]map[string]int64, len(readers))
	cutoffs := make([]map[string]grant.Instant, len(readers))
	since := make([]int64, len(readers))
	poll := func(n int) {
		ch, err := readers[n].Changes(t.Context(), since[n])
		if err != nil {
			t.Errorf("Changes: %v", err)
		}
		if ch.Version < since[n] {
			t.Errorf("version went from %d back to %d", since[n], ch.Version)
		}
		since[n] = ch.Version
		for _, c := range ch.Clients {
			heard[n][c.ID] = c.Version
		}
		for _, c := range ch.Cutoffs {
			cutoffs[n][c.Subject] = c.At
		}
	}
	atOnce(len(writers)+len(readers), func(n int) {
		if n < len(writers) {
			c := newClient(string(rune('a' + n)))
			if err := writers[n].Commit(t.Context(), store.Change{Entries: []store.Entry{c.Entry()}}); err != nil {
				t.Errorf("Commit: %v", err)
			}
			for i := range each {
				c.Version++
				cutoff := store.Cutoff{Realm: "/api", Subject: c.ID, At: base + grant.Instant(i)}
				if err := writers[n].Commit(t.Context(), store.Change{Entries: []store.Entry{c.Entry()}, Cutoffs: []store.Cutoff{cutoff}}); err != nil {
					t.Errorf("Commit: %v", err)
				}
			}
			return
		}
		n -= len(writers)
		heard[n], cutoffs[n] = map[string]int64{}, map[string]grant.Instant{}
		for range 3 * each {
			poll(n)
		}
	})
	for n := range readers {
		poll(n)
		for i := range writers {
			id := string(rune('a' + i))
			if heard[n][id] != each+1 || cutoffs[n][id] != base+each-1 {
				t.Errorf("received version %d and cutoff %d of a client at version %d and cutoff %d",
					heard[n][id], cutoffs[n][id], each+1, base+each-1)
			}
		}
	}
}

// newKey returns a record that no key-encryption key opens: a store never opens records.
func newKey(id grant.KeyID) keys.Stored {
	return keys.Stored{ID: id, Purpose: keys.MAC, CreatedAt: base, ActiveAt: 1<<48 - 1, Wrapped: []byte{0, 1, 0xff, byte(id)}}
}

func changes(t *testing.T, st store.Store, since int64) store.Changes {
	t.Helper()
	ch, err := st.Changes(t.Context(), since)
	if err != nil {
		t.Fatalf("Changes: %v", err)
	}
	return ch
}

func nothingNew(t *testing.T, st store.Store, version int64) {
	t.Helper()
	ch := changes(t, st, version)
	if ch.Version != version || len(ch.Clients)+len(ch.Cutoffs)+len(ch.Keys) != 0 {
		t.Errorf("after version %d: version %d, %d clients, %d cutoffs, %d keys; want nothing",
			version, ch.Version, len(ch.Clients), len(ch.Cutoffs), len(ch.Keys))
	}
}

func addCutoff(t *testing.T, st store.Store, c store.Cutoff, events ...store.Event) {
	t.Helper()
	if err := st.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{c}, Events: events}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func addKeys(t *testing.T, st store.Store, records []keys.Stored) {
	t.Helper()
	if err := st.Commit(t.Context(), store.Change{Expect: changes(t, st, 0).Version, Keys: records}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func sameClients(t *testing.T, got []store.Client, want ...store.Client) {
	t.Helper()
	slices.SortFunc(got, func(a, b store.Client) int { return cmp.Compare(a.ID, b.ID) })
	if !slices.EqualFunc(got, want, sameClient) {
		t.Errorf("clients\n%+v, want\n%+v", got, want)
	}
}

func sameCutoffs(t *testing.T, got, want []store.Cutoff) {
	t.Helper()
	order := func(a, b store.Cutoff) int {
		return cmp.Or(cmp.Compare(a.Realm, b.Realm), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.ClientID, b.ClientID))
	}
	got, want = slices.SortedFunc(slices.Values(got), order), slices.SortedFunc(slices.Values(want), order)
	if !slices.Equal(got, want) {
		t.Errorf("cutoffs\n%+v, want\n%+v", got, want)
	}
}

func sameKeys(t *testing.T, got, want []keys.Stored) {
	t.Helper()
	order := func(a, b keys.Stored) int { return cmp.Compare(a.ID, b.ID) }
	got, want = slices.SortedFunc(slices.Values(got), order), slices.SortedFunc(slices.Values(want), order)
	if !slices.EqualFunc(got, want, func(a, b keys.Stored) bool {
		return a.ID == b.ID && a.Purpose == b.Purpose && a.CreatedAt == b.CreatedAt && a.ActiveAt == b.ActiveAt && bytes.Equal(a.Wrapped, b.Wrapped)
	}) {
		t.Errorf("keys\n%+v, want\n%+v", got, want)
	}
}
