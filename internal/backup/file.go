package backup

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// A File is a backup that is open for reading. Nothing is written to it.
type File struct {
	File string
	// Manifest describes the backup. It has only the Schema if no Job made the file, but a
	// store's file was copied: the operator must then give the instant at which the copy began.
	Manifest Manifest
	// Size is the size of the file in bytes.
	Size int64

	db     *sql.DB
	digest string
}

// Open opens a backup of a Job, or a store's file that was copied by other means
// while nothing wrote to it. It reads the manifest only; see Check.
func Open(ctx context.Context, file string) (_ *File, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("backup %s: %w", file, err)
		}
	}()
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, errors.Unwrap(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a file")
	case info.Size() == 0:
		return nil, errors.New("it is empty")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: the user who runs mintage must be able to read it", errors.Unwrap(err))
	}
	_ = f.Close()
	for _, end := range sqlite.Logs {
		if log, err := os.Stat(file + end); err == nil && log.Size() > 0 {
			return nil, fmt.Errorf("it is a store in use, or a copy of one: %s%s holds changes that it lacks", file, end)
		}
	}
	db, err := sql.Open("sqlite", sqlite.URL(file, "query_only = ON", "trusted_schema = OFF", "temp_store = MEMORY")+"&mode=ro&immutable=1")
	if err != nil {
		return nil, err
	}
	b := &File{File: file, Size: info.Size(), db: db}
	defer func() {
		if err != nil {
			db.Close()
		}
	}()
	schema, err := sqlite.SchemaVersion(ctx, db)
	if err != nil {
		return nil, damaged(err)
	}
	if schema == 0 {
		return nil, errors.New("it is an empty database")
	}
	var text string
	var found bool
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = 'backup'`).Scan(&found); err != nil {
		return nil, damaged(err)
	}
	if !found {
		b.Manifest.Schema = schema
		return b, nil
	}
	if err := db.QueryRowContext(ctx, `SELECT m.value, s.value FROM backup m, backup s WHERE m.name = 'manifest' AND s.name = 'sha256'`).Scan(&text, &b.digest); err != nil {
		return nil, damaged(err)
	}
	if err := json.Unmarshal([]byte(text), &b.Manifest); err != nil {
		return nil, damaged(err)
	}
	if f := b.Manifest.Format; f < 1 || f > backupFormat {
		return nil, fmt.Errorf("its format is %d and this program supports %d: run the version of mintage that made it (%s), or a later one", f, backupFormat, b.Manifest.Version)
	}
	return b, nil
}

// damaged explains an error of SQLite about a file that no process writes.
func damaged(err error) error {
	switch {
	case sqlite.IsCode(err, lib.SQLITE_NOTADB):
		return errors.New("it is no backup of a store, or it is damaged")
	case sqlite.IsCode(err, lib.SQLITE_CORRUPT, lib.SQLITE_IOERR):
		return fmt.Errorf("it is damaged: %w", err)
	}
	return err
}

// Close closes the file.
func (b *File) Close() error { return b.db.Close() }

// Made reports whether a Job has made the file: it has a manifest.
func (b *File) Made() bool { return b.Manifest.Format > 0 }

// CheckCopy returns an error if a copy of the backup does not match the digest in the backup.
// It checks nothing if no Job made the backup, because there is no digest.
func (b *File) CheckCopy(name string) error {
	if !b.Made() {
		return nil
	}
	return checkDigest(name, b.digest)
}

// Check reads the whole backup and verifies its checksum, the structure of the
// database, the number of rows, and that the store was not being moved.
func (b *File) Check(ctx context.Context, report func(CopyProgress)) error {
	report(CopyProgress{Phase: CheckingPages})
	if err := b.CheckCopy(b.File); err != nil {
		return fmt.Errorf("backup %s: %w", b.File, err)
	}
	if err := quickCheck(ctx, b.db); err != nil {
		return fmt.Errorf("backup %s: %w", b.File, damaged(err))
	}
	rows, err := countRows(ctx, b.db)
	if err != nil {
		return fmt.Errorf("backup %s: %w", b.File, damaged(err))
	}
	for table, n := range b.Manifest.Rows {
		if rows[table] != n {
			return fmt.Errorf("backup %s: table %s has %d rows, but the manifest says %d", b.File, table, rows[table], n)
		}
	}
	b.Manifest.Rows = rows
	var moves bool
	if err := b.db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = 'moves'`).Scan(&moves); err != nil || !moves {
		return err
	}
	if err := sqlite.Displaced(ctx, b.File, b.db); err != nil {
		return fmt.Errorf("backup %s: %w", b.File, err)
	}
	return nil
}

// KeyRecords returns the backup's wrapped keys in the order of their use.
func (b *File) KeyRecords(ctx context.Context) ([]keys.Stored, error) {
	list, err := readKeys(ctx, b.db)
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", b.File, damaged(err))
	}
	return list, nil
}

// Issued summarises the refresh tokens that the backup's grants have issued.
func (b *File) Issued(ctx context.Context) (i grant.Issued, err error) {
	if i, err = IssuedIn(ctx, b.db, "grants"); err != nil {
		err = fmt.Errorf("backup %s: %w", b.File, damaged(err))
	}
	return i, err
}

// HasGrant reports whether the backup has an active grant of an id.
func (b *File) HasGrant(ctx context.Context, id grant.ID) (has bool, err error) {
	err = b.db.QueryRowContext(ctx, `SELECT count(*) FROM grants WHERE prefix = ? AND id = ? AND state = ?`, sqlite.Prefix(id), id[:], grant.Active).Scan(&has)
	return has, err
}

// IssuedIn summarises the refresh tokens that the grants of a table have issued.
func IssuedIn(ctx context.Context, db *sql.DB, table string) (i grant.Issued, err error) {
	var longest int64 // milliseconds
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(rotated_at), 0), coalesce(max(expires_at), 0), coalesce(max(expires_at - rotated_at), 0) FROM `+table).
		Scan(&i.Latest, &i.LastExpiry, &longest)
	i.Longest = time.Duration(longest) * time.Millisecond
	return i, err
}
