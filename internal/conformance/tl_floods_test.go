package conformance_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/mintage/mintage/internal/server"
)

// honest refreshes once, over a new connection from its own address, and requires a
// timely response during an attack.
func (d *deployment) honest(what string, pair *tokens) {
	d.t.Helper()
	began := time.Now()
	a, err := d.try(newRequest(d.a.refresh(pair.RefreshToken)))
	if err != nil {
		// The server has closed this connection to admit others: retry, as clients do.
		a, err = d.try(newRequest(d.a.refresh(pair.RefreshToken)))
	}
	if err != nil || a.status != http.StatusOK {
		d.t.Errorf("%s: an honest client is answered %v, %v", what, a, err)
		return
	}
	*pair = a.tokens
	if took := time.Since(began); took > 20*time.Second {
		d.t.Errorf("%s: an honest client had to wait for %s", what, took)
	}
}

// try is send for connections that the server may close.
func (d *deployment) try(r *request) (answer, error) {
	raw, err := (&net.Dialer{LocalAddr: local(), Timeout: 10 * time.Second}).Dial("tcp", d.address)
	if err != nil {
		return answer{}, err
	}
	defer raw.Close()
	conn := tls.Client(raw, &tls.Config{RootCAs: d.roots, ServerName: "127.0.0.1", NextProtos: []string{"http/1.1"}})
	return converse(conn, r.text(), r.method)
}

// An h2conn is an HTTP/2 connection on which a test writes frames itself.
type h2conn struct {
	*http2.Framer
	conn   net.Conn
	block  bytes.Buffer
	enc    *hpack.Encoder
	ended  chan string // why the server has closed the connection
	mu     sync.Mutex
	resets map[uint32]http2.ErrCode
	heads  int         // header blocks of responses, including interim ones
	first  chan string // the status of the first response, or that its stream was reset
}

// speakH2 opens an HTTP/2 connection and reads all frames.
func (d *deployment) speakH2(from *net.TCPAddr) *h2conn {
	d.t.Helper()
	raw, err := (&net.Dialer{LocalAddr: from, Timeout: 10 * time.Second}).Dial("tcp", d.address)
	if err != nil {
		d.t.Fatal(err)
	}
	conn := tls.Client(raw, &tls.Config{RootCAs: d.roots, ServerName: "127.0.0.1", NextProtos: []string{"h2"}})
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		d.t.Fatal(err)
	}
	c := &h2conn{Framer: http2.NewFramer(conn, conn), conn: conn, ended: make(chan string, 1), resets: map[uint32]http2.ErrCode{}, first: make(chan string, 1)}
	c.enc, c.ReadMetaHeaders = hpack.NewEncoder(&c.block), hpack.NewDecoder(4096, nil)
	d.ended(func() { conn.Close() })
	if err := c.WriteSettings(); err != nil {
		d.t.Fatal(err)
	}
	go func() {
		reason := ""
		for {
			f, err := c.ReadFrame()
			if err != nil {
				var late net.Error
				if errors.As(err, &late) && late.Timeout() {
					close(c.ended) // the connection is still open
					return
				}
				c.ended <- fmt.Sprint(reason, " ", err)
				return
			}
			switch f := f.(type) {
			case *http2.GoAwayFrame:
				reason = f.ErrCode.String()
			case *http2.MetaHeadersFrame:
				c.mu.Lock()
				c.heads++
				c.mu.Unlock()
				c.answered(f.PseudoValue("status"))
			case *http2.RSTStreamFrame:
				c.mu.Lock()
				c.resets[f.StreamID] = f.ErrCode
				c.mu.Unlock()
				c.answered("reset: " + f.ErrCode.String())
			}
		}
	}()
	return c
}

func (c *h2conn) answered(how string) {
	select {
	case c.first <- how:
	default: // only the first one is reported
	}
}

// request opens a stream whose body follows.
func (c *h2conn) request(stream uint32, end bool, more ...hpack.HeaderField) error {
	c.block.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "x"}, {Name: ":path", Value: endpoint},
		{Name: "content-type", Value: "application/x-www-form-urlencoded"},
	}, more...) {
		c.enc.WriteField(f)
	}
	return c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(), EndStream: end, EndHeaders: true})
}

// end waits until the server closes the connection, and returns the reason. The test
// fails if only a timeout would close it.
func (c *h2conn) end(t *testing.T, what string) string {
	t.Helper()
	select {
	case reason, ok := <-c.ended:
		if !ok {
			t.Errorf("%s: the connection stays open", what)
		}
		return reason
	case <-time.After(30 * time.Second): // a timeout would close it after a minute
		t.Errorf("%s: the connection is not ended for it", what)
		return ""
	}
}

// CVE-2023-44487: streams that are reset at once cause work that a limit on open streams
// does not limit.
func TestTL11_RapidResetsHoldNobodyUp(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	c := d.speakH2(local())
	var err error
	n := 0
	for ; n < 30_000 && err == nil; n++ {
		id := uint32(2*n + 1)
		if err = c.request(id, true); err == nil {
			err = c.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		if n == 1000 {
			d.honest("in the midst of resets", &pair)
		}
	}
	// The server closes the connection when more reset streams are pending than may be
	// open. A fast server never has so many.
	if err != nil {
		c.end(t, "rapid resets")
	}
	d.honest("after rapid resets", &pair)
}

// CVE-2023-45288: a header block that never ends.
func TestTL11_EndlessContinuationsEndTheConnection(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	c := d.speakH2(local())
	c.enc.WriteField(hpack.HeaderField{Name: ":method", Value: "POST"})
	err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block.Bytes()})
	sent := 0
	for err == nil && sent < 64<<20 {
		c.block.Reset()
		for c.block.Len() < 15<<10 {
			c.enc.WriteField(hpack.HeaderField{Name: "x-many", Value: strings.Repeat("y", 100), Sensitive: true})
		}
		sent += c.block.Len()
		err = c.WriteContinuation(1, false, c.block.Bytes())
	}
	if err == nil {
		t.Errorf("%d bytes of headers were taken", sent)
	}
	c.end(t, "endless continuations")
	d.honest("after endless continuations", &pair)
}

func TestTL11_StreamsAreBoundedByConnectionAndByAddress(t *testing.T) {
	d := start(t, func(o *options) { o.connections = &server.ConnectionLimits{All: 1000, OfAddress: 150} })
	pair, _ := d.tokens(d.a)
	if n := server.HTTPServer(nil, nil).HTTP2.MaxConcurrentStreams; n < 100 || n > 250 {
		t.Errorf("%d streams of a connection", n)
	}
	attacker := &net.TCPAddr{IP: local().IP}
	// Each stream declares a body that never comes. The 100 response (RFC 9110 section
	// 10.1.1) shows that its handler waits, and that the stream counts.
	open := func(n int) *h2conn {
		c := d.speakH2(attacker)
		for i := range n {
			if err := c.request(uint32(2*i+1), false, hpack.HeaderField{Name: "expect", Value: "100-continue"}); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "100 streams are waited for", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.heads == 100
		})
		return c
	}
	first := open(120)
	refused := func(c *h2conn) (n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, code := range c.resets {
			if code == http2.ErrCodeRefusedStream {
				n++
			}
		}
		return n
	}
	eventually(t, "20 of 120 streams are refused", func() bool { return refused(first) == 20 })
	second := open(100)
	// Their address has 150 pending requests: the server closes the connection that it
	// has waited for longest, with all its streams.
	first.end(t, "more streams from the same address")
	third := open(100)
	second.end(t, "still more")
	d.honest("beside streams without bodies", &pair)
	if n := refused(third); n != 0 {
		t.Errorf("%d streams of the latest connection are refused", n)
	}
	if a, err := (&http.Client{Transport: &http2.Transport{
		TLSClientConfig: &tls.Config{RootCAs: d.roots, ServerName: "127.0.0.1"},
	}}).Get("https://" + d.address + "/oauth2/jwks"); err != nil || a.StatusCode != 200 {
		t.Errorf("another client of HTTP/2: %v", err)
	} else {
		a.Body.Close()
	}
}

// The server counts an HTTP/2 connection as waiting as long as its requests are
// incomplete, however many it has begun.
func TestTL10_TL11_SlowRequestsOfHTTP2PushThemselvesOut(t *testing.T) {
	const all = 4
	d := start(t, func(o *options) { o.connections = &server.ConnectionLimits{All: all} })
	pair, _ := d.tokens(d.a)
	for range 3 * all {
		c := d.speakH2(local())
		for n := range uint32(3) {
			if err := c.request(2*n+1, false); err != nil {
				t.Fatal(err)
			}
			if err := c.WriteData(2*n+1, false, []byte("grant_type=")); err != nil {
				t.Fatal(err)
			}
		}
		d.honest("beside slow bodies of HTTP/2", &pair)
	}
	if n := d.connections.Open(); n > all {
		t.Errorf("%d connections are open, want at most %d", n, all)
	}
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not so: %s", what)
		}
	}
}

func TestTL09_HeadersOfHTTP2AreBounded(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	for name, fields := range map[string][]hpack.HeaderField{
		"one of 100 KiB": {{Name: "x-large", Value: strings.Repeat("x", 100<<10), Sensitive: true}},
		"ten thousand":   nil,
	} {
		if fields == nil {
			for range 10_000 {
				fields = append(fields, hpack.HeaderField{Name: "x-many", Value: "y"})
			}
		}
		c := d.speakH2(local())
		c.block.Reset()
		for _, f := range append([]hpack.HeaderField{
			{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "x"}, {Name: ":path", Value: endpoint},
		}, fields...) {
			c.enc.WriteField(f)
		}
		block := c.block.Bytes()
		err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:min(len(block), 16<<10)], EndStream: true, EndHeaders: len(block) <= 16<<10})
		for rest := block[min(len(block), 16<<10):]; err == nil && len(rest) > 0; {
			n := min(len(rest), 16<<10)
			err = c.WriteContinuation(1, n == len(rest), rest[:n])
			rest = rest[n:]
		}
		d.honest(name, &pair)
		select {
		case how := <-c.first:
			if how != "431" && !strings.HasPrefix(how, "reset") {
				t.Errorf("%s: answered with %s", name, how)
			}
		case _, ended := <-c.ended:
			if !ended {
				t.Errorf("%s: no answer, and the connection stays open", name)
			}
		}
		c.conn.Close()
	}
	for line := range strings.Lines(d.log.String()) {
		if strings.Contains(line, "token request") && strings.Contains(line, "content type") {
			t.Errorf("a handler has seen the headers: %s", line)
		}
	}
}

// Connections keep the server waiting in every way, from one address and from many. They
// displace each other, so that an honest client is served.
func TestTL10_TL11_FloodsOfConnectionsPushThemselvesOut(t *testing.T) {
	const all, ofAddress, flood = 100, 40, 150
	d := start(t, func(o *options) { o.connections = &server.ConnectionLimits{All: all, OfAddress: ofAddress} })
	pair, _ := d.tokens(d.a)
	whole := newRequest(d.a.refresh("x")).text()
	for _, many := range []bool{false, true} {
		one := local()
		for name, c := range map[string]struct {
			tls  bool
			sent string
		}{
			"half-open handshakes":   {false, ""},
			"the begin of a hello":   {false, "\x16\x03\x01\x02\x00\x01"},
			"handshakes and no more": {true, ""},
			"headers that stop":      {true, whole[:40]},
			"bodies that stop":       {true, whole[:len(whole)-1]},
			"requests and then idle": {true, whole},
		} {
			name = fmt.Sprintf("%s, many addresses: %t", name, many)
			var open []net.Conn
			most := 0
			var mu sync.Mutex
			var opening sync.WaitGroup
			next := make(chan int)
			for range 8 {
				opening.Go(func() {
					for range next {
						from := &net.TCPAddr{IP: one.IP}
						if many {
							from = local()
						}
						conn, err := (&net.Dialer{LocalAddr: from, Timeout: 5 * time.Second}).Dial("tcp", d.address)
						if err != nil {
							continue
						}
						if c.tls {
							conn = tls.Client(conn, &tls.Config{RootCAs: d.roots, ServerName: "127.0.0.1", NextProtos: []string{"http/1.1"}})
						}
						conn.SetDeadline(time.Now().Add(5 * time.Second))
						io.WriteString(conn, c.sent)
						if c.tls && c.sent == "" {
							conn.(*tls.Conn).Handshake()
						}
						mu.Lock()
						open = append(open, conn)
						most = max(most, d.connections.Open())
						mu.Unlock()
					}
				})
			}
			go func() {
				defer close(next)
				for n := range flood {
					next <- n
				}
			}()
			for n := range 3 {
				d.honest(fmt.Sprintf("%s, try %d", name, n), &pair)
			}
			opening.Wait()
			d.honest(name+", at its end", &pair)
			bound := all
			if !many {
				bound = ofAddress + 4 // plus the honest clients' connections
			}
			// A busy server accepts some of the connections only now.
			for until := time.Now().Add(30 * time.Second); most < bound/2 && time.Now().Before(until); runtime.Gosched() {
				most = max(most, d.connections.Open())
			}
			if most > bound || most < bound/2 {
				t.Errorf("%s: up to %d connections were open, want at most %d", name, most, bound)
			}
			for n := range open {
				open[n].Close()
			}
		}
	}
}
