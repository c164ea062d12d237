package postgres

import "github.com/mintage/mintage/internal/store"

// Load returns the number of queued operations and the batch counters.
func (s *Store) Load() store.Load {
	return store.Load{
		Waiting: s.updates.queued() + s.creations.queued() + s.grantReads.queued() + s.puts.queued() + s.documentReads.queued(),
		Batches: s.batches.Read(),
	}
}
