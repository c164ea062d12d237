package postgres

import (
	"context"
	cryptorand "crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mintage/mintage/internal/store"
)

// examined are the settings of a store.ServerCondition.
var examined = []string{
	"server_version", "synchronous_commit", "synchronous_standby_names", "fsync", "full_page_writes",
	"transaction_read_only", "autovacuum",
}

// Queries that only PostgreSQL itself understands. If another engine rejects one,
// its result is unknown.
const (
	examineTableSQL = `SELECT COALESCE(s.n_live_tup, -1), COALESCE(s.n_dead_tup, -1)
		FROM pg_class AS c LEFT JOIN pg_stat_user_tables AS s ON s.relid = c.oid WHERE c.oid = to_regclass('grants')`
	examineServerSQL = `SELECT pg_is_in_recovery(), COALESCE((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false),
		COALESCE((SELECT string_agg(c.relname, ', ' ORDER BY c.relname)
			FROM pg_class AS g JOIN pg_class AS c ON c.relnamespace = g.relnamespace AND c.relowner = g.relowner
			WHERE g.oid = to_regclass('grants') AND c.relkind = 'r' AND c.relname <> 'mintage_schema' AND NOT
				(has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
				AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))), '')`
)

// Examine returns settings and the state of the server.
func (s *Store) Examine(ctx context.Context) (store.ServerCondition, error) {
	c := store.ServerCondition{Settings: map[string]string{}, Live: -1, Dead: -1}
	for _, name := range examined {
		var value string
		err := s.pool.QueryRow(ctx, "SHOW "+name).Scan(&value)
		if err != nil && !foreign(err) {
			return c, fmt.Errorf("read setting %s: %w", name, oneLine{err})
		}
		if err == nil {
			c.Settings[name] = value
		}
	}
	if err := s.pool.QueryRow(ctx, examineTableSQL).Scan(&c.Live, &c.Dead); err != nil && !foreign(err) {
		return c, fmt.Errorf("read statistics of the table grants: %w", oneLine{err})
	}
	if err := s.pool.QueryRow(ctx, examineServerSQL).Scan(&c.Standby, &c.Encrypted, &c.Denied); err != nil && !foreign(err) {
		return c, fmt.Errorf("read the state of the server: %w", oneLine{err})
	}
	return c, nil
}

// tryRoom is how many documents of the largest size TryWrite stores: many more
// pages than earlier test writes have left free.
const tryRoom = 16

// TryWrite makes a durable write for which the tables must grow, and removes it
// again. A small write fits into an existing page and succeeds on a full disk.
func (s *Store) TryWrite(ctx context.Context) error {
	keys := make([][]byte, tryRoom)
	body := make([]byte, store.MaxDocument)
	cryptorand.Read(body) // the server compresses
	for i := range keys {
		key := store.KeyOf("try", "", cryptorand.Text())
		keys[i] = key[:]
	}
	err := s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, key := range keys {
			if _, err := tx.Exec(ctx, tryInsertSQL, key, body); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, tryDeleteSQL, keys)
		return err
	})
	if err == nil {
		s.full.Store(false)
	}
	return err
}

const (
	tryInsertSQL = `INSERT INTO documents (id, kind, version, expires_at, body) VALUES ($1, 'try', 1, 1, $2)`
	tryDeleteSQL = `DELETE FROM documents WHERE id = ANY($1::bytea[])`
)
