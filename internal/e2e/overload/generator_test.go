//go:build e2e

package overload

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/e2e/binary"
)

// A kind is a kind of request.
type kind int

const (
	refresh kind = iota
	exchange
	kinds
)

// A line is a persistent connection that makes one request at a time; a client's pool has
// many. Its requests are prepared bytes, because an HTTP client would use more processor
// time than the server under test.
type line struct {
	kind
	*world
	from   *net.TCPAddr
	conn   net.Conn
	in     *bufio.Reader
	secret []byte // the refresh token, or the next code to redeem
	text   []byte
}

// open opens n lines of a kind, and gives each one a secret.
func (w *world) open(k kind, secrets []string) (list []*line) {
	w.t.Helper()
	list = make([]*line, len(secrets))
	var opening sync.WaitGroup
	turns := make(chan struct{}, 8)
	for i, secret := range secrets {
		opening.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			// Use many client addresses: the server limits the connections of each
			// address.
			from := &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+k), byte(1+i/500))}
			l := &line{kind: k, world: w, from: from, secret: []byte(secret)}
			if err := l.connect(); err != nil {
				w.t.Error(err)
				return
			}
			if k == refresh { // the server soon closes a connection without requests
				if a, err := l.ask(); err != nil || a.status != 200 {
					w.t.Errorf("the first request of a connection: %d, %v", a.status, err)
				} else if err := l.goOn(a); err != nil {
					w.t.Error(err)
				}
			}
			list[i] = l
		})
	}
	opening.Wait()
	if w.t.Failed() {
		w.t.FailNow()
	}
	w.t.Cleanup(func() {
		for _, l := range list {
			l.conn.Close()
		}
	})
	return list
}

func (l *line) connect() error {
	conn, err := tls.DialWithDialer(&net.Dialer{LocalAddr: l.from, Timeout: 20 * time.Second}, "tcp", l.host, l.tls)
	if err != nil {
		return err
	}
	l.conn, l.in = conn, bufio.NewReader(conn)
	return nil
}

// An answer holds the parts of a response that the generator needs.
type answer struct {
	status     int
	retryAfter int // seconds; 0: none
	body       []byte
}

// ask makes one request and reads the response.
func (l *line) ask() (a answer, err error) {
	form := l.refreshForm
	if l.kind == exchange {
		form = l.exchangeForm
	}
	credential := url.QueryEscape(string(l.secret))
	l.text = append(l.text[:0], l.head...)
	l.text = strconv.AppendInt(l.text, int64(len(form)+len(credential)), 10)
	l.text = append(append(append(l.text, "\r\n\r\n"...), form...), credential...)
	l.conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err = l.conn.Write(l.text); err != nil {
		return a, err
	}
	length := -1
	for first := true; ; first = false {
		row, err := l.in.ReadSlice('\n')
		if err != nil {
			return a, err
		}
		row = bytes.TrimRight(row, "\r\n")
		name, value, _ := bytes.Cut(row, []byte(": "))
		switch {
		case first && len(row) >= 12:
			a.status, err = strconv.Atoi(string(row[9:12]))
		case len(row) == 0:
			if length < 0 {
				return a, fmt.Errorf("status %d without a length", a.status)
			}
			a.body = make([]byte, length)
			_, err = io.ReadFull(l.in, a.body)
			return a, err
		case string(name) == "Content-Length":
			length, err = strconv.Atoi(string(value))
		case string(name) == "Retry-After":
			a.retryAfter, err = strconv.Atoi(string(value))
		}
		if err != nil {
			return a, err
		}
	}
}

// goOn takes the line's next refresh token from the response, or its next code from the
// prepared ones.
func (l *line) goOn(a answer) error {
	if a.status != 200 {
		return nil // repeat the same request
	}
	if l.kind == exchange {
		select {
		case code := <-l.codes:
			l.secret = []byte(code)
			return nil
		default:
			return fmt.Errorf("the test has made too few codes")
		}
	}
	_, rest, _ := bytes.Cut(a.body, []byte(`"refresh_token":"`))
	token, _, ok := bytes.Cut(rest, []byte(`"`))
	if !ok {
		return fmt.Errorf("no refresh token in an answer of %d bytes", len(a.body))
	}
	l.secret = append(l.secret[:0], token...)
	return nil
}

// A tally counts the outcomes of a run's requests.
type tally struct {
	elapsed time.Duration
	due     int64 // all requests that fell due
	unsent  int64 // those among them for which no line was free
	lag     bench.Histogram
	answers [kinds]map[int]int64 // by status
	served  bench.Histogram      // latency of 200s, from when they were due
	all     bench.Histogram      // latency of all responses
	retry   map[int]int64        // 503s by Retry-After
	errors  map[string]int64
}

func newTally() *tally {
	t := &tally{retry: map[int]int64{}, errors: map[string]int64{}}
	for k := range t.answers {
		t.answers[k] = map[int]int64{}
	}
	return t
}

func (t *tally) add(o *tally) {
	t.unsent += o.unsent
	t.lag.Merge(&o.lag)
	t.served.Merge(&o.served)
	t.all.Merge(&o.all)
	for k := range t.answers {
		for status, n := range o.answers[k] {
			t.answers[k][status] += n
		}
	}
	for s, n := range o.retry {
		t.retry[s] += n
	}
	for e, n := range o.errors {
		t.errors[e] += n
	}
}

func (t *tally) sum(status int) (n int64) {
	for k := range t.answers {
		n += t.answers[k][status]
	}
	return n
}

// rate returns the responses with a status per second.
func (t *tally) rate(status int) float64 { return float64(t.sum(status)) / t.elapsed.Seconds() }

func (t *tally) String() string {
	return fmt.Sprintf("%d due in %.1f s, %d not sent; %.0f/s served, %.0f/s turned away; served p50 %s p99 %s, all p99 %s; lag p99 %s; errors %v",
		t.due, t.elapsed.Seconds(), t.unsent, t.rate(200), t.rate(503), t.served.Quantile(.5).Round(time.Millisecond),
		t.served.Quantile(.99).Round(time.Millisecond), t.all.Quantile(.99).Round(time.Millisecond), t.lag.Quantile(.99).Round(time.Millisecond), t.errors)
}

// tooLate is the delay after which a due request that found no free line is dropped. Its
// client then has as many pending requests as connections.
const tooLate = 50 * time.Millisecond

// run makes requests fall due at a constant rate, whether or not earlier ones were
// answered (an open-loop load); with rate 0 each line sends its next request at once. A
// free line takes the next due request. A server that answers nothing therefore gets one
// request per line, as from clients with limited connections. Latency counts from when a
// request was due.
func run(lines []*line, rate float64, length time.Duration) *tally {
	var taken atomic.Int64
	began := time.Now()
	end := began.Add(length)
	due := func(n int64) time.Time { return began.Add(time.Duration(float64(n) / rate * float64(time.Second))) }
	parts := make([]*tally, len(lines))
	var running sync.WaitGroup
	for i, l := range lines {
		parts[i] = newTally()
		running.Go(func() {
			t := parts[i]
			for {
				at := time.Now()
				if rate > 0 {
					n := taken.Add(1) - 1
					at = due(n)
					if behind := time.Since(at); behind > tooLate {
						// Drop all due requests that are already too late.
						skip := int64((behind - tooLate).Seconds() * rate)
						if skip > 0 && taken.CompareAndSwap(n+1, n+1+skip) {
							t.unsent += skip
						}
						t.unsent++
						if at.After(end) {
							return
						}
						continue
					}
				}
				if !at.Before(end) {
					return
				}
				time.Sleep(time.Until(at))
				if rate > 0 {
					t.lag.Add(time.Since(at))
				}
				a, err := l.ask()
				if err == nil {
					took := time.Since(at)
					t.answers[l.kind][a.status]++
					t.all.Add(took)
					switch a.status {
					case 200:
						t.served.Add(took)
					case 503:
						t.retry[a.retryAfter]++
					}
					err = l.goOn(a)
				}
				if err != nil {
					t.errors[err.Error()]++
					l.conn.Close()
					if l.connect() != nil {
						return
					}
				}
			}
		})
	}
	running.Wait()
	total := newTally()
	for _, p := range parts {
		total.add(p)
	}
	total.elapsed = time.Since(began)
	total.due = int64(rate * length.Seconds())
	return total
}

// world is a server, and the secrets of its clients.
type world struct {
	t                               *testing.T
	server                          *binary.Server
	host                            string
	tls                             *tls.Config
	head, refreshForm, exchangeForm []byte
	codes                           chan string
}

func newWorld(t *testing.T, s *binary.Server) *world {
	t.Helper()
	u, err := url.Parse(s.TokenEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	credentials := "&client_id=" + url.QueryEscape(s.ClientID) + "&client_secret=" + url.QueryEscape(s.ClientSecret)
	return &world{
		t: t, server: s, host: u.Host, tls: &tls.Config{RootCAs: roots, ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}},
		head:         []byte("POST " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: "),
		refreshForm:  []byte("grant_type=refresh_token" + credentials + "&refresh_token="),
		exchangeForm: []byte("grant_type=authorization_code" + credentials + "&redirect_uri=" + url.QueryEscape(s.RedirectURI) + "&code="),
	}
}
