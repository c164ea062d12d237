package directory

import (
	"hash/maphash"
	"maps"
)

// shardCount is the number of shards of a table. A change copies only some shards.
const shardCount = 256

var shardSeed = maphash.MakeSeed()

// A table is an immutable map: a tableChange makes the next table, which shares all shards
// but those that were written (copy-on-write). A change of a View of 100,000 clients then
// costs no more than a change of a View of a hundred.
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

// A tableChange makes a table from another one. Only one goroutine may use it. After the
// last write, its table is complete.
type tableChange[K comparable, V any] struct {
	table[K, V]
	copied [shardCount]bool
	room   int // how many keys a copied shard has room for, beside the present ones
}

func (t table[K, V]) change() *tableChange[K, V] {
	next := &tableChange[K, V]{table: table[K, V]{new([shardCount]map[K]V)}}
	if t.shards != nil {
		*next.shards = *t.shards
	}
	return next
}

// writable returns the shard of a key. It copies the shard before the first write, because
// other tables share it.
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
