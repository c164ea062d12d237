package store

import (
	"errors"
	"log/slog"
	"sync"
	"time"
)

// An Outage combines the failures while a store cannot be used, or while another program
// locks a row: the log has one line when they begin and one with their number when they end,
// however many requests and tasks fail. A nil Outage combines nothing.
type Outage struct {
	Log *slog.Logger

	mu          sync.Mutex
	began, last time.Time // of the first and the last failure
	failed      int       // failures; 0: there is no outage
}

// Interrupted reports whether an error is one that every operation returns while a store
// cannot be used.
func Interrupted(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrBusy) }

// Combines reports whether an outage causes a failure, and counts the failure if so: the
// caller then logs nothing. Combines itself logs the first failure of an outage, as an
// error.
func (o *Outage) Combines(err error, now time.Time) bool {
	if o == nil || !Interrupted(err) || errors.As(err, new(*ExternalFault)) {
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

// Quiet reports whether there is an outage, and nothing has failed for the duration since:
// it may have ended.
func (o *Outage) Quiet(now time.Time, since time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed > 0 && now.Sub(o.last) >= since
}

// End ends the outage at now. It returns the time since the first failure, and the number of
// failures.
func (o *Outage) End(now time.Time) (lasted time.Duration, failed int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lasted, failed = now.Sub(o.began), o.failed
	o.failed = 0
	return lasted, failed
}
