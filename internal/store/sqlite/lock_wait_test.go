package sqlite_test

import (
	"context"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/store/sqlite"
)

// lockedStore returns a store whose write lock another connection holds until release is
// called.
func lockedStore(t *testing.T) (dir string, st *sqlite.Store, release func()) {
	t.Helper()
	dir = t.TempDir()
	st = create(t, dir)
	conn, err := raw(t, dir).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return dir, st, func() {
		if _, err := conn.ExecContext(context.Background(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
	}
}

func TestACommandReadsWhileTheWriteLockIsHeld(t *testing.T) {
	dir, _, release := lockedStore(t)
	defer release()
	var late []time.Duration
	for len(late) < 5 { // a busy machine may be late, but not each time
		began := time.Now()
		command, err := sqlite.Open(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		defer command.Close()
		if _, err := command.Changes(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		if took < sqlite.BusyTimeout {
			return
		}
		late = append(late, took)
	}
	t.Errorf("it waited %s for a lock that it does not need", late)
}

func TestACommandWaitsLongerForTheWriteLockThanAServer(t *testing.T) {
	t.Parallel()
	dir, server, release := lockedStore(t)
	command, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer command.Close()
	mine, theirs := newGrant(1), newGrant(2)
	done := make(chan error, 1)
	go func() { done <- command.CreateGrant(t.Context(), mine) }()
	// The server's busy timeout ends while the lock is held.
	if err := server.CreateGrant(t.Context(), theirs); err == nil {
		t.Error("the server wrote through another's lock")
	}
	release()
	if err := <-done; err != nil {
		t.Errorf("the command did not wait: %v", err)
	}
	absent(t, server, theirs)
	holds(t, server, mine)
}

func TestAStoreThatCannotWriteIsNotReadyUntilItCan(t *testing.T) {
	t.Parallel()
	_, st, release := lockedStore(t)
	if err := st.Ready(t.Context()); err == nil {
		t.Error("ready while nobody can write, before any write has failed")
	}
	if err := st.CreateGrant(t.Context(), newGrant(1)); err == nil {
		t.Fatal("wrote through another's lock")
	}
	if err := st.Ready(t.Context()); err == nil {
		t.Error("ready while writes fail")
	}
	release()
	if err := st.Ready(t.Context()); err != nil {
		t.Errorf("not ready after the lock was released: %v", err)
	}
}
