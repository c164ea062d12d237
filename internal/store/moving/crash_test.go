package moving_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/moving"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/sqlite"
)

var errCrash = errors.New("crashed")

// A crash ends a run at one of its writes: before the write, or after it, so that the
// caller does not learn that it happened.
type crash struct {
	at     int // the number of the write, counted from 1
	behind bool
	writes int
	seen   func() // a check between two writes
}

func (c *crash) write(f func() error) error {
	c.seen()
	c.writes++
	if c.writes > c.at || c.writes == c.at && !c.behind {
		return errCrash
	}
	if err := f(); err != nil {
		return err
	}
	c.seen()
	if c.writes == c.at {
		return errCrash
	}
	return nil
}

type crashingSource struct {
	*sqlite.Moving
	c *crash
}

func (s crashingSource) SetMigration(ctx context.Context, was, next store.Migration) error {
	return s.c.write(func() error { return s.Moving.SetMigration(ctx, was, next) })
}

type crashingDestination struct {
	*postgres.Moving
	c *crash
}

func (d crashingDestination) SetMigration(ctx context.Context, was, next store.Migration) error {
	return d.c.write(func() error { return d.Moving.SetMigration(ctx, was, next) })
}

func (d crashingDestination) Claim(ctx context.Context, was, next store.Migration) error {
	return d.c.write(func() error { return d.Moving.Claim(ctx, was, next) })
}

func (d crashingDestination) Clear(ctx context.Context, t store.Table, state store.Migration) error {
	return d.c.write(func() error { return d.Moving.Clear(ctx, t, state) })
}

func (d crashingDestination) Append(ctx context.Context, t store.Table, rows []store.Row, state store.Migration) error {
	return d.c.write(func() error { return d.Moving.Append(ctx, t, rows, state) })
}

func (d crashingDestination) RaiseDirectory(ctx context.Context, version int64) error {
	return d.c.write(func() error { return d.Moving.RaiseDirectory(ctx, version) })
}

// A trial is a pair of stores.
type trial struct {
	t    *testing.T
	name string // of the schema
	from *sqlite.Moving
	to   *postgres.Moving
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	name, url := server.Schema(t)
	return &trial{t: t, name: name, to: openDestination(t, url)}
}

// again starts over with an empty destination and a fresh copy of a source.
func (w *trial) again(dir string) {
	w.t.Helper()
	text := `DELETE FROM ` + w.name + `.moves`
	for _, table := range store.Tables {
		text += `; DELETE FROM ` + w.name + `.` + table.Name
	}
	server.Run(w.t, "postgres", text+`; UPDATE `+w.name+`.directory SET version = 1`)
	w.from = openSource(w.t, duplicate(w.t, dir))
}

// crashed runs f with a crash, and reports whether the crash happened. At no moment may
// both stores be usable by servers.
func (w *trial) crashed(at int, behind bool, f func(moving.Source, moving.Destination) error) bool {
	w.t.Helper()
	c := &crash{at: at, behind: behind, seen: func() {
		if source, destination := served(w.t, w.from, w.to); source && destination {
			w.t.Errorf("write %d, behind it: %t: servers can use both stores", at, behind)
		}
	}}
	err := f(crashingSource{w.from, c}, crashingDestination{w.to, c})
	if err != nil && !errors.Is(err, errCrash) {
		w.t.Fatalf("write %d, behind it: %t: %v", at, behind, err)
	}
	c.seen()
	return err != nil
}

// moved requires that the store is in the destination, complete and usable, and only
// there.
func (w *trial) moved(grants int) {
	w.t.Helper()
	if source, destination := served(w.t, w.from, w.to); source || !destination {
		w.t.Errorf("served: source %t, destination %t", source, destination)
	}
	if n, err := w.to.Count(w.t.Context(), store.Tables[len(store.Tables)-1]); err != nil || n != int64(grants) {
		w.t.Errorf("%d grants, want %d; %v", n, grants, err)
	}
}

// Whatever write of a move is a run's last one, the same command completes the move, and
// Undo cancels it.
func TestAMoveCanCrashAnywhere(t *testing.T) {
	t.Parallel()
	const grants = 120
	dir := settled(t, newSource(t, grants))
	run := func(from moving.Source, to moving.Destination) error {
		_, err := moving.Run(t.Context(), from, to, silent)
		return err
	}
	w := newTrial(t)
	points := 0
	for at, more := 1, true; more; at++ {
		for _, behind := range []bool{false, true} {
			w.again(dir)
			if more = w.crashed(at, behind, run); !more {
				w.moved(grants)
				break
			}
			points++
			if at%2 == 1 {
				// Cancel the move, unless the last write has opened the destination.
				source, destination := served(t, w.from, w.to)
				if !destination {
					if _, err := moving.Undo(t.Context(), w.from, w.to, false); err != nil {
						t.Fatalf("write %d, behind it: %t: undo: %v", at, behind, err)
					}
					if source, destination = served(t, w.from, w.to); !source || destination {
						t.Errorf("write %d, behind it: %t: after undo, served: source %t, destination %t", at, behind, source, destination)
					}
					// Meanwhile the source was changed.
					if _, err := raw(t, w.from.Name()[len("sqlite:"):]).Exec(`UPDATE clients SET version = version + 1, changed = 42; UPDATE directory SET version = 42`); err != nil {
						t.Fatal(err)
					}
				}
			}
			mustMove(t, w.from, w.to)
			w.moved(grants)
		}
	}
	// Source, claim, source, eight tables (one of them in two batches), directory,
	// source, destination.
	if points != 2*(3+9+3) {
		t.Errorf("%d crashes, want %d", points, 2*(3+9+3))
	}
}

func TestAnotherMoveAfterAnUndoneOneCanCrashAnywhere(t *testing.T) {
	t.Parallel()
	const grants = 20
	dir := settled(t, newSource(t, grants))
	w := newTrial(t)
	points := 0
	for at, more := 1, true; more; at++ {
		// The other half of the cases adds nothing to those above.
		for _, behind := range []bool{at%2 == 0} {
			w.again(dir)
			run := func(from moving.Source, to moving.Destination) error {
				_, err := moving.Run(t.Context(), from, to, silent)
				return err
			}
			w.crashed(7, true, run)
			if _, err := moving.Undo(t.Context(), w.from, nil, false); err != nil {
				t.Fatal(err)
			}
			if more = w.crashed(at, behind, run); more {
				points++
				mustMove(t, w.from, w.to)
			}
			w.moved(grants)
			if !more {
				break
			}
		}
	}
	if points != 8+1+1+8+3 {
		t.Errorf("%d crashes, want %d", points, 8+1+1+8+3)
	}
}

func TestAFinishedMoveCanBeUndoneAndTheUndoingCanCrashAnywhere(t *testing.T) {
	t.Parallel()
	dir := settled(t, newSource(t, 20))
	undo := func(from moving.Source, to moving.Destination) error {
		_, err := moving.Undo(t.Context(), from, to, false)
		return err
	}
	w := newTrial(t)
	points := 0
	for at, more := 1, true; more; at++ {
		for _, behind := range []bool{false, true} {
			w.again(dir)
			mustMove(t, w.from, w.to)
			if _, err := moving.Undo(t.Context(), w.from, nil, false); !errors.Is(err, moving.ErrNoDestination) {
				t.Fatalf("without its destination: %v", err)
			}
			if more = w.crashed(at, behind, undo); more {
				points++
				if err := undo(w.from, w.to); err != nil {
					t.Fatalf("write %d, behind it: %t: %v", at, behind, err)
				}
			}
			if source, destination := served(t, w.from, w.to); !source || destination {
				t.Errorf("write %d, behind it: %t: served: source %t, destination %t", at, behind, source, destination)
			}
			if _, err := moving.Run(t.Context(), w.from, w.to, silent); err == nil || !strings.Contains(err.Error(), "already holds a store, which is not overwritten") {
				t.Errorf("a move into what was served: %v", err)
			}
			if !more {
				break
			}
		}
	}
	if points != 2*2 {
		t.Errorf("%d crashes, want 4", points)
	}
}

func TestAFinishedMoveIsUndoneWithoutADestinationThatIsGone(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	from, to := openSource(t, newSource(t, 10)), openDestination(t, url)
	mustMove(t, from, to)
	was, err := moving.Undo(t.Context(), from, nil, true)
	if err != nil || was.State != store.Left || was.OtherStore != to.Name() {
		t.Errorf("%+v, %v", was, err)
	}
	if source, _ := served(t, from, to); !source {
		t.Error("the source cannot be served")
	}
	if was, err := moving.Undo(t.Context(), from, nil, false); err != nil || was.State != "" {
		t.Errorf("once more: %+v, %v", was, err)
	}
}
