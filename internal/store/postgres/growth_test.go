package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
)

// A table grows at first, until its free space is spread over all pages. After that,
// rotations must not make it grow.
func TestATableOfGrantsDoesNotGrowWithItsRotations(t *testing.T) {
	grants, warmUp, rotations := binary.Scaled(3000, 10_000), binary.Scaled(5000, 100_000), binary.Scaled(10_000, 1_000_000)
	// Without vacuum, the table doubles in an ordinary run.
	const margin = 15 // percent
	database := server.Database(t)
	if on := server.Run(t, database, `SHOW autovacuum`); on != "on" {
		t.Fatalf("autovacuum is %s", on)
	}
	st, err := postgres.Create(t.Context(), postgres.Database{URL: server.URL(database)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]grant.ID, grants)
	atOnce(t, grants, func(i int) error {
		g := newGrant(uint64(i))
		ids[i] = g.ID
		return st.CreateGrant(t.Context(), g)
	})
	rotate := func(n int) {
		t.Helper()
		atOnce(t, n, func(int) error {
			return st.UpdateGrant(t.Context(), ids[rand.IntN(grants)], func(g grant.Grant) (grant.Grant, []store.Event) {
				return rotated(g, rand.Uint64()), nil
			})
		})
	}
	rotate(warmUp)
	first := sizeOf(t, database)
	begin := time.Now()
	rotate(rotations)
	took := time.Since(begin)
	last := sizeOf(t, database)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	var c count
	soon(t, "the count of rotations", func() bool {
		c = countOf(t, database)
		return c.updated >= warmUp+rotations
	})
	per := func(n int) float64 { return float64(n) / float64(rotations) }
	t.Logf("%d rotations in %s after %d: table %d bytes, then %d; indexes %d, then %d; %d of %d HOT; %.0f bytes of WAL for each, %.0f with images of whole pages (%.4f of these); %.4f times WAL was synced; autovacuum came %d times",
		rotations, took.Round(time.Millisecond), warmUp, first.table, last.table, first.indexes, last.indexes, c.hot, c.updated,
		per(last.wal-first.wal-8192*(last.images-first.images)), per(last.wal-first.wal), per(last.images-first.images), per(last.syncs-first.syncs), last.vacuums)
	for what, size := range map[string][2]int{"table": {first.table, last.table}, "indexes": {first.indexes, last.indexes}} {
		if size[1]*100 > size[0]*(100+margin) {
			t.Errorf("%s: %d bytes after %d rotations, and %d after %d more: it grew by more than %d %%", what, size[0], warmUp, size[1], rotations, margin)
		}
	}
	switch {
	case c.updated != warmUp+rotations || c.inserted != grants || c.deleted != 0:
		t.Errorf("rows written: %+v; want %d inserts, and one update for each rotation", c, grants)
	case c.hot*100 < c.updated*95:
		t.Errorf("%d of %d updates were HOT, want 95 %%", c.hot, c.updated)
	case c.searches > grants+2*c.updated:
		t.Errorf("%d searches in the primary key for %d rotations", c.searches, c.updated)
	case c.others != 0:
		t.Errorf("%d rows of other tables or indexes were touched", c.others)
	}
}

// atOnce runs do(0) to do(n-1), 64 of them at the same time.
func atOnce(t testing.TB, n int, do func(i int) error) {
	t.Helper()
	errs := make([]error, 64)
	var done sync.WaitGroup
	for w := range errs {
		done.Go(func() {
			for i := w; i < n && errs[w] == nil; i += len(errs) {
				errs[w] = do(i)
			}
		})
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A size is the disk space of the grants, and the WAL that the server has written so far.
type size struct{ table, indexes, wal, images, syncs, vacuums int }

func sizeOf(t *testing.T, database string) (s size) {
	t.Helper()
	out := server.Run(t, database, `SELECT pg_relation_size('grants'), pg_indexes_size('grants'), pg_current_wal_lsn() - '0/0', wal_fpi, wal_sync,
		(SELECT autovacuum_count FROM pg_stat_user_tables WHERE relname = 'grants') FROM pg_stat_wal`)
	if _, err := fmt.Sscan(strings.ReplaceAll(out, "|", " "), &s.table, &s.indexes, &s.wal, &s.images, &s.syncs, &s.vacuums); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return s
}
