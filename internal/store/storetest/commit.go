package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

var commitPromises = []promise{
	{"entries, cutoffs, keys and restores change the directory's version, once each, and nothing else does", func(t *testing.T, db Database) {
		st := open(t, db)
		version := changes(t, st, 0).Version
		for n, c := range []struct {
			change store.Change
			moves  bool
		}{
			{store.Change{}, false},
			{store.Change{Events: []store.Event{event("alice", base, 1)}}, false},
			{store.Change{Documents: []store.Document{newDocument(1)}}, false},
			{store.Change{Documents: []store.Document{newDocument(2), newDocument(3)}, Delete: []store.DocumentKey{newDocument(4).Key}, Events: []store.Event{event("alice", base, 1)}}, false},
			{store.Change{Expect: version, Documents: []store.Document{newDocument(5)}}, false},
			{store.Change{Entries: []store.Entry{newClient("a").Entry(), newClient("b").Entry()}}, true},
			{store.Change{Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "alice", At: base}, {Realm: "/api", Subject: "bob", At: base}}}, true},
			{store.Change{Restores: []grant.Restore{{At: base, Backup: base - 1, Until: base + 1}}}, true},
			{store.Change{Expect: version + 3, Keys: []keys.Stored{newKey(1), newKey(2)}, Events: []store.Event{event("alice", base, 1)}}, true},
			{whole(version+4, 9), true},
		} {
			commit(t, st, c.change)
			if c.moves {
				version++
			}
			if got := changes(t, st, 0).Version; got != version {
				t.Errorf("version %d after change %d, want %d", got, n, version)
			}
		}
	}},
	{"a change that conflicts in one record stores nothing of the others", func(t *testing.T, db Database) {
		st := open(t, db)
		before := whole(changes(t, st, 0).Version, 1)
		commit(t, st, before)
		for name, spoil := range map[string]func(c *store.Change){
			"directory's version":    func(c *store.Change) { c.Expect-- },
			"entry that is there":    func(c *store.Change) { c.Entries[1] = other(before.Entries[1]) },
			"entry's version":        func(c *store.Change) { c.Entries[1].Version = 3 },
			"entry of version 0":     func(c *store.Change) { c.Entries[1].Version = 0 },
			"document that is there": func(c *store.Change) { c.Documents[1].Key = before.Documents[1].Key },
			"document's version":     func(c *store.Change) { c.Documents[1].Version = 2 },
			"document's kind": func(c *store.Change) {
				c.Documents[1] = successor(before.Documents[1], 1)
				c.Documents[1].Kind = store.DocumentUser
			},
			"key of the same id": func(c *store.Change) { c.Keys[1].ID = before.Keys[1].ID; c.Keys[1].CreatedAt++ },
			"restore of the same instant": func(c *store.Change) {
				c.Restores[0].At = before.Restores[0].At
			},
		} {
			version := changes(t, st, 0).Version
			c := whole(version, 2)
			spoil(&c)
			if err := st.Commit(t.Context(), c); !errors.Is(err, store.ErrConflict) {
				t.Errorf("another %s: %v, want ErrConflict", name, err)
			}
			nothingNew(t, st, version)
			for _, d := range c.Documents {
				if _, err := st.Document(t.Context(), d.Key); err == nil && !slices.ContainsFunc(before.Documents, func(b store.Document) bool { return b.Key == d.Key }) {
					t.Errorf("another %s: a document was stored", name)
				}
			}
			if list := recorded(t, st, c.Events[0].About); len(list) != 0 {
				t.Errorf("another %s: %d events were stored", name, len(list))
			}
		}
		holdsChange(t, st, before)
		commit(t, st, whole(changes(t, st, 0).Version, 2))
		holdsChange(t, st, whole(0, 2))
	}},
	{"a change that is stored exactly is success again, and its events are stored once", func(t *testing.T, db Database) {
		st, again := open(t, db), open(t, db)
		first := whole(changes(t, st, 0).Version, 1)
		second := next(first, changes(t, st, 0).Version+1)
		for _, c := range []store.Change{first, second} {
			commit(t, st, c)
			version := changes(t, st, 0).Version
			// Each part of c succeeds again, too. Cutoffs are no part: they have no version.
			for n, part := range append(parts(c), c, c) {
				part.Events = c.Events
				if err := []store.Store{st, again}[n%2].Commit(t.Context(), part); err != nil {
					t.Errorf("part %d of the same again: %v", n, err)
				}
			}
			nothingNew(t, st, version)
			if list := recorded(t, st, c.Events[0].About); len(list) != 1 {
				t.Errorf("%d events, want 1", len(list))
			}
			holdsChange(t, st, c)
		}
		if err := st.Commit(t.Context(), first); !errors.Is(err, store.ErrConflict) {
			t.Errorf("the first change, after the second: %v, want ErrConflict", err)
		}
	}},
	{"a change of which a part is stored is a conflict, and the rest is not stored", func(t *testing.T, db Database) {
		st := open(t, db)
		c := whole(changes(t, st, 0).Version, 1)
		for n, part := range parts(c) {
			commit(t, st, part)
			version := changes(t, st, 0).Version
			c.Expect = version
			if err := st.Commit(t.Context(), c); !errors.Is(err, store.ErrConflict) {
				t.Errorf("with %d of its parts stored: %v, want ErrConflict", n+1, err)
			}
			nothingNew(t, st, version)
		}
		if list := recorded(t, st, c.Events[0].About); len(list) != 0 {
			t.Errorf("%d events of what was a conflict", len(list))
		}
		commit(t, st, store.Change{Cutoffs: c.Cutoffs})
		commit(t, st, c) // by now all of it is stored
	}},
	{"a change that differs in one record from what is stored is a conflict", func(t *testing.T, db Database) {
		st := open(t, db)
		expect := changes(t, st, 0).Version
		commit(t, st, whole(expect, 1))
		there := newDocument(1)
		putDocument(t, st, there)
		for name, edit := range map[string]func(c *store.Change){
			"an entry":             func(c *store.Change) { c.Entries[1] = other(c.Entries[1]) },
			"a document's body":    func(c *store.Change) { c.Documents[1].Body = []byte("other") },
			"a document's expiry":  func(c *store.Change) { c.Documents[1].ExpiresAt++ },
			"a document's owner":   func(c *store.Change) { c.Documents[1].Owner[0]++ },
			"a deletion":           func(c *store.Change) { c.Delete = append(c.Delete, there.Key) },
			"a later cutoff":       func(c *store.Change) { c.Cutoffs[0].At++ },
			"a key's wrapped form": func(c *store.Change) { c.Keys[1].Wrapped = []byte("other") },
			"a key's purpose":      func(c *store.Change) { c.Keys[1].Purpose = keys.ES256 },
			"a restore":            func(c *store.Change) { c.Restores[0].Until++ },
		} {
			c := whole(expect, 1)
			edit(&c)
			if err := st.Commit(t.Context(), c); !errors.Is(err, store.ErrConflict) {
				t.Errorf("another %s: %v, want ErrConflict", name, err)
			}
		}
		nothingNew(t, st, expect+1)
		holdsChange(t, st, whole(expect, 1))
	}},
	{"several documents are stored and deleted together, or none, beside others that wait", documentsWhole},
	{"changes of the same documents in different orders have one winner, through several handles", func(t *testing.T, db Database) {
		handles := []store.Store{open(t, db), open(t, db)}
		for range 4 {
			list := []store.Document{newDocument(0), newDocument(0), written(t, handles[0], newDocument(0), 2)}
			list[2] = successor(list[2], 0)
			errs := make([]error, 24)
			mine := make([][]store.Document, len(errs))
			atOnce(len(errs), func(n int) {
				mine[n] = slices.Clone(list)
				for i := range mine[n] {
					mine[n][i].Body = fmt.Appendf(nil, "%d", n)
				}
				order := mine[n]
				if n%2 == 1 {
					order = slices.Clone(order)
					slices.Reverse(order)
				}
				errs[n] = handles[n/2%2].Commit(t.Context(), store.Change{Documents: order, Events: []store.Event{event("winner", base, n)}[:n%3/2]})
			})
			won := -1
			for n, err := range errs {
				if err == nil && won < 0 {
					won = n
				} else if !errors.Is(err, store.ErrConflict) {
					t.Errorf("loser: %v, want ErrConflict", err)
				}
			}
			if won < 0 {
				t.Fatal("no winner")
			}
			for _, d := range mine[won] {
				holdsDocument(t, handles[0], d)
			}
		}
	}},
	{"concurrent changes that are exactly the same all succeed, and are recorded once", func(t *testing.T, db Database) {
		handles := []store.Store{open(t, db), open(t, db)}
		for n := range 3 {
			c := whole(changes(t, handles[0], 0).Version, n)
			if n == 1 {
				c = store.Change{Documents: c.Documents, Events: c.Events}
			}
			atOnce(16, func(i int) {
				if err := handles[i%2].Commit(t.Context(), c); err != nil {
					t.Errorf("Commit: %v", err)
				}
			})
			if list := recorded(t, handles[0], c.Events[0].About); len(list) != 1 {
				t.Errorf("%d events, want 1", len(list))
			}
		}
	}},
	{"a change that names one document twice is refused, and nothing is stored", func(t *testing.T, db Database) {
		st := open(t, db)
		d := newDocument(1)
		for _, c := range []store.Change{
			{Documents: []store.Document{d, newDocument(2), d}}, {Documents: []store.Document{d, successor(d, 2)}},
			{Documents: []store.Document{d}, Delete: []store.DocumentKey{d.Key}},
		} {
			if err := st.Commit(t.Context(), c); err == nil || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) {
				t.Errorf("Commit: %v, want an error of its own", err)
			}
			noDocument(t, st, d.Key)
		}
	}},
	{"an entry of a kind that this version does not know is stored, and left alone", func(t *testing.T, db Database) {
		st := open(t, db)
		client := newClient("billing")
		createClient(t, st, client)
		version := changes(t, st, 0).Version
		e := store.Entry{Kind: "later", ID: client.ID, Version: 1, Body: []byte(`["not a client"]`)}
		for range 2 {
			commit(t, st, store.Change{Entries: []store.Entry{e}, Events: []store.Event{event("later", base, 1)}})
			if ch := changes(t, st, version); ch.Version != version+1 || len(ch.Clients) != 0 {
				t.Errorf("version %d after %d, %d clients", ch.Version, version, len(ch.Clients))
			}
		}
		if list := recorded(t, st, "later"); len(list) != 1 {
			t.Errorf("%d events, want 1", len(list))
		}
		holdsClient(t, st, client)
		if _, err := st.Client(t.Context(), "later "+client.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Client: %v, want ErrNotFound", err)
		}
		other := e
		other.Body = []byte(`{}`)
		if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{other}}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("Commit: %v, want ErrConflict", err)
		}
		other.Version = 2
		commit(t, st, store.Change{Entries: []store.Entry{other}})
		sameClients(t, changes(t, st, 0).Clients, client)
	}},
	{"keys require the directory's version", func(t *testing.T, db Database) {
		st := open(t, db)
		if err := st.Commit(t.Context(), store.Change{Keys: []keys.Stored{newKey(1)}}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("Commit: %v, want ErrConflict", err)
		}
		if n := len(changes(t, st, 0).Keys); n != 0 {
			t.Errorf("%d keys", n)
		}
	}},
	{"the store keeps no reference to the lists of a change", func(t *testing.T, db Database) {
		st := open(t, db)
		c := whole(changes(t, st, 0).Version, 1)
		commit(t, st, c)
		clear(c.Entries[0].Body)
		clear(c.Keys[0].Wrapped)
		clear(c.Documents[0].Body)
		holdsChange(t, st, whole(0, 1))
	}},
	{"Ready is nil, and Load counts batches of writes", func(t *testing.T, db Database) {
		st := open(t, db)
		create(t, st, newGrant(1))
		if err := st.Ready(t.Context()); err != nil {
			t.Errorf("Ready: %v", err)
		}
		if l := st.Load(); l.Batches.Operations < 1 || l.Batches.Count < 1 || l.Waiting != 0 {
			t.Errorf("Load: %+v", l)
		}
	}},
}

func commit(t *testing.T, st store.Store, c store.Change) {
	t.Helper()
	if err := st.Commit(t.Context(), c); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// whole returns a change with records of every kind, whose ids depend on n.
func whole(expect int64, n int) store.Change {
	name := fmt.Sprintf("whole-%d", n)
	d, e := newDocument(n), newDocument(n)
	d.Key, e.Key = store.KeyOf(d.Kind, "/api", name), store.KeyOf(e.Kind, "/other", name)
	return store.Change{
		Expect:    expect,
		Entries:   []store.Entry{newClient(name).Entry(), newClient(name + "-second").Entry()},
		Documents: []store.Document{d, e},
		Delete:    []store.DocumentKey{store.KeyOf(store.DocumentSession, "/gone", name)},
		Cutoffs:   []store.Cutoff{{Realm: "/api", Subject: name, At: base + grant.Instant(n)}},
		Keys:      []keys.Stored{newKey(grant.KeyID(100 + 2*n)), newKey(grant.KeyID(101 + 2*n))},
		Restores:  []grant.Restore{{At: base + grant.Instant(n), Backup: base - 1, Until: base + 1}},
		Events:    []store.Event{event(name, base, n)},
	}
}

// next returns a change to the next versions of the records of c, with later restores.
func next(c store.Change, expect int64) store.Change {
	n := store.Change{Expect: expect, Delete: c.Delete, Events: []store.Event{c.Events[0]}}
	n.Events[0].About += " next"
	for _, e := range c.Entries {
		n.Entries = append(n.Entries, other(store.Entry{Kind: e.Kind, ID: e.ID, Version: e.Version + 1, Body: e.Body}))
	}
	for i, d := range c.Documents {
		n.Documents = append(n.Documents, successor(d, i))
	}
	for _, o := range c.Cutoffs {
		o.At++
		n.Cutoffs = append(n.Cutoffs, o)
	}
	for _, k := range c.Keys {
		k.Wrapped = []byte("wrapped otherwise")
		n.Keys = append(n.Keys, k)
	}
	for _, r := range c.Restores {
		r.At += 1000
		n.Restores = append(n.Restores, r)
	}
	return n
}

// other returns an entry with a different body.
func other(e store.Entry) store.Entry {
	c, err := e.Client()
	if err != nil {
		panic(err)
	}
	c.Name, c.Version = "Somebody else", e.Version
	return c.Entry()
}

// parts returns the versioned records of c in changes of their own, in order. Keys
// expect the version that the directory has after the parts before them.
func parts(c store.Change) (list []store.Change) {
	for i := range c.Entries {
		list = append(list, store.Change{Entries: c.Entries[i : i+1]})
	}
	for i := range c.Documents {
		list = append(list, store.Change{Documents: c.Documents[i : i+1]})
	}
	list = append(list, store.Change{Restores: c.Restores})
	if expect := c.Expect; expect != 0 {
		list = append(list, store.Change{Expect: expect + int64(len(c.Entries)) + 1, Keys: c.Keys})
	}
	return list
}

// holdsChange fails the test unless every record of c is stored.
func holdsChange(t *testing.T, st store.Store, c store.Change) {
	t.Helper()
	ch := changes(t, st, 0)
	for _, e := range c.Entries {
		want, err := e.Client()
		if err != nil {
			t.Fatal(err)
		}
		holdsClient(t, st, want)
	}
	for _, d := range c.Documents {
		holdsDocument(t, st, d)
	}
	for _, o := range c.Cutoffs {
		if !slices.Contains(ch.Cutoffs, o) {
			t.Errorf("no cutoff %+v", o)
		}
	}
	for _, r := range c.Restores {
		if !slices.Contains(ch.Restores, r) {
			t.Errorf("no restore %+v", r)
		}
	}
	var ring []keys.Stored
	for _, k := range ch.Keys {
		if slices.ContainsFunc(c.Keys, func(o keys.Stored) bool { return o.ID == k.ID }) {
			ring = append(ring, k)
		}
	}
	sameKeys(t, ring, c.Keys)
}

func documentsWhole(t *testing.T, db Database) {
	st := open(t, db)
	taken := written(t, st, newDocument(1), 2)
	for range 5 {
		old, fresh := make([]store.Document, 64), make([]store.Document, 64)
		grants := make([]grant.Grant, len(old))
		for n := range old {
			old[n] = newDocument(n)
			putDocument(t, st, old[n])
		}
		atOnce(len(old), func(n int) {
			fresh[n], grants[n] = newDocument(n), newGrant(uint64(n))
			c := store.Change{
				Documents: []store.Document{fresh[n], newDocument(n)}, Delete: []store.DocumentKey{old[n].Key}, Events: []store.Event{event("moved", base, n)},
			}
			switch n % 4 {
			case 0: // the second document conflicts
				lost := taken
				lost.Body = []byte("lost")
				c.Documents[1] = lost
				if err := st.Commit(t.Context(), c); !errors.Is(err, store.ErrConflict) {
					t.Errorf("loser: %v, want ErrConflict", err)
				}
			case 1:
				if err := st.CreateGrant(t.Context(), grants[n]); err != nil {
					t.Errorf("CreateGrant beside losers: %v", err)
				}
			default:
				if err := st.Commit(t.Context(), c); err != nil {
					t.Errorf("Commit beside losers: %v", err)
				}
			}
		})
		for n := range old {
			switch n % 4 {
			case 0:
				holdsDocument(t, st, old[n])
				noDocument(t, st, fresh[n].Key)
			case 1:
				holds(t, st, grants[n])
			default:
				noDocument(t, st, old[n].Key)
				holdsDocument(t, st, fresh[n])
			}
		}
	}
	holdsDocument(t, st, taken)
	if list, err := st.Events(t.Context(), "moved", 1000); err != nil || len(list) != 5*32 {
		t.Errorf("%d events, %v; want %d", len(list), err, 5*32)
	}
}
