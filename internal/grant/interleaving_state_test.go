package grant_test

// This file reduces the number and the size of the worlds of interleaving_world_test.go.

// A table gives every value a small number, so that worlds are compared and
// hashed fast. The zero value of T has number 0.
type table[T comparable] struct {
	values []T
	number map[T]int32
}

func newTable[T comparable]() *table[T] {
	var zero T
	return &table[T]{values: []T{zero}, number: map[T]int32{zero: 0}}
}

func (t *table[T]) of(v T) int32 {
	n, known := t.number[v]
	if !known {
		n = int32(len(t.values))
		t.values, t.number[v] = append(t.values, v), n
	}
	return n
}

// arrange sorts the slots, because their order does not matter.
func (w *world) arrange() {
	for i := range w.slots {
		for j := i; j > 0 && w.slots[j-1].less(w.slots[j]); j-- {
			w.slots[j-1], w.slots[j] = w.slots[j], w.slots[j-1]
		}
	}
}

func (r request) less(q request) bool {
	flag := func(b bool, bit uint64) uint64 {
		if b {
			return bit
		}
		return 0
	}
	pack := func(r request) uint64 {
		return uint64(r.who)<<56 | uint64(r.attempt)<<48 | uint64(r.phase)<<40 | uint64(r.node)<<32 | uint64(r.generation)<<24 |
			uint64(r.why)<<16 | flag(r.creating, 1) | flag(r.cutoff, 2) | flag(r.late, 4) | flag(r.lost, 8)
	}
	if a, b := pack(r), pack(q); a != b {
		return a < b
	}
	return r.at < q.at || r.at == q.at && r.decision < q.decision
}
