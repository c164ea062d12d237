package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// connection is an open connection. For each HTTP/1.1 request, net/http sets nine
// deadlines and reads in parallel to the handler to detect a disconnect, which costs
// timers, system calls and goroutine switches. A connection saves most of them:
//   - It sets a later deadline, as net/http requests for each request, only after the
//     earlier one has expired (lazyDeadline).
//   - It suspends reads while a request with a slot is processed (hold). A disconnect
//     does not cancel the work on the request; see deadlines.
type connection struct {
	net.Conn
	in      *Connections
	address netip.Prefix
	counted *group // the connections of its address; nil for a proxy
	gone    bool
	// HTTP/2 requests in progress, and those of them whose bodies are not being read.
	streams, answering int
	// Its links in the queues of connections whose clients the server waits for.
	inAll, inAddress link

	mu            sync.Mutex // guards the fields below
	reads, writes lazyDeadline
	reading       bool
	held          bool          // reads are suspended; see hold
	aborted       chan struct{} // receives a message when net/http ends a suspended read
}

// Close closes the connection and removes it from the counts.
func (m *connection) Close() error {
	m.in.leave(m)
	return m.Conn.Close()
}

// lazyDeadline is a deadline for reads or writes. A zero time means no deadline.
type lazyDeadline struct {
	wanted time.Time
	set    time.Time // on the underlying connection; not after wanted
}

// want changes the deadline to t. It calls set only if no earlier deadline is set on
// the underlying connection.
func (l *lazyDeadline) want(t time.Time, set func(time.Time) error) error {
	l.wanted = t
	if t.IsZero() || !l.set.IsZero() && !t.Before(l.set) {
		return nil
	}
	l.set = t
	return set(t)
}

// early reports whether err is the timeout of a deadline that a later one has replaced.
// If so, it sets the later one on the underlying connection.
func (m *connection) early(l *lazyDeadline, err error, set func(time.Time) error) bool {
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !l.wanted.IsZero() && !time.Now().Before(l.wanted) {
		return false
	}
	l.set = l.wanted
	return set(l.set) == nil
}

// Read reads from the connection. While reads are suspended, it waits until net/http ends
// the read by setting a deadline in the past.
func (m *connection) Read(b []byte) (n int, err error) {
	m.mu.Lock()
	if m.held {
		m.mu.Unlock()
		<-m.aborted
		return 0, context.DeadlineExceeded // a net.Error, as after a deadline
	}
	m.reading = true
	m.mu.Unlock()
	for {
		if n, err = m.Conn.Read(b); n > 0 || !m.early(&m.reads, err, m.Conn.SetReadDeadline) {
			break
		}
	}
	m.mu.Lock()
	m.reading = false
	m.mu.Unlock()
	return n, err
}

// Write writes to the connection.
func (m *connection) Write(b []byte) (n int, err error) {
	for {
		wrote, err := m.Conn.Write(b[n:])
		if n += wrote; err == nil || !m.early(&m.writes, err, m.Conn.SetWriteDeadline) {
			return n, err
		}
	}
}

// SetReadDeadline sets the deadline of reads.
func (m *connection) SetReadDeadline(t time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.held {
		return m.reads.want(t, m.Conn.SetReadDeadline)
	}
	if !t.IsZero() {
		select {
		case m.aborted <- struct{}{}:
		default:
		}
	}
	return nil
}

// SetWriteDeadline sets the deadline of writes.
func (m *connection) SetWriteDeadline(t time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes.want(t, m.Conn.SetWriteDeadline)
}

// SetDeadline sets both deadlines.
func (m *connection) SetDeadline(t time.Time) error {
	return errors.Join(m.SetReadDeadline(t), m.SetWriteDeadline(t))
}

// hold suspends reads of the connection of r until the answer is sent. The request must
// have been read completely. If a read has begun, hold does nothing.
func hold(r *http.Request) {
	m := connectionOf(r)
	if m == nil || r.ProtoMajor > 1 {
		return // the frames of HTTP/2 are read beside the handlers
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = !m.reading
}

// release resumes reads, after the answer to the request of hold was sent.
func (m *connection) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = false
	select {
	case <-m.aborted:
	default:
	}
}

// An alarm logs an event at most every ten seconds, with the number of times that it
// happened.
type alarm struct {
	n    atomic.Int64
	last atomic.Int64 // nanoseconds since 1970
}

const alarmEvery = 10 * time.Second

// ring counts an event. It returns the number of events since its last nonzero result,
// or zero if that was less than ten seconds ago.
func (a *alarm) ring(now time.Time) int64 {
	a.n.Add(1)
	last := a.last.Load()
	since := now.UnixNano() - last // negative if the clock was put back
	if since >= 0 && since < int64(alarmEvery) || !a.last.CompareAndSwap(last, now.UnixNano()) {
		return 0
	}
	return a.n.Swap(0)
}
