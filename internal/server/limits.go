package server

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/overload"
)

// enter takes a place for the work on a request, until its answer is known. It
// comes after the request was read, so that who sends slowly holds no place.
func (s *Server) enter(r *http.Request, x *exchange, c overload.Class) error {
	if x.page {
		x.network = overload.Party(x.counted)
	}
	if err := s.queue.Enter(r.Context(), c, x.network); err != nil {
		return err
	}
	x.inside, x.class = true, c
	return nil
}

// UnderWay is how many requests are worked on, and how many wait for that.
func (s *Server) UnderWay() (working, waiting int) { return s.queue.Load() }

// ofClient counts a token request of an authenticated client. Whoever knows the
// name of a public client can be it, so each address is one of its own; where
// all addresses are one, none counts.
func (s *Server) ofClient(x *exchange, id string, public bool) error {
	if public {
		return s.throttle.RequestOfClientFrom(x.counted, id)
	}
	return s.throttle.RequestOfClient(id)
}

// An alarm says that something happens, at most every ten seconds, and how
// often it did.
type alarm struct {
	n    atomic.Int64
	last atomic.Int64 // nanoseconds since 1970
}

const alarmEvery = 10 * time.Second

// ring counts, and returns how often it happened since the last time that it
// returned a number; zero if nothing is to be said now.
func (a *alarm) ring(now time.Time) int64 {
	a.n.Add(1)
	last := a.last.Load()
	if now.UnixNano()-last < int64(alarmEvery) || !a.last.CompareAndSwap(last, now.UnixNano()) {
		return 0
	}
	return a.n.Swap(0)
}
