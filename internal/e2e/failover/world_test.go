//go:build e2e

// Package failover takes the database away from loaded nodes, in each way in which that
// happens. It checks that the nodes continue by themselves with the replacement server,
// that all acknowledged responses stay valid, and that no node uses a replaced server.
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

// A site is one of the hosts in the nodes' database URL. Its server is reached through a
// connection that can be cut.
type site struct {
	line   *pgtest.Proxy
	server *pgtest.Server
}

// A world is the nodes, the servers of their database, and clients that put load on them.
type world struct {
	*testing.T
	sites   [2]*site
	primary int // the index of the site
	// wire is the replication connection from the standby to the primary.
	wire *pgtest.Proxy

	nodes    []*binary.Server
	client   *http.Client
	load     *history.Load
	working  sync.WaitGroup
	stop     context.CancelFunc
	verified int
}

// begin starts a number of nodes, their database servers, and the load.
func begin(t *testing.T, nodes int, habits ...func(*history.Habit)) *world {
	t.Helper()
	w := &world{T: t}
	// The tests kill processes and no machines: nothing is lost without fsync.
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

	// Derived from t.Context, so that the clients also stop when the test fails.
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

// server stops a server at the end of the test, whatever state it is in.
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

// unserved checks that no node has issued tokens since Mark, while the database was away.
func (w *world) unserved() {
	w.Helper()
	for i, a := range w.load.Since() {
		if a.Issued > 0 {
			w.Errorf("node %d answered %d requests 200 without a current primary", i, a.Issued)
		}
	}
}

// every waits until the answers of each node since Mark satisfy as.
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

// down waits until each node has answered 503 to a request since Mark. The time is not
// checked: it depends on the load of the machine.
func (w *world) down() {
	w.Helper()
	w.every("not every node says that it has no database", func(a history.Answers) bool { return a.Unavailable > 0 })
}

// recovered waits until each node has answered 200 to a request since Mark, and logs how
// long that took. Only the long form checks the time, because its tests run one by one.
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

// remembered verifies, under load, the newest tokens of the chains that finished last.
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
		w.Error("a node did not answer a request")
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

// standBy replaces the lost server by a new standby of the current primary.
func (w *world) standBy() {
	w.Helper()
	lost := w.old()
	w.must(lost.server.Kill())
	w.primary = 1 - w.primary
	// Disconnect the clients at the old address, so that none of them reaches the new
	// server.
	lost.line.Sever()
	w.wire.Target(w.old().server.Address())
	lost.server = w.server(pgtest.StartStandby(w.old().server, w.wire.Address()))
	lost.line.Target(lost.server.Address())
}
