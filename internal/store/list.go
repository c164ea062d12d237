package store

import (
	"context"
	"encoding/json"
	"errors"
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
	kind := DocumentKind(l)
	key := KeyOf(kind, "", "")
	d, err = st.Document(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Document{Kind: kind, Key: key}, nil, nil
	}
	if err == nil {
		err = json.Unmarshal(d.Body, &items)
	}
	return d, items, err
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
		d.Version++
		if d.Body, err = json.Marshal(items); err != nil {
			return err
		}
		if err = st.Commit(ctx, Change{Documents: []Document{d}, Events: events}); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return Unavailable(ErrConflict)
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
