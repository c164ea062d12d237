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
)

// Sweep deletes grants whose tokens have all expired, until ctx ends.
func (iss *Issuer) Sweep(ctx context.Context) {
	var from grant.ID
	total := 0
	for {
		next, deleted, err := iss.Store.SweepGrants(ctx, from, iss.now(), sweepSlice)
		total += deleted
		pause := sweepPause
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
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
