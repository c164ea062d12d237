package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mintage/mintage/internal/store"
)

const (
	selectMigrationSQL = `SELECT state, source, move, claim, elsewhere FROM moves WHERE id = 1`
	putMigrationSQL    = `INSERT INTO moves (id, state, source, move, claim, elsewhere) VALUES (1, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, source = excluded.source, move = excluded.move,
		claim = excluded.claim, elsewhere = excluded.elsewhere`
	selectVersionSQL = `SELECT version FROM directory WHERE id = 1`
)

// Moving is a store as the source of a move. It can be opened in migration states
// in which Open fails, and serves no requests.
type Moving struct {
	path string
	db   *sql.DB
}

// Exists returns an error if there is no store in a data directory.
func Exists(dir string) error {
	path := filepath.Join(dir, FileName)
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
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
	return &Moving{path, db}, nil
}

// Close closes the file.
func (m *Moving) Close() error { return m.db.Close() }

// place is the location of a store, for people.
func place(path string) string { return "sqlite:" + filepath.Dir(path) }

// Name returns the store's location, for people.
func (m *Moving) Name() string { return place(m.path) }

// Migration reads the migration state.
func (m *Moving) Migration(ctx context.Context) (store.Migration, error) {
	return readMigration(m.db.QueryRowContext(ctx, selectMigrationSQL))
}

func readMigration(row *sql.Row) (state store.Migration, err error) {
	err = row.Scan(&state.State, &state.Source, &state.Move, &state.Claim, &state.Elsewhere)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("read the migration state: %w", err)
	}
	return state, err
}

// SetMigration is a compare-and-swap of the migration state, which returns
// store.ErrConflict.
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
	have, err := readMigration(tx.QueryRow(selectMigrationSQL))
	switch {
	case err != nil:
		return err
	case have != was:
		return store.ErrConflict
	}
	if _, err := tx.Exec(putMigrationSQL, string(next.State), next.Source, next.Move, next.Claim, next.Elsewhere); err != nil {
		return fmt.Errorf("write the migration state: %w", err)
	}
	return tx.Commit()
}

// DirectoryVersion is the present version of the directory.
func (m *Moving) DirectoryVersion(ctx context.Context) (version int64, err error) {
	err = m.db.QueryRowContext(ctx, selectVersionSQL).Scan(&version)
	return version, err
}

// Count counts the rows of a table.
func (m *Moving) Count(ctx context.Context, t store.Table) (n int64, err error) {
	err = m.db.QueryRowContext(ctx, `SELECT count(*) FROM `+t.Name).Scan(&n)
	return n, err
}

// rowsSQL reads a table in the order of its keys. The prefixes of grants have the
// order of their ids.
func rowsSQL(t store.Table) string {
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	order := strings.Join(names[:t.Key], ", ")
	if t.Name == "grants" {
		order = "prefix"
	}
	return `SELECT ` + strings.Join(names, ", ") + ` FROM ` + t.Name + ` ORDER BY ` + order
}

// Rows calls f with each row of a table, in the order of store.CompareKeys.
func (m *Moving) Rows(ctx context.Context, t store.Table, f func(store.Row) error) error {
	to := make([]any, len(t.Columns))
	var stopped error // by f
	err := Each(ctx, m.db, func(rows *sql.Rows) error {
		row := make(store.Row, len(t.Columns))
		for i, c := range t.Columns {
			if to[i] = &row[i].Text; c.Kind == store.Number {
				to[i] = &row[i].Number
			}
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		stopped = f(row)
		return stopped
	}, rowsSQL(t))
	if err != nil && stopped == nil {
		return fmt.Errorf("read %s: %w", t.Name, err)
	}
	return err
}

// Displaced returns an error if a store must not be used because a move has begun
// or is complete.
func Displaced(ctx context.Context, path string, q Querier) error {
	state, err := readMigration(q.QueryRowContext(ctx, selectMigrationSQL))
	if err != nil {
		return err
	}
	return state.Displaced(place(path))
}

// isCommand reports whether this process does not hold the directory's lock. A
// move can then begin after the store was opened, and would lose what is written
// afterwards.
func (w *writer) isCommand() bool { return w.timeout == commandTimeout }

// stays is Displaced within the current transaction.
func (w *writer) stays() error {
	if !w.isCommand() {
		return nil
	}
	s, err := w.conn.prepare(selectMigrationSQL)
	if err != nil {
		return err
	}
	defer s.close()
	defer s.reset()
	found, err := s.step()
	if err != nil || !found {
		return err
	}
	state := store.Migration{State: store.MoveState(s.string(0)), Source: s.string(1), Move: s.string(2), Claim: s.string(3), Elsewhere: s.string(4)}
	return state.Displaced(place(w.path))
}
