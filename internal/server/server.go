// Package server speaks HTTP: it parses requests strictly, calls the use
// cases, and turns what they return into bytes. Handlers return answers; only
// respond writes them. The package knows nothing of stores and keys.
package server

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/authorize"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/tracing"
)

// Options are a deployment's choices about the public endpoints.
type Options struct {
	PublicURL      string // scheme and host that clients use
	BasePath       string // "" or like "/openam"
	TrustedProxies []netip.Prefix
	// PlainHTTP says that the listener does not speak TLS: a trusted proxy
	// does, or requests come from this machine.
	PlainHTTP bool
	// BasicAuthStatus is the status for a failed Authorization header: 401,
	// or 400 for an acceptance test that reads the specification literally.
	BasicAuthStatus int
	CORSOrigins     []string // beside those of public clients' redirect URIs
	ScopesSupported []string // in the metadata; none: all that clients are registered for

	QueryParameters              bool // compat.query_parameters
	InvalidRequestForDeadRefresh bool // compat.invalid_request_for_dead_refresh
	TokenInfoQuery               bool // compat.tokeninfo_query
	RedirectURIMismatch          bool // compat.redirect_uri_mismatch

	overload.RateLimits
	overload.Capacity
	// OnShed and OnThrottled, if set, are called with what was turned away, and
	// with the name of the limit that a request met.
	OnShed, OnThrottled func(string)

	// Probes are what the admin API announces; nil if there are none.
	Probes *Probes
	// Front is the part that people see; nil if there is none.
	Front *Front
	// Audit is where security events are recorded; nil: nowhere.
	Audit *audit.Log
	// Metrics is where requests are counted; nil: nowhere.
	Metrics *metrics.Metrics
	// Tracer is what tells a collector of requests; nil: nothing is told.
	Tracer *tracing.Tracer
}

// A Server answers the public endpoints of one issuer.
type Server struct {
	issuer    *issuer.Issuer
	opt       Options
	log       *slog.Logger
	throttle  *overload.Throttle
	queue     *overload.Queue
	deadlines deadlines
	handler   http.Handler

	sameOrigin *http.CrossOriginProtection // of the pages' forms
	strict     bool                        // browsers are told to use https alone

	description atomic.Pointer[description] // the metadata; nil before the first request
	revoked     atomic.Pointer[publishedList]

	undeclared sync.Once // to warn of a proxy
	told       firsts    // throttled addresses
}

// New makes a Server.
func New(iss *issuer.Issuer, opt Options, log *slog.Logger) *Server {
	s := &Server{issuer: iss, opt: opt, log: log, throttle: overload.NewThrottle(opt.RateLimits, said(opt.OnThrottled))}
	var busy alarm
	s.queue = overload.NewQueue(opt.Capacity, func(what string) {
		said(opt.OnShed)(what)
		if n := busy.ring(time.Now()); n > 0 {
			log.Warn("too much to do: requests are answered 503", "times", n)
		}
	})
	s.strict = opt.strictTransport()
	s.sameOrigin = http.NewCrossOriginProtection()
	// A proxy may have put another Host into the request.
	if err := s.sameOrigin.AddTrustedOrigin(opt.PublicURL); err != nil && opt.Front != nil {
		panic(err) // the check of the configuration refuses such an address
	}
	s.handler = exactPaths(s.routes(), s.anyPaths(), s.elsewhere(), s.endpoint(route{name: "request", handle: notPath}))
	return s
}

// Inherit has s, which is not in use yet, take the place of old: what old has
// counted against guessing goes on counting, and the requests that it works on
// take their places, under the limits of s. Old may finish what it has begun.
func (s *Server) Inherit(old *Server) {
	old.throttle.SetLimits(s.opt.RateLimits)
	old.queue.SetCapacity(s.opt.Capacity)
	s.throttle, s.queue = old.throttle, old.queue
}

func said(hook func(string)) func(string) {
	if hook == nil {
		return func(string) {}
	}
	return hook
}

func notFound(context.Context, *http.Request, *exchange) (answer, error) {
	return answer{}, oauth.ErrNotFound
}

func notPath(context.Context, *http.Request, *exchange) (answer, error) {
	return answer{}, oauth.ErrTargetForm
}

// Handler is the route table.
func (s *Server) Handler() http.Handler { return s.handler }

// exactPaths sends every spelling of a path but its own to notFound. The mux
// would redirect some, and make clients send their secrets twice. Below the
// prefixes of anything, a path is somebody else's, and may be spelt anyhow.
func exactPaths(mux *http.ServeMux, anything map[string]http.Handler, notFound, notPath http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/") {
			notPath.ServeHTTP(w, r) // of OPTIONS and CONNECT (RFC 9112 section 3.2)
			return
		}
		if r.URL.RawPath == "" && path.Clean(r.URL.Path) == r.URL.Path {
			mux.ServeHTTP(w, r)
			return
		}
		for prefix, h := range anything {
			if rest, below := strings.CutPrefix(r.URL.Path, prefix); below {
				r.SetPathValue("rest", rest)
				h.ServeHTTP(w, r)
				return
			}
		}
		notFound.ServeHTTP(w, r)
	})
}

// An exchange is what is known of one request, for its answer and its log
// line. Handlers fill it in.
type exchange struct {
	route
	id        string
	trace     string // id of the trace; "" if there is none
	address   netip.Addr
	counted   netip.Addr // address, or none if every client may seem to have it
	state     string     // to be echoed, if the request had exactly one good one
	header    bool       // an Authorization header was used
	challenge string     // of a 401; "" asks for Basic
	grantType string
	clientID  string
	tokens    issuer.Tokens
	grantID   grant.ID // of the token that the request was about
	inactive  error    // why a token is not alive, where the caller is not told
	inside    bool     // it has a place, among those of its class
	class     overload.Class
	network   netip.Prefix // of a visitor who has a place

	locale  string   // of a page
	client  string   // its client's name, if known
	cookies []string // to be set
}

// An answer is what a handler wants to be sent. The zero status is 200. Its
// header takes the place of what every answer carries.
type answer struct {
	status int
	body   []byte
	header http.Header
}

type handlerFunc func(context.Context, *http.Request, *exchange) (answer, error)

// endpoint wraps a handler with what every request needs: an id, a deadline,
// the answer, the log line, and a net under panics.
func (s *Server) endpoint(rt route) http.Handler {
	rt.meter = s.opt.Metrics.Route(rt.name)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		x := &exchange{route: rt, id: requestID(), address: s.address(r)}
		if !s.alike(x.address) {
			x.counted = x.address
		}
		s.noteProbe(r, x)
		ctx, span := s.opt.Tracer.Request(s.deadlines.of(began), r.Header, r.Method, rt.name)
		x.trace = span.ID()
		a, err := s.safely(s.originOf(ctx, x), rt.handle, r, x)
		status := s.respond(w, r, x, a, err)
		s.record(x, r, status, err, time.Since(began))
		span.End(status, knownGrantType(x.grantType), x.id)
		s.audit(x, status, err)
	})
}

// A panicError is a bug, caught.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprint("panic: ", p.value) }

func (s *Server) safely(ctx context.Context, h handlerFunc, r *http.Request, x *exchange) (a answer, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
		if x.inside {
			s.queue.Leave(x.class, x.network)
		}
	}()
	if s.preflight(r, x) {
		return answer{status: http.StatusNoContent}, nil
	}
	if x.page {
		s.language(r, x, "")
		if err := s.admit(r, x); err != nil {
			return answer{}, err
		}
	}
	return h(ctx, r, x)
}

// requestID is 64 random bits. It names a request and is no secret.
func requestID() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64())
	return hex.EncodeToString(b[:])
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

// respond writes the answer or the error, and returns the status.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, x *exchange, a answer, err error) int {
	h := w.Header()
	h["Content-Type"] = headerJSON
	h["Cache-Control"] = headerNoStore
	h["Pragma"] = headerNoCache
	h["X-Content-Type-Options"] = headerNosniff
	h["X-Request-Id"] = []string{x.id}
	if s.strict && s.encrypted(r) {
		h["Strict-Transport-Security"] = headerStrict
	}
	s.cors(h, r, x)
	if x.page {
		pageHeaders(h)
	}
	if len(r.TransferEncoding) > 0 {
		// With a Content-Length beside it, two readers could disagree about
		// where this request ends (RFC 9112 section 6.1), and net/http hides
		// that header. Nothing that follows on the connection is read.
		h["Connection"] = headerClose
	}
	switch {
	case err != nil && x.page:
		a = s.pageAnswer(h, r, x, err)
	case err != nil:
		a = s.errorAnswer(h, x, err)
	}
	for _, c := range x.cookies {
		h.Add("Set-Cookie", c)
	}
	for name, values := range a.header {
		h[name] = values
	}
	switch a.status {
	case 0:
		a.status = http.StatusOK
	case http.StatusNoContent:
		delete(h, "Content-Type") // of what is not there
	}
	if len(a.body) > 2048 {
		h["Content-Length"] = []string{strconv.Itoa(len(a.body))} // net/http counts no more than that
	}
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead && len(a.body) > 0 {
		w.Write(a.body)
	}
	return a.status
}

// record counts the request and writes its log line: faults as errors, refusals
// for people who search, successes only for those who debug.
func (s *Server) record(x *exchange, r *http.Request, status int, err error, took time.Duration) {
	s.count(x, r, status, err, took)
	level, message := severity(x, status, err)
	if !s.log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", x.id), slog.Int("status", status), slog.String("method", printable(r.Method)),
		slog.String("remote_ip", x.address.String()), slog.String("realm", s.issuer.Realm), slog.String("grant_type", knownGrantType(x.grantType)),
		slog.String("client_id", s.known(x.clientID)), slog.Float64("dur_ms", float64(took.Microseconds())/1000),
	}
	if x.trace != "" {
		attrs = append(attrs, slog.String("trace_id", x.trace))
	}
	var refused *grant.Refused
	var bug *panicError
	switch {
	case x.inactive != nil:
		attrs = append(attrs, slog.String("reason", x.inactive.Error()), slog.String("grant_id", x.grantID.String()))
	case err == nil && x.grantID != (grant.ID{}):
		attrs = append(attrs, slog.String("grant_id", x.grantID.String()))
	case err == nil && x.tokens.GrantID != (grant.ID{}):
		attrs = append(attrs, slog.String("grant_id", x.tokens.GrantID.String()), slog.Uint64("generation", uint64(x.tokens.Generation)))
	case errors.As(err, &refused):
		_, told := s.wireError(x, err)
		attrs = append(attrs, slog.String("error", string(told.Code)), slog.String("reason", refused.Why.String()),
			slog.String("grant_id", refused.GrantID.String()))
	case errors.As(err, &bug):
		attrs = append(attrs, slog.String("error", err.Error()), slog.String("stack", string(bug.stack)))
	case err != nil:
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	s.log.LogAttrs(context.Background(), level, message, attrs...)
}

func severity(x *exchange, status int, err error) (slog.Level, string) {
	switch {
	case err != nil:
		return severityOfFault(x, status, err)
	case x.tokens.Repeated:
		// A thief who holds the client's secret looks like this too.
		return slog.LevelInfo, "token request repeated, same pair answered"
	}
	return slog.LevelDebug, x.name + " answered"
}

func severityOfFault(x *exchange, status int, err error) (slog.Level, string) {
	var refused *grant.Refused
	var told *authorize.ClientError
	var bug *panicError
	switch {
	case errors.Is(err, overload.ErrShed):
		return slog.LevelDebug, x.name + " turned away" // the alarm is for all of them
	case errors.As(err, &bug):
		return slog.LevelError, "bug"
	case status >= 500 && errors.As(err, &refused):
		return slog.LevelError, "a genuine token has no record: the store has lost commits; was an older backup or a replica put in place?"
	case status >= 500, errors.As(err, &told) && told.Cause != nil:
		return slog.LevelError, x.name + " failed"
	}
	return x.refusals, x.name + " refused"
}

// knownGrantType keeps what was mistaken for a grant type out of the log: it
// may be a secret.
func knownGrantType(s string) string {
	if s == "" || slices.Contains(store.GrantTypes, s) {
		return s
	}
	return "unsupported"
}

// printable keeps what strangers send from filling the log.
func printable(s string) string {
	if len(s) > 64 {
		return s[:64] + "..."
	}
	return s
}
