package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// This file measures what clients that registered themselves can do to an operator's
// client: two of them fill what all clients share, as fast as they are answered.

const (
	// ownClients is how many of them there are.
	ownClients = 2
	// maxShared is the bar: by how much they may multiply the operator's client's p99.
	maxShared = 2.0
	sharedAPI = "https://api.example"
)

// A siege is what the clients that registered themselves do.
type siege struct {
	title string
	wrong bool // their secrets are wrong
}

var sieges = []siege{
	{title: "refresh: slots, queue, writer of the store, audit log"},
	{title: "wrong secrets: throttles, log", wrong: true},
}

// registerOwn adds clients that registered themselves to the store of a dataset, each
// with n grants for an open API.
func (d *dataset) registerOwn(ctx context.Context, n int) (list []*dataset, err error) {
	st, err := sqlite.Open(ctx, d.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	api := store.API{ID: sharedAPI, Realm: realm, Number: 1, Open: true, Version: 1, Scopes: []store.APIScope{{Name: "orders", Number: 1}}}
	if err := st.Commit(ctx, store.Change{Entries: []store.Entry{api.Entry()}}); err != nil {
		return nil, err
	}
	directory, err := directory.Open(ctx, st, d.kek, keys.Schedule{Registrations: true}, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		return nil, err
	}
	registrations := client.Registrations{Realm: realm, Directory: directory, Now: time.Now}
	for range ownClients {
		answer, err := registrations.Register(fmt.Sprintf(`{"redirect_uris":[%q],"token_endpoint_auth_method":"client_secret_post"}`, callback))
		if err != nil {
			return nil, err
		}
		c, err := registrations.Client(answer.ID, callback)
		if err != nil {
			return nil, err
		}
		if err := st.Commit(ctx, store.Change{Documents: []store.Document{c.Record(grant.At(time.Now().Add(day)))}}); err != nil {
			return nil, err
		}
		own := &dataset{dir: d.dir, clientID: answer.ID, scope: "orders", apis: grant.APIs{1}, secret: answer.Secret, ring: directory.Ring(), kek: d.kek, tokens: make([]string, n)}
		if err := own.makeGrants(ctx, st, grant.Policy{AccessLifetime: 5 * time.Minute, RefreshLifetime: 31 * day}); err != nil {
			return nil, err
		}
		list = append(list, own)
	}
	return list, nil
}

// measureShared measures the operator's client alone and beside the others, in turn,
// and prints a table. Its error is of a wrong answer, not of a figure.
func measureShared(ctx context.Context, opt options) (err error) {
	dir, err := os.MkdirTemp("", "mintage-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	note("building")
	program, err := build(ctx, dir)
	if err != nil {
		return err
	}
	data, err := makeDataset(ctx, filepath.Join(dir, "shared"), embedded, smallGrants)
	if err != nil {
		return err
	}
	others, err := data.registerOwn(ctx, smallGrants)
	if err != nil {
		return err
	}
	c, err := serve(ctx, program, data, "--client-metadata-registration")
	if err != nil {
		return err
	}
	defer c.kill()
	connections := opt.connections / 4 // of each client: more would measure the load's own processor time
	operators := bench.Load{Target: c.target, Operation: bench.Refresh, Connections: connections, Duration: opt.duration, Chains: bench.Split(data.tokens, connections)}
	var chains [][]*bench.Chains
	for _, own := range others {
		chains = append(chains, bench.Split(own.tokens, connections))
	}
	var alone bench.Histogram
	beside, answered := make([]bench.Histogram, len(sieges)), make([]int64, len(sieges))
	for round := range opt.rounds + 1 { // the first warms up
		r, err := operators.Run(ctx)
		if err == nil {
			err = failures(r)
		}
		if err != nil {
			return err
		}
		if round > 0 {
			alone.Merge(&r.Latency)
		}
		for i, s := range sieges {
			var wg sync.WaitGroup
			ended, end := context.WithCancel(ctx)
			results := make([]*bench.Result, len(others))
			for k, own := range others {
				l := bench.Load{Target: c.target, Operation: bench.Refresh, Connections: connections, Duration: time.Hour, Chains: chains[k]}
				l.Target.ClientID, l.Target.ClientSecret = own.clientID, own.secret
				if s.wrong {
					l.Target.ClientSecret = "wrong"
					l.Chains = bench.Split(slices.Repeat([]string{"mintage_rt_x"}, connections), connections)
				}
				wg.Go(func() { results[k], _ = l.Run(ended) })
			}
			r, err := operators.Run(ctx)
			end()
			wg.Wait()
			if err == nil {
				err = failures(r)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.title, err)
			}
			if round > 0 {
				beside[i].Merge(&r.Latency)
				for _, r := range results {
					if r != nil {
						answered[i] += r.Requests + r.Failed()
					}
				}
			}
			note("round %d/%d  %-50s p99 %s alone, %s beside", round, opt.rounds, s.title, milliseconds(alone.Quantile(.99)), milliseconds(r.Latency.Quantile(.99)))
		}
	}
	printShared(os.Stdout, opt, &alone, beside, answered)
	return c.stop()
}

func printShared(w io.Writer, opt options, alone *bench.Histogram, beside []bench.Histogram, answered []int64) {
	if opt.quick {
		fmt.Fprintln(w, "\nA smoke test: too short for its figures to mean anything.")
	}
	fmt.Fprintf(w, "\n%s. An operator's client on %d connections, alone and beside %d clients that registered themselves, each on as many.\n\n", machine(), opt.connections/4, ownClients)
	fmt.Fprintln(w, "| what they fill | p99 alone | p99 beside | ratio | bar | | their requests/s |")
	fmt.Fprintln(w, "| --- | ---: | ---: | ---: | ---: | --- | ---: |")
	for i, s := range sieges {
		ratio := float64(beside[i].Quantile(.99)) / float64(alone.Quantile(.99))
		verdict := "met"
		if ratio > maxShared {
			verdict = "missed"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %.2f | %.0f | %s | %s |\n", s.title, milliseconds(alone.Quantile(.99)), milliseconds(beside[i].Quantile(.99)), ratio, maxShared, verdict,
			thousands(float64(answered[i])/(opt.duration.Seconds()*float64(opt.rounds))))
	}
}
