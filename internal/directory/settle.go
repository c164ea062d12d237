package directory

import (
	"context"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	// SettleTime bounds the wait for what servers have not written yet. A node
	// that does not reach the store for so long answers no request.
	SettleTime = 6 * time.Second
	// running is the age of a heartbeat, by another machine's clock, up to which its node
	// may still be running.
	running = 30 * time.Second
)

// Settle writes the uses of secrets that this node holds in memory, and waits
// until the other nodes have written theirs.
func (d *Directory) Settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, SettleTime)
	defer cancel()
	d.FlushUses(ctx)
	AwaitHeartbeats(ctx, d.otherNodes, grant.At(d.clock()))
}

// otherNodes returns the other nodes that use the store; none if it is embedded.
func (d *Directory) otherNodes(ctx context.Context) ([]store.Node, error) {
	if err := d.wait(ctx); err != nil {
		return nil, err
	}
	defer d.done()
	if d.peers == nil {
		return nil, nil
	}
	d.peers.self.Clock = grant.At(d.clock())
	return d.store.Heartbeat(ctx, d.peers.self)
}

// AwaitHeartbeats waits until every node that runs has sent two heartbeats from
// now on: it writes uses before each of them, and the first may have been under
// way.
func AwaitHeartbeats(ctx context.Context, list func(context.Context) ([]store.Node, error), now grant.Instant) {
	last, beats := map[store.NodeID]grant.Instant{}, map[store.NodeID]int{}
	for first := true; ; first = false {
		nodes, err := list(ctx)
		if err != nil {
			return // the next read of the store reports it
		}
		waiting := false
		for _, n := range nodes {
			switch at, known := last[n.ID]; {
			case first && now.Since(n.Clock).Abs() > running: // it has ended
			case first:
				waiting = true
				last[n.ID] = n.Clock
			case known && n.Clock != at:
				last[n.ID] = n.Clock
				beats[n.ID]++
				fallthrough
			case known:
				waiting = waiting || beats[n.ID] < 2
			}
		}
		if !waiting || !Pause(ctx, PollInterval/10) {
			return
		}
	}
}

// Pause waits, and reports whether ctx goes on.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
