package directory

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

// peers is what a node knows of the other nodes' clocks.
type peers struct {
	self     store.Node
	began    time.Time                // of the last comparison
	last     map[store.NodeID]bearing // the others at it
	outvoted int                      // comparisons in a row
	others   int                      // the same, of those that found others' clocks off
}

// Join makes this process a node, by a name for people: from now on, polls meet
// the other nodes. It polls at once, so that they know of it before it serves.
func (d *Directory) Join(ctx context.Context, name string) error {
	if err := d.wait(ctx); err != nil {
		return err
	}
	d.peers = &peers{self: store.Node{Name: name}}
	rand.Read(d.peers.self.ID[:])
	d.done()
	return d.poll(ctx, true)
}

// meet tells the other nodes this one's time, and, if it is the meeting of a
// tick, compares theirs with it: between two ticks every node that runs has met.
func (d *Directory) meet(ctx context.Context, tick bool) error {
	p, began := d.peers, d.clock()
	p.self.Clock = grant.At(began)
	if p.self.Since == 0 {
		p.self.Since, p.began = p.self.Clock, began
	}
	nodes, err := d.store.Heartbeat(ctx, p.self)
	if err != nil || !tick {
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

// A bearing is what is known of another node's clock: it is ahead of this one's
// by least to most.
type bearing struct {
	node        store.Node
	least, most time.Duration
	silent      int // comparisons since its last meeting
}

// apart is how far two clocks surely are apart.
func (b bearing) apart(o bearing) time.Duration { return max(b.least-o.most, o.least-b.most) }

// A camp is nodes whose clocks agree. Of two camps the larger one counts, and of
// two as large the one that has been there for longer by its own clock, so that a
// node which joins with a wrong clock does not stop those that run.
type camp struct {
	size int
	age  time.Duration
}

func (c camp) outvotes(o camp) bool { return c.size > o.size || c.size == o.size && c.age > o.age }

// compare finds the clock that surely differs most from this node's, and by more
// than skew, and whether this node is outvoted by nodes that agree with one
// another. Nodes that have been silent for some comparisons have ended.
func (p *peers) compare(nodes []store.Node, began, now time.Time, skew time.Duration) (worst deviation, outvoted bool) {
	us := camp{1, p.self.Clock.Since(p.self.Since)}
	var against []bearing
	last := make(map[store.NodeID]bearing, len(nodes))
	for _, n := range nodes {
		b, known := p.last[n.ID]
		switch {
		case !known: // nobody knows how old its time is
			b = bearing{node: n, silent: suspicion}
		case b.node.Clock == n.Clock:
			b.silent++
		default:
			// It has met since the last comparison: its time is no older than that.
			least := n.Clock.Since(grant.At(now))
			b = bearing{node: n, least: least, most: least + now.Sub(p.began)}
		}
		last[n.ID] = b
		switch {
		case b.silent >= suspicion:
		case b.apart(bearing{}) <= skew:
			us.size++
			us.age = max(us.age, n.Clock.Since(n.Since))
		default:
			against = append(against, b)
			if b.least.Abs() > worst.by.Abs() {
				worst = deviation{n.Name, b.least}
			}
		}
	}
	for _, b := range against {
		var them camp
		for _, o := range against {
			if b.apart(o) <= skew {
				them.size++
				them.age = max(them.age, o.node.Clock.Since(o.node.Since))
			}
		}
		outvoted = outvoted || them.outvotes(us)
	}
	p.began, p.last = began, last
	return worst, outvoted
}
