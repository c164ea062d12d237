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
	// Proxies are not counted by address: all of their clients share one.
	// Neither is this machine, if LoopbackIsProxy is set.
	Proxies         []netip.Prefix
	LoopbackIsProxy bool
}

// Why a connection is closed, as the hook for it is told.
const (
	shedConnections          = "connections"
	shedConnectionsOfAddress = "connections_of_address"
)

// Connections bounds the connections of a listener. When one too many comes, the
// one on which the server has waited longest for its client is closed: for a
// handshake, for a request, or for the rest of one. So a flood of connections
// that say nothing, or say it slowly, pushes itself out; an honest client has
// its answer long before its turn, or comes back on a new connection. Only if
// all of them are being answered, the new one is closed.
//
// The requests of HTTP/2, which come many at a time on one connection, are
// bounded by the same numbers and by the same rule: the server waits for the
// client of a connection as long as none of its requests is being answered, and
// when there is one request too many, the connection goes that has requests and
// was waited for longest. Methods are safe for concurrent use.
type Connections struct {
	log  *slog.Logger
	shed func(what string)
	bell alarm

	mu        sync.Mutex
	limits    ConnectionLimits
	all       crowd
	ofAddress map[netip.Prefix]*crowd
	streams   int
	streamsOf map[netip.Prefix]int
}

// NewConnections makes Connections. OnShed, if set, is called with what was
// closed.
func NewConnections(l ConnectionLimits, onShed func(what string), log *slog.Logger) *Connections {
	if onShed == nil {
		onShed = func(string) {}
	}
	return &Connections{log: log, shed: onShed, limits: l, ofAddress: map[netip.Prefix]*crowd{}, streamsOf: map[netip.Prefix]int{}}
}

// Limit changes the limits, for connections that come from now on.
func (c *Connections) Limit(l ConnectionLimits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits = l
}

// Open is how many connections there are.
func (c *Connections) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.n
}

// Bound has the connections of l, which srv serves, bounded. Call it before
// srv serves.
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
		if m := member(conn); m != nil {
			c.set(m, state != http.StateActive)
		}
	}
	return &boundListener{l, c}
}

type connectionKey struct{}

// member is what a connection of net/http is to us.
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

// Accept returns the next connection that has a place.
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

// A connection is one that is open.
type connection struct {
	net.Conn
	in      *Connections
	address netip.Prefix
	counted *crowd // of its address; nil for a proxy
	gone    bool
	// Requests of HTTP/2, and those of them that were read.
	streams, answering int
	// Its places among those that wait for their clients.
	inAll, inAddress link[connection]
}

// Close gives the place back.
func (m *connection) Close() error {
	m.in.leave(m)
	return m.Conn.Close()
}

// A crowd counts connections, and knows which of them wait for their clients,
// the longest first.
type crowd struct {
	n       int
	waiting line[connection]
}

// longest is the one that has waited longest for its client, or nil.
func (c *crowd) longest() *connection {
	if c.waiting.first == nil {
		return nil
	}
	return c.waiting.first.of
}

func (c *Connections) exempt(a netip.Addr) bool {
	if c.limits.LoopbackIsProxy && a.IsLoopback() {
		return true
	}
	for _, p := range c.limits.Proxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func peer(address net.Addr) netip.Addr {
	if tcp, ok := address.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// enter gives a new connection its place, or returns nil.
func (c *Connections) enter(conn net.Conn) *connection {
	from := peer(conn.RemoteAddr())
	m := &connection{Conn: conn, in: c, address: overload.Network(from, 64)}
	m.inAll.of, m.inAddress.of = m, m
	c.mu.Lock()
	var pushed *connection
	what, ok := "", true
	if !c.exempt(from) {
		m.counted = c.ofAddress[m.address]
		if m.counted == nil {
			m.counted = &crowd{}
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
			c.ofAddress[m.address] = m.counted // it is new, or the one that went was the last
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

// set notes whether the server waits for the connection's client.
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

// wait puts m behind all that wait.
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

// reading notes that the server waits for the rest of a request, until done is
// called.
func reading(r *http.Request) (done func()) {
	m, _ := r.Context().Value(connectionKey{}).(*connection)
	switch {
	case m == nil:
		return func() {}
	case r.ProtoMajor == 1:
		m.in.set(m, true)
		return func() { m.in.set(m, false) }
	}
	m.in.answering(m, -1)
	return func() { m.in.answering(m, 1) }
}

// A line is of those who wait, whoever came first in front. Anybody can leave it
// from within. The zero line is empty.
type line[T any] struct {
	first, last *link[T]
	n           int
}

// A link is a place in one line.
type link[T any] struct {
	of            *T
	in            bool
	before, after *link[T]
}

func (l *line[T]) push(p *link[T]) { l.insert(p, l.last) }

// insert puts p behind another, or in front of all if that is nil.
func (l *line[T]) insert(p, behind *link[T]) {
	p.before, p.after, p.in = behind, l.first, true
	if behind == nil {
		l.first = p
	} else {
		p.after = behind.after
		behind.after = p
	}
	if p.after == nil {
		l.last = p
	} else {
		p.after.before = p
	}
	l.n++
}

// remove takes a place out of the line, if it is in it.
func (l *line[T]) remove(p *link[T]) {
	if !p.in {
		return
	}
	if p.before == nil {
		l.first = p.after
	} else {
		p.before.after = p.after
	}
	if p.after == nil {
		l.last = p.before
	} else {
		p.after.before = p.before
	}
	p.before, p.after, p.in = nil, nil, false
	l.n--
}
