package pgtest

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// A Proxy forwards connections to a server, and simulates a network failure. Cut
// holds back the traffic in both directions, and Heal delivers it. TCP does the same:
// it retransmits for minutes, even after the sender has closed the connection, so that
// an unreachable server later receives statements for which no client waits any
// more. Sever resets the connections, as after a longer failure.
type Proxy struct {
	listener net.Listener

	mu     sync.Mutex
	target string
	whole  chan struct{} // closed unless the traffic is cut
	lines  map[*line]struct{}
}

// A line is one connection through a Proxy.
type line struct {
	near, far net.Conn
	gone      chan struct{} // closed when it ends
	end       func()
}

// StartProxy starts a proxy in front of the server at an address.
func StartProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target, whole: make(chan struct{}), lines: map[*line]struct{}{}}
	close(p.whole)
	go p.accept()
	return p, nil
}

// Address returns the address at which the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Target makes the proxy forward new connections to another server.
func (p *Proxy) Target(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = address
}

// Cut holds all traffic back. New connections are accepted, and their traffic is held
// back too.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.passes() {
		p.whole = make(chan struct{})
	}
}

// Heal ends Cut, and delivers the traffic that was held back.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.passes() {
		close(p.whole)
	}
}

// passes reports whether traffic passes. The caller holds p.mu.
func (p *Proxy) passes() bool {
	select {
	case <-p.whole:
		return true
	default:
		return false
	}
}

// Sever resets all connections. The traffic that was held back is lost.
func (p *Proxy) Sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.lines {
		l.end()
	}
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.Sever()
	return err
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // too many open files, say
			continue
		}
		l := &line{near: conn, gone: make(chan struct{})}
		l.end = sync.OnceFunc(func() { close(l.gone) })
		p.mu.Lock()
		p.lines[l] = struct{}{}
		p.mu.Unlock()
		go p.carry(l)
	}
}

// carry forwards a connection to the server until the connection ends.
func (p *Proxy) carry(l *line) {
	defer func() {
		l.end()
		reset(l.near)
		if l.far != nil {
			reset(l.far)
		}
		p.mu.Lock()
		delete(p.lines, l)
		p.mu.Unlock()
	}()
	if !p.pass(l) {
		return
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	l.far = far
	var both sync.WaitGroup
	both.Go(func() { p.pump(l, l.far, l.near) })
	both.Go(func() { p.pump(l, l.near, l.far) })
	finished := make(chan struct{})
	go func() {
		both.Wait()
		close(finished)
	}()
	select {
	case <-finished: // each side has closed, and the other has received that
		l.near.Close()
		l.far.Close()
	case <-l.gone:
	}
}

// pass waits until traffic passes. It returns false if l ends before.
func (p *Proxy) pass(l *line) bool {
	p.mu.Lock()
	whole := p.whole
	p.mu.Unlock()
	select {
	case <-l.gone:
		return false
	case <-whole:
		return true
	}
}

// pump forwards what one side sends to the other, and the end of it (half-close).
func (p *Proxy) pump(l *line, to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !p.pass(l) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				l.end()
				return
			}
		}
		if err != nil {
			if err != io.EOF || to.(*net.TCPConn).CloseWrite() != nil {
				l.end()
			}
			return
		}
	}
}

// reset closes a connection so that its peer gets an error (TCP RST).
func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}
