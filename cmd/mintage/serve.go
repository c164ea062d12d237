package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/authorize"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// drainTime is how long running requests may take to finish after a stop. A
// stop takes at most ten seconds: the rest is for what is then to be written,
// perhaps while another process holds the store's lock.
const drainTime = 8 * time.Second

func newServe(s *settings) *cobra.Command {
	var dev bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server. It needs public_url, tls.cert and tls.key; the data directory is
made if it is absent. With --dev it needs nothing: it makes a local certificate
authority, a certificate and a demo client in the data directory, and prints
commands to paste.

Every setting can be given in the --config file (tls.cert), in the environment
(MINTAGE_TLS_CERT) or as a flag (--tls-cert); a flag goes over the environment
and that over the file.`,
		Example: `  mintage serve --dev
  mintage serve --config /etc/mintage/mintage.yaml`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, dev)
		},
	}
	cmd.Flags().BoolVar(&dev, "dev", false, "try it out on this machine, with nothing prepared")
	s.register(cmd.Flags())
	return cmd
}

// serve is the wiring of the whole program, from top to bottom.
func serve(ctx context.Context, cfg config.Config, dev bool) (err error) {
	if !dev {
		if err := checked(&cfg); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(cfg.Data, 0o700); err != nil {
		return hint(fmt.Errorf("data directory: %w", err), "name another with --data, or make it and give it to this user")
	}
	if err := checkDataDirectory(cfg.Data); err != nil {
		return err
	}
	release, err := sqlite.Lock(cfg.Data)
	if err != nil {
		return err
	}
	defer release()

	public, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return hint(fmt.Errorf("public listener: %w", err), "choose another address with --listen")
	}
	defer public.Close()
	if dev {
		// It listens first: the port may be any that is free, and becomes
		// part of the issuer.
		if err := prepareDev(&cfg, public.Addr()); err != nil {
			return err
		}
		if err := checked(&cfg); err != nil {
			return err
		}
	}
	log := newLogger(os.Stderr, cfg.Log)
	if os.Getenv("GOMAXPROCS") == "" {
		// One thread waits for the disk most of the time, and the scheduler
		// notices late that it does not compute.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
	if os.Getenv("GOGC") == "" {
		// The live heap is a few megabytes: collecting it four times less
		// often costs little memory and saves a tenth of the processor.
		debug.SetGCPercent(400)
	}

	absent := kekIsAbsent(cfg)
	kek, err := readKEK(cfg)
	if err != nil && !absent {
		return err
	}
	st, err := createStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if absent {
		if kek, err = makeKEK(ctx, cfg, st); err != nil {
			return err
		}
	}
	directory, err := issuer.OpenDirectory(ctx, st, kek, keySchedule(cfg), log, time.Now)
	if err != nil {
		return err
	}
	if dev {
		if err := makeDevFiles(ctx, cfg, public.Addr(), st); err != nil {
			return err
		}
	}
	if err := directory.Join(ctx, nodeName()); err != nil {
		return err
	}
	iss := issuer.New(issuer.Issuer{
		Realm: realm, ID: cfg.IssuerID(), Store: st, Directory: directory,
		Policy: grant.Policy{
			AccessLifetime: cfg.AccessTokenLifetime.Std(), RefreshLifetime: cfg.RefreshTokenLifetime.Std(),
			GrantLifetime: cfg.GrantLifetime.Std(), RetryWindow: cfg.RetryWindow.Std(), MaxSkew: cfg.Skew(),
		},
		RetryWindowPublic: cfg.RetryWindowPublic.Std(), CodeLifetime: cfg.CodeLifetime.Std(),
		RevocationsMaxAge: cfg.RevocationsMaxAge.Std(),
		Now:               time.Now, Monotonic: time.Now, Log: log,
	})

	// The work of the background ends before the store is closed.
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { directory.Run(background) })
	running.Go(func() { iss.Sweep(background) })
	defer running.Wait()
	defer stopBackground()

	front, err := newFront(cfg, iss, log)
	if err != nil {
		return err
	}
	health := server.NewHealth(func(ctx context.Context) error { return errors.Join(directory.Ready(), st.Ready(ctx)) })
	listeners, err := listen(cfg, public, iss, front, health, log)
	if err != nil {
		return err
	}
	var demo devInfo
	if dev {
		if demo, err = finishDev(ctx, cfg, st, directory, listeners); err != nil {
			return errors.Join(err, closeAll(listeners))
		}
	}
	if !dev {
		warnOfDemo(cfg, directory, log)
	}
	warnOfExposure(cfg, log)
	warnOfDatabase(cfg, log)
	for _, d := range cfg.Departures() {
		log.Warn("departure from the specification", "what", d)
	}
	for _, c := range directory.Departures() {
		log.Warn("departure from the specification", "what", c)
	}
	log.Info("serving", "version", buildVersion(), "issuer", cfg.IssuerID(), "listen", listeners[0].Addr().String(),
		"management", listeners[1].Addr().String(), "admin", cfg.AdminListen(), "store", cfg.StoreName(), "data", cfg.Data)
	if dev {
		printDev(os.Stdout, cfg, demo)
	}
	return runAndDrain(ctx, listeners, health, log)
}

// nodeName is what the other nodes call this one.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return fmt.Sprintf("%s, process %d", host, os.Getpid())
}

func checked(cfg *config.Config) error {
	if err := cfg.Check(); err != nil {
		return &usageError{fmt.Errorf("configuration:\n%w", err)}
	}
	return nil
}

// A listener is an open socket and what answers on it.
type listener struct {
	net.Listener
	server *http.Server
}

// listen opens the sockets: public, management, admin, in this order.
func listen(cfg config.Config, public net.Listener, iss *issuer.Issuer, front *server.Front, health *server.Health, log *slog.Logger) (list []listener, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(list))
		}
	}()
	srv := server.HTTPServer(server.New(iss, server.Options{
		PublicURL: cfg.PublicURL, BasePath: cfg.BasePath, TrustedProxies: cfg.TrustedProxies, PlainHTTP: cfg.TLS.Cert == "",
		BasicAuthStatus: cfg.Errors.BasicAuthStatus, CORSOrigins: cfg.CORS.Origins,
		QueryParameters: cfg.Compat.QueryParameters, InvalidRequestForDeadRefresh: cfg.Compat.InvalidRequestForDeadRefresh,
		TokenInfoQuery: cfg.Compat.TokenInfoQuery, RedirectURIMismatch: cfg.Compat.RedirectURIMismatch,
		AddressFailures: cfg.Throttle.AddressFailures, ClientFailures: cfg.Throttle.ClientFailures, Interactions: cfg.Throttle.Interactions,
		Front: front,
	}, log).Handler(), log)
	var certificate *server.Certificate
	if cfg.TLS.Cert != "" {
		if certificate, err = server.LoadCertificate(cfg.TLS.Cert, cfg.TLS.Key, log); err != nil {
			return nil, err
		}
		srv.TLSConfig = server.TLSConfig(certificate)
	}
	list = append(list, listener{public, srv})

	management, err := net.Listen("tcp", cfg.Management.Listen)
	if err != nil {
		return list, hint(fmt.Errorf("management listener: %w", err), "choose another address with --management-listen")
	}
	list = append(list, listener{management, server.HTTPServer(health.Handler(cfg.Management.Pprof), log)})

	admin, token, err := listenAdmin(cfg)
	if err != nil {
		return list, fmt.Errorf("admin listener: %w", err)
	}
	var logins *authorize.Authorizer
	if cfg.Login.Mode == config.LoginHandoff {
		logins = front.Authorizer
	}
	adminServer := server.HTTPServer(server.NewAdmin(iss, logins, token, log).Handler(), log)
	if _, unix := admin.Addr().(*net.UnixAddr); !unix {
		adminServer.TLSConfig = server.TLSConfig(certificate)
	}
	return append(list, listener{admin, adminServer}), nil
}

func closeAll(list []listener) (err error) {
	for _, l := range list {
		err = errors.Join(err, l.Close())
	}
	return err
}

// runAndDrain serves until ctx ends or a listener fails, and then lets running
// requests finish.
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
