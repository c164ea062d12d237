package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestEveryValueFallsIntoTheBucketWhoseUpperBoundCoversIt(t *testing.T) {
	check := func(v uint64) {
		t.Helper()
		i := bucket(v)
		if hi := upper(i); v > hi || hi > v+v>>stepBits {
			t.Errorf("%d falls into bucket %d, which ends at %d", v, i, hi)
		}
		if i > 0 && upper(i-1) >= v {
			t.Errorf("%d falls into bucket %d, but the one before ends at %d", v, i, upper(i-1))
		}
	}
	for v := range uint64(1 << 12) {
		check(v)
	}
	for shift := range 63 {
		for _, v := range []uint64{1<<shift - 1, 1 << shift, 1<<shift + 1, 3 << shift >> 1} {
			check(v & math.MaxInt64)
		}
	}
	check(math.MaxInt64)
	if last := bucket(math.MaxInt64); last != len(Histogram{}.counts)-1 {
		t.Errorf("the largest duration falls into bucket %d of %d", last, len(Histogram{}.counts))
	}
}

func TestQuantilesAreAtMostOneStepAboveTheTrueOnes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all []time.Duration
	var parts [4]Histogram
	for i := range 100_000 {
		d := time.Duration(math.Exp(random.NormFloat64()*2 + 13))
		all = append(all, d)
		parts[i%len(parts)].Add(d)
	}
	var h Histogram
	for i := range parts {
		h.Merge(&parts[i])
	}
	slices.Sort(all)
	if h.Count() != uint64(len(all)) || h.Max() != all[len(all)-1] {
		t.Errorf("merged: %d values, longest %d; added %d, longest %d", h.Count(), h.Max(), len(all), all[len(all)-1])
	}
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 0.99999, 1} {
		exact := all[max(int(math.Ceil(q*float64(len(all)))), 1)-1]
		if got := h.Quantile(q); got < exact || got > exact+exact>>stepBits {
			t.Errorf("quantile %g is %d, and exactly %d", q, got, exact)
		}
	}
}

func TestAnEmptyHistogramHasNoLatency(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Max() != 0 || h.Count() != 0 {
		t.Errorf("median %d, longest %d, count %d", h.Quantile(0.5), h.Max(), h.Count())
	}
}

func TestAClockSetBackCountsAsZero(t *testing.T) {
	var h Histogram
	h.Add(-time.Second)
	if h.Count() != 1 || h.Quantile(1) != 0 || h.Max() != 0 {
		t.Errorf("count %d, quantile %d, longest %d", h.Count(), h.Quantile(1), h.Max())
	}
}
