package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/server"
)

func TestLiveIsAboutTheProcessAndReadyAboutItsRequests(t *testing.T) {
	var fault error
	health := server.NewHealth(func(context.Context) error { return fault })
	expect := func(path string, status int, text string) {
		t.Helper()
		w := httptest.NewRecorder()
		health.Handler(nil, false, nil).ServeHTTP(w, ownRequest(http.MethodGet, path))
		if w.Code != status || !strings.Contains(w.Body.String(), text) {
			t.Errorf("%s: %d %q, want %d %q", path, w.Code, w.Body, status, text)
		}
		if status != http.StatusNotFound && w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be cached", path)
		}
	}
	expect("/livez", 200, "ok")
	expect("/readyz", 200, "ok")
	fault = errors.New("no news from the store")
	expect("/livez", 200, "ok") // a restart would not repair the store
	expect("/readyz", 503, "no news from the store")
	fault = nil
	expect("/readyz", 200, "ok")
	health.Drain()
	expect("/readyz", 503, "stopping")
	expect("/livez", 200, "ok")
	expect("/metricsz", 404, "")
}

func TestProfilesAreServedOnRequestOnly(t *testing.T) {
	health := server.NewHealth(func(context.Context) error { return nil })
	for _, profiles := range []bool{false, true} {
		w := httptest.NewRecorder()
		health.Handler(nil, profiles, nil).ServeHTTP(w, ownRequest(http.MethodGet, "/debug/pprof/goroutine?debug=1"))
		if served := w.Code == http.StatusOK; served != profiles {
			t.Errorf("profiles wanted %t: status %d", profiles, w.Code)
		}
	}
}

func TestHealthAnswersGETAlone(t *testing.T) {
	for _, path := range []string{"/livez", "/readyz"} {
		w := httptest.NewRecorder()
		server.NewHealth(func(context.Context) error { return nil }).Handler(nil, false, nil).ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, w.Code)
		}
	}
}

// ownRequest returns a request to the listener's default address.
func ownRequest(method, path string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:9000"
	return r
}

// A page of another site can make its name resolve to this listener (DNS rebinding), so
// that its scripts could read what a browser on this network may.
func TestAForeignNameGetsNothingFromTheManagementListener(t *testing.T) {
	var fault error
	health := server.NewHealth(func(context.Context) error { return fault })
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("the numbers")) })
	handler := health.Handler(metrics, true, []string{"prometheus.example.com", "10.0.0.5", ""})
	ask := func(host, path string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	own := []string{
		"127.0.0.1:9000", "127.0.0.1", "[::1]:9000", "[::1]", "10.1.2.3:9000", "localhost:9000", "LOCALHOST", "localhost.:9000", "a.localhost",
		"mintage:9000", "prometheus.example.com:9000", "Prometheus.Example.com.", "", // HTTP/1.0 has no Host header
	}
	foreign := []string{
		"evil.example", "evil.example:9000", "127.0.0.1.evil.example", "localhost.evil.example:9000", "evil.localhost.example", "evil.prometheus.example.com",
		"prometheus.example.com.evil.example", "127.0.0.1:9000:1", "[evil.example]", "evil.example\x00", "evil.example:x", ".", "..", ":9000", "evil.example..",
	}
	for _, host := range own {
		for _, path := range []string{"/metrics", "/debug/pprof/goroutine?debug=1", "/livez", "/readyz"} {
			if code, _ := ask(host, path); code != http.StatusOK {
				t.Errorf("Host %q: %s: %d", host, path, code)
			}
		}
	}
	for _, host := range foreign {
		for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/profile", "/debug/pprof/trace", "/none"} {
			if code, text := ask(host, path); code != http.StatusMisdirectedRequest || !strings.Contains(text, "management.hosts") {
				t.Errorf("Host %q: %s: %d %q", host, path, code, text)
			}
		}
		// Health probes keep their status under any name, but do not get the reason.
		fault = errors.New("no news from the store")
		if code, text := ask(host, "/readyz"); code != http.StatusServiceUnavailable || text != "not ready\n" {
			t.Errorf("Host %q: %d %q", host, code, text)
		}
		if code, text := ask(host, "/livez"); code != http.StatusOK || text != "ok\n" {
			t.Errorf("Host %q: %d %q", host, code, text)
		}
		fault = nil
		if code, _ := ask(host, "/readyz"); code != http.StatusOK {
			t.Errorf("Host %q: %d", host, code)
		}
	}
}
