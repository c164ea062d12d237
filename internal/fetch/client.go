// Package fetch fetches small JSON documents from addresses that unauthenticated
// callers may have named, and caches them. It connects to globally reachable
// addresses only, unless its caller allows others (CWE-918).
package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// fetchTime limits a fetch, a second try included.
	fetchTime = 5 * time.Second
	// maxBody is far more than a client's metadata or keys need, in bytes.
	maxBody = 64 << 10
	// maxHeader limits the header of an answer, in bytes.
	maxHeader = 16 << 10
	// minFresh and maxFresh limit how long a document is used without being fetched
	// again, whatever its headers say.
	minFresh, maxFresh = 5 * time.Minute, 24 * time.Hour
)

var (
	// ErrAddress means that an address must not be fetched: it is not https, or its
	// host is not globally reachable.
	ErrAddress = errors.New("address is not allowed")
	// ErrUnreachable means that there was no connection or no whole answer.
	ErrUnreachable = errors.New("no answer")
	// ErrAnswer means that the answer is not a JSON object of a permitted size.
	ErrAnswer = errors.New("unusable answer")
)

// A Client makes requests. Its fields are set before first use; the zero value
// connects to globally reachable addresses.
type Client struct {
	// Reachable reports whether a connection to an address may be opened. Nil:
	// Global.
	Reachable func(netip.Addr) bool
	// Roots are the certificate authorities. Nil: those of the system.
	Roots *x509.CertPool
	// Resolve returns the addresses of a host. Nil: the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial opens a TCP connection. Nil: the system's.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
}

// An Answer is a JSON object, and how long it may be used.
type Answer struct {
	Body  []byte
	Fresh time.Duration
}

// Get fetches an address once. It follows no redirect, sends no cookies or
// credentials, and uses no proxy of the environment.
func (c *Client) Get(ctx context.Context, address string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: not a URL", ErrAddress)
	}
	if err := checkURL(r.URL); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "mintage")
	// Each request has its own transport, so that no connection outlives the check of
	// its address. Dial with ctx: the context that the transport passes outlives it.
	t := &http.Transport{
		DialContext:       func(_ context.Context, _, hostPort string) (net.Conn, error) { return c.dial(ctx, hostPort) },
		TLSClientConfig:   &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
	}
	resp, err := t.RoundTrip(r)
	switch {
	case errors.Is(err, ErrAddress):
		return Answer{}, err
	case err != nil:
		return Answer{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer resp.Body.Close()
	return read(resp)
}

// checkURL returns why u must not be fetched, or nil.
func checkURL(u *url.URL) error {
	host := u.Hostname()
	switch {
	case u.Scheme != "https":
		return errors.New("not https")
	case u.User != nil || u.Fragment != "":
		return errors.New("credentials or a fragment")
	case host == "" || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("host is missing or not ASCII")
	}
	return checkHost(host)
}

// checkHost refuses spellings of IPv4 addresses that only some programs read as
// addresses, such as 2130706433, 0x7f.1 and 0177.0.0.1: names whose last label is
// a number (WHATWG URL, "ends in a number").
func checkHost(host string) error {
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	name := strings.TrimSuffix(host, ".")
	last := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok && strings.Trim(hex, "0123456789abcdef") == "" || strings.Trim(last, "0123456789") == "" {
		return errors.New("host is a number and not an address")
	}
	return nil
}

// dial resolves a host once, checks every address, and connects to one of them, so
// that DNS rebinding has no effect.
func (c *Client) dial(ctx context.Context, hostPort string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAddress, err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return nil, fmt.Errorf("%w: port %q", ErrAddress, port)
	}
	addresses, err := c.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	reachable := c.Reachable
	if reachable == nil {
		reachable = Global
	}
	for _, a := range addresses {
		if !reachable(a) {
			return nil, fmt.Errorf("%w: %s of host %q is not globally reachable", ErrAddress, a, host)
		}
	}
	for _, a := range addresses {
		var conn net.Conn
		if conn, err = c.connect(ctx, netip.AddrPortFrom(a, uint16(number))); err == nil {
			// Closing the TLS connection could take five more seconds, if the peer does not
			// read the close_notify alert.
			context.AfterFunc(ctx, func() { conn.Close() })
			return conn, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// resolve returns the addresses of a host, at least one. It unmaps IPv4-mapped addresses
// that resolvers return. It does not unmap an address that is the host itself.
func (c *Client) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	lookup := c.Resolve
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	found, err := lookup(ctx, host)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("host %q has no address", host)
	}
	list := make([]netip.Addr, len(found))
	for i, a := range found {
		list[i] = a.Unmap()
	}
	return list, err
}

func (c *Client) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if c.Dial != nil {
		return c.Dial(ctx, to)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
}

// read returns the JSON object of an answer.
func read(resp *http.Response) (Answer, error) {
	if resp.StatusCode != http.StatusOK {
		return Answer{}, fmt.Errorf("%w: status %d; redirects are not followed", ErrAnswer, resp.StatusCode)
	}
	if coding := resp.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return Answer{}, fmt.Errorf("%w: it is compressed", ErrAnswer)
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || media != "application/json" && !(strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")) {
		return Answer{}, fmt.Errorf("%w: its Content-Type is not application/json", ErrAnswer)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("%w: %w", ErrUnreachable, err)
	case len(body) > maxBody:
		return Answer{}, fmt.Errorf("%w: it has more than %d bytes", ErrAnswer, maxBody)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil || object == nil {
		return Answer{}, fmt.Errorf("%w: it is not a JSON object", ErrAnswer)
	}
	return Answer{body, freshness(resp.Header)}, nil
}

// freshness returns how long an answer may be used (RFC 9111 section 4.2), within
// the limits.
func freshness(h http.Header) time.Duration {
	age := seconds(h.Get("Age"))
	fresh, stated := time.Duration(0), false
	for directive := range strings.SplitSeq(strings.Join(h["Cache-Control"], ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		switch name {
		case "no-store", "no-cache":
			return minFresh
		case "max-age":
			fresh, stated = seconds(strings.Trim(value, `"`)), true
		}
	}
	if !stated {
		expires, err := http.ParseTime(h.Get("Expires"))
		date, err2 := http.ParseTime(h.Get("Date"))
		if err == nil && err2 == nil {
			fresh = expires.Sub(date)
		}
	}
	return min(max(fresh-age, minFresh), maxFresh)
}

// seconds parses a number of seconds. It returns 0 if text is no number, and far more
// than any limit if the number is too large.
func seconds(text string) time.Duration {
	n, _ := strconv.ParseUint(text, 10, 31)
	return time.Duration(n) * time.Second
}
