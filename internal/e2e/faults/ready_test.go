//go:build e2e

package faults

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// noticed limits the time until /readyz reports that tokens can no longer be issued, and
// that they can again: five seconds, and more on a busy machine.
const noticed = 20 * time.Second

// readiness waits until /readyz returns a status.
func (c *client) readiness(status int) {
	c.t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get(c.Management + "/readyz")
		if err != nil {
			c.t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			c.t.Fatal(err)
		}
		if resp.StatusCode == status {
			return
		}
		if time.Since(began) > noticed {
			c.t.Fatalf("/readyz answers %d %q, want %d within %s", resp.StatusCode, text, status, noticed)
		}
	}
}

// unready requires that /readyz returns 503, and keeps returning it while refreshes fail.
func (c *client) unready(token string) {
	c.t.Helper()
	c.readiness(unavailable)
	for range 3 {
		c.must(c.refresh(token), unavailable)
		c.readiness(unavailable)
	}
}

// filesystem mounts a small ext4 on a loop device, with further mount options.
func filesystem(t *testing.T, options string) (dir string) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 32<<20); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", "-m", "0", image)
	return mount(t, "-o", "loop"+options, image)
}

// occupy fills a file system by fallocate, and returns a function that frees the space.
// Unlike fill, it avoids ext4's slow search for space before each failing write.
func occupy(t *testing.T, dir string) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size, step := int64(0), int64(8<<20); step >= 4096; {
		if unix.Fallocate(int(f.Fd()), 0, size, step) == nil {
			size += step
		} else {
			step /= 2
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadyzSaysNoOnAFullDiskAndYesAfterwards fills the disk of an idle server, which
// must notice by itself that the disk is full, and that it has room again.
func TestReadyzSaysNoOnAFullDiskAndYesAfterwards(t *testing.T) {
	c := start(t, filesystem(t, ""))
	token := c.session()
	c.readiness(http.StatusOK)
	empty := occupy(t, c.Dir)
	c.unready(token)
	out, _, err := c.Try(t, "doctor", "--offline", "--dev")
	if err == nil {
		t.Error("doctor finds nothing wrong")
	}
	says(t, out, "the store takes no write")
	empty()
	c.readiness(http.StatusOK)
	c.must(c.refresh(token), http.StatusOK)
}

// TestReadyzSaysNoOnAReadOnlyFileSystem makes the file system read-only, as the kernel
// does after a fault of the disk.
func TestReadyzSaysNoOnAReadOnlyFileSystem(t *testing.T) {
	c := start(t, filesystem(t, ",errors=remount-ro"))
	token := c.session()
	c.readiness(http.StatusOK)
	run(t, "sync", "-f", c.Dir)
	device := loopDevice(t, c.Dir)
	if err := os.WriteFile("/sys/fs/ext4/"+device+"/trigger_fs_error", []byte("test"), 0); err != nil {
		t.Fatal(err)
	}
	c.unready(token)
}

// TestReadyzSaysNoOverQuotaAndYesAfterwards makes every write of the server fail as over
// a quota: SQLite reports a disk fault and not a full disk. The kernels of these tests
// have no file system quotas. The test limits the file size of the process instead, whose
// error is EFBIG where a quota's is EDQUOT.
func TestReadyzSaysNoOverQuotaAndYesAfterwards(t *testing.T) {
	c := start(t, t.TempDir())
	token := c.session()
	c.readiness(http.StatusOK)
	limit := func(bytes uint64) {
		t.Helper()
		if err := unix.Prlimit(c.PID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(1)
	c.unready(token)
	limit(unix.RLIM_INFINITY)
	c.readiness(http.StatusOK)
	c.must(c.refresh(token), http.StatusOK)
}
