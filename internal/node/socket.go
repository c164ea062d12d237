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

// listenAdmin opens the Unix socket, for this user or also a group, or the TCP
// address.
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

// adminToken returns the token that the admin API requires; "" on a Unix socket,
// where the file's permissions decide.
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

// admit lets the members of a group use the socket at path.
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
	// Change the group before the mode, so that no other group ever has access.
	if err := os.Lchown(path, -1, id); err != nil {
		return deployment.Hint(fmt.Errorf("admin.group %s: %w", group, err), advice)
	}
	return os.Chmod(path, 0o660)
}

// A socket is a Unix socket that removes its own file when it is closed, and never
// another file under its name.
type socket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
	once sync.Once
}

func listenSocket(path string) (net.Listener, error) {
	if path == "" || strings.HasPrefix(path, "@") {
		// Linux creates an abstract socket, which every user may open.
		return nil, deployment.Hint(fmt.Errorf("unix:%s names no file", path), "choose another path with --admin-listen unix:PATH")
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	// Only the file's mode keeps others out, so it must be right from the start: a
	// chmod after net.Listen would be too late. The umask holds for the process;
	// files that another goroutine creates meanwhile are at most less readable.
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

// removeStaleSocket removes the socket of a killed server, and nothing else. The
// lock of the data directory is no proof: the path may lie outside of it.
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
	// Only ECONNREFUSED means that nothing listens. A full queue, or another user's
	// server, gives other errors.
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return deployment.Hint(fmt.Errorf("%s may be another server's socket: %w", path, err), "remove it if it is not, or "+advice)
	}
	return os.Remove(path)
}

// Close removes the file before it closes the socket: until then, no other file can
// have its inode number.
func (s *socket) Close() (err error) {
	s.once.Do(func() {
		if now, e := os.Lstat(s.path); e == nil && os.SameFile(now, s.made) {
			err = os.Remove(s.path)
		}
		err = errors.Join(err, s.UnixListener.Close())
	})
	return err
}
