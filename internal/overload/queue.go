// Package overload protects a server from more requests than it can process: by a
// priority queue with load shedding (Queue), and by rate limits by address and client
// (Throttle, Limiter). It handles classes and keys, never a request.
package overload

import (
	"container/list"
	"context"
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A Class is the priority class of a request.
type Class int

const (
	Check   Class = iota // introspection, verification, token info, userinfo: reads only
	Refresh              // refreshing, revoking or exchanging tokens; assertions; device polls
	Code                 // authorization requests, redeeming a code, client credentials
	Login                // pages and logins, which may wait for another provider
	Own                  // requests of self-registered clients, except for pages
	classes
)

const (
	// slotsPerProcessor fills the batches of a store's commits; more requests at
	// once would only wait longer for the processor.
	slotsPerProcessor = 16
	// With many more slots, refreshes of a server at four times its capacity wait as
	// long as codes, because priority counts only in the queue.
	minSlots = 64
	maxSlots = 1024
	// defaultWaiting is the default limit of connections: a queued request costs
	// no more than its connection, and its client sends nothing else meanwhile.
	defaultWaiting = 4096
	// MaxWait is how long a request is queued. Together with the work on it, an
	// answer comes within a second if the server serves 500 requests a second.
	MaxWait = 500 * time.Millisecond
	// In one of lowTurn turns, a queued request of a low class (Code, Login) goes
	// first, so that those classes do not starve.
	lowTurn = 8
	// penalty moves a queued request back in its class, for each request that its
	// network has running or queued: other networks go first.
	penalty = MaxWait / 8
	// Own may use 1/ownSlots of the slots, so that operators' clients do not wait for
	// the processor. If none of these has authenticated within ownPause, Own may use as
	// many slots as they. It may always fill 1/ownWaiting of the queue.
	ownSlots, ownWaiting = 32, 8
	ownPause             = time.Second
	// ownRest is how long a slot of Own stays empty after each use while operators'
	// clients are active. Requests that need only the processor, and not the disk, would
	// otherwise follow one another without a pause, and keep the processor from them.
	ownRest = 4 * time.Millisecond
	// networkShare: one network may have a third of the free capacity; see Fair.
	networkShare = 3
)

// Reasons of load shedding, as the shed hook receives them.
const (
	shedRequests = "requests" // the queue was full
	shedLate     = "late"     // the request was queued for MaxWait
)

// ErrShed is the error of a request that was shed.
var ErrShed = errors.New("overloaded")

// Capacity is the number of requests that run at once, and the number of further
// ones that may be queued. Zero stands for a default that suits every machine.
type Capacity struct{ Requests, Waiting int }

// Queue limits the requests that run at once and queues a limited number of further
// ones by priority; it sheds the rest (load shedding). Its methods are safe for
// concurrent use.
type Queue struct {
	mu       sync.Mutex
	slots    int // requests at once
	waiting  int // further requests that may be queued
	used     [classes]int
	queues   [classes]list.List // of *waiter
	turns    uint
	resting  int // slots of Own that are empty for ownRest, and not free
	networks map[netip.Prefix]network
	slow     int // requests with a slot that wait for another provider
	// aside counts the requests of class Own that have returned their slots in Await, by
	// client, and asides all of them.
	aside  map[string]int
	asides int
	// operators is when an operator's client last authenticated, in nanoseconds since began
	// by the monotonic clock. Each request of such a client writes it, without the lock.
	operators atomic.Int64
	began     time.Time
	shed      func(why string)
}

// network counts the requests of one network.
type network struct {
	queued, present int // present: running or queued
	slow, aside     int // waiting for another server: with a slot for logins, and without a slot
}

// NewQueue returns a Queue that calls shed with the reason for each request that
// it sheds.
func NewQueue(c Capacity, shed func(why string)) *Queue {
	q := &Queue{shed: shed, networks: map[netip.Prefix]network{}, aside: map[string]int{}, began: time.Now()}
	q.operators.Store(-int64(ownPause)) // no operator's client has authenticated
	q.SetCapacity(c)
	return q
}

// SetCapacity changes the capacity for the requests that come from now on.
func (q *Queue) SetCapacity(c Capacity) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slots, q.waiting = c.Requests, c.Waiting
	if q.slots == 0 {
		q.slots = min(max(minSlots, slotsPerProcessor*runtime.GOMAXPROCS(0)), maxSlots)
	}
	if q.waiting == 0 {
		q.waiting = defaultWaiting
	}
	q.dispatch()
}

// Load returns the number of requests that run, and of those that are queued.
func (q *Queue) Load() (running, queued int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for c := range classes {
		running += q.used[c]
	}
	queued, _ = q.queued()
	return running - q.resting, queued
}

// Queued returns the number of queued requests of a class.
func (q *Queue) Queued(c Class) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queues[c].Len()
}

// Early sheds a request before it calls Enter, if the queue is full for all classes.
func (q *Queue) Early() error {
	q.mu.Lock()
	all, _ := q.queued()
	full := all >= q.waiting
	q.mu.Unlock()
	if !full {
		return nil
	}
	q.shed(shedRequests)
	return ErrShed
}

// free reports whether a request of a class may have a slot. An eighth of the
// slots is reserved for Check, which succeeds even if the store cannot be written,
// and Login may use half of them.
func (q *Queue) free(c Class) bool {
	writers := q.used[Refresh] + q.used[Code] + q.used[Login] + q.used[Own]
	switch {
	case writers+q.used[Check] >= q.slots:
		return false
	case c != Check && writers >= q.slots-q.slots/8:
		return false
	case c == Login:
		return q.used[Login] < q.loginSlots()
	case c == Own && q.busy():
		return q.used[Own] < max(2, q.slots/ownSlots)
	}
	return true
}

func (q *Queue) loginSlots() int { return max(1, q.slots/2) }

// queued counts all queued requests, and those of the low classes.
func (q *Queue) queued() (all, low int) {
	low = q.queues[Code].Len() + q.queues[Login].Len()
	return q.queues[Check].Len() + q.queues[Refresh].Len() + q.queues[Own].Len() + low, low
}

// ownRoom returns how many requests of class Own may be queued.
func (q *Queue) ownRoom() int { return max(1, q.waiting/ownWaiting) }

// Operator records that an operator's client has authenticated. A client's id alone must
// not count, because anybody could send it to slow down the clients of class Own.
func (q *Queue) Operator() { q.operators.Store(int64(time.Since(q.began))) }

// busy reports whether an operator's client has authenticated within ownPause.
func (q *Queue) busy() bool { return time.Since(q.began)-time.Duration(q.operators.Load()) < ownPause }

// Enter takes a slot, which Leave returns, and waits for one if none is free. Code and
// Login may fill half of the queue, Own an eighth, and one network a share of what is
// free of that; the zero network has no such limit. After an error, do not work on the
// request: its client may send it again.
func (q *Queue) Enter(ctx context.Context, c Class, of netip.Prefix) error {
	q.mu.Lock()
	if q.queues[c].Len() == 0 && q.free(c) {
		q.used[c]++
		q.count(of, network{present: 1})
		q.mu.Unlock()
		return nil
	}
	all, low := q.queued()
	room := (q.waiting+1)/2 - low
	if c == Own {
		room = q.ownRoom() - q.queues[Own].Len()
	}
	if all >= q.waiting || c >= Code && room <= 0 || of.IsValid() && !Fair(q.networks[of].queued, 1, room, networkShare) {
		q.mu.Unlock()
		q.shed(shedRequests)
		return ErrShed
	}
	now := time.Now()
	w := &waiter{came: now, since: now.Add(time.Duration(q.networks[of].present) * penalty), turn: make(chan struct{}), of: of}
	q.push(c, w)
	q.mu.Unlock()

	timer := time.NewTimer(MaxWait)
	defer timer.Stop()
	select {
	case <-w.turn:
		return nil
	case <-timer.C:
	case <-ctx.Done(): // the client has gone
	}
	q.mu.Lock()
	if w.place == nil {
		q.mu.Unlock()
		return nil // its turn came at this moment
	}
	q.remove(c, w)
	q.count(of, network{present: -1})
	q.mu.Unlock()
	q.shed(shedLate)
	return ErrShed
}

// Leave returns a slot.
func (q *Queue) Leave(c Class, of netip.Prefix) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(of, network{present: -1})
	if c == Own && q.busy() {
		q.resting++
		time.AfterFunc(ownRest, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.resting--
			q.release(Own)
		})
		return
	}
	q.release(c)
}

func (q *Queue) release(c Class) {
	q.used[c]--
	q.dispatch()
}

// Slow records that a request of class Login, which has a slot, waits for another
// provider until done is called. It returns ErrShed if such requests of the network
// have their share of the slots.
func (q *Queue) Slow(of netip.Prefix) (done func(), err error) {
	q.mu.Lock()
	ok := Fair(q.networks[of].slow, 1, q.loginSlots()-q.slow, networkShare)
	if ok {
		q.slow++
		q.count(of, network{slow: 1})
	}
	q.mu.Unlock()
	if !ok {
		q.shed(shedRequests)
		return nil, ErrShed
	}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.slow--
		q.count(of, network{slow: -1})
	}, nil
}

// count adds more to the counts of a network; the zero network is not counted.
func (q *Queue) count(of netip.Prefix, more network) {
	if !of.IsValid() {
		return
	}
	n := q.networks[of]
	n.queued += more.queued
	n.present += more.present
	n.slow += more.slow
	n.aside += more.aside
	if n == (network{}) {
		delete(q.networks, of)
	} else {
		q.networks[of] = n
	}
}

// push queues w in its class, in the order of since.
func (q *Queue) push(c Class, w *waiter) {
	queue := &q.queues[c]
	at := queue.Back()
	for at != nil && at.Value.(*waiter).since.After(w.since) {
		at = at.Prev()
	}
	if at == nil {
		w.place = queue.PushFront(w)
	} else {
		w.place = queue.InsertAfter(w, at)
	}
	q.count(w.of, network{queued: 1, present: 1})
}

func (q *Queue) remove(c Class, w *waiter) {
	q.queues[c].Remove(w.place)
	w.place = nil
	q.count(w.of, network{queued: -1})
}

// dispatch gives free slots to queued requests.
func (q *Queue) dispatch() {
	for {
		c, ok := q.next()
		if !ok {
			return
		}
		q.used[c]++
		q.turns++
		w := q.first(c)
		q.remove(c, w)
		close(w.turn)
	}
}

// next returns the class whose turn it is: Check and Refresh precede Code and Login,
// and these precede Own. Within a pair, the earliest queued request decides. In one of
// lowTurn turns, Check and Refresh come last.
func (q *Queue) next() (best Class, ok bool) {
	best, ok = q.longest(Check, Refresh)
	if !ok || q.turns%lowTurn == lowTurn-1 {
		for _, these := range [][]Class{{Code, Login}, {Own}} {
			if c, low := q.longest(these...); low {
				return c, true
			}
		}
	}
	return best, ok
}

// longest returns the class among these whose first request was queued first, of
// those that may have a slot.
func (q *Queue) longest(these ...Class) (best Class, ok bool) {
	for _, c := range these {
		w := q.first(c)
		if w != nil && q.free(c) && (!ok || w.came.Before(q.first(best).came)) {
			best, ok = c, true
		}
	}
	return best, ok
}

// first returns the first queued request of a class, or nil.
func (q *Queue) first(c Class) *waiter {
	front := q.queues[c].Front()
	if front == nil {
		return nil
	}
	return front.Value.(*waiter)
}

// waiter is a queued request.
type waiter struct {
	came  time.Time
	since time.Time     // came plus the penalty of its network; the order within its class
	turn  chan struct{} // closed when it has a slot
	place *list.Element // in the queue of its class; nil once it is out
	of    netip.Prefix
}
