package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mintage/mintage/internal/store"
)

// querier is a connection or a transaction on it.
type querier interface {
	Query(ctx context.Context, text string, args ...any) (pgx.Rows, error)
}

// each runs a query and calls f with each row.
func each(ctx context.Context, q querier, f func(rows pgx.Rows) error, text string, args ...any) error {
	rows, err := q.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// list runs a query and returns what scan reads from each row.
func list[T any](ctx context.Context, q querier, scan func(pgx.Rows) (T, error), text string, args ...any) (all []T, err error) {
	err = each(ctx, q, func(rows pgx.Rows) error {
		v, err := scan(rows)
		all = append(all, v)
		return err
	}, text, args...)
	return all, err
}

// readList is list in a transaction of its own, which is tried again; see reading.
func readList[T any](ctx context.Context, s *Store, scan func(pgx.Rows) (T, error), text string, args ...any) (all []T, err error) {
	err = s.reading(ctx, func() error {
		all, err = list(ctx, s.pool, scan, text, args...)
		return err
	})
	return all, err
}

// A read is one caller's read of the row with an id.
type read[K comparable, V any] struct {
	seat
	id    K
	bytes []byte // of id
	value V
}

func (r *read[K, V]) key() K { return r.id }

// serveReads reads for all of the batch. The statement begins after each of them
// was asked for, so each sees every write that was acknowledged before.
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
