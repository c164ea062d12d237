//go:build e2e

package faults

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

const unavailable = http.StatusServiceUnavailable

// TestOP02_FullDiskIs503 fills the disk of a running server. No valid request is answered
// 400, no response is acknowledged without being stored, and the server recovers by
// itself when there is room again.
func TestOP02_FullDiskIs503(t *testing.T) {
	dir := mount(t, "-t", "tmpfs", "-o", "size=12m", "tmpfs")
	c := start(t, dir)
	tokens := make([]string, 8)
	for i := range tokens {
		tokens[i] = c.session()
	}
	code := c.code()
	empty := fill(t, dir, 0)

	// The last page of the write-ahead log may have room for a few more commits.
	full := func(i int) bool {
		a := c.must(c.refresh(tokens[i]), http.StatusOK, unavailable)
		if a.Status == http.StatusOK {
			tokens[i] = a.RefreshToken
		}
		return a.Status == unavailable
	}
	for i := range tokens {
		for tries := 0; !full(i); tries++ {
			if tries > 2000 {
				t.Fatal("no request fails although the disk is full")
			}
		}
	}
	c.must(c.redeem(code), unavailable)
	_, text, err := c.Try(t, "client", "create", "--name", "X", "--redirect-uri", "https://x.example/", "--scope", "a")
	if err == nil {
		t.Error("client create succeeds on a full disk")
	}
	says(t, text, "full")

	// A crash while the disk is full must not lose anything.
	c.Kill()
	if err := c.Restart(t); err == nil {
		c.must(c.refresh(tokens[0]), unavailable)
		c.Kill()
	} else if !saysFull(err.Error()) {
		t.Error(err)
	}

	empty()
	c.again()
	for i, token := range tokens {
		tokens[i] = c.must(c.refresh(token), http.StatusOK).RefreshToken
	}
	c.must(c.redeem(code), http.StatusOK) // the 503 did not spend the code
	c.must(c.redeem(code), http.StatusBadRequest)
}

// TestOP02_FullDiskEndsByItself frees space on a full disk while the server runs.
func TestOP02_FullDiskEndsByItself(t *testing.T) {
	dir := mount(t, "-t", "tmpfs", "-o", "size=12m", "tmpfs")
	c := start(t, dir)
	token, code := c.session(), c.code()
	for range 3 {
		empty := fill(t, dir, 0)
		for tries := 0; ; tries++ {
			a := c.must(c.refresh(token), http.StatusOK, unavailable)
			if a.Status == unavailable {
				break
			}
			if token = a.RefreshToken; tries > 2000 {
				t.Fatal("no request fails although the disk is full")
			}
		}
		empty()
		token = c.must(c.refresh(token), http.StatusOK).RefreshToken
	}
	c.must(c.redeem(code), http.StatusOK)
	c.stop()
}

// TestOP02_FirstStartOnANearlyFullDisk leaves ever more free pages, so that the first
// start fails at each file that it creates, and at each page of the store. The server
// refuses to start, says why, and leaves nothing that prevents the next start.
func TestOP02_FirstStartOnANearlyFullDisk(t *testing.T) {
	room := 0
	for enough := false; !enough; room++ {
		dir := mount(t, "-t", "tmpfs", "-o", "size=2m", "tmpfs")
		data := filepath.Join(dir, "data")
		empty := fill(t, dir, room)
		s := &binary.Server{Dir: data}
		t.Cleanup(s.Kill)
		if err := s.Restart(t); err == nil {
			enough = true
		} else if !saysFull(err.Error()) {
			t.Errorf("with %d pages left: %v", room, err)
		}
		s.Kill()
		empty()
		if err := s.Restart(t); err != nil {
			t.Fatalf("after a start with %d pages left: %v", room, err)
		}
		connect(t, s).session()
	}
	if room < 10 {
		t.Errorf("%d pages are enough for a first start: the disk was not full", room)
	}
}

// TestOP02_RestartOnANearlyFullDisk restarts a killed server, whose store contains
// grants, with ever more free pages.
func TestOP02_RestartOnANearlyFullDisk(t *testing.T) {
	dir := mount(t, "-t", "tmpfs", "-o", "size=8m", "tmpfs")
	c := start(t, dir)
	token := c.session()
	for room, enough := 0, false; !enough; room++ {
		c.Kill()
		empty := fill(t, dir, room)
		if err := c.Restart(t); err == nil {
			enough = true
			a := c.must(c.refresh(token), http.StatusOK, unavailable)
			if a.Status == http.StatusOK {
				token = a.RefreshToken
			}
		} else if !saysFull(err.Error()) {
			t.Errorf("with %d pages left: %v", room, err)
		}
		c.Kill()
		empty()
		c.again()
		token = c.must(c.refresh(token), http.StatusOK).RefreshToken
	}
}

// saysFull reports whether a message tells the operator that the disk is full.
func saysFull(text string) bool {
	return strings.Contains(text, "no space left on device") || strings.Contains(text, "disk is full")
}

// TestOP02_ReadOnlyDirectoryIsRefused starts the server on a read-only directory.
func TestOP02_ReadOnlyDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir)
	token := c.session()
	c.stop()
	point := mount(t, "--bind", dir)
	run(t, "mount", "-o", "remount,bind,ro", point)
	says(t, binary.StartRefused(t, point), "mintage: ", "read-only file system", "must be writable by the user who runs mintage")
	_, text, err := (&binary.Server{Dir: point}).Try(t, "client", "disable", c.ClientID)
	if err == nil {
		t.Error("a command changes a client in a read-only directory")
	}
	says(t, text, "mintage: ", "must be writable by the user who runs mintage")

	fresh := mount(t, "--bind", t.TempDir())
	run(t, "mount", "-o", "remount,bind,ro", fresh)
	says(t, binary.StartRefused(t, fresh), "mintage: ", "read-only file system")

	c.again()
	c.must(c.refresh(token), http.StatusOK)
}

// TestOP02_FileSystemThatTurnsReadOnly simulates a failing disk: the kernel finds an
// error and makes the file system read-only.
func TestOP02_FileSystemThatTurnsReadOnly(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 32<<20); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", image)
	dir := mount(t, "-o", "loop,errors=remount-ro", image)
	c := start(t, dir)
	// Flush the files of --dev, which the test is not about. The session must be on the
	// disk already, because the server acknowledged it.
	run(t, "sync", "-f", dir)
	token, code := c.session(), c.code()
	device := loopDevice(t, dir)
	if err := os.WriteFile("/sys/fs/ext4/"+device+"/trigger_fs_error", []byte("test"), 0); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 2*time.Second; time.Sleep(100 * time.Millisecond) {
		c.must(c.refresh(token), unavailable)
	}
	c.must(c.redeem(code), unavailable)
	c.Kill()
	says(t, binary.StartRefused(t, dir), "mintage: ", "read-only file system")

	run(t, "umount", dir)
	run(t, "mount", "-o", "loop", image, dir)
	c.again()
	c.must(c.refresh(token), http.StatusOK)
	c.must(c.redeem(code), http.StatusOK)
}

// loopDevice returns the device that is mounted on a directory.
func loopDevice(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[1] == dir {
			return filepath.Base(f[0])
		}
	}
	t.Fatalf("%s is not mounted", dir)
	return ""
}
