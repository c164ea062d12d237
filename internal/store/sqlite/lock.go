package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Lock locks a data directory for one server. Two servers would each treat their
// cached clients and cutoffs as current. The lock ends with the process. The lock
// file contains the process id, for sending it a signal.
func Lock(dir string) (release func(), err error) {
	path := filepath.Join(dir, "serve.lock")
	f, err := openLock(path)
	if err != nil {
		return nil, Explain(path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another mintage server is running on %s: stop it first, or give this one its own --data directory", dir)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := writePID(f); err != nil {
		f.Close()
		return nil, Explain(path, err)
	}
	return func() { f.Close() }, nil
}

// openLock opens the lock file, and creates it if it is absent. A file that root
// creates belongs to the server's user. Links are not followed: that user could
// make root write to another file.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, os.ErrExist) {
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	}
	if err != nil {
		return nil, err
	}
	if err := GiveToOwner(f, filepath.Dir(path)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// GiveToOwner changes the owner of a file that root has created to the owner of
// the first of like that exists. It uses the open file (fchown), because another
// user could replace the path.
func GiveToOwner(f *os.File, like ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, path := range like {
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if owner, ok := info.Sys().(*syscall.Stat_t); ok {
			return f.Chown(int(owner.Uid), int(owner.Gid))
		}
	}
	return nil
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}
