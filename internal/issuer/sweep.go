package issuer

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/store"
)

// The sweep walks each table in slices that take about a millisecond, and rests
// between them: a million rows are walked in under four minutes, at less than
// a hundredth of a core.
const (
	sweepSlice = 500
	sweepPause = 100 * time.Millisecond
	sliceTime  = 10 * time.Second // a store that hangs does not end the sweep
	sweepRest  = time.Minute      // after the end of a table, and after a fault
	// A machine may start with a wrong clock. No grant is deleted before there
	// was time to correct it, and nothing after the clock was moved by more than
	// sweepDrift: a live row that goes takes its tokens with it.
	sweepSettle = 10 * time.Minute
	sweepDrift  = time.Minute
	// A session that goes costs its user a login. Those of a server that is
	// started again and again must go at some time.
	documentSettle = time.Minute
)

// A walk is the sweep of one table.
type walk struct {
	what  string
	slice func(ctx context.Context) (deleted int, end bool, err error) // the next one
	wait  time.Duration                                                // until then
	total int                                                          // deleted since the table's beginning
}

// Sweep deletes grants whose tokens have all expired, and expired documents,
// until ctx ends.
func (iss *Issuer) Sweep(ctx context.Context) {
	walks := []*walk{
		{what: "grants", wait: sweepSettle, slice: iss.slices(store.SweptGrants)},
		{what: "documents", wait: documentSettle, slice: iss.slices(store.SweptDocuments)},
	}
	steady := iss.steadiness()
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
				iss.Log.Error("the clock was moved: expired grants are kept until it is back, or the server is started again with the right time", "by", drift.String())
			}
			moved, next.wait = true, sweepRest
			continue
		}
		moved = false
		// Or it was wrong from the start, and the other nodes' clocks tell.
		if iss.Directory.clockFault.Load() != nil {
			next.wait = sweepRest
			continue
		}
		iss.advance(ctx, next)
	}
}

// advance sweeps the next slice of a walk.
func (iss *Issuer) advance(ctx context.Context, w *walk) {
	try, cancel := context.WithTimeout(ctx, sliceTime)
	deleted, end, err := w.slice(try)
	cancel()
	w.total += deleted
	w.wait = sweepPause
	switch {
	case ctx.Err() != nil:
	case err != nil:
		iss.Log.Warn("cannot remove expired "+w.what+"; trying again in a minute", "error", err)
		w.wait = sweepRest
	case end:
		if w.total > 0 {
			iss.Log.Info("expired "+w.what+" removed", w.what, w.total)
		}
		w.total, w.wait = 0, sweepRest
	}
}

// slices sweeps the next slice of a table in each call.
func (iss *Issuer) slices(table store.SweptTable) func(context.Context) (int, bool, error) {
	from := ""
	return func(ctx context.Context) (int, bool, error) {
		now := iss.now()
		if table == store.SweptGrants && iss.Directory.view.Load().Restore().InForce(now) {
			return 0, true, nil // a row that seems long expired may be that of a living token
		}
		next, deleted, err := iss.Store.Sweep(ctx, table, from, now, sweepSlice)
		if err != nil {
			return deleted, false, err
		}
		from = next
		return deleted, from == "", nil
	}
}

// steadiness returns a function that tells by how much the clock was moved
// since: forward if positive.
func (iss *Issuer) steadiness() func() time.Duration {
	wall, steady := iss.Now().Round(0), iss.Monotonic()
	return func() time.Duration { return iss.Now().Round(0).Sub(wall) - iss.Monotonic().Sub(steady) }
}
