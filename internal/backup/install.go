package backup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// A backup takes the place of a store in these steps. The caller holds the
// directory's Lock, so that no server runs; commands may.
//
//	prepare   the backup is copied beside the store, checked, and brought to the
//	          newest schema
//	declare   what has ended since is ended in the copy, and the restore is
//	          recorded in it
//	fold      the store's log is moved into its file; nobody else may have it open
//	keep      the store's file gets a second name
//	switch    the copy takes the first name
//
// Until the switch, which is one rename, the store is as it was; from then on
// there is the backup, with its declaration. If the process dies in between,
// what is left over does no harm, and the same command begins anew.
//
// A store that is so damaged that its log cannot be moved into its file has two
// files, and no rename is about two. Then a file with the name of sqlite.Unfinished
// keeps everybody out between the first change and the last.

// preparedName is the copy's, beside the store.
const preparedName = sqlite.FileName + ".restoring"

// A Replacement is a store that is about to take the place of the one in a data
// directory.
type Replacement struct {
	dir string
	// step is told of each step before it is made; for tests.
	step func(name string) error
}

func (r *Replacement) path() string     { return filepath.Join(r.dir, sqlite.FileName) }
func (r *Replacement) prepared() string { return filepath.Join(r.dir, preparedName) }

// Prepare copies a backup, which was checked, to the data directory where it is
// to be the store. Nothing is replaced yet. The directory must exist.
func Prepare(ctx context.Context, dir string, b *File, report func(CopyProgress)) (_ *Replacement, err error) {
	r := &Replacement{dir: dir, step: func(string) error { return nil }}
	defer func() {
		if err != nil {
			err = fmt.Errorf("prepare the backup in %s: %w", dir, errors.Join(err, r.Discard()))
		}
	}()
	if err := r.Discard(); err != nil { // what a crash has left
		return nil, err
	}
	if err := mustFit(dir, b.Size); err != nil {
		return nil, err
	}
	if err := r.copy(ctx, b, report); err != nil {
		return nil, err
	}
	if b.Made() {
		if err := checkDigest(r.prepared(), b.digest); err != nil {
			return nil, err
		}
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

// copy copies the backup to the directory. SQLite gives a log the owner of its
// file.
func (r *Replacement) copy(ctx context.Context, b *File, report func(CopyProgress)) error {
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
		n, err := io.CopyN(f, from, readSize)
		done += n
		report(CopyProgress{CopyingPages, done, b.Size})
		if errors.Is(err, io.EOF) {
			return errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return err
		}
	}
}

// Discard removes what was prepared.
func (r *Replacement) Discard() error { return removeWithLogs(r.prepared()) }

// Declare has merge change what was prepared, and then records the restore in it,
// so that no server ever sees it undeclared.
func (r *Replacement) Declare(ctx context.Context, merge func(store.Store) error, declared grant.Restore, events ...store.Event) error {
	if err := r.step("declare"); err != nil {
		return err
	}
	s, err := sqlite.OpenFile(ctx, r.prepared())
	if err != nil {
		return err
	}
	if err = merge(s); err == nil {
		err = s.Commit(ctx, store.Change{Restores: []grant.Restore{declared}, Events: events})
	}
	return errors.Join(err, s.Close())
}

// Install puts what was prepared into the place of the store, and returns the
// names under which the old one is kept, which begin with aside: none if there
// was none. After an error, the directory has the old store or the new one.
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
	exists, err := isThere(r.path())
	if err != nil {
		return nil, err
	}
	unfinished, err := isThere(filepath.Join(r.dir, sqlite.Unfinished))
	if err != nil {
		return nil, err
	}
	// What is no store is not touched: SQLite would do away with its log.
	if !exists || unfinished || !sqlite.IsStore(ctx, r.path()) {
		return r.replaceFiles(aside)
	}
	if err := r.step("fold the store"); err != nil {
		return nil, err
	}
	err = r.replaceWhole(ctx, aside)
	switch {
	case err == nil:
		return []string{aside}, nil
	case !errors.Is(err, sqlite.ErrDamaged):
		return nil, err
	}
	return r.replaceFiles(aside)
}

// sync brings what was prepared to the disk.
func (r *Replacement) sync() error {
	f, err := os.Open(r.prepared())
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), syncDirectory(r.dir))
}

// replaceWhole is the switch for a store that is one file, or can be made one.
func (r *Replacement) replaceWhole(ctx context.Context, aside string) error {
	// A command may open the store between the fold and the lock, and begin a
	// log again.
	for range 5 {
		if err := sqlite.Fold(ctx, r.path()); err != nil {
			return err
		}
		done, err := r.replaceLocked(ctx, aside)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("commands open %s again and again: let them end first", r.path())
}

// replaceLocked keeps everybody from the store while names change. Who waits for
// that finds another file under the name, and opens that one (see open). Nothing
// is written to the old one, so that SQLite makes no log for it, of which the
// name would be that of the new one's.
func (r *Replacement) replaceLocked(ctx context.Context, aside string) (done bool, err error) {
	db, err := sql.Open("sqlite", sqlite.URL(r.path(), "busy_timeout = 10000"))
	if err != nil {
		return false, err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, `BEGIN EXCLUSIVE`); err != nil {
		return false, err
	}
	defer conn.ExecContext(context.WithoutCancel(ctx), `ROLLBACK`)
	mode := ""
	if err := conn.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&mode); err != nil || mode != "delete" {
		return false, err
	}
	linked, switched := false, false
	defer func() {
		// A second name of the store that goes on would pass for what was kept.
		if linked && !switched {
			err = errors.Join(err, os.Remove(aside))
		}
	}()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"keep the store", func() error {
			err := os.Link(r.path(), aside)
			linked = err == nil
			return err
		}},
		{"make its second name durable", func() error { return syncDirectory(r.dir) }},
		{"switch", func() error {
			err := os.Rename(r.prepared(), r.path())
			switched = err == nil
			return err
		}},
		{"make the switch durable", func() error { return syncDirectory(r.dir) }},
	} {
		if err := errors.Join(r.step(step.name), ctx.Err()); err != nil {
			return false, err
		}
		if err := step.do(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// replaceFiles is the switch where there is no store, or one that is too damaged
// to be opened, with its log.
func (r *Replacement) replaceFiles(aside string) (kept []string, err error) {
	marker := filepath.Join(r.dir, sqlite.Unfinished)
	present := []string{}
	for _, end := range append([]string{""}, sqlite.Logs...) {
		exists, err := isThere(r.path() + end)
		if err != nil {
			return nil, err
		}
		if exists {
			present = append(present, end)
		}
	}
	do := func(name string, f func() error) {
		if err == nil {
			err = r.step(name)
		}
		if err == nil {
			err = f()
		}
	}
	begun := false // the old store is no longer whole
	defer func() {
		if err == nil || begun {
			return
		}
		// See replaceLocked.
		for _, name := range kept {
			err = errors.Join(err, os.Remove(name))
		}
		kept = nil
	}()
	for _, end := range present {
		do("keep "+sqlite.FileName+end, func() error {
			err := os.Link(r.path()+end, aside+end)
			if err == nil {
				kept = append(kept, aside+end)
			}
			return err
		})
	}
	do("mark the directory", func() error {
		f, err := os.OpenFile(marker, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(sqlite.GiveToOwner(f, r.dir), f.Sync(), f.Close(), syncDirectory(r.dir))
	})
	// A log that is left would be taken for the new file's.
	for _, end := range append([]string{"-shm"}, sqlite.Logs...) {
		do("remove "+sqlite.FileName+end, func() error {
			begun = true
			if err := os.Remove(r.path() + end); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		})
	}
	do("make that durable", func() error { return syncDirectory(r.dir) })
	do("switch", func() error {
		begun = true
		return os.Rename(r.prepared(), r.path())
	})
	do("make the switch durable", func() error { return syncDirectory(r.dir) })
	do("unmark the directory", func() error { return errors.Join(os.Remove(marker), syncDirectory(r.dir)) })
	return kept, err
}
