package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	requestTime = 30 * time.Second // the timeout of a response
	graceTime   = time.Second      // the timeout after an interruption
)

// A conn is one TLS connection that speaks just enough HTTP/1.1 for a token
// endpoint. net/http's client costs as much as the server that is measured.
type conn struct {
	tls      *tls.Conn
	in       *bufio.Reader
	deadline time.Time
	stop     func() bool
}

// dial opens a connection and completes its handshake. When ctx ends, pending reads get a
// little more time, because a lost response is a lost refresh token.
func dial(ctx context.Context, addr string, cfg *tls.Config) (*conn, error) {
	d := net.Dialer{Timeout: requestTime}
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{tls: tls.Client(raw, cfg)}
	c.extend(time.Now())
	c.stop = context.AfterFunc(ctx, func() { raw.SetDeadline(time.Now().Add(graceTime)) })
	if err := c.tls.Handshake(); err != nil {
		c.close()
		return nil, err
	}
	c.in = bufio.NewReader(c.tls)
	return c, nil
}

func (c *conn) close() {
	c.stop()
	c.tls.Close()
}

// verifyOnce makes cfg verify a server's certificate the first time, and later only
// compare it. Otherwise, with a new connection for each request, the client would be
// busier than the server. Every handshake still proves that the server holds the key.
func verifyOnce(cfg *tls.Config) {
	var known atomic.Pointer[x509.Certificate]
	cfg.InsecureSkipVerify = true // VerifyConnection verifies instead
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		leaf := cs.PeerCertificates[0]
		if k := known.Load(); k != nil && k.Equal(leaf) {
			return nil
		}
		opt := x509.VerifyOptions{Roots: cfg.RootCAs, DNSName: cfg.ServerName, Intermediates: x509.NewCertPool()}
		for _, c := range cs.PeerCertificates[1:] {
			opt.Intermediates.AddCert(c)
		}
		if _, err := leaf.Verify(opt); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: cs.PeerCertificates, Err: err}
		}
		known.Store(leaf)
		return nil
	}
}

// extend moves the deadline, but not for every request, because that costs as much as
// parsing a response.
func (c *conn) extend(now time.Time) {
	if c.deadline.Sub(now) < requestTime/2 {
		c.deadline = now.Add(requestTime)
		c.tls.SetDeadline(c.deadline)
	}
}

// exchange sends a request and reads the response. Unless body is 0, the bytes before
// that offset are written separately.
func (c *conn) exchange(request []byte, body int, r *response, now time.Time) error {
	c.extend(now)
	if body > 0 {
		if _, err := c.tls.Write(request[:body]); err != nil {
			return err
		}
		request = request[body:]
	}
	if _, err := c.tls.Write(request); err != nil {
		return err
	}
	return r.read(c.in)
}

// A response is an HTTP response. Its body is overwritten by the next.
type response struct {
	status int
	json   bool // Content-Type is application/json
	close  bool // the server ends the connection after it
	body   []byte
	// location is the Location header, overwritten by the next response.
	location []byte
}

// maxBody limits the body of a response.
const maxBody = 1 << 20

var errMalformed = errors.New("malformed HTTP response")

// read reads one response. The caller sends no HEAD, so every status but 204 and 304 has
// a body (RFC 9112 section 6.3). A body that ends with the connection is not supported.
func (r *response) read(in *bufio.Reader) error {
	*r = response{body: r.body[:0], location: r.location[:0]}
	line, err := readLine(in)
	if err != nil {
		return err
	}
	version, rest, _ := bytes.Cut(line, []byte(" "))
	code, _, _ := bytes.Cut(rest, []byte(" "))
	if r.status, err = strconv.Atoi(string(code)); err != nil || len(code) != 3 || !bytes.HasPrefix(version, []byte("HTTP/1.")) {
		return errMalformed
	}
	r.close = string(version) == "HTTP/1.0"
	length, chunked := int64(-1), false
	for {
		if line, err = readLine(in); err != nil {
			return unexpected(err)
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return errMalformed
		}
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "Content-Length"):
			if length, err = strconv.ParseInt(string(value), 10, 64); err != nil || length < 0 || length > maxBody {
				return errMalformed
			}
		case is(name, "Transfer-Encoding"):
			chunked = is(value, "chunked")
		case is(name, "Content-Type"):
			media, _, _ := bytes.Cut(value, []byte(";"))
			r.json = is(bytes.TrimSpace(media), "application/json")
		case is(name, "Location"):
			r.location = append(r.location, value...)
		case is(name, "Connection"):
			r.close = is(value, "close")
		}
	}
	switch {
	case r.status == 204 || r.status == 304:
		return nil
	case chunked:
		return unexpected(r.readChunks(in))
	case length < 0:
		return fmt.Errorf("%w: neither Content-Length nor chunks", errMalformed)
	}
	return unexpected(r.append(in, length))
}

// readChunks reads a chunked body and the trailer behind it (RFC 9112 section
// 7.1).
func (r *response) readChunks(in *bufio.Reader) error {
	for {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 64)
		if err != nil || n < 0 || n > maxBody-int64(len(r.body)) {
			return errMalformed
		}
		if n == 0 {
			break
		}
		if err := r.append(in, n); err != nil {
			return err
		}
		if line, err = readLine(in); err != nil {
			return err
		}
		if len(line) != 0 {
			return errMalformed
		}
	}
	for {
		if line, err := readLine(in); err != nil || len(line) == 0 {
			return err
		}
	}
}

// append reads n bytes of body.
func (r *response) append(in *bufio.Reader, n int64) error {
	have := len(r.body)
	if need := have + int(n); need > cap(r.body) {
		r.body = append(make([]byte, 0, max(need, 4096)), r.body...)
	}
	r.body = r.body[:have+int(n)]
	_, err := io.ReadFull(in, r.body[have:])
	return err
}

// readLine returns a line without its end. It is valid until the next read.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errMalformed
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// is compares ASCII text without regard to case.
func is(b []byte, text string) bool { return len(b) == len(text) && bytes.EqualFold(b, []byte(text)) }
