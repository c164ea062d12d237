package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/*.sql
var migrations embed.FS

// dialect is the suffix of migrations that other engines may reject: they make the
// store faster and do not change results.
const dialect = ".dialect.sql"

const (
	// mintage_schema identifies a Mintage schema. Its version is the number of
	// migrations that were applied; needs is the least number that a program must
	// know. Migrations only add, so older programs continue beside newer ones
	// unless a migration raises needs.
	createVersionSQL = `CREATE TABLE IF NOT EXISTS mintage_schema (
		id SMALLINT NOT NULL PRIMARY KEY, version BIGINT NOT NULL, needs BIGINT NOT NULL)`
	insertVersionSQL = `INSERT INTO mintage_schema (id, version, needs) VALUES (1, 0, 0) ON CONFLICT (id) DO NOTHING`
	selectVersionSQL = `SELECT version, needs FROM mintage_schema WHERE id = 1`
	advanceSQL       = `UPDATE mintage_schema SET version = $1 WHERE id = 1 AND version < $1`
	// One statement, for one snapshot: another node may be creating the tables.
	tablesSQL = `SELECT count(CASE WHEN table_name = 'mintage_schema' THEN 1 END), count(*) FROM information_schema.tables
		WHERE table_schema = current_schema() AND table_name IN
		('mintage_schema', 'grants', 'directory', 'clients', 'secret_uses', 'cutoffs', 'keys', 'events', 'documents', 'nodes', 'moves', 'pulse', 'restores')`
)

// migrate upgrades the schema to the newest version. Files are applied in the order
// of their names; the file's number is the schema version. Released files are
// never edited, and there is no downgrade. Each file is one idempotent statement:
// several nodes may start at once, and after a crash the next node repeats what
// was done.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	version, err := schemaVersion(ctx, pool, len(files))
	if err != nil {
		return err
	}
	for n := version; n < len(files); n++ {
		text, err := migrations.ReadFile("migrations/" + files[n].Name())
		if err != nil {
			return err
		}
		err = apply(ctx, pool, string(text))
		if err != nil && !(strings.HasSuffix(files[n].Name(), dialect) && foreign(err)) {
			return fmt.Errorf("migration %s: %w", files[n].Name(), err)
		}
	}
	if version < len(files) {
		return apply(ctx, pool, advanceSQL, len(files))
	}
	return nil
}

// tables counts the tables that have a name of the Mintage schema, and separately
// mintage_schema.
func tables(ctx context.Context, pool *pgxpool.Pool) (marker, all int, err error) {
	err = persist(ctx, func() error { return pool.QueryRow(ctx, tablesSQL).Scan(&marker, &all) })
	return marker, all, err
}

// schemaVersion returns the schema version. It creates the version's row in an
// empty schema, and fails if another program or a newer version owns the schema.
func schemaVersion(ctx context.Context, pool *pgxpool.Pool, newest int) (version int, err error) {
	marker, all, err := tables(ctx, pool)
	if err != nil {
		return 0, err
	}
	var needs int
	switch {
	case marker == 0 && all > 0:
		return 0, errors.New("the schema holds tables of some other program: give mintage a database or a schema of its own")
	case marker == 0:
		if err := apply(ctx, pool, createVersionSQL); err != nil {
			return 0, err
		}
	}
	read := func() error { return pool.QueryRow(ctx, selectVersionSQL).Scan(&version, &needs) }
	if err = persist(ctx, read); errors.Is(err, pgx.ErrNoRows) {
		// The node that created the table has not inserted its row yet.
		if err = apply(ctx, pool, insertVersionSQL); err == nil {
			err = persist(ctx, read)
		}
	}
	if err == nil && needs > newest {
		err = fmt.Errorf("its schema has version %d and this program knows %d: run the version of mintage that wrote it, or a later one", version, newest)
	}
	return version, err
}

// apply runs a statement that other nodes may run concurrently.
func apply(ctx context.Context, pool *pgxpool.Pool, text string, args ...any) error {
	return persist(ctx, func() error {
		// One round trip: the statement needs no description.
		_, err := pool.Exec(ctx, text, append([]any{pgx.QueryExecModeExec}, args...)...)
		return err
	})
}

// persist calls do again if it collided with another node.
func persist(ctx context.Context, do func() error) error {
	for races := 0; ; races++ {
		err := do()
		if races >= 20 || ctx.Err() != nil || !collided(err) {
			return err
		}
		pause(ctx, races)
	}
}

// collided reports whether another node was doing the same: IF NOT EXISTS checks
// before it creates, and is not atomic.
func collided(err error) bool {
	var server *pgconn.PgError
	if judge(err) == outrun {
		return true
	}
	if !errors.As(err, &server) {
		return false
	}
	switch server.Code {
	case "23505", "42P07", "42710", "42701": // taken: a name in the catalogue, a table, an object, a column
		return true
	case "XX000":
		return strings.Contains(server.Message, "concurrently updated")
	}
	return false
}

// foreign reports whether the engine does not support a statement.
func foreign(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && (strings.HasPrefix(server.Code, "0A") || strings.HasPrefix(server.Code, "42"))
}
