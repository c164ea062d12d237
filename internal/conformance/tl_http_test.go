package conformance_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/server"
)

// goesAway contains the headers of a response that net/http itself sends.
var goesAway = map[string][]string{"Content-Type": {"text/plain; charset=utf-8"}, "Connection": {"close"}}

// net/http itself refuses these with a 400 in plain text (step H4), and transfer codings
// other than one "chunked" with a 501 (RFC 9112 section 6.1). The request never reaches
// the endpoint, and the connection is closed.
func TestTL08_AmbiguousFramingIsRefusedAndTheConnectionClosed(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	body := good.Encode()
	n := len(body)
	request := "POST " + endpoint + " HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"two lengths":           {fmt.Sprintf("%sHost: x\r\nContent-Length: %d\r\nContent-Length: %d\r\n\r\n%s", request, n, n-1, body), 400},
		"signed length":         {fmt.Sprintf("%sHost: x\r\nContent-Length: +%d\r\n\r\n%s", request, n, body), 400},
		"list of lengths":       {fmt.Sprintf("%sHost: x\r\nContent-Length: %d, %d\r\n\r\n%s", request, n, n-1, body), 400},
		"length in hexadecimal": {fmt.Sprintf("%sHost: x\r\nContent-Length: 0x10\r\n\r\n%s", request, body), 400},
		"two codings":           {fmt.Sprintf("%sHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", request), 501},
		"unknown coding":        {fmt.Sprintf("%sHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", request), 501},
		"coding dressed up":     {fmt.Sprintf("%sHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", request), 501},
		"space before a colon":  {fmt.Sprintf("%sHost: x\r\nContent-Length : %d\r\n\r\n%s", request, n, body), 400},
		"no host":               {fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", request, n, body), 400},
		"two hosts":             {fmt.Sprintf("%sHost: x\r\nHost: y\r\nContent-Length: %d\r\n\r\n%s", request, n, body), 400},
		"header without colon":  {fmt.Sprintf("%sHost: x\r\nbogus\r\nContent-Length: %d\r\n\r\n%s", request, n, body), 400},
		"NUL in a header":       {fmt.Sprintf("%sHost: x\r\nX-A: a\x00b\r\nContent-Length: %d\r\n\r\n%s", request, n, body), 400},
		"no version":            {"POST " + endpoint + "\r\n\r\n", 400},
	} {
		conn := d.dial(local())
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(conn, c.text)
		reader := bufio.NewReader(conn)
		a, err := readAnswer(reader, "POST")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if a.status != c.status || a.AccessToken != "" {
			t.Errorf("%s: %d, want %d", name, a.status, c.status)
		} else if !maps.EqualFunc(a.header, goesAway, slices.Equal) {
			t.Errorf("%s: header %v", name, a.header)
		}
		if rest, err := io.ReadAll(reader); err != nil || len(rest) > 0 {
			t.Errorf("%s: the connection stays open: %v", name, err)
		}
		conn.Close()
	}
	d.mustIssue(d.post(good))
}

// With both a length and chunks, the chunks are the body, and nothing after them is read
// as a request.
func TestTL08_NothingIsReadAfterAChunkedRequest(t *testing.T) {
	d := start(t)
	smuggled := d.a.redeem(d.code(d.a).Code)
	for _, length := range []string{"", "Content-Length: 5\r\n", "Content-Length: 99999\r\n"} {
		conn := d.dial(local())
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n%sTransfer-Encoding: chunked\r\n\r\n3\r\na=b\r\n0\r\n\r\n%s",
			endpoint, length, newRequest(smuggled).text())
		reader := bufio.NewReader(conn)
		a, err := readAnswer(reader, "POST")
		if err != nil {
			t.Fatal(err)
		}
		if a.Description != "grant_type missing" || !slices.Equal(a.header["Connection"], []string{"close"}) {
			t.Errorf("%q: %v, Connection %q", length, a, a.header["Connection"])
		}
		if rest, _ := io.ReadAll(reader); len(rest) > 0 {
			t.Errorf("%q: a second answer of %d bytes", length, len(rest))
		}
		conn.Close()
	}
	d.mustIssue(d.post(smuggled))
}

// Proxy and server might fold or split such lines differently. Here, none of the readings
// changes the request's meaning.
func TestTL08_LenientLinesHaveOneInterpretation(t *testing.T) {
	d := start(t)
	for name, spoil := range map[string]func(string) string{
		"bare LF":         func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") },
		"folded line":     func(s string) string { return strings.Replace(s, "Host: ", "X-Folded: a\r\n b\r\nHost: ", 1) },
		"folded length":   func(s string) string { return strings.Replace(s, "Content-Length: ", "Content-Length:\r\n ", 1) },
		"chunk extension": nil,
	} {
		good := d.a.redeem(d.code(d.a).Code)
		text := newRequest(good).text()
		if spoil != nil {
			text = spoil(text)
		} else {
			r := newRequest(nil)
			r.set("Transfer-Encoding", "chunked")
			body := fmt.Sprintf("%x;name=value\r\n%s\r\n0\r\n\r\n", len(good.Encode()), good.Encode())
			r.body = &body
			text = r.text()
		}
		conn := d.dial(local())
		a, err := converse(conn, text, "POST")
		conn.Close()
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case a.status == 200:
		case a.status == 400:
			d.mustIssue(d.post(good))
		default:
			t.Errorf("%s: %v", name, a)
		}
	}
}

func TestTL09_HeadersAreBounded(t *testing.T) {
	d := start(t)
	for name, lines := range map[string]string{
		"one of a megabyte": "X-Large: " + strings.Repeat("x", 1<<20) + "\r\n",
		"ten thousand":      strings.Repeat("X-Many: y\r\n", 10_000),
	} {
		a, err := d.tooMuch("POST", "POST "+endpoint+" HTTP/1.1\r\nHost: x\r\n"+lines+"\r\n")
		if err != nil || a.status != http.StatusRequestHeaderFieldsTooLarge || !maps.EqualFunc(a.header, goesAway, slices.Equal) {
			t.Errorf("%s: %d, header %v, %v", name, a.status, a.header, err)
		}
	}
	d.mustIssue(d.post(d.a.redeem(d.code(d.a).Code)))

	// The documented limits: sizes that are always accepted, those that HTTP/1.1 also
	// accepts, and those that are refused.
	for size, status := range map[int]int{16 << 10: 405, 20_000: 405, 20 << 10: 405, 20<<10 + 1: 431} {
		begin := "GET " + endpoint + " HTTP/1.1\r\nHost: x\r\nX-Large: "
		a, err := d.tooMuch("GET", begin+strings.Repeat("x", size-len(begin)-len("\r\n\r\n"))+"\r\n\r\n")
		if err != nil || a.status != status {
			t.Errorf("headers of %d bytes: %d, %v; want %d", size, a.status, err, status)
		}
	}
}

// tooMuch sends a request to which the server responds before it has read all. The server
// closes the connection half a second later; on a busy machine, the reset can overtake
// the response. Then tooMuch sends the request again.
func (d *deployment) tooMuch(method, text string) (a answer, err error) {
	for range 20 {
		conn := d.dial(local())
		go io.WriteString(conn, text)
		a, err = readAnswer(bufio.NewReader(conn), method)
		conn.Close()
		if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			break
		}
	}
	return a, err
}

func TestTL10_TG27_SlowConnectionsAreClosed(t *testing.T) {
	production := server.HTTPServer(nil, slog.New(slog.DiscardHandler))
	for name, limit := range map[string]time.Duration{
		"headers": production.ReadHeaderTimeout, "request": production.ReadTimeout, "answer": production.WriteTimeout, "idle": production.IdleTimeout,
	} {
		if limit <= 0 || limit > 2*time.Minute {
			t.Errorf("%s: %s", name, limit)
		}
	}
	if production.MaxHeaderBytes <= 0 || production.MaxHeaderBytes > 64<<10 {
		t.Errorf("headers of %d bytes", production.MaxHeaderBytes)
	}

	// The same server with the same limits, but shorter timeouts.
	d := start(t, func(o *options) {
		o.tune = func(s *http.Server) {
			s.ReadHeaderTimeout, s.ReadTimeout, s.IdleTimeout = 3*time.Second, 4*time.Second, 3*time.Second
		}
	})
	good := d.a.redeem(d.code(d.a).Code)
	whole := newRequest(good).text()
	var waiting sync.WaitGroup
	for name, c := range map[string]struct {
		sent   string
		status int // 0 means closed without a response
	}{
		"nothing":            {"", 0},
		"headers that stop":  {whole[:40], 400},
		"a body that stops":  {whole[:len(whole)-1], 408},
		"a request and idle": {newRequest(with(good, "grant_type", "")).text(), 400},
	} {
		conn := d.dial(local())
		conn.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(conn, c.sent)
		waiting.Go(func() {
			defer conn.Close()
			reader := bufio.NewReader(conn)
			if c.status != 0 {
				a, err := readAnswer(reader, "POST")
				if err != nil || a.status != c.status {
					t.Errorf("%s: %d, %v", name, a.status, err)
				}
				if c.status == 408 {
					compareHeader(t, a, "Connection: close")
				}
			}
			var late net.Error
			if rest, err := io.ReadAll(reader); len(rest) > 0 || errors.As(err, &late) && late.Timeout() {
				t.Errorf("%s: the connection stays open (%d bytes, %v)", name, len(rest), err)
			}
		})
	}
	waiting.Wait()
	d.mustIssue(d.post(good))
}

func TestTL13_TL14_TL15_TL16_EveryAnswerIsOursAndSaysLittle(t *testing.T) {
	d := start(t)
	for target, status := range map[string]int{"/": 404, "/favicon.ico": 404, "/oauth2/": 404, "/debug/pprof/": 404, "/metrics": 404, "/readyz": 404, "/admin/v1/codes": 404, endpoint: 405} {
		for _, m := range []string{"GET", "TRACE", "OPTIONS"} {
			r := newRequest(nil)
			r.method, r.target = m, target
			a := d.send(r)
			if a.status != status || a.Error != "invalid_request" {
				t.Errorf("%s %s: %v", m, target, a)
			}
			if status == 405 {
				compareHeader(t, a, "Allow: POST")
			} else {
				compareHeader(t, a) // compares Server, which must be absent, and nosniff
			}
		}
	}
	r := newRequest(nil)
	r.method, r.target = "CONNECT", "x:443"
	if a := d.send(r); a.status != 404 && a.status != 400 && a.status != 405 {
		t.Errorf("CONNECT: %v", a)
	}
}

func TestTL17_TheHostHeaderDecidesNothing(t *testing.T) {
	d := start(t)
	for _, host := range []string{"evil.example", "localhost:1", "[::1]"} {
		r := newRequest(d.a.redeem(d.code(d.a).Code))
		r.set("Host", host)
		r.set("X-Forwarded-Host", "evil.example")
		a := d.send(r)
		d.mustIssue(a)
		compareHeader(t, a)
		if strings.Contains(a.body, host) {
			t.Errorf("%s is echoed", host)
		}
	}
}

func TestTL18_TL19_KeptConnectionsStayInStep(t *testing.T) {
	d := start(t)
	conn := d.dial(local())
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	reader := bufio.NewReader(conn)
	for range 3 {
		// The request is refused before its body is read; the next request follows.
		r := newRequest(d.a.redeem("x"))
		r.set("Content-Type", "text/plain")
		r.set("Accept-Encoding", "gzip")
		io.WriteString(conn, r.text())
		a, err := readAnswer(reader, "POST")
		if err != nil || a.Description != contentType {
			t.Fatalf("%v, %v", a, err)
		}
		compareHeader(t, a) // compares Content-Encoding, which must be absent
		good := newRequest(d.a.redeem(d.code(d.a).Code))
		good.set("Accept-Encoding", "gzip")
		io.WriteString(conn, good.text())
		if a, err = readAnswer(reader, "POST"); err != nil {
			t.Fatal(err)
		}
		d.mustIssue(a)
		compareHeader(t, a)
	}
}
