//go:build e2e

// Package faults breaks what the built server depends on (disk, files, lock,
// certificate), and stops it. Clients must not lose anything: a fault of the server never
// makes it answer a valid request with 400.
package faults

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// mount mounts something on a new directory until the end of the test. Start
// servers on it afterwards, so that they are gone when it is unmounted.
func mount(t *testing.T, args ...string) string {
	t.Helper()
	point := filepath.Join(t.TempDir(), "m")
	if err := os.Mkdir(point, 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "mount", append(args, point)...)
	t.Cleanup(func() {
		if err := syscall.Unmount(point, 0); err != nil {
			t.Errorf("unmount: %v", err)
			syscall.Unmount(point, syscall.MNT_DETACH)
		}
	})
	// A tmpfs is world-writable, and the server refuses such a data directory.
	if err := os.Chmod(point, 0o700); err != nil {
		t.Fatal(err)
	}
	return point
}

// run runs a program of the system.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v (these tests mount file systems, and need root)\n%s", name, strings.Join(args, " "), err, out)
	}
}

// fill fills a file system except for a number of pages, and returns a function that
// frees the space.
func fill(t *testing.T, dir string, pages int) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for step := 1 << 20; step > 0; {
		n, err := f.Write(make([]byte, step))
		if size += int64(n); err != nil {
			step /= 2
		}
	}
	if err := f.Truncate(max(0, size-int64(4096*pages))); err != nil {
		t.Fatal(err)
	}
	f.Close()
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// A client calls the token endpoint of one server.
type client struct {
	t *testing.T
	*binary.Server
	http *http.Client
}

func connect(t *testing.T, s *binary.Server) *client {
	t.Helper()
	return &client{t, s, &http.Client{Transport: s.Transport(t, ""), Timeout: 20 * time.Second}}
}

// start runs a server and returns a client of it.
func start(t *testing.T, dir string, args ...string) *client {
	t.Helper()
	return connect(t, binary.Start(t, dir, args...))
}

func (c *client) code() string {
	c.t.Helper()
	code, err := c.FastCode(c.t.Context(), "alice")
	if err != nil {
		c.t.Fatal(err)
	}
	return code
}

func (c *client) redeem(code string) binary.Answer { c.t.Helper(); return c.send(c.ExchangeForm(code)) }

func (c *client) refresh(token string) binary.Answer {
	c.t.Helper()
	return c.send(c.RefreshForm(token))
}

func (c *client) send(form map[string][]string) binary.Answer {
	c.t.Helper()
	a, err := c.Post(c.t.Context(), c.http, form)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// must requires one of the given statuses.
func (c *client) must(a binary.Answer, status ...int) binary.Answer {
	c.t.Helper()
	if !slices.Contains(status, a.Status) {
		c.t.Fatalf("answer %d %s %q, want %v", a.Status, a.Error, a.Description, status)
	}
	return a
}

// session creates a grant and returns its refresh token.
func (c *client) session() string {
	c.t.Helper()
	return c.must(c.redeem(c.code()), http.StatusOK).RefreshToken
}

// again restarts the server.
func (c *client) again() {
	c.t.Helper()
	if err := c.Restart(c.t); err != nil {
		c.t.Fatal(err)
	}
	c.http.CloseIdleConnections()
}

// stop stops the server and requires a clean exit.
func (c *client) stop() {
	c.t.Helper()
	if err := c.Stop(); err != nil {
		c.t.Fatalf("stop: %v", err)
	}
}

// says requires that a message to the operator contains every phrase.
func says(t *testing.T, text string, phrases ...string) {
	t.Helper()
	for _, p := range phrases {
		if !strings.Contains(text, p) {
			t.Errorf("the text does not say %q:\n%s", p, text)
		}
	}
}
