// Package node is a running server: it starts, listens, reloads its
// configuration, runs background work, and stops.
package node

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/dpop"
	"github.com/mintage/mintage/internal/fetch"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/keyset"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/tracing"
	"github.com/mintage/mintage/internal/traffic"
	"github.com/mintage/mintage/internal/upstream"
	"github.com/mintage/mintage/internal/web"
)

// A node holds what lives as long as the process: the store, the directory, the
// log, and the limits, counts and caches that all realms share.
type node struct {
	dev       bool // serve --dev
	version   string
	log       *slog.Logger
	level     *slog.LevelVar // of log
	auditLog  *audit.Log     // nil if there is none
	store     store.Store
	embedded  *sqlite.Store // the engine of store; nil on PostgreSQL
	outage    *store.Outage // of store
	anchors   *anchoring    // of auditLog, in store
	directory *directory.Directory
	keys      *keyset.Cache // of clients
	slow      *keys.SlowPool
	health    *server.Health
	metrics   *metrics.Metrics
	tracer    *tracing.Tracer // nil if nothing is traced
	traffic   *traffic.Recorder
	checkups  checkups
	inForce   atomic.Pointer[inForce]
	engine    store.Store // the engine of store, without its wrappers

	public, admin swapped
	console       swapped             // answers if the configuration has a console
	connections   *server.Connections // of the public listener
	queue         *overload.Queue
	throttle      *overload.Throttle
	probes        server.Probes
	watches       server.Watches
	pending       login.Pending
	seen          dpop.Seen
	devices       issuer.Devices
	documents     *fetch.Cache[client.Document]
	guard         *account.Guard
	realms        []*realm                           // the default one first
	demo          atomic.Pointer[deployment.DevInfo] // of --dev, once it is there

	// Only the start and then the reloads, one after the other, use this:
	cfg config.Config // in force
}

// A realm holds what lives as long as the process and belongs to one realm. Its handlers
// are made from it and its configuration (answer), are immutable, and are replaced as a
// whole by a reload (reload.go).
type realm struct {
	*node
	name       string
	began      time.Time
	log        *slog.Logger // the node's; its lines name the realm if there are several
	metrics    *metrics.Metrics
	store      store.Store // the realm's part of the node's store
	clients    *client.Authenticator
	ends       *issuer.Ends
	logouts    *logout.Outbox
	feed       *issuer.Feed
	discovered upstream.Discovered
	provider   atomic.Pointer[upstream.Provider] // where users sign in since the last reload, or nil
	current    *handlers                         // since the last reload
}

// A handlers value holds what serves one realm. A reload makes another one, for the new
// configuration.
type handlers struct {
	issuer    *issuer.Issuer
	directory *directory.Directory
	front     *web.Front // nil if there is none
	server    *server.Server
	admin     *admin.API

	// Clients that no operator registers.
	documents     *client.Documents
	registrations *client.Registrations // nil: none
}

// A swapped handler passes each request to the handler that was put in last.
type swapped struct{ now atomic.Pointer[http.Handler] }

func (s *swapped) swap(h http.Handler) { s.now.Store(&h) }

func (s *swapped) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*s.now.Load()).ServeHTTP(w, r) }

// checkups holds the state of doctor's checks within the server.
type checkups struct {
	mu      sync.Mutex
	cfg     config.Config // in force
	last    adminapi.Checkup
	ctx     context.Context
	running *sync.WaitGroup
}

// inForce is the configuration with which a node runs, and how to read it again.
type inForce struct {
	cfg  config.Config
	from config.Sources
	load func() (config.Config, config.Sources, error)
}

// devActor is the actor in the events of the demo client and user.
const devActor = "serve --dev"
