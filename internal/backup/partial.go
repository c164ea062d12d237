package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// partials is the pattern of the names of unfinished backups. They are independent
// of the backup's name, so that the next backup to a directory finds and deletes
// what a killed one has left.
const partials = ".mintage-backup.*.partial"

// createPartial creates the file that becomes a backup: with mode 0600, and in the
// backup's directory, so that it can be linked to its name. It is locked while it
// is open; a file that was left behind is not.
func createPartial(dir string) (*os.File, error) {
	// It may be possible to create a file in a directory that cannot be listed.
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

// hold locks a partial file, unless another process has locked or deleted it.
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

// removePartials deletes the unlocked partial files of a directory: killed backups
// have left them.
func removePartials(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if ours, _ := filepath.Match(partials, e.Name()); ours && err == nil {
			err = removePartial(filepath.Join(dir, e.Name()))
		}
		// Partial files of another user do not prevent a backup.
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
	return Remove(name)
}

// Remove deletes a file, after the files that SQLite may keep beside it.
func Remove(name string) (err error) {
	for _, end := range []string{"-wal", "-shm", "-journal", ""} {
		if e := os.Remove(name + end); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
