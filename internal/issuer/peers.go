package issuer

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// suspicion is after how many meetings in a row a clock is believed to be off:
// one alone may be about a write that took long.
const suspicion = 3

// peers is what a node knows of the other nodes' clocks. Run alone uses it.
type peers struct {
	self     store.Node
	began    time.Time                      // the last meeting
	last     map[store.NodeID]grant.Instant // the others' clocks at it
	outvoted int                            // meetings in a row
	others   int                            // the same, of meetings that found others' clocks off
}

func newPeers(name string, now time.Time) *peers {
	p := &peers{self: store.Node{Name: name, Since: grant.At(now)}, began: now}
	rand.Read(p.self.ID[:])
	return p
}

// meet tells the other nodes this one's time, and compares theirs with it.
func (d *Directory) meet(ctx context.Context, p *peers) error {
	began := d.clock()
	p.self.Clock = grant.At(began)
	nodes, err := d.store.Meet(ctx, p.self)
	if err != nil {
		return err
	}
	skew := d.Schedule.MaxSkew
	worst, outvoted := p.compare(nodes, began, d.clock(), skew)
	p.outvoted, p.others = count(outvoted, p.outvoted), count(worst.node != "" && !outvoted, p.others)
	if p.others == suspicion {
		d.log.Warn("another node's clock is off: it should be set by NTP", "node", worst.node, "by", worst.by.String(), "max_skew", skew.String())
	}
	if p.outvoted < suspicion {
		if d.clockFault.Swap(nil) != nil {
			d.log.Info("this node's clock is right again")
		}
		return nil
	}
	fault := fmt.Errorf("this node's clock is off: that of node %s, with which most agree, differs by %s, and max_skew is %s; set clocks by NTP",
		worst.node, worst.by, skew)
	if d.clockFault.Swap(&fault) == nil {
		d.log.Error("not ready", "error", fault)
	}
	return nil
}

func count(again bool, n int) int {
	if again {
		return n + 1
	}
	return 0
}

// A deviation is how far another node's clock is ahead of this one's.
type deviation struct {
	node string
	by   time.Duration
}

// compare finds the clocks that surely differ from this node's by more than
// skew, and whether this node is outvoted. Only nodes count that have met since
// the last meeting: their time is no older than that. Where as many agree with
// this node as do not, those are right among whom is the node that runs longest,
// so that one that joins with a wrong clock does not stop the other.
func (p *peers) compare(nodes []store.Node, began, now time.Time, skew time.Duration) (worst deviation, outvoted bool) {
	type camp struct {
		size  int
		since grant.Instant
	}
	with, against := camp{1, p.self.Since}, camp{0, grant.Never}
	last := make(map[store.NodeID]grant.Instant, len(nodes))
	for _, n := range nodes {
		last[n.ID] = n.Clock
		if before, met := p.last[n.ID]; !met || before == n.Clock {
			continue
		}
		// Its clock is now ahead of ours by least to most.
		least := n.Clock.Since(grant.At(now))
		most := least + now.Sub(p.began)
		side := &with
		if off := max(least, -most); off > skew {
			side = &against
			if off > worst.by.Abs() {
				worst = deviation{n.Name, least}
			}
		}
		side.size++
		side.since = min(side.since, n.Since)
	}
	p.began, p.last = began, last
	return worst, against.size > with.size || against.size == with.size && against.since < with.since
}
