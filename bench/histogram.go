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

// Merge adds everything that other has counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// Count is how many durations were added.
func (h *Histogram) Count() uint64 { return h.n }

// Max is the longest duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile is a duration that the share q of all does not exceed, or zero if
// there is none.
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

// bucket keeps the first stepBits+1 significant bits of v.
func bucket(v uint64) int {
	shift := max(0, bits.Len64(v)-1-stepBits)
	return shift<<stepBits + int(v>>shift)
}

// upper is the largest value that falls into bucket i.
func upper(i int) uint64 {
	shift := max(0, i>>stepBits-1)
	return uint64(i-shift<<stepBits+1)<<shift - 1
}
