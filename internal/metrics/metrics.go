// Package metrics counts what a server does, for Prometheus. It has no global
// state: a server has one Metrics.
//
// Callers cannot create values of labels. A counter whose labels have closed sets of
// values exists from the start, so that a rule about growth also finds the first event.
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

// A Metrics holds all counters of one server, or of one of its realms if it has several.
// Its methods are safe for concurrent use. A nil Metrics counts nothing, for tests and
// commands.
type Metrics struct {
	*shared
	realm string // its label; "" if there is none

	durations prometheus.ObserverVec
	routesMu  sync.Mutex
	routes    map[string]*Route

	tables map[string]table // by family
	issued map[issuance][]prometheus.Counter
}

// shared is what the Metrics of all realms share.
type shared struct {
	registry *prometheus.Registry
	totals   *prometheus.Registry // the part of it that Totals adds up
	realms   map[string]*Metrics  // empty if there is one realm
	clients  *clients             // nil if there are no labels of clients

	operations []prometheus.Observer // by operation
	swept      [2]lastSweep          // of sweptTables

	state atomic.Pointer[func() State]
}

// realmLabel is the label that names a realm, if there are several. Its values have a
// slash, as in the log and the audit log.
const realmLabel = "realm"

// Values of labels. Any other value is counted as Other.
const (
	Other = "other"
	ok    = "ok"

	ReplayedCode    = "code"
	ReplayedRefresh = "refresh"

	selfRegistered = "self_registered"
	noGrantType    = "none"
	otherGrantType = "unsupported"

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
	LimitDeviceCodes     = "device_codes"
)

// What is shed; see Shed.
const (
	ShedRequests             = "requests"               // the queue was full
	ShedLate                 = "late"                   // queued for too long
	ShedConnections          = "connections"            // too many at once
	ShedConnectionsOfAddress = "connections_of_address" // of one address
)

// Steps of a device authorization; see Device.
const (
	DeviceAsked   = "asked"   // codes were issued
	DeviceAllowed = "allowed" // by the user
	DeviceDenied  = "denied"
	DeviceWrong   = "wrong" // a code that no device has
	DeviceLimited = "limited"
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
	LoginThrottled = "throttled" // rejected without a check
	LoginRejected  = "rejected"  // by the system that authenticates the users, or because of its answer
	LoginFailed    = "failed"    // by a fault, of ours or of theirs
)

// MalformedCredentials is a reason of ClientAuthFailed, beside those of
// client.AuthFault.
const MalformedCredentials = "malformed"

var authReasons = []string{"unknown_client", "client_disabled", "wrong_method", "wrong_secret", "expired_secret", "wrong_assertion", MalformedCredentials}

var (
	grantTypes   = append([]string{noGrantType}, store.AllGrantTypes...)
	tokenResults = []string{
		ok, string(oauth.InvalidRequest), string(oauth.InvalidClient), string(oauth.InvalidGrant), string(oauth.UnauthorizedClient),
		string(oauth.UnsupportedGrantType), string(oauth.InvalidScope), string(oauth.InvalidTarget), string(oauth.ServerError), string(oauth.TemporarilyUnavailable),
		string(oauth.AuthorizationPending), string(oauth.SlowDown), string(oauth.AccessDenied), string(oauth.ExpiredToken),
		string(oauth.InvalidDPoPProof), string(oauth.UseDPoPNonce),
	}
)

// counted maps each counter to the values of its labels, in the order of the labels.
var counted = map[string][]set{
	tokenRequests:  {{grantTypes, otherGrantType}, {tokenResults, Other}},
	tokensIssued:   {{values: []string{"access", "refresh"}}, {values: []string{string(store.TokenOpaque), string(store.TokenJWT)}}},
	refreshes:      nil,
	refreshRepeats: nil,
	refreshShared:  nil,
	replays:        {{values: []string{ReplayedCode, ReplayedRefresh}}},
	proofs:         {{values: []string{ProofAccepted, ProofInvalid, ProofReplayed, ProofWithoutNonce}}},
	storeBehind:    nil,
	revocations:    {{values: []string{byClient, byUser, byReplay}}},
	introspections: {{values: []string{"true", "false"}}},
	authFailures:   {{authReasons, Other}},
	devices:        {{values: []string{DeviceAsked, DeviceAllowed, DeviceDenied, DeviceWrong, DeviceLimited}}},
	logouts:        {{values: []string{LogoutEnded, LogoutAsked, LogoutDenied, LogoutRefused}}},
	logins:         {{[]string{LoginOK, LoginWrong, LoginThrottled, LoginRejected, LoginFailed}, Other}},
	logoutTokens:   {{values: []string{"delivered", "refused", "pending", "given_up", "dropped"}}},
	throttled:      {{[]string{LimitAddressFailures, LimitClientFailures, LimitAddressRequests, LimitClientRequests, LimitLoginFailures, LimitInteractions, LimitDeviceCodes}, Other}},
	fetches:        {{[]string{"ok", "forbidden", "unreachable", "unusable"}, Other}},
	shed:           {{[]string{ShedRequests, ShedLate, ShedConnections, ShedConnectionsOfAddress}, Other}},
	storeFaults:    {{[]string{"busy"}, Other}},
	sweepRemoved:   {{values: sweptTables}},
}

// New makes the Metrics of a program's version. Clients is how many clients have labels
// of their own; 0: none, and no metric by client. If there are several realms, each has
// its own counters, with the label realm (see Realm).
func New(version string, clients int, realms ...string) *Metrics {
	s := &shared{registry: prometheus.NewRegistry(), totals: prometheus.NewRegistry(), realms: map[string]*Metrics{}}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if len(realms) == 1 {
		realms = nil
	}
	for _, name := range realms {
		s.realms[name] = newMetrics(s, name)
	}
	m := newMetrics(s, "")
	durations := s.histogram(httpDuration, []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5})
	for name, sets := range counted {
		vec := s.counters(name)
		if !s.byRealm(name) {
			m.tables[name] = newTable(vec, sets)
		}
		for _, of := range s.realms {
			if of.tables[name] = m.tables[name]; s.byRealm(name) {
				of.tables[name] = newTable(vec.MustCurryWith(of.labels()), sets)
			}
		}
	}
	m.durations = durations // with several realms, only the Metrics of realms observe
	for _, of := range s.realms {
		of.durations = durations.MustCurryWith(of.labels())
	}
	for _, of := range s.realms {
		of.issued = of.issuances()
	}
	if len(s.realms) == 0 {
		m.issued = m.issuances()
	}
	if clients > 0 {
		s.clients = s.newClients(clients, realms)
	}
	m.addStore()
	s.registry.MustRegister(stateCollector{m})

	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: buildInformation, Help: family(buildInformation).Help}, family(buildInformation).Labels)
	build.WithLabelValues(version, runtime.Version()).Set(1)
	s.registry.MustRegister(build)
	return m
}

func newMetrics(s *shared, realm string) *Metrics {
	return &Metrics{shared: s, realm: realm, routes: map[string]*Route{}, tables: map[string]table{}}
}

// Realm returns the Metrics of a realm: m itself if there is only one realm.
func (m *Metrics) Realm(name string) *Metrics {
	if m == nil || len(m.realms) == 0 {
		return m
	}
	return m.realms[name]
}

func (m *Metrics) labels() prometheus.Labels { return prometheus.Labels{realmLabel: m.realm} }

// byRealm reports whether a family is counted for each realm.
func (s *shared) byRealm(name string) bool { return len(s.realms) > 0 && family(name).OfRealms() }

// labelsOf returns the labels of a family, with the label realm if necessary.
func (s *shared) labelsOf(name string) []string {
	if s.byRealm(name) {
		return append(slices.Clone(family(name).Labels), realmLabel)
	}
	return family(name).Labels
}

// Gatherer returns the registry of all metrics.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

func (s *shared) counters(name string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: family(name).Help}, s.labelsOf(name))
	s.register(name, c)
	return c
}

func (s *shared) histogram(name string, buckets []float64) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: family(name).Help, Buckets: buckets}, s.labelsOf(name))
	s.register(name, h)
	return h
}

func (s *shared) register(name string, c prometheus.Collector) {
	s.registry.MustRegister(c)
	if slices.Contains(inTotals, name) {
		s.totals.MustRegister(c)
	}
}

// A set is the values that a label can have. Rest, unless it is empty, replaces
// every value that is not among them.
type set struct {
	values []string
	rest   string
}

// all returns the values of a label, with rest.
func (s set) all() []string {
	if s.rest == "" {
		return s.values
	}
	return append(slices.Clone(s.values), s.rest)
}

// A table holds the counters of a family with up to two labels. They are made in
// advance, so that finding one allocates nothing.
type table struct {
	cells map[[2]string]prometheus.Counter
	rest  [2]string
}

// newTable makes a counter for every combination of values.
func newTable(vec *prometheus.CounterVec, sets []set) table {
	t := table{cells: map[[2]string]prometheus.Counter{}}
	cells := [][2]string{{}}
	for i, s := range sets {
		t.rest[i] = s.rest
		var longer [][2]string
		for _, cell := range cells {
			for _, cell[i] = range s.all() {
				longer = append(longer, cell)
			}
		}
		cells = longer
	}
	for _, cell := range cells {
		t.cells[cell] = vec.WithLabelValues(cell[:len(sets)]...)
	}
	return t
}

// inc counts one event of a combination of values.
func (m *Metrics) inc(name string, values ...string) { m.add(name, 1, values...) }

// add counts events. Values that are not in the table count as the rest of their set.
func (m *Metrics) add(name string, n float64, values ...string) {
	if m == nil {
		return
	}
	if c := m.cell(name, values...); c != nil {
		c.Add(n)
	}
}

// cell returns the counter of a combination of values, or nil.
func (m *Metrics) cell(name string, values ...string) prometheus.Counter {
	t, v := m.tables[name], [2]string{}
	copy(v[:], values)
	for _, cell := range [][2]string{v, {v[0], t.rest[1]}, {t.rest[0], v[1]}, t.rest} {
		if c := t.cells[cell]; c != nil {
			return c
		}
	}
	return nil
}
