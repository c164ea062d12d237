// Package overload counts what must not happen too often, for each of many
// parties that nobody has chosen, in memory that is bounded.
package overload

import (
	"hash/maphash"
	"time"
)

// A Limit forgives one event in each interval, and bears so many at once. The
// zero Limit is none.
type Limit struct {
	Burst int
	Every time.Duration
}

// PerMinute is the limit that bears n at once, and then one for each share of a
// minute. Zero is no limit.
func PerMinute(n int) Limit {
	if n <= 0 {
		return Limit{}
	}
	return Limit{Burst: n, Every: max(1, time.Minute/time.Duration(n))}
}

// Times is a limit that allows n times as much.
func (l Limit) Times(n int) Limit {
	if l.Every == 0 {
		return l
	}
	return Limit{Burst: n * l.Burst, Every: max(1, l.Every/time.Duration(n))}
}

// Most is how many keys a Set remembers at least, and half of how many it
// remembers at most.
const Most = 20_000

// A Set holds, for each key that has events, the moment at which all of them
// are forgiven. Memory is bounded by two generations of Most keys: when the
// young one is full, the old one is forgotten. A key is found by a hash under a
// seed that nobody knows, and takes 16 bytes whatever it is.
//
// Its methods are not safe for concurrent use. The zero Set has no limit.
type Set[K comparable] struct {
	limit      Limit
	seed       maphash.Seed
	young, old map[uint64]int64 // nanoseconds since 1970
}

// New makes a Set whose keys go by a limit.
func New[K comparable](l Limit) Set[K] { return Set[K]{limit: l, seed: maphash.MakeSeed()} }

// Change has every key go by another limit from now on. What was counted
// stays, as far as it counts under the new one: what fills a bucket of a minute
// fills every bucket of a minute.
func (b *Set[K]) Change(l Limit) {
	b.limit = l
	if b.seed == (maphash.Seed{}) {
		b.seed = maphash.MakeSeed()
	}
	if l.Every == 0 {
		b.young, b.old = nil, nil
	}
}

// Wait is how long it takes until key bears another event; zero if it does now.
func (b *Set[K]) Wait(key K, now time.Time) time.Duration { return b.WaitFor(key, 1, now) }

// WaitFor is Wait for an event that weighs as much as so many. One that weighs
// more than the limit bears at once weighs just that.
func (b *Set[K]) WaitFor(key K, weight int, now time.Time) time.Duration {
	if b.Len() == 0 {
		return 0
	}
	at := now.UnixNano()
	return max(0, time.Duration(b.forgiven(b.id(key), at)-at)-time.Duration(b.limit.Burst-min(weight, b.limit.Burst))*b.limit.Every)
}

// Add counts an event.
func (b *Set[K]) Add(key K, now time.Time) { b.AddWeight(key, 1, now) }

// AddWeight counts an event that weighs as much as so many.
func (b *Set[K]) AddWeight(key K, weight int, now time.Time) {
	if b.limit.Every == 0 {
		return
	}
	id := b.id(key)
	at := b.forgiven(id, now.UnixNano()) + int64(min(weight, b.limit.Burst))*int64(b.limit.Every)
	if _, ok := b.young[id]; !ok && (b.young == nil || len(b.young) == Most) {
		b.old, b.young = b.young, map[uint64]int64{}
	}
	b.young[id] = at
}

// GiveBack takes back an event of a weight that was counted.
func (b *Set[K]) GiveBack(key K, weight int) {
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

// Len is how many keys are remembered, at most 2*Most.
func (b *Set[K]) Len() int { return len(b.young) + len(b.old) }

func (b *Set[K]) id(key K) uint64 { return maphash.Comparable(b.seed, key) }

// forgiven is when the key has no events any more, and no earlier than now. If
// the clock went back, it is no later than for a bucket that is full: nobody
// waits longer than an interval.
func (b *Set[K]) forgiven(id uint64, now int64) int64 {
	at, ok := b.young[id]
	if !ok {
		at = b.old[id]
	}
	return min(max(at, now), now+int64(b.limit.Burst)*int64(b.limit.Every))
}

// Fair reports whether a party that holds some of what many share may take
// more: all that it holds may be a part (a third, if part is 3) of what is free,
// by a dynamic threshold (Choudhury and Hahne, 1998). So n parties, each of which
// takes all it may, leave (part/(part+1))^n of it: less for each that comes, and
// something for one more.
func Fair(held, take, free, part int) bool { return held+take <= (free+part-1)/part }
