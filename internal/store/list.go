package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
)

// A List is a short list in one document of a kind. Whoever needs it reads it: a change
// applies to the next request, on every node.
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

// ReadDocument reads a document and its body, which is JSON, into value. If there is
// none, it returns one without a version.
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

// FindDocument reads a document, and reports whether there is one. Its error is
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

// Change stores what decide makes of the items, with its events. It decides again if
// another caller was faster.
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

// Hold returns the items, and documents with which they stay as they are: what is
// committed with them conflicts if another caller has changed or held the list since.
func (l List[T]) Hold(ctx context.Context, st Store) ([]T, []Document, error) {
	d, items, err := l.read(ctx, st)
	if err != nil || d.Version == 0 {
		return nil, nil, err
	}
	d.Version++
	d.Owner = newOwner()
	return items, []Document{d}, nil
}

// newOwner returns another owner for each write of a list: a store takes two of the same
// content as one, and two callers would both have removed an item.
func newOwner() (o Owner) {
	rand.Read(o[:])
	return o
}

// errKept says that no item is to be removed.
var errKept = errors.New("no item is to be removed")

// Drop removes the items for which gone returns true, with its events.
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
