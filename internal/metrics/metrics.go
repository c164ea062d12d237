// Package metrics counts what a server does, for Prometheus. It has no global
// state: a server has one Metrics.
//
// Labels have values of closed sets only, and every counter exists from the start:
// a rule that looks for growth also finds the first event.
package metrics

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A Metrics is all counters of one server. Its methods are safe for concurrent
// use, and a nil one counts nothing: tests and commands need none.
type Metrics struct {
	registry *prometheus.Registry

	durations *prometheus.HistogramVec
	routesMu  sync.Mutex
	routes    map[string]*Route

	tokenRequests   table
	issued          table
	refreshes       prometheus.Counter
	repeats         prometheus.Counter
	shared          prometheus.Counter
	replays         table
	behind          prometheus.Counter
	revocations     table
	introspections  table
	authFailures    table
	logins          table
	logouts         table
	logoutTokens    table
	throttled, shed table
	fetches         table
	clients         *clients // nil if there are no labels of clients

	operations   []prometheus.Observer // by operation
	faults       table
	sweepRemoved table

	swept [2]walked // of sweptTables

	tables []table // all tables, for Labels
	state  atomic.Pointer[func() State]
}

// Values of labels. Any other value is counted as Other.
const (
	Other = "other"
	ok    = "ok"

	ReplayedCode    = "code"
	ReplayedRefresh = "refresh"

	noGrantType      = "none"
	otherGrantType   = "unsupported"
	active, inactive = "true", "false"

	byClient, byUser, byReplay = "client", "user", "replay"
)

// Limits that can reject a request; see Throttled.
const (
	LimitAddressFailures = "address_failures"
	LimitClientFailures  = "client_failures"
	LimitAddressRequests = "address_requests"
	LimitClientRequests  = "client_requests"
	LimitLoginFailures   = "login_failures"
	LimitInteractions    = "interactions"
)

// What is shed; see Shed.
const (
	ShedRequests             = "requests"               // too many waited
	ShedLate                 = "late"                   // waited for too long
	ShedConnections          = "connections"            // too many at once
	ShedConnectionsOfAddress = "connections_of_address" // of one address
)

// Results of a logout; see Logout.
const (
	LogoutEnded   = "ended"   // a session
	LogoutAsked   = "asked"   // the user, because of a client's request
	LogoutDenied  = "denied"  // by the user
	LogoutRefused = "refused" // the client's request is not valid
)

// Results of a login; see Login.
const (
	LoginOK        = "ok"
	LoginWrong     = "wrong"     // password or code of an app
	LoginThrottled = "throttled" // not looked at
	LoginRejected  = "rejected"  // by the system that authenticates the users
	LoginFailed    = "failed"    // by a fault, of ours or of theirs
)

// MalformedCredentials is the reason of ClientAuthFailed that is none of
// issuer.AuthFault.
const MalformedCredentials = "malformed"

var authReasons = []string{"unknown_client", "client_disabled", "wrong_method", "wrong_secret", "expired_secret", "wrong_assertion", MalformedCredentials}

var (
	grantTypes = append([]string{noGrantType}, store.GrantTypes...)
	results    = []string{
		ok, string(oauth.InvalidRequest), string(oauth.InvalidClient), string(oauth.InvalidGrant), string(oauth.UnauthorizedClient),
		string(oauth.UnsupportedGrantType), string(oauth.InvalidScope), string(oauth.InvalidTarget), string(oauth.ServerError), string(oauth.TemporarilyUnavailable),
	}
)

// New makes the Metrics of a program's version. Clients is how many clients
// have labels of their own; 0: none, and no metric of clients.
func New(version string, clients int) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), routes: map[string]*Route{}}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	m.durations = m.histogram(httpDuration, []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5})
	m.tokenRequests = m.table(tokenRequests, set{grantTypes, otherGrantType}, set{results, Other})
	m.issued = m.table(tokensIssued, set{values: []string{"access", "refresh"}}, set{values: []string{string(store.TokenOpaque), string(store.TokenJWT)}})
	m.refreshes = m.counter(refreshes)
	m.repeats = m.counter(refreshRepeats)
	m.shared = m.counter(refreshShared)
	m.replays = m.table(replays, set{values: []string{ReplayedCode, ReplayedRefresh}})
	m.behind = m.counter(storeBehind)
	m.revocations = m.table(revocations, set{values: []string{byClient, byUser, byReplay}})
	m.introspections = m.table(introspections, set{values: []string{active, inactive}})
	m.authFailures = m.table(authFailures, set{authReasons, Other})
	m.logouts = m.table(logouts, set{values: []string{LogoutEnded, LogoutAsked, LogoutDenied, LogoutRefused}})
	m.logins = m.table(logins, set{[]string{LoginOK, LoginWrong, LoginThrottled, LoginRejected, LoginFailed}, Other})
	m.logoutTokens = m.table(logoutTokens, set{values: []string{"delivered", "refused", "pending", "given_up", "dropped"}})
	m.throttled = m.table(throttled, set{[]string{
		LimitAddressFailures, LimitClientFailures, LimitAddressRequests, LimitClientRequests, LimitLoginFailures, LimitInteractions,
	}, Other})
	m.fetches = m.table(fetches, set{[]string{"ok", "forbidden", "unreachable", "unusable"}, Other})
	m.shed = m.table(shed, set{[]string{ShedRequests, ShedLate, ShedConnections, ShedConnectionsOfAddress}, Other})
	if clients > 0 {
		m.clients = m.newClients(clients)
	}
	m.addStore()
	m.registry.MustRegister(stateCollector{m})

	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: buildInformation, Help: family(buildInformation).Help}, family(buildInformation).Labels)
	build.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(build)
	return m
}

// Gatherer returns the registry of all metrics.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

func (m *Metrics) counter(name string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: family(name).Help})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counters(name string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: family(name).Help}, family(name).Labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) histogram(name string, buckets []float64) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: family(name).Help, Buckets: buckets}, family(name).Labels)
	m.registry.MustRegister(h)
	return h
}

// A set is the values that a label can have. Rest, unless it is empty, stands
// for whatever else a request may bring.
type set struct {
	values []string
	rest   string
}

// A table is the counters of a family with one label or two, made beforehand:
// to find one allocates nothing.
type table struct {
	name  string
	sets  []set
	cells map[[2]string]prometheus.Counter
	rest  [2]string
}

// table makes a counter for every combination of values.
func (m *Metrics) table(name string, first set, second ...set) table {
	t := table{name: name, sets: append([]set{first}, second...), cells: map[[2]string]prometheus.Counter{}, rest: [2]string{first.rest}}
	vec := m.counters(name)
	for _, v := range first.all() {
		if len(second) == 0 {
			t.cells[[2]string{v}] = vec.WithLabelValues(v)
			continue
		}
		t.rest[1] = second[0].rest
		for _, w := range second[0].all() {
			t.cells[[2]string{v, w}] = vec.WithLabelValues(v, w)
		}
	}
	m.tables = append(m.tables, t)
	return t
}

func (s set) all() []string {
	if s.rest == "" {
		return s.values
	}
	return append(slices.Clone(s.values), s.rest)
}

// add counts one event of a combination. Values that are not in the table count
// as the rest of their set.
func (t table) add(first, second string, n float64) {
	for _, cell := range [][2]string{{first, second}, {first, t.rest[1]}, {t.rest[0], second}, t.rest} {
		if c := t.cells[cell]; c != nil {
			c.Add(n)
			return
		}
	}
}

func (t table) inc(first, second string) { t.add(first, second, 1) }
