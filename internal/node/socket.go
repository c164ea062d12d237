package node

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
)

// listenAdmin opens the Unix socket, for this user alone or for a group, too; or
// the TCP address.
func listenAdmin(cfg config.Config) (net.Listener, error) {
	if path, unix := strings.CutPrefix(cfg.AdminListen(), "unix:"); unix {
		l, err := listenSocket(path)
		if err != nil || cfg.Admin.Group == "" {
			return l, err
		}
		if err := admit(path, cfg.Admin.Group); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		return l, nil
	}
	return net.Listen("tcp", cfg.Admin.Listen)
}

// adminToken is the token that the admin API asks for; "" on a Unix socket,
// where the file's permissions say who may call.
func adminToken(cfg config.Config) (string, error) {
	if strings.HasPrefix(cfg.AdminListen(), "unix:") {
		return "", nil
	}
	token, err := deployment.ReadAdminToken(cfg.Admin.TokenFile)
	if err != nil {
		return "", fmt.Errorf("admin listener: %w", err)
	}
	return token, nil
}

// admit lets the members of a group use the socket at path, which until then was
// this user's alone.
func admit(path, group string) error {
	const advice = "name a group that Mintage's user is a member of with --admin-group, or none"
	g, err := user.LookupGroup(group)
	if err != nil {
		return deployment.Hint(fmt.Errorf("admin.group: %w", err), advice)
	}
	id, err := strconv.Atoi(g.Gid)
	if err != nil {
		return fmt.Errorf("admin.group %s: %w", group, err)
	}
	// First whose it is, and then what they may: never the other way round.
	if err := os.Lchown(path, -1, id); err != nil {
		return deployment.Hint(fmt.Errorf("admin.group %s: %w", group, err), advice)
	}
	return os.Chmod(path, 0o660)
}

// A socket is a Unix socket that removes its file when it is closed, and no
// other file that has come into its place.
type socket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
	once sync.Once
}

func listenSocket(path string) (net.Listener, error) {
	if path == "" || strings.HasPrefix(path, "@") {
		// Linux would make it an abstract socket, which everybody may open.
		return nil, deployment.Hint(fmt.Errorf("unix:%s names no file", path), "choose another path with --admin-listen unix:PATH")
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	// The file's mode is all that keeps others out, so it is right from the
	// first moment: a chmod after net.Listen would come too late for whoever
	// connects before it. The umask is the whole process's; files that another
	// goroutine makes in this moment are at most harder to read.
	old := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	if err != nil {
		return nil, deployment.Hint(err, "a socket's path has at most 107 characters; choose another with --admin-listen unix:PATH")
	}
	s := &socket{UnixListener: l.(*net.UnixListener), path: path}
	s.SetUnlinkOnClose(false)
	if s.made, err = os.Lstat(path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// removeStaleSocket removes the socket of a server that was killed, and nothing
// else. The lock of the data directory does not tell: the path may lie outside
// of it, and be another server's.
func removeStaleSocket(path string) error {
	const advice = "choose another path with --admin-listen unix:PATH"
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return deployment.Hint(fmt.Errorf("%s exists and is not a socket; it was left alone", path), "move it away, or "+advice)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return deployment.Hint(fmt.Errorf("another server answers on %s", path), "stop it first, or "+advice)
	}
	// Only this means that nobody listens. A server whose queue is full, or
	// that is another user's, refuses in other ways.
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return deployment.Hint(fmt.Errorf("%s may be another server's socket: %w", path, err), "remove it if it is not, or "+advice)
	}
	return os.Remove(path)
}

// Close removes the file before the socket is gone: until then, no other file
// can have its inode number.
func (s *socket) Close() (err error) {
	s.once.Do(func() {
		if now, e := os.Lstat(s.path); e == nil && os.SameFile(now, s.made) {
			err = os.Remove(s.path)
		}
		err = errors.Join(err, s.UnixListener.Close())
	})
	return err
}
