package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/server"
)

// This file opens the sockets once, and drains them at the end.

// A listener is an open socket with its HTTP server.
type listener struct {
	net.Listener
	server *http.Server
}

// listenPublic opens the public socket. From then on, the kernel accepts
// connections.
func listenPublic(cfg config.Config) (net.Listener, error) {
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, deployment.Hint(fmt.Errorf("public listener: %w", err), "choose another address with --listen")
	}
	return l, nil
}

// listen opens the sockets: public, management, admin, in this order in the
// list. The public one is opened last, unless it is open already.
func listen(cfg config.Config, public net.Listener, n *node) (list []listener, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(list))
		}
	}()
	srv := server.HTTPServer(&n.public, n.log)
	var certificate *server.Certificate
	if cfg.TLS.Cert != "" {
		if certificate, err = server.LoadCertificate(cfg.TLS.Cert, cfg.TLS.Key, n.log); err != nil {
			return nil, err
		}
		certificate.Expect(cfg.PublicURL)
		srv.TLSConfig = server.TLSConfig(certificate)
	}
	n.watch(certificate)
	management, err := net.Listen("tcp", cfg.Management.Listen)
	if err != nil {
		return list, deployment.Hint(fmt.Errorf("management listener: %w", err), "choose another address with --management-listen")
	}
	list = append(list, listener{management, server.HTTPServer(n.health.Handler(n.scrape(), cfg.Management.Pprof), n.log)})

	admin, err := listenAdmin(cfg)
	if err != nil {
		return list, fmt.Errorf("admin listener: %w", err)
	}
	adminServer := server.HTTPServer(&n.admin, n.log)
	if _, unix := admin.Addr().(*net.UnixAddr); !unix {
		adminServer.TLSConfig = server.TLSConfig(certificate)
	}
	list = append(list, listener{admin, adminServer})
	if public == nil {
		if public, err = listenPublic(cfg); err != nil {
			return list, err
		}
	}
	return append([]listener{{n.connections.Bound(public, srv), srv}}, list...), nil
}

func closeAll(list []listener) (err error) {
	for _, l := range list {
		err = errors.Join(err, l.Close())
	}
	return err
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
		tell(log, stateStopping, "running requests finish")
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
