package store

import (
	"errors"
	"sync"
	"time"
)

// An Outage is a time in which a store cannot be used. What fails because of it is one
// line in the log when it begins and one with the number when it ends, however many
// requests and tasks fail. A nil Outage combines nothing.
type Outage struct {
	mu          sync.Mutex
	began, last time.Time // of the failures; zero: none since the last outage
	failed      int
}

// Interrupted reports whether an error is one that every request has while a store
// cannot be used.
func Interrupted(err error) bool { return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrBusy) }

// Begins counts a failure, and reports whether it is the first of an outage: the one to
// be logged.
func (o *Outage) Begins(now time.Time) bool {
	if o == nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = now
	o.failed++
	if o.failed == 1 {
		o.began = now
	}
	return o.failed == 1
}

// Quiet reports whether there is an outage in which nothing has failed for a time: it
// may have ended.
func (o *Outage) Quiet(now time.Time, since time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed > 0 && now.Sub(o.last) >= since
}

// End ends the outage. It returns how long and how often something failed.
func (o *Outage) End() (lasted time.Duration, failed int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lasted, failed = o.last.Sub(o.began), o.failed
	o.failed = 0
	return lasted, failed
}
