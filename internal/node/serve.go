package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/sweep"
	"github.com/mintage/mintage/internal/traffic"
)

// Serve runs the server until ctx ends: it contains the order of start and stop.
func Serve(ctx context.Context, from Source) (err error) {
	hangups := onHangup()
	signal.Ignore(syscall.SIGPIPE) // the reader of the log may exit: keep serving
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p, err := prepare(from)
	defer p.close()
	if err != nil {
		return err
	}
	cfg := p.cfg
	log, level := deployment.NewLogger(os.Stderr, cfg.Log)
	log = linkLog(cfg, from.Dev, os.Stderr, log, level)
	started := false
	defer func() {
		if err != nil && !started && ctx.Err() != nil {
			logEarlyStop(log, err)
			err = nil
		}
	}()
	tuneRuntime()
	n := &node{dev: from.Dev, version: from.Version, log: log, level: level}
	closing, err := n.open(ctx, cfg, p.address)
	if closing != nil {
		defer func() { err = errors.Join(err, closing()) }()
	}
	if err != nil {
		return err
	}
	if err := n.equip(cfg); err != nil {
		return err
	}
	first, err := n.answer(cfg)
	if err != nil {
		return err
	}
	n.use(cfg, first)
	load := func() (config.Config, config.Sources, error) { return from.load(p.address) }
	n.runWith(cfg, p.sources, nil, load)

	// Background work ends before the store is closed.
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	n.work(background, &running)
	defer running.Wait()
	defer stopBackground()

	// Accept connections only when the start has finished: a load balancer would
	// otherwise send requests too early.
	listeners, err := listen(cfg, p.public, n)
	if err != nil {
		return err
	}
	if err := n.announce(ctx, cfg, listeners); err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	running.Go(func() { n.reloadOn(background, hangups, load, stop) })
	notifyOrLog(log, stateReady, "serving "+cfg.IssuerID())
	started = true
	return runAndDrain(ctx, listeners, n.health, log)
}

// A prepared server has a checked configuration, and its data directory for itself.
type prepared struct {
	cfg     config.Config
	sources config.Sources
	release func()       // releases the data directory
	public  net.Listener // with --dev and port 0: open, to reserve the port
	address net.Addr     // of the public listener, with --dev
}

// prepare reads and checks the configuration, and locks the data directory. The caller
// closes what it returns, also after an error.
func prepare(from Source) (p prepared, err error) {
	if p.cfg, p.sources, err = from.Read(); err != nil {
		return p, deployment.Unreadable(err)
	}
	if !from.Dev {
		if err := checked(&p.cfg, p.sources, checkNamedFiles(p.cfg)...); err != nil {
			return p, err
		}
	}
	if err := deployment.MakeDataDirectory(p.cfg.Data); err != nil {
		return p, err
	}
	p.release, err = sqlite.Lock(p.cfg.Data)
	if errors.As(err, new(*sqlite.LockedError)) {
		err = deployment.Hint(err, "stop it first, or give this one its own --data directory")
	}
	if err != nil || !from.Dev {
		return p, err
	}
	if p.public, p.address, err = devAddress(p.cfg); err != nil {
		return p, err
	}
	if err := prepareDev(&p.cfg, p.address); err != nil {
		return p, err
	}
	return p, checked(&p.cfg, p.sources)
}

// close closes the socket, which a listener may have closed already, and releases the data
// directory.
func (p prepared) close() {
	if p.public != nil {
		p.public.Close()
	}
	if p.release != nil {
		p.release()
	}
}

// announce logs what an operator should know, and what is served where. With --dev, it makes
// the demo and prints how to use it.
func (n *node) announce(ctx context.Context, cfg config.Config, listeners []listener) (err error) {
	n.warn(ctx) // stores the issuer, too
	invitation := ""
	if n.dev {
		if invitation, err = n.makeDemo(ctx, cfg, listeners); err != nil {
			return err
		}
	}
	n.log.Info("serving", "version", n.version, "issuer", cfg.IssuerID(), "listen", listeners[0].Addr().String(),
		"management", listeners[1].Addr().String(), "admin", cfg.AdminListen(), "store", cfg.StoreName(), "data", cfg.Data)
	if n.dev {
		printDev(os.Stdout, cfg, *n.demo.Load(), invitation)
	}
	return nil
}

// runAndDrain serves until ctx ends or a listener fails, and then waits for running
// requests.
func runAndDrain(ctx context.Context, list []listener, health *server.Health, log *slog.Logger) error {
	failed := make(chan error, len(list))
	for _, l := range list {
		go func() {
			var err error
			if l.server.TLSConfig != nil {
				err = l.server.ServeTLS(l, "", "")
			} else {
				err = l.server.Serve(l)
			}
			if !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("listener %s: %w", l.Addr(), err)
			}
		}()
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		notifyOrLog(log, stateStopping, "running requests finish")
		log.Info("stopping: no new connections, running requests finish", "at_most", drainTime.String())
	}
	health.Drain()
	deadline, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	var closing sync.WaitGroup
	for _, l := range list {
		closing.Go(func() {
			if l.server.Shutdown(deadline) != nil {
				l.server.Close()
			}
		})
	}
	closing.Wait()
	if err == nil {
		log.Info("stopped")
	}
	return err
}

// drainTime limits the wait for running requests after a stop. A stop takes at most
// ten seconds: the rest is for the last writes.
const drainTime = 8 * time.Second

// logEarlyStop logs that a stop has ended the start, and the error if there is another one.
func logEarlyStop(log *slog.Logger, err error) {
	if errors.Is(err, context.Canceled) {
		log.Info("stopped before the start had finished")
		return
	}
	log.Info("stopped before the start had finished", "error", err)
}

// tuneRuntime sets the parameters of the Go runtime that the environment does not set.
func tuneRuntime() {
	if os.Getenv("GOMAXPROCS") == "" {
		// One thread mostly waits for the disk, which the scheduler notices late.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
	if os.Getenv("GOGC") == "" {
		// The live heap is a few megabytes: collecting it less often costs little
		// memory and saves a tenth of the CPU time.
		debug.SetGCPercent(400)
	}
}

// open opens the store, the audit log and the directory, and joins the other nodes. The
// function that it returns, if any, closes them, also after an error.
func (n *node) open(ctx context.Context, cfg config.Config, address net.Addr) (closing func() error, err error) {
	absent := deployment.KEKIsAbsent(cfg)
	kek, err := deployment.ReadKEK(cfg)
	if err != nil && !absent {
		return nil, err
	}
	st, err := deployment.CreateStore(ctx, cfg, n.dev)
	if err != nil {
		return nil, err
	}
	n.engine = st
	n.embedded, _ = st.(*sqlite.Store)
	n.metrics = metrics.New(n.version, cfg.Management.MetricsClients, cfg.RealmNames()...)
	n.tracer = openTracer(ctx, n.version, n.log)
	st = traced(n.metrics.Store(st), n.tracer, cfg)
	var opened atomic.Pointer[directory.Directory]
	n.outage = &store.Outage{Log: n.log}
	n.anchors = newAnchoring(cfg, st, n.outage, n.log)
	n.auditLog = openAuditLog(cfg, n.version, &opened, n.anchors, n.log)
	n.anchors.auditLog = n.auditLog
	n.store = audited(st, n.auditLog)
	n.traffic = traffic.New(n.store, n.metrics.Totals, time.Now)
	closing = func() error {
		n.anchors.end()
		closeTracer(n.tracer)
		return n.store.Close()
	}
	if absent {
		if kek, err = deployment.MakeKEK(ctx, cfg, n.store); err != nil {
			return closing, err
		}
		path, _ := deployment.KEKPath(cfg)
		n.log.Warn("made the key-encryption key of this store", "file", path,
			"advice", "copy it to a safe place, apart from the backups of the store: without it, nobody can use the store or a backup of it")
	}
	n.directory = directory.New(n.store, kek, deployment.KeySchedule(cfg), n.log, time.Now)
	n.directory.Outage = n.outage
	n.directory.ReadKEK = func() (*keys.KEK, error) { return deployment.ReadKEK(cfg) }
	if err := n.directory.Join(ctx, fmt.Sprintf("%s, process %d", deployment.HostName(), os.Getpid())); err != nil {
		return closing, err
	}
	opened.Store(n.directory)
	firstStartOver(cfg, n.log)
	if n.dev {
		err = makeDevFiles(ctx, cfg, address, n.store)
	}
	return closing, err
}

// equip creates the queues, limits, caches and realms, which outlive a reload.
func (n *node) equip(cfg config.Config) error {
	n.health = server.NewHealth(func(ctx context.Context) error { return errors.Join(n.directory.Ready(), n.store.Ready(ctx)) })
	n.queue = server.NewQueue(capacity(cfg), n.metrics.Shed, n.log)
	n.guard, n.slow = account.NewGuard(cfg.Throttle.LoginFailures), client.NewSlowPool()
	n.throttle = overload.NewThrottle(throttleLimits(cfg), n.metrics.Throttled)
	fetching, err := documentClient(cfg, n.dev)
	if err != nil {
		return err
	}
	n.openDocuments(fetching, cfg.ClientMetadata.Schemes)
	n.cfg = cfg
	for _, c := range cfg.Each() {
		n.realms = append(n.realms, n.newRealm(c))
	}
	return nil
}

// work starts the background work, which ends with ctx.
func (n *node) work(ctx context.Context, running *sync.WaitGroup) {
	running.Go(func() { n.directory.Run(ctx) })
	running.Go(func() { n.anchors.run(ctx) })
	running.Go(func() { n.record(ctx) })
	running.Go(func() { n.checkUp(ctx, running) })
	running.Go(func() { watchOutage(ctx, n.outage, n.health.Ready, n.log) })
	if n.embedded != nil {
		running.Go(func() { watchStore(ctx, n.embedded.Present, n.log) })
	}
	sweeper := &sweep.Sweeper{
		Store: n.store, ClockFault: n.directory.ClockFault, Restore: func() grant.Restore { return n.directory.Latest().Restore() },
		Now: time.Now, Monotonic: time.Now, Log: n.log, Outage: n.outage,
	}
	running.Go(func() { sweeper.Run(ctx) })
	for _, r := range n.realms {
		running.Go(func() { r.ends.Run(ctx) })
		if r.current.front != nil {
			running.Go(func() { r.logouts.Run(ctx) })
		}
	}
}

// warn logs what an operator should know of the configuration in force.
func (n *node) warn(ctx context.Context) {
	if !n.dev {
		warnOfDemo(n.cfg, n.directory, n.log)
		for _, c := range n.cfg.Each() {
			noteIssuer(ctx, c, n.store, n.log)
		}
	}
	warnOfExposure(n.cfg, n.log)
	warnOfDatabase(n.cfg, n.log)
	for _, d := range n.cfg.Departures() {
		n.log.Warn("departure from the specification", "what", d)
	}
	for _, r := range n.realms {
		for _, c := range n.directory.Departures(r.name) {
			r.log.Warn("departure from the specification", "what", c)
		}
	}
}

// checked returns an error that lists every fault of cfg with its source, and files: the
// faults of the files that cfg names. It returns nil if there is none. Serve calls it before
// it creates a store.
func checked(cfg *config.Config, from config.Sources, files ...error) error {
	faults, _ := config.Faults(from.Explain(errors.Join(cfg.Check(), errors.Join(files...))))
	return Faulty(faults)
}
