package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mintage/mintage/bench"
)

// The other projects, by their names for -only.
const (
	peerHydra    = "hydra"
	peerProvider = "provider"
)

// peerGrants is how many grants each compared server has: few, because Hydra needs
// several requests for each.
const peerGrants = 200

// A contender is a server in the comparison, with its store.
type contender struct {
	name, store string
	base        *contender // Mintage on the same kind of store; nil for itself
	*child
	introspection string // URL; "" to leave it out
	connections   int
	tokens        []string // the current refresh token of each grant
	runs          map[bench.Operation][]measured
}

// A peering is the state of one execution with servers of other projects.
type peering struct {
	options
	dir, program string
	database     *cluster
	contenders   []*contender
}

// measurePeers compares Mintage with Hydra and node-oidc-provider, which scripts/peers
// has installed.
func measurePeers(ctx context.Context, opt options) (err error) {
	dir, err := os.MkdirTemp("", "mintage-bench-")
	if err != nil {
		return err
	}
	p := &peering{options: opt, dir: dir}
	defer func() {
		for _, c := range p.contenders {
			c.kill()
		}
		if p.database != nil {
			err = errors.Join(err, p.database.stop())
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	disk, err := probeDisk(dir)
	if err != nil {
		return err
	}
	if p.program, err = p.build(ctx, dir); err != nil {
		return err
	}
	if err := p.prepare(ctx); err != nil {
		return err
	}
	for round := range p.rounds + 1 { // the first round is a warm-up
		for _, operation := range []bench.Operation{bench.Refresh, bench.Introspect} {
			for _, c := range p.contenders {
				if operation == bench.Introspect && c.introspection == "" {
					continue
				}
				m, err := p.run(ctx, c, operation)
				if err != nil {
					return fmt.Errorf("%s, %s, %s: %w", operation, c.name, c.store, err)
				}
				if round > 0 {
					c.runs[operation] = append(c.runs[operation], m)
				}
				note("round %d/%d  %-10s %8s/s  p99 %s  %s, %s", round, p.rounds, operation, thousands(m.Throughput()), milliseconds(m.Latency.Quantile(.99)), c.name, c.store)
			}
		}
	}
	fmt.Printf("%s; fsync of 4 KiB %s (median). %d grants on each server, %d rounds of runs of %s in turn; median (smallest to largest). "+
		"A ratio is the median of the ratios within each round, to Mintage on the same store; without a store, to Mintage on SQLite.\n\n", machine(), milliseconds(disk), p.grants, p.rounds, p.duration)
	fmt.Println("| request | server | store | connections | requests/s | of Mintage | server CPU µs/request | database CPU µs/request | p50 | p99 | peak memory |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, operation := range []bench.Operation{bench.Refresh, bench.Introspect} {
		for _, c := range p.contenders {
			if len(c.runs[operation]) > 0 {
				fmt.Println(c.row(operation))
			}
		}
	}
	return nil
}

// prepare starts all servers.
func (p *peering) prepare(ctx context.Context) (err error) {
	note("starting PostgreSQL and the servers")
	if p.database, err = newCluster(ctx); err != nil {
		return err
	}
	withSQLite, err := p.mintage(ctx, "SQLite", embedded)
	if err != nil {
		return err
	}
	withPostgres, err := p.mintage(ctx, "PostgreSQL", p.database.open, "--store", p.database.url())
	if err != nil {
		return err
	}
	if p.wants(peerHydra) {
		for _, h := range []struct {
			base       *contender
			iterations int
		}{{withSQLite, 1}, {withPostgres, 1}, {withPostgres, defaultIterations}} {
			if err := p.hydra(ctx, h.base, h.iterations); err != nil {
				return err
			}
		}
	}
	if p.wants(peerProvider) {
		return p.provider(ctx, withSQLite)
	}
	return nil
}

func (p *peering) wants(peer string) bool {
	return len(p.only) == 0 || slices.Contains(p.only, peer)
}

// mintage starts the measured program on a store of its own.
func (p *peering) mintage(ctx context.Context, store string, open opener, args ...string) (*contender, error) {
	data, err := makeDataset(ctx, filepath.Join(p.dir, store), open, p.grants)
	if err != nil {
		return nil, err
	}
	c, err := serve(ctx, p.program, data, args...)
	if err != nil {
		return nil, err
	}
	return p.add(&contender{
		name: "Mintage", store: store, child: c, tokens: data.tokens,
		introspection: strings.Replace(c.target.Endpoint, "/access_token?", "/introspect?", 1),
	}), nil
}

// add adds a started server to the comparison, to be killed at the end.
func (p *peering) add(c *contender) *contender {
	c.connections, c.runs = p.options.connections, map[bench.Operation][]measured{}
	p.contenders = append(p.contenders, c)
	return c
}

// targetAt returns the client of c at another server, whose tokens last an hour.
func (c *contender) targetAt(endpoint string) bench.Target {
	t := c.target
	t.Endpoint, t.MaxExpiresIn = endpoint, int64(time.Hour.Seconds())
	return t
}

// certificate returns the certificate files of c, which the servers that are compared
// with it also use.
func (p *peering) certificate(c *contender) (cert, key string) {
	dir := filepath.Join(p.dir, c.store)
	return filepath.Join(dir, "dev-cert.pem"), filepath.Join(dir, "dev-key.pem")
}

// run makes one run.
func (p *peering) run(ctx context.Context, c *contender, operation bench.Operation) (m measured, err error) {
	l := bench.Load{Target: c.target, Operation: operation, Connections: c.connections, Duration: p.duration, PID: c.pid()}
	if operation == bench.Introspect {
		access, err := c.renew(ctx)
		if err != nil {
			return m, err
		}
		l.Target.Endpoint, l.Chains = c.introspection, bench.Split(access, c.connections)
	} else {
		l.Chains = bench.Split(c.tokens, c.connections)
		defer func() {
			c.tokens = nil
			for _, chain := range l.Chains {
				c.tokens = append(c.tokens, chain.Tokens()...)
			}
		}()
	}
	syscall.Sync()
	before, err := p.database.processors(ctx)
	if err != nil {
		return m, err
	}
	if m, err = (&host{child: c.child}).load(ctx, l); err != nil {
		return m, err
	}
	after, err := p.database.processors(ctx)
	if c.store == "PostgreSQL" {
		for pid, used := range after {
			m.database += used - before[pid]
		}
	}
	return m, err
}

// renew refreshes every grant once and returns the access tokens, because earlier ones
// may have ended with their refresh tokens.
func (c *contender) renew(ctx context.Context) (access []string, err error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: c.target.TLS.Clone()}}
	defer client.CloseIdleConnections()
	for i, token := range c.tokens {
		next, _, err := redeem(ctx, client, c.target, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
		if err != nil {
			return nil, err
		}
		c.tokens[i] = next.Refresh
		access = append(access, next.Access)
	}
	return access, nil
}

// row is a line of the table.
func (c *contender) row(operation bench.Operation) string {
	var latency bench.Histogram
	var rates, ratios, server, database []float64
	var peak int64
	for i, m := range c.runs[operation] {
		latency.Merge(&m.Latency)
		rates = append(rates, m.Throughput())
		server = append(server, m.cpu())
		database = append(database, float64(m.database.Microseconds())/float64(m.Requests))
		peak = max(peak, m.Server.Peak)
		if c.base != nil {
			ratios = append(ratios, m.Throughput()/c.base.runs[operation][i].Throughput())
		}
	}
	ratio, work := "", ""
	if c.base != nil {
		ratio = between(ratios, func(v float64) string { return fmt.Sprintf("%.3f", v) })
	}
	if c.store == "PostgreSQL" {
		work = between(database, oneDigit)
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %s | %s | %s | %s | %s | %s | %s MB |", operation, c.name, c.store, c.connections, between(rates, thousands), ratio,
		between(server, oneDigit), work, milliseconds(latency.Quantile(.5)), milliseconds(latency.Quantile(.99)), megabytes(peak))
}
