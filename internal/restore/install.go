package restore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// A restore replaces a store in these steps. The caller holds the directory's
// Lock, so that no server runs; commands may.
//
//	prepare   the backup is copied beside the store, checked, and brought to the
//	          newest schema
//	declare   what has ended since the backup ends in the copy as well, and the
//	          restore is recorded in it
//	fold      the store's log is checkpointed into its file, which no other
//	          process may have open
//	keep      the store's file gets a second name
//	switch    the copy takes the first name
//
// Until the switch, which is one rename, the store is as it was; afterwards it is
// the backup, with the declaration of the restore. After a crash in between, what
// is left does no harm, and the same command starts again.
//
// A store that is too damaged to be folded has several files, and a rename moves
// one. Then a file with the name of sqlite.Unfinished keeps servers and commands
// out from the first change to the last.

// preparedName names the copy beside the store.
const preparedName = sqlite.FileName + ".restoring"

// copySize is how many bytes of a backup are copied between two reports.
const copySize = 1 << 20

// A Replacement is a store that is about to replace the one in a data directory.
type Replacement struct {
	dir string
	// step is called with the name of each step before it is done; for tests.
	step func(name string) error
}

func (r *Replacement) path() string     { return filepath.Join(r.dir, sqlite.FileName) }
func (r *Replacement) prepared() string { return filepath.Join(r.dir, preparedName) }
func (r *Replacement) marker() string   { return filepath.Join(r.dir, sqlite.Unfinished) }

// Prepare copies a backup that was checked to the data directory, which must exist.
// Nothing is replaced yet.
func Prepare(ctx context.Context, dir string, b *backup.File, report func(backup.CopyProgress)) (_ *Replacement, err error) {
	r := &Replacement{dir: dir, step: func(string) error { return nil }}
	defer func() {
		if err != nil {
			err = fmt.Errorf("prepare the backup in %s: %w", dir, errors.Join(err, r.Discard()))
		}
	}()
	if err := r.Discard(); err != nil { // what a crash has left
		return nil, err
	}
	if err := backup.MustFit(dir, b.Size); err != nil {
		return nil, err
	}
	if err := r.copy(ctx, b, report); err != nil {
		return nil, err
	}
	if err := b.CheckCopy(r.prepared()); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", sqlite.URL(r.prepared(), sqlite.Pragmas...))
	if err != nil {
		return nil, err
	}
	if b.Made() {
		_, err = db.ExecContext(ctx, `DROP TABLE backup`)
	}
	return r, errors.Join(err, db.Close())
}

// copy copies the backup to the directory and gives the copy the owner of the store:
// SQLite creates a log with the owner of its file.
func (r *Replacement) copy(ctx context.Context, b *backup.File, report func(backup.CopyProgress)) error {
	from, err := os.Open(b.File)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(r.prepared(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := sqlite.GiveToOwner(f, r.path(), r.dir); err != nil {
		return err
	}
	for done := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(f, from, copySize)
		done += n
		report(backup.CopyProgress{Phase: backup.CopyingPages, Done: done, Total: b.Size})
		if errors.Is(err, io.EOF) {
			return errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return err
		}
	}
}

// Discard deletes the prepared copy.
func (r *Replacement) Discard() error { return backup.Remove(r.prepared()) }

// Declare lets merge change the prepared copy, and then records the restore in it,
// so that no server opens it without the declaration. The sessions of the console end.
func (r *Replacement) Declare(ctx context.Context, merge func(store.Store) error, declared grant.Restore, events ...store.Event) error {
	if err := r.step("declare"); err != nil {
		return err
	}
	s, err := sqlite.OpenFile(ctx, r.prepared())
	if err != nil {
		return err
	}
	if err = merge(s); err == nil {
		err = operator.EndRestored(ctx, s, declared.At)
	}
	if err == nil {
		err = s.Commit(ctx, store.Change{Restores: []grant.Restore{declared}, Events: events})
	}
	return errors.Join(err, s.Close())
}

// Install replaces the store with the prepared copy. It returns the names under
// which the old store is kept, which begin with aside: none if there was none.
// After an error, the directory has the old store or the new one.
func (r *Replacement) Install(ctx context.Context, aside string) (kept []string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore %s: %w", r.path(), err)
		}
	}()
	if err := r.step("fold the copy"); err != nil {
		return nil, err
	}
	if err := sqlite.Fold(ctx, r.prepared()); err != nil {
		return nil, err
	}
	if err := r.sync(); err != nil {
		return nil, err
	}
	release, err := r.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return r.replace(ctx, aside)
}

// sync makes the prepared copy durable.
func (r *Replacement) sync() error {
	f, err := os.Open(r.prepared())
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), backup.SyncDirectory(r.dir))
}

// lock folds the store and locks it exclusively until release. A process that
// waits for the lock then finds that the file was replaced, and fails or opens the
// new one (see sqlite.OpenFile). Nothing is written to the old file: SQLite would
// create a log for it under the name of the new store's. A file that is no store, or is
// too damaged to be folded, is not locked: no process can use it.
func (r *Replacement) lock(ctx context.Context) (release func(), err error) {
	release = func() {}
	// Do not open a file that is no store: SQLite would delete the write-ahead log beside it.
	if unfinished, err := isThere(r.marker()); err != nil || unfinished || !sqlite.IsStore(ctx, r.path()) {
		return release, err
	}
	if err := r.step("fold the store"); err != nil {
		return nil, err
	}
	// A command may open the store between the fold and the lock, and start a new
	// log.
	for range 5 {
		err := sqlite.Fold(ctx, r.path())
		if errors.Is(err, sqlite.ErrDamaged) {
			return release, nil
		}
		if err != nil {
			return nil, err
		}
		db, err := sql.Open("sqlite", sqlite.URL(r.path(), "busy_timeout = 10000"))
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		if _, err = db.ExecContext(ctx, `BEGIN EXCLUSIVE`); err == nil {
			mode := ""
			err = db.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode)
			if err == nil && mode == "delete" {
				return func() { db.Close() }, nil
			}
		}
		if err = errors.Join(err, db.Close()); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("commands open %s again and again: let them end first", r.path())
}

// replace keeps the store's files under other names and renames the copy.
func (r *Replacement) replace(ctx context.Context, aside string) (kept []string, err error) {
	begun := false // the old store is no longer complete
	do := func(name string, f func() error) {
		if err == nil {
			err = r.step(name)
		}
		if err == nil && !begun {
			err = ctx.Err()
		}
		if err == nil {
			err = f()
		}
	}
	defer func() {
		if err == nil || begun {
			return
		}
		// The store stays in use: remove the second names of its files, which would look
		// like a kept copy.
		for _, name := range kept {
			err = errors.Join(err, os.Remove(name))
		}
		kept = nil
	}()
	// SQLite would apply a remaining log of the old store to the new file.
	logs := append([]string{"-shm"}, sqlite.Logs...)
	several, err := isThere(r.marker())
	for _, end := range logs {
		exists, e := isThere(r.path() + end)
		several, err = several || exists, errors.Join(err, e)
	}
	for _, end := range append([]string{""}, sqlite.Logs...) {
		if exists, e := isThere(r.path() + end); e != nil || !exists {
			err = errors.Join(err, e)
			continue
		}
		do("keep "+sqlite.FileName+end, func() error {
			err := os.Link(r.path()+end, aside+end)
			if err == nil {
				kept = append(kept, aside+end)
			}
			return err
		})
	}
	if several {
		do("mark the directory", func() error {
			f, err := os.OpenFile(r.marker(), os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				return err
			}
			return errors.Join(sqlite.GiveToOwner(f, r.dir), f.Sync(), f.Close(), backup.SyncDirectory(r.dir))
		})
		for _, end := range logs {
			do("remove "+sqlite.FileName+end, func() error {
				begun = true
				if err := os.Remove(r.path() + end); !errors.Is(err, fs.ErrNotExist) {
					return err
				}
				return nil
			})
		}
	}
	do("make that durable", func() error { return backup.SyncDirectory(r.dir) })
	do("switch", func() error {
		err := os.Rename(r.prepared(), r.path())
		begun = begun || err == nil
		return err
	})
	do("make the switch durable", func() error { return backup.SyncDirectory(r.dir) })
	if several {
		do("unmark the directory", func() error { return errors.Join(os.Remove(r.marker()), backup.SyncDirectory(r.dir)) })
	}
	return kept, err
}

// isThere reports whether a path exists.
func isThere(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
