package sqlite

import "github.com/mintage/mintage/internal/store"

// Load is how busy the store is.
func (s *Store) Load() store.Load {
	return store.Load{Waiting: len(s.writer.queue), Batches: s.writer.batches.Read()}
}
