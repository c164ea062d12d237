package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func server(t *testing.T, answer http.HandlerFunc) (endpoint string, cfg *tls.Config) {
	s := httptest.NewTLSServer(answer)
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s.URL, &tls.Config{RootCAs: pool}
}

// TestAStormCountsWhateverIsAnswered: refusals, too, and connections that are lost.
func TestAStormCountsWhateverIsAnswered(t *testing.T) {
	var n atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	endpoint, cfg := server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Forwarded-For") != "10.1.0.1" || r.FormValue("a") != "b" && r.Header.Get("Cookie") != "__Host-mintage_session=s" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		switch n.Add(1) {
		case 1:
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			panic(http.ErrAbortHandler)
		case 3:
			w.WriteHeader(http.StatusUnauthorized)
		case 4:
			cancel()
		}
	})
	from := netip.MustParseAddr("10.1.0.1")
	answers, err := Storm{Endpoint: endpoint, TLS: cfg, Connections: 1, Next: func(b []byte, _ int) []byte {
		if n.Load()%2 == 0 {
			return FormRequest(b, "auth.example", "/token", from, "a=b")
		}
		return PageRequest(b, "auth.example", "/authorize", from, "s")
	}}.Run(ctx)
	if err != nil || answers[429] != 1 || answers[0] != 1 || answers[401] != 1 {
		t.Errorf("%v, %v", answers, err)
	}
}

// TestALoadSignsEachRequest: an assertion is accepted once.
func TestALoadSignsEachRequest(t *testing.T) {
	var n atomic.Int64
	endpoint, cfg := server(t, func(_ http.ResponseWriter, r *http.Request) {
		want := map[int64]string{1: "one", 2: "two"}[n.Add(1)]
		if got := r.FormValue("client_assertion"); got != want || !strings.HasSuffix(r.FormValue("client_assertion_type"), ":jwt-bearer") || r.Header.Get("X-Forwarded-For") != "10.1.0.1" {
			t.Errorf("request %d: %q, %v", n.Load(), got, r.Header)
		}
	})
	texts := []string{"one", "two"}
	l := Load{Operation: Refresh, Connections: 1, Requests: 2, Chains: Split([]string{"x", "y"}, 1)}
	l.Target = Target{Endpoint: endpoint, TLS: cfg, From: netip.MustParseAddr("10.1.0.1"), Assertion: func() string { return texts[n.Load()] }}
	if _, err := l.Run(t.Context()); err != nil || n.Load() != 2 {
		t.Errorf("%d requests, %v", n.Load(), err)
	}
}

// TestSilenceComesBack: a connection that the server closes is opened again.
func TestSilenceComesBack(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(10*time.Second, cancel).Stop()
	done := make(chan error)
	from := netip.MustParseAddr("127.9.0.1")
	go func() { done <- Silence(ctx, "https://"+l.Addr().String(), 1, from) }()
	for range 2 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got := netip.MustParseAddrPort(c.RemoteAddr().String()).Addr(); got != from {
			t.Errorf("from %s", got)
		}
		c.Close()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
