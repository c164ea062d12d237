// Package server is the HTTP transport of the public endpoints: it limits,
// parses and authenticates requests, and writes answers, errors, log lines,
// metrics and audit records. It defines no endpoint: the packages below it export
// routes, which Mount sets.
package server

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
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
	CORSOrigins     []string // in addition to those of public clients' redirect URIs

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
	Issuer    string // the realm's issuer identifier
}

// Endpoint returns the address of a route's path. The path names the realm, and not
// the query: RFC 6749 section 3.2 allows a query, but many client libraries drop it.
func (s Site) Endpoint(path string) string {
	return s.PublicURL + s.BasePath + "/oauth2" + s.Realm + "/" + path
}

// strictTransport reports whether answers have Strict-Transport-Security (RFC 6797). On
// localhost, it would break a developer's other servers, because it applies to every port
// of a host. Browsers ignore it for IP addresses (section 8.1.1).
func (s Site) strictTransport() bool {
	u, err := url.Parse(s.PublicURL)
	if err != nil {
		return false
	}
	host := u.Hostname()
	_, err = netip.ParseAddr(host)
	return err != nil && host != "localhost" && !strings.HasSuffix(host, ".localhost")
}

// Server serves the mounted routes of one realm.
type Server struct {
	Options
	directory *directory.Directory
	log       *slog.Logger
	deadlines deadlines
	strict    bool // answers have Strict-Transport-Security

	routes   []Route
	patterns map[string]Route
	handler  http.Handler

	undeclared sync.Once            // logs that a proxy is not declared
	throttled  overload.OnceAMinute // networks whose throttling is recorded
	behind     behind               // lines about a store that has lost commits
}

// New returns a Server without routes; see Mount.
func New(d *directory.Directory, opt Options, log *slog.Logger) *Server {
	s := &Server{Options: opt, directory: d, log: log}
	s.strict = s.Site.strictTransport()
	return s
}

// Route is one endpoint. To add an endpoint, add a Route.
type Route struct {
	Name string // in the log, metrics and traces
	// Paths without a leading slash are below {base}/oauth2/, where the query may
	// name the realm, and below the two longer forms whose path names it. Other
	// paths are complete. "/" answers browsers on paths that no route has.
	Paths   []string
	Methods []string // nil: any
	Class   overload.Class
	// Member is the metadata member (RFC 8414 section 2) that holds the address of
	// the first path; "" if metadata does not name the route. Metadata holds
	// further members that the route adds.
	Member   string
	Metadata map[string]any
	Handle   Handler
	// Error writes the answer about an error. Nil: JSON (RFC 6749 section 5.2).
	Error ErrorWriter
	// Count counts the outcomes of requests with a method of the route. It may be
	// nil; what all routes have in common is counted anyway.
	Count func(*metrics.Metrics, *Outcome)
	// Refusals is the level at which refusals are logged: debug where
	// unauthenticated callers often send invalid tokens.
	Refusals slog.Level

	NeedsRealm bool // the short form of the paths requires the realm parameter
	Scripts    bool // scripts of the configured origins may read the answers
	AnyOrigin  bool // scripts of every origin may
	Protected  bool // a protected resource, whose answers with 400 are challenges too (RFC 6750 section 3)
	Public     bool // scripts of every origin may; and no limit by address applies
	Page       bool // people see it; its requests share capacity by network
	Unadmitted bool // its handler makes the checks of admit that it needs

	Headers http.Header // of every answer; they replace the headers of a JSON answer

	allow string         // Methods, as the Allow header lists them
	realm string         // "": the request must name it in a parameter
	meter *metrics.Route // nil if nothing is counted
}

// Handler answers a request. It returns a Report also with an error.
type Handler func(context.Context, *Request) (Answer, Report, error)

// ErrorWriter makes the answer about an error. It may set headers.
type ErrorWriter func(http.Header, *Request, Report, error) Answer

// Answer is a response to send. The zero Status is 200. Header replaces the headers of
// every response. Cookies are also set if the handler returns an error.
type Answer struct {
	Status  int
	Body    []byte
	Header  http.Header
	Cookies []string
}

// Request is a request to a route. Its methods are the checks that endpoints have
// in common; each endpoint calls them in its own order of phases.
type Request struct {
	*http.Request
	Route   *Route
	ID      string
	Address netip.Addr // of the client
	// Counted is the address that rate limits count: Address or, if all clients may seem to
	// have the same, the zero address, for which nothing is counted.
	Counted netip.Addr
	// Challenge is appended to a Bearer challenge: ", name=value" or nothing.
	Challenge string
	// Asserts is set if the request's grant is an assertion (RFC 7523). If the request has no
	// client credentials, the client is that of the assertion's trust.
	Asserts bool

	server  *Server
	trace   string // id of the trace; "" if there is none
	state   string // to be echoed with an error, if the request had exactly one valid one
	bearer  bool   // the client used the Bearer scheme, which a challenge has to match
	slot    bool   // it has a slot of its class
	whole   bool   // its body has been read
	class   overload.Class
	network netip.Prefix // that the slot counts for
	cred    oauth.Credentials
	parsed  bool      // cred is set
	form    string    // that Form has read
	dpop    bool      // the access token came by the DPoP scheme, or should have
	nonce   string    // for the next proof, to be sent with the answer
	key     oauth.JKT // of the proof that was verified

	// These are here so that they are allocated with the request.
	outcome Outcome
	ids     [1]string // ID as the value of a header
}

// Report is what a handler reports about a request beside its answer, for the log
// line, the metrics, the audit log and the page about an error.
type Report struct {
	ClientID  string // as the request named it; see known
	Own       bool   // the client has authenticated, and registered itself
	GrantType string // as the request named it; see knownGrantType
	Tokens    issuer.Tokens
	GrantID   grant.ID // of the token that the request was about
	// ServiceRevoked reports that the request has revoked a token which a client got for
	// itself or by an exchange: no grant records this revocation.
	ServiceRevoked bool
	Inactive       error // why the token is not active, if the answer does not say

	// Fault reports that a fault of the server caused a redirect, whose status does not
	// show it.
	Fault bool

	Locale     string // of a page
	ClientName string // on a page; "" if unknown
}

// Outcome is how a request ended.
type Outcome struct {
	Report
	Status int
	Err    error           // nil: success
	Code   oauth.ErrorCode // of Err, as in the answer
}

// panicError is a recovered panic, which is a bug.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprint("panic: ", p.value) }

// RequestID returns 64 random bits in hexadecimal. They name a request and are no secret.
func RequestID() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64())
	var text [2 * len(b)]byte
	hex.Encode(text[:], b[:])
	return string(text[:])
}

// Headers of every answer, shared to save allocations.
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
	// requestSpan is how much longer the work may take: requests that begin within it share
	// a deadline, because a deadline for each request costs ten times as much.
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

// of returns the context of a request that begins now.
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
