package sqlite_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
)

// A commit that failed may be complete on the disk, or not at all. So no operation of its
// batch succeeds or is reported as not written.
func TestACommitThatFailedHasAnUnknownOutcome(t *testing.T) {
	dir := t.TempDir()
	st := create(t, dir)
	grants := []grant.Grant{newGrant(1), newGrant(2), newGrant(3)}
	for _, g := range grants {
		if err := st.CreateGrant(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	// This constraint fails at the commit only.
	run(t, raw(t, dir), `CREATE TABLE parents (id INTEGER PRIMARY KEY);
		CREATE TABLE children (parent INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED);
		CREATE TRIGGER orphan AFTER UPDATE ON grants BEGIN INSERT INTO children VALUES (1); END;
		CREATE TRIGGER orphaned AFTER INSERT ON cutoffs BEGIN INSERT INTO children VALUES (1); END`)
	st.CheckReferences(t)
	unknown := func(what string, err error) {
		t.Helper()
		if err == nil || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v, want an error of unknown outcome", what, err)
		}
	}
	unknown("an operation alone", storetest.Replace(t.Context(), st, rotated(grants[0], 9)))
	release, held := st.Hold(t.Context())
	outcomes := make(chan error, len(grants))
	for i, g := range grants {
		go func() { outcomes <- storetest.Replace(t.Context(), st, rotated(g, 9)) }()
		queued(t, st, i+1)
	}
	release()
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	for range grants {
		unknown("an operation of a batch", <-outcomes)
	}
	unknown("an administrator's", st.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "alice", At: base}}}))
	run(t, raw(t, dir), `DROP TRIGGER orphan; DROP TRIGGER orphaned`)
	for _, g := range grants {
		holds(t, st, g)
		if err := storetest.Replace(t.Context(), st, rotated(g, 10)); err != nil {
			t.Errorf("a write after the fault has passed: %v", err)
		}
	}
}

// sweepBehind queues a sweep with other writes between its select and its delete. It
// returns the number of deleted rows.
func sweepBehind(t *testing.T, st *sqlite.Store, now grant.Instant, writes ...func() error) int {
	t.Helper()
	release, held := st.Hold(t.Context())
	outcomes := make(chan error, len(writes)+1)
	for i, write := range writes {
		go func() { outcomes <- write() }()
		queued(t, st, i+1)
	}
	deleted := 0
	go func() {
		_, n, err := st.Sweep(t.Context(), store.SweptGrants, "", now, 10)
		deleted = n
		outcomes <- err
	}()
	queued(t, st, len(writes)+1)
	release()
	for range len(writes) + 1 {
		if err := <-outcomes; err != nil {
			t.Error(err)
		}
	}
	if err := <-held; err != nil {
		t.Error(err)
	}
	return deleted
}

// A row that has changed since the sweep selected it stays, even if it is still due: the
// next sweep decides about its new content.
func TestTheSweepLeavesAGrantThatHasChangedSinceItLooked(t *testing.T) {
	st := create(t, t.TempDir())
	g := newGrant(1)
	if err := st.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	next := rotated(g, 2)
	now := max(g.DeleteAfter, next.DeleteAfter) + 1
	if n := sweepBehind(t, st, now, func() error { return storetest.Replace(t.Context(), st, next) }); n != 0 {
		t.Errorf("%d deleted", n)
	}
	holds(t, st, next)
}

// A grant that was deleted by another sweep and created again has the version of the old
// one, but is not due.
func TestTheSweepLeavesAGrantThatWasMadeAgainSinceItLooked(t *testing.T) {
	st := create(t, t.TempDir())
	g := newGrant(1)
	if err := st.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	now := g.DeleteAfter + 1
	again := g
	again.DeleteAfter = now
	n := sweepBehind(t, st, now, func() error {
		_, n, err := st.Sweep(t.Context(), store.SweptGrants, "", now, 10)
		if n != 1 {
			t.Errorf("the first sweep has deleted %d", n)
		}
		return err
	}, func() error { return st.CreateGrant(t.Context(), again) })
	if n != 0 {
		t.Errorf("%d deleted", n)
	}
	holds(t, st, again)
}

// A caller that gives up leaves its operation in the queue. The writer drops that
// operation, and does not confuse it with a later one.
func TestAnOperationThatWasGivenUpIsNotUsedAgain(t *testing.T) {
	st := create(t, t.TempDir())
	g := newGrant(1)
	if err := st.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	release, held := st.Hold(t.Context())
	outcomes := make(chan error, 2)
	var first, second atomic.Int32
	update := func(ctx context.Context, asked *atomic.Int32) {
		outcomes <- st.UpdateGrant(ctx, g.ID, func(have grant.Grant) (grant.Grant, []store.Event) {
			asked.Add(1)
			return have, nil
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	go update(ctx, &first)
	queued(t, st, 1)
	cancel()
	if err := <-outcomes; !errors.Is(err, store.ErrBusy) {
		t.Fatalf("given up: %v", err)
	}
	go update(t.Context(), &second)
	queued(t, st, 2)
	release()
	if err := errors.Join(<-held, <-outcomes); err != nil || first.Load() != 0 || second.Load() != 1 {
		t.Errorf("%v; decided %d and %d times, want 0 and 1", err, first.Load(), second.Load())
	}
}
