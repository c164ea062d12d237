package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

const (
	walkGrantsSQL   = `SELECT id, version, delete_after FROM grants WHERE id > $1 ORDER BY id LIMIT $2`
	deleteGrantsSQL = `DELETE FROM grants AS g USING unnest($1::bytea[], $2::bigint[]) AS u (id, version)
		WHERE g.id = u.id AND g.version = u.version AND g.delete_after < $3 RETURNING g.id`
	deleteEventsSQL = `DELETE FROM events WHERE about = ANY($1::text[])`

	walkDocumentsSQL  = `SELECT id, version, expires_at FROM documents WHERE id > $1 ORDER BY id LIMIT $2`
	sweepDocumentsSQL = `DELETE FROM documents AS d USING unnest($1::bytea[], $2::bigint[]) AS u (id, version)
		WHERE d.id = u.id AND d.version = u.version AND d.expires_at <> 0 AND d.expires_at < $3 RETURNING d.id`
)

// Sweep implements store.Store.
func (s *Store) Sweep(ctx context.Context, table store.SweptTable, after string, now grant.Instant, limit int) (next string, deleted int, err error) {
	defer func() {
		if err != nil {
			next, deleted, err = after, 0, fmt.Errorf("sweep %s: %w", table, err)
		}
	}()
	grants := table == store.SweptGrants
	scan, remove := walkDocumentsSQL, sweepDocumentsSQL
	if grants {
		scan, remove = walkGrantsSQL, deleteGrantsSQL
	}
	next, due, err := s.FindDue(ctx, table, now, limit, scan, []byte(after), limit)
	if err != nil || len(due) == 0 {
		return next, 0, err
	}
	ids := column(due, func(d store.Due) []byte { return d.ID })
	versions := column(due, func(d store.Due) int64 { return d.Version })
	err = s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var gone []string
		err := each(ctx, tx, func(rows pgx.Rows) error {
			var id []byte
			err := rows.Scan(&id)
			if grants && err == nil {
				id = []byte(grant.ID(id).String())
			}
			gone = append(gone, string(id))
			return err
		}, remove, ids, versions, int64(now))
		deleted = len(gone)
		if err != nil || deleted == 0 || !grants {
			return err
		}
		_, err = tx.Exec(ctx, deleteEventsSQL, gone)
		return err
	})
	return next, deleted, err
}
