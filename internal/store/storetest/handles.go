package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

var handlePromises = []promise{
	{"a write that returned survives closing and opening again", reopened},
	{"a read sees every write that returned before, whoever made it", func(t *testing.T, db Database) {
		a, b := open(t, db), open(t, db)
		g := newGrant(0)
		create(t, a, g)
		holds(t, b, g)
		for n := range 50 {
			g = rotated(g, uint64(n))
			update(t, a, g)
			holds(t, b, g)
			a, b = b, a
		}
	}},
	{"one of the concurrent updates of one version through several handles wins", func(t *testing.T, db Database) {
		handles := []store.Store{open(t, db), open(t, db), open(t, db)}
		for range 5 {
			g := newGrant(0)
			create(t, handles[0], g)
			oneWins(t, handles[1], 24, func(n int) (grant.Grant, error) {
				next := rotated(g, uint64(n)+1)
				return next, Replace(t.Context(), handles[n%3], next)
			})
		}
	}},
	{"one of the concurrent creations of one id through several handles wins", func(t *testing.T, db Database) {
		handles := []store.Store{open(t, db), open(t, db), open(t, db)}
		for range 5 {
			g := newGrant(0)
			oneWins(t, handles[1], 24, func(n int) (grant.Grant, error) {
				mine := g
				mine.Attempt = uint64(n) + 1
				return mine, handles[n%3].CreateGrant(t.Context(), mine)
			})
		}
	}},
	{"another handle's change of the directory is seen at once", func(t *testing.T, db Database) {
		a, b := open(t, db), open(t, db)
		version := changes(t, b, 0).Version
		c := newClient("billing")
		createClient(t, a, c)
		ch := changes(t, b, version)
		sameClients(t, ch.Clients, c)
		holdsClient(t, b, c)
		nothingNew(t, a, ch.Version)
	}},
	{"an operation whose context has ended is not begun: ErrBusy, and nothing is written", func(t *testing.T, db Database) {
		st := open(t, db)
		g, c := newGrant(0), newClient("billing")
		create(t, st, g)
		createClient(t, st, c)
		before := changes(t, st, 0).Version
		ended, end := context.WithCancel(t.Context())
		end()
		fresh, next, changed := newGrant(1), rotated(g, 1), c.Clone()
		changed.Version, changed.Name = 2, "Changed"
		cutoff := store.Cutoff{Realm: "/api", Subject: "alice", At: base}
		stored, document := newDocument(1), newDocument(2)
		putDocument(t, st, stored)
		for range 50 {
			for name, err := range map[string]error{
				"CreateGrant":                       st.CreateGrant(ended, fresh),
				"UpdateGrant":                       Replace(ended, st, next, event(g.ID.String(), base, 1)),
				"Commit of an entry":                st.Commit(ended, store.Change{Entries: []store.Entry{newClient("other").Entry()}}),
				"Commit of an entry and a cutoff":   st.Commit(ended, store.Change{Entries: []store.Entry{changed.Entry()}, Cutoffs: []store.Cutoff{cutoff}}),
				"Commit of a cutoff":                st.Commit(ended, store.Change{Cutoffs: []store.Cutoff{cutoff}}),
				"Commit of a key":                   st.Commit(ended, store.Change{Expect: 1, Keys: []keys.Stored{newKey(1)}}),
				"NoteSecretUses":                    st.NoteSecretUses(ended, map[string]grant.Instant{c.Secrets[0].ID: base}),
				"Commit of a document":              st.Commit(ended, store.Change{Documents: []store.Document{document}}),
				"Commit of a document and a cutoff": st.Commit(ended, store.Change{Documents: []store.Document{document}, Cutoffs: []store.Cutoff{cutoff}}),
				"Commit of a deletion":              st.Commit(ended, store.Change{Delete: []store.DocumentKey{stored.Key}}),
			} {
				if !errors.Is(err, store.ErrBusy) {
					t.Fatalf("%s: %v, want ErrBusy", name, err)
				}
			}
		}
		for _, table := range []store.SweptTable{store.SweptGrants, store.SweptDocuments} {
			if _, _, err := st.Sweep(ended, table, "", max(g.DeleteAfter, stored.ExpiresAt)+1, 10); err == nil {
				t.Errorf("Sweep of %s went on after its context had ended", table)
			}
		}
		holdsDocument(t, st, stored)
		noDocument(t, st, document.Key)
		holds(t, st, g)
		holdsClient(t, st, c)
		nothingNew(t, st, before)
		if _, err := st.Grant(t.Context(), fresh.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Grant: %v, want ErrNotFound", err)
		}
		if list := recorded(t, st, g.ID.String()); len(list) != 0 {
			t.Errorf("%d events", len(list))
		}
		if got, err := st.Client(t.Context(), c.ID); err != nil || got.Secrets[0].LastUsedAt != 0 {
			t.Errorf("last use %d, %v", got.Secrets[0].LastUsedAt, err)
		}
	}},
	{"an operation whose context ends while it waits or runs has an outcome, and affects no other operation", endedMeanwhile},
	{"Close waits for running operations: each returned write is there", closedMeanwhile},
	{"after Close every method returns an error, and Close may be called again", func(t *testing.T, db Database) {
		st, err := db(t.Context())
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		if err := st.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		// Without a deadline: a call after Close must not wait for ever.
		for name, err := range everyMethod(context.WithoutCancel(t.Context()), st) {
			if err == nil {
				t.Errorf("%s succeeded after Close", name)
			}
		}
		if err := st.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
		g := newGrant(0)
		again := open(t, db)
		create(t, again, g)
		holds(t, again, g)
	}},
}

// everyMethod calls every method of a store once and returns their errors, by name.
func everyMethod(ctx context.Context, st store.Store) map[string]error {
	_, grantErr := st.Grant(ctx, newID())
	_, grantsErr := st.Grants(ctx, store.GrantFilter{Limit: 1})
	_, _, sweepErr := st.Sweep(ctx, store.SweptGrants, "", base, 1)
	_, changesErr := st.Changes(ctx, 0)
	_, clientErr := st.Client(ctx, "billing")
	_, eventsErr := st.Events(ctx, "billing", 1)
	_, _, revocationsErr := st.Revocations(ctx, base, 1)
	_, documentErr := st.Document(ctx, newDocument(0).Key)
	_, documentsErr := st.Documents(ctx, store.DocumentFilter{Kind: store.DocumentUser, Limit: 1})
	_, _, sweepDocumentsErr := st.Sweep(ctx, store.SweptDocuments, "", base, 1)
	return map[string]error{
		"Grant": grantErr, "Grants": grantsErr, "Sweep of grants": sweepErr, "Changes": changesErr, "Client": clientErr, "Events": eventsErr, "Revocations": revocationsErr,
		"CreateGrant":        st.CreateGrant(ctx, newGrant(0)),
		"UpdateGrant":        Replace(ctx, st, rotated(newGrant(0), 1)),
		"Commit of an entry": st.Commit(ctx, store.Change{Entries: []store.Entry{newClient("billing").Entry()}}),
		"Commit of events":   st.Commit(ctx, store.Change{Events: []store.Event{event("alice", base, 1)}}),
		"NoteSecretUses":     st.NoteSecretUses(ctx, map[string]grant.Instant{"a": 1}),
		"Commit of a cutoff": st.Commit(ctx, store.Change{Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "alice", At: base}}}),
		"Commit of a key":    st.Commit(ctx, store.Change{Expect: 1, Keys: []keys.Stored{newKey(1)}}),
		"Document":           documentErr, "Documents": documentsErr, "Sweep of documents": sweepDocumentsErr,
		"Commit of a document":              st.Commit(ctx, store.Change{Documents: []store.Document{newDocument(0)}}),
		"Commit of a document and an event": st.Commit(ctx, store.Change{Documents: []store.Document{newDocument(0)}, Events: []store.Event{event("alice", base, 1)}}),
		"Commit of a deletion":              st.Commit(ctx, store.Change{Delete: []store.DocumentKey{newDocument(0).Key}}),
	}
}

func reopened(t *testing.T, db Database) {
	st, err := db(t.Context())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	kept, changed := newGrant(1), newGrant(2)
	create(t, st, kept, changed)
	changed = rotated(changed, 3)
	events := []store.Event{event(changed.ID.String(), base, 1)}
	update(t, st, changed, events...)
	c := newClient("billing")
	createClient(t, st, c)
	c.Version, c.Name = 2, "Changed"
	cutoffs := []store.Cutoff{{Realm: "/api", ClientID: c.ID, At: base}}
	updateClient(t, st, c, cutoffs)
	ring := []keys.Stored{newKey(1), newKey(2)}
	addKeys(t, st, ring)
	if err := st.NoteSecretUses(t.Context(), map[string]grant.Instant{c.Secrets[1].ID: base + 3}); err != nil {
		t.Fatalf("NoteSecretUses: %v", err)
	}
	version := changes(t, st, 0).Version
	if err := st.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}

	st = open(t, db)
	holds(t, st, kept)
	holds(t, st, changed)
	holdsClient(t, st, c)
	if got := recorded(t, st, changed.ID.String()); !slices.Equal(got, events) {
		t.Errorf("events %+v, want %+v", got, events)
	}
	ch := changes(t, st, 0)
	if ch.Version != version {
		t.Errorf("version %d, was %d", ch.Version, version)
	}
	sameClients(t, ch.Clients, c)
	sameCutoffs(t, ch.Cutoffs, cutoffs)
	sameKeys(t, ch.Keys, ring)
	if got, err := st.Client(t.Context(), c.ID); err != nil || got.Secrets[1].LastUsedAt != base+3 {
		t.Errorf("last use %d, %v; want %d", got.Secrets[1].LastUsedAt, err, base+3)
	}
}

// endedMeanwhile cancels half of the operations while they are queued or running. A
// write that succeeded is stored, one that returned ErrBusy is not, and another error
// leaves it open. Operations that were not cancelled must succeed.
func endedMeanwhile(t *testing.T, db Database) {
	st := open(t, db)
	for range 8 {
		list := make([]grant.Grant, 64)
		errs := make([]error, len(list))
		ctx, cancel := context.WithCancel(t.Context())
		atOnce(len(list)+1, func(n int) {
			if n == len(list) {
				cancel()
				return
			}
			list[n] = newGrant(uint64(n))
			if n%2 == 0 {
				errs[n] = st.CreateGrant(ctx, list[n])
			} else {
				errs[n] = st.CreateGrant(t.Context(), list[n])
			}
		})
		for n, g := range list {
			switch {
			case errs[n] == nil:
				holds(t, st, g)
			case n%2 == 1:
				t.Errorf("an operation beside cancelled ones: %v", errs[n])
			case errors.Is(errs[n], store.ErrBusy):
				if _, err := st.Grant(t.Context(), g.ID); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("after ErrBusy: %v, want ErrNotFound", err)
				}
			}
		}
	}
}

func closedMeanwhile(t *testing.T, db Database) {
	for range 5 {
		st, err := db(t.Context())
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		var mu sync.Mutex
		var done []grant.Grant
		atOnce(33, func(n int) {
			if n == 32 {
				if err := st.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
				return
			}
			for i := range 20 {
				g := newGrant(uint64(i))
				if err := st.CreateGrant(t.Context(), g); err != nil {
					return
				}
				mu.Lock()
				done = append(done, g)
				mu.Unlock()
				if got, err := st.Grant(t.Context(), g.ID); err == nil && got != g {
					t.Errorf("read %+v while closing, wrote %+v", got, g)
				} else if errors.Is(err, store.ErrNotFound) {
					t.Error("a returned write was not found while closing")
				}
			}
		})
		after, err := db(t.Context())
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		for _, g := range done {
			holds(t, after, g)
		}
		if err := after.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}
