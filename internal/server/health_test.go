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
		health.Handler(nil, false).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
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
	expect("/livez", 200, "ok") // a restart does not mend a store
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
		health.Handler(nil, profiles).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/goroutine?debug=1", nil))
		if served := w.Code == http.StatusOK; served != profiles {
			t.Errorf("profiles wanted %t: status %d", profiles, w.Code)
		}
	}
}

func TestHealthAnswersGETAlone(t *testing.T) {
	for _, path := range []string{"/livez", "/readyz"} {
		w := httptest.NewRecorder()
		server.NewHealth(func(context.Context) error { return nil }).Handler(nil, false).ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, w.Code)
		}
	}
}
