package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Query returns a store.Query that runs on q.
func Query(ctx context.Context, q querier) store.Query {
	return func(f func(store.Scanner) error, text string, args ...any) error {
		rows, err := q.QueryContext(ctx, text, args...)
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
}

// read returns a Reader of db.
func read(db *sql.DB) store.Reader {
	return store.Reader{
		Run: func(ctx context.Context, snapshot bool, f func(store.Query) error) error {
			if !snapshot {
				return f(Query(ctx, db))
			}
			tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			return f(Query(ctx, tx))
		},
		Floors: func(ids []grant.ID) (text string, args []any) {
			for _, id := range ids {
				args = append(args, Prefix(id))
			}
			return `SELECT id, realm, state, access_floor FROM grants WHERE prefix IN (?` + strings.Repeat(", ?", len(ids)-1) + ")", args
		},
		ListDocuments: listDocumentsSQL, ListOwner: listOwnerSQL,
	}
}
