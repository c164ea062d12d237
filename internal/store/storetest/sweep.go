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

var sweepPromises = []promise{
	{"Sweep deletes grants whose DeleteAfter is before now, and nothing else", func(t *testing.T, db Database) {
		st := open(t, db)
		const now = base + 5000
		kept, gone := map[grant.ID]grant.Grant{}, map[grant.ID]bool{}
		for n, deleteAfter := range []grant.Instant{now - 1, now, now + 1, 1, 1<<48 - 1, now - 1, now} {
			g := newGrant(uint64(n))
			g.DeleteAfter = deleteAfter
			// Neither the state nor a past expiry makes a row due before DeleteAfter.
			g.ExpiresAt = 1
			if n%2 == 0 {
				g.State = grant.Revoked
			}
			create(t, st, g)
			if deleteAfter < now {
				gone[g.ID] = true
			} else {
				kept[g.ID] = g
			}
		}
		if deleted := sweepAll(t, st, now, 100); deleted != len(gone) {
			t.Errorf("%d deleted, want %d", deleted, len(gone))
		}
		for _, g := range kept {
			holds(t, st, g)
		}
		for id := range gone {
			if _, err := st.Grant(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a swept grant: %v, want ErrNotFound", err)
			}
		}
		if deleted := sweepAll(t, st, now, 100); deleted != 0 {
			t.Errorf("a second sweep deleted %d", deleted)
		}
	}},
	{"Sweep scans at most limit grants after an id, in the order of their ids, and returns where to continue", walkInSlices},
	{"Sweep of an empty table of grants deletes nothing and is at its end", func(t *testing.T, db Database) {
		st := open(t, db)
		last := newID()
		for _, after := range []string{"", string(last[:])} {
			if next, deleted, err := st.Sweep(t.Context(), store.SweptGrants, after, base, 10); err != nil || deleted != 0 || next != "" {
				t.Errorf("Sweep = %x, %d, %v; want the end", next, deleted, err)
			}
		}
	}},
	{"Sweep does not delete a grant that changes meanwhile", rescuedFromTheSweep},
	{"a grant's id can be taken again once it was swept", func(t *testing.T, db Database) {
		// A code remains single-use although the id is free again, because the row
		// outlives its code.
		st := open(t, db)
		g := newGrant(1)
		create(t, st, g)
		if deleted := sweepAll(t, st, g.DeleteAfter+1, 10); deleted != 1 {
			t.Fatalf("%d deleted, want 1", deleted)
		}
		g.Attempt = 2
		create(t, st, g)
		holds(t, st, g)
	}},
	{"what was recorded of a swept grant does not come back with its id", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(1)
		create(t, st, g)
		g = rotated(g, 2)
		update(t, st, g, event(g.ID.String(), base, 1))
		if deleted := sweepAll(t, st, g.DeleteAfter+1, 10); deleted != 1 {
			t.Fatalf("%d deleted, want 1", deleted)
		}
		if list := recorded(t, st, g.ID.String()); len(list) != 0 {
			t.Errorf("%d events of a grant that is gone", len(list))
		}
	}},
}

// sweepAll sweeps the whole table of grants once.
func sweepAll(t *testing.T, st store.Store, now grant.Instant, limit int) (total int) {
	t.Helper()
	var from string
	for range 10_000 {
		next, deleted, err := st.Sweep(t.Context(), store.SweptGrants, from, now, limit)
		if err != nil {
			t.Fatalf("Sweep: %v", err)
		}
		total += deleted
		if next == "" {
			return total
		}
		if next <= from {
			t.Fatalf("the scan went from %x to %x", from, next)
		}
		from = next
	}
	t.Fatal("the sweep does not end")
	return total
}

func walkInSlices(t *testing.T, db Database) {
	const now = base + 5000
	for _, limit := range []int{1, 7, 20, 21, 100} {
		st := open(t, db)
		all := make([]grant.Grant, 20)
		for n := range all {
			all[n] = newGrant(uint64(n))
			if n%2 == 0 {
				all[n].DeleteAfter = now
			}
		}
		create(t, st, all...)
		slices.SortFunc(all, func(a, b grant.Grant) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		var from string
		for walked := 0; ; {
			next, deleted, err := st.Sweep(t.Context(), store.SweptGrants, from, now, limit)
			if err != nil {
				t.Fatalf("Sweep: %v", err)
			}
			slice := all[walked:min(walked+limit, len(all))]
			walked += len(slice)
			want := 0
			for i, g := range all {
				_, err := st.Grant(t.Context(), g.ID)
				if gone := g.DeleteAfter < now && i < walked; gone != errors.Is(err, store.ErrNotFound) {
					t.Errorf("limit %d, %d rows walked: row %d, due %t: %v", limit, walked, i, g.DeleteAfter < now, err)
				}
			}
			for _, g := range slice {
				if g.DeleteAfter < now {
					want++
				}
			}
			if deleted != want {
				t.Errorf("limit %d: %d deleted of this slice, want %d", limit, deleted, want)
			}
			if next == "" {
				if walked != len(all) {
					t.Errorf("limit %d: the sweep ended after %d rows of %d", limit, walked, len(all))
				}
				break
			}
			if len(slice) < limit || next != string(slice[len(slice)-1].ID[:]) {
				t.Fatalf("limit %d: after %d rows the scan goes on after %x", limit, walked, next)
			}
			from = next
		}
		// Leave an empty table for the next limit.
		if n := sweepAll(t, st, now+1, 100); n != 10 {
			t.Fatalf("%d deleted, want 10", n)
		}
	}
}

// rescuedFromTheSweep lets rotations race with the sweep for the same rows. After a
// rotation that succeeded, its row must exist; after one that conflicted, it must not.
func rescuedFromTheSweep(t *testing.T, db Database) {
	st, other := open(t, db), open(t, db)
	const now = base + 1_000_000
	dead := make([]grant.Grant, 200)
	for i := range dead {
		dead[i] = newGrant(uint64(i))
	}
	atOnce(8, func(n int) {
		for i := n; i < len(dead); i += 8 {
			if err := st.CreateGrant(t.Context(), dead[i]); err != nil {
				t.Errorf("CreateGrant: %v", err)
			}
		}
	})
	rescued := make([]error, len(dead))
	var mu sync.Mutex
	deleted := 0
	atOnce(8, func(n int) {
		if n < 2 {
			var from string
			for range 3 * len(dead) / 10 {
				next, gone, err := other.Sweep(t.Context(), store.SweptGrants, from, now, 10)
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
		for i := n - 2; i < len(dead); i += 6 {
			next := rotated(dead[i], 1000)
			next.DeleteAfter = now
			rescued[i] = Replace(t.Context(), st, next)
		}
	})
	lost := 0
	for i, err := range rescued {
		switch {
		case err == nil:
			next := rotated(dead[i], 1000)
			next.DeleteAfter = now
			holds(t, st, next)
		case errors.Is(err, store.ErrConflict):
			lost++
			if _, err := st.Grant(t.Context(), dead[i].ID); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a grant whose update conflicted: %v, want ErrNotFound", err)
			}
		default:
			t.Errorf("UpdateGrant: %v", err)
		}
	}
	if deleted != lost {
		t.Errorf("%d deleted, but %d updates found no row", deleted, lost)
	}
}
