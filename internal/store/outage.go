package store

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// An Outage is a time in which a store cannot be used, or a row that another program has
// locked. What fails because of it is one line in the log when it begins and one with the
// number when it ends, however many requests and tasks fail. A nil Outage combines nothing.
type Outage struct {
	Log *slog.Logger

	mu          sync.Mutex
	began, last time.Time // of the failures; zero: none since the last outage
	failed      int
}

// Interrupted reports whether an error is one that every request has while a store
// cannot be used.
func Interrupted(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrBusy) }

// Combines counts a failure that an outage causes, and reports whether it is one: then
// the caller logs nothing. The first of an outage is logged as an error here, whoever
// meets it.
func (o *Outage) Combines(err error, now time.Time) bool {
	if o == nil || !Interrupted(err) || errors.As(err, new(*Elsewhere)) {
		return false
	}
	o.mu.Lock()
	o.last = now
	o.failed++
	first := o.failed == 1
	if first {
		o.began = now
	}
	o.mu.Unlock()
	if first {
		o.Log.Error("operations on the store fail, and their requests are answered 503; until this ends, failures are counted, and those of requests logged at level debug", "error", err)
	}
	return true
}

// Quiet reports whether there is an outage in which nothing has failed for a time: it
// may have ended.
func (o *Outage) Quiet(now time.Time, since time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed > 0 && now.Sub(o.last) >= since
}

// End ends the outage at now. It returns how long it lasted since the first failure, and
// how many failures there were.
func (o *Outage) End(now time.Time) (lasted time.Duration, failed int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lasted, failed = now.Sub(o.began), o.failed
	o.failed = 0
	return lasted, failed
}
