package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
)

// A List is a short list in one document of a kind. No node caches it: a change applies to
// the next request, on every node.
type List[T any] DocumentKind

// Read returns the items.
func (l List[T]) Read(ctx context.Context, st Store) ([]T, error) {
	_, items, err := l.read(ctx, st)
	return items, err
}

func (l List[T]) read(ctx context.Context, st Store) (d Document, items []T, err error) {
	d, err = ReadDocument(ctx, st, DocumentKind(l), KeyOf(DocumentKind(l), "", ""), &items)
	return d, items, err
}

// ReadDocument reads a document, and its JSON body into value. If the store has no such
// document, ReadDocument returns one with version 0, and no error.
func ReadDocument(ctx context.Context, st Store, kind DocumentKind, key DocumentKey, value any) (Document, error) {
	d, err := st.Document(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Document{Kind: kind, Key: key}, nil
	}
	if err != nil {
		return d, err
	}
	if err = json.Unmarshal(d.Body, value); err != nil {
		err = fmt.Errorf("decode %s: %w", kind, err)
	}
	return d, err
}

// FindDocument reads a document, and reports whether there is one. Its errors wrap
// ErrUnavailable.
func FindDocument(ctx context.Context, st Store, key DocumentKey) (d Document, found bool, err error) {
	d, err = st.Document(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return d, false, nil
	}
	return d, err == nil, Unavailable(err)
}

// PutDocument stores the next version of a document, with value as its body.
func PutDocument(ctx context.Context, st Store, d Document, value any, events ...Event) (err error) {
	d.Version++
	if d.Body, err = json.Marshal(value); err != nil {
		return err
	}
	return st.Commit(ctx, Change{Documents: []Document{d}, Events: events})
}

// Change stores the items and the events that decide returns (compare-and-swap). It calls
// decide again if another caller has changed the list meanwhile.
func (l List[T]) Change(ctx context.Context, st Store, decide func([]T) ([]T, []Event, error)) error {
	for range 10 {
		d, items, err := l.read(ctx, st)
		if err != nil {
			return err
		}
		items, events, err := decide(items)
		if err != nil {
			return err
		}
		d.Owner = newOwner()
		if err = PutDocument(ctx, st, d, items, events...); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return Unavailable(ErrConflict)
}

// Hold returns the items, and documents for a change that relies on them: the commit of the
// change conflicts if another caller has changed or held the list since.
func (l List[T]) Hold(ctx context.Context, st Store) ([]T, []Document, error) {
	d, items, err := l.read(ctx, st)
	if err != nil || d.Version == 0 {
		return nil, nil, err
	}
	d.Version++
	d.Owner = newOwner()
	return items, []Document{d}, nil
}

// newOwner returns a random owner for each write of a list, because Store.Commit succeeds
// twice for identical documents: two callers that remove the same item would both succeed.
func newOwner() (o Owner) {
	rand.Read(o[:])
	return o
}

// errKept makes Change write nothing, because Drop removes no item.
var errKept = errors.New("no item is to be removed")

// Drop removes the items for which gone returns true, and records the events of gone.
func (l List[T]) Drop(ctx context.Context, st Store, gone func(T) (Event, bool)) error {
	err := l.Change(ctx, st, func(items []T) (rest []T, events []Event, err error) {
		for _, item := range items {
			if e, ok := gone(item); ok {
				events = append(events, e)
			} else {
				rest = append(rest, item)
			}
		}
		if events == nil {
			err = errKept
		}
		return rest, events, err
	})
	if errors.Is(err, errKept) {
		return nil
	}
	return err
}
