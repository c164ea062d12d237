package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
)

// queued waits until n operations are queued behind the one that holds the writer.
func queued(t *testing.T, st *sqlite.Store, n int) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for pause := time.Microsecond; st.Waiting() < n; pause = min(2*pause, time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d operations wait, want %d", st.Waiting(), n)
		}
		time.Sleep(pause)
	}
}

// together queues n operations in order behind one that holds the writer, releases the
// writer, and returns their outcomes.
func together(t *testing.T, st *sqlite.Store, n int, do func(n int) error) []error {
	t.Helper()
	release, held := st.Hold(t.Context())
	defer release()
	errs := make([]error, n)
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() { errs[i] = do(i) })
		queued(t, st, i+1)
	}
	release()
	done.Wait()
	if err := <-held; err != nil {
		t.Fatalf("the operation that held the writer: %v", err)
	}
	return errs
}

func TestQueuedOperationsShareOneCommit(t *testing.T) {
	t.Parallel()
	st := create(t, t.TempDir())
	take := st.Watch(t)
	for _, c := range []struct{ operations, transactions int }{
		{1, 1}, {2, 1}, {100, 1}, {sqlite.BatchLength, 1}, {sqlite.BatchLength + 1, 2}, {2*sqlite.BatchLength + 50, 3},
	} {
		grants := make([]grant.Grant, c.operations)
		for i := range grants {
			grants[i] = newGrant(uint64(i))
		}
		take()
		for _, err := range together(t, st, len(grants), func(n int) error { return st.CreateGrant(t.Context(), grants[n]) }) {
			if err != nil {
				t.Fatal(err)
			}
		}
		tally := take()
		if want := map[string]int{"begin": c.transactions, "insert grant": c.operations, "commit": c.transactions}; !maps.Equal(tally.Statements, want) || tally.Rows != c.operations {
			t.Errorf("%d operations: %v, %d rows; want %v", c.operations, tally.Statements, tally.Rows, want)
		}
	}
}

func TestOperationsOnOneGrantInOneBatchSeeEachOther(t *testing.T) {
	st := create(t, t.TempDir())
	take := st.Watch(t)
	g := newGrant(1)
	second, third := rotated(g, 2), rotated(rotated(g, 2), 3)
	late := rotated(g, 4)
	other := g
	other.Attempt = 5
	steps := []struct {
		do   func() error
		want error
	}{
		{func() error { return storetest.Replace(t.Context(), st, second) }, store.ErrConflict}, // the grant does not exist yet
		{func() error { return st.CreateGrant(t.Context(), g) }, nil},
		{func() error { return st.CreateGrant(t.Context(), other) }, store.ErrConflict},
		{func() error { return st.CreateGrant(t.Context(), g) }, nil}, // an equal creation succeeds again
		{func() error { return storetest.Replace(t.Context(), st, second) }, nil},
		{func() error { return storetest.Replace(t.Context(), st, late) }, store.ErrConflict},
		{func() error { return storetest.Replace(t.Context(), st, second) }, nil}, // an equal update succeeds again
		{func() error { return storetest.Replace(t.Context(), st, third) }, nil},
		{func() error { return storetest.Replace(t.Context(), st, second) }, store.ErrConflict},
		{func() error { return st.CreateGrant(t.Context(), g) }, store.ErrConflict},
	}
	take()
	for n, err := range together(t, st, len(steps), func(n int) error { return steps[n].do() }) {
		if !errors.Is(err, steps[n].want) {
			t.Errorf("operation %d: %v, want %v", n, err, steps[n].want)
		}
	}
	if tally := take(); tally.Statements["commit"] != 1 {
		t.Errorf("%d transactions, want 1", tally.Statements["commit"])
	}
	holds(t, st, third)
}

func TestAnOperationThatFailsDoesNotUndoItsNeighbours(t *testing.T) {
	for _, how := range []string{"ABORT", "FAIL", "ROLLBACK"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			st := create(t, dir)
			// Rows with attempt 666 and events named "bad" fail. The event is written
			// after its row.
			db := raw(t, dir)
			run(t, db, fmt.Sprintf(`CREATE TRIGGER bad_grant BEFORE UPDATE ON grants WHEN NEW.attempt = 666 BEGIN SELECT RAISE(%s, 'bad grant'); END`, how))
			run(t, db, fmt.Sprintf(`CREATE TRIGGER bad_event BEFORE INSERT ON events WHEN NEW.name = 'bad' BEGIN SELECT RAISE(%s, 'bad event'); END`, how))
			grants := make([]grant.Grant, 12)
			for i := range grants {
				grants[i] = newGrant(uint64(i))
				if err := st.CreateGrant(t.Context(), grants[i]); err != nil {
					t.Fatal(err)
				}
			}
			next := make([]grant.Grant, len(grants))
			errs := together(t, st, len(grants), func(n int) error {
				next[n] = rotated(grants[n], 1000)
				e := store.Event{At: base, Name: store.EventGrantRevoked, About: grants[n].ID.String()}
				switch n {
				case 5:
					next[n].Attempt = 666
				case 7:
					e.Name = "bad"
				case 9:
					next[n].Version++ // an operation that loses to a conflict
				}
				return storetest.Replace(t.Context(), st, next[n], e)
			})
			for n, err := range errs {
				events, readErr := st.Events(t.Context(), grants[n].ID.String(), 10)
				if readErr != nil {
					t.Fatal(readErr)
				}
				switch n {
				case 5, 7:
					if err == nil || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) {
						t.Errorf("the one that fails: %v", err)
					}
				case 9:
					if !errors.Is(err, store.ErrConflict) {
						t.Errorf("the loser: %v, want ErrConflict", err)
					}
				default:
					if err != nil {
						t.Errorf("a neighbour: %v", err)
					}
					holds(t, st, next[n])
					if len(events) != 1 {
						t.Errorf("a neighbour has %d events, want 1", len(events))
					}
					continue
				}
				// The row and its event are both written, or neither.
				holds(t, st, grants[n])
				if len(events) != 0 {
					t.Errorf("operation %d did not happen, and left %d events", n, len(events))
				}
			}
		})
	}
}

func TestAnOperationThatIsTooLargeFailsAloneAndEveryTime(t *testing.T) {
	st := create(t, t.TempDir())
	g, large := newGrant(1), newGrant(2)
	large.Subject = strings.Repeat("x", 5000)
	if err := st.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	event := store.Event{At: base, Name: store.EventGrantRevoked, About: g.ID.String()}
	event.Detail = large.Subject
	for range 100 {
		if err := st.CreateGrant(t.Context(), large); err == nil || errors.Is(err, store.ErrConflict) {
			t.Fatalf("a subject of 5,000 bytes: %v", err)
		}
		if err := storetest.Replace(t.Context(), st, rotated(g, 100), event); err == nil || errors.Is(err, store.ErrConflict) {
			t.Fatalf("a detail of 5,000 bytes: %v", err)
		}
	}
	holds(t, st, g)
	absent(t, st, large)
	// Later operations are unaffected, however many have failed before.
	if err := st.CreateGrant(t.Context(), newGrant(3)); err != nil {
		t.Errorf("a creation after those that failed: %v", err)
	}
	g = rotated(g, 4)
	event.Detail = strings.Repeat("x", 3900)
	if err := storetest.Replace(t.Context(), st, g, event, event); err != nil {
		t.Errorf("an update after those that failed: %v", err)
	}
	holds(t, st, g)
	if events, err := st.Events(t.Context(), g.ID.String(), 10); err != nil || len(events) != 2 {
		t.Errorf("%d events, %v; want 2", len(events), err)
	}
}

func TestOperationsBeyondTheQueueLimitAreBusy(t *testing.T) {
	t.Parallel()
	st := create(t, t.TempDir())
	release, held := st.Hold(t.Context())
	defer release()
	grants := make([]grant.Grant, sqlite.QueueLength)
	var done sync.WaitGroup
	for i := range grants {
		grants[i] = newGrant(uint64(i))
		done.Go(func() {
			if err := st.CreateGrant(t.Context(), grants[i]); err != nil {
				t.Errorf("a queued operation: %v", err)
			}
		})
	}
	queued(t, st, sqlite.QueueLength)
	late := newGrant(1)
	if err := st.CreateGrant(t.Context(), late); !errors.Is(err, store.ErrBusy) {
		t.Errorf("an operation beyond the limit of the queue: %v, want ErrBusy", err)
	}
	if _, err := st.Grant(t.Context(), late.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("reads go on beside a full queue: %v, want ErrNotFound", err)
	}
	release()
	done.Wait()
	if err := <-held; err != nil {
		t.Error(err)
	}
	absent(t, st, late)
	holds(t, st, grants[0])
	holds(t, st, grants[len(grants)-1])
}

func TestAnOperationGivenUpBeforeItsTurnNeverHappens(t *testing.T) {
	dir := t.TempDir()
	st, err := sqlite.Create(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	release, held := st.Hold(t.Context())
	given, kept := newGrant(1), newGrant(2)
	client := store.Client{ID: "billing", Version: 1}
	ctx, cancel := context.WithCancel(t.Context())
	givenErr, clientErr, keptErr := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { givenErr <- st.CreateGrant(ctx, given) }()
	queued(t, st, 1)
	go func() { clientErr <- st.Commit(ctx, store.Change{Entries: []store.Entry{client.Entry()}}) }()
	queued(t, st, 2)
	go func() { keptErr <- st.CreateGrant(t.Context(), kept) }()
	queued(t, st, 3)
	cancel()
	for _, err := range []error{<-givenErr, <-clientErr} {
		if !errors.Is(err, store.ErrBusy) {
			t.Errorf("given up: %v, want ErrBusy", err)
		}
	}
	release()
	if err := errors.Join(<-keptErr, <-held); err != nil {
		t.Errorf("the neighbours: %v", err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	st = create(t, dir)
	absent(t, st, given)
	holds(t, st, kept)
	if _, err := st.Client(t.Context(), client.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Client: %v, want ErrNotFound", err)
	}
}

// A request whose context ends while another process holds the lock gets a 503 response.
// If its code were redeemed later, the client's next attempt would count as a replay.
func TestAnOperationGivenUpWhileAnotherProcessHoldsTheLockNeverHappens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := create(t, dir)
	other := raw(t, dir)
	run(t, other, "BEGIN IMMEDIATE")
	given, kept := newGrant(1), newGrant(2)
	ctx, cancel := context.WithTimeout(t.Context(), sqlite.BusyTimeout/10)
	defer cancel()
	if err := st.CreateGrant(ctx, given); !errors.Is(err, store.ErrBusy) {
		t.Errorf("given up: %v, want ErrBusy", err)
	}
	run(t, other, "ROLLBACK")
	if err := st.CreateGrant(t.Context(), kept); err != nil {
		t.Errorf("after the lock: %v", err)
	}
	absent(t, st, given)
	holds(t, st, kept)
}

func TestAnOperationWhoseTimeEndsWhileItRunsHasAnUnknownOutcome(t *testing.T) {
	st := create(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	release, held := st.Hold(ctx)
	defer release()
	cancel()
	if err := <-held; err == nil || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrConflict) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while it ran: %v", err)
	}
	release()
	// The writer still works.
	g := newGrant(1)
	if err := st.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	holds(t, st, g)
}

func TestCloseLetsWaitingOperationsFinish(t *testing.T) {
	dir := t.TempDir()
	st, err := sqlite.Create(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	release, held := st.Hold(t.Context())
	grants := make([]grant.Grant, 2*sqlite.BatchLength)
	errs := make([]error, len(grants))
	var waiting sync.WaitGroup
	for i := range grants {
		grants[i] = newGrant(uint64(i))
		waiting.Go(func() { errs[i] = st.CreateGrant(t.Context(), grants[i]) })
	}
	queued(t, st, len(grants))
	closed := make(chan error, 1)
	go func() { closed <- st.Close() }()
	<-st.Closing()
	if err := st.CreateGrant(t.Context(), newGrant(1)); err == nil {
		t.Error("an operation began after Close")
	}
	release()
	waiting.Wait()
	if err := errors.Join(<-closed, <-held, errors.Join(errs...)); err != nil {
		t.Errorf("Close with waiting operations: %v", err)
	}
	st = create(t, dir)
	for _, g := range grants {
		holds(t, st, g)
	}
}

func TestARowThatChangesBetweenTheSweepsWalkAndItsDeletionSurvives(t *testing.T) {
	st := create(t, t.TempDir())
	rescued, dead := newGrant(1), newGrant(2)
	for _, g := range []grant.Grant{rescued, dead} {
		if err := st.CreateGrant(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	// The grant is rotated by a node whose clock is behind, so it is still due.
	now := rescued.DeleteAfter + 1_000_000_000
	next := rotated(rescued, 3)
	deleted := 0
	errs := together(t, st, 2, func(n int) (err error) {
		if n == 0 {
			return storetest.Replace(t.Context(), st, next)
		}
		_, deleted, err = st.Sweep(t.Context(), store.SweptGrants, "", now, 10)
		return err
	})
	if err := errors.Join(errs...); err != nil || deleted != 1 {
		t.Errorf("the sweep deleted %d, %v; want 1", deleted, err)
	}
	holds(t, st, next)
	absent(t, st, dead)
}

// A copy of the files contains what a process that is killed at that instant leaves
// behind.
func TestWhatIsAcknowledgedIsInTheFiles(t *testing.T) {
	dir := t.TempDir()
	st := create(t, dir)
	for i := range uint64(20) {
		g := newGrant(i)
		if err := st.CreateGrant(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		copied := t.TempDir()
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		again, err := sqlite.Open(t.Context(), copied)
		if err != nil {
			t.Fatal(err)
		}
		holds(t, again, g)
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}
