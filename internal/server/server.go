// Package server is the HTTP transport of the public endpoints: it limits,
// parses and authenticates requests, and writes answers, errors, log lines,
// metrics and audit records. It names no endpoint: what is mounted is a list of
// routes, which the packages below it export.
package server

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/tracing"
)

// Options are a deployment's choices about transport.
type Options struct {
	Site
	Proxies
	// BasicAuthStatus is the status for a failed Authorization header: 401,
	// or 400 for an acceptance test that reads the specification literally.
	BasicAuthStatus int
	CORSOrigins     []string // beside those of public clients' redirect URIs

	Queue    *overload.Queue
	Throttle *overload.Throttle

	Clients *client.Authenticator
	Proofs  Proofs
	Outage  *store.Outage    // nil: each failure is logged
	Probes  *Probes          // nil: there are none
	Watches *Watches         // nil: nobody watches
	Audit   *audit.Log       // nil: nothing is recorded
	Metrics *metrics.Metrics // nil: nothing is counted
	Tracer  *tracing.Tracer  // nil: nothing is traced
}

// Site is where the endpoints are.
type Site struct {
	PublicURL string // scheme and host that clients use
	BasePath  string // "" or like "/openam"
	Realm     string // like "/api"
}

// Endpoint is the address of a route's path, in the form whose path names the
// realm: RFC 6749 section 3.2 allows a query, and many client libraries drop it.
func (s Site) Endpoint(path string) string {
	return s.PublicURL + s.BasePath + "/oauth2" + s.Realm + "/" + path
}

// Server serves the mounted routes of one realm.
type Server struct {
	Options
	directory *directory.Directory
	log       *slog.Logger
	deadlines deadlines
	strict    bool // browsers are told to use https alone

	routes   []Route
	patterns map[string]Route
	handler  http.Handler

	undeclared sync.Once // warns of a proxy
	throttled  struct {  // addresses whose throttling was recorded in the last minute
		sync.Mutex
		overload.Limiter[netip.Prefix]
	}
}

// New returns a Server without routes; see Mount.
func New(d *directory.Directory, opt Options, log *slog.Logger) *Server {
	s := &Server{Options: opt, directory: d, log: log}
	s.strict = s.Site.strictTransport()
	s.throttled.Change(overload.PerMinute(1))
	return s
}

// NewQueue returns a queue that logs that it sheds requests, at most every ten
// seconds, and calls onShed with the reason for each, unless that is nil.
func NewQueue(c overload.Capacity, onShed func(why string), log *slog.Logger) *overload.Queue {
	var busy alarm
	return overload.NewQueue(c, func(why string) {
		if onShed != nil {
			onShed(why)
		}
		if n := busy.ring(time.Now()); n > 0 {
			log.Warn("too much to do: requests are answered 503", "times", n)
		}
	})
}

// panicError is a bug, caught.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprint("panic: ", p.value) }

// RequestID is 64 random bits. It names a request and is no secret.
func RequestID() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64())
	var text [2 * len(b)]byte
	hex.Encode(text[:], b[:])
	return string(text[:])
}

// Headers that every answer carries, shared so that none is allocated.
var (
	headerJSON    = []string{"application/json"}
	headerNoStore = []string{"no-store"}
	headerNoCache = []string{"no-cache"} // OpenAM and OAuch expect Pragma; OAuth 2.1 dropped it
	headerNosniff = []string{"nosniff"}
	headerClose   = []string{"close"}
	headerStrict  = []string{"max-age=31536000"} // a year; RFC 6797 section 6.1
)

const (
	// requestTime bounds the work on one request, from its last header on.
	requestTime = 5 * time.Second
	// requestSpan is how much later it may end: requests that begin within it share a
	// deadline, because one for each request costs ten times as much.
	requestSpan = 100 * time.Millisecond
)
