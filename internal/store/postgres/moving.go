package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/store"
)

const (
	// Earlier versions resumed a copy, and kept its position in step, position and
	// copied.
	insertMigrationSQL = `INSERT INTO moves (id, state, source, move, claim, elsewhere, step, position, copied)
		VALUES (1, $1, $2, $3, $4, $5, '', '', 0) ON CONFLICT (id) DO NOTHING`
	updateMigrationSQL = `UPDATE moves SET state = $1, source = $2, move = $3, claim = $4, elsewhere = $5
		WHERE id = 1 AND state = $6 AND source = $7 AND move = $8 AND claim = $9 AND elsewhere = $10`
	raiseVersionSQL = `UPDATE directory SET version = $1 WHERE id = 1 AND version < $1`
	// pageLength is the number of rows that are read at once.
	pageLength = 4000
)

// Moving is a store as the destination of a move. It can be opened in migration
// states in which Open fails, and serves no requests.
type Moving struct {
	store.Reader
	s    *Store
	name string
}

// OpenToMove opens a database for a move into it, and creates or upgrades the
// schema.
func OpenToMove(ctx context.Context, d Database) (*Moving, error) {
	s, err := open(ctx, d, migrate)
	if err != nil {
		return nil, err
	}
	return &Moving{s.Reader, s, placeOf(s.pool.Config().ConnConfig)}, nil
}

// Close closes the connections.
func (m *Moving) Close() error { return m.s.Close() }

// Name returns the store's location: hosts, database and schema, without user and
// password.
func (m *Moving) Name() string { return m.name }

func placeOf(c *pgx.ConnConfig) string {
	var hosts []string
	query := ""
	add := func(host string, port uint16) {
		if strings.HasPrefix(host, "/") {
			query = "host=" + host // the directory of a socket
			return
		}
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if name := host + ":" + strconv.Itoa(int(port)); !slices.Contains(hosts, name) {
			hosts = append(hosts, name)
		}
	}
	add(c.Host, c.Port)
	for _, f := range c.Fallbacks { // of which there may be two for a host, with TLS and without
		add(f.Host, f.Port)
	}
	if path := c.RuntimeParams["search_path"]; path != "" {
		query = strings.TrimPrefix(query+"&search_path="+path, "&")
	}
	if query != "" {
		query = "?" + query
	}
	return "postgres://" + strings.Join(hosts, ",") + "/" + c.Database + query
}

// checkUsable returns an error if the store must not be used because a move has begun or
// is complete.
func (s *Store) checkUsable(ctx context.Context) error {
	state, err := s.Migration(ctx)
	if err != nil {
		return err
	}
	return state.Displaced(placeOf(s.pool.Config().ConnConfig))
}

// SetMigration is a compare-and-swap of the migration state. It returns
// store.ErrConflict if the present state is not was.
func (m *Moving) SetMigration(ctx context.Context, was, next store.Migration) error {
	return m.s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error { return setMigration(ctx, tx, was, next) })
}

func setMigration(ctx context.Context, tx pgx.Tx, was, next store.Migration) error {
	values := func(m store.Migration) []any {
		return []any{string(m.State), m.Source, m.Move, m.Claim, m.OtherStore}
	}
	if was == (store.Migration{}) {
		return one(tx.Exec(ctx, insertMigrationSQL, values(next)...))
	}
	return one(tx.Exec(ctx, updateMigrationSQL, append(values(next), values(was)...)...))
}

// Claim is SetMigration for an empty store. It returns store.ErrConflict if the
// store has any row.
func (m *Moving) Claim(ctx context.Context, was, next store.Migration) error {
	return m.s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		empty, err := isEmpty(ctx, tx)
		if err == nil && !empty {
			err = store.ErrConflict
		}
		if err != nil {
			return err
		}
		return setMigration(ctx, tx, was, next)
	})
}

// Empty reports whether the store has no rows.
func (m *Moving) Empty(ctx context.Context) (empty bool, err error) {
	err = m.s.reading(ctx, func() error {
		empty, err = isEmpty(ctx, m.s.pool)
		return err
	})
	return empty, err
}

func isEmpty(ctx context.Context, q querier) (empty bool, err error) {
	empty = true
	for _, t := range store.Tables {
		err := each(ctx, q, func(pgx.Rows) error {
			empty = false
			return nil
		}, `SELECT 1 FROM `+t.Name+` LIMIT 1`)
		if err != nil {
			return false, err
		}
	}
	return empty, nil
}

// Clear deletes all rows of a table. It returns store.ErrConflict if the migration
// state is not state.
func (m *Moving) Clear(ctx context.Context, t store.Table, state store.Migration) error {
	return m.s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := setMigration(ctx, tx, state, state); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM `+t.Name)
		return err
	})
}

// Append adds rows to a table. It returns store.ErrConflict if the migration state
// is not state.
func (m *Moving) Append(ctx context.Context, t store.Table, rows []store.Row, state store.Migration) error {
	args := make([]any, len(t.Columns))
	for i, c := range t.Columns {
		switch c.Kind {
		case store.Number:
			args[i] = column(rows, func(r store.Row) int64 { return r[i].Number })
		case store.Bytes:
			args[i] = column(rows, func(r store.Row) []byte { return []byte(r[i].Text) })
		default:
			args[i] = column(rows, func(r store.Row) string { return r[i].Text })
		}
	}
	return m.s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := setMigration(ctx, tx, state, state); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, appendSQL(t), args...); err != nil {
			return fmt.Errorf("write %s: %w", t.Name, err)
		}
		return nil
	})
}

func appendSQL(t store.Table) string {
	var names, values, arrays []string
	for i, c := range t.Columns {
		kind := "text"
		switch c.Kind {
		case store.Number:
			kind = "bigint"
		case store.Bytes:
			kind = "bytea"
		}
		names, values = append(names, c.Name), append(values, "u."+c.Name)
		arrays = append(arrays, "$"+strconv.Itoa(i+1)+"::"+kind+"[]")
	}
	list := strings.Join(names, ", ")
	return `INSERT INTO ` + t.Name + ` (` + list + `) SELECT ` + strings.Join(values, ", ") +
		` FROM unnest(` + strings.Join(arrays, ", ") + `) AS u (` + list + `)`
}

// RaiseDirectory sets the directory's version, unless it is higher already.
func (m *Moving) RaiseDirectory(ctx context.Context, version int64) error {
	return m.s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, raiseVersionSQL, version)
		return err
	})
}

// Nodes lists the nodes that use the store or did recently.
func (m *Moving) Nodes(ctx context.Context) ([]store.Node, error) { return m.s.Nodes(ctx) }

// rowsSQL reads a table: all of it, or a page in the order of the keys (keyset
// pagination).
func rowsSQL(t store.Table, paged, after bool) string {
	names := t.Names()
	text := `SELECT ` + strings.Join(names, ", ") + ` FROM ` + t.Name
	if after {
		text += ` WHERE ` + names[0] + ` > $1`
	}
	if paged {
		text += ` ORDER BY ` + names[0] + ` LIMIT ` + strconv.Itoa(pageLength)
	}
	return text
}

// Rows calls f with each row of a table, in the order of store.CompareKeys.
func (m *Moving) Rows(ctx context.Context, t store.Table, f func(store.Row) error) error {
	key := t.Columns[0].Kind
	// The database's collation may differ, so sort here. Every node holds these
	// tables in memory as well.
	if t.Key > 1 || key == store.Text {
		rows, err := m.page(ctx, t, rowsSQL(t, false, false))
		if err != nil {
			return err
		}
		slices.SortFunc(rows, func(a, b store.Row) int { return store.CompareKeys(t, a, b) })
		for _, row := range rows {
			if err := f(row); err != nil {
				return err
			}
		}
		return nil
	}
	for after := store.Row(nil); ; {
		var args []any
		switch {
		case after != nil && key == store.Number:
			args = append(args, after[0].Number)
		case after != nil:
			args = append(args, []byte(after[0].Text))
		}
		rows, err := m.page(ctx, t, rowsSQL(t, true, after != nil), args...)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := f(row); err != nil {
				return err
			}
		}
		if len(rows) < pageLength {
			return nil
		}
		after = rows[len(rows)-1]
	}
}

func (m *Moving) page(ctx context.Context, t store.Table, text string, args ...any) ([]store.Row, error) {
	rows, err := store.ReadList(ctx, m.Reader, t.Scan, text, args...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", t.Name, err)
	}
	return rows, nil
}
