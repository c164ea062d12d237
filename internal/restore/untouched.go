package restore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	lib "modernc.org/sqlite/lib"

	"github.com/mintage/mintage/internal/store/sqlite"
)

// A fileState holds the attributes of a file that a write changes; info is nil if there is
// no file.
type fileState struct{ info fs.FileInfo }

func stateOf(path string) (s fileState, err error) {
	if s.info, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return s, err
}

func (s fileState) size() int64 {
	if s.info == nil {
		return 0
	}
	return s.info.Size()
}

func (s fileState) is(t fileState) bool {
	if s.info == nil || t.info == nil {
		return s.info == t.info
	}
	return os.SameFile(s.info, t.info) && s.size() == t.size() && s.info.ModTime().Equal(t.info.ModTime())
}

// A footprint is the state of a store's files. The index is derived from the log.
type footprint struct{ file, log, journal, index fileState }

func footprintOf(path string) (f footprint, err error) {
	for end, s := range map[string]*fileState{"": &f.file, "-wal": &f.log, "-journal": &f.journal, "-shm": &f.index} {
		var e error
		*s, e = stateOf(path + end)
		err = errors.Join(err, e)
	}
	return f, err
}

// readUntouched lets read query a store without changing it. Opened in the usual
// way, a store that has crashed would have its log checkpointed. Other processes
// may use the store meanwhile.
func readUntouched(ctx context.Context, path string, read func(*sql.DB) error) error {
	for range 5 {
		before, err := footprintOf(path)
		if err != nil {
			return err
		}
		if before.file.size() == 0 {
			return fmt.Errorf("%s: %w", path, sqlite.ErrEmpty)
		}
		switch {
		case before.log.size() == 0 && before.journal.size() == 0:
			// Opening it in WAL mode would create a log. The result is valid if no
			// process has written meanwhile.
			err = readAs(path, "&mode=ro&immutable=1", read)
			after, e := footprintOf(path)
			if e != nil {
				return e
			}
			if ctx.Err() == nil && (after.log.size() > 0 || after.journal.size() > 0 || !after.file.is(before.file)) {
				continue
			}
			return err
		case before.index.info != nil:
			err = readAs(path, "&mode=ro&readonly_shm=1", read)
			if !sqlite.IsCode(err, lib.SQLITE_READONLY) {
				return err
			}
			// Another process uses the store, and a read-only reader found no free read mark
			// in the index. That process changes the index all the time anyway.
		}
		return readAs(path, "&mode=ro", read)
	}
	return fmt.Errorf("%s: others write to it again and again", path)
}

func readAs(path, options string, read func(*sql.DB) error) error {
	db, err := sql.Open("sqlite", sqlite.URL(path, "busy_timeout = 10000", "trusted_schema = OFF", "temp_store = MEMORY")+options)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	return errors.Join(read(db), db.Close())
}
