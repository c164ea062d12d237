package store

import (
	"math/bits"
	"sync/atomic"
)

// A Load is how busy an engine is, for those who watch it.
type Load struct {
	Waiting int // operations, at this moment
	Batches Batches
}

// Batches is how many writes were committed together, since the store was
// opened.
type Batches struct {
	// Cumulative counts the batches of at most 1, 2, 4 ... 256 writes.
	Cumulative [9]uint64
	Count      uint64 // of all batches
	Operations uint64 // in them
}

// A BatchCounter counts batches. Its methods are safe for concurrent use.
type BatchCounter struct {
	sizes      [len(Batches{}.Cumulative) + 1]atomic.Uint64 // the last one is of all larger ones
	operations atomic.Uint64
}

// Add counts a batch of n writes.
func (c *BatchCounter) Add(n int) {
	if n < 1 {
		return
	}
	c.sizes[min(bits.Len(uint(n-1)), len(c.sizes)-1)].Add(1)
	c.operations.Add(uint64(n))
}

// Read is what was counted. A batch that is added meanwhile may be in it in
// part.
func (c *BatchCounter) Read() (b Batches) {
	for i := range c.sizes {
		b.Count += c.sizes[i].Load()
		if i < len(b.Cumulative) {
			b.Cumulative[i] = b.Count
		}
	}
	b.Operations = c.operations.Load()
	return b
}
