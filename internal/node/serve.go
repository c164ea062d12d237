package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/sweep"
)

// drainTime limits the wait for running requests after a stop. A stop takes at most
// ten seconds: the rest is for the last writes.
const drainTime = 8 * time.Second

// Serve runs the server until ctx ends: it contains the order of start and stop.
func Serve(ctx context.Context, from Source) (err error) {
	hangups := onHangup()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cfg, sources, err := from.Read()
	if err != nil {
		return deployment.Unreadable(err)
	}
	dev := from.Dev
	if !dev {
		if err := checked(&cfg, sources); err != nil {
			return err
		}
	}
	if err := deployment.MakeDataDirectory(cfg.Data); err != nil {
		return err
	}
	release, err := sqlite.Lock(cfg.Data)
	if err != nil {
		return err
	}
	defer release()

	// Accept connections only when the start has finished: a load balancer would
	// otherwise send requests too early.
	var public net.Listener
	var address net.Addr // of the public listener, with --dev
	if dev {
		if public, address, err = devAddress(cfg); err != nil {
			return err
		}
		if public != nil {
			defer public.Close()
		}
		if err := prepareDev(&cfg, address); err != nil {
			return err
		}
		if err := checked(&cfg, sources); err != nil {
			return err
		}
	}
	log, level := deployment.NewLogger(os.Stderr, cfg.Log)
	log = linkLog(cfg, dev, os.Stderr, log, level)
	started := false
	defer func() {
		if err != nil && !started && ctx.Err() != nil {
			if errors.Is(err, context.Canceled) {
				log.Info("stopped before the start had finished")
			} else {
				log.Info("stopped before the start had finished", "error", err)
			}
			err = nil
		}
	}()
	if os.Getenv("GOMAXPROCS") == "" {
		// One thread mostly waits for the disk, which the scheduler notices late.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
	if os.Getenv("GOGC") == "" {
		// The live heap is a few megabytes: collecting it less often costs little
		// memory and saves a tenth of the CPU time.
		debug.SetGCPercent(400)
	}

	absent := deployment.KEKIsAbsent(cfg)
	kek, err := deployment.ReadKEK(cfg)
	if err != nil && !absent {
		return err
	}
	st, err := deployment.CreateStore(ctx, cfg, dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	embedded, _ := st.(*sqlite.Store)
	numbers := metrics.New(from.Version, cfg.Management.MetricsClients)
	tracer := openTracer(ctx, from.Version, log)
	defer closeTracer(tracer)
	st = traced(numbers.Store(st), tracer, cfg)
	var opened atomic.Pointer[directory.Directory]
	outage := &store.Outage{Log: log}
	anchors := newAnchoring(cfg, st, outage, log)
	auditLog := openAuditLog(cfg, from.Version, &opened, anchors, log)
	anchors.auditLog = auditLog
	st = audited(st, auditLog)
	defer anchors.end()
	if absent {
		if kek, err = deployment.MakeKEK(ctx, cfg, st); err != nil {
			return err
		}
		path, _ := deployment.KEKPath(cfg)
		log.Warn("made the key-encryption key of this store", "file", path,
			"advice", "copy it to a safe place, apart from the backups of the store: without it, nobody can use the store or a backup of it")
	}
	directory, err := directory.Open(ctx, st, kek, deployment.KeySchedule(cfg), log, time.Now)
	if err != nil {
		return err
	}
	directory.Outage = outage
	directory.ReadKEK = func() (*keys.KEK, error) { return deployment.ReadKEK(cfg) }
	opened.Store(directory)
	firstStartOver(cfg, log)
	if dev {
		if err := makeDevFiles(ctx, cfg, address, st); err != nil {
			return err
		}
	}
	if err := directory.Join(ctx, fmt.Sprintf("%s, process %d", deployment.HostName(), os.Getpid())); err != nil {
		return err
	}
	n := &node{dev: dev, version: from.Version, log: log, level: level, metrics: numbers, tracer: tracer, auditLog: auditLog, store: st, outage: outage, directory: directory,
		health: server.NewHealth(func(ctx context.Context) error { return errors.Join(directory.Ready(), st.Ready(ctx)) })}
	n.queue = server.NewQueue(capacity(cfg), numbers.Shed, log)
	n.feed, n.guard = issuer.NewFeed(), account.NewGuard(cfg.Throttle.LoginFailures)
	n.throttle = overload.NewThrottle(throttleLimits(cfg), numbers.Throttled)
	n.clients = &client.Authenticator{Realm: deployment.Realm, Store: st, Directory: directory, Now: time.Now, Log: log, Slow: client.NewSlowPool(),
		Issuer: cfg.IssuerID(), TokenEndpoint: tokenEndpoints(cfg),
		Shared: cfg.Store != config.StoreSQLite, Began: time.Now()}
	if auditLog != nil {
		n.clients.OldSecretUsed = auditLog.OldSecretUsed
	}
	n.logouts = logout.New(logout.Config{
		Realm: deployment.Realm, Store: st, Alone: cfg.Store == config.StoreSQLite, Metrics: numbers, Audit: auditLog, Log: log, Monotonic: time.Now, Outage: outage,
	})
	fetching, err := documentClient(cfg, dev)
	if err != nil {
		return err
	}
	n.openDocuments(fetching, cfg.ClientMetadata.Schemes)
	first, err := n.answer(cfg)
	if err != nil {
		return err
	}
	n.use(cfg, first)

	// Background work ends before the store is closed.
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { directory.Run(background) })
	running.Go(func() { anchors.run(background) })
	running.Go(func() { watchOutage(background, outage, n.health.Ready, log) })
	if embedded != nil {
		running.Go(func() { watchStore(background, embedded.Present, log) })
	}
	sweeper := &sweep.Sweeper{
		Store: st, ClockFault: directory.ClockFault, Restore: func() grant.Restore { return directory.Latest().Restore() },
		Now: time.Now, Monotonic: time.Now, Log: log, Outage: outage,
	}
	running.Go(func() { sweeper.Run(background) })
	if first.front != nil {
		running.Go(func() { n.logouts.Run(background) })
	}
	defer running.Wait()
	defer stopBackground()

	if !dev {
		warnOfDemo(cfg, directory, log)
		noteIssuer(ctx, cfg, st, log)
	}
	warnOfExposure(cfg, log)
	warnOfDatabase(cfg, log)
	for _, d := range cfg.Departures() {
		log.Warn("departure from the specification", "what", d)
	}
	for _, c := range directory.Departures() {
		log.Warn("departure from the specification", "what", c)
	}
	listeners, err := listen(cfg, public, n)
	if err != nil {
		return err
	}
	var demo deployment.DevInfo
	if dev {
		if demo, err = finishDev(ctx, cfg, st, directory, listeners); err != nil {
			return errors.Join(err, closeAll(listeners))
		}
	}
	log.Info("serving", "version", from.Version, "issuer", cfg.IssuerID(), "listen", listeners[0].Addr().String(),
		"management", listeners[1].Addr().String(), "admin", cfg.AdminListen(), "store", cfg.StoreName(), "data", cfg.Data)
	if dev {
		printDev(os.Stdout, cfg, demo)
	}
	running.Go(func() {
		n.reloadOn(background, hangups, func() (config.Config, config.Sources, error) { return from.load(address) }, stop)
	})
	tell(log, stateReady, "serving "+cfg.IssuerID())
	started = true
	return runAndDrain(ctx, listeners, n.health, log)
}

// tokenEndpoints lists the addresses of the token endpoint that clients know: the one
// in the metadata, and that of the service's specification.
func tokenEndpoints(cfg config.Config) []string {
	site := server.Site{PublicURL: cfg.PublicURL, BasePath: cfg.BasePath, Realm: deployment.Realm}
	return []string{site.Endpoint("access_token"), site.PublicURL + site.BasePath + "/oauth2/access_token?realm=" + site.Realm}
}

// checked returns an error with every fault of the configuration and its source.
func checked(cfg *config.Config, from config.Sources) error {
	if err := from.Explain(cfg.Check()); err != nil {
		return deployment.Usage(fmt.Errorf("configuration:\n%w", err))
	}
	return nil
}
