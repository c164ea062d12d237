package server

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A told is a connection with an invented address.
type told struct {
	net.Conn
	from   string
	closed bool
}

func (c *told) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.from)) }
func (c *told) Close() error         { c.closed = true; return nil }

// A crowded listener accepts connections without a network.
type crowded struct {
	*Connections
	shed []string
	all  map[string]*connection
	raw  map[string]*told
}

func newCrowded(l ConnectionLimits) *crowded {
	c := &crowded{all: map[string]*connection{}, raw: map[string]*told{}}
	c.Connections = NewConnections(l, func(what string) { c.shed = append(c.shed, what) }, slog.New(slog.DiscardHandler))
	return c
}

// come opens a connection under a name and reports whether the server keeps it.
func (c *crowded) come(name, from string) bool {
	raw := &told{from: from}
	m := c.enter(raw)
	c.all[name], c.raw[name] = m, raw
	return m != nil
}

// isOpen returns the names of the open connections.
func (c *crowded) isOpen() (names []string) {
	for name, m := range c.all {
		if m != nil && !m.gone && !c.raw[name].closed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestTheConnectionThatWaitsLongestForItsClientIsClosed(t *testing.T) {
	c := newCrowded(ConnectionLimits{All: 3})
	for _, name := range []string{"a", "b", "c"} {
		if !c.come(name, "192.0.2.1:1") {
			t.Fatalf("%s is refused", name)
		}
	}
	c.set(c.all["a"], false) // its request is being answered
	if !c.come("d", "192.0.2.1:1") || !slices.Equal(c.isOpen(), []string{"a", "c", "d"}) {
		t.Errorf("open: %v", c.isOpen())
	}
	c.set(c.all["a"], true) // answered: it is now the last in the queue
	c.come("e", "192.0.2.1:1")
	c.come("f", "192.0.2.1:1")
	if !slices.Equal(c.isOpen(), []string{"a", "e", "f"}) {
		t.Errorf("open: %v", c.isOpen())
	}
	// If all connections are being answered, the new one is closed.
	for _, name := range c.isOpen() {
		c.set(c.all[name], false)
	}
	if c.come("g", "192.0.2.1:1") || !slices.Equal(c.isOpen(), []string{"a", "e", "f"}) {
		t.Errorf("open: %v", c.isOpen())
	}
	c.all["e"].Close()
	c.all["e"].Close()
	if !c.come("h", "192.0.2.1:1") || c.Open() != 3 {
		t.Errorf("open: %v", c.isOpen())
	}
	if !slices.Equal(c.shed, slices.Repeat([]string{"connections"}, 4)) {
		t.Errorf("reported %q", c.shed)
	}
}

func TestAnAddressPushesOutItsOwnConnectionsOnly(t *testing.T) {
	c := newCrowded(ConnectionLimits{All: 100, OfAddress: 2, Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	c.come("honest", "192.0.2.1:1")
	for _, name := range []string{"a", "b", "c", "d"} {
		if !c.come(name, "198.51.100.7:1") {
			t.Errorf("%s is refused", name)
		}
	}
	// The addresses of one IPv6 /64 count as one address.
	for _, from := range []string{"[2001:db8:1:2::1]:1", "[2001:db8:1:2::2]:1", "[2001:db8:1:2:3::]:1"} {
		c.come(from, from)
	}
	for _, name := range []string{"p", "q", "r"} {
		c.come(name, "10.0.0.1:1")
	}
	want := []string{"[2001:db8:1:2:3::]:1", "[2001:db8:1:2::2]:1", "c", "d", "honest", "p", "q", "r"}
	if got := c.isOpen(); !slices.Equal(got, want) {
		t.Errorf("open: %v, want %v", got, want)
	}
	if !slices.Equal(c.shed, slices.Repeat([]string{"connections_of_address"}, 3)) {
		t.Errorf("reported %q", c.shed)
	}
	for _, m := range c.all {
		m.Close()
	}
	if len(c.ofAddress) != 0 || c.Open() != 0 || c.Connections.all.waiting.len() != 0 {
		t.Errorf("after all have gone: %d addresses, %d connections, %d that wait", len(c.ofAddress), c.Open(), c.Connections.all.waiting.len())
	}
}

func TestALimitOfOneAddressAmongManyKeepsItsCountRight(t *testing.T) {
	c := newCrowded(ConnectionLimits{All: 100, OfAddress: 1})
	for range 5 {
		if !c.come("a", "198.51.100.7:1") {
			t.Fatal("refused")
		}
		if n := len(c.ofAddress); n != 1 || c.Open() != 1 {
			t.Fatalf("%d addresses, %d connections", n, c.Open())
		}
	}
	c.set(c.all["a"], false)
	if c.come("b", "198.51.100.7:1") {
		t.Error("a second one is let in beside one that is being answered")
	}
	c.all["a"].Close()
	if len(c.ofAddress) != 0 {
		t.Errorf("%d addresses are remembered", len(c.ofAddress))
	}
}

func TestAProxyOnThisMachineIsNoAddress(t *testing.T) {
	for _, proxy := range []bool{false, true} {
		c := newCrowded(ConnectionLimits{OfAddress: 1, LoopbackIsProxy: proxy})
		c.come("a", "127.0.0.1:1")
		c.come("b", "127.0.0.1:2")
		if n := len(c.isOpen()); (n == 2) != proxy {
			t.Errorf("a proxy: %t, and %d connections", proxy, n)
		}
	}
}

func TestLimitsOfConnectionsChangeForThoseThatCome(t *testing.T) {
	c := newCrowded(ConnectionLimits{})
	for _, name := range []string{"a", "b", "c", "d"} {
		c.come(name, "192.0.2.1:1")
	}
	c.Limit(ConnectionLimits{All: 2})
	if c.come("e", "192.0.2.1:1"); c.Open() != 4 {
		t.Errorf("%d are open: one goes for each that comes", c.Open())
	}
}

// The server's own use of a connection changes its place in the queue; here with real
// sockets.
func TestAConnectionWaitsForItsClientExceptWhileItIsAnswered(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answering, read, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	c := NewConnections(ConnectionLimits{}, nil, slog.New(slog.DiscardHandler))
	srv := HTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := reading(r)
		read <- struct{}{}
		io.ReadAll(r.Body)
		stopReading(reads, r)
		answering <- struct{}{}
		<-release
	}), slog.New(slog.DiscardHandler))
	var serving sync.WaitGroup
	bound := c.Bound(l, srv)
	serving.Go(func() { srv.Serve(bound) })
	defer serving.Wait()
	defer srv.Close()
	waits := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.all.waiting.len()
	}
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 2 {
		io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
		<-read
		if waits() != 1 {
			t.Error("the server does not wait for the rest of the request")
		}
		io.WriteString(conn, "b")
		<-answering
		if waits() != 0 {
			t.Error("a running request counts as waiting for its client")
		}
		release <- struct{}{}
		answer := make([]byte, 512)
		if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 200") {
			t.Fatalf("%q, %v", answer[:n], err)
		}
	}
	if c.Open() != 1 {
		t.Errorf("%d connections", c.Open())
	}
}

func TestAnAlarmRingsAtOnceAndThenEveryTenSeconds(t *testing.T) {
	var a alarm
	now := time.Unix(1_700_000_000, 0)
	var rang []int64
	for n := range 25 {
		if times := a.ring(now.Add(time.Duration(n) * time.Second)); times > 0 {
			rang = append(rang, times)
		}
	}
	if len(rang) != 3 || rang[0] != 1 || rang[1] != 10 || rang[2] != 10 {
		t.Errorf("it rang for %v", rang)
	}
	if n := a.ring(now.Add(-time.Hour)); n == 0 {
		t.Error("it is silent after the clock was put back")
	}
}

// len returns the number of connections in the queue.
func (q *queue) len() (n int) {
	for l := q.first; l != nil; l = l.after {
		n++
	}
	return n
}
