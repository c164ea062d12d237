package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// partials are the names of backups that are being made. They are not those of
// the backups, which may have the time in them: a backup removes what any that
// was killed has left in its directory.
const partials = ".mintage-backup.*.partial"

// createPartial makes the file that is to become a backup: of mode 0600, and in
// the backup's directory, so that it can get its name. While the file is open,
// it is locked, which tells it from one that was left behind.
func createPartial(dir string) (*os.File, error) {
	// A directory that cannot be listed may take a file all the same.
	if err := removePartials(dir); err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	for range 10 {
		f, err := os.CreateTemp(dir, partials)
		if err != nil {
			return nil, err
		}
		if held, err := hold(f); held || err != nil {
			return f, err
		}
		f.Close()
	}
	return nil, fmt.Errorf("other backups to %s remove each new file: let them end first", dir)
}

// hold locks a partial file, unless somebody has locked or removed it.
func hold(f *os.File) (bool, error) {
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	here, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(here, named), err
}

// removePartials removes the partial files of a directory that nobody holds: of
// backups that were killed.
func removePartials(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if ours, _ := filepath.Match(partials, e.Name()); ours && err == nil {
			err = removePartial(filepath.Join(dir, e.Name()))
		}
		// Another user's are no reason to make no backup.
		if errors.Is(err, fs.ErrPermission) {
			err = nil
		}
	}
	return err
}

func removePartial(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w; a backup that was killed may have left it: remove it", err)
	}
	defer f.Close()
	if held, err := hold(f); !held || err != nil {
		return err
	}
	return removeWithLogs(name)
}

// removeWithLogs removes a file, and before it what SQLite may have left beside.
func removeWithLogs(name string) (err error) {
	for _, end := range []string{"-wal", "-shm", "-journal", ""} {
		if e := os.Remove(name + end); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
