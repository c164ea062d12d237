package directory

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// suspicion is how many comparisons in a row must find a clock wrong: a single one
// may be due to a slow write.
const suspicion = 3

// ended is the age of a heartbeat after which its node no longer serves. A node that cannot
// write heartbeats stops serving after StaleAfter; the rest allows for max_skew.
const ended = 3 * StaleAfter

// OlderNodes reports whether a node runs that cannot read these forms of codes, tokens and
// rows (store.Forms). Until that node has ended, no node may write the forms.
func (d *Directory) OlderNodes(forms int64) bool { return store.Forms-d.missing.Load() < forms }

// peers holds what a node knows about the other nodes' clocks.
type peers struct {
	self     store.Node
	joined   time.Time                // first heartbeat, by the monotonic clock
	began    time.Time                // of the last comparison
	last     map[store.NodeID]bearing // the other nodes at that comparison
	outvoted int                      // comparisons in a row that found this node outvoted
	others   int                      // comparisons in a row that found only others' clocks off
}

// Join makes this process a node with a name for people: from now on, polls send
// heartbeats. The first one is sent before the directory is read, so that other nodes know
// this one before it serves. If there are other nodes, or were, Join also waits for their
// next heartbeats, until its clock agrees with theirs or is known to be off; reading many
// clients takes a part of that time. Then it adds the keys that are due.
func (d *Directory) Join(ctx context.Context, name string) error {
	if err := d.wait(ctx); err != nil {
		return err
	}
	p := &peers{self: store.Node{Name: name, Forms: store.Forms}}
	rand.Read(p.self.ID[:])
	d.peers = p
	d.done()
	for compared := false; ; compared = true {
		began := time.Now()
		if err := d.load(ctx, true); err != nil {
			return err
		}
		if len(p.last) == 0 || compared && (p.outvoted == 0 || d.ClockFault() != nil) {
			break
		}
		if !Pause(ctx, PollInterval+PollInterval/4-time.Since(began)) { // a heartbeat may be late
			return ctx.Err()
		}
	}
	// If the store cannot be written now, Run tries again.
	if err := d.RotateDue(ctx); err != nil {
		d.log.Warn("cannot add the keys that are due; trying again", "error", err)
	}
	return nil
}

// heartbeat writes this node's heartbeat. At a tick, it also compares the clocks of the
// other nodes: between two ticks, every running node has written a heartbeat.
func (d *Directory) heartbeat(ctx context.Context, tick bool) error {
	p, began := d.peers, d.clock()
	if p.joined.IsZero() {
		p.joined, p.began = time.Now(), began
	}
	p.self.Clock = grant.At(began)
	// Since is the start by the present clock: a clock that is put forward makes no node
	// older.
	p.self.Since = p.self.Clock.Add(-time.Since(p.joined))
	nodes, err := d.store.Heartbeat(ctx, p.self)
	if err != nil {
		return err
	}
	missing := int64(0) // forms that not every node reads
	for _, n := range nodes {
		if p.self.Clock.Since(n.Clock).Abs() < ended {
			missing = max(missing, store.Forms-n.Forms)
		}
	}
	d.missing.Store(missing)
	if !tick {
		return nil
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

// A bearing is the estimate of another node's clock: it is ahead of this one by
// least to most.
type bearing struct {
	node        store.Node
	least, most time.Duration
	silent      int // comparisons since its last heartbeat
}

// apart returns the least possible difference between two clocks.
func (b bearing) apart(o bearing) time.Duration { return max(b.least-o.most, o.least-b.most) }

// A camp is a group of nodes whose clocks agree. The larger of two groups wins; of
// equal ones, the one that has run for longer by its own clock, so that a new node
// with a wrong clock does not stop the others.
type camp struct {
	size int
	age  time.Duration
}

func (c camp) outvotes(o camp) bool { return c.size > o.size || c.size == o.size && c.age > o.age }

// compare returns the clock that surely differs most from this node's, by more than
// skew, and whether a group of nodes that agree outvotes this one. Nodes without a
// heartbeat for some comparisons count as ended.
func (p *peers) compare(nodes []store.Node, began, now time.Time, skew time.Duration) (worst deviation, outvoted bool) {
	us := camp{1, p.self.Clock.Since(p.self.Since)}
	var against []bearing
	last := make(map[store.NodeID]bearing, len(nodes))
	for _, n := range nodes {
		b, known := p.last[n.ID]
		switch {
		case !known: // the age of its heartbeat is unknown
			b = bearing{node: n, silent: suspicion}
		case b.node.Clock == n.Clock:
			b.silent++
		default:
			// Its heartbeat is newer than the last comparison.
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

const (
	// SettleTime limits the wait until servers have written the uses of secrets. A node that
	// cannot reach the store for so long serves no request.
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

// AwaitHeartbeats waits until every running node has sent two heartbeats. Before each
// heartbeat, a node writes the last uses of secrets to the store. One heartbeat is not
// enough: it may have been under way when the wait began.
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

// Behind returns by how much the clock of this process is behind the median clock of the
// running nodes; zero if no node is ahead by more than skew. A command dates cutoffs by its
// clock, and nodes compare them with theirs: a cutoff in the past would spare what was
// authorized since.
func Behind(ctx context.Context, list func(context.Context) ([]store.Node, error), skew time.Duration) time.Duration {
	ahead := func(n store.Node) time.Duration { return n.Clock.Since(grant.At(time.Now())) }
	before, err := list(ctx)
	if err != nil || !slices.ContainsFunc(before, func(n store.Node) bool { return ahead(n) > skew }) || !Pause(ctx, 2*PollInterval) {
		return 0 // the next read of the store reports the error
	}
	after, err := list(ctx)
	running := store.Running(before, after)
	if err != nil || len(running) == 0 {
		return 0
	}
	slices.SortFunc(running, func(a, b store.Node) int { return cmp.Compare(a.Clock, b.Clock) })
	return max(0, ahead(running[(len(running)-1)/2]))
}

// Pause waits for d. It returns false at once if ctx ends.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
