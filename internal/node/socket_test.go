package node

import (
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	cases "github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// socketPath returns a short path, because the path of a socket has at most 107
// characters.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "socket")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "admin.sock")
}

// deadSocket leaves a socket like a killed server.
func deadSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func mustListen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := listenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestAdminSocketIsForItsOwnerAloneWhateverTheUmask(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := socketPath(t)
	deadSocket(t, path) // this one is open to all, and gets replaced
	mustListen(t, path)
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if now := syscall.Umask(0); now != 0 {
		t.Errorf("the umask is %03o afterwards", now)
	}
}

func TestAdminSocketOfAnotherServerIsLeftAlone(t *testing.T) {
	path := socketPath(t)
	first := mustListen(t, path)
	if _, err := listenSocket(path); err == nil || !strings.Contains(err.Error(), "another server answers on "+path) {
		t.Errorf("a second server: %v", err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the first server cannot be reached any more: %v", err)
	}
	conn.Close()
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is there after the end: %v", err)
	}
}

func TestAdminSocketNeverReplacesAFile(t *testing.T) {
	path := socketPath(t)
	kept := path + ".target"
	for name, place := range map[string]func() error{
		"file":              func() error { return os.WriteFile(path, []byte("kept"), 0o600) },
		"directory":         func() error { return os.Mkdir(path, 0o700) },
		"link to a file":    func() error { return os.Symlink(kept, path) },
		"link to a socket":  func() error { deadSocket(t, kept); return os.Symlink(kept, path) },
		"link into nowhere": func() error { return os.Symlink("nowhere", path) },
	} {
		if err := place(); err != nil {
			t.Fatal(err)
		}
		if _, err := listenSocket(path); err == nil || !strings.Contains(err.Error(), "is not a socket; it was left alone") {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Errorf("%s: it is gone: %v", name, err)
		}
	}
	// A datagram socket is a socket, but not one that a killed server has left.
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := listenSocket(path); err == nil || !strings.Contains(err.Error(), "may be another server's socket") {
		t.Errorf("a datagram socket: %v", err)
	}
	for _, name := range []string{"", "@mintage"} {
		if _, err := listenSocket(name); err == nil || !strings.Contains(err.Error(), "names no file") {
			t.Errorf("unix:%s: %v", name, err)
		}
	}
}

func TestAStopRemovesOnlyTheServersOwnSocket(t *testing.T) {
	path := socketPath(t)
	first := mustListen(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	mustListen(t, path) // another server replaces the socket
	for range 2 {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the other server's socket is gone: %v", err)
	}
	conn.Close()
}

func TestTheAdminSocketIsForItsGroupToo(t *testing.T) {
	path := socketPath(t)
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	own, err := user.LookupGroupId(strconv.Itoa(append(groups, os.Getgid())[0]))
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Admin.Listen, cfg.Admin.Group = "unix:"+path, own.Name
	l, err := listenAdmin(cfg)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o660 || strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Gid)) != own.Gid {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	cfg.Admin.Group = "no-such-group"
	if _, err := listenAdmin(cfg); err == nil || !strings.Contains(err.Error(), "admin.group") {
		t.Errorf("a group that does not exist: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused start leaves its socket: %v", err)
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		t.Error("a refused start goes on listening")
	}
}

// The actor of an event is the user whom the operating system reports for the connection,
// whatever program calls.
func TestTheUserAtTheOtherEndOfTheAdminSocketIsRecorded(t *testing.T) {
	path := socketPath(t)
	st := testkit.Create(t, t.TempDir())
	s := http.Server{Handler: admin.NewLocal(cases.Admin{Store: st, Now: time.Now}).Handler(), ConnContext: nameUser}
	go s.Serve(mustListen(t, path))
	t.Cleanup(func() { s.Close() })
	program := http.Client{Transport: &http.Transport{DisableKeepAlives: true, Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	resp, err := program.Post("http://admin/admin/v1/users", "application/json", strings.NewReader(`{"username":"alice"}`))
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
	list, err := st.Events(t.Context(), store.AboutSubject("alice"), 9)
	if want := "operator:" + deployment.User(); err != nil || len(list) != 1 || list[0].Actor != want {
		t.Errorf("%v, %v, want one by %s", list, err, want)
	}
}
