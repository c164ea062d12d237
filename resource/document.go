package resource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// staleFor is how long a document is used after it has expired, if the server
	// cannot be reached.
	staleFor = time.Hour
	// pause is the least time from a failed load to the next load, and between loads that
	// tokens with unknown keys cause.
	pause = 5 * time.Second
)

// A document is a published document of the authorization server that may be
// cached: its metadata, its keys. It is loaded when it is first needed, and again in
// the background during the last quarter of its lifetime, so that a busy API never
// waits for it. There is one load at a time.
type document[T any] struct {
	name    string
	limit   int64 // bytes
	address func(context.Context) (string, error)
	parse   func(body []byte) (T, error)
	client  *http.Client
	work    *background
	outage  outage

	mu         sync.Mutex
	value      T
	have       bool
	renewAt    time.Time
	freshUntil time.Time
	loading    chan struct{} // closed at the end of the load under way; nil if there is none
	startedAt  time.Time     // of the last load
	endedAt    time.Time
	err        error // of the last load that ended
}

func newDocument[T any](v *Verifier, name string, limit int64, address func(context.Context) (string, error), parse func([]byte) (T, error)) *document[T] {
	return &document[T]{name: name, limit: limit, address: address, parse: parse, client: v.client, work: v.work,
		outage: outage{what: "fetching the authorization server's " + name, log: v.cfg.Logger}}
}

// load fetches the document, and returns how long it is fresh.
func (d *document[T]) load(ctx context.Context) (value T, fresh time.Duration, err error) {
	address, err := d.address(ctx)
	if err != nil {
		return value, 0, err
	}
	r, body, err := get(ctx, d.client, address, d.limit, http.Header{"Accept": {"application/json"}})
	if err != nil {
		return value, 0, err
	}
	value, err = d.parse(body)
	return value, freshness(r.Header, 5*time.Minute, time.Second, 24*time.Hour), err
}

// get returns the document, loaded again if it has expired. If that fails, it
// returns the expired one for staleFor.
func (d *document[T]) get(ctx context.Context) (T, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	due := !d.have || d.err != nil || !now.Before(d.renewAt)
	if due && (d.err == nil || now.Sub(d.endedAt) >= pause) {
		d.start(now)
	}
	if d.have && now.Before(d.freshUntil) || d.usableStale(now) {
		return d.value, nil
	}
	if err := d.wait(ctx); err != nil {
		return *new(T), err
	}
	if d.err != nil && !d.usableStale(time.Now()) {
		return *new(T), d.err
	}
	return d.value, nil
}

// newer loads the document again, unless it was loaded less than pause ago. Its
// error is that of this load.
func (d *document[T]) newer(ctx context.Context) (T, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.startedAt) >= pause {
		d.start(now)
	}
	if err := d.wait(ctx); err != nil {
		return *new(T), err
	}
	return d.value, d.err
}

func (d *document[T]) usableStale(now time.Time) bool {
	return d.have && d.err != nil && now.Before(d.freshUntil.Add(staleFor))
}

// start begins a load unless one is under way. The mutex is held.
func (d *document[T]) start(now time.Time) {
	if d.loading != nil {
		return
	}
	done := make(chan struct{})
	d.loading, d.startedAt = done, now
	d.work.do(func(ctx context.Context) {
		value, fresh, err := d.load(ctx)
		d.outage.note(err)

		d.mu.Lock()
		defer d.mu.Unlock()
		defer close(done)
		d.loading, d.endedAt = nil, time.Now()
		if d.err = nil; err != nil {
			d.err = unavailable(fmt.Errorf("%s: %w", d.name, err))
			return
		}
		// The lifetime counts from the request, not from the response.
		d.value, d.have = value, true
		d.renewAt, d.freshUntil = now.Add(fresh*3/4), now.Add(fresh)
	})
}

// wait returns when no load is under way. It releases the mutex while it waits.
func (d *document[T]) wait(ctx context.Context) error {
	loading := d.loading
	if loading == nil {
		return nil
	}
	d.mu.Unlock()
	defer d.mu.Lock()
	return d.work.wait(ctx, loading)
}

var errClosed = errors.New("the verifier is closed")

// background runs work that outlives requests, until it is closed.
type background struct {
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex // orders do before the Wait of close, or after it
	group  sync.WaitGroup
}

func newBackground() *background {
	b := &background{}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// do runs f in the background, with a context that close cancels. After close, it does not
// run f.
func (b *background) do(f func(context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() == nil {
		b.group.Go(func() { f(b.ctx) })
	}
}

// wait returns when done is closed, or with an error when the caller or b has ended.
func (b *background) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-b.ctx.Done():
		return unavailable(errClosed)
	case <-ctx.Done():
		return unavailable(context.Cause(ctx))
	}
}

func (b *background) close() {
	b.mu.Lock()
	b.cancel()
	b.mu.Unlock()
	b.group.Wait()
}

// An outage logs the first failure of several, and when the failures end.
type outage struct {
	what    string
	log     *slog.Logger
	failing atomic.Bool
}

func (o *outage) note(err error) {
	switch {
	case errors.Is(err, context.Canceled): // by Close
	case err != nil:
		if !o.failing.Swap(true) {
			o.log.Warn(o.what+" failed", "error", err.Error())
		}
	case o.failing.Load() && o.failing.Swap(false):
		o.log.Info(o.what + " works again")
	}
}
