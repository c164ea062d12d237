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
	// copyPages is how many pages are copied in one step, between which others
	// have their turn.
	copyPages = 256
	// rest is how long each step is followed by nothing, as a share of its own
	// time: a copy takes half of a processor and of the disk.
	rest = 1.0
	// syncBytes is after how much the copy is brought to the disk. All of it at
	// the end would have the server's commits wait behind.
	syncBytes = 4 << 20
)

// backupFormat counts the forms of a backup's manifest.
const backupFormat = 1

// A Manifest is what a backup says of itself.
type Manifest struct {
	Format int `json:"format"`
	// At is the instant of the backup: it holds all that was answered before.
	At grant.Instant `json:"at"`
	// Version is that of the program which made it, and Issuer whose store it
	// is, if that was known.
	Version string `json:"version"`
	Issuer  string `json:"issuer,omitempty"`
	Schema  int    `json:"schema"`
	// KEK is the fingerprint of the key-encryption key that its keys need.
	KEK  string           `json:"kek"`
	Keys []string         `json:"keys"`
	Rows map[string]int64 `json:"rows"`
}

// A CopyPhase is what the making or the checking of a backup is at.
type CopyPhase string

const (
	CopyingPages  CopyPhase = "copy"
	CheckingPages CopyPhase = "check"
)

// CopyProgress is how far it is. Total is zero where that is not known.
type CopyProgress struct {
	Phase       CopyPhase
	Done, Total int64 // bytes
}

// A Job is a copy of a store that is to be made.
type Job struct {
	Dir  string // the data directory
	File string // where the copy goes; it must not exist
	// Version and Issuer are for the Manifest.
	Version, Issuer string
	Now             func() time.Time
	Report          func(CopyProgress)
}

// Make makes the backup, of one moment, while servers and commands go on. They
// are not stopped; what they write meanwhile stays in the store's log until the
// copy is complete. The file appears under its name when it is whole, was checked
// and is durable. If anything fails, nothing is left.
func (b Job) Make(ctx context.Context) (m Manifest, err error) {
	path := filepath.Join(b.Dir, sqlite.FileName)
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return m, fmt.Errorf("no store at %s: name the data directory with --data", path)
		}
		return m, sqlite.Explain(path, err)
	}
	if err := mustNotExist(b.File); err != nil {
		return m, err
	}
	f, err := createPartial(filepath.Dir(b.File))
	if err != nil {
		return m, fmt.Errorf("backup: %w", err)
	}
	partial := f.Name()
	defer func() {
		f.Close()
		err = errors.Join(err, removeWithLogs(partial))
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
	return m, syncDirectory(filepath.Dir(b.File))
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

// connection is what the driver's connections can do beyond database/sql.
type copier interface {
	NewBackup(destination string) (*driver.Backup, error)
}

// copy copies the pages of one state of the store.
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
	// From here on, the connection sees one state.
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
	if err := mustFit(filepath.Dir(b.File), pages*pageSize); err != nil {
		return err
	}
	return conn.Raw(func(c any) error {
		// It is written anew if anything happens: no journal is needed.
		job, err := c.(copier).NewBackup(sqlite.URL(f.Name(), "journal_mode = OFF", "synchronous = OFF", "cache_size = -1024"))
		if err != nil {
			return err
		}
		err = b.steps(ctx, job, f, pageSize)
		// Its other end is closed in any case.
		return errors.Join(err, job.Finish())
	})
}

// steps copies all pages, and leaves the machine to others in between.
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

// describe makes one file of the copy, without a log, checks it, and writes into
// it what it is.
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

// countRows counts the rows of each table that the file has: one of an earlier
// version lacks some.
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

func readKeys(ctx context.Context, db *sql.DB) ([]keys.Record, error) {
	return sqlite.List(ctx, db, sqlite.ScanKey, `SELECT id, purpose, created_at, active_at, wrapped FROM keys ORDER BY active_at, id`)
}

// quickCheck finds a damaged file. It reads all of it.
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

// spare is what must stay free on a disk that a copy is written to.
const spare = 16 << 20

// mustFit tells that a directory has no room for so many bytes, or nil.
func mustFit(dir string, size int64) error {
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

func syncDirectory(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
