// Package backup copies an embedded store into one file, beside a server that writes, and
// checks such a file. Package restore puts it in a store's place.
package backup

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	driver "modernc.org/sqlite"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

const (
	// copyPages is how many pages one step copies. Other work runs between steps.
	copyPages = 256
	// rest is the pause after each step, relative to the step's duration: a copy
	// uses half of a processor and of the disk.
	rest = 1.0
	// syncBytes is how much is copied between two syncs of the copy. The server's
	// commits would wait for one large sync at the end.
	syncBytes = 4 << 20
)

// backupFormat is the version of the manifest's format.
const backupFormat = 1

// A Manifest describes a backup. The backup contains it.
type Manifest struct {
	Format int `json:"format"`
	// At is the instant of the backup, which holds every write acknowledged before.
	At grant.Instant `json:"at"`
	// Version is that of the program which made the backup. Issuer is the store's issuer
	// identifier, if it was known.
	Version string `json:"version"`
	Issuer  string `json:"issuer,omitempty"`
	Schema  int    `json:"schema"`
	// KEK is the fingerprint of the key-encryption key that wraps the backup's keys.
	KEK  string           `json:"kek"`
	Keys []string         `json:"keys"`
	Rows map[string]int64 `json:"rows"`
}

// A CopyPhase is a phase of making, checking or restoring a backup.
type CopyPhase string

const (
	CopyingPages  CopyPhase = "copy"
	CheckingPages CopyPhase = "check"
)

// CopyProgress describes how far a phase is. Total is zero if it is unknown.
type CopyProgress struct {
	Phase       CopyPhase
	Done, Total int64 // bytes
}

// A Job describes a backup to make.
type Job struct {
	Dir  string // the data directory
	File string // the backup, which must not exist
	// Version and Issuer are for the Manifest.
	Version, Issuer string
	Now             func() time.Time
	Report          func(CopyProgress)
}

// Make makes a backup of one instant while servers and commands use the store.
// Their writes stay in the store's write-ahead log until the copy is complete.
// The file appears under its name when it is complete, verified and durable. After
// an error, nothing is left.
func (b Job) Make(ctx context.Context) (m Manifest, err error) {
	path := filepath.Join(b.Dir, sqlite.FileName)
	if absent, err := sqlite.Absent(b.Dir); err != nil {
		return m, sqlite.Explain(path, err)
	} else if absent {
		return m, fmt.Errorf("no store at %s: name the data directory with --data", path)
	}
	if err := mustNotExist(b.File); err != nil {
		return m, err
	}
	f, err := createPartial(filepath.Dir(b.File))
	if err != nil {
		return m, fmt.Errorf("backup: %w: the directory must exist, and the user who runs mintage must be able to write to it", err)
	}
	partial := f.Name()
	defer func() {
		f.Close()
		err = errors.Join(err, Remove(partial))
	}()
	m = Manifest{Format: backupFormat, Version: b.Version, Issuer: b.Issuer}
	if err := b.copy(ctx, path, f, &m); err != nil {
		return m, fmt.Errorf("backup of %s: %w", path, err)
	}
	if err := b.describe(ctx, partial, &m); err != nil {
		return m, fmt.Errorf("backup of %s: %w", path, err)
	}
	if err := writeDigest(f); err != nil {
		return m, fmt.Errorf("backup: %w", err)
	}
	if err := f.Sync(); err != nil {
		return m, fmt.Errorf("backup: %w", err)
	}
	// A link, unlike a rename, replaces nothing.
	if err := os.Link(partial, b.File); err != nil {
		return m, fmt.Errorf("backup: %w", err)
	}
	return m, SyncDirectory(filepath.Dir(b.File))
}

func mustNotExist(file string) error {
	_, err := os.Lstat(file)
	switch {
	case err == nil:
		return fmt.Errorf("%s exists already, and no backup is overwritten: choose another name", file)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// copier is the online backup API of the driver's connections.
type copier interface {
	NewBackup(destination string) (*driver.Backup, error)
}

// copy copies the pages of one snapshot of the store.
func (b Job) copy(ctx context.Context, path string, f *os.File, m *Manifest) error {
	db, err := sql.Open("sqlite", sqlite.URL(path, sqlite.Pragmas...))
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return sqlite.Explain(path, err)
	}
	defer conn.Close()
	m.At = grant.At(b.Now())
	// From here on, the connection reads one snapshot.
	if _, err := conn.ExecContext(ctx, `BEGIN`); err != nil {
		return sqlite.Explain(path, err)
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
	if m.Schema, err = sqlite.SchemaVersion(ctx, conn); err != nil {
		return sqlite.Explain(path, err)
	}
	if err := sqlite.Displaced(ctx, path, conn); err != nil {
		return err
	}
	var pages, pageSize int64
	if err := conn.QueryRowContext(ctx, `SELECT page_count, page_size FROM pragma_page_count, pragma_page_size`).Scan(&pages, &pageSize); err != nil {
		return err
	}
	if err := MustFit(filepath.Dir(b.File), pages*pageSize); err != nil {
		return err
	}
	return conn.Raw(func(c any) error {
		// A failed copy is discarded, so it needs no journal.
		job, err := c.(copier).NewBackup(sqlite.URL(f.Name(), "journal_mode = OFF", "synchronous = OFF", "cache_size = -1024"))
		if err != nil {
			return err
		}
		err = b.steps(ctx, job, f, pageSize)
		// Finish also closes the destination.
		return errors.Join(err, job.Finish())
	})
}

// steps copies all pages and pauses between the steps.
func (b Job) steps(ctx context.Context, job *driver.Backup, f *os.File, pageSize int64) error {
	unsynced := int64(0)
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		began := time.Now()
		var err error
		if more, err = job.Step(copyPages); err != nil {
			return err
		}
		if unsynced += copyPages * pageSize; unsynced >= syncBytes {
			if err := f.Sync(); err != nil {
				return err
			}
			unsynced = 0
		}
		total := int64(job.PageCount()) * pageSize
		b.Report(CopyProgress{CopyingPages, total - int64(job.Remaining())*pageSize, total})
		if more {
			time.Sleep(time.Duration(rest * float64(time.Since(began))))
		}
	}
	return nil
}

// describe turns the copy into one file without a log, verifies it, and writes the
// manifest.
func (b Job) describe(ctx context.Context, partial string, m *Manifest) error {
	db, err := sql.Open("sqlite", sqlite.URL(partial, "locking_mode = EXCLUSIVE", "journal_mode = DELETE", "synchronous = FULL"))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	b.Report(CopyProgress{Phase: CheckingPages})
	if err := quickCheck(ctx, db); err != nil {
		return err
	}
	if m.Rows, err = countRows(ctx, db); err != nil {
		return err
	}
	records, err := readKeys(ctx, db)
	if err != nil {
		return err
	}
	for _, r := range records {
		m.Keys = append(m.Keys, r.ID.String())
		m.KEK = r.WrappedBy()
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		text string
		args []any
	}{
		{`CREATE TABLE backup (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID`, nil},
		{`INSERT INTO backup (name, value) VALUES ('manifest', ?), ('sha256', ?)`, []any{string(text), noDigest}},
	} {
		if _, err := db.ExecContext(ctx, step.text, step.args...); err != nil {
			return err
		}
	}
	return db.Close()
}

// countRows counts the rows of each table. A file of an earlier version lacks some
// tables.
func countRows(ctx context.Context, db *sql.DB) (map[string]int64, error) {
	list := map[string]int64{}
	for _, t := range store.Tables {
		var exists bool
		if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?`, t.Name).Scan(&exists); err != nil {
			return nil, err
		}
		if !exists {
			continue
		}
		var n int64
		if err := db.QueryRowContext(ctx, `SELECT count(*) FROM `+t.Name).Scan(&n); err != nil {
			return nil, err
		}
		list[t.Name] = n
	}
	return list, nil
}

func readKeys(ctx context.Context, db *sql.DB) ([]keys.Stored, error) {
	var list []keys.Stored
	err := sqlite.Query(ctx, db)(func(row store.Scanner) error {
		r, err := store.ScanKey(row)
		list = append(list, r)
		return err
	}, `SELECT id, purpose, created_at, active_at, wrapped FROM keys ORDER BY active_at, id`)
	return list, err
}

// quickCheck reads the whole file and returns an error if it is damaged.
func quickCheck(ctx context.Context, db *sql.DB) error {
	var verdict string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("it is damaged: %s", verdict)
	}
	return nil
}

// spare is the space in bytes that a copy must leave free.
const spare = 16 << 20

// MustFit returns an error if a directory has no space for size bytes.
func MustFit(dir string, size int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if free := int64(fs.Bavail) * int64(fs.Bsize); free < size+spare {
		return fmt.Errorf("%s has no room: %s are free, and %s are needed", dir, megabytes(free), megabytes(size+spare))
	}
	return nil
}

func megabytes(n int64) string { return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + " MB" }

// SyncDirectory makes the names in a directory durable.
func SyncDirectory(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
