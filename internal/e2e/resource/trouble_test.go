//go:build e2e

package resource

import (
	"crypto/tls"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A standIn replaces Mintage to simulate faults. Its responses are those for a valid
// token, except for the fault of its mode.
type standIn struct {
	address string
	mode    atomic.Value // string
	mu      sync.Mutex
	asked   []*http.Request
}

const (
	good     = "good"
	busy     = "503"
	bug      = "500"
	moved    = "302"
	hanging  = "hanging"
	impostor = "certified by somebody else"
)

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r)
	s.mu.Unlock()
	for name, value := range map[string]string{"X-Auth-Subject": "alice", "X-Auth-Client": "c", "X-Auth-Scope": "read", "X-Auth-Expires": "1", "Content-Type": "application/jwt"} {
		w.Header().Set(name, value)
	}
	switch s.mode.Load() {
	case busy:
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusServiceUnavailable)
	case bug:
		w.WriteHeader(http.StatusInternalServerError)
	case moved:
		w.Header().Set("Location", "https://auth.example.com/elsewhere")
		w.WriteHeader(http.StatusFound)
	case hanging:
		select { // longer than a proxy may wait
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	}
	if strings.HasSuffix(r.URL.Path, "/introspect") {
		w.Write([]byte("e30.e30.e30")) // a JWT without claims, as base64url("{}") three times
	}
}

func startStandIn(t *testing.T, w *world) *standIn {
	t.Helper()
	s := &standIn{}
	s.mode.Store(good)
	genuine, fake := w.ca.config(t, "auth.example.com"), newAuthority(t).config(t, "auth.example.com")
	fake.SessionTicketsDisabled = true // clients of the real server must not resume their sessions here
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if s.mode.Load() == impostor {
			return fake, nil
		}
		return genuine, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	s.address = listener.Addr().String()
	return s
}

// checkTrouble checks that no fault of Mintage lets a request through.
func checkTrouble(t *testing.T, w *world) {
	s := startStandIn(t, w)
	fronts := []*front{startNginx(t, w, s.address, startAPI(t)), startCaddy(t, w, s.address, startAPI(t)), startGateway(t, w, s.address)}
	header := append(bearer("x"), "Cookie", "session=1")
	for _, f := range fronts {
		for range 2 { // the second request reuses the first one's connection
			if o := f.ask(t, "POST", "/reports", "body", header...); o.seen == nil {
				t.Fatalf("%s: status %d of a good answer", f.name, o.status)
			}
		}
		s.checkAsked(t, f)
	}
	// hanging precedes impostor: a proxy then closes its connection, and makes a new
	// handshake with the impostor.
	for _, mode := range []string{busy, bug, moved, hanging, impostor} {
		s.mode.Store(mode)
		for _, f := range fronts {
			o := f.ask(t, "POST", "/reports", "body", header...)
			switch {
			case o.seen != nil || mode != moved && o.status < 500 || o.status < 300:
				t.Errorf("%s, Mintage is %s: status %d, API reached: %t", f.name, mode, o.status, o.seen != nil)
			case mode == busy && (o.status != http.StatusServiceUnavailable || o.header.Get("Retry-After") == ""):
				t.Errorf("%s: status %d, Retry-After %q of a 503", f.name, o.status, o.header.Get("Retry-After"))
			}
		}
	}
}

// checkAsked checks the requests of a proxy to Mintage: they contain only the token of
// the client's request, over a verified connection that is reused.
func (s *standIn) checkAsked(t *testing.T, f *front) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	connections := map[string]bool{}
	for _, r := range s.asked {
		connections[r.RemoteAddr] = true
		// This test configures Caddy's upstream by address; the page uses the name.
		if r.Host != s.address && (r.Host != "auth.example.com" || r.TLS.ServerName != r.Host) {
			t.Errorf("%s asks host %q by the name %q", f.name, r.Host, r.TLS.ServerName)
		}
		if r.Header.Get("Cookie") != "" {
			t.Errorf("%s sends the client's cookies", f.name)
		}
		if f.name != "phantom token" && r.ContentLength != 0 {
			t.Errorf("%s sends a body of %d bytes", f.name, r.ContentLength)
		}
	}
	if len(s.asked) != 2 || len(connections) != 1 {
		t.Errorf("%s has asked %d times on %d connections", f.name, len(s.asked), len(connections))
	}
	s.asked = nil
}
