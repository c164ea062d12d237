package bench

import (
	"math"
	"math/bits"
	"time"
)

// stepBits is the resolution of a Histogram: 64 steps for each power of two,
// so that a quantile is at most 1.6 percent above the true one.
const stepBits = 6

// A Histogram counts durations in buckets that widen with their values. The
// zero Histogram is empty. It never allocates.
type Histogram struct {
	counts [(64 - stepBits) << stepBits]uint64
	n      uint64
	max    time.Duration
}

// Add counts one duration. A negative one, from a clock that was set back,
// counts as zero.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))]++
	h.n++
	h.max = max(h.max, d)
}

// Merge adds all durations of other.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// Count returns the number of durations.
func (h *Histogram) Count() uint64 { return h.n }

// Max returns the longest duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns a duration that a share q of all durations does not exceed, or zero
// without durations.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(h.n)))
	rank = min(max(rank, 1), h.n)
	var seen uint64
	for i, n := range h.counts {
		seen += n
		if seen >= rank && n > 0 {
			return min(time.Duration(upper(i)), h.max)
		}
	}
	return 0
}

// bucket returns a bucket by the first stepBits+1 significant bits of v.
func bucket(v uint64) int {
	shift := max(0, bits.Len64(v)-1-stepBits)
	return shift<<stepBits + int(v>>shift)
}

// upper returns the largest value of bucket i.
func upper(i int) uint64 {
	shift := max(0, i>>stepBits-1)
	return uint64(i-shift<<stepBits+1)<<shift - 1
}
