package node

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/server"
)

// This file provides the state of a node at /metrics.

// scrapesAtOnce limits the cost of a faulty monitoring system.
const scrapesAtOnce = 4

// scrape is the handler of /metrics.
func (n *node) scrape() http.Handler {
	return promhttp.HandlerFor(n.metrics.Gatherer(), promhttp.HandlerOpts{
		ErrorLog: scrapeLog{n.log}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapesAtOnce,
	})
}

// A scrapeLog logs the errors of promhttp.
type scrapeLog struct{ log *slog.Logger }

func (s scrapeLog) Println(v ...any) { s.log.Error("cannot gather metrics", "what", v) }

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
			s.Secrets = append(s.Secrets, metrics.Secret{ClientID: e.ClientID, ID: e.ID, Expiry: e.ExpiresAt.Time(), Replaced: e.Replaced})
		}
		if certificate != nil {
			s.Certificate = certificate.Current().Leaf.NotAfter
		}
		failing, oldest := n.logouts.Failing()
		if s.LogoutFailing = failing; oldest != 0 {
			s.LogoutWaiting = max(0, now.Since(oldest))
		}
		s.Working, s.Waiting = n.queue.Load()
		auditLog := n.auditLog.Numbers()
		s.AuditWritten, s.AuditLost = auditLog.Written, auditLog.Lost
		if c.Restore.InForce(now) {
			s.RestoreUntil = c.Restore.Until.Time()
		}
		return s
	})
}
