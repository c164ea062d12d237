package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

var clientPromises = []promise{
	{"a client is read back as it was written", func(t *testing.T, db Database) {
		st := open(t, db)
		full := newClient("client~id!")
		full.Name = `O'Brien & "Söhne" 日本`
		full.Native, full.NoRotation, full.NoPKCE = true, true, true
		window := store.Milliseconds(0)
		full.RetryWindow, full.ReuseGrace = &window, &window
		full.RedirectURIs = []string{"https://client.example/cb?a=b&c=%20", "com.example.app:/cb"}
		full.CreatedAt, full.UpdatedAt = 1, math.MaxInt64
		empty := store.Client{ID: "x", Version: 1, State: store.ClientDisabled, Settings: store.Settings{GrantTypes: []string{}, RedirectURIs: []string{}}, Secrets: []store.Secret{}}
		for _, c := range []store.Client{full, empty, newClient("plain")} {
			createClient(t, st, c)
			holdsClient(t, st, c)
		}
	}},
	{"Client returns ErrNotFound if there is none", func(t *testing.T, db Database) {
		st := open(t, db)
		createClient(t, st, newClient("billing"))
		for _, id := range []string{"", "Billing", "billing ", "%"} {
			if _, err := st.Client(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("Client(%q): %v, want ErrNotFound", id, err)
			}
		}
	}},
	{"Commit of a client's version 1 returns ErrConflict if the id was ever taken", func(t *testing.T, db Database) {
		st := open(t, db)
		c := newClient("billing")
		createClient(t, st, c)
		conflict := func(when string) {
			t.Helper()
			before := changes(t, st, 0).Version
			other := newClient(c.ID)
			other.Name = "Somebody else"
			if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{other.Entry()}, Events: []store.Event{event(c.ID, base, 1)}}); !errors.Is(err, store.ErrConflict) {
				t.Errorf("Commit %s: %v, want ErrConflict", when, err)
			}
			holdsClient(t, st, c)
			if list := recorded(t, st, c.ID); len(list) != 0 {
				t.Errorf("%d events of a creation that did not happen", len(list))
			}
			if v := changes(t, st, 0).Version; v != before {
				t.Errorf("the directory's version went from %d to %d for nothing", before, v)
			}
		}
		conflict("of a living client's id")
		c.State, c.Version = store.ClientDeleted, 2
		c.Secrets = []store.Secret{}
		updateClient(t, st, c, nil)
		// Client finds a deleted client, and its id is never reused.
		conflict("of a deleted client's id")
	}},
	{"one of 32 concurrent creations of one client wins", func(t *testing.T, db Database) {
		st := open(t, db)
		var mu sync.Mutex
		var winners []store.Client
		atOnce(32, func(n int) {
			c := newClient("billing")
			c.Name = fmt.Sprint("Number ", n)
			err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{c.Entry()}, Events: []store.Event{event(c.ID, base, n)}})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				winners = append(winners, c)
			} else if !errors.Is(err, store.ErrConflict) {
				t.Errorf("loser: %v, want ErrConflict", err)
			}
		})
		if len(winners) != 1 {
			t.Fatalf("%d winners", len(winners))
		}
		holdsClient(t, st, winners[0])
		if list := recorded(t, st, "billing"); len(list) != 1 {
			t.Errorf("%d events, want the winner's", len(list))
		}
	}},
	{"Commit of a client replaces the version before, or returns ErrConflict and writes nothing", func(t *testing.T, db Database) {
		st := open(t, db)
		c := newClient("billing")
		createClient(t, st, c)
		for range 3 {
			c.Version++
			c.Name += "!"
			updateClient(t, st, c, nil)
			holdsClient(t, st, c)
		}
		for _, version := range []int64{0, 1, 3, 4, 6, math.MaxInt64} {
			other := c.Clone()
			other.Version, other.Name = version, "Somebody else"
			if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{other.Entry()}}); !errors.Is(err, store.ErrConflict) {
				t.Errorf("Commit of version %d of version %d: %v, want ErrConflict", version, c.Version, err)
			}
		}
		holdsClient(t, st, c)
		absent := newClient("absent")
		absent.Version = 2
		if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{absent.Entry()}}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("Commit of version 2 of nothing: %v, want ErrConflict", err)
		}
	}},
	{"Commit stores cutoffs and events with the client, all or nothing", func(t *testing.T, db Database) {
		st := open(t, db)
		c := newClient("billing")
		createClient(t, st, c)
		cutoffs := []store.Cutoff{{Realm: "/api", ClientID: c.ID, At: base}, {Realm: "/api", Subject: "alice", ClientID: c.ID, At: base + 1}}
		events := []store.Event{event(c.ID, base, 1), event(c.ID, base+1, 2)}
		before := changes(t, st, 0).Version

		late := c.Clone()
		late.Version = 3
		if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{late.Entry()}, Cutoffs: cutoffs, Events: events}); !errors.Is(err, store.ErrConflict) {
			t.Fatalf("Commit: %v, want ErrConflict", err)
		}
		if ch := changes(t, st, 0); len(ch.Cutoffs) != 0 || ch.Version != before {
			t.Errorf("%d cutoffs, version %d after %d, of an update that did not happen", len(ch.Cutoffs), ch.Version, before)
		}
		if list := recorded(t, st, c.ID); len(list) != 0 {
			t.Errorf("%d events of an update that did not happen", len(list))
		}

		c.Version = 2
		updateClient(t, st, c, cutoffs, events...)
		ch := changes(t, st, before)
		sameCutoffs(t, ch.Cutoffs, cutoffs)
		if len(ch.Clients) != 1 || ch.Clients[0].Version != 2 {
			t.Errorf("the cutoffs' change holds %d clients, want this one", len(ch.Clients))
		}
		if list := recorded(t, st, c.ID); !slices.Equal(list, events) {
			t.Errorf("events %+v, want %+v", list, events)
		}
	}},
	{"NoteSecretUses records the last use, and an earlier instant never replaces a later one", func(t *testing.T, db Database) {
		st := open(t, db)
		c := newClient("billing")
		createClient(t, st, c)
		first, second := c.Secrets[0].ID, c.Secrets[1].ID
		for _, step := range []struct {
			uses          map[string]grant.Instant
			first, second grant.Instant
		}{
			{map[string]grant.Instant{first: base + 5}, base + 5, 0},
			{map[string]grant.Instant{first: base + 4, second: base + 7}, base + 5, base + 7},
			{map[string]grant.Instant{first: base + 6, second: base + 7}, base + 6, base + 7},
			{map[string]grant.Instant{}, base + 6, base + 7},
			{map[string]grant.Instant{"of no client": base}, base + 6, base + 7},
		} {
			if err := st.NoteSecretUses(t.Context(), step.uses); err != nil {
				t.Fatalf("NoteSecretUses: %v", err)
			}
			got, err := st.Client(t.Context(), c.ID)
			if err != nil {
				t.Fatalf("Client: %v", err)
			}
			if got.Secrets[0].LastUsedAt != step.first || got.Secrets[1].LastUsedAt != step.second {
				t.Errorf("last uses %d and %d, want %d and %d", got.Secrets[0].LastUsedAt, got.Secrets[1].LastUsedAt, step.first, step.second)
			}
		}
	}},
	{"ReadSecretUses sets the last uses of many clients, and of secrets without one to zero", func(t *testing.T, db Database) {
		st := open(t, db)
		var clients []store.Client
		uses := map[string]grant.Instant{}
		for n := range 120 { // with more secrets than one statement reads
			c := newClient(fmt.Sprintf("client%d", n))
			for i := range c.Secrets {
				c.Secrets[i].ID = fmt.Sprintf("%d of %s", i, c.ID)
				c.Secrets[i].LastUsedAt = base + 1000000 // the outdated value of the caller
			}
			uses[c.Secrets[0].ID] = base + grant.Instant(n)
			clients = append(clients, c)
		}
		if err := errors.Join(st.NoteSecretUses(t.Context(), uses), st.ReadSecretUses(t.Context(), nil), st.ReadSecretUses(t.Context(), clients)); err != nil {
			t.Fatal(err)
		}
		for n, c := range clients {
			if c.Secrets[0].LastUsedAt != base+grant.Instant(n) || c.Secrets[1].LastUsedAt != 0 {
				t.Errorf("client %d: last uses %d and %d", n, c.Secrets[0].LastUsedAt, c.Secrets[1].LastUsedAt)
			}
		}
	}},
	{"NoteSecretUses does not change the directory's version", func(t *testing.T, db Database) {
		st := open(t, db)
		c := newClient("billing")
		createClient(t, st, c)
		before := changes(t, st, 0).Version
		if err := st.NoteSecretUses(t.Context(), map[string]grant.Instant{c.Secrets[0].ID: base}); err != nil {
			t.Fatalf("NoteSecretUses: %v", err)
		}
		if v := changes(t, st, 0).Version; v != before {
			t.Errorf("version %d, was %d", v, before)
		}
	}},
	{"the last use of a secret survives a change of its client", func(t *testing.T, db Database) {
		st := open(t, db)
		c := newClient("billing")
		createClient(t, st, c)
		if err := st.NoteSecretUses(t.Context(), map[string]grant.Instant{c.Secrets[0].ID: base}); err != nil {
			t.Fatalf("NoteSecretUses: %v", err)
		}
		c.Version = 2
		updateClient(t, st, c, nil)
		if got, err := st.Client(t.Context(), c.ID); err != nil || got.Secrets[0].LastUsedAt != base {
			t.Errorf("last use %d, %v; want %d", got.Secrets[0].LastUsedAt, err, base)
		}
	}},
}

func createClient(t *testing.T, st store.Store, c store.Client) {
	t.Helper()
	if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{c.Entry()}}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func updateClient(t *testing.T, st store.Store, c store.Client, cutoffs []store.Cutoff, events ...store.Event) {
	t.Helper()
	if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{c.Entry()}, Cutoffs: cutoffs, Events: events}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

// holdsClient fails the test unless the store reads c, last uses aside.
func holdsClient(t *testing.T, st store.Store, c store.Client) {
	t.Helper()
	got, err := st.Client(t.Context(), c.ID)
	if err != nil {
		t.Errorf("Client: %v", err)
	} else if !sameClient(got, c) {
		t.Errorf("read  %+v\nwrote %+v", got, c)
	}
}

// sameClient compares the stored forms of two clients: a store keeps nothing else of a
// client.
func sameClient(a, b store.Client) bool {
	ja, errA := json.Marshal(a)
	jb, errB := json.Marshal(b)
	return errA == nil && errB == nil && reflect.DeepEqual(ja, jb)
}
