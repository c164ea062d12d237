package main

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mintage/mintage/bench"
)

func TestAWrongAnswerFailsTheSuite(t *testing.T) {
	answers := []string{
		`{"scope":"a","expires_in":300,"token_type":"Bearer","refresh_token":"1","access_token":"t"}`,
		`{"scope":"a","expires_in":300,"token_type":"mac","refresh_token":"2","access_token":"t"}`,
		`{"scope":"a","expires_in":300,"token_type":"Bearer","refresh_token":"3","access_token":"t"}`,
	}
	n := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(answers[n]))
		n++
	}))
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	h := host{chains: bench.Split([]string{"0"}, 1)}
	l := bench.Load{Operation: bench.Refresh, Connections: 1, Requests: 1, Chains: h.chains,
		Target: bench.Target{Endpoint: s.URL, TLS: &tls.Config{RootCAs: pool}}}
	if _, err := h.load(t.Context(), l); err != nil {
		t.Errorf("a right answer: %v", err)
	}
	l.Requests = 2
	if _, err := h.load(t.Context(), l); err == nil || !strings.Contains(err.Error(), "1 of 2 requests went wrong") || !strings.Contains(err.Error(), "token_type") {
		t.Errorf("a wrong answer: %v", err)
	}
}
