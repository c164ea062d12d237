package directory

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// Orders and tables are compared with a slice and a map through thousands of random
// changes, and those of before each change must stay as they were.
func TestOrdersAndTables(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	o, tab := order[int]{compare: func(a, b int) int { return cmp.Compare(a, b) }}, table[int, int]{}
	want := map[int]int{}
	for round := range 400 {
		oldOrder, oldTable := slices.Collect(o.all), maps.Collect(tab.all)
		nextOrder, nextTable := o.change(), tab.change()
		before := maps.Clone(want)
		for range 1 + random.IntN(60) {
			n := random.IntN(3000)
			if random.IntN(10) < 3+round/100 { // it grows to many blocks, then shrinks
				nextOrder.remove(n)
				nextTable.delete(n)
				delete(want, n)
			} else {
				nextOrder.insert(n)
				nextTable.set(n, round)
				want[n] = round
			}
		}
		if !slices.Equal(slices.Collect(o.all), oldOrder) || !maps.Equal(maps.Collect(tab.all), oldTable) || !maps.Equal(oldTable, before) {
			t.Fatalf("round %d: the version before has changed", round)
		}
		o, tab = nextOrder.order, nextTable.table
		sorted := slices.Sorted(maps.Keys(want))
		if !slices.Equal(slices.Collect(o.all), sorted) || !maps.Equal(maps.Collect(tab.all), want) {
			t.Fatalf("round %d: other items than those of a slice and a map", round)
		}
		from := random.IntN(3000)
		at, _ := slices.BinarySearch(sorted, from)
		if got := slices.Collect(o.from(func(n int) int { return cmp.Compare(n, from) })); !slices.Equal(got, sorted[at:]) {
			t.Fatalf("round %d: from %d: %v, want %v", round, from, got, sorted[at:])
		}
		if v := tab.get(from); v != want[from] {
			t.Fatalf("round %d: %d is %d, want %d", round, from, v, want[from])
		}
	}
	if len(o.blocks) < 2 {
		t.Errorf("%d blocks: nothing was divided", len(o.blocks))
	}
}
