package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks the file as ours (https://sqlite.org/pragma.html#pragma_application_id).
const applicationID = 0x4d4e5447 // "MNTG"

// migrate brings the schema to the newest version. Files are applied in the
// order of their names, each once; the file's number is the schema's version.
// They are never edited after a release, and there is no way back. It is one
// transaction: two processes that start at once do it once, and a crash leaves
// the old version.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	// Without the write lock, which a busy server seldom leaves: mostly there
	// is nothing to do.
	if version, err := schemaVersion(ctx, db, len(files)); err != nil || version == len(files) {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	version, err := schemaVersion(ctx, tx, len(files))
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

// schemaVersion reads the schema's version, 0 for an empty file, and refuses
// what this program cannot use.
func schemaVersion(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, newest int) (version int, err error) {
	var app, objects int
	if err := db.QueryRowContext(ctx, `SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_user_version, pragma_application_id`).Scan(&version, &app, &objects); err != nil {
		return 0, err
	}
	switch {
	case version == 0 && app == 0 && objects == 0:
	case app != applicationID:
		return 0, fmt.Errorf("it is some other program's SQLite file")
	case version < 0 || version > newest:
		return 0, fmt.Errorf("its schema has version %d and this program knows %d: run the version of mintage that wrote it, or a later one", version, newest)
	}
	return version, nil
}
