package overload

import (
	"container/list"
	"context"
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"time"
)

// A Class of requests is served before or after others when there is more to do
// than can be done.
type Class int

const (
	// Checks are introspection, verification and token info. They read.
	Checks Class = iota
	// Holders refresh a token or revoke one: whoever has one goes on with it.
	Holders
	// Newcomers redeem codes, and Visitors log in and look at pages. They are
	// alike, but that a login may be somewhere else, and slow.
	Newcomers
	Visitors
	classes
)

const (
	// requestsOfProcessor fill the batches of a store's commits; more of them at
	// once would only wait longer for the processor.
	requestsOfProcessor = 16
	leastRequests       = 64
	mostRequests        = 1024
	// defaultWaiting is as many as there may be connections: a request that
	// waits costs no more than its connection does, and a client that waits
	// asks for nothing else meanwhile.
	defaultWaiting = 4096
	// MaxWait is how long a request waits for its turn. Together with the work
	// on it, an answer comes within a second.
	MaxWait = 500 * time.Millisecond
	// newcomersTurn says that of so many requests that get their turn after a
	// wait, one holds no token: they wait longer, but not for ever.
	newcomersTurn = 8
)

// What is turned away, as the hook for it is told.
const (
	shedRequests = "requests" // too many waited
	shedLate     = "late"     // it has waited for too long
)

// An Admission bounds how many requests are worked on at once, and how many
// wait for that. Requests that are only read or written do not count, and
// neither do documents, which cost less than a refusal.
type Admission struct {
	mu      sync.Mutex
	places  int // requests at once
	waiting int // more that may wait
	used    [classes]int
	queues  [classes]list.List // of *waiter
	turns   uint
	// What visitors of one network have: requests at work or waiting, those of
	// them that wait, and those that have a place while another provider is asked.
	of, waitingOf, slowOf map[netip.Prefix]int
	slowAll               int
	shed                  func(what string)
}

// Load is how many requests are worked on at once, and how many more may wait.
// Zero is a default that suits every machine.
type Load struct{ Requests, Waiting int }

// NewAdmission makes an Admission. Shed is called with what is turned away.
func NewAdmission(l Load, shed func(what string)) *Admission {
	a := &Admission{shed: shed, of: map[netip.Prefix]int{}, waitingOf: map[netip.Prefix]int{}, slowOf: map[netip.Prefix]int{}}
	a.SetLoad(l)
	return a
}

// SetLoad changes the bounds, for requests that come from now on.
func (a *Admission) SetLoad(l Load) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.places, a.waiting = l.Requests, l.Waiting
	if a.places == 0 {
		a.places = min(max(leastRequests, requestsOfProcessor*runtime.GOMAXPROCS(0)), mostRequests)
	}
	if a.waiting == 0 {
		a.waiting = defaultWaiting
	}
	a.handOn()
}

// UnderWay is how many requests are worked on, and how many wait.
func (a *Admission) UnderWay() (working, waiting int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range classes {
		working += a.used[c]
		waiting += a.queues[c].Len()
	}
	return working, waiting
}

// may reports whether there is a place for a request. An eighth of the places
// is for checks alone, because they can go on when nothing can be written; and
// visitors have half of them.
func (a *Admission) may(c Class) bool {
	writers := a.used[Holders] + a.used[Newcomers] + a.used[Visitors]
	switch {
	case writers+a.used[Checks] >= a.places:
		return false
	case c != Checks && writers >= a.places-a.places/8:
		return false
	case c == Visitors:
		return a.used[Visitors] < a.ofVisitors()
	}
	return true
}

// ofVisitors is how many places visitors may have.
func (a *Admission) ofVisitors() int { return max(1, a.places/2) }

// queued is how many requests wait, and how many of them hold no token.
func (a *Admission) queued() (all, tokenless int) {
	tokenless = a.queues[Newcomers].Len() + a.queues[Visitors].Len()
	return a.queues[Checks].Len() + a.queues[Holders].Len() + tokenless, tokenless
}

// Early refuses a request that Enter would refuse, whatever its class is.
func (a *Admission) Early() error {
	a.mu.Lock()
	all, _ := a.queued()
	full := all >= a.waiting
	a.mu.Unlock()
	if !full {
		return nil
	}
	a.shed(shedRequests)
	return ErrShed
}

// QueuedIn is how many requests of a class wait.
func (a *Admission) QueuedIn(c Class) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.queues[c].Len()
}

// behind is how much later a visitor's request counts as come for each that its
// network has at work or waiting: those of others go first.
const behind = MaxWait / 8

// ofNetwork is which part of what is free the visitors of one network may have.
const ofNetwork = 3

// Enter takes a place, to be given back by Leave, or waits for one. Those who
// hold no token may fill half of the queue, and those of one network their share
// of it, unless it is the zero network. An error means that the request is not to
// be worked on; it is the client's to send again.
func (a *Admission) Enter(ctx context.Context, c Class, network netip.Prefix) error {
	a.mu.Lock()
	if a.queues[c].Len() == 0 && a.may(c) {
		a.used[c]++
		if network.IsValid() {
			a.of[network]++
		}
		a.mu.Unlock()
		return nil
	}
	all, tokenless := a.queued()
	free := (a.waiting+1)/2 - tokenless
	if all >= a.waiting || c >= Newcomers && free <= 0 || network.IsValid() && !Fair(a.waitingOf[network], 1, free, ofNetwork) {
		a.mu.Unlock()
		a.shed(shedRequests)
		return ErrShed
	}
	now := time.Now()
	w := &waiter{came: now, since: now.Add(time.Duration(a.of[network]) * behind), turn: make(chan struct{}), network: network}
	a.push(c, w)
	a.mu.Unlock()

	timer := time.NewTimer(MaxWait)
	defer timer.Stop()
	select {
	case <-w.turn:
		return nil
	case <-timer.C:
	case <-ctx.Done(): // nobody waits for the answer any more
	}
	a.mu.Lock()
	if w.place == nil {
		a.mu.Unlock()
		return nil // its turn came at this moment
	}
	a.remove(c, w)
	if network.IsValid() {
		less(a.of, network)
	}
	a.mu.Unlock()
	a.shed(shedLate)
	return ErrShed
}

// push puts w into the queue of its class, behind those that came before it.
func (a *Admission) push(c Class, w *waiter) {
	queue := &a.queues[c]
	at := queue.Back()
	for at != nil && at.Value.(*waiter).since.After(w.since) {
		at = at.Prev()
	}
	if at == nil {
		w.place = queue.PushFront(w)
	} else {
		w.place = queue.InsertAfter(w, at)
	}
	if w.network.IsValid() {
		a.waitingOf[w.network]++
		a.of[w.network]++
	}
}

func (a *Admission) remove(c Class, w *waiter) {
	a.queues[c].Remove(w.place)
	w.place = nil
	if w.network.IsValid() {
		less(a.waitingOf, w.network)
	}
}

// less takes one of a network away.
func less(of map[netip.Prefix]int, network netip.Prefix) {
	if of[network]--; of[network] <= 0 {
		delete(of, network)
	}
}

// Slow notes that a visitor, who has a place, is to wait for another provider,
// until leave is called: a network may not have more than its share of the
// visitors' places in that way.
func (a *Admission) Slow(network netip.Prefix) (Leave func(), err error) {
	a.mu.Lock()
	ok := Fair(a.slowOf[network], 1, a.ofVisitors()-a.slowAll, ofNetwork)
	if ok {
		a.slowOf[network]++
		a.slowAll++
	}
	a.mu.Unlock()
	if !ok {
		a.shed(shedRequests)
		return nil, ErrShed
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		less(a.slowOf, network)
		a.slowAll--
	}, nil
}

// Leave gives a place back.
func (a *Admission) Leave(c Class, network netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used[c]--
	if network.IsValid() {
		less(a.of, network)
	}
	a.handOn()
}

// handOn gives free places to those who wait.
func (a *Admission) handOn() {
	for {
		c, ok := a.next()
		if !ok {
			return
		}
		a.used[c]++
		a.turns++
		w := a.first(c)
		a.remove(c, w)
		close(w.turn)
	}
}

// next is whose turn it is: of checks and holders, whoever has waited longer,
// and then of newcomers and visitors, who also have every eighth turn.
func (a *Admission) next() (best Class, ok bool) {
	best, ok = a.longest(Checks, Holders)
	if !ok || a.turns%newcomersTurn == newcomersTurn-1 {
		if c, some := a.longest(Newcomers, Visitors); some {
			return c, true
		}
	}
	return best, ok
}

// longest is the class among these whose first request has waited longest, of
// those that there is a place for.
func (a *Admission) longest(these ...Class) (best Class, ok bool) {
	for _, c := range these {
		w := a.first(c)
		if w != nil && a.may(c) && (!ok || w.came.Before(a.first(best).came)) {
			best, ok = c, true
		}
	}
	return best, ok
}

// first is the waiter of a class whose turn is next; nil if none waits.
func (a *Admission) first(c Class) *waiter {
	front := a.queues[c].Front()
	if front == nil {
		return nil
	}
	return front.Value.(*waiter)
}

// A waiter is a request that waits.
type waiter struct {
	came  time.Time
	since time.Time     // when it came, and behind for each request that its network had then: the order within its class
	turn  chan struct{} // closed when it is its turn
	place *list.Element // in its class's queue; nil once it is out
	// network is where a visitor is; the zero prefix if it does not count.
	network netip.Prefix
}

// ErrShed is the error of a request that is not worked on because there is too
// much to do.
var ErrShed = errors.New("too much to do")
