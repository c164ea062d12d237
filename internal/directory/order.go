package directory

import (
	"iter"
	"slices"
	"strings"
	"sync/atomic"
)

// blockLength is the number of items at which a block of an order is divided.
const blockLength = 256

// An order is an immutable sorted list of distinct items: an orderChange makes the next
// order, which shares all blocks but those that were written (copy-on-write). Lists are
// paged through it (keyset pagination).
type order[T any] struct {
	compare func(a, b T) int
	blocks  []*block[T] // none is empty
	// text, if not nil, returns the text of an item, in which a search looks.
	text func(T) string
}

type block[T any] struct {
	items []T
	texts atomic.Pointer[string] // of all items, joined; nil before the first search
}

// has reports whether an item may contain a text. It searches one joined text, which is much
// faster than searching the texts of up to 256 items all over memory.
func (b *block[T]) has(text string, of func(T) string) bool {
	texts := b.texts.Load()
	if texts == nil {
		var all strings.Builder
		for _, item := range b.items {
			all.WriteString(of(item))
			all.WriteByte(0)
		}
		texts = new(all.String())
		b.texts.Store(texts)
	}
	return strings.Contains(*texts, text)
}

// from lists the items from the first for which position returns zero or more;
// position does not decrease along the list.
func (o order[T]) from(position func(T) int) iter.Seq[T] { return o.having("", position, nil) }

// having is from, but skips most items whose text does not contain text, and ends before
// the first item for which within, if not nil, returns false.
func (o order[T]) having(text string, position func(T) int, within func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		// Begin in the last block that begins before the first item to list.
		b, _ := slices.BinarySearchFunc(o.blocks, 0, func(b *block[T], _ int) int { return atLeast(position(b.items[0])) })
		for n, block := range o.blocks[max(0, b-1):] {
			if n > 0 && within != nil && !within(block.items[0]) {
				return // before has joins the texts of a block that no caller needs
			}
			if text != "" && !block.has(text, o.text) {
				continue
			}
			items := block.items
			if n == 0 {
				i, _ := slices.BinarySearchFunc(items, 0, func(item T, _ int) int { return atLeast(position(item)) })
				items = items[i:]
			}
			for _, item := range items {
				if within != nil && !within(item) || !yield(item) {
					return
				}
			}
		}
	}
}

// all lists the items.
func (o order[T]) all(yield func(T) bool) {
	for _, b := range o.blocks {
		for _, item := range b.items {
			if !yield(item) {
				return
			}
		}
	}
}

// atLeast is a comparison that finds the first item whose position is not negative.
func atLeast(position int) int {
	if position < 0 {
		return -1
	}
	return 1
}

// An orderChange makes an order from another one. Only one goroutine may use it. After the
// last write, its order is complete.
type orderChange[T any] struct {
	order[T]
	copied map[*block[T]]bool
}

func (o order[T]) change() *orderChange[T] {
	o.blocks = slices.Clone(o.blocks)
	return &orderChange[T]{order: o, copied: map[*block[T]]bool{}}
}

// find returns the block and the index of an item, or those at which to insert it.
func (c *orderChange[T]) find(item T) (b, i int, found bool) {
	b, found = slices.BinarySearchFunc(c.blocks, item, func(b *block[T], item T) int { return c.compare(b.items[0], item) })
	if !found {
		b = max(0, b-1)
	}
	i, found = slices.BinarySearchFunc(c.blocks[b].items, item, c.compare)
	return b, i, found
}

// writable returns a block that no other order shares: it copies the block before the first
// write.
func (c *orderChange[T]) writable(b int) *block[T] {
	if !c.copied[c.blocks[b]] {
		// Leave room for one more item, because most changes insert one.
		was := c.blocks[b].items
		c.blocks[b] = &block[T]{items: append(make([]T, 0, len(was)+1), was...)}
		c.copied[c.blocks[b]] = true
	}
	return c.blocks[b]
}

// insert inserts an item, or replaces the one that is equal to it.
func (c *orderChange[T]) insert(item T) {
	if len(c.blocks) == 0 {
		first := &block[T]{items: []T{item}}
		c.blocks, c.copied[first] = []*block[T]{first}, true
		return
	}
	b, i, found := c.find(item)
	at := c.writable(b)
	if found {
		at.items[i] = item
		return
	}
	if at.items = slices.Insert(at.items, i, item); len(at.items) > blockLength {
		half := &block[T]{items: slices.Clone(at.items[blockLength/2:])}
		clear(at.items[blockLength/2:])
		at.items = at.items[:blockLength/2]
		c.blocks, c.copied[half] = slices.Insert(c.blocks, b+1, half), true
	}
}

// insertAll inserts items. Into an order that is empty, it puts them sorted: to insert
// 100,000 one by one takes three times as long.
func (c *orderChange[T]) insertAll(items []T) {
	if len(c.blocks) > 0 {
		for _, item := range items {
			c.insert(item)
		}
		return
	}
	for part := range slices.Chunk(slices.SortedFunc(slices.Values(items), c.compare), blockLength/2) {
		c.blocks = append(c.blocks, &block[T]{items: slices.Clip(part)})
	}
}

// remove removes the item that is equal to one, if there is one.
func (c *orderChange[T]) remove(item T) {
	if len(c.blocks) == 0 {
		return
	}
	b, i, found := c.find(item)
	if !found {
		return
	}
	at := c.writable(b)
	if at.items = slices.Delete(at.items, i, i+1); len(at.items) == 0 {
		c.blocks = slices.Delete(c.blocks, b, b+1)
	}
}
