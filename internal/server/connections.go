package server

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/overload"
)

// ConnectionLimits are how many connections may be open at the public listener,
// and how many of them from one address. Zero: no limit.
type ConnectionLimits struct {
	All, OfAddress int
	// Proxies are not counted by address, because all of their clients share one.
	// If LoopbackIsProxy is set, loopback addresses are not counted either.
	Proxies         []netip.Prefix
	LoopbackIsProxy bool
}

// Reasons for closing a connection, as onShed receives them.
const (
	shedConnections          = "connections"
	shedConnectionsOfAddress = "connections_of_address"
)

// Connections limits the connections of a listener. A connection over the limit
// replaces the one on which the server has waited longest for its client: for a
// handshake, a request, or the rest of one. A flood of silent or slow connections
// thus evicts itself, while an honest client gets its answer long before it would be
// evicted, or reconnects. If the server waits for no client, the new one is closed.
//
// HTTP/2 requests, of which one connection carries many, have the same limits: a
// request over the limit evicts the connection on which the server has waited
// longest, of those with requests in progress. The server waits for a client while
// it answers none of the requests on its connection. The methods are safe for
// concurrent use.
type Connections struct {
	log  *slog.Logger
	shed func(what string)
	bell alarm

	mu        sync.Mutex
	limits    ConnectionLimits
	all       group
	ofAddress map[netip.Prefix]*group
	streams   int
	streamsOf map[netip.Prefix]int
}

// NewConnections returns Connections that call onShed, unless it is nil, with the
// reason for each connection that they close.
func NewConnections(l ConnectionLimits, onShed func(what string), log *slog.Logger) *Connections {
	if onShed == nil {
		onShed = func(string) {}
	}
	return &Connections{log: log, shed: onShed, limits: l, ofAddress: map[netip.Prefix]*group{}, streamsOf: map[netip.Prefix]int{}}
}

// Limit changes the limits, for connections that come from now on.
func (c *Connections) Limit(l ConnectionLimits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits = l
}

// Open returns the number of connections.
func (c *Connections) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.n
}

// Bound limits the connections of l, which srv serves. Call it before srv serves.
func (c *Connections) Bound(l net.Listener, srv *http.Server) net.Listener {
	handler := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			handler.ServeHTTP(w, r)
			return
		}
		leave, ok := c.stream(r)
		if !ok {
			h := w.Header()
			h["Content-Type"], h["Cache-Control"], h["X-Content-Type-Options"] = headerJSON, headerNoStore, headerNosniff
			h["Retry-After"] = []string{retryAfter(http.StatusServiceUnavailable, overload.ErrShed)}
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"error":"temporarily_unavailable","error_description":"try again later"}`)
			return
		}
		defer leave()
		handler.ServeHTTP(w, r)
	})
	srv.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, member(conn))
	}
	srv.ConnState = func(conn net.Conn, state http.ConnState) {
		m := member(conn)
		if m == nil {
			return
		}
		waits := state != http.StateActive
		if waits {
			m.release()
		}
		c.set(m, waits)
	}
	return &boundListener{l, c}
}

type connectionKey struct{}

// connectionOf returns the connection of a request; nil if its listener has no limits.
func connectionOf(r *http.Request) *connection {
	m, _ := r.Context().Value(connectionKey{}).(*connection)
	return m
}

// member returns the connection inside a net.Conn of net/http, or nil.
func member(conn net.Conn) *connection {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	m, _ := conn.(*connection)
	return m
}

type boundListener struct {
	net.Listener
	connections *Connections
}

// Accept returns the next connection that is not over a limit.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if m := l.connections.enter(conn); m != nil {
			return m, nil
		}
		conn.Close()
	}
}

// group counts connections and queues those whose clients the server waits for, the
// longest wait first.
type group struct {
	n       int
	waiting queue
}

// longest returns the connection on which the server has waited longest for its client,
// or nil.
func (c *group) longest() *connection {
	if c.waiting.first == nil {
		return nil
	}
	return c.waiting.first.of
}

func (c *Connections) exempt(a netip.Addr) bool {
	return c.limits.LoopbackIsProxy && a.IsLoopback() || contains(c.limits.Proxies, a)
}

// enter counts a new connection, or returns nil if it is over a limit.
func (c *Connections) enter(conn net.Conn) *connection {
	from := peer(conn.RemoteAddr())
	m := &connection{Conn: conn, in: c, address: overload.Network(from, 64), aborted: make(chan struct{}, 1)}
	m.inAll.of, m.inAddress.of = m, m
	c.mu.Lock()
	var pushed *connection
	what, ok := "", true
	if !c.exempt(from) {
		m.counted = c.ofAddress[m.address]
		if m.counted == nil {
			m.counted = &group{}
		}
		if c.limits.OfAddress > 0 && m.counted.n >= c.limits.OfAddress {
			what = shedConnectionsOfAddress
			pushed = m.counted.longest()
			ok = pushed != nil
		}
	}
	if ok && pushed == nil && c.limits.All > 0 && c.all.n >= c.limits.All {
		what = shedConnections
		pushed = c.all.longest()
		ok = pushed != nil
	}
	if pushed != nil {
		c.remove(pushed)
	}
	if ok {
		c.all.n++
		if m.counted != nil {
			m.counted.n++
			c.ofAddress[m.address] = m.counted // new, or removed with its only connection, pushed
		}
		c.wait(m)
	}
	c.mu.Unlock()
	if pushed != nil {
		pushed.Conn.Close()
	}
	if what != "" {
		c.note(what)
	}
	if !ok {
		return nil
	}
	return m
}

func (c *Connections) note(what string) {
	c.shed(what)
	if n := c.bell.ring(time.Now()); n > 0 {
		c.log.Warn("too many connections: some are closed; see limits.connections", "times", n)
	}
}

// set records whether the server waits for the connection's client.
func (c *Connections) set(m *connection, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.gone {
		return
	}
	c.stopWaiting(m)
	if waits {
		c.wait(m)
	}
}

func (c *Connections) leave(m *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(m)
}

func (c *Connections) remove(m *connection) {
	if m.gone {
		return
	}
	m.gone = true
	c.stopWaiting(m)
	c.all.n--
	c.countStreams(m, -m.streams)
	if m.counted != nil {
		if m.counted.n--; m.counted.n == 0 {
			delete(c.ofAddress, m.address)
		}
	}
}

// wait records that the server begins to wait for m's client.
func (c *Connections) wait(m *connection) {
	c.all.waiting.push(&m.inAll)
	if m.counted != nil {
		m.counted.waiting.push(&m.inAddress)
	}
}

func (c *Connections) stopWaiting(m *connection) {
	c.all.waiting.remove(&m.inAll)
	if m.counted != nil {
		m.counted.waiting.remove(&m.inAddress)
	}
}

// reading records that the server waits for the rest of a request, and returns the
// request's connection for stopReading.
func reading(r *http.Request) *connection {
	m := connectionOf(r)
	switch {
	case m == nil:
	case r.ProtoMajor == 1:
		m.in.set(m, true)
	default:
		m.in.answering(m, -1)
	}
	return m
}

// stopReading records that the server no longer waits for the rest of r. The connection
// m may be nil.
func stopReading(m *connection, r *http.Request) {
	switch {
	case m == nil:
	case r.ProtoMajor == 1:
		m.in.set(m, false)
	default:
		m.in.answering(m, 1)
	}
}

// answering adds change to the number of requests that the server is answering on an
// HTTP/2 connection.
func (c *Connections) answering(m *connection, change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered(m, change)
}

func (c *Connections) answered(m *connection, change int) {
	if m.gone {
		return
	}
	m.answering += change
	c.stopWaiting(m)
	if m.answering == 0 {
		c.wait(m)
	}
}

// stream counts an HTTP/2 request until leave is called. It returns false if the
// request is over a limit, or its connection is gone.
func (c *Connections) stream(r *http.Request) (leave func(), ok bool) {
	m := connectionOf(r)
	if m == nil {
		return func() {}, true
	}
	c.mu.Lock()
	var pushed *connection
	what := shedConnectionsOfAddress
	full := m.counted != nil && c.limits.OfAddress > 0 && c.streamsOf[m.address] >= c.limits.OfAddress
	if full {
		pushed = m.counted.longestWithRequests()
	} else if full = c.limits.All > 0 && c.streams >= c.limits.All; full {
		what, pushed = shedConnections, c.all.longestWithRequests()
	}
	if pushed != nil {
		c.remove(pushed)
	}
	ok = !m.gone && (!full || pushed != nil)
	if ok {
		c.countStreams(m, 1)
		c.answered(m, 1)
	}
	c.mu.Unlock()
	if full {
		c.note(what)
	}
	if pushed != nil {
		pushed.Conn.Close()
	}
	if !ok {
		return nil, false
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if m.gone {
			return // remove has uncounted the request
		}
		c.countStreams(m, -1)
		c.answered(m, -1)
	}, true
}

// longestWithRequests returns what longest does, of the connections with requests in
// progress. It scans the queue, but is called only when there are too many requests.
func (c *group) longestWithRequests() *connection {
	for l := c.waiting.first; l != nil; l = l.after {
		if l.of.streams > 0 {
			return l.of
		}
	}
	return nil
}

func (c *Connections) countStreams(m *connection, change int) {
	m.streams += change
	c.streams += change
	if m.counted == nil || change == 0 {
		return
	}
	if c.streamsOf[m.address] += change; c.streamsOf[m.address] == 0 {
		delete(c.streamsOf, m.address)
	}
}

// queue is a linked list of connections, the earliest added first.
// The zero queue is empty.
type queue struct{ first, last *link }

// link is the element of a connection in one queue. It is part of the connection,
// which moves twice for each request: container/list would allocate each time.
type link struct {
	of            *connection
	in            bool
	before, after *link
}

func (q *queue) push(l *link) {
	l.before, l.after, l.in = q.last, nil, true
	if q.last == nil {
		q.first = l
	} else {
		q.last.after = l
	}
	q.last = l
}

// remove removes l from the queue, if it is there.
func (q *queue) remove(l *link) {
	if !l.in {
		return
	}
	if l.before == nil {
		q.first = l.after
	} else {
		l.before.after = l.after
	}
	if l.after == nil {
		q.last = l.before
	} else {
		l.after.before = l.before
	}
	l.before, l.after, l.in = nil, nil, false
}
