package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mintage/mintage/internal/store"
)

const putMigrationSQL = `INSERT INTO moves (id, state, source, move, claim, elsewhere) VALUES (1, ?, ?, ?, ?, ?)
	ON CONFLICT (id) DO UPDATE SET state = excluded.state, source = excluded.source, move = excluded.move,
	claim = excluded.claim, elsewhere = excluded.elsewhere`

// Moving is a store as the source of a move. It can be opened in migration states
// in which Open fails, and serves no requests.
type Moving struct {
	store.Reader
	path string
	db   *sql.DB
}

// Exists returns an error if there is no store in a data directory.
func Exists(dir string) error {
	path := filepath.Join(dir, FileName)
	absent, err := Absent(dir)
	switch {
	case err == nil && absent:
		return fmt.Errorf("no store at %s: name the data directory of the store that is to move", path)
	case err != nil:
		return Explain(path, err)
	}
	return nil
}

// OpenToMove opens the store in a data directory for a move. The caller must hold
// its Lock.
func OpenToMove(ctx context.Context, dir string) (*Moving, error) {
	if err := Exists(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, FileName)
	if err := finished(path); err != nil {
		return nil, Explain(path, err)
	}
	db, err := sql.Open("sqlite", URL(path, Pragmas...))
	if err != nil {
		return nil, Explain(path, err)
	}
	if err := retryBusy(commandTimeout, func() error { return migrate(ctx, db) }); err != nil {
		return nil, Explain(path, errors.Join(err, db.Close()))
	}
	return &Moving{read(db), path, db}, nil
}

// Close closes the file.
func (m *Moving) Close() error { return m.db.Close() }

// place is the location of a store, for people.
func place(path string) string { return "sqlite:" + filepath.Dir(path) }

// Name returns the store's location, for people.
func (m *Moving) Name() string { return place(m.path) }

// SetMigration is a compare-and-swap of the migration state. It returns
// store.ErrConflict if the present state is not was.
func (m *Moving) SetMigration(ctx context.Context, was, next store.Migration) error {
	var tx *sql.Tx
	err := retryBusy(commandTimeout, func() (err error) {
		tx, err = m.db.BeginTx(ctx, nil)
		return err
	})
	if err != nil {
		return Explain(m.path, err)
	}
	defer tx.Rollback()
	have, err := store.ReadMigration(Query(ctx, tx))
	switch {
	case err != nil:
		return err
	case have != was:
		return store.ErrConflict
	}
	if _, err := tx.Exec(putMigrationSQL, string(next.State), next.Source, next.Move, next.Claim, next.OtherStore); err != nil {
		return fmt.Errorf("write the migration state: %w", err)
	}
	return tx.Commit()
}

// rowsSQL reads a table in the order of its keys. The prefixes of grants have the
// order of their ids.
func rowsSQL(t store.Table) string {
	names := t.Names()
	order := strings.Join(names[:t.Key], ", ")
	if t.Name == "grants" {
		order = "prefix"
	}
	return `SELECT ` + strings.Join(names, ", ") + ` FROM ` + t.Name + ` ORDER BY ` + order
}

// Rows calls f with each row of a table, in the order of store.CompareKeys.
func (m *Moving) Rows(ctx context.Context, t store.Table, f func(store.Row) error) error {
	var stopped error // by f
	err := Query(ctx, m.db)(func(from store.Scanner) error {
		row, err := t.Scan(from)
		if err == nil {
			stopped = f(row)
			err = stopped
		}
		return err
	}, rowsSQL(t))
	if err != nil && stopped == nil {
		return fmt.Errorf("read %s: %w", t.Name, err)
	}
	return err
}

// Displaced returns an error if a store must not be used because a move has begun
// or is complete.
func Displaced(ctx context.Context, path string, q querier) error {
	state, err := store.ReadMigration(Query(ctx, q))
	if err != nil {
		return err
	}
	return state.Displaced(place(path))
}
