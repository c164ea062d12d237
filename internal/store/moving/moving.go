// Package moving copies a stopped store from one engine to another, compares
// source and copy, and then lets servers use the copy. Servers can never use
// both, whichever step crashes. After a crash, the same command copies anew, and
// Undo takes the source back.
//
// Each side stores a migration state (store.Migration). The states change in this
// order:
//
//	source           destination
//	none             none
//	returned         none          the source has a name
//	returned         arriving      the destination is claimed and empty
//	leaving          arriving      the source no longer changes and is copied
//	left             arriving      source and copy were compared
//	left             arrived       servers may use the destination
//
// Undo changes the source's state from leaving or left to returned. If the source has left,
// Undo first changes the destination's state from arrived to undone. A destination's state
// changes from arriving to arrived only while the source has left and names its claim. Every
// change of state is made under the source's lock.
package moving

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/store"
)

// A Source is a store that can be moved to another engine.
type Source interface {
	// Name is the store's location, for people. It contains no password.
	Name() string

	// Migration reads the migration state.
	Migration(ctx context.Context) (store.Migration, error)

	// SetMigration is a compare-and-swap of the migration state. It returns
	// store.ErrConflict if the present state is not was.
	SetMigration(ctx context.Context, was, next store.Migration) error

	// DirectoryVersion is the present version of the directory.
	DirectoryVersion(ctx context.Context) (int64, error)

	// Count counts the rows of a table.
	Count(ctx context.Context, t store.Table) (int64, error)

	// Rows calls f with each row of a table, in the order of store.CompareKeys.
	// f may keep the row.
	Rows(ctx context.Context, t store.Table, f func(store.Row) error) error
}

// A Destination is an empty store that a Source can be copied into.
type Destination interface {
	Source

	// Empty reports whether the store has no rows.
	Empty(ctx context.Context) (bool, error)

	// Claim is SetMigration for an empty store. It returns store.ErrConflict if the
	// store has any row.
	Claim(ctx context.Context, was, next store.Migration) error

	// Clear deletes all rows of a table. It returns store.ErrConflict if the
	// migration state is not state.
	Clear(ctx context.Context, t store.Table, state store.Migration) error

	// Append adds rows to a table. It returns store.ErrConflict if the migration
	// state is not state.
	Append(ctx context.Context, t store.Table, rows []store.Row, state store.Migration) error

	// RaiseDirectory sets the directory's version, unless it is higher already.
	RaiseDirectory(ctx context.Context, version int64) error
}

// A Refusal is the error of a move that must not be made. Nothing was changed.
type Refusal struct{ reason, Advice string }

func (r *Refusal) Error() string { return r.reason }

func refuse(advice, reason string, args ...any) error {
	return &Refusal{fmt.Sprintf(reason, args...), advice}
}

// A Phase is a phase of a move.
type Phase string

const (
	Clearing  Phase = "clear" // remove the rows of an earlier, unfinished copy
	Copying   Phase = "copy"
	Comparing Phase = "compare"
)

// Progress describes how far a move is.
type Progress struct {
	Phase             Phase
	Table             string
	Done, Total       int64 // rows of the table
	AllDone, AllTotal int64 // rows of all tables
}

// An Outcome is the result of Run.
type Outcome struct {
	Already bool // the move was finished before
	Tables  []Checked
}

// Run moves a store. A move that was interrupted is copied anew. It calls report
// after each batch. The caller holds the source's lock.
func Run(ctx context.Context, from Source, to Destination, report func(Progress)) (o Outcome, err error) {
	defer func() {
		// If ctx has interrupted the copy, an engine may return ErrBusy instead.
		if stopped := ctx.Err(); err != nil && stopped != nil && !errors.Is(err, stopped) {
			err = fmt.Errorf("%w: %w", stopped, err)
		}
	}()
	source, err := from.Migration(ctx)
	if err != nil {
		return o, err
	}
	destination, err := to.Migration(ctx)
	if err != nil {
		return o, err
	}
	empty, err := to.Empty(ctx)
	if err != nil {
		return o, err
	}
	next, err := plan(source, destination, empty, from.Name(), to.Name())
	if err != nil {
		return o, err
	}
	m := &move{from: from, to: to, source: source, destination: destination, report: report}
	if next == nothing {
		o.Already = true
		return o, nil
	}
	if source.Source == "" {
		if err := setMigration(ctx, m.from, &m.source, store.Migration{State: store.Returned, Source: rand.Text()}); err != nil {
			return o, err
		}
	}
	if next <= claim {
		if err := m.arrive(ctx); err != nil {
			return o, err
		}
	}
	if next <= begin {
		leaving := store.Migration{State: store.Leaving, Source: m.source.Source, Move: m.destination.Move, OtherStore: to.Name()}
		if err := setMigration(ctx, m.from, &m.source, leaving); err != nil {
			return o, err
		}
	}
	if next <= claim {
		if err := m.copy(ctx); err != nil {
			return o, err
		}
		if o.Tables, err = m.compare(ctx); err != nil {
			return o, err
		}
		left := m.source
		left.State, left.Claim, left.OtherStore = store.Left, m.destination.Claim, to.Name()
		if err := setMigration(ctx, m.from, &m.source, left); err != nil {
			return o, err
		}
	}
	arrived := m.destination
	arrived.State = store.Arrived
	return o, setMigration(ctx, m.to, &m.destination, arrived)
}

// A move is one run of Run or Undo.
type move struct {
	from                Source
	to                  Destination
	source, destination store.Migration // their states
	report              func(Progress)
}

// setMigration stores the next migration state of a store, and sets *present to it.
func setMigration(ctx context.Context, of Source, present *store.Migration, next store.Migration) error {
	if err := of.SetMigration(ctx, *present, next); err != nil {
		return fmt.Errorf("set the migration state of %s to %s: %w", of.Name(), next.State, err)
	}
	*present = next
	return nil
}

// arrive claims the destination. It first deletes what an interrupted or undone
// move of the same source left there: servers never used it.
func (m *move) arrive(ctx context.Context) error {
	if m.destination.State == store.Arriving {
		for _, t := range store.Tables {
			m.report(Progress{Phase: Clearing, Table: t.Name})
			if err := m.to.Clear(ctx, t, m.destination); err != nil {
				return fmt.Errorf("delete the rows of an earlier copy: %w", err)
			}
		}
	}
	next := store.Migration{State: store.Arriving, Source: m.source.Source, Move: cmp.Or(m.source.Move, rand.Text()), Claim: rand.Text(), OtherStore: m.from.Name()}
	if err := m.to.Claim(ctx, m.destination, next); err != nil {
		if errors.Is(err, store.ErrConflict) {
			err = errors.New("another program has begun to use it")
		}
		return fmt.Errorf("claim %s: %w", m.to.Name(), err)
	}
	m.destination = next
	return nil
}
