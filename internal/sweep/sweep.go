// Package sweep deletes expired grants and documents from the store.
package sweep

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// The sweep scans each table in slices that take about a millisecond, and pauses
// between them: it scans a million rows in under four minutes, at less than a hundredth
// of a core. Its pauses are shorter where most rows have expired: 5,000 rows a second
// would be fewer than busy clients can write.
const (
	Slice      = 500 // rows
	sweepPause = 100 * time.Millisecond
	sliceTime  = 10 * time.Second // a store that hangs does not end the sweep
	sweepRest  = time.Minute      // after the end of a table, and after a fault
	// A machine may start with a wrong clock, and deleting a live row ends its tokens. The
	// sweep deletes no grant until Settle has passed, in which the clock can be corrected,
	// and nothing while the clock has been set by more than sweepDrift.
	Settle     = 10 * time.Minute
	sweepDrift = time.Minute
	// documentSettle is the Settle of documents: deleting a live session costs its user a
	// login. It is short, so that a server which restarts often deletes documents too.
	documentSettle = time.Minute
)

// A Sweeper deletes expired grants and documents.
type Sweeper struct {
	Store store.Store
	// ClockFault returns an error if this node's clock differs from those of other nodes.
	ClockFault func() error
	// Restore is the latest restore of the store.
	Restore func() grant.Restore
	Now     func() time.Time
	// Monotonic is a clock that is never set. It shows when Now was set.
	Monotonic func() time.Time
	Log       *slog.Logger
	Outage    *store.Outage // nil: each failure is logged
}

// A walk is the repeated scan of one table.
type walk struct {
	what  string
	slice func(ctx context.Context) (deleted int, end bool, err error) // sweeps the next slice
	wait  time.Duration                                                // until the next slice
	total int                                                          // deleted since the table's beginning
}

// Run deletes grants whose tokens have all expired, and expired documents,
// until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	walks := []*walk{
		{what: "grants", wait: Settle, slice: s.slices(store.SweptGrants)},
		{what: "documents", wait: documentSettle, slice: s.slices(store.SweptDocuments)},
	}
	steady := s.steadiness()
	moved := false
	for ctx.Err() == nil {
		next := slices.MinFunc(walks, func(a, b *walk) int { return cmp.Compare(a.wait, b.wait) })
		pause := next.wait
		for _, w := range walks {
			w.wait -= pause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if drift := steady(); drift.Abs() > sweepDrift {
			if !moved {
				s.Log.Error("the clock was moved: expired grants and documents are kept until it is moved back; if it is right now, restart the server", "by", drift.String())
			}
			moved, next.wait = true, sweepRest
			continue
		}
		moved = false
		// A clock that was wrong from the start differs from those of the other nodes.
		if s.ClockFault() != nil {
			next.wait = sweepRest
			continue
		}
		s.advance(ctx, next)
	}
}

// advance sweeps the next slice of a walk.
func (s *Sweeper) advance(ctx context.Context, w *walk) {
	try, cancel := context.WithTimeout(ctx, sliceTime)
	deleted, end, err := w.slice(try)
	cancel()
	w.total += deleted
	w.wait = Pause(deleted)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		if !s.Outage.Combines(err, s.Monotonic()) {
			s.Log.Warn("cannot remove expired "+w.what+"; trying again in a minute", "error", err)
		}
		w.wait = sweepRest
	case end:
		if w.total > 0 {
			s.Log.Info("expired "+w.what+" removed", w.what, w.total)
		}
		w.total, w.wait = 0, sweepRest
	}
}

// Pause returns how long the sweep waits after a slice of which it has deleted some rows.
func Pause(deleted int) time.Duration {
	if deleted > Slice/2 {
		return sweepPause / 10
	}
	return sweepPause
}

// slices returns a function that sweeps the next slice of a table in each call.
func (s *Sweeper) slices(table store.SweptTable) func(context.Context) (int, bool, error) {
	from := ""
	return func(ctx context.Context) (int, bool, error) {
		now := grant.At(s.Now())
		if table == store.SweptGrants && s.Restore().InForce(now) {
			return 0, true, nil // a row that seems long expired may belong to a valid token
		}
		next, deleted, err := s.Store.Sweep(ctx, table, from, now, Slice)
		if err != nil {
			return deleted, false, err
		}
		from = next
		return deleted, from == "", nil
	}
}

// steadiness returns a function that returns how far the clock was set since the call of
// steadiness: forward if positive.
func (s *Sweeper) steadiness() func() time.Duration {
	wall, steady := s.Now().Round(0), s.Monotonic()
	return func() time.Duration { return s.Now().Round(0).Sub(wall) - s.Monotonic().Sub(steady) }
}
