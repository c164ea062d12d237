// Command suite is `make bench`: it measures the real server against a bare net/http
// handler on this machine, in one execution, and prints a table. The exit status is 1 if
// any response was wrong, but not if a figure misses its limit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	quick       bool
	rounds      int
	duration    time.Duration
	connections int
	grants      int // of the large store
	only        []string
	postgres    bool
	shared      bool
	shapes      bool
	many        bool
	console     bool
	entries     int // of each kind, with many or console
	whole       bool
	program     string
	before      string // the program to compare with
	profile     string // the file for a profile of the server
	peers       string // the directory of scripts/peers
}

// postgresGrants is how many grants are on PostgreSQL: enough for lookups by index.
const postgresGrants = 10_000

// smallGrants is how many grants the small store contains.
const smallGrants = 1000

// The suite runs itself with these flags as the yardstick.
const (
	bareFlag      = "-bare"
	signingFlag   = "-bare-signing"
	verifyingFlag = "-bare-verifying"
)

func main() {
	if len(os.Args) == 5 && slices.Contains([]string{bareFlag, signingFlag, verifyingFlag}, os.Args[1]) {
		fail(bare(os.Args[2], os.Args[3], os.Args[4], os.Args[1]))
		return
	}
	opt := options{}
	only := ""
	flag.BoolVar(&opt.quick, "quick", false, "a smoke test: one short run of each, few grants")
	flag.IntVar(&opt.rounds, "rounds", 5, "how often each measurement is repeated, in turn with the others")
	flag.DurationVar(&opt.duration, "duration", 3*time.Second, "length of each run")
	flag.IntVar(&opt.connections, "connections", 64, "connections at the same time")
	flag.IntVar(&opt.grants, "grants", 1_000_000, "grants of the large store")
	flag.StringVar(&only, "only", "", "measure only these and what they are compared with, such as refresh,code: "+strings.Join(names, ", ")+"; with -shared: "+strings.Join(siegeNames(), ", ")+"; with -peers: "+peerHydra+", "+peerProvider)
	flag.BoolVar(&opt.postgres, "postgres", false, "measure nodes on a PostgreSQL instead, against pgbench and the embedded store")
	flag.BoolVar(&opt.shared, "shared", false, "measure an operator's client beside clients that registered themselves, which fill what all clients share")
	flag.BoolVar(&opt.shapes, "shapes", false, "measure the refresh with the requests of several HTTP clients and numbers of connections")
	flag.BoolVar(&opt.many, "many", false, "measure a directory of many clients, APIs and users by the admin API, on both engines")
	flag.BoolVar(&opt.console, "console", false, "measure the pages of the console, and the refreshes beside them, on both engines")
	flag.IntVar(&opt.entries, "entries", 100_000, "clients, users and agreements, with -many; with -console 10000")
	flag.BoolVar(&opt.whole, "whole", false, "measure one large embedded store, by default of ten million grants: throughput, memory, backup, start, sizes, restore and sweep")
	flag.StringVar(&opt.program, "program", "", "the server's program; default: build it")
	page := flag.String("plot", "", "measure nothing, and draw the table of this page as SVG on the standard output")
	flag.StringVar(&opt.before, "before", "", "measure this program in turn with the present one, and how many objects each allocates for a request; with -postgres, a node of it")
	flag.StringVar(&opt.profile, "profile", "", "measure nothing, and write a CPU profile of the server under the loads to this file: scripts/profile")
	flag.StringVar(&opt.peers, "peers", "", "measure Hydra and node-oidc-provider beside this server: the directory that scripts/peers has prepared")
	flag.Parse()
	if *page != "" {
		fail(plot(os.Stdout, *page))
		return
	}
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	defaults := map[string]func(){}
	if opt.postgres {
		defaults["grants"] = func() { opt.grants = postgresGrants }
	}
	if opt.peers != "" {
		defaults["grants"] = func() { opt.grants = peerGrants }
	}
	if opt.whole {
		defaults["grants"] = func() { opt.grants = wholeGrants }
	}
	if opt.console {
		defaults["entries"] = func() { opt.entries = 10_000 }
		defaults["duration"] = func() { opt.duration = time.Minute }
	}
	if opt.quick {
		defaults["duration"] = func() { opt.duration = 300 * time.Millisecond }
		defaults["rounds"] = func() { opt.rounds = 1 }
		defaults["grants"] = func() { opt.grants = 20_000 }
	}
	if opt.quick && opt.shared {
		defaults["duration"] = func() { opt.duration = 100 * time.Millisecond }
		defaults["connections"] = func() { opt.connections = 16 }
	}
	if opt.quick && opt.postgres {
		defaults["grants"] = func() { opt.grants = 2000 }
	}
	if opt.quick && opt.peers != "" {
		defaults["grants"] = func() { opt.grants = opt.connections }
	}
	if opt.quick && (opt.many || opt.console) {
		defaults["entries"] = func() { opt.entries = 1000 }
	}
	if opt.quick && opt.console {
		defaults["duration"] = func() { opt.duration = 15 * time.Second }
	}
	for name, set := range defaults {
		if !given[name] {
			set()
		}
	}
	if only != "" {
		opt.only = strings.Split(only, ",")
	}
	known := names
	if opt.shared {
		known = siegeNames()
	}
	if opt.peers != "" {
		known = []string{peerHydra, peerProvider}
	}
	for _, name := range opt.only {
		if !slices.Contains(known, name) {
			fail(fmt.Errorf("-only: %q is none of %s", name, strings.Join(known, ", ")))
		}
	}
	if flag.NArg() > 0 || opt.rounds < 1 || opt.duration < 100*time.Millisecond || opt.connections < 1 || opt.grants < opt.connections ||
		opt.shared && (opt.postgres || opt.connections < 4) || opt.postgres && (len(opt.only) > 0 || opt.connections < 3 || opt.grants < 3*opt.connections) || opt.many && (opt.shared || opt.postgres || opt.entries < 200) || opt.shapes && (opt.many || opt.shared || opt.postgres || len(opt.only) > 0) ||
		opt.console && (opt.many || opt.whole || opt.shared || opt.postgres || opt.shapes || opt.before != "" || opt.peers != "" || opt.entries < 200) ||
		opt.before != "" && (opt.shapes || opt.many || opt.shared) || opt.whole && (len(opt.only) > 0 || opt.before != "" || opt.peers != "" || opt.shapes || opt.many || opt.shared || opt.postgres) ||
		opt.peers != "" && (opt.before != "" || opt.shapes || opt.many || opt.shared || opt.postgres) {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	do := measure
	if opt.shared {
		do = measureShared
	}
	if opt.many {
		do = measureMany
	}
	if opt.whole {
		do = measureWhole
	}
	if opt.console {
		do = measureConsole
	}
	if opt.shapes {
		do = measureShapes
	}
	if opt.before != "" {
		do = measurePairs
	}
	if opt.postgres {
		do = measurePostgres
	}
	if opt.peers != "" {
		do = measurePeers
	}
	if opt.profile != "" {
		do = recordProfile
	}
	err := do(ctx, opt)
	stop()
	fail(err)
}

func fail(err error) {
	if err == nil {
		return
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted; everything was cleaned up")
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// build builds the program as for a release, but without its version, unless a program is
// given.
func (o options) build(ctx context.Context, dir string) (string, error) {
	if o.program != "" {
		return filepath.Abs(o.program)
	}
	note("building")
	path := filepath.Join(dir, "mintage")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/mintage/mintage/cmd/mintage").CombinedOutput()
	if err != nil {
		return "", errors.Join(ctx.Err(), fmt.Errorf("go build: %w\n%s", err, out))
	}
	return path, nil
}

// note shows progress.
func note(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// every calls f at an interval until the returned function is called.
func every(interval time.Duration, f func()) (stop func()) {
	tick := time.NewTicker(interval)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				f()
			}
		}
	}()
	return func() { tick.Stop(); close(end); <-ended }
}
