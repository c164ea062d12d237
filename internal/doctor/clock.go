package doctor

import (
	"context"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// clockPause separates two reads of the nodes' clocks; a node sends a heartbeat every
// second.
const clockPause = 2500 * time.Millisecond

// checkClock compares this machine's clock with those of the nodes and of the
// public address, and reads the kernel's state of synchronisation.
func checkClock(ctx context.Context, p *Deployment) (f findings) {
	ask := p.kernelClock
	if ask == nil {
		ask = kernelClock
	}
	switch synchronised, known := ask(); {
	case !known:
		f.note("this system does not tell whether its clock is synchronised")
	case !synchronised:
		f.warn("run an NTP client, such as chrony or systemd-timesyncd", "the kernel says that this machine's clock is not synchronised")
	}
	if p.Database != nil {
		n, err := f.compareNodes(ctx, p.Database.Nodes, max(p.Config.Skew(), time.Second))
		if err != nil {
			f.unknown("see database", "the nodes' clocks cannot be read: %v", err)
		}
		f.note("compared with %s", show.Count(n, "node that runs", "nodes that run"))
	}
	if p.seen != nil && !p.seen.date.IsZero() {
		// The header's resolution is a second.
		if off := p.seen.date.Sub(p.seen.at); off.Abs() > 2*time.Second+p.seen.took+p.Config.Skew() {
			f.warn("set both clocks by NTP", "the clock behind the public address differs from this one by %s", off.Round(time.Second))
		}
	}
	f.unless("synchronised, as far as this machine knows (NTP servers are not asked)")
	return f
}

// compareNodes compares this machine's clock with those of the running nodes.
func (f *findings) compareNodes(ctx context.Context, nodes func(context.Context) ([]store.Node, error), most time.Duration) (compared int, err error) {
	before, err := nodes(ctx)
	if err != nil || len(before) == 0 {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(clockPause):
	}
	after, err := nodes(ctx)
	return f.compareClocks(before, after, grant.At(time.Now()), most), err
}

// compareClocks compares a clock with those of the nodes that run.
func (f *findings) compareClocks(before, after []store.Node, now grant.Instant, most time.Duration) int {
	list := store.Running(before, after)
	for _, n := range list {
		// Its time is up to the pause old.
		if off := max(n.Clock.Since(now), now.Since(n.Clock)-clockPause); off > most {
			f.fault("set both clocks by NTP", "the clock of node %s differs from this machine's by %s", n.Name, show.Roughly(off))
		}
	}
	return len(list)
}
