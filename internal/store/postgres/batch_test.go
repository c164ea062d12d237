package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/storetest"
)

// together queues n operations of a kind in order, lets them run in one batch, and returns
// their outcomes.
func together(t *testing.T, st *postgres.Store, kind postgres.Kind, n int, do func(n int) error) []error {
	t.Helper()
	release := st.Hold(kind)
	errs := make([]error, n)
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() { errs[i] = do(i) })
		soon(t, "an operation that waits", func() bool { return st.Waiting(kind) == i+1 })
	}
	release()
	done.Wait()
	return errs
}

// calls counts the executions of statements that begin with a text, as pg_stat_statements
// reports them.
func calls(t *testing.T, database, text string) int { return statements(t, database, "calls", text) }

// statements sums a column of pg_stat_statements over the statements that begin with a
// text.
func statements(t *testing.T, database, what, text string) (n int) {
	t.Helper()
	out := server.Run(t, "postgres", fmt.Sprintf(`SELECT coalesce(sum(s.%s), 0) FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid
		WHERE d.datname = '%s' AND s.query LIKE '%s%%'`, what, database, text))
	if _, err := fmt.Sscan(out, &n); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return n
}

func TestQueuedOperationsShareOneStatement(t *testing.T) {
	st, database := fresh(t)
	server.Run(t, "postgres", `CREATE EXTENSION IF NOT EXISTS pg_stat_statements`)
	for _, c := range []struct{ operations, statements int }{
		{1, 1}, {2, 1}, {100, 1}, {postgres.UpdateLength, 1}, {postgres.UpdateLength + 1, 2},
	} {
		grants := make([]grant.Grant, c.operations)
		for i := range grants {
			grants[i] = newGrant(uint64(i))
		}
		documents := make([]store.Document, min(c.operations, 20))
		for i := range documents {
			documents[i] = store.Document{Kind: store.DocumentSession, Key: store.KeyOf(store.DocumentSession, "/api", fmt.Sprint(c.operations, i)), Version: 1, Body: []byte{1}}
		}
		for _, step := range []struct {
			kind       postgres.Kind
			operations int
			do         func(n int) error
			text       string
			statements int
		}{
			{postgres.Creations, len(grants), func(n int) error { return st.CreateGrant(t.Context(), grants[n]) }, "INSERT INTO grants", c.statements},
			{postgres.Updates, len(grants), func(n int) error { return storetest.Replace(t.Context(), st, rotated(grants[n], 9)) }, "UPDATE grants", c.statements},
			{postgres.GrantReads, len(grants), func(n int) error { _, err := st.Grant(t.Context(), grants[n].ID); return err }, "SELECT id, realm", c.statements},
			{postgres.Puts, len(documents), func(n int) error {
				return st.Commit(t.Context(), store.Change{Documents: []store.Document{documents[n]}})
			}, "INSERT INTO documents", 1},
		} {
			before := calls(t, database, step.text)
			if err := errors.Join(together(t, st, step.kind, step.operations, step.do)...); err != nil {
				t.Fatal(err)
			}
			if n := calls(t, database, step.text) - before; n != step.statements {
				t.Errorf("%d operations took %d statements %s, want %d", step.operations, n, step.text, step.statements)
			}
		}
	}
}

func TestOperationsOnOneGrantNeverShareABatch(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	st := open(t, url)
	g := newGrant(0)
	for n, err := range together(t, st, postgres.Creations, 10, func(n int) error {
		mine := g
		mine.Attempt = uint64(n / 2) // each two are equal
		return st.CreateGrant(t.Context(), mine)
	}) {
		if won := n < 2; won != (err == nil) || !won && !errors.Is(err, store.ErrConflict) {
			t.Errorf("creation %d: %v; the first two win", n, err)
		}
	}
	for n, err := range together(t, st, postgres.Updates, 10, func(n int) error {
		return storetest.Replace(t.Context(), st, rotated(g, uint64(n/2)))
	}) {
		if won := n < 2; won != (err == nil) || !won && !errors.Is(err, store.ErrConflict) {
			t.Errorf("update %d: %v; the first two win", n, err)
		}
	}
	holds(t, st, rotated(g, 0))
	if err := errors.Join(together(t, st, postgres.Updates, 10, func(n int) error {
		return st.UpdateGrant(t.Context(), g.ID, func(have grant.Grant) (grant.Grant, []store.Event) { return rotated(have, uint64(n)), nil })
	})...); err != nil {
		t.Error(err)
	}
	if got, err := st.Grant(t.Context(), g.ID); err != nil || got.Version != 12 {
		t.Errorf("version %d, %v; want 12", got.Version, err)
	}
}

func TestAnOperationThatFailsDoesNotUndoItsNeighbours(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	st := open(t, url)
	// Rows with attempt 666 and events named "bad" fail. The event is written after its
	// row.
	server.Run(t, "postgres", strings.ReplaceAll(`
		CREATE FUNCTION S.bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'bad'; END $$;
		CREATE TRIGGER bad_grant BEFORE INSERT OR UPDATE ON S.grants FOR EACH ROW WHEN (NEW.attempt = 666) EXECUTE FUNCTION S.bad();
		CREATE TRIGGER bad_event BEFORE INSERT ON S.events FOR EACH ROW WHEN (NEW.name = 'bad') EXECUTE FUNCTION S.bad();`, "S.", name+"."))
	grants := make([]grant.Grant, 12)
	for i := range grants {
		grants[i] = newGrant(uint64(i))
		if i == 3 {
			grants[i].Attempt = 666
		}
	}
	for n, err := range together(t, st, postgres.Creations, len(grants), func(n int) error { return st.CreateGrant(t.Context(), grants[n]) }) {
		if failed := err != nil; failed != (n == 3) || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrConflict) {
			t.Errorf("creation %d: %v", n, err)
		}
	}
	grants[3].Attempt = 3
	create(t, st, grants[3])
	next := make([]grant.Grant, len(grants))
	errs := together(t, st, postgres.Updates, len(grants), func(n int) error {
		next[n] = rotated(grants[n], 1000)
		var events []store.Event
		if n%2 == 1 {
			events = append(events, store.Event{At: base, Name: store.EventGrantRevoked, About: grants[n].ID.String()})
		}
		switch n {
		case 4, 5:
			next[n].Attempt = 666
		case 7:
			events[0].Name = "bad"
		case 8, 9:
			next[n].Version++ // an operation that loses to a conflict
		}
		return storetest.Replace(t.Context(), st, next[n], events...)
	})
	for n, err := range errs {
		events, readErr := st.Events(t.Context(), grants[n].ID.String(), 10)
		if readErr != nil {
			t.Fatal(readErr)
		}
		want, recorded := grants[n], 0 // the row and its event are both written, or neither
		switch n {
		case 4, 5, 7:
			if err == nil || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) {
				t.Errorf("update %d, which fails: %v", n, err)
			}
		case 8, 9:
			if !errors.Is(err, store.ErrConflict) {
				t.Errorf("update %d, which loses: %v, want ErrConflict", n, err)
			}
		default:
			want, recorded = next[n], n%2
			if err != nil {
				t.Errorf("update %d, a neighbour: %v", n, err)
			}
		}
		holds(t, st, want)
		if len(events) != recorded {
			t.Errorf("update %d left %d events, want %d", n, len(events), recorded)
		}
	}
}

func TestChangesOfTheDirectoryShareATransaction(t *testing.T) {
	st, database := fresh(t)
	server.Run(t, "postgres", `CREATE EXTENSION IF NOT EXISTS pg_stat_statements`)
	server.Run(t, database, `
		CREATE FUNCTION bad() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'bad'; END $$;
		CREATE TRIGGER bad_event BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.name = 'bad') EXECUTE FUNCTION bad();`)
	version := func() int64 {
		ch, err := st.Changes(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return ch.Version
	}
	entered := func(id string, event store.EventName) error {
		c := store.Client{ID: id, Realm: "/api", Version: 1, State: store.ClientEnabled, CreatedAt: base, UpdatedAt: base}
		return st.Commit(t.Context(), store.Change{Entries: []store.Entry{c.Entry()}, Events: []store.Event{{At: base, Name: event, About: id}}})
	}
	const n = 12
	commits, began := calls(t, database, "commit"), version()
	if err := errors.Join(together(t, st, postgres.Changes, n, func(n int) error { return entered(fmt.Sprint("good-", n), "good") })...); err != nil {
		t.Fatal(err)
	}
	if commits = calls(t, database, "commit") - commits; commits != 1 || version() != began+n {
		t.Errorf("%d changes took %d commits and %d versions, want 1 and %d", n, commits, version()-began, n)
	}

	began = version()
	for i, err := range together(t, st, postgres.Changes, n, func(n int) error {
		switch n {
		case 3:
			return entered("fails", "bad")
		case 5, 6:
			return entered("twice", store.EventName(fmt.Sprint("good-", n)))
		case 8:
			return st.Commit(t.Context(), store.Change{Expect: began - 1, Keys: []keys.Stored{{ID: 1, Purpose: keys.MAC, CreatedAt: base, ActiveAt: base, Wrapped: []byte{1}}}})
		}
		return entered(fmt.Sprint("neighbour-", n), "good")
	}) {
		switch i {
		case 3:
			if err == nil || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) {
				t.Errorf("the change that fails: %v", err)
			}
		case 8:
			if !errors.Is(err, store.ErrConflict) {
				t.Errorf("the change of another version: %v, want ErrConflict", err)
			}
		default:
			if err != nil {
				t.Errorf("change %d, a neighbour: %v", i, err)
			}
		}
	}
	// Of the two equal changes, one was made. The other one was recognized as already
	// made.
	if made := version() - began; made != n-3 {
		t.Errorf("%d changes were made, want %d", made, n-3)
	}
	for i := range n {
		id, want := fmt.Sprint("neighbour-", i), 1
		switch i {
		case 3, 5, 6, 8:
			id, want = "fails", 0
		}
		if events, err := st.Events(t.Context(), id, 10); err != nil || len(events) != want {
			t.Errorf("%s has %d events, %v; want %d", id, len(events), err, want)
		}
	}
	if events, err := st.Events(t.Context(), "twice", 10); err != nil || len(events) != 1 {
		t.Errorf("the change that was made once has the events %v, %v", events, err)
	}
}

func TestOperationsBeyondTheQueueLimitAreBusy(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	st := open(t, url)
	release := st.Hold(postgres.Updates)
	id := newGrant(1).ID
	keep := func(g grant.Grant) (grant.Grant, []store.Event) { return g, nil }
	var done sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range postgres.QueueLength {
		done.Go(func() {
			if err := st.UpdateGrant(ctx, id, keep); !errors.Is(err, store.ErrBusy) {
				t.Errorf("a queued operation whose caller gave up: %v, want ErrBusy", err)
			}
		})
	}
	soon(t, "a full queue", func() bool { return st.Waiting(postgres.Updates) == postgres.QueueLength })
	if err := st.UpdateGrant(t.Context(), id, keep); !errors.Is(err, store.ErrBusy) {
		t.Errorf("an operation beyond the limit of the queue: %v, want ErrBusy", err)
	}
	create(t, st, newGrant(2)) // creations have a queue of their own
	cancel()
	done.Wait()
	release()
	soon(t, "an empty queue", func() bool { return st.Waiting(postgres.Updates) == 0 })
	if err := st.UpdateGrant(t.Context(), id, keep); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("afterwards: %v, want ErrNotFound", err)
	}
}

func TestAnOperationGivenUpBeforeItsTurnNeverHappens(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	st := open(t, url)
	given, kept := newGrant(1), newGrant(2)
	release := st.Hold(postgres.Creations)
	ctx, cancel := context.WithCancel(t.Context())
	givenErr, keptErr := make(chan error, 1), make(chan error, 1)
	go func() { givenErr <- st.CreateGrant(ctx, given) }()
	go func() { keptErr <- st.CreateGrant(t.Context(), kept) }()
	soon(t, "two who wait", func() bool { return st.Waiting(postgres.Creations) == 2 })
	cancel()
	if err := <-givenErr; !errors.Is(err, store.ErrBusy) {
		t.Errorf("given up: %v, want ErrBusy", err)
	}
	release()
	if err := <-keptErr; err != nil {
		t.Errorf("its neighbour: %v", err)
	}
	absent(t, st, given)
	holds(t, st, kept)
}

func TestCloseLetsWaitingOperationsFinish(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	st, err := postgres.Create(t.Context(), postgres.Database{URL: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	grants := make([]grant.Grant, 2*postgres.UpdateLength)
	for i := range grants {
		grants[i] = newGrant(uint64(i))
	}
	if err := errors.Join(together(t, st, postgres.Creations, len(grants), func(n int) error { return st.CreateGrant(t.Context(), grants[n]) })...); err != nil {
		t.Fatal(err)
	}
	release := st.Hold(postgres.Updates)
	errs := make([]error, len(grants))
	var done sync.WaitGroup
	for i, g := range grants {
		done.Go(func() { errs[i] = storetest.Replace(t.Context(), st, rotated(g, 5)) })
	}
	soon(t, "those who wait", func() bool { return st.Waiting(postgres.Updates) == len(grants) })
	closed := make(chan error, 1)
	go func() { closed <- st.Close() }()
	soon(t, "Close", st.Closing)
	if err := storetest.Replace(t.Context(), st, rotated(grants[0], 6)); err == nil {
		t.Error("an operation began after Close")
	}
	release()
	done.Wait()
	if err := errors.Join(<-closed, errors.Join(errs...)); err != nil {
		t.Errorf("Close with waiting operations: %v", err)
	}
	again := open(t, url)
	for _, g := range grants {
		holds(t, again, rotated(g, 5))
	}
}
