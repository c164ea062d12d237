// Package node is a running server: it starts, listens, reloads its
// configuration, runs background work, and stops.
package node

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/fetch"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/server/resource"
	"github.com/mintage/mintage/internal/server/token"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/tracing"
	"github.com/mintage/mintage/internal/upstream"
	"github.com/mintage/mintage/internal/web"
)

// A node holds what lives as long as the process: the store, the directory, the
// log, and the limits, counts and caches that the handlers share. The handlers are
// made from it and the configuration (answer), are immutable, and are replaced as a
// whole by a reload (reload.go).
type node struct {
	dev       bool // serve --dev
	version   string
	log       *slog.Logger
	level     *slog.LevelVar // of log
	auditLog  *audit.Log     // nil if there is none
	store     store.Store
	embedded  *sqlite.Store // the same without what wraps it; nil on PostgreSQL
	outage    *store.Outage // of store
	anchors   *anchoring    // of auditLog, in store
	directory *directory.Directory
	clients   *client.Authenticator
	health    *server.Health
	metrics   *metrics.Metrics
	tracer    *tracing.Tracer // nil if nothing is traced

	public, admin swapped
	connections   *server.Connections // of the public listener
	queue         *overload.Queue
	throttle      *overload.Throttle
	probes        server.Probes
	pending       login.Pending
	ends          *issuer.Ends
	logouts       *logout.Outbox
	documents     *fetch.Cache[client.Document]
	feed          *issuer.Feed
	guard         *account.Guard
	discovered    upstream.Discovered

	// Of the start and then of the reloads, which come one after the other:
	cfg     config.Config // in force
	current *answering
}

// An answering is what answers under one configuration.
type answering struct {
	issuer *issuer.Issuer
	front  *web.Front // nil if there is none
	server *server.Server
	admin  *admin.Admin

	// Clients that no operator registers.
	documents     *client.Documents
	registrations *client.Registrations // nil: none
}

// answer makes what answers under cfg. It reads the files that cfg names, and
// changes nothing that is in use.
func (n *node) answer(cfg config.Config) (*answering, error) {
	iss := NewIssuer(cfg, n.store, n.directory, n.feed, n.log)
	front, err := n.newFront(cfg, iss)
	if err != nil {
		return nil, err
	}
	if front != nil {
		front.Authorizer.Ended = endLogouts(deployment.Realm, n.directory)
		front.Authorizer.Told = func(ctx context.Context, e login.End) { n.logouts.Await(ctx, e.SessionEnd, e.At) }
	}
	secret, err := adminToken(cfg)
	if err != nil {
		return nil, err
	}
	var logins *login.Authorizer
	if cfg.Login.Mode == config.LoginHandoff {
		logins = front.Authorizer
	}
	adminAPI := admin.NewAdmin(iss, logins, secret, n.log)
	adminAPI.Audit, adminAPI.Probes, adminAPI.Service = n.auditLog, &n.probes, cfg.ServiceName()
	adminAPI.Outage, adminAPI.Version = n.outage, n.version
	srv := server.New(iss, server.Options{
		Site:            server.Site{PublicURL: cfg.PublicURL, BasePath: cfg.BasePath},
		Proxies:         server.Proxies{TrustedProxies: cfg.TrustedProxies, PlainHTTP: cfg.TLS.Cert == ""},
		BasicAuthStatus: cfg.Errors.BasicAuthStatus, CORSOrigins: cfg.CORS.Origins,
		Clients: n.clients, Queue: n.queue, Throttle: n.throttle, Outage: n.outage, Probes: &n.probes, Audit: n.auditLog, Metrics: n.metrics, Tracer: n.tracer,
	}, n.log)
	registrations, err := registrationsOf(cfg, n.directory)
	if err != nil {
		return nil, err
	}
	tokens := &token.Endpoints{
		Issuer: iss, Registrations: registrations, QueryParameters: cfg.Compat.QueryParameters, InvalidRequestForDeadRefresh: cfg.Compat.InvalidRequestForDeadRefresh,
	}
	resources := &resource.Endpoints{Server: srv, Issuer: iss, ScopesSupported: cfg.ScopesSupported, TokenInfoQuery: cfg.Compat.TokenInfoQuery}
	a := &answering{issuer: iss, front: front, server: srv, admin: adminAPI, documents: n.documentsOf(cfg), registrations: registrations}
	if front != nil {
		front.EndAll = n.endAll(policyOf(cfg))
		resources.Claims, iss.Claims = front.Claims, front.Claims
		front.Authorizer.SelfRegistered = a.selfRegistered
		front.Documents = len(a.documents.Admitted) > 0
	}
	routes := slices.Concat(tokens.Routes(), resources.Routes())
	if front != nil {
		routes = append(routes, front.Routes(srv)...)
	}
	srv.Mount(routes...)
	return a, nil
}

// NewIssuer makes the issuer of a configuration. A nil feed is one of its own.
func NewIssuer(cfg config.Config, st store.Store, directory *directory.Directory, feed *issuer.Feed, log *slog.Logger) *issuer.Issuer {
	return issuer.New(issuer.Issuer{
		Realm: deployment.Realm, ID: cfg.IssuerID(), Store: st, Directory: directory,
		Policy:            policyOf(cfg),
		RetryWindowPublic: cfg.RetryWindowPublic.Std(), OwnReuseGrace: cfg.ClientMetadata.ReuseGrace.Std(), CodeLifetime: cfg.CodeLifetime.Std(),
		IDTokenLifetime: cfg.IDTokens(), HintAge: cfg.Session.Lifetime.Std() + cfg.RefreshTokenLifetime.Std(),
		RevocationsMaxAge: cfg.RevocationsMaxAge.Std(),
		Now:               time.Now, Monotonic: time.Now, Log: log, Feed: feed,
	})
}

// policyOf returns the policy of a configuration.
func policyOf(cfg config.Config) grant.Policy {
	return grant.Policy{
		AccessLifetime: cfg.AccessTokenLifetime.Std(), RefreshLifetime: cfg.RefreshTokenLifetime.Std(),
		GrantLifetime: cfg.GrantLifetime.Std(), RetryWindow: cfg.RetryWindow.Std(), MaxSkew: cfg.Skew(),
	}
}

// use has a answer from the next request on. Requests that run finish with what
// they began with.
func (n *node) use(cfg config.Config, a *answering) {
	n.cfg, n.current = cfg, a
	n.ends.Use(a.issuer)
	n.logouts.Use(a.issuer)
	deployment.SetLevel(n.level, cfg.Log)
	n.throttle.SetLimits(throttleLimits(cfg))
	n.guard.SetFailures(cfg.Throttle.LoginFailures)
	n.queue.SetCapacity(capacity(cfg))
	n.boundConnections(cfg)
	n.directory.AdmitSelfRegistered(func(_, id string) bool { return a.admits(id) })
	n.public.swap(a.server.Handler())
	n.admin.swap(a.admin.Handler())
}

// A swapped handler passes each request to the handler that was put in last.
type swapped struct{ now atomic.Pointer[http.Handler] }

func (s *swapped) swap(h http.Handler) { s.now.Store(&h) }

func (s *swapped) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*s.now.Load()).ServeHTTP(w, r) }
