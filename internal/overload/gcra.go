package overload

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// A Limit allows one event per interval, and a burst. The zero Limit allows all.
type Limit struct {
	Burst int
	Every time.Duration
}

// PerMinute returns a limit of n events per minute, with a burst of n. Zero: no limit.
func PerMinute(n int) Limit {
	if n <= 0 {
		return Limit{}
	}
	return Limit{Burst: n, Every: max(1, time.Minute/time.Duration(n))}
}

// Times returns a limit n times as high.
func (l Limit) Times(n int) Limit {
	if l.Every == 0 {
		return l
	}
	return Limit{Burst: n * l.Burst, Every: max(1, l.Every/time.Duration(n))}
}

// MaxKeys is the number of keys that a Limiter holds at least; it holds at most
// twice as many.
const MaxKeys = 20_000

// Limiter is a GCRA rate limiter with bounded memory, keyed by values that an
// attacker controls, such as addresses. For each key it holds the theoretical
// arrival time, at which all of its events are forgiven, in two generations of
// MaxKeys: when the young one is full, the old one is dropped. Keys are hashed
// under a random seed and take 16 bytes each.
//
// Its methods are not safe for concurrent use. The zero Limiter has no limit.
type Limiter[K comparable] struct {
	limit      Limit
	seed       maphash.Seed
	young, old map[uint64]int64 // nanoseconds since 1970
}

// NewLimiter returns a Limiter that applies l to each key.
func NewLimiter[K comparable](l Limit) Limiter[K] {
	return Limiter[K]{limit: l, seed: maphash.MakeSeed()}
}

// Change replaces the limit and keeps what was counted: a key that has used up a limit
// per minute has also used up the new one.
func (b *Limiter[K]) Change(l Limit) {
	b.limit = l
	if b.seed == (maphash.Seed{}) {
		b.seed = maphash.MakeSeed()
	}
	if l.Every == 0 {
		b.young, b.old = nil, nil
	}
}

// Wait returns the time until key is allowed another event; zero if it is allowed now.
func (b *Limiter[K]) Wait(key K, now time.Time) time.Duration { return b.WaitFor(key, 1, now) }

// WaitFor is Wait for an event that counts weight times, but at most Burst times.
func (b *Limiter[K]) WaitFor(key K, weight int, now time.Time) time.Duration {
	if b.Len() == 0 {
		return 0
	}
	at := now.UnixNano()
	return max(0, time.Duration(b.forgiven(b.id(key), at)-at)-time.Duration(b.limit.Burst-min(weight, b.limit.Burst))*b.limit.Every)
}

// Add counts an event.
func (b *Limiter[K]) Add(key K, now time.Time) { b.AddWeight(key, 1, now) }

// AddWeight counts an event weight times, but at most Burst times.
func (b *Limiter[K]) AddWeight(key K, weight int, now time.Time) {
	if b.limit.Every == 0 {
		return
	}
	id := b.id(key)
	at := b.forgiven(id, now.UnixNano()) + int64(min(weight, b.limit.Burst))*int64(b.limit.Every)
	if _, ok := b.young[id]; !ok && (b.young == nil || len(b.young) == MaxKeys) {
		b.old, b.young = b.young, map[uint64]int64{}
	}
	b.young[id] = at
}

// GiveBack takes back an event of a weight that AddWeight has counted.
func (b *Limiter[K]) GiveBack(key K, weight int) {
	if b.Len() == 0 {
		return
	}
	id := b.id(key)
	counted := int64(min(weight, b.limit.Burst)) * int64(b.limit.Every)
	if at, ok := b.young[id]; ok {
		b.young[id] = at - counted
	} else if at, ok := b.old[id]; ok {
		b.old[id] = at - counted
	}
}

// Len returns the number of keys held, at most 2*MaxKeys.
func (b *Limiter[K]) Len() int { return len(b.young) + len(b.old) }

func (b *Limiter[K]) id(key K) uint64 { return maphash.Comparable(b.seed, key) }

// forgiven returns when the bucket of a key will be empty, at the earliest now. If the
// clock went back, it returns at the latest the time of a full bucket, so that no caller
// waits longer than an interval.
func (b *Limiter[K]) forgiven(id uint64, now int64) int64 {
	at, ok := b.young[id]
	if !ok {
		at = b.old[id]
	}
	return min(max(at, now), now+int64(b.limit.Burst)*int64(b.limit.Every))
}

// OnceAMinute selects one event a minute of each network for a log, so that nobody can fill
// the log. The zero value is ready, and it is safe for concurrent use.
type OnceAMinute struct {
	mu       sync.Mutex
	recorded Limiter[netip.Prefix]
}

// First reports whether an event at an address is the first of its network within a minute.
func (o *OnceAMinute) First(a netip.Addr, now time.Time) bool {
	of := Network(a, 64)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.recorded.Change(PerMinute(1))
	if o.recorded.Wait(of, now) > 0 {
		return false
	}
	o.recorded.Add(of, now)
	return true
}

// Fair reports whether a party may take more of a shared resource, by a dynamic
// threshold (Choudhury and Hahne, 1998): it may hold a fraction of what is free, such
// as a third if part is 3. If n parties each take all they may, (part/(part+1))^n of
// the resource stays free, so that there is always something for one more.
func Fair(held, take, free, part int) bool { return held+take <= (free+part-1)/part }
