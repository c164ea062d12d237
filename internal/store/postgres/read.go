package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// querier is a connection or a transaction on it.
type querier interface {
	Query(ctx context.Context, text string, args ...any) (pgx.Rows, error)
}

// each runs a query and calls f with each row.
func each(ctx context.Context, q querier, f func(rows pgx.Rows) error, text string, args ...any) error {
	if on, ok := q.(interface{ Conn() *pgx.Conn }); ok && prepares(on.Conn()) {
		args = append([]any{pgx.QueryExecModeCacheStatement}, args...)
	}
	rows, err := q.Query(ctx, text, args...)
	if err != nil {
		return transient(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return transient(rows.Err())
}

// run is the Run of a store.Reader.
func (s *Store) run(ctx context.Context, snapshot bool, f func(store.Query) error) error {
	return s.reading(ctx, func() error {
		var q querier = s.pool
		if snapshot {
			tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
			if err != nil {
				return transient(err)
			}
			defer func() { go abort(ctx, tx) }() // nothing needs to wait for the rollback
			q = tx
		}
		return f(func(f func(store.Scanner) error, text string, args ...any) error {
			return each(ctx, q, func(rows pgx.Rows) error { return f(rows) }, text, args...)
		})
	})
}

// floors is the Floors of a store.Reader.
func floors(ids []grant.ID) (text string, args []any) {
	return `SELECT id, realm, state, access_floor FROM grants WHERE id = ANY($1::bytea[])`, []any{column(ids, func(id grant.ID) []byte { return id[:] })}
}

// A read is one caller's queued read of the row with an id.
type read[K comparable, V any] struct {
	seat
	id    K
	bytes []byte // of id
	value V
}

func (r *read[K, V]) key() K { return r.id }

// serveReads returns a function that reads the rows of a batch in one statement. The
// statement begins after every read of the batch was queued, so each read sees every write
// that was acknowledged before it.
func serveReads[K comparable, V any](find func(context.Context, querier, [][]byte) (map[K]V, error)) func(context.Context, *pgxpool.Conn, []*read[K, V]) error {
	return func(ctx context.Context, conn *pgxpool.Conn, batch []*read[K, V]) error {
		found, err := find(ctx, conn, column(batch, func(r *read[K, V]) []byte { return r.bytes }))
		if err != nil {
			return err
		}
		for _, r := range batch {
			if v, ok := found[r.id]; ok {
				r.value = v
				r.settle(nil)
			} else {
				r.settle(store.ErrNotFound)
			}
		}
		return nil
	}
}
