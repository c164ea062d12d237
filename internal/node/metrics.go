package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/tracing"
)

// scrapesAtOnce limits the cost of a faulty monitoring system.
const scrapesAtOnce = 4

// scrape is the handler of /metrics.
func (n *node) scrape() http.Handler {
	return promhttp.HandlerFor(n.metrics.Gatherer(), promhttp.HandlerOpts{
		ErrorLog: scrapeLog{n.log}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapesAtOnce,
	})
}

// A scrapeLog logs the errors of promhttp. A scraper that closes its connection early is
// no fault of the server, and promhttp reports it once for each metric that is left: such
// errors have the level debug.
type scrapeLog struct{ log *slog.Logger }

func (s scrapeLog) Println(v ...any) {
	level := slog.LevelError
	for _, what := range v {
		if err, ok := what.(error); ok && errors.As(err, new(*net.OpError)) {
			level = slog.LevelDebug
		}
	}
	s.log.Log(context.Background(), level, "cannot gather metrics", "what", v)
}

// watch lets the metrics read the node's state. The certificate of the public
// listener is nil if TLS ends at a proxy.
func (n *node) watch(certificate *server.Certificate) {
	n.metrics.Watch(func() metrics.State {
		c, now := n.directory.Condition(), grant.At(time.Now())
		s := metrics.State{
			Ready: n.health.Ready(context.Background()) == nil, DirectoryAge: c.Age, ClockFault: c.ClockFault != nil,
			KeysDue: c.Due, Load: n.store.Load(),
		}
		for _, k := range c.Active {
			key := metrics.Key{ID: k.ID.String(), Purpose: string(k.Purpose), Age: now.Since(k.ActiveAt)}
			if k.EndsAt != 0 {
				key.Expiry = k.EndsAt.Time()
			}
			s.Keys = append(s.Keys, key)
		}
		for _, e := range c.Expiring {
			s.Secrets = append(s.Secrets, metrics.Secret{Realm: e.Realm, ClientID: e.ClientID, ID: e.ID, Expiry: e.ExpiresAt.Time(), Replaced: e.Replaced})
		}
		if certificate != nil {
			leaf := certificate.Current().Leaf
			s.Certificate, s.CertOverdue, s.CertRefused = leaf.NotAfter, server.ExpiresSoon(leaf, now.Time()), certificate.Refused()
		}
		for _, r := range n.realms {
			failing, waiting := r.logouts.Failing()
			s.Logouts = append(s.Logouts, metrics.Logouts{Realm: r.name, Failing: failing, Waiting: waiting})
		}
		s.Working, s.Waiting = n.queue.Load()
		auditLog := n.auditLog.Numbers()
		s.AuditWritten, s.AuditLost, s.AuditFault = auditLog.Written, auditLog.Lost, auditLog.Fault
		s.AuditOverRate, s.AuditWithoutRoom = auditLog.OverRate, auditLog.WithoutRoom
		if c.Restore.InForce(now) {
			s.RestoreUntil = c.Restore.Until.Time()
		}
		return s
	})
}

// flushTime limits the last write of spans, and that of request counts, at a stop.
const flushTime = time.Second

// openTracer returns a Tracer if the environment names a collector. A fault in its
// settings does not keep the server from starting.
func openTracer(ctx context.Context, version string, log *slog.Logger) *tracing.Tracer {
	t, err := tracing.Open(ctx, version, os.Getenv, log)
	if err != nil {
		log.Error("the environment configures tracing, but no trace is sent", "error", err)
	}
	return t
}

// closeTracer sends the last spans.
func closeTracer(t *tracing.Tracer) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	t.Close(ctx)
}

// traced returns st with spans, or st itself without a Tracer.
func traced(st store.Store, t *tracing.Tracer, cfg config.Config) store.Store {
	if t == nil {
		return st
	}
	engine := "sqlite"
	if cfg.Store != config.StoreSQLite {
		engine = "postgresql"
	}
	return t.Store(st, engine)
}

const (
	// devLog is the log of a --dev server that writes to a terminal.
	devLog = "dev-log.jsonl"
	// maxDevLog limits the size of devLog; each start truncates it.
	maxDevLog = 64 << 20
)

// linkLog links to the log file for mintage explain, and removes an outdated link.
// A --dev server whose log goes to no file writes one, in JSON.
func linkLog(cfg config.Config, dev bool, stderr *os.File, log *slog.Logger, level slog.Leveler) *slog.Logger {
	link := filepath.Join(cfg.Data, deployment.LinkedLog)
	target := fileOf(stderr)
	var failed error
	if target == "" && dev {
		target = filepath.Join(cfg.Data, devLog)
		f, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if failed = err; err == nil {
			// The end of the process closes the file, after the last line.
			log = slog.New(slog.NewMultiHandler(log.Handler(), slog.NewJSONHandler(&limitedWriter{f, maxDevLog}, deployment.LogOptions(level))))
		}
	}
	info, err := os.Lstat(link)
	switch {
	case failed != nil || err == nil && info.Mode().Type() != fs.ModeSymlink:
		// Another file with that name is left alone.
	case err == nil:
		failed = os.Remove(link)
	case !errors.Is(err, fs.ErrNotExist):
		failed = err
	}
	if failed == nil && target != "" && target != link {
		if failed = os.Symlink(target, link); errors.Is(failed, fs.ErrExist) {
			failed = nil
		}
	}
	if failed != nil {
		log.Warn("cannot leave a link to the log for mintage explain", "error", failed)
	}
	return log
}

// fileOf returns the path of an open regular file, or "".
func fileOf(f *os.File) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return ""
	}
	open, err := f.Stat()
	if err != nil || !open.Mode().IsRegular() {
		return ""
	}
	if named, err := os.Stat(path); err != nil || !os.SameFile(open, named) {
		return "" // it was removed
	}
	return path
}

// A limitedWriter discards everything after a number of bytes.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > l.left {
		l.left = 0
		return len(p), nil
	}
	l.left -= len(p)
	return l.w.Write(p)
}
