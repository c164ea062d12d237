package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/mintage/mintage/bench"
)

// The measurements on PostgreSQL, in addition to those of pgbench.
const (
	onSQLite     = "sqlite"
	halfOnSQLite = "sqlite-half"
	oneNode      = "postgres"
	twoNodes     = "postgres-2"
	threeNodes   = "postgres-3"
	threeFull    = "postgres-3-full" // with as many connections per node as a single node has
	halfOnOne    = "postgres-half"
	oneBefore    = "postgres-before" // a node of the previous program, with -before
)

// A contest is the state of one execution on PostgreSQL.
type contest struct {
	options
	dir, program string
	report       clusterReport

	database *cluster
	embedded *host
	data     *dataset // of the nodes
	nodes    []*child
	old      *child   // a node of the previous program, or nil
	tokens   []string // the nodes' current tokens
}

// measurePostgres compares nodes on a PostgreSQL of the suite with pgbench and with the
// embedded store, all on this machine.
func measurePostgres(ctx context.Context, opt options) (err error) {
	dir, err := os.MkdirTemp("", "mintage-bench-")
	if err != nil {
		return err
	}
	c := &contest{options: opt, dir: dir, report: clusterReport{report: newReport(opt)}}
	defer func() {
		if c.embedded != nil {
			c.embedded.kill()
		}
		for _, n := range c.nodes {
			n.kill()
		}
		if c.old != nil {
			c.old.kill()
		}
		if c.database != nil {
			err = errors.Join(err, c.database.stop())
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if c.report.disk, err = probeDisk(dir); err != nil {
		return err
	}
	if c.program, err = c.build(ctx, dir); err != nil {
		return err
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	note("warming up")
	for _, name := range []string{onSQLite, threeNodes} {
		if _, err := c.run(ctx, name, min(time.Second, c.duration), 0); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for round := range c.rounds {
		if err := c.round(ctx, round); err != nil {
			return err
		}
	}
	if err := c.costs(ctx); err != nil {
		return err
	}
	c.report.print(os.Stdout)
	return nil
}

// round makes each run once. The half load is half of the throughput in the same round.
func (c *contest) round(ctx context.Context, round int) error {
	add := func(name string, m measured, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		note("round %d/%d  %-14s %8s/s  p50 %s  p99 %s", round+1, c.rounds, name, thousands(m.Throughput()),
			milliseconds(m.Latency.Quantile(.5)), milliseconds(m.Latency.Quantile(.99)))
		c.report.add(name, m)
		return nil
	}
	for _, clients := range c.clients() {
		if err := c.settle(ctx); err != nil {
			return err
		}
		m, err := c.database.pgbench(ctx, clients, c.grants, c.duration)
		if err := add(pgbenchName(clients), m, err); err != nil {
			return err
		}
	}
	full := []string{onSQLite, oneNode, twoNodes, threeNodes, threeFull}
	if c.old != nil { // the order alternates between rounds
		full = slices.Insert(full, 1+round%2, oneBefore)
	}
	for _, name := range full {
		m, err := c.run(ctx, name, c.duration, 0)
		if err := add(name, m, err); err != nil {
			return err
		}
	}
	for _, h := range []struct{ name, peak string }{{halfOnSQLite, onSQLite}, {halfOnOne, oneNode}} {
		m, err := c.run(ctx, h.name, c.duration, c.report.runs[h.peak][round].Throughput()/2)
		if err := add(h.name, m, err); err != nil {
			return err
		}
	}
	return nil
}

func (c *contest) clients() []int {
	if c.quick {
		return []int{2, 8}
	}
	return []int{1, 2, 4, 8, 16, 32, 64}
}

// prepare makes the stores and starts all servers.
func (c *contest) prepare(ctx context.Context) (err error) {
	note("starting PostgreSQL")
	if c.database, err = newCluster(ctx); err != nil {
		return err
	}
	note("making two stores with %s grants", thousands(float64(c.grants)))
	data, err := makeDataset(ctx, filepath.Join(c.dir, "embedded"), embedded, c.grants)
	if err != nil {
		return err
	}
	server, err := serve(ctx, c.program, data)
	if err != nil {
		return err
	}
	c.embedded = &host{child: server, data: data, chains: bench.Split(data.tokens, c.connections)}
	c.data, err = makeDataset(ctx, filepath.Join(c.dir, "node"), c.database.open, c.grants)
	if err != nil {
		return err
	}
	c.tokens = c.data.tokens
	if err := c.database.fill(ctx, c.data.clientID, c.grants); err != nil {
		return err
	}
	first, err := serve(ctx, c.program, c.data, "--store", c.database.url())
	if err != nil {
		return err
	}
	c.nodes = []*child{first}
	for range 2 {
		n, err := c.join(ctx, fmt.Sprintf("node-%d", len(c.nodes)), c.program)
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	if c.before != "" {
		c.old, err = c.join(ctx, "node-before", c.before)
	}
	return err
}

// join starts another node.
func (c *contest) join(ctx context.Context, name, program string) (*child, error) {
	return peer(ctx, program, filepath.Join(c.dir, name), c.data, c.nodes[0].target, "--store", c.database.url())
}

// settle flushes what the previous run has left to be written.
func (c *contest) settle(ctx context.Context) error {
	syscall.Sync()
	_, err := c.database.admin.Exec(ctx, `CHECKPOINT`)
	return err
}

// run makes one run on the embedded store or on some nodes, at a given rate or at full
// speed.
func (c *contest) run(ctx context.Context, name string, d time.Duration, rate float64) (measured, error) {
	if err := c.settle(ctx); err != nil {
		return measured{}, err
	}
	nodes, connections := c.nodes[:1], c.connections
	switch name {
	case onSQLite, halfOnSQLite:
		return c.embedded.load(ctx, bench.Load{
			Target: c.embedded.target, Operation: bench.Refresh, Connections: c.connections, Duration: d, Rate: rate,
			Chains: c.embedded.chains, PID: c.embedded.pid(),
		})
	case oneBefore:
		nodes = []*child{c.old}
	case twoNodes:
		nodes = c.nodes[:2]
	case threeNodes:
		nodes = c.nodes[:3]
	case threeFull:
		nodes, connections = c.nodes[:3], 3*connections
	}
	before, err := c.database.processors(ctx)
	if err != nil {
		return measured{}, err
	}
	m, err := c.refresh(ctx, nodes, connections, d, rate)
	if err != nil {
		return m, err
	}
	after, err := c.database.processors(ctx)
	for pid, used := range after {
		m.database += used - before[pid]
	}
	return m, err
}

// refresh distributes connections to nodes, and tokens to connections.
func (c *contest) refresh(ctx context.Context, nodes []*child, connections int, d time.Duration, rate float64) (measured, error) {
	chains := bench.Split(c.tokens, connections)
	defer func() {
		c.tokens = nil
		for _, chain := range chains {
			c.tokens = append(c.tokens, chain.Tokens()...)
		}
	}()
	results := make([]measured, len(nodes))
	errs := make([]error, len(nodes))
	var done sync.WaitGroup
	for i, n := range nodes {
		done.Go(func() {
			var mine []*bench.Chains
			for k := i; k < len(chains); k += len(nodes) {
				mine = append(mine, chains[k])
			}
			h := host{child: n}
			results[i], errs[i] = h.load(ctx, bench.Load{
				Target: n.target, Operation: bench.Refresh, Connections: len(mine), Duration: d, Rate: rate / float64(len(nodes)),
				Chains: mine, PID: n.pid(),
			})
		})
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		return measured{}, err
	}
	all := &bench.Result{Server: &bench.Usage{}}
	for _, r := range results {
		all.Requests += r.Requests
		all.Elapsed = max(all.Elapsed, r.Elapsed)
		all.Latency.Merge(&r.Latency)
		all.Server.CPU += r.Server.CPU
	}
	return measured{Result: all}, nil
}

// costs measures what a refresh costs the database, for different numbers of callers. A
// database session reports its statistics when it ends, so each measurement uses a new
// node.
func (c *contest) costs(ctx context.Context) error {
	var err error
	if c.report.connections, err = c.database.sessions(ctx); err != nil {
		return err
	}
	first, running := c.nodes[0].target, c.nodes
	if c.old != nil {
		running = append(running, c.old)
	}
	for _, n := range running {
		if err := n.stop(); err != nil {
			return err
		}
	}
	for i, callers := range []int{c.options.connections, c.options.connections, min(8, c.options.connections), 1} {
		c.nodes = c.nodes[:0]
		dir := filepath.Join(c.dir, fmt.Sprintf("alone-%d", i))
		n, err := peer(ctx, c.program, dir, c.data, first, "--store", c.database.url())
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
		if i == 0 {
			// Checkpoint only now: after a checkpoint, the first change of each page logs
			// the whole page.
			if err := c.settle(ctx); err != nil {
				return err
			}
		}
		before, err := c.database.work(ctx)
		if err != nil {
			return err
		}
		m, err := c.refresh(ctx, c.nodes, callers, c.duration, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(n.stop(), c.database.quiet(ctx)); err != nil {
			return err
		}
		after, err := c.database.work(ctx)
		if err != nil {
			return err
		}
		c.report.costs = append(c.report.costs, cost{callers, i == 0, m, after.since(before)})
		note("%d callers: %s/s", callers, thousands(m.Throughput()))
	}
	c.report.rows, err = c.database.rows(ctx)
	return err
}
