package node

import (
	"context"
	"slices"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/traffic"
)

// record counts what is answered, until ctx ends, and writes it once in a step.
func (n *node) record(ctx context.Context) {
	every := time.NewTicker(time.Minute)
	defer every.Stop()
	written := time.Now()
	for {
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
			defer cancel()
			n.writeTraffic(ctx)
			return
		case now := <-every.C:
			if n.traffic.Tick(); now.Sub(written) >= traffic.Step {
				n.writeTraffic(ctx)
				written = now
			}
		}
	}
}

func (n *node) writeTraffic(ctx context.Context) {
	if err := n.traffic.Write(ctx); err != nil && !n.outage.Combines(err, time.Now()) {
		n.log.Warn("cannot write the counts of requests", "error", err)
	}
}

// trafficOf returns what all nodes have answered, as the admin API has it.
func (n *node) trafficOf(ctx context.Context, of, step time.Duration) (adminapi.Traffic, error) {
	s, err := n.traffic.Sum(ctx, of, step)
	t := adminapi.Traffic{From: s.From, Step: int(s.Step / time.Second), Series: []adminapi.Series{}}
	for _, name := range s.Names {
		v := adminapi.Series{Name: name, Error: slices.Contains(traffic.Errors, name), Counts: s.Of[name]}
		for _, c := range v.Counts {
			v.Total += c
		}
		t.Series = append(t.Series, v)
	}
	return t, err
}
