package issuer

import (
	"context"
	"time"

	"github.com/mintage/mintage/internal/grant"
)

// The sweep walks the table in slices that take about a millisecond, and rests
// between them: a million rows are walked in under four minutes, at less than
// a hundredth of a core.
const (
	sweepSlice = 500
	sweepPause = 100 * time.Millisecond
	sweepRest  = time.Minute // after the end of the table, and after a fault
	// A machine may start with a wrong clock. Nothing is deleted before there
	// was time to correct it, nor after the clock was moved by more than
	// sweepDrift: a live row that goes takes its tokens with it.
	sweepSettle = 10 * time.Minute
	sweepDrift  = time.Minute
)

// Sweep deletes grants whose tokens have all expired, until ctx ends.
func (iss *Issuer) Sweep(ctx context.Context) {
	var from grant.ID
	total := 0
	steady := iss.steadiness()
	moved := false
	for pause := sweepSettle; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if drift := steady(); drift.Abs() > sweepDrift {
			if !moved {
				iss.Log.Error("the clock was moved: expired grants are kept until it is back, or the server is started again with the right time", "by", drift.String())
			}
			moved, pause = true, sweepRest
			continue
		}
		moved = false
		next, deleted, err := iss.Store.SweepGrants(ctx, from, iss.now(), sweepSlice)
		total += deleted
		pause = sweepPause
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			iss.Log.Warn("cannot remove expired grants; trying again in a minute", "error", err)
			pause = sweepRest
		default:
			from = next
			if from == (grant.ID{}) {
				if total > 0 {
					iss.Log.Info("expired grants removed", "grants", total)
				}
				total, pause = 0, sweepRest
			}
		}
	}
}

// steadiness returns a function that tells by how much the clock was moved
// since: forward if positive.
func (iss *Issuer) steadiness() func() time.Duration {
	wall, steady := iss.Now().Round(0), iss.Monotonic()
	return func() time.Duration { return iss.Now().Round(0).Sub(wall) - iss.Monotonic().Sub(steady) }
}
