package sqlite

import (
	"context"
	"database/sql"

	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Each runs a query and calls f with each row.
func Each(ctx context.Context, q querier, f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
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

// List runs a query and returns what scan reads from each row.
func List[T any](ctx context.Context, q querier, scan func(*sql.Rows, *T) error, query string, args ...any) (list []T, err error) {
	err = Each(ctx, q, func(rows *sql.Rows) error {
		list = append(list, *new(T))
		return scan(rows, &list[len(list)-1])
	}, query, args...)
	return list, err
}

// ScanKey reads a row of id, purpose, created_at, active_at and wrapped.
func ScanKey(rows *sql.Rows, r *keys.Record) error {
	return rows.Scan(&r.ID, &r.Purpose, &r.CreatedAt, &r.ActiveAt, &r.Wrapped)
}

// ScanCutoff reads a row of realm, subject, client and at.
func ScanCutoff(rows *sql.Rows, c *store.Cutoff) error {
	return rows.Scan(&c.Realm, &c.Subject, &c.ClientID, &c.At)
}
