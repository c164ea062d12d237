package directory

import (
	"hash/maphash"
	"maps"
)

// shardCount divides a table, so that a change copies a small part of it.
const shardCount = 256

var shardSeed = maphash.MakeSeed()

// A table is a map that does not change: a tableChange makes the next one, which
// shares all shards but those that were written (copy-on-write). A View of 100,000
// clients then costs a change no more than one of a hundred.
type table[K comparable, V any] struct{ shards *[shardCount]map[K]V }

func shardOf[K comparable](key K) uint64 { return maphash.Comparable(shardSeed, key) % shardCount }

// get returns the value of a key, or the zero value.
func (t table[K, V]) get(key K) (v V) {
	if t.shards == nil {
		return v
	}
	return t.shards[shardOf(key)][key]
}

// all lists the entries, in no order.
func (t table[K, V]) all(yield func(K, V) bool) {
	if t.shards == nil {
		return
	}
	for _, shard := range t.shards {
		if len(shard) == 0 { // to begin with an empty map takes twenty times as long
			continue
		}
		for k, v := range shard {
			if !yield(k, v) {
				return
			}
		}
	}
}

// A tableChange makes a table from another one. It belongs to one goroutine, and the
// table is complete when nothing more is written.
type tableChange[K comparable, V any] struct {
	table[K, V]
	copied [shardCount]bool
	room   int // for as many more keys in a shard
}

func (t table[K, V]) change() *tableChange[K, V] {
	next := &tableChange[K, V]{table: table[K, V]{new([shardCount]map[K]V)}}
	if t.shards != nil {
		*next.shards = *t.shards
	}
	return next
}

// writable returns the shard of a key, which is no longer shared.
func (c *tableChange[K, V]) writable(key K) map[K]V {
	n := shardOf(key)
	if !c.copied[n] {
		was := c.shards[n]
		c.copied[n], c.shards[n] = true, make(map[K]V, len(was)+1+c.room)
		maps.Copy(c.shards[n], was)
	}
	return c.shards[n]
}

func (c *tableChange[K, V]) set(key K, v V) { c.writable(key)[key] = v }
func (c *tableChange[K, V]) delete(key K)   { delete(c.writable(key), key) }

// add adds n to the count of a key, and deletes a count of zero.
func add[K comparable](c *tableChange[K, int], key K, n int) {
	if sum := c.get(key) + n; sum != 0 {
		c.set(key, sum)
	} else {
		c.delete(key)
	}
}
