package issuer

import "context"

// How many slow secret checks may be there at once, running or waiting: of all
// clients, and of one.
const (
	SlowChecks      = hashersAtOnce + hashersWaiting
	SlowChecksOfOne = hashersOfOne
)

// HoldSlowChecks takes the turn to run, so that slow secret checks wait.
func (iss *Issuer) HoldSlowChecks() (release func()) { return iss.slow.Pause() }

// SlowChecksThere is how many are there.
func (iss *Issuer) SlowChecksThere() int { return iss.slow.Taken() }

// SweepSettle is how long the sweep waits before it begins.
const SweepSettle = sweepSettle

// KeyRecords is how many records of keys the directory holds.
func (d *Directory) KeyRecords() int { return len(d.records) }

// RotateDue adds the keys that are due, as Run does every second.
func (d *Directory) RotateDue(ctx context.Context) error { return d.rotate(ctx) }

// SetFeedLimit bounds the grants, and the cutoffs, of the list of revocations.
func (iss *Issuer) SetFeedLimit(n int) { iss.feed.limit = n }

// SetClockFault has the other nodes find this node's clock wrong, or right (nil).
func (d *Directory) SetClockFault(err error) {
	if err == nil {
		d.clockFault.Store(nil)
		return
	}
	d.clockFault.Store(&err)
}
