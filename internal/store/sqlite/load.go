package sqlite

import "github.com/mintage/mintage/internal/store"

// Load returns the number of queued operations and the batch counters.
func (s *Store) Load() store.Load {
	return store.Load{Waiting: len(s.writer.queue), Batches: s.writer.batches.Read()}
}
