//go:build e2e

// Package failover takes the database away from loaded nodes, in each way in
// which that happens, and checks that they go on by themselves with the server
// that takes its place, that they keep their word, and that nobody believes a
// server which has been replaced.
package failover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/e2e/history"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

const (
	clients = 24
	// patience is how long anything may take on a busy machine.
	patience = 60 * time.Second
)

// A site is a place where a database server is: one of the hosts of the nodes'
// URL. What comes to its address goes through a line that can be cut.
type site struct {
	line   *pgtest.Proxy
	server *pgtest.Server
}

// A world is three nodes, the servers of their database, and clients at work.
type world struct {
	*testing.T
	sites   [2]*site
	primary int // which of the sites
	// wire is the line over which the standby follows the primary.
	wire *pgtest.Proxy

	nodes    []*binary.Server
	client   *http.Client
	load     *history.Load
	working  sync.WaitGroup
	stop     context.CancelFunc
	verified int
}

// begin starts everything, with some nodes.
func begin(t *testing.T, nodes int, habits ...func(*history.Habit)) *world {
	t.Helper()
	w := &world{T: t}
	// Processes are killed here, and no machines: nothing is lost for want of
	// syncing.
	first := w.server(pgtest.Start("fsync=off"))
	first.Run(t, "postgres", "CREATE DATABASE mintage")
	w.wire = w.proxy(first.Address())
	second := w.server(pgtest.StartStandby(first, w.wire.Address()))
	w.sites = [2]*site{{w.proxy(first.Address()), first}, {w.proxy(second.Address()), second}}
	args := []string{"--retry-window", "4m", "--code-lifetime", "10m", "--store", fmt.Sprintf("postgres://mintage@%s,%s/mintage?sslmode=disable&target_session_attrs=read-write",
		w.sites[0].line.Address(), w.sites[1].line.Address())}
	w.nodes = []*binary.Server{binary.Start(t, t.TempDir(), args...)}
	for len(w.nodes) < nodes {
		w.nodes = append(w.nodes, w.nodes[0].Peer(t))
	}
	w.client = &http.Client{Transport: w.nodes[0].Transport(t, ""), Timeout: 30 * time.Second}
	habit := history.Habit{TwiceCode: 4, TwiceRefresh: 15, Replay: 3, Generations: 12, Pause: 15 * time.Millisecond}
	for _, f := range habits {
		f(&habit)
	}
	w.load = history.NewLoad(t, habit, w.nodes...)
	w.load.Patience = patience

	// Inside t.Context, so that a failed test does not leave them at work.
	ctx, stop := context.WithCancel(t.Context())
	w.stop = stop
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range clients {
		w.working.Go(func() {
			w.load.Work(ctx, &http.Client{Transport: w.nodes[0].Transport(t, "")}, rand.New(rand.NewPCG(seed, uint64(i))))
		})
	}
	t.Cleanup(func() {
		stop()
		w.working.Wait()
		for i, n := range w.nodes {
			if n.Kill(); t.Failed() {
				t.Logf("node %d, the end of its log:\n%s", i, end(n.Log()))
			}
		}
	})
	return w
}

func end(log string) string { return log[max(0, len(log)-3000):] }

// server takes care that a server ends with the test, whatever state it is in.
func (w *world) server(s *pgtest.Server, err error) *pgtest.Server {
	w.Helper()
	w.must(err)
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("%s, the end of its log:\n%s", s.Address(), end(s.Log()))
		}
		w.must(s.Kill())
		w.must(s.Stop())
	})
	return s
}

func (w *world) proxy(target string) *pgtest.Proxy {
	w.Helper()
	p, err := pgtest.StartProxy(target)
	w.must(err)
	w.Cleanup(func() { p.Close() })
	return p
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) old() *site { return w.sites[w.primary] }
func (w *world) new() *site { return w.sites[1-w.primary] }

// unserved checks what nodes have answered since the database went: nothing
// good to anybody.
func (w *world) unserved() {
	w.Helper()
	for i, a := range w.load.Since() {
		if a.Issued > 0 {
			w.Errorf("node %d answered %d requests 200 without a database", i, a.Issued)
		}
	}
}

// every waits until the nodes' answers since mark are all as they are expected.
func (w *world) every(what string, as func(history.Answers) bool) []history.Answers {
	w.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		all := w.load.Since()
		if !slices.ContainsFunc(all, func(a history.Answers) bool { return !as(a) }) {
			return all
		}
		if time.Now().After(end) {
			w.Fatalf("%s: %+v", what, all)
		}
	}
}

// down waits until each node has answered a request 503 that came after mark.
// How soon depends on how busy the machine is: that is not judged.
func (w *world) down() {
	w.Helper()
	w.every("not every node says that it has no database", func(a history.Answers) bool { return a.Unavailable > 0 })
}

// recovered waits until each node has answered a request 200 that came after
// mark, and reports how long that took. The seconds are judged in the long form,
// whose tests run one by one: beside other tests, they tell how busy the machine is.
func (w *world) recovered(what string, within time.Duration) {
	w.Helper()
	var took []time.Duration
	for _, a := range w.every(what+": not every node serves again", func(a history.Answers) bool { return a.Issued > 0 }) {
		took = append(took, a.First.Round(time.Millisecond))
	}
	slices.Sort(took)
	w.Logf("%s: until the first 200 on each node: median %v, longest %v", what, took[len(took)/2], took[len(took)-1])
	if longest := took[len(took)-1]; longest > within && binary.Soak() {
		w.Errorf("%s: a node needed %v, and should need %v at most", what, longest, within)
	}
}

// remembered checks, beside the load, that the chains which ended last go on.
func (w *world) remembered() {
	finished := w.load.Finished()
	recent := finished[max(w.verified, len(finished)-60):]
	w.verified = len(finished)
	w.load.Verify(w.client, recent)
}

// finish ends the load and checks everything that its clients saw.
func (w *world) finish() {
	w.Helper()
	w.stop()
	w.working.Wait()
	w.load.Verify(w.client, w.load.Finished())
	w.load.Replay(w.client, w.load.Finished())
	w.load.Judge()
	if w.load.LostCodes.Load()+w.load.LostRefreshes.Load() > 0 {
		w.Error("a node gave no answer at all")
	}
	for i, n := range w.nodes {
		w.must(n.Stop())
		for _, word := range []string{"panic", "DATA RACE", `"status":500`} {
			if strings.Contains(n.Log(), word) {
				w.Errorf("the log of node %d has %s", i, word)
			}
		}
	}
}

// standBy has a new standby of the present primary take the place of the server
// that was lost.
func (w *world) standBy() {
	w.Helper()
	lost := w.old()
	w.must(lost.server.Kill())
	w.primary = 1 - w.primary
	// Whoever is held at the old address must not come out at another server.
	lost.line.Sever()
	w.wire.Target(w.old().server.Address())
	lost.server = w.server(pgtest.StartStandby(w.old().server, w.wire.Address()))
	lost.line.Target(lost.server.Address())
}
