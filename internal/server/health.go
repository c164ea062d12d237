package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// readyTime limits the checks that /readyz makes.
const readyTime = 3 * time.Second

// Health serves the management listener: it reports whether the process is alive, and
// whether it should receive requests.
type Health struct {
	ready    func(context.Context) error
	draining atomic.Bool
}

// NewHealth makes a Health that is ready when ready returns nil.
func NewHealth(ready func(context.Context) error) *Health { return &Health{ready: ready} }

// Drain makes the node not ready, so that load balancers remove it before it stops.
func (h *Health) Drain() { h.draining.Store(true) }

// Ready returns the reason why this node must not be sent requests, or nil.
func (h *Health) Ready(ctx context.Context) error {
	if h.draining.Load() {
		return errStopping
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	return h.ready(ctx)
}

var errStopping = errors.New("stopping")

// Handler returns the handler of the management listener, with metrics unless nil, and
// with Go's profiles if profiles is set. The Host header must pass isOwn: otherwise, after
// DNS rebinding, a browser would let scripts of another site read the answers.
func (h *Health) Handler(metrics http.Handler, profiles bool, names []string) http.Handler {
	mux := http.NewServeMux()
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	if profiles {
		mux.HandleFunc("GET /debug/pprof/{profile...}", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	// /livez is about the process only: restarting it does not repair a store.
	alive := func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") }
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		switch err := h.Ready(r.Context()); {
		case err == nil:
			plain(w, http.StatusOK, "ok\n")
		case !isOwn(r.Host, names):
			plain(w, http.StatusServiceUnavailable, "not ready\n")
		default:
			plain(w, http.StatusServiceUnavailable, err.Error()+"\n")
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Answer probes under every host name, but with the status alone: a wrong name must
		// not make a healthy node look dead.
		if r.URL.Path != "/livez" && r.URL.Path != "/readyz" && !isOwn(r.Host, names) {
			plain(w, http.StatusMisdirectedRequest, "the Host header names another host: use the listener's IP address, or add the name to management.hosts\n")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isOwn reports whether a Host header cannot be the name of another site: it is
// absent, an IP address, localhost, a name without a dot, or one of names.
func isOwn(host string, names []string) bool {
	if host == "" {
		return true // HTTP/1.0
	}
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host || u.User != nil {
		return false
	}
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if name == "" {
		return false
	}
	_, notAddress := netip.ParseAddr(name)
	return notAddress == nil || !strings.Contains(name, ".") || strings.HasSuffix(name, ".localhost") ||
		slices.ContainsFunc(names, func(own string) bool { return strings.EqualFold(name, strings.TrimSuffix(own, ".")) })
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write([]byte(text))
}
