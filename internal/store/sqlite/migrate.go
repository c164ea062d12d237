package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"os"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID identifies a Mintage store (https://sqlite.org/pragma.html#pragma_application_id).
const applicationID = 0x4d4e5447 // "MNTG"

// migrate upgrades the schema to the newest version. It applies each migration
// file once, in the order of their names; the file's number is the schema
// version. Released files are never edited, and there is no downgrade. All of it
// is one transaction: of two processes that start together, one upgrades the schema,
// and a crash leaves the old version.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	// Usually there is nothing to do: look without the write lock first, which a
	// busy server seldom releases.
	if version, err := SchemaVersion(ctx, db); err != nil || version == len(files) {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	version, err := SchemaVersion(ctx, tx)
	if err != nil {
		return err
	}
	for _, f := range files[version:] {
		text, err := migrations.ReadFile("migrations/" + f.Name())
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("migration %s: %w", f.Name(), err)
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, len(files))); err != nil {
		return err
	}
	return tx.Commit()
}

// A Querier is a database, a connection or a transaction.
type Querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// SchemaVersion returns the schema version, 0 for an empty file. It fails for
// another program's file and for a newer version.
func SchemaVersion(ctx context.Context, db Querier) (int, error) {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return 0, err
	}
	version, err := readVersion(ctx, db)
	if err == nil && (version < 0 || version > len(files)) {
		err = fmt.Errorf("its schema has version %d and this program knows %d: run the version of mintage that wrote it, or a later one", version, len(files))
	}
	return version, err
}

// readVersion is SchemaVersion, but does not fail for a newer version.
func readVersion(ctx context.Context, db Querier) (version int, err error) {
	var app, objects int
	err = db.QueryRowContext(ctx, `SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_user_version, pragma_application_id`).Scan(&version, &app, &objects)
	if err == nil && app != applicationID && (version != 0 || app != 0 || objects != 0) {
		err = errors.New("it is some other program's SQLite file")
	}
	return version, err
}

// IsStore reports whether a file can be read as a store, or is locked.
func IsStore(ctx context.Context, path string) bool {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return false // an empty file: only its log can contain data
	}
	db, err := sql.Open("sqlite", URL(path, "busy_timeout = 1000")+"&mode=ro")
	if err != nil {
		return false
	}
	defer db.Close()
	_, err = readVersion(ctx, db)
	return err == nil || isBusy(err)
}

// ErrDamaged means that a store's log cannot be checkpointed into its file.
var ErrDamaged = errors.New("the store is damaged")

// Fold checkpoints a store's log into its file and leaves WAL mode, so that the
// store is one file. It fails while another process has the file open.
func Fold(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", URL(path, "busy_timeout = 1000", "synchronous = FULL"))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	mode := ""
	err = retryBusy(commandTimeout, func() error {
		return db.QueryRowContext(ctx, `PRAGMA journal_mode = DELETE`).Scan(&mode)
	})
	switch {
	case isBusy(err):
		return fmt.Errorf("another program has %s open: wait until it ends (a mintage command, a backup)", path)
	case err != nil && ctx.Err() == nil, err == nil && mode != "delete":
		return errors.Join(ErrDamaged, err)
	}
	return err
}
