package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"
)

// readyTime bounds what /readyz finds out.
const readyTime = 3 * time.Second

// Health answers the management listener's questions: is the process alive,
// and should it be sent requests?
type Health struct {
	ready    func(context.Context) error
	draining atomic.Bool
}

// NewHealth makes a Health that is ready when ready returns nil.
func NewHealth(ready func(context.Context) error) *Health { return &Health{ready: ready} }

// Drain makes the node not ready, for load balancers to notice before it stops.
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

// Handler is the route table of the management listener, with the metrics unless
// they are nil, and Go's profiles if they are wanted.
func (h *Health) Handler(metrics http.Handler, profiles bool) http.Handler {
	mux := http.NewServeMux()
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	if profiles {
		mux.HandleFunc("GET /debug/pprof/{profile...}", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	// Alive is about the process only: restarting it does not mend a store.
	alive := func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok\n") }
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := h.Ready(r.Context()); err != nil {
			plain(w, http.StatusServiceUnavailable, err.Error()+"\n")
		} else {
			plain(w, http.StatusOK, "ok\n")
		}
	})
	return mux
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write([]byte(text))
}
