package server

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// requestTime bounds the work on one request, from its last header on.
	requestTime = 5 * time.Second
	// requestSpan is how much later it may end: requests that begin within it
	// share a deadline, because one for each costs ten times as much.
	requestSpan = 100 * time.Millisecond
)

// deadlines are the contexts of requests. They belong to no request: a client
// that goes away does not end what it asked for. It will ask again.
type deadlines struct{ latest atomic.Pointer[deadline] }

type deadline struct {
	context.Context
	began time.Time
	// Nobody ends it before its time: others may be at work under it.
	_ context.CancelFunc
}

// of is the context of a request that begins now.
func (d *deadlines) of(now time.Time) context.Context {
	latest := d.latest.Load()
	if latest != nil && now.Sub(latest.began) < requestSpan {
		return latest
	}
	ctx, cancel := context.WithDeadline(context.Background(), now.Add(requestTime+requestSpan))
	next := &deadline{ctx, now, cancel}
	d.latest.Store(next)
	return next
}
