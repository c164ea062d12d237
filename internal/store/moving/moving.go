// Package moving copies a store from one engine to another, compares the two,
// and only then lets servers use the copy. At no moment, whatever crashes, can
// servers use both; and from every moment the same command goes on, or takes
// the source back.
//
// Each side has a mark (store.Mark). Marks change in this order:
//
//	source           destination
//	none             none
//	returned         none          the source has a name
//	returned         arriving      the destination is claimed, and empty
//	leaving          arriving      the source does not change any more, and is copied
//	left             arriving      both were compared
//	left             arrived       servers may use the destination
//
// To undo takes the source from leaving to returned, or from left: the
// destination goes first from arrived to undone. A destination can come from
// arriving to arrived only while the source has left and names its claim, and
// whoever changes marks holds the source's lock.
package moving

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/store"
)

// A Source is a store that can be moved away.
type Source interface {
	// Name is the store's place, for people. It holds no password.
	Name() string

	// Mark reads what the store remembers of a move.
	Mark(ctx context.Context) (store.Mark, error)

	// SetMark replaces the mark if it is as it was, and otherwise returns
	// store.ErrConflict.
	SetMark(ctx context.Context, was, next store.Mark) error

	// DirectoryVersion is the present version of the directory.
	DirectoryVersion(ctx context.Context) (int64, error)

	// Count counts the rows of a table.
	Count(ctx context.Context, t store.Table) (int64, error)

	// Rows shows f the rows of a table in the order of store.CompareKeys, after
	// a key if it is not nil. F may keep them.
	Rows(ctx context.Context, t store.Table, after store.Row, f func(store.Row) error) error
}

// A Destination is a store that another one can move into.
type Destination interface {
	Source

	// Empty reports whether the store holds nothing.
	Empty(ctx context.Context) (bool, error)

	// Claim is SetMark for a store that holds nothing: if it holds anything, it
	// returns store.ErrConflict.
	Claim(ctx context.Context, was, next store.Mark) error

	// Clear removes all rows of a table, if the mark is as given.
	Clear(ctx context.Context, t store.Table, mark store.Mark) error

	// Append adds rows to a table and replaces the mark, both or neither. It
	// returns store.ErrConflict if the mark is not as it was.
	Append(ctx context.Context, t store.Table, rows []store.Row, was, next store.Mark) error

	// RaiseDirectory moves the directory on to a version, unless it is further.
	RaiseDirectory(ctx context.Context, version int64) error
}

// A Refusal is a move that must not be made. Nothing was changed.
type Refusal struct{ reason, Advice string }

func (r *Refusal) Error() string { return r.reason }

func refuse(advice, reason string, args ...any) error {
	return &Refusal{fmt.Sprintf(reason, args...), advice}
}

// A Phase is what a move is at.
type Phase string

const (
	Clearing  Phase = "clear" // what an earlier move has left behind
	Copying   Phase = "copy"
	Comparing Phase = "compare"
)

// Progress is how far a move is.
type Progress struct {
	Phase       Phase
	Table       string
	Done, Total int64 // rows of the table
	// Of all tables. Before are those that an earlier run has copied.
	AllDone, AllTotal, Before int64
}

// An Outcome is what Run has done.
type Outcome struct {
	Already bool // the move was finished before
	Tables  []Checked
}

// Run moves a store, or goes on with a move that was interrupted. Report is
// called often. The caller holds the source's lock.
func Run(ctx context.Context, from Source, to Destination, report func(Progress)) (o Outcome, err error) {
	there, err := from.Mark(ctx)
	if err != nil {
		return o, err
	}
	here, err := to.Mark(ctx)
	if err != nil {
		return o, err
	}
	empty, err := to.Empty(ctx)
	if err != nil {
		return o, err
	}
	next, err := plan(there, here, empty, from.Name(), to.Name())
	if err != nil {
		return o, err
	}
	m := &move{from: from, to: to, there: there, here: here, report: report}
	if next == nothing {
		o.Already = true
		return o, nil
	}
	if there.Source == "" {
		if err := m.markSource(ctx, store.Mark{State: store.Returned, Source: rand.Text()}); err != nil {
			return o, err
		}
	}
	if next <= claim {
		if err := m.arrive(ctx); err != nil {
			return o, err
		}
	}
	if next <= begin {
		leaving := store.Mark{State: store.Leaving, Source: m.there.Source, Move: m.here.Move, Elsewhere: to.Name()}
		if err := m.markSource(ctx, leaving); err != nil {
			return o, err
		}
	}
	if next <= resume {
		if err := m.copy(ctx); err != nil {
			return o, err
		}
		if o.Tables, err = m.compare(ctx); err != nil {
			return o, err
		}
		left := m.there
		left.State, left.Claim, left.Elsewhere = store.Left, m.here.Claim, to.Name()
		if err := m.markSource(ctx, left); err != nil {
			return o, err
		}
	}
	arrived := m.here
	arrived.State = store.Arrived
	return o, m.markDestination(ctx, arrived)
}

// A move is one run of it.
type move struct {
	from        Source
	to          Destination
	there, here store.Mark // of the source, and of the destination
	report      func(Progress)
}

func (m *move) markSource(ctx context.Context, next store.Mark) error {
	if err := m.from.SetMark(ctx, m.there, next); err != nil {
		return fmt.Errorf("mark %s as %s: %w", m.from.Name(), next.State, err)
	}
	m.there = next
	return nil
}

func (m *move) markDestination(ctx context.Context, next store.Mark) error {
	if err := m.to.SetMark(ctx, m.here, next); err != nil {
		return fmt.Errorf("mark %s as %s: %w", m.to.Name(), next.State, err)
	}
	m.here = next
	return nil
}

// arrive claims the destination, and removes before what an earlier move of
// this source has left there: that one was undone, and servers never used it.
func (m *move) arrive(ctx context.Context) error {
	if m.here.State == store.Arriving {
		for _, t := range store.Tables {
			m.report(Progress{Phase: Clearing, Table: t.Name})
			if err := m.to.Clear(ctx, t, m.here); err != nil {
				return fmt.Errorf("remove what an earlier move has left behind: %w", err)
			}
		}
	}
	next := store.Mark{State: store.Arriving, Source: m.there.Source, Move: cmp.Or(m.there.Move, rand.Text()), Claim: rand.Text(), Elsewhere: m.from.Name()}
	if err := m.to.Claim(ctx, m.here, next); err != nil {
		if errors.Is(err, store.ErrConflict) {
			err = errors.New("somebody else has begun to use it")
		}
		return fmt.Errorf("claim %s: %w", m.to.Name(), err)
	}
	m.here = next
	return nil
}
