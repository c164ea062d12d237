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

// connection is an open connection. For each request of HTTP/1.1, net/http sets nine
// deadlines, and starts a read beside the handler to notice a disconnect. That costs
// timers, system calls and switches of goroutines. A connection saves most of them:
//   - A deadline that only moves later, as with each request, is not set until the one
//     before it has passed.
//   - Nothing is read between a request that has a slot and its answer. A disconnect does
//     not cancel the work on it; see deadlines.
type connection struct {
	net.Conn
	in      *Connections
	address netip.Prefix
	counted *group // of its address; nil for a proxy
	gone    bool
	// Requests of HTTP/2, and those of them that were read.
	streams, answering int
	// Its places among the connections whose clients the server waits for.
	inAll, inAddress link

	mu            sync.Mutex // of what follows
	reads, writes lazyDeadline
	reading       bool
	held          bool          // nothing is read
	aborted       chan struct{} // has a message when net/http ends the read that waits
}

// Close closes the connection and uncounts it.
func (m *connection) Close() error {
	m.in.leave(m)
	return m.Conn.Close()
}

// lazyDeadline is a deadline of reads or writes. Zero times are none.
type lazyDeadline struct {
	wanted time.Time
	set    time.Time // on the connection below; not after wanted
}

// want sets the deadline to t. It calls set only if the one that is set is later.
func (l *lazyDeadline) want(t time.Time, set func(time.Time) error) error {
	l.wanted = t
	if t.IsZero() || !l.set.IsZero() && !t.Before(l.set) {
		return nil
	}
	l.set = t
	return set(t)
}

// early reports whether err is of a deadline that is set and not wanted, and sets the
// wanted one.
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

// Read reads from the connection. While nothing may be read, it waits until net/http ends
// the read by a deadline in the past.
func (m *connection) Read(b []byte) (n int, err error) {
	m.mu.Lock()
	if m.held {
		m.mu.Unlock()
		<-m.aborted
		return 0, context.DeadlineExceeded // a net.Error, as of a deadline
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

// hold stops reads of the connection of r until the answer is sent. The request must have
// been read completely. A read that has begun continues.
func hold(r *http.Request) {
	m := connectionOf(r)
	if m == nil || r.ProtoMajor > 1 {
		return // the frames of HTTP/2 are read beside the handlers
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = !m.reading
}

// release allows reads again, after the answer to the request that hold got.
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

// ring counts an event. It returns how many there were since it last returned a number,
// or zero if it did so less than ten seconds ago.
func (a *alarm) ring(now time.Time) int64 {
	a.n.Add(1)
	last := a.last.Load()
	since := now.UnixNano() - last // negative if the clock was put back
	if since >= 0 && since < int64(alarmEvery) || !a.last.CompareAndSwap(last, now.UnixNano()) {
		return 0
	}
	return a.n.Swap(0)
}
