package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/grant"
)

// expired walks at most limit rows of a table after a key, by a statement that
// tells the key, the version and an instant of each. It returns the keys and
// versions of those that are due, and the key to go on from, which is empty at the
// end of the table.
func (s *Store) expired(ctx context.Context, text string, after []byte, limit int, due func(grant.Instant) bool) (next []byte, keys [][]byte, versions []int64, err error) {
	walked := 0
	err = s.reading(ctx, func() error {
		next, keys, versions, walked = nil, nil, nil, 0
		return each(ctx, s.pool, func(rows pgx.Rows) error {
			var key []byte
			var version, at int64
			if err := rows.Scan(&key, &version, &at); err != nil {
				return err
			}
			walked++
			next = key
			if due(grant.Instant(at)) {
				keys, versions = append(keys, key), append(versions, version)
			}
			return nil
		}, text, after, limit)
	})
	if walked < limit {
		next = nil
	}
	return next, keys, versions, err
}
