package directory

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Orders and tables are compared with a slice and a map through thousands of random
// changes. Earlier versions must not change.
func TestOrdersAndTables(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	o, tab := order[int]{compare: func(a, b int) int { return cmp.Compare(a, b) }, text: strconv.Itoa}, table[int, int]{}
	skipped := 0
	want := map[int]int{}
	for round := range 400 {
		oldOrder, oldTable := slices.Collect(o.all), maps.Collect(tab.all)
		nextOrder, nextTable := o.change(), tab.change()
		before := maps.Clone(want)
		for range 1 + random.IntN(60) {
			n := random.IntN(3000)
			if random.IntN(10) < 3+round/100 { // grow to many blocks, then shrink
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
		text := strconv.Itoa(random.IntN(3000))
		has := func(n int) bool { return strings.Contains(strconv.Itoa(n), text) }
		found := slices.Collect(o.having(text, func(n int) int { return cmp.Compare(n, from) }, nil))
		skipped += len(sorted) - at - len(found)
		lacks := func(n int) bool { return !has(n) }
		if got, want := slices.DeleteFunc(found, lacks), slices.DeleteFunc(slices.Clone(sorted[at:]), lacks); !slices.Equal(got, want) {
			t.Fatalf("round %d: from %d with %s: %v, want %v", round, from, text, got, want)
		}
		for n := range o.having(text, func(n int) int { return cmp.Compare(n, from) }, func(n int) bool { return n < from+10 }) {
			if n >= from+10 {
				t.Fatalf("round %d: from %d to %d, a search reads %d", round, from, from+10, n)
			}
		}
		if v := tab.get(from); v != want[from] {
			t.Fatalf("round %d: %d is %d, want %d", round, from, v, want[from])
		}
	}
	if skipped == 0 {
		t.Error("a search has read every item")
	}
	if len(o.blocks) < 2 {
		t.Errorf("%d blocks: nothing was divided", len(o.blocks))
	}
}
