package fetch

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/overload"
)

const (
	// pause is the least time between two fetches of an address if the first failed, or
	// its document did not contain what a caller needed.
	pause = time.Minute
	// maxHeld limits the bodies of the documents that a cache holds, in bytes.
	maxHeld = 16 << 20
	// maxFlights limits the fetches at once. One network may have a fraction of those
	// that are free: one in flightsPart; see overload.Fair.
	maxFlights, flightsPart = 64, 4
	// perNetwork limits the fetches that one network causes in a minute.
	perNetwork = 60
)

// ErrLater means that an address is not fetched now: a fetch failed a moment ago, or
// too much is fetched. The same request can succeed within a minute.
var ErrLater = errors.New("not fetched now; try again in a moment")

// A Cache holds values that were read from the documents at addresses. It does not hold
// failures: a failure delays the next fetch of its address by a minute. Its methods are
// safe for concurrent use.
type Cache[T any] struct {
	// Stale is how long an expired document is still used while it cannot be fetched.
	Stale time.Duration
	// Done, if set, is called after each fetch.
	Done func(address string, err error)

	get  func(ctx context.Context, address string) (Answer, error)
	read func(address string, body []byte) (T, error)
	now  func() time.Time

	mu       sync.Mutex
	held     map[string]*list.Element // of *document[T]
	recent   list.List                // the same, the last used first
	size     int                      // of the held bodies
	flights  map[string]*flight[T]
	of       map[netip.Prefix]int // flights by network
	failures overload.Limiter[string]
	networks overload.Limiter[netip.Prefix]
}

// A document is the value of the document at one address.
type document[T any] struct {
	address        string
	value          T
	size           int
	fetched, until time.Time
}

// A flight is one fetch, for all callers that need it.
type flight[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// NewCache returns a Cache that fetches with get and reads the body of an address
// with read. A body that cannot be read is a failed fetch.
func NewCache[T any](get func(context.Context, string) (Answer, error), read func(address string, body []byte) (T, error), now func() time.Time) *Cache[T] {
	return &Cache[T]{
		get: get, read: read, now: now,
		held: map[string]*list.Element{}, flights: map[string]*flight[T]{}, of: map[netip.Prefix]int{},
		failures: overload.NewLimiter[string](overload.Limit{Burst: 1, Every: pause}),
		networks: overload.NewLimiter[netip.Prefix](overload.PerMinute(perNetwork)),
	}
}

// Held returns the held value of an address, however old. It fetches nothing.
func (c *Cache[T]) Held(address string) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.held[address]; e != nil {
		return e.Value.(*document[T]).value, true
	}
	var none T
	return none, false
}

// Get returns the value of the document at an address. It fetches the document unless
// the held one is fresh and has what the caller needs, which enough reports. A document
// that was fetched within the last minute is returned in any case. The fetch counts for
// the network from, whose share is limited; the zero network has no such limit.
func (c *Cache[T]) Get(ctx context.Context, address string, from netip.Prefix, enough func(T) bool) (T, error) {
	return c.GetSince(ctx, address, time.Time{}, from, enough)
}

// GetSince is Get, but ignores a document that was fetched before since, unless since is
// in the future.
func (c *Cache[T]) GetSince(ctx context.Context, address string, since time.Time, from netip.Prefix, enough func(T) bool) (T, error) {
	var none T
	now := c.now()
	c.mu.Lock()
	var have *document[T]
	if e := c.held[address]; e != nil && (since.After(now) || !e.Value.(*document[T]).fetched.Before(since)) {
		have = e.Value.(*document[T])
		c.recent.MoveToFront(e)
	}
	serves := have != nil && (enough == nil || enough(have.value))
	recent := have != nil && now.Before(have.fetched.Add(pause))
	if recent || serves && now.Before(have.until) {
		c.mu.Unlock()
		return have.value, nil
	}
	f, err := c.join(ctx, address, from, now)
	c.mu.Unlock()
	if err == nil {
		switch err = overload.Await(ctx, f.done); {
		case errors.Is(err, overload.ErrShed):
			return none, err
		case err != nil:
			err = fmt.Errorf("%w: %w", ErrUnreachable, err)
		case f.err == nil:
			return f.value, nil
		default:
			err = f.err
		}
	}
	if serves && now.Before(have.until.Add(c.Stale)) {
		return have.value, nil
	}
	return none, err
}

// join returns the flight of an address, which it begins if there is none and the
// limits allow it.
func (c *Cache[T]) join(ctx context.Context, address string, from netip.Prefix, now time.Time) (*flight[T], error) {
	if f := c.flights[address]; f != nil {
		return f, nil
	}
	switch {
	case c.failures.Wait(address, now) > 0:
		return nil, ErrLater
	case len(c.flights) >= maxFlights:
		return nil, fmt.Errorf("%w: too many fetches", ErrLater)
	case from.IsValid() && !overload.Fair(c.of[from], 1, maxFlights-len(c.flights), flightsPart), from.IsValid() && c.networks.Wait(from, now) > 0:
		return nil, fmt.Errorf("%w: too many fetches for one network", ErrLater)
	}
	if from.IsValid() {
		c.networks.Add(from, now)
	}
	f := &flight[T]{done: make(chan struct{})}
	c.flights[address] = f
	c.of[from]++
	// The end of ctx must not end the fetch: other callers may wait for it, too.
	go c.fly(context.WithoutCancel(ctx), f, address, from)
	return f, nil
}

// fly fetches an address, a second time if there was no connection.
func (c *Cache[T]) fly(ctx context.Context, f *flight[T], address string, from netip.Prefix) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	a, err := c.get(ctx, address)
	if errors.Is(err, ErrUnreachable) && ctx.Err() == nil {
		a, err = c.get(ctx, address)
	}
	if err == nil {
		if f.value, err = c.read(address, a.Body); err != nil {
			err = fmt.Errorf("%w: %w", ErrAnswer, err)
		}
	}
	f.err = err
	now := c.now()
	c.mu.Lock()
	if err == nil {
		c.hold(&document[T]{address, f.value, len(a.Body) + len(address), now, now.Add(a.Fresh)})
	} else {
		c.failures.Add(address, now)
	}
	delete(c.flights, address)
	if c.of[from]--; c.of[from] == 0 {
		delete(c.of, from)
	}
	c.mu.Unlock()
	if c.Done != nil {
		c.Done(address, err)
	}
	close(f.done)
}

// hold adds a document, and drops the least recently used ones (LRU) above maxHeld.
func (c *Cache[T]) hold(d *document[T]) {
	if e := c.held[d.address]; e != nil {
		c.drop(e)
	}
	c.held[d.address] = c.recent.PushFront(d)
	for c.size += d.size; c.size > maxHeld; {
		c.drop(c.recent.Back())
	}
}

func (c *Cache[T]) drop(e *list.Element) {
	d := c.recent.Remove(e).(*document[T])
	delete(c.held, d.address)
	c.size -= d.size
}
