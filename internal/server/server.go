// Package server is the HTTP transport of the public endpoints: it limits,
// parses and authenticates requests, and writes answers, errors, log lines,
// metrics and audit records. It names no endpoint: what is mounted is a list of
// routes, which the packages below it export.
package server

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
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

// endpoint wraps a route's handler with what every request has: an id, a deadline, the
// answer, the log line, and recovery from panics.
func (s *Server) endpoint(rt Route) http.Handler {
	rt.meter = s.Metrics.Route(rt.Name)
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		began := time.Now()
		r := &Request{Request: hr, Route: &rt, ID: RequestID(), Address: s.address(hr), server: s}
		r.ids[0] = r.ID
		if !s.alike(r.Address) {
			r.Counted = r.Address
		}
		s.noteProbe(r)
		ctx, span := s.Tracer.Request(s.deadlines.of(began), hr.Header, hr.Method, rt.Name)
		r.trace = span.ID()
		o := &r.outcome
		var a Answer
		a, o.Report, o.Err = s.safely(s.originOf(ctx, r), r)
		o.Status = s.respond(w, r, a)
		s.record(r, time.Since(began))
		s.watch(r)
		span.End(o.Status, knownGrantType(o.GrantType), r.ID)
		s.audit(r)
	})
}

// panicError is a bug, caught.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprint("panic: ", p.value) }

func (s *Server) safely(ctx context.Context, r *Request) (a Answer, rec Report, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
		if r.slot {
			s.Queue.Leave(r.class, r.network)
		}
	}()
	if s.preflight(r) {
		return Answer{Status: http.StatusNoContent}, rec, nil
	}
	return r.Route.Handle(ctx, r)
}

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

// respond writes the answer or the error of the request's outcome, and returns the
// status.
func (s *Server) respond(w http.ResponseWriter, r *Request, a Answer) int {
	h := w.Header()
	h["Content-Type"] = headerJSON
	h["Cache-Control"] = headerNoStore
	h["Pragma"] = headerNoCache
	h["X-Content-Type-Options"] = headerNosniff
	h["X-Request-Id"] = r.ids[:]
	if r.nonce != "" {
		h["Dpop-Nonce"] = []string{r.nonce}
	}
	if s.strict && s.encrypted(r.Request) {
		h["Strict-Transport-Security"] = headerStrict
	}
	s.cors(h, r)
	maps.Copy(h, r.Route.Headers)
	if len(r.TransferEncoding) > 0 {
		// With a Content-Length beside it, a proxy and this server could disagree about
		// where this request ends (RFC 9112 section 6.1), and net/http hides that header.
		// Nothing that follows on the connection is read.
		h["Connection"] = headerClose
	}
	if err := r.outcome.Err; err != nil {
		write := s.oauthError
		if r.Route.Error != nil {
			write = r.Route.Error
		}
		cookies := a.Cookies
		a = write(h, r, r.outcome.Report, err)
		a.Cookies = cookies
	}
	for _, c := range a.Cookies {
		h.Add("Set-Cookie", c)
	}
	for name, values := range a.Header {
		h[name] = values
	}
	switch a.Status {
	case 0:
		a.Status = http.StatusOK
	case http.StatusNoContent:
		delete(h, "Content-Type") // of what is not there
	}
	if len(a.Body) > 2048 {
		h["Content-Length"] = []string{strconv.Itoa(len(a.Body))} // net/http counts no more than that
	}
	w.WriteHeader(a.Status)
	if r.Method != http.MethodHead && len(a.Body) > 0 {
		w.Write(a.Body)
	}
	return a.Status
}

const (
	// requestTime bounds the work on one request, from its last header on.
	requestTime = 5 * time.Second
	// requestSpan is how much later it may end: requests that begin within it share a
	// deadline, because one for each request costs ten times as much.
	requestSpan = 100 * time.Millisecond
)

// deadlines makes the contexts of requests. A disconnect does not cancel the work: the
// client will retry.
type deadlines struct{ latest atomic.Pointer[deadline] }

type deadline struct {
	context.Context
	began time.Time
	// It is not cancelled early: several requests share it.
	_ context.CancelFunc
}

// of is the context of a request that begins now.
func (d *deadlines) of(now time.Time) context.Context {
	latest := d.latest.Load()
	if latest != nil && now.Sub(latest.began) < requestSpan {
		return latest
	}
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(requestTime+requestSpan))
	next := &deadline{ctx, now, cancel}
	d.latest.Store(next)
	return next
}
