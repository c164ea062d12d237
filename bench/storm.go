package bench

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Storm sends requests that its caller writes, as fast as the server responds, and
// counts the responses. It checks none of them: it is the background load of another
// measurement.
type Storm struct {
	Endpoint    string // https URL, of which only host and port are used
	TLS         *tls.Config
	Connections int
	// Pause is how long a connection pauses after a 429 or a 503.
	Pause time.Duration
	// Each is how long a connection pauses after any response, as a person does. Zero
	// means no pause.
	Each time.Duration
	// Next appends the next request of a connection to b, with FormRequest or
	// PageRequest.
	Next func(b []byte, connection int) []byte
}

// FormRequest appends a POST of a form to b, as a proxy forwards it for a client address.
func FormRequest(b []byte, host, path string, from netip.Addr, form string) []byte {
	b = fmt.Appendf(b, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: mintage-bench\r\nX-Forwarded-For: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ", path, host, from)
	b = strconv.AppendInt(b, int64(len(form)), 10)
	b = append(b, "\r\n\r\n"...)
	return append(b, form...)
}

// PageRequest appends a GET to b, as by a browser that is signed in.
func PageRequest(b []byte, host, path string, from netip.Addr, session string) []byte {
	return fmt.Appendf(b, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: mintage-bench\r\nX-Forwarded-For: %s\r\nCookie: __Host-mintage_session=%s\r\n\r\n", path, host, from, session)
}

// Answers are the numbers of responses by status, and under zero of requests without a
// response.
type Answers map[int]int64

// Run sends requests until ctx ends.
func (s Storm) Run(ctx context.Context) (Answers, error) {
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not an https URL", s.Endpoint)
	}
	cfg := s.TLS.Clone()
	cfg.ServerName, cfg.NextProtos, cfg.ClientSessionCache = u.Hostname(), []string{"http/1.1"}, nil
	verifyOnce(cfg)
	each := make([]Answers, s.Connections)
	var wg sync.WaitGroup
	for i := range each {
		each[i] = Answers{}
		wg.Go(func() { s.send(ctx, u.Host, cfg, i, each[i]) })
	}
	wg.Wait()
	all := Answers{}
	for _, a := range each {
		for status, n := range a {
			all[status] += n
		}
	}
	return all, nil
}

// send uses one connection, and opens a new one after a failure.
func (s Storm) send(ctx context.Context, addr string, cfg *tls.Config, i int, answers Answers) {
	var c *conn
	var request []byte
	var resp response
	for ctx.Err() == nil {
		var err error
		if c == nil {
			if c, err = dial(ctx, addr, cfg); err != nil {
				c = nil
			}
		}
		if err == nil {
			request = s.Next(request[:0], i)
			err = c.exchange(request, 0, &resp, time.Now())
		}
		status := resp.status
		if err != nil {
			status = 0
		}
		if ctx.Err() == nil {
			answers[status]++
		}
		if c != nil && (err != nil || resp.close) {
			c.close()
			c = nil
		}
		wait := s.Each
		if status == 0 || status == 429 || status == 503 {
			wait = max(wait, s.Pause)
		}
		if wait > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	}
	if c != nil {
		c.close()
	}
}

// Silence opens connections from addresses of this machine in turn, and sends nothing
// over them. When the server closes a connection, it opens another one after a second. It
// returns when ctx ends.
func Silence(ctx context.Context, endpoint string, connections int, from ...netip.Addr) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	if !strings.Contains(u.Host, ":") {
		return fmt.Errorf("%q names no port", endpoint)
	}
	var wg sync.WaitGroup
	for i := range connections {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from[i%len(from)].AsSlice()}, Timeout: requestTime}
		wg.Go(func() {
			for ctx.Err() == nil {
				if c, err := d.DialContext(ctx, "tcp", u.Host); err == nil {
					stop := context.AfterFunc(ctx, func() { c.Close() })
					c.Read(make([]byte, 1)) // until the server or ctx closes it
					stop()
					c.Close()
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	}
	wg.Wait()
	return nil
}
