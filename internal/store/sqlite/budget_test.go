package sqlite_test

import (
	crand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
)

func TestTheBudgetOfStatementsAndRows(t *testing.T) {
	st := create(t, t.TempDir())
	take := st.Watch(t)
	g := newGrant(1)
	spent := func(what string, statements map[string]int, rows int) {
		t.Helper()
		if tally := take(); !maps.Equal(tally.Statements, statements) || tally.Rows != rows {
			t.Errorf("%s: statements %v, %d rows; want %v, %d", what, tally.Statements, tally.Rows, statements, rows)
		}
	}
	do := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}

	do(st.CreateGrant(t.Context(), g), nil)
	spent("a redemption", map[string]int{"begin": 1, "insert grant": 1, "commit": 1}, 1)

	do(st.CreateGrant(t.Context(), newGrantWithID(g.ID)), store.ErrConflict)
	spent("a lost redemption", map[string]int{"begin": 1, "insert grant": 1, "select grant in the writer": 1, "commit": 1}, 0)

	read, err := st.Grant(t.Context(), g.ID)
	do(err, nil)
	spent("a read beside the writer", nil, 0)
	next := rotated(read, 2)
	do(storetest.Replace(t.Context(), st, next), nil)
	spent("a rotation", map[string]int{"begin": 1, "select grant in the writer": 1, "update grant": 1, "commit": 1}, 1)

	do(storetest.Replace(t.Context(), st, rotated(g, 3)), store.ErrConflict)
	spent("a rotation that is too late", map[string]int{"begin": 1, "select grant in the writer": 1, "commit": 1}, 0)

	do(st.UpdateGrant(t.Context(), g.ID, func(have grant.Grant) (grant.Grant, []store.Event) {
		return have, []store.Event{{At: base, Name: store.EventRefreshReplayed, About: g.ID.String()}}
	}), nil)
	spent("a decision that changes nothing", map[string]int{"begin": 1, "select grant in the writer": 1, "commit": 1}, 0)

	next.Version++
	next.State, next.Reason = grant.Revoked, grant.ReasonRefreshReplayed
	do(storetest.Replace(t.Context(), st, next, store.Event{At: base, Name: store.EventRefreshReplayed, About: g.ID.String()}), nil)
	spent("a revocation", map[string]int{"begin": 1, "select grant in the writer": 1, "update grant": 1, "insert event": 1, "commit": 1}, 2)
}

func newGrantWithID(id grant.ID) grant.Grant {
	g := newGrant(99)
	g.ID = id
	return g
}

// eachAtOnce calls f for every grant, on 256 goroutines.
func eachAtOnce(t testing.TB, grants []grant.Grant, f func(g *grant.Grant) error) {
	t.Helper()
	const workers = 256
	var done sync.WaitGroup
	for worker := range workers {
		done.Go(func() {
			for i := worker; i < len(grants); i += workers {
				if err := f(&grants[i]); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
}

func TestRotationsDoNotGrowTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := create(t, dir)
	db := raw(t, dir)
	grants := make([]grant.Grant, 2000)
	for i := range grants {
		grants[i] = newGrant(rand.Uint64())
		grants[i].Subject = fmt.Sprintf("%08x-93be-4d8f-a6f1-2b7e5c%06x", rand.Uint32(), i)
	}
	eachAtOnce(t, grants, func(g *grant.Grant) error { return st.CreateGrant(t.Context(), *g) })
	measure := func() (perGrant float64, pages, rows int) {
		t.Helper()
		run(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
		bytes := number(t, db, "SELECT sum(pgsize) FROM dbstat WHERE name = 'grants'")
		for _, table := range []string{"grants", "events", "clients", "cutoffs", "keys", "secret_uses"} {
			rows += number(t, db, "SELECT count(*) FROM "+table)
		}
		return float64(bytes) / float64(len(grants)), number(t, db, "PRAGMA page_count"), rows
	}
	fresh, _, _ := measure()
	// SQLite stores larger numbers in more bytes: numbers below eight million in at most
	// three. The test begins with large numbers, so that they cannot hide a growth.
	run(t, db, "UPDATE grants SET generation = 100000, version = 100000")
	for i := range grants {
		grants[i].Generation, grants[i].Version = 100_000, 100_000
	}
	before, pages, rows := measure()
	eachAtOnce(t, grants, func(g *grant.Grant) error {
		for range 40 {
			*g = rotated(*g, rand.Uint64())
			if err := storetest.Replace(t.Context(), st, *g); err != nil {
				return err
			}
		}
		return nil
	})
	// 80,000 rotations fill the log more than once. The log also contains the whole of the
	// batches that cross its limit.
	info, err := os.Stat(filepath.Join(dir, sqlite.FileName+"-wal"))
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(2*sqlite.LeastLogPages+2*sqlite.BatchLength) * sqlite.FrameSize; info.Size() > most {
		t.Errorf("the log has %d bytes, at most %d are expected", info.Size(), most)
	}
	after, pagesAfter, rowsAfter := measure()
	t.Logf("bytes per grant: %.0f fresh, %.0f at generation 100,000, %.0f after 80,000 rotations more", fresh, before, after)
	if fresh > 250 || before > 250 || after > 250 {
		t.Errorf("bytes per grant: %.0f, %.0f, %.0f; at most 250 are allowed", fresh, before, after)
	}
	if pagesAfter != pages || rowsAfter != rows || rows != len(grants) {
		t.Errorf("%d pages and %d rows after 80,000 rotations, %d and %d before", pagesAfter, rowsAfter, pages, rows)
	}
	for i := range 20 {
		holds(t, st, grants[i*100])
	}
}

// Ids of new grants begin with their time, so new rows share pages. With random ids, each
// row would write a page of its own to the log and at the checkpoint.
func TestNewGrantsSharePages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := create(t, dir)
	db := raw(t, dir)
	at := grant.Instant(1_800_000_000_000)
	var random [16]byte
	logged := func(n int, id func() grant.ID) int {
		t.Helper()
		grants := make([]grant.Grant, n)
		for i := range grants {
			grants[i] = newGrant(rand.Uint64())
			grants[i].ID = id()
		}
		run(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
		eachAtOnce(t, grants, func(g *grant.Grant) error { return st.CreateGrant(t.Context(), *g) })
		pages, err := st.LogPages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return pages
	}
	anywhere := func() (id grant.ID) {
		crand.Read(id[:])
		return id
	}
	logged(20_000, anywhere)
	const n = 2000
	scattered := logged(n, anywhere)
	together := logged(n, func() grant.ID {
		at++
		crand.Read(random[:])
		return grant.NewID(at, random)
	})
	t.Logf("%d grants: %d pages with random ids, %d with ids of one time", n, scattered, together)
	if 2*together > scattered {
		t.Errorf("%d pages for %d new grants, and %d with random ids", together, n, scattered)
	}
}

// BenchmarkRefreshPath runs the store operations of a refresh.
func BenchmarkRefreshPath(b *testing.B) {
	st := create(b, b.TempDir())
	grants := make([]grant.Grant, 1000)
	for i := range grants {
		grants[i] = newGrant(0)
	}
	eachAtOnce(b, grants, func(g *grant.Grant) error { return st.CreateGrant(b.Context(), *g) })
	var worker atomic.Int64
	b.SetParallelism(64)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		id := grants[int(worker.Add(1))%len(grants)].ID
		for pb.Next() {
			err := st.UpdateGrant(b.Context(), id, func(g grant.Grant) (grant.Grant, []store.Event) {
				return rotated(g, rand.Uint64()), nil
			})
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
}
