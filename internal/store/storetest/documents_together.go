package storetest

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

var documentsTogetherPromises = []promise{
	{"one of 64 concurrent puts of one version wins, with cutoffs or without", func(t *testing.T, db Database) {
		st := open(t, db)
		for range 4 {
			d := oneDocumentWins(t, []store.Store{st}, newDocument(0), 64)
			oneDocumentWins(t, []store.Store{st}, successor(d, 0), 64)
		}
	}},
	{"one of the concurrent puts of one version through several handles wins", func(t *testing.T, db Database) {
		handles := []store.Store{open(t, db), open(t, db), open(t, db)}
		for range 4 {
			d := oneDocumentWins(t, handles, newDocument(0), 24)
			oneDocumentWins(t, handles, successor(d, 0), 24)
		}
	}},
	{"concurrent puts of exactly the same document all succeed, and are recorded once", func(t *testing.T, db Database) {
		st := open(t, db)
		d := newDocument(1)
		atOnce(32, func(int) {
			if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}, Events: []store.Event{event("alice", base, 1)}}); err != nil {
				t.Errorf("Commit: %v", err)
			}
		})
		holdsDocument(t, st, d)
		if n := len(recorded(t, st, "alice")); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	}},
	{"a put that conflicts, or is refused, never undoes the others of its batch", documentLosersAndNeighbours},
	{"every change in a compare-and-swap loop is counted once, beside deletions of others", func(t *testing.T, db Database) {
		handles := []store.Store{open(t, db), open(t, db)}
		d := newDocument(0)
		putDocument(t, handles[0], d)
		const workers, each = 8, 10
		atOnce(workers, func(n int) {
			st := handles[n%2]
			for done := 0; done < each; {
				have, err := st.Document(t.Context(), d.Key)
				if err != nil {
					t.Errorf("Document: %v", err)
					return
				}
				switch err := st.Commit(t.Context(), store.Change{Documents: []store.Document{successor(have, n*each+done)}}); {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrConflict):
					t.Errorf("Commit: %v", err)
					return
				}
				if err := st.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{newDocument(0).Key}}); err != nil {
					t.Errorf("Commit of a deletion: %v", err)
				}
			}
		})
		if got, err := handles[0].Document(t.Context(), d.Key); err != nil || got.Version != 1+workers*each {
			t.Errorf("version %d, %v; want %d", got.Version, err, 1+workers*each)
		}
	}},
	{"a read sees every put and deletion that returned before, whoever made it", func(t *testing.T, db Database) {
		a, b := open(t, db), open(t, db)
		d := newDocument(0)
		for n := range 25 {
			d.Version = 0
			d = successor(d, n)
			putDocument(t, a, d)
			holdsDocument(t, b, d)
			d = successor(d, n)
			putDocument(t, b, d)
			holdsDocument(t, a, d)
			if err := a.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{d.Key}}); err != nil {
				t.Errorf("Commit of a deletion: %v", err)
			}
			noDocument(t, b, d.Key)
		}
	}},
	{"Sweep deletes documents that expired before now, of every kind, and nothing else", sweptDocuments},
	{"Sweep scans at most limit documents after a key, in the order of the keys, and returns where to continue", walkDocuments},
	{"Sweep of an empty table of documents deletes nothing and is at its end", func(t *testing.T, db Database) {
		st := open(t, db)
		last := newDocument(0).Key
		for _, after := range []string{"", string(last[:])} {
			if next, deleted, err := st.Sweep(t.Context(), store.SweptDocuments, after, base, 10); err != nil || deleted != 0 || next != "" {
				t.Errorf("Sweep = %x, %d, %v; want the end", next, deleted, err)
			}
		}
	}},
	{"Sweep does not delete a document that changes meanwhile", documentsRescued},
}

// oneDocumentWins runs n concurrent puts of one version, through the handles in turn.
// Exactly one must succeed.
func oneDocumentWins(t *testing.T, handles []store.Store, d store.Document, n int) store.Document {
	t.Helper()
	var mu sync.Mutex
	var winners []store.Document
	before := len(recorded(t, handles[0], "alice"))
	recordedWinners := 0
	atOnce(n, func(i int) {
		mine := d
		mine.Body = newDocument(i).Body
		var events []store.Event
		if i%3 == 0 {
			events = []store.Event{event("alice", base, i)}
		}
		err := handles[i%len(handles)].Commit(t.Context(), store.Change{Documents: []store.Document{mine}, Events: events})
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			winners, recordedWinners = append(winners, mine), recordedWinners+len(events)
		} else if !errors.Is(err, store.ErrConflict) {
			t.Errorf("loser: %v, want ErrConflict", err)
		}
	})
	if len(winners) != 1 {
		t.Fatalf("%d winners, want 1", len(winners))
	}
	for _, st := range handles {
		holdsDocument(t, st, winners[0])
	}
	if n := len(recorded(t, handles[0], "alice")) - before; n != recordedWinners {
		t.Errorf("%d events, want %d", n, recordedWinners)
	}
	return winners[0]
}

func documentLosersAndNeighbours(t *testing.T, db Database) {
	st := open(t, db)
	taken := written(t, st, newDocument(1), 2)
	for range 5 {
		fresh, grants := make([]store.Document, 64), make([]grant.Grant, 64)
		atOnce(len(fresh), func(n int) {
			fresh[n], grants[n] = newDocument(n), newGrant(uint64(n))
			lost := taken
			lost.Body = []byte("lost")
			switch n % 8 {
			case 0:
				if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{lost}}); !errors.Is(err, store.ErrConflict) {
					t.Errorf("loser: %v, want ErrConflict", err)
				}
			case 1:
				lost.Version = 1
				if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{lost}, Events: []store.Event{event("alice", base, n)}}); !errors.Is(err, store.ErrConflict) {
					t.Errorf("loser: %v, want ErrConflict", err)
				}
			case 2:
				fresh[n].Body = make([]byte, store.MaxDocument+1)
				if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{fresh[n]}}); err == nil {
					t.Error("a body that is too large was written")
				}
			case 3:
				if err := st.CreateGrant(t.Context(), grants[n]); err != nil {
					t.Errorf("CreateGrant beside losers: %v", err)
				}
			default:
				if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{fresh[n]}}); err != nil {
					t.Errorf("Commit beside losers: %v", err)
				}
			}
		})
		for n := range fresh {
			switch {
			case n%8 > 3:
				holdsDocument(t, st, fresh[n])
			case n%8 == 3:
				holds(t, st, grants[n])
			default:
				noDocument(t, st, fresh[n].Key)
			}
		}
	}
	holdsDocument(t, st, taken)
}

// sweepDocuments sweeps the whole table of documents once.
func sweepDocuments(t *testing.T, st store.Store, now grant.Instant, limit int) (total int) {
	t.Helper()
	var from string
	for range 10_000 {
		next, deleted, err := st.Sweep(t.Context(), store.SweptDocuments, from, now, limit)
		if err != nil {
			t.Fatalf("Sweep: %v", err)
		}
		total += deleted
		if next == "" {
			return total
		}
		if next <= from {
			t.Fatalf("the sweep went from %x to %x", from, next)
		}
		from = next
	}
	t.Fatal("the sweep does not end")
	return total
}

func sweptDocuments(t *testing.T, db Database) {
	st := open(t, db)
	const now = base + 5000
	var kept, gone []store.Document
	for n, expiresAt := range []grant.Instant{now - 1, now, now + 1, 0, 1, -1, grant.Never, now - 1, 0} {
		for _, kind := range []store.DocumentKind{store.DocumentUser, store.DocumentSession, store.DocumentInteraction, store.DocumentConsents} {
			d := newDocument(n)
			d.Kind, d.ExpiresAt = kind, expiresAt
			putDocument(t, st, d)
			if expiresAt != 0 && expiresAt < now {
				gone = append(gone, d)
			} else {
				kept = append(kept, d)
			}
		}
	}
	g := newGrant(1)
	g.DeleteAfter = 1
	create(t, st, g)
	if deleted := sweepDocuments(t, st, now, 100); deleted != len(gone) {
		t.Errorf("%d deleted, want %d", deleted, len(gone))
	}
	for _, d := range kept {
		holdsDocument(t, st, d)
	}
	for _, d := range gone {
		noDocument(t, st, d.Key)
	}
	holds(t, st, g) // only a sweep of grants deletes it
	if deleted := sweepAll(t, st, now, 100); deleted != 1 {
		t.Errorf("Sweep of grants deleted %d, want 1", deleted)
	}
	if deleted := sweepDocuments(t, st, now, 100); deleted != 0 {
		t.Errorf("a second sweep deleted %d", deleted)
	}
	// The key of a deleted document is free again.
	putDocument(t, st, gone[0])
	holdsDocument(t, st, gone[0])
}

func walkDocuments(t *testing.T, db Database) {
	st := open(t, db)
	const now = base + 5000
	for _, limit := range []int{1, 7, 20, 21} {
		all := make([]store.Document, 20)
		for n := range all {
			all[n] = newDocument(n)
			if n%2 == 0 {
				all[n].ExpiresAt = now
			}
			putDocument(t, st, all[n])
		}
		slices.SortFunc(all, func(a, b store.Document) int { return bytes.Compare(a.Key[:], b.Key[:]) })
		var from string
		for walked := 0; ; {
			next, deleted, err := st.Sweep(t.Context(), store.SweptDocuments, from, now, limit)
			if err != nil {
				t.Fatalf("Sweep: %v", err)
			}
			slice := all[walked:min(walked+limit, len(all))]
			walked += len(slice)
			want := 0
			for _, d := range slice {
				if d.ExpiresAt < now {
					want++
					noDocument(t, st, d.Key)
				}
			}
			if deleted != want {
				t.Errorf("limit %d: %d deleted of this slice, want %d", limit, deleted, want)
			}
			if walked < len(all) {
				holdsDocument(t, st, all[len(all)-1])
			}
			if next == "" {
				if walked != len(all) {
					t.Errorf("limit %d: the sweep ended after %d documents of %d", limit, walked, len(all))
				}
				break
			}
			if len(slice) < limit || next != string(slice[len(slice)-1].Key[:]) {
				t.Fatalf("limit %d: after %d documents the sweep continues from %x", limit, walked, next)
			}
			from = next
		}
		// Leave an empty table for the next limit.
		if n := sweepDocuments(t, st, now+1, 100); n != 10 {
			t.Fatalf("%d deleted, want 10", n)
		}
	}
}

// documentsRescued lets puts race with the sweep for the same documents. After a put
// that succeeded, its document must exist; after one that conflicted, it must not.
func documentsRescued(t *testing.T, db Database) {
	st, other := open(t, db), open(t, db)
	const now = base + 1_000_000
	dead := make([]store.Document, 100)
	for i := range dead {
		dead[i] = newDocument(i)
		putDocument(t, st, dead[i])
	}
	rescued := make([]error, len(dead))
	rescue := func(i int) store.Document {
		next := successor(dead[i], i)
		next.ExpiresAt = now
		return next
	}
	var mu sync.Mutex
	deleted := 0
	atOnce(6, func(n int) {
		if n < 2 {
			var from string
			for range 3 * len(dead) / 10 {
				next, gone, err := other.Sweep(t.Context(), store.SweptDocuments, from, now, 10)
				if err != nil {
					t.Errorf("Sweep: %v", err)
				}
				from = next
				mu.Lock()
				deleted += gone
				mu.Unlock()
			}
			return
		}
		for i := n - 2; i < len(dead); i += 4 {
			rescued[i] = st.Commit(t.Context(), store.Change{Documents: []store.Document{rescue(i)}})
		}
	})
	lost := 0
	for i, err := range rescued {
		switch {
		case err == nil:
			holdsDocument(t, st, rescue(i))
		case errors.Is(err, store.ErrConflict):
			lost++
			noDocument(t, st, dead[i].Key)
		default:
			t.Errorf("Commit: %v", err)
		}
	}
	if deleted != lost {
		t.Errorf("%d deleted, but %d puts found nothing", deleted, lost)
	}
}
