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

// dialect marks a step that only PostgreSQL itself has to understand: it makes
// the store faster, and changes nothing that a statement could see.
const dialect = ".dialect.sql"

const (
	// mintage_schema marks the schema as ours. Its version is the number of
	// steps that were done; needs is how many of them a program must know to
	// work with it. Steps add, so an older program works on while nodes of a
	// newer one take over, until a step says otherwise.
	createVersionSQL = `CREATE TABLE IF NOT EXISTS mintage_schema (
		id SMALLINT NOT NULL PRIMARY KEY, version BIGINT NOT NULL, needs BIGINT NOT NULL)`
	insertVersionSQL = `INSERT INTO mintage_schema (id, version, needs) VALUES (1, 0, 0) ON CONFLICT (id) DO NOTHING`
	selectVersionSQL = `SELECT version, needs FROM mintage_schema WHERE id = 1`
	advanceSQL       = `UPDATE mintage_schema SET version = $1 WHERE id = 1 AND version < $1`
	// In one statement, which sees one state: another node may be creating them.
	tablesSQL = `SELECT count(CASE WHEN table_name = 'mintage_schema' THEN 1 END), count(*) FROM information_schema.tables
		WHERE table_schema = current_schema() AND table_name IN
		('mintage_schema', 'grants', 'directory', 'clients', 'secret_uses', 'cutoffs', 'keys', 'events', 'documents', 'nodes', 'moves', 'pulse', 'restores')`
)

// migrate brings the schema to the newest version. Files are applied in the
// order of their names; the file's number is the schema's version. They are
// never edited after a release, and there is no way back. Each is one statement
// that does nothing if it was done, and needs no transaction around it: several
// nodes may start at once, and after one that died in between, the next begins
// where that one began.
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

// tables counts those that have the names of ours, and the table that marks them.
func tables(ctx context.Context, pool *pgxpool.Pool) (marker, all int, err error) {
	err = persist(ctx, func() error { return pool.QueryRow(ctx, tablesSQL).Scan(&marker, &all) })
	return marker, all, err
}

// schemaVersion reads the schema's version, makes its row if the schema is
// empty, and refuses what this program cannot use.
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
		// The node that made the table has not come to its row yet.
		if err = apply(ctx, pool, insertVersionSQL); err == nil {
			err = persist(ctx, read)
		}
	}
	if err == nil && needs > newest {
		err = fmt.Errorf("its schema has version %d and this program knows %d: run the version of mintage that wrote it, or a later one", version, newest)
	}
	return version, err
}

// apply runs a statement that other nodes may run at the same moment.
func apply(ctx context.Context, pool *pgxpool.Pool, text string, args ...any) error {
	return persist(ctx, func() error {
		// Nothing is gained by asking the server for its description first.
		_, err := pool.Exec(ctx, text, append([]any{pgx.QueryExecModeExec}, args...)...)
		return err
	})
}

// persist does again what has met another node that was doing the same.
func persist(ctx context.Context, do func() error) error {
	for races := 0; ; races++ {
		err := do()
		if races >= 20 || ctx.Err() != nil || !collided(err) {
			return err
		}
		pause(ctx, races)
	}
}

// collided reports whether another node was doing the same. IF NOT EXISTS looks
// before it does, and what it looked for may come in between.
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

// foreign reports whether the engine does not know, or does not have, what a
// statement asks for.
func foreign(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && (strings.HasPrefix(server.Code, "0A") || strings.HasPrefix(server.Code, "42"))
}
