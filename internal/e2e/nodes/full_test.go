//go:build e2e

package nodes

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// smallDisk mounts a small file system to which PostgreSQL may write, and creates a
// tablespace on it. It is a tmpfs: ext4 searches long for room before each failing write.
func smallDisk(t *testing.T) (dir, tablespace string) {
	t.Helper()
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v (this test mounts a file system, and needs root)\n%s", name, err, out)
		}
	}
	outer, err := os.MkdirTemp("", "mintage-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(outer) })
	dir = filepath.Join(outer, "m")
	run("mkdir", dir)
	run("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", dir)
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	place := filepath.Join(dir, "tablespace")
	run("install", "-d", "-o", "postgres", "-m", "700", place)
	run("chmod", "755", outer, dir)
	tablespace = "small_" + filepath.Base(outer)[len("mintage-disk-"):]
	database.Run(t, "postgres", fmt.Sprintf(`CREATE TABLESPACE %s LOCATION '%s'`, tablespace, place))
	t.Cleanup(func() { database.Run(t, "postgres", "DROP TABLESPACE "+tablespace) })
	return dir, tablespace
}

// TestReadyzSaysNoWhenTheDatabasesDiskIsFull: the server must not conclude from a write
// that fits into an existing page, such as a heartbeat, that the disk has room.
func TestReadyzSaysNoWhenTheDatabasesDiskIsFull(t *testing.T) {
	t.Parallel()
	dir, tablespace := smallDisk(t)
	schema, url := database.Schema(t, "default_tablespace="+tablespace)
	t.Cleanup(func() { database.Run(t, "postgres", "DROP SCHEMA "+schema+" CASCADE") })
	s := binary.Start(t, t.TempDir(), "--store", url)
	web := &http.Client{Transport: s.Transport(t, ""), Timeout: 20 * time.Second}
	begin := func() int {
		t.Helper()
		code, err := s.FastCode(t.Context(), "alice")
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.Post(t.Context(), web, s.ExchangeForm(code))
		if err != nil {
			t.Fatal(err)
		}
		return a.Status
	}
	readiness := func(status int) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			resp, err := http.Get(s.Management + "/readyz")
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode == status {
				return
			}
			if time.Since(began) > 20*time.Second {
				t.Fatalf("/readyz answers %d %q, want %d within 20 seconds", resp.StatusCode, text, status)
			}
		}
	}
	if status := begin(); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	readiness(http.StatusOK)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for size, step := int64(0), int64(8<<20); step >= 4096; {
		if unix.Fallocate(int(filler.Fd()), 0, size, step) == nil {
			size += step
		} else {
			step /= 2
		}
	}
	for tries := 0; begin() == http.StatusOK; tries++ {
		if tries > 1000 {
			t.Fatal("no request fails although the disk is full")
		}
	}
	// Heartbeats, one a second, succeed meanwhile.
	for began := time.Now(); time.Since(began) < 2*time.Second; time.Sleep(200 * time.Millisecond) {
		readiness(http.StatusServiceUnavailable)
	}
	if err := os.Remove(filler.Name()); err != nil {
		t.Fatal(err)
	}
	filler.Close()
	readiness(http.StatusOK)
	if status := begin(); status != http.StatusOK {
		t.Errorf("status %d with room again", status)
	}
	if left := database.Run(t, "postgres", `SELECT count(*) FROM `+schema+`.documents WHERE kind = 'try'`); left != "0" {
		t.Errorf("%s documents are left behind", left)
	}
}
