package directory

import (
	"iter"
	"slices"
	"strings"
	"sync/atomic"
)

// blockLength is the number of items at which a block of an order is divided.
const blockLength = 256

// An order is a sorted list of distinct items that does not change: an orderChange
// makes the next one, which shares all blocks but those that were written
// (copy-on-write). It is what lists are paged through.
type order[T any] struct {
	compare func(a, b T) int
	blocks  []*block[T] // none is empty
	// text, if not nil, is what a search looks for in an item.
	text func(T) string
}

type block[T any] struct {
	items []T
	texts atomic.Pointer[string] // of all items, from the first search on
}

// has reports whether an item may have a text. One text of 256 items is searched much
// faster than each of theirs, which is somewhere else in memory.
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

// having is from, leaves out most items whose text lacks a text, and ends before the first
// item of which within, if not nil, reports false.
func (o order[T]) having(text string, position func(T) int, within func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		// The last block that begins before it, and those that follow.
		b, _ := slices.BinarySearchFunc(o.blocks, 0, func(b *block[T], _ int) int { return atLeast(position(b.items[0])) })
		for n, block := range o.blocks[max(0, b-1):] {
			if n > 0 && within != nil && !within(block.items[0]) {
				return // before the texts of what nobody asks for are put together
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

// An orderChange makes an order from another one. It belongs to one goroutine, and the
// order is complete when nothing more is written.
type orderChange[T any] struct {
	order[T]
	copied map[*block[T]]bool
}

func (o order[T]) change() *orderChange[T] {
	o.blocks = slices.Clone(o.blocks)
	return &orderChange[T]{order: o, copied: map[*block[T]]bool{}}
}

// find returns the place of an item, or the one to which it belongs.
func (c *orderChange[T]) find(item T) (b, i int, found bool) {
	b, found = slices.BinarySearchFunc(c.blocks, item, func(b *block[T], item T) int { return c.compare(b.items[0], item) })
	if !found {
		b = max(0, b-1)
	}
	i, found = slices.BinarySearchFunc(c.blocks[b].items, item, c.compare)
	return b, i, found
}

// writable returns a block, which is no longer shared.
func (c *orderChange[T]) writable(b int) *block[T] {
	if !c.copied[c.blocks[b]] {
		// Room for one more: most changes are of one item.
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
