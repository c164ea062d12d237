package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted counts the calls of a connection.
type counted struct {
	net.Conn
	reads, deadlines atomic.Int32
}

func (c *counted) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }
func (c *counted) Read(b []byte) (int, error) {
	c.reads.Add(1)
	return c.Conn.Read(b)
}
func (c *counted) SetReadDeadline(t time.Time) error {
	c.deadlines.Add(1)
	return c.Conn.SetReadDeadline(t)
}
func (c *counted) SetWriteDeadline(t time.Time) error {
	c.deadlines.Add(1)
	return c.Conn.SetWriteDeadline(t)
}

// entered returns a connection as from a listener, and its other end.
func entered() (m *connection, below *counted, client net.Conn) {
	client, far := net.Pipe()
	below = &counted{Conn: far}
	return NewConnections(ConnectionLimits{}, nil, slog.New(slog.DiscardHandler)).enter(below), below, client
}

func TestADeadlineThatMovesAwayIsSetWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, below, client := entered()
		defer client.Close()
		began := time.Now()
		for range 100 {
			m.SetReadDeadline(time.Now().Add(5 * time.Second))
			m.SetReadDeadline(time.Now().Add(10 * time.Second))
			m.SetReadDeadline(time.Time{})
			m.SetReadDeadline(time.Now().Add(75 * time.Second))
			time.Sleep(time.Millisecond)
		}
		if n := below.deadlines.Load(); n != 1 {
			t.Errorf("%d deadlines were set for 100 requests", n)
		}
		if _, err := m.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read without input: %v", err)
		}
		if took := time.Since(began); took != 75*time.Second+99*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		// Without a deadline, later input is still read.
		m.SetReadDeadline(time.Time{})
		go func() {
			time.Sleep(time.Hour)
			client.Write([]byte("x"))
		}()
		if n, err := m.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("without a deadline: %d bytes, %v", n, err)
		}
		m.SetReadDeadline(time.Now().Add(time.Minute))
		m.SetReadDeadline(time.Now().Add(time.Second)) // sooner than the deadline before
		began = time.Now()
		m.Read(make([]byte, 1))
		if took := time.Since(began); took != time.Second {
			t.Errorf("with a nearer deadline it took %v", took)
		}
	})
}

func TestAPassedDeadlineSplitsNoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, client := entered()
		defer client.Close()
		m.SetWriteDeadline(time.Now().Add(time.Second))
		m.SetWriteDeadline(time.Now().Add(20 * time.Second))
		got := make(chan string)
		go func() {
			b := make([]byte, 10)
			client.Read(b[:4])
			time.Sleep(5 * time.Second)
			io.ReadFull(client, b[4:])
			got <- string(b)
		}()
		if n, err := m.Write([]byte("0123456789")); n != 10 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		if text := <-got; text != "0123456789" {
			t.Errorf("the client got %q", text)
		}
		began := time.Now()
		if n, err := m.Write([]byte("x")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 15*time.Second {
			t.Errorf("a client that does not read: %d bytes, %v after %v", n, err, time.Since(began))
		}
	})
}

// served starts a server with one connection, whose handler is handle.
func served(t *testing.T, handle func(http.ResponseWriter, *http.Request)) (client net.Conn, below *counted, stop func()) {
	client, far := net.Pipe()
	below = &counted{Conn: far}
	all := NewConnections(ConnectionLimits{}, nil, slog.New(slog.DiscardHandler))
	srv := HTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Read the last byte only after hold: that starts net/http's background read.
		_, err := r.Body.Read(make([]byte, max(1, r.ContentLength-1)))
		hold(r)
		if _, rest := io.Copy(io.Discard, r.Body); err != nil || rest != nil {
			t.Errorf("body: %v, %v", err, rest)
		}
		handle(w, r)
	}), slog.New(slog.DiscardHandler))
	l := &single{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conns <- below
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		srv.Serve(all.Bound(l, srv))
	}()
	return client, below, func() {
		client.Close()
		srv.Close()
		<-ended
	}
}

// If a handler answers a browser by an in-process request, that must not stop reads of
// the browser's connection, on which other HTTP/2 requests arrive.
func TestARequestInProcessHoldsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, client := entered()
		defer client.Close()
		browser := context.WithValue(t.Context(), connectionKey{}, m)
		r, err := http.NewRequestWithContext(browser, http.MethodPost, "/oauth2/access_token", nil)
		if err != nil {
			t.Fatal(err)
		}
		if connectionOf(r) != m {
			t.Fatal("the browser's request has no connection")
		}
		InProcess{http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hold(r) })}.RoundTrip(r)
		read := make(chan error, 1)
		go func() {
			_, err := m.Read(make([]byte, 1))
			read <- err
		}()
		go client.Write([]byte("x"))
		synctest.Wait()
		select {
		case err := <-read:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the next request is not read")
			m.aborted <- struct{}{}
		}
	})
}

// single is a listener that returns given connections.
type single struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *single) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *single) Close() error   { close(l.closed); return nil }
func (l *single) Addr() net.Addr { return &net.TCPAddr{} }

const heldRequest = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"

func answerOf(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	a, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(a.Body)
	return string(text)
}

func TestNothingIsReadBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		var below *counted
		client, below, stop := served(t, func(w http.ResponseWriter, r *http.Request) {
			requests++
			before := below.reads.Load()
			time.Sleep(3 * time.Second)
			if n := below.reads.Load(); n != before {
				t.Errorf("%d reads beside the handler", n-before)
			}
			if r.Context().Err() != nil {
				t.Errorf("the request's context: %v", r.Context().Err())
			}
			io.WriteString(w, strings.Repeat("x", requests))
		})
		defer stop()
		answers := bufio.NewReader(client)
		// A second request that arrives before the first response waits for it.
		go client.Write([]byte(heldRequest + heldRequest))
		for i, want := range []string{"x", "xx", "xxx"} {
			if i == 2 {
				time.Sleep(time.Minute) // less than the idle timeout
				go client.Write([]byte(heldRequest))
			}
			if got := answerOf(t, answers); got != want {
				t.Errorf("answer %d: %q", i, got)
			}
		}
		time.Sleep(74 * time.Second)
		go client.Write([]byte("POST"))
		time.Sleep(4 * time.Second)
		began := time.Now()
		io.ReadAll(answers)
		if took := time.Since(began); took != time.Second {
			t.Errorf("a connection whose header does not end was closed after %v", took)
		}
	})
}

func TestADisconnectedClientLeavesNoGoroutineBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine of the server is left
		for _, handle := range []func(http.ResponseWriter, *http.Request){
			func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "late") },
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		} {
			var finished atomic.Bool
			client, _, stop := served(t, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(3 * time.Second)
				finished.Store(r.Context().Err() == nil)
				handle(w, r)
			})
			client.Write([]byte(heldRequest))
			synctest.Wait()
			client.Close()
			time.Sleep(10 * time.Second)
			if !finished.Load() {
				t.Error("the work of a client that went away was cancelled")
			}
			stop()
		}
	})
}
