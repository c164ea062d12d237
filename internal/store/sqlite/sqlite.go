// Package sqlite is the embedded storage engine: one SQLite file, for one node.
// A single goroutine commits all queued writes in one transaction (group
// commit), so that they share an fsync. Reads run concurrently. The file is in
// WAL mode with synchronous=FULL: an acknowledged write survives a crash of the
// process and of the machine.
//
// One server uses a file at a time (see Lock). Commands may read and write it
// concurrently.
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
	// Unfinished names the file that exists while a restore has left neither store complete.
	Unfinished = FileName + ".restore-unfinished"
)

// Logs are the suffixes of the files that SQLite may keep beside a database.
var Logs = []string{"-wal", "-journal"}

// ErrEmpty means that the store's file has no bytes. SQLite treats such a file as
// a new database and deletes its log, even if it only reads.
var ErrEmpty = errors.New("the store's file is empty")

const (
	// How long a server and a command wait for another process's write lock.
	busyTimeout    = 2 * time.Second
	commandTimeout = 10 * time.Second
	// pageSize is the page size of a new file, in bytes; see decision 5.
	pageSize    = 1024
	frameHeader = 24 // bytes in the log before each page
)

// Store is a store.Store on one file.
type Store struct {
	store.Reader
	path   string
	db     *sql.DB
	writer *writer
	reader *reader
	tried  atomic.Int64 // time of the last write by Ready, in nanoseconds since opened
	opened time.Time
	files  openFiles
}

var _ store.Store = (*Store)(nil)

// finished returns an error if a restore has left neither store complete.
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

// Absent reports whether Create would create a store in a data directory: it has
// none, or an empty file of an interrupted start.
func Absent(dir string) (bool, error) {
	info, err := os.Stat(filepath.Join(dir, FileName))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && info.Size() == 0, err
}

// Create opens the store in a data directory, which must exist, and creates it if
// it is absent.
func Create(ctx context.Context, dir string) (*Store, error) {
	path := filepath.Join(dir, FileName)
	if err := finished(path); err != nil {
		return nil, Explain(path, err)
	}
	// SQLite would create the file readable by all; its log inherits the mode. Do
	// not open an existing file here: closing it would drop this process's locks
	// on it (https://sqlite.org/howtocorrupt.html section 2.2).
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, Explain(path, err)
	}
	return open(ctx, path, busyTimeout)
}

// Open opens the store in a data directory for a command. It fails if there is
// none: only a server may make one, after it has checked that none was there before.
func Open(ctx context.Context, dir string) (*Store, error) {
	path := filepath.Join(dir, FileName)
	absent, err := Absent(dir)
	if log, e := os.Stat(path + "-wal"); err == nil && absent && (e != nil || log.Size() == 0) {
		return nil, fmt.Errorf("no store at %s: name the server's configuration with --config, or its data directory with --data; `mintage serve --dev`, or a first `mintage serve --new-store`, makes a store", path)
	}
	if err == nil {
		err = finished(path)
	}
	if err != nil {
		return nil, Explain(path, err)
	}
	return open(ctx, path, commandTimeout)
}

// Pragmas are the settings of every connection. A negative cache size is in KiB.
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
	// SQLite would read the beginning of a relative path as a host.
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + url.Values{"_pragma": Pragmas, "_txlock": {"immediate"}}.Encode()
}

// OpenFile opens a store's file that is not in use as a store yet.
func OpenFile(ctx context.Context, path string) (*Store, error) { return open(ctx, path, busyTimeout) }

func open(ctx context.Context, path string, timeout time.Duration) (_ *Store, err error) {
	db, err := sql.Open("sqlite", URL(path, Pragmas...))
	if err != nil {
		return nil, Explain(path, err)
	}
	before, err := os.Stat(path)
	if err == nil {
		err = syscall.Access(path, writable) // SQLite would report it at the first write
	}
	if err != nil {
		return nil, Explain(path, err)
	}
	if log, err := os.Stat(path + "-wal"); before.Size() == 0 && err == nil && log.Size() > 0 {
		return nil, Explain(path, ErrEmpty)
	}
	s := &Store{Reader: read(db), path: path, db: db, opened: time.Now()}
	defer func() {
		if err != nil {
			err = Explain(path, errors.Join(err, s.Close()))
		}
	}()
	if before.Size() == 0 {
		if err := retryBusy(busyTimeout, func() error { return layOut(path) }); err != nil {
			return nil, err
		}
	}
	// If several processes open the same empty file, SQLite lets one of them
	// switch to WAL mode and fails the others at once, without a busy timeout.
	if err := retryBusy(busyTimeout, func() error { return migrate(ctx, db) }); err != nil {
		return nil, err
	}
	if err := retryBusy(busyTimeout, func() error { return Displaced(ctx, path, db) }); err != nil {
		return nil, err
	}
	r, err := newReader(path)
	if err != nil {
		return nil, err
	}
	s.reader = r
	go r.run()
	w, err := newWriter(path, timeout)
	if err != nil {
		return nil, err
	}
	if w.checkpoint, err = startCheckpointer(path, w.conn); err != nil {
		w.conn.close()
		return nil, err
	}
	s.writer = w
	if w.checkUsable = s.Present; timeout == commandTimeout {
		w.checkUsable = func() error { return Displaced(context.Background(), path, db) }
	}
	s.files, err = openedFiles(path)
	go w.run()
	// From here on, no restore can replace the file: see Fold. A process that
	// waited for the lock while a restore replaced the file would write to the old
	// one.
	if err != nil || !os.SameFile(before, s.files[path]) {
		return nil, errors.Join(errors.New("the file was replaced while it was being opened, as in a restore: try again"), err)
	}
	return s, nil
}

// layOut sets the page size of a new file, which never changes afterwards. SQLite
// ignores page_size in WAL mode, and the driver sorts its pragmas: journal_mode
// would come first.
func layOut(path string) error {
	conn, err := connect(path, 0, slices.Concat([]string{fmt.Sprintf("page_size = %d", pageSize)}, Pragmas))
	if err != nil {
		return err
	}
	conn.close()
	return nil
}

// Close completes the queued operations and closes the file.
func (s *Store) Close() error {
	if s.writer != nil {
		s.writer.stop()
	}
	if s.reader != nil {
		s.reader.stop()
	}
	return s.db.Close()
}

// writable is W_OK of access(2).
const writable = 2

// Explain adds the path to an error, and what an operator can do about it.
func Explain(path string, err error) error {
	hint := ""
	var coded interface{ Code() int }
	if IsCode(err, lib.SQLITE_CANTOPEN) {
		// SQLite does not report why. Opening the file here would drop its locks.
		if denied := syscall.Access(path, writable); errors.Is(denied, fs.ErrPermission) {
			err = fmt.Errorf("%w: %w", err, denied)
		}
	}
	switch {
	case errors.As(err, &coded) && coded.Code() == lib.SQLITE_READONLY_DBMOVED:
		hint = ": the file was replaced while it was open, as in a restore: try again"
	case errors.Is(err, fs.ErrPermission):
		hint = ": run this as the server's user, to whom the directory and its files must belong"
	case errors.Is(err, syscall.EROFS), IsCode(err, lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN):
		hint = ": the directory and its files must be writable by the user who runs mintage"
	case errors.Is(err, fs.ErrNotExist):
		hint = ": the data directory does not exist"
	case errors.Is(err, ErrEmpty):
		hint = ": its data, if any, is only in the -wal file; move both files away and restore a backup"
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
	if err == nil {
		return false // in most calls: avoid the allocation
	}
	var coded interface{ Code() int }
	return errors.As(err, &coded) && slices.Contains(codes, coded.Code()&0xff)
}

// Load returns the number of queued writes and the batch counters.
func (s *Store) Load() store.Load {
	return store.Load{Waiting: len(s.writer.queue), Batches: s.writer.batches.Read()}
}

// openFiles are the files that a Store has open, by path: the main file and its log.
type openFiles map[string]fs.FileInfo

func openedFiles(path string) (openFiles, error) {
	files := openFiles{}
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		files[name] = info
	}
	return files, nil
}

// present compares device and inode of the open files with those at their paths. A
// process can still write to a file that was deleted or whose disk was detached, but
// such writes are lost when the last descriptor is closed.
func (files openFiles) present() error {
	for name, opened := range files {
		if here, err := os.Stat(name); err != nil || !os.SameFile(here, opened) {
			return fmt.Errorf("%s is no longer the file that this server has open: it was deleted or replaced, or its disk is not mounted", name)
		}
	}
	return nil
}

// Present returns an error if the store's files are not at their paths any more. The
// writer writes nothing until they are back.
func (s *Store) Present() error { return s.files.present() }
