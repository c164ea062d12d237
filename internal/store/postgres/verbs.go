package postgres

import (
	"context"
	"slices"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// CreateClient implements store.Store, as do the methods below, until their
// callers commit changes.
func (s *Store) CreateClient(ctx context.Context, c store.Client, events ...store.Event) error {
	return s.Commit(ctx, store.Change{Entries: []store.Entry{c.Entry()}, Events: events})
}

func (s *Store) UpdateClient(ctx context.Context, c store.Client, cutoffs []store.Cutoff, events ...store.Event) error {
	return s.Commit(ctx, store.Change{Entries: []store.Entry{c.Entry()}, Cutoffs: cutoffs, Events: events})
}

func (s *Store) AddCutoff(ctx context.Context, c store.Cutoff, events ...store.Event) error {
	return s.Commit(ctx, store.Change{Cutoffs: []store.Cutoff{c}, Events: events})
}

func (s *Store) AddRestore(ctx context.Context, r grant.Restore, events ...store.Event) error {
	return s.Commit(ctx, store.Change{Restores: []grant.Restore{r}, Events: events})
}

func (s *Store) AddKeys(ctx context.Context, version int64, records []keys.Record, events ...store.Event) error {
	return s.Commit(ctx, store.Change{Expect: version, Keys: records, Events: events})
}

func (s *Store) ChangeKeys(ctx context.Context, version int64, changed, added []keys.Record, events ...store.Event) error {
	return s.Commit(ctx, store.Change{Expect: version, Keys: slices.Concat(changed, added), Events: events})
}

func (s *Store) PutDocument(ctx context.Context, d store.Document, cutoffs []store.Cutoff, events ...store.Event) error {
	return s.Commit(ctx, store.Change{Documents: []store.Document{d}, Cutoffs: cutoffs, Events: events})
}

func (s *Store) DeleteDocument(ctx context.Context, key store.DocumentKey) error {
	return s.Commit(ctx, store.Change{Delete: []store.DocumentKey{key}})
}

func (s *Store) SweepGrants(ctx context.Context, after grant.ID, now grant.Instant, limit int) (next grant.ID, deleted int, err error) {
	from := string(after[:])
	to, deleted, err := s.Sweep(ctx, store.SweptGrants, from, now, limit)
	copy(next[:], to)
	return next, deleted, err
}

func (s *Store) SweepDocuments(ctx context.Context, after store.DocumentKey, now grant.Instant, limit int) (next store.DocumentKey, deleted int, err error) {
	to, deleted, err := s.Sweep(ctx, store.SweptDocuments, string(after[:]), now, limit)
	copy(next[:], to)
	return next, deleted, err
}

func (s *Store) Meet(ctx context.Context, self store.Node) ([]store.Node, error) {
	return s.Heartbeat(ctx, self)
}
