package metrics

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mintage/mintage/internal/store"
)

// A Route observes the durations of requests to one endpoint. This allocates nothing,
// except for the first request with a method and status.
type Route struct {
	name string
	of   prometheus.ObserverVec
	// known is copied on write: every request reads it, and it only grows by one entry
	// for each method and status of the endpoint.
	known atomic.Pointer[map[ending]prometheus.Observer]
}

type ending struct {
	method string
	status int
}

// Route returns the Route of an endpoint by its name, which must not be the path of a
// request.
func (m *Metrics) Route(name string) *Route {
	if m == nil {
		return nil
	}
	m.routesMu.Lock()
	defer m.routesMu.Unlock()
	r := m.routes[name]
	if r == nil {
		r = &Route{name: name, of: m.durations}
		r.known.Store(&map[ending]prometheus.Observer{})
		m.routes[name] = r
	}
	return r
}

// Answered counts a request, and observes how long its answer took.
func (r *Route) Answered(method string, status int, took time.Duration) {
	if r == nil {
		return
	}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions:
	default:
		method = "_OTHER" // the value of OpenTelemetry's conventions for unknown methods
	}
	e := ending{method, status}
	for {
		known := r.known.Load()
		o := (*known)[e]
		if o != nil {
			o.Observe(took.Seconds())
			return
		}
		next := maps.Clone(*known)
		next[e] = r.of.WithLabelValues(r.name, e.method, strconv.Itoa(e.status))
		r.known.CompareAndSwap(known, &next) // if it fails, another goroutine has stored a map, perhaps with this entry
	}
}

// A TokenRequest is how a request to the token endpoint ended.
type TokenRequest struct {
	GrantType string // as the request has it
	Error     string // the error code of the answer; empty: tokens were issued
	Format    store.TokenFormat
	Repeated  bool   // with the same pair of tokens again
	Shared    bool   // to a second holder of the token
	ClientID  string // as the request has it
	Own       bool   // it is a client that registered itself
}

// TokenRequest counts a request to the token endpoint.
func (m *Metrics) TokenRequest(r TokenRequest) {
	if m == nil {
		return
	}
	m.clients.count(m.realm, r.ClientID, r.Own, cmp.Or(r.Error, ok))
	if r.Error != "" {
		m.inc(tokenRequests, cmp.Or(r.GrantType, noGrantType), r.Error)
		return
	}
	for _, c := range m.issued[issuance{r.GrantType, cmp.Or(r.Format, store.TokenOpaque), r.Repeated, r.Shared}] {
		c.Inc()
	}
}

// An issuance is a kind of successful token request. Its counters are looked up only
// once; see issuances.
type issuance struct {
	grantType        string
	format           store.TokenFormat
	repeated, shared bool
}

// issuances returns the counters of each possible issuance.
func (m *Metrics) issuances() map[issuance][]prometheus.Counter {
	all := map[issuance][]prometheus.Counter{}
	for _, grantType := range store.GrantTypes {
		for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
			for _, repeated := range []bool{false, true} {
				for _, shared := range []bool{false, true} {
					i := issuance{grantType, format, repeated, shared}
					all[i] = m.ofIssuance(i)
				}
			}
		}
	}
	return all
}

func (m *Metrics) ofIssuance(i issuance) []prometheus.Counter {
	list := []prometheus.Counter{m.cell(tokenRequests, i.grantType, ok)}
	if i.shared {
		list = append(list, m.cell(refreshShared))
	}
	switch {
	case i.repeated && i.shared:
		return list
	case i.repeated:
		return append(list, m.cell(refreshRepeats))
	case i.grantType == store.GrantRefreshToken:
		list = append(list, m.cell(refreshes))
	}
	list = append(list, m.cell(tokensIssued, "access", string(i.format)))
	if i.grantType != store.GrantClientCredentials {
		list = append(list, m.cell(tokensIssued, "refresh", string(store.TokenOpaque)))
	}
	return list
}

// Replay counts a code or a refresh token that was presented after its use:
// ReplayedCode or ReplayedRefresh.
func (m *Metrics) Replay(kind string) { m.inc(replays, kind) }

// Results of proofs of keys.
const (
	ProofAccepted     = "accepted"
	ProofInvalid      = "invalid"
	ProofReplayed     = "replayed"
	ProofWithoutNonce = "no_nonce"
)

// Proof counts a proof of a key (RFC 9449), by one of the results ProofAccepted...
func (m *Metrics) Proof(result string) { m.inc(proofs, result) }

// StoreBehind counts an authentic token that the store has no record of.
func (m *Metrics) StoreBehind() { m.inc(storeBehind) }

// Introspection counts an answered introspection.
func (m *Metrics) Introspection(alive bool) { m.inc(introspections, strconv.FormatBool(alive)) }

// ClientAuthFailed counts a client that was not authenticated, for a reason of
// client.AuthFault or because its credentials are malformed.
func (m *Metrics) ClientAuthFailed(reason string) { m.inc(authFailures, reason) }

// Login counts a user's attempt to log in, by one of the results LoginOK...
func (m *Metrics) Login(result string) { m.inc(logins, result) }

// Device counts a step of a device authorization, one of DeviceAsked...
func (m *Metrics) Device(result string) { m.inc(devices, result) }

// Logout counts a logout, or a request for one, by one of the results LogoutEnded...
func (m *Metrics) Logout(result string) { m.inc(logouts, result) }

// Throttled counts a request that exceeded one of the limits LimitClientFailures...
func (m *Metrics) Throttled(limit string) { m.inc(throttled, limit) }

// Fetched counts a fetch from an address that a client named, by its outcome: ok,
// forbidden, unreachable or unusable.
func (m *Metrics) Fetched(outcome string) { m.inc(fetches, outcome) }

// Shed counts a request or connection that was shed (load shedding): one of
// ShedRequests...
func (m *Metrics) Shed(what string) { m.inc(shed, what) }

// LogoutToken counts an attempt to notify a client of a logout, by its state in package
// logout.
func (m *Metrics) LogoutToken(state string) { m.inc(logoutTokens, state) }

// clients counts token requests by client. Only clients that have received tokens
// have a label of their own, so that callers cannot make labels up. The first max
// clients keep theirs until the process ends: a counter never changes its meaning. All
// self-registered clients share one label, which does not count towards max.
type clients struct {
	vec *prometheus.CounterVec
	max int

	mu        sync.RWMutex
	of        map[clientName]results // those that have a label of their own
	rest, own map[string]results     // by realm
}

type (
	clientName struct{ realm, id string }
	results    map[string]prometheus.Counter // by result
)

func (s *shared) newClients(max int, realms []string) *clients {
	c := &clients{vec: s.counters(clientRequests), max: max, of: map[clientName]results{}, rest: map[string]results{}, own: map[string]results{}}
	for _, realm := range append(slices.Clone(realms), "") {
		if realm != "" || len(realms) == 0 {
			c.rest[realm], c.own[realm] = c.row(realm, Other), c.row(realm, selfRegistered)
		}
	}
	return c
}

func (c *clients) row(realm, clientID string) results {
	row := results{}
	for _, result := range append([]string{Other}, tokenResults...) {
		labels := []string{clientID, result}
		if realm != "" {
			labels = append(labels, realm)
		}
		row[result] = c.vec.WithLabelValues(labels...)
	}
	return row
}

func (c *clients) count(realm, clientID string, own bool, result string) {
	if c == nil {
		return
	}
	row := c.own[realm]
	if !own {
		row = c.rowOf(clientName{realm, clientID}, result)
	}
	cmp.Or(row[result], row[Other]).Inc()
}

func (c *clients) rowOf(name clientName, result string) results {
	c.mu.RLock()
	row, known := c.of[name]
	full := len(c.of) >= c.max
	c.mu.RUnlock()
	if !known && !full && result == ok {
		row, known = c.admit(name)
	}
	if !known {
		row = c.rest[name.realm]
	}
	return row
}

func (c *clients) admit(name clientName) (row results, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if row, known = c.of[name]; known || len(c.of) >= c.max {
		return row, known
	}
	row = c.row(name.realm, name.id)
	c.of[name] = row
	return row, true
}
