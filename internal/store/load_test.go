package store_test

import (
	"testing"

	"github.com/mintage/mintage/internal/store"
)

func TestBatchesAreCountedByTheirSize(t *testing.T) {
	var c store.BatchCounter
	for _, n := range []int{0, 1, 1, 2, 3, 4, 5, 256, 257, 1000} {
		c.Add(n)
	}
	// Cumulative counts the batches of at most 1, 2, 4, 8, 16, 32, 64, 128 and 256
	// operations.
	want := store.Batches{Cumulative: [9]uint64{2, 3, 5, 6, 6, 6, 6, 6, 7}, Count: 9, Operations: 1529}
	if got := c.Read(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
