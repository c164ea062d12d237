package store

import (
	"math/bits"
	"sync/atomic"
)

// A Load describes how busy an engine is, for metrics.
type Load struct {
	Waiting int // queued operations
	Batches Batches
}

// Batches counts the batches of writes that were committed together (group commit) since
// the store was opened.
type Batches struct {
	// Cumulative counts the batches of at most 1, 2, 4 ... 256 writes.
	Cumulative [9]uint64
	Count      uint64 // of all batches
	Operations uint64 // writes in all batches
}

// A BatchCounter counts batches. Its methods are safe for concurrent use.
type BatchCounter struct {
	sizes      [len(Batches{}.Cumulative) + 1]atomic.Uint64 // the last one counts all larger batches
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

// Read returns the counts. Of a batch that is added concurrently, they may include only a
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
