// Package sqlite keeps the store in one SQLite file: the embedded default, for
// one node. Writes go through a single goroutine that commits everybody who
// waits in one transaction, so that one fsync serves them all; reads go beside
// it. The file is in WAL mode with synchronous=FULL: a write that was answered
// survives a crash of the process and of the machine.
//
// One server runs on a file at a time (see Lock). Other processes, such as the
// administrator's commands, may read and write beside it.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver named "sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/mintage/mintage/internal/store"
)

const (
	// FileName is the store's name in a data directory.
	FileName = "mintage.db"
	// Unfinished is there while a restore has left neither store whole.
	Unfinished = FileName + ".restore-unfinished"
)

// Logs are what SQLite may keep beside a file: the ends of their names.
var Logs = []string{"-wal", "-journal"}

// ErrEmpty is of a store's file without a byte. SQLite takes it for a new
// database and does away with its log, also when it only reads.
var ErrEmpty = errors.New("the store's file is empty")

const (
	// How long another process may hold the write lock: a server has requests
	// that wait, and a command has a person.
	busyTimeout     = 2 * time.Second
	commandPatience = 10 * time.Second
	// pageSize is that of a new file, in bytes; see decision 5.
	pageSize    = 1024
	frameHeader = 24 // of each page in the log
)

// Store is a store.Store on one file.
type Store struct {
	path   string
	db     *sql.DB
	writer *writer
	reader *reader
	tried  atomic.Int64 // when Ready last made a write: nanoseconds since opened
	opened time.Time
}

var _ store.Store = (*Store)(nil)

// finished tells what to do if a restore has left neither store whole, or nil.
func finished(path string) error {
	switch _, err := os.Lstat(filepath.Join(filepath.Dir(path), Unfinished)); {
	case err == nil:
		return errors.New("a restore was interrupted: give the same mintage restore command again")
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

// Absent reports whether Create would make a store in a data directory: there is
// none, or an empty file that an interrupted start has left.
func Absent(dir string) (bool, error) {
	info, err := os.Stat(filepath.Join(dir, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && info.Size() == 0, err
}

// Create opens the store in a data directory and makes it if it is absent. The
// directory must exist.
func Create(ctx context.Context, dir string) (*Store, error) {
	path := filepath.Join(dir, FileName)
	if err := finished(path); err != nil {
		return nil, Explain(path, err)
	}
	// SQLite would create the file readable by all; its log inherits the mode.
	// One that exists is left alone: to close it here would drop the locks that
	// this process has on it (https://sqlite.org/howtocorrupt.html section 2.2).
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, Explain(path, err)
	}
	return open(ctx, path, busyTimeout)
}

// Open opens the store in a data directory, for a command beside the server.
// It returns an error that tells
// what to do if there is none.
func Open(ctx context.Context, dir string) (*Store, error) {
	path := filepath.Join(dir, FileName)
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no store at %s: name the server's configuration with --config, or its data directory with --data; `mintage serve` makes a store", path)
		}
		return nil, Explain(path, err)
	}
	if err := finished(path); err != nil {
		return nil, Explain(path, err)
	}
	return open(ctx, path, commandPatience)
}

// Pragmas are those of every connection. Sizes of caches are in KiB if negative.
var Pragmas = []string{
	fmt.Sprintf("busy_timeout = %d", busyTimeout.Milliseconds()),
	"journal_mode = WAL",
	"synchronous = FULL",
	"wal_autocheckpoint = 0", // see checkpointer
	"cache_size = -2000",
	"temp_store = MEMORY",
	"trusted_schema = OFF",
}

// URL names a file for database/sql.
func URL(path string, Pragmas ...string) string {
	// A relative one would be taken for a host.
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + url.Values{"_pragma": Pragmas, "_txlock": {"immediate"}}.Encode()
}

// OpenFile opens a store's file that has no place in a data directory yet.
func OpenFile(ctx context.Context, path string) (*Store, error) { return open(ctx, path, busyTimeout) }

func open(ctx context.Context, path string, patience time.Duration) (_ *Store, err error) {
	db, err := sql.Open("sqlite", URL(path, Pragmas...))
	if err != nil {
		return nil, Explain(path, err)
	}
	before, err := os.Stat(path)
	if err != nil {
		return nil, Explain(path, err)
	}
	if log, err := os.Stat(path + "-wal"); before.Size() == 0 && err == nil && log.Size() > 0 {
		return nil, Explain(path, ErrEmpty)
	}
	s := &Store{path: path, db: db, opened: time.Now()}
	defer func() {
		if err != nil {
			err = Explain(path, errors.Join(err, s.Close()))
		}
	}()
	if before.Size() == 0 {
		if err := patiently(busyTimeout, func() error { return layOut(path) }); err != nil {
			return nil, err
		}
	}
	// Of processes that begin with the same empty file, SQLite refuses all but
	// one the change to a write-ahead log at once: its busy timeout is not for
	// that.
	if err := patiently(busyTimeout, func() error { return migrate(ctx, db) }); err != nil {
		return nil, err
	}
	if err := patiently(busyTimeout, func() error { return Displaced(ctx, path, db) }); err != nil {
		return nil, err
	}
	r, err := newReader(path)
	if err != nil {
		return nil, err
	}
	s.reader = r
	go r.run()
	w, err := newWriter(path, patience)
	if err != nil {
		return nil, err
	}
	if w.checkpoint, err = startCheckpointer(path, w.conn); err != nil {
		w.close()
		return nil, err
	}
	s.writer = w
	go w.run()
	// From here on, nobody can exchange the file: see fold. Who waited for its
	// lock while a backup took its place would write to the old one.
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		return nil, errors.Join(errors.New("a backup took its place at this moment: try again"), err)
	}
	return s, nil
}

// layOut fixes the page size of a new file, which it keeps for good. SQLite
// ignores a page size that is set after the change to a write-ahead log, and
// the driver sorts its Pragmas: journal_mode would come first.
func layOut(path string) error {
	conn, err := connect(path, slices.Concat([]string{fmt.Sprintf("page_size = %d", pageSize)}, Pragmas))
	if err != nil {
		return err
	}
	conn.close()
	return nil
}

// Close lets waiting operations finish, and closes the file.
func (s *Store) Close() error {
	if s.writer != nil {
		s.writer.stop()
	}
	if s.reader != nil {
		s.reader.stop()
	}
	return s.db.Close()
}

// Explain says which file a fault concerns and what an operator can do.
func Explain(path string, err error) error {
	hint := ""
	var coded interface{ Code() int }
	switch {
	case errors.As(err, &coded) && coded.Code() == lib.SQLITE_READONLY_DBMOVED:
		hint = ": another file took its place at this moment, as in a restore: try again"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), IsCode(err, lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN):
		hint = ": the directory and its files must be writable by the user who runs mintage"
	case errors.Is(err, fs.ErrNotExist):
		hint = ": the data directory does not exist"
	case errors.Is(err, ErrEmpty):
		hint = ": what it held is in its log at most; put both aside and restore a backup"
	case IsCode(err, lib.SQLITE_BUSY):
		hint = ": another process holds its lock; is a backup or a second program using it?"
	case IsCode(err, lib.SQLITE_FULL):
		hint = ": the disk is full"
	case IsCode(err, lib.SQLITE_IOERR):
		hint = ": the disk is full or broken"
	case IsCode(err, lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB) && !strings.Contains(err.Error(), "restore a backup"):
		hint = ": the file is damaged or is not a Mintage store; put it aside and restore a backup"
	}
	return fmt.Errorf("open store %s: %w%s", path, err, hint)
}

// IsCode reports whether err has one of SQLite's primary result codes.
func IsCode(err error, codes ...int) bool {
	var coded interface{ Code() int }
	return errors.As(err, &coded) && slices.Contains(codes, coded.Code()&0xff)
}
