package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/bench"
)

// This file measures the effect of self-registered clients on an operator's client: two
// of them fill the shared tables, as fast as the server responds.

const (
	// ownClients is the number of self-registered clients.
	ownClients = 2
	// maxShared is the limit of the factor by which they may raise the p99 of the
	// operator's client.
	maxShared = 2.0
	// fillTime limits how long a table takes to fill.
	fillTime = 90 * time.Second
	// signedRequests limits the requests of a run of an operator's client that signs.
	signedRequests = 3000
)

// A siege is a load by the self-registered clients.
type siege struct {
	name string
	// signing reports that the operator's client uses private_key_jwt.
	signing bool
	// prepare sets up the load, once.
	prepare func(ctx context.Context, w *world) (undo func(), err error)
	// storm is the load of one of the two clients in a round, until ctx ends.
	storm func(ctx context.Context, w *world, k, round int) (bench.Answers, error)
	// fills are the tables that the load fills.
	fills []table
}

// A table is a row of the threat model, with the condition by which it counts as full.
type table struct {
	name  string
	seen  string // the metric or count to observe
	count func(s seen) float64
	full  float64 // the least value when the table is full
	smoke float64 // the least value in a smoke test, which is shorter
}

// seen are the effects of a siege so far.
type seen struct {
	world  *world
	before map[string]float64
	after  map[string]float64
}

// of returns the growth of some metric series during the siege.
func (s seen) of(series ...string) (n float64) {
	for _, name := range series {
		n += s.after[name] - s.before[name]
	}
	return n
}

// answered returns the number of responses with a status.
func (s seen) answered(status string) (n float64) {
	for name, now := range s.after {
		if strings.HasPrefix(name, "http_server_request_duration_seconds_count{") && strings.Contains(name, `http_response_status_code="`+status+`"`) {
			n += now - s.before[name]
		}
	}
	return n
}

func siegeNames() (list []string) {
	for _, s := range sieges {
		list = append(list, s.name)
	}
	return list
}

// few returns the number of connections of a client that needs no crowd.
func (w *world) few() int { return max(1, w.connections/4) }

// A world is the server with both kinds of clients.
type world struct {
	options
	*child
	data       *dataset            // of the operator's client
	signers    map[string]*dataset // of those that sign, one per siege, because the server remembers 50,000 assertions of each
	own        []*dataset
	publisher  *publisher
	management string
	issuer     string
	dir        string // the data directory
	crowd      int    // connections of a client that exceeds its share of the queue
	// chains are of the self-registered clients, and others of the operators' clients by
	// id.
	chains  [ownClients][]*bench.Chains
	chainOf map[string][]*bench.Chains
	ids     []string                 // clients with metadata documents, for the current siege
	sent    [ownClients]atomic.Int64 // numbers of the requests
}

func newWorld(ctx context.Context, opt options, dir string) (w *world, err error) {
	program, err := opt.build(ctx, dir)
	if err != nil {
		return nil, err
	}
	w = &world{options: opt, dir: filepath.Join(dir, "shared"), chainOf: map[string][]*bench.Chains{}, signers: map[string]*dataset{}}
	if w.data, err = makeDataset(ctx, w.dir, embedded, smallGrants); err != nil {
		return nil, err
	}
	// More connections than one network's share of the queue, which by default is a third
	// of an eighth of 4,096.
	w.crowd = 200
	waiting, grants := "0", toRevoke/ownClients+smallGrants
	if opt.quick {
		w.crowd, waiting, grants = 64, "128", 200
	}
	if w.own, err = w.data.registerOwn(ctx, grants); err != nil {
		return nil, err
	}
	for k, own := range w.own {
		// The first tokens are refreshed, the last ones repeated, and all revoked in the
		// end.
		w.chains[k] = bench.Split(own.tokens[:w.crowd], w.crowd)
	}
	if w.child, err = serve(ctx, program, w.data, "--client-metadata-registration", "--client-metadata-documents", "any",
		"--management-metrics-clients", "1", "--limits-waiting", waiting, "--trusted-proxies", "127.0.0.1/32"); err != nil {
		return nil, err
	}
	var dev struct{ Issuer, Management string }
	text, err := os.ReadFile(filepath.Join(w.dir, "dev.json"))
	if err == nil {
		err = json.Unmarshal(text, &dev)
	}
	if err == nil {
		w.issuer, w.management = dev.Issuer, strings.TrimSuffix(dev.Management, "/")
		w.publisher, err = publish(w.dir)
	}
	for _, s := range sieges {
		if err == nil && s.signing {
			w.signers[s.name], err = w.data.registerSigner(ctx, w.publisher, smallGrants)
		}
	}
	if err != nil {
		w.kill()
		return nil, err
	}
	time.Sleep(2 * time.Second) // the server polls its clients each second
	return w, nil
}

// path returns an endpoint beside the token endpoint.
func (w *world) path(name string) string {
	u, err := url.Parse(w.target.Endpoint)
	if err != nil {
		panic(err)
	}
	return strings.Replace(u.Path, "/access_token", "/"+name, 1) + "?" + u.RawQuery
}

// from returns one of the 65,536 addresses of a client's network.
func (w *world) from(k int, n int64) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(k + 1), byte(n >> 8), byte(n)})
}

// metrics reads the server's metrics.
func (w *world) metrics(ctx context.Context) (map[string]float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.management+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	all := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if i := strings.LastIndexByte(lines.Text(), ' '); i > 0 && lines.Text()[0] != '#' {
			if n, err := strconv.ParseFloat(lines.Text()[i+1:], 64); err == nil {
				all[lines.Text()[:i]] = n
			}
		}
	}
	return all, lines.Err()
}

// A besieged is the result of one siege.
type besieged struct {
	siege
	alone, beside bench.Histogram
	answers       bench.Answers
	lasted        time.Duration
	counts        []float64
}

// measureShared measures the operator's client alone and during each siege, in turn, and
// prints a table. It returns an error for a wrong response or a table that is not full,
// but not for a figure.
func measureShared(ctx context.Context, opt options) (err error) {
	dir, err := os.MkdirTemp("", "mintage-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w, err := newWorld(ctx, opt, dir)
	if err != nil {
		return err
	}
	defer w.kill()
	defer w.publisher.close()
	var results []*besieged
	for _, s := range sieges {
		if len(opt.only) > 0 && !slices.Contains(opt.only, s.name) {
			continue
		}
		b, err := w.besiege(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		results = append(results, b)
	}
	printShared(os.Stdout, opt, results)
	return w.stop()
}

// operators returns the measured load.
func (w *world) operators(s siege) bench.Load {
	connections := w.few() // more connections would measure the load generator
	l := bench.Load{Target: w.target, Operation: bench.Refresh, Connections: connections, Duration: w.duration}
	d := w.data
	if s.signing {
		d, l.Requests = w.signers[s.name], signedRequests
		l.Target.ClientID, l.Target.ClientSecret = d.clientID, ""
		l.Target.Assertion = func() string { return sign(w.publisher.signer, d.clientID, w.issuer) }
	}
	if w.chainOf[d.clientID] == nil {
		w.chainOf[d.clientID] = bench.Split(d.tokens, connections)
	}
	l.Chains = w.chainOf[d.clientID]
	return l
}

// besiege measures one siege: each round without it, and then with it, once it has filled
// its tables.
func (w *world) besiege(ctx context.Context, s siege) (b *besieged, err error) {
	if s.prepare != nil {
		undo, err := s.prepare(ctx, w)
		if err != nil {
			return nil, err
		}
		defer undo()
	}
	load := w.operators(s)
	measure := func(into *bench.Histogram) error {
		r, err := load.Run(ctx)
		if err == nil {
			err = failures(r)
		}
		if err == nil && into != nil {
			into.Merge(&r.Latency)
		}
		return err
	}
	b = &besieged{siege: s, answers: bench.Answers{}, counts: make([]float64, len(s.fills))}
	if !w.quick {
		if err := measure(nil); err != nil { // a warm-up
			return nil, err
		}
	}
	so := seen{world: w}
	if so.before, err = w.metrics(ctx); err != nil {
		return nil, err
	}
	for round := range w.rounds {
		if err := measure(&b.alone); err != nil {
			return nil, err
		}
		end := w.begin(ctx, b, round)
		err := w.await(ctx, b, &so)
		if err == nil {
			err = measure(&b.beside)
		}
		if err := errors.Join(err, end()); err != nil {
			return nil, err
		}
		note("round %d/%d  %-12s p99 %s alone, %s beside", round+1, w.rounds, s.name, milliseconds(b.alone.Quantile(.99)), milliseconds(b.beside.Quantile(.99)))
	}
	return b, nil
}

// begin starts the load of each client. end stops it.
func (w *world) begin(ctx context.Context, b *besieged, round int) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	began := time.Now()
	answers, failed := make([]bench.Answers, ownClients), make([]error, ownClients)
	var wg sync.WaitGroup
	for k := range ownClients {
		wg.Go(func() { answers[k], failed[k] = b.storm(ctx, w, k, round) })
	}
	return func() error {
		cancel()
		wg.Wait()
		b.lasted += time.Since(began)
		for _, a := range answers {
			for status, n := range a {
				b.answers[status] += n
			}
		}
		return errors.Join(failed...)
	}
}

// await waits until the siege has filled its tables.
func (w *world) await(ctx context.Context, b *besieged, so *seen) (err error) {
	for deadline := time.Now().Add(fillTime); ; {
		if so.after, err = w.metrics(ctx); err != nil {
			return err
		}
		short := ""
		for i, t := range b.fills {
			least := t.full
			if w.quick {
				least = t.smoke
			}
			if b.counts[i] = t.count(*so); b.counts[i] < least {
				short = fmt.Sprintf("%s: %.0f %s, and %.0f are needed", t.name, b.counts[i], t.seen, least)
			}
		}
		if short == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("the load does not fill what it is for: " + short)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.done:
			return w.failure("ended")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func printShared(out io.Writer, opt options, results []*besieged) {
	if opt.quick {
		fmt.Fprintln(out, "\nA smoke test: too short for its figures to mean anything, and for tables to fill.")
	}
	fmt.Fprintf(out, "\n%s. An operator's client on %d connections, alone and beside %d clients that registered themselves.\n\n", machine(), max(1, opt.connections/4), ownClients)
	fmt.Fprintln(out, "| table | filled: counted so far | p99 alone | p99 beside | ratio | bar | | their answers/s |")
	fmt.Fprintln(out, "| --- | --- | ---: | ---: | ---: | ---: | --- | ---: |")
	for _, b := range results {
		var answered int64
		for status, n := range b.answers {
			if status != 0 {
				answered += n
			}
		}
		ratio := float64(b.beside.Quantile(.99)) / float64(b.alone.Quantile(.99))
		verdict := "met"
		if ratio > maxShared {
			verdict = "missed"
		}
		for i, t := range b.fills {
			fmt.Fprintf(out, "| %s | %s %s | %s | %s | %.2f | %.0f | %s | %s |\n", t.name, thousands(b.counts[i]), t.seen,
				milliseconds(b.alone.Quantile(.99)), milliseconds(b.beside.Quantile(.99)), ratio, maxShared, verdict, thousands(float64(answered)/b.lasted.Seconds()))
		}
	}
	for _, t := range unfilled {
		fmt.Fprintf(out, "| %s | %s | | | | | | |\n", t.name, t.why)
	}
}
