package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// LockTime limits how long a process waits for a command that has locked a data directory.
const LockTime = 10 * time.Second

// A LockedError says that another process has the lock of a data directory.
type LockedError struct {
	Directory, Process string
	command, server    bool // which kind of process; neither: not known yet
}

func (e *LockedError) Error() string {
	if e.server {
		return fmt.Sprintf("another mintage server is running on %s", e.Directory)
	}
	return fmt.Sprintf("process %s has locked %s", e.Process, e.Directory)
}

// Lock locks a data directory for one server, or returns a LockedError. Two servers
// would each treat their cached clients and cutoffs as current. The lock ends with the
// process. The lock file contains the process id, for sending it a signal. Lock waits for
// a command that has locked the directory. Until a new holder has written its process id,
// the file contains that of the previous one: Lock reports a server only if it reads the
// server's id twice.
func Lock(dir string) (release func(), err error) {
	seen := "" // the process id of a server
	for end := time.Now().Add(LockTime); ; time.Sleep(LockTime / 200) {
		release, err = lock(dir, "")
		var locked *LockedError
		switch {
		case !errors.As(err, &locked):
			return release, err
		case !locked.command && locked.Process == seen:
			locked.server = true
			return nil, locked
		case time.Now().After(end):
			return nil, err
		}
		if seen = ""; !locked.command {
			seen = locked.Process
		}
	}
}

// ofCommand follows the process id in the lock file if a command has the lock.
const ofCommand = " command"

// LockForCommand locks a data directory for a command, while no server runs. It
// returns a LockedError if another process has the lock.
func LockForCommand(dir string) (release func(), err error) { return lock(dir, ofCommand) }

func lock(dir, kind string) (release func(), err error) {
	path := filepath.Join(dir, "serve.lock")
	f, err := openLock(path)
	if err != nil {
		return nil, Explain(path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			text, _ := io.ReadAll(io.LimitReader(f, 64))
			pid, command := strings.CutSuffix(strings.TrimSpace(string(text)), ofCommand)
			// If the file has no process id, the lock is new or about to be released. Treat
			// its holder as a command, so that Lock tries again.
			return nil, &LockedError{Directory: dir, Process: cmp.Or(pid, "?"), command: command || pid == ""}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := writePID(f, kind); err != nil {
		f.Close()
		return nil, Explain(path, err)
	}
	return func() {
		if kind == ofCommand {
			_ = f.Truncate(0) // the file must not name a process that is no server
		}
		f.Close()
	}, nil
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

func writePID(f *os.File, kind string) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+kind+"\n"), 0)
	return err
}
