package account

import (
	"fmt"
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// Throttled means that there were too many failures, and that nothing was
// compared.
type Throttled struct {
	RetryAfter time.Duration // one attempt is free then
}

func (t *Throttled) Error() string {
	return fmt.Sprintf("too many failures: try again in %s", t.RetryAfter)
}

// A limit forgives one failure in each interval, and bears so many at once.
type limit struct {
	burst int
	every time.Duration
}

// A throttle counts failures in four ways. Those of a browser that has logged
// in to the account before count for itself alone: strangers cannot lock it
// out. Those of all others count for their address, for their network at this
// account, and for the account. A network that may not fail at the account any
// more does not add to the account's failures, and the account's are forgiven
// faster than any network's: so no one party can use them up.
//
// Whether there is such an account plays no part.
type throttle struct {
	seed maphash.Seed

	mu      sync.Mutex
	address failures
	network failures
	account failures
	known   failures
}

// newPasswordThrottle lets a network fail n times at an account, and then once
// a minute. At the account, all strangers together can guess 7,250 times on the
// first day.
func newPasswordThrottle(n int) *throttle {
	return &throttle{
		seed:    maphash.MakeSeed(),
		address: failures{limit: limit{12 * n, time.Second}},
		network: failures{limit: limit{n, time.Minute}},
		account: failures{limit: limit{10 * n, 12 * time.Second}},
		known:   failures{limit: limit{2 * n, time.Minute}},
	}
}

// newCodeThrottle is for one-time codes. Who guesses them knows the password,
// and three of a million are good at each moment: all the strangers of a year
// find one with a chance of one in ten.
func newCodeThrottle(n int) *throttle {
	return &throttle{
		seed:    maphash.MakeSeed(),
		address: failures{limit: limit{12 * n, time.Second}},
		network: failures{limit: limit{n, 30 * time.Minute}},
		account: failures{limit: limit{4 * n, 15 * time.Minute}},
		known:   failures{limit: limit{2 * n, 15 * time.Minute}},
	}
}

// whose names a bucket among those of its kind.
type whose struct {
	account store.DocumentKey
	network netip.Prefix
	nonce   string
}

// A bucket is found by a hash under a seed that nobody knows.
type bucket struct {
	of *failures
	id uint64
}

// take counts a failure before the attempt, so that attempts at the same time
// do not all pass. An attempt that turns out to be none, or right, gives it
// back: success is not counted. Nonce is that of a known browser, or nil.
func (t *throttle) take(account store.DocumentKey, from netip.Addr, nonce []byte, now grant.Instant) (giveBack func(), err error) {
	id := func(w whose) uint64 { return maphash.Comparable(t.seed, w) }
	var buckets []bucket
	if nonce != nil {
		buckets = []bucket{{&t.known, id(whose{account: account, nonce: string(nonce)})}}
	} else {
		buckets = []bucket{{&t.account, id(whose{account: account})}}
	}
	if nonce == nil && from.IsValid() {
		buckets = append(buckets, bucket{&t.address, id(whose{network: prefix(from, 64)})},
			bucket{&t.network, id(whose{account: account, network: prefix(from, 48)})})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var wait time.Duration
	for _, b := range buckets {
		wait = max(wait, b.of.wait(b.id, now))
	}
	if wait > 0 {
		return nil, &Throttled{wait}
	}
	for _, b := range buckets {
		b.of.add(b.id, now)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, b := range buckets {
			b.of.giveBack(b.id)
		}
	}, nil
}

// prefix is an IPv4 address, or so many bits of IPv6: who rents one machine has
// 64 bits of them, and who asks for it easily has 48.
func prefix(a netip.Addr, bits int) netip.Prefix {
	a = a.Unmap()
	if a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits)
	return p
}

// failures holds, for each bucket that has failures, the instant at which all
// of them are forgiven. Memory is bounded by two generations: when the young
// one is full, the old one is forgotten.
type failures struct {
	limit
	young, old map[uint64]grant.Instant
}

const maxBuckets = 20_000

// forgiven is when the bucket has no failures any more, and no earlier than
// now. If the clock went back, it is no later than for a bucket that is full:
// nobody waits longer than an interval.
func (f *failures) forgiven(id uint64, now grant.Instant) grant.Instant {
	at, ok := f.young[id]
	if !ok {
		at = f.old[id]
	}
	return min(max(at, now), now.Add(time.Duration(f.burst)*f.every))
}

// wait is how long it takes until the bucket bears another failure.
func (f *failures) wait(id uint64, now grant.Instant) time.Duration {
	return max(0, f.forgiven(id, now).Since(now)-time.Duration(f.burst-1)*f.every)
}

func (f *failures) add(id uint64, now grant.Instant) {
	f.put(id, f.forgiven(id, now).Add(f.every))
}

func (f *failures) giveBack(id uint64) {
	if at, ok := f.young[id]; ok {
		f.young[id] = at.Add(-f.every)
	} else if at, ok := f.old[id]; ok {
		f.old[id] = at.Add(-f.every)
	}
}

func (f *failures) put(id uint64, at grant.Instant) {
	if _, ok := f.young[id]; !ok && (f.young == nil || len(f.young) == maxBuckets) {
		f.old, f.young = f.young, map[uint64]grant.Instant{}
	}
	f.young[id] = at
}
