//go:build e2e

package faults

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestALostStoreIsNotReplaced removes the store but leaves files that show that it
// existed. An empty store in its place would invalidate every token and session, so the
// server refuses to start.
func TestALostStoreIsNotReplaced(t *testing.T) {
	c := start(t, t.TempDir())
	token := c.session()
	if log := c.Log(); !strings.Contains(log, "made the key-encryption key") || !strings.Contains(log, filepath.Join(c.Dir, "kek")) || !strings.Contains(log, "copy it to a safe place") {
		t.Errorf("the first start does not say that it has made a key-encryption key, where, and that it needs a copy:\n%s", log)
	}
	c.stop()
	aside := t.TempDir()
	files, err := filepath.Glob(storeFile(c.Dir) + "*")
	if err != nil || files == nil {
		t.Fatalf("files of the store: %v, %v", files, err)
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		move(file, filepath.Join(aside, filepath.Base(file)))
	}
	kek := filepath.Join(c.Dir, "kek")
	refused := func(found ...string) {
		t.Helper()
		says(t, binary.StartRefused(t, c.Dir), append(found, "mintage: refuse to make a new store: there is none in "+storeFile(c.Dir), "restore a backup", "--new-store")...)
		if _, err := os.Stat(storeFile(c.Dir)); err == nil {
			t.Error("a new store was made")
		}
	}
	refused("a key-encryption key ("+kek+")", "an audit log ("+filepath.Join(c.Dir, "audit")+")")
	// The audit log alone prevents a new store, and so does the key alone.
	move(kek, filepath.Join(aside, "kek"))
	refused("an audit log")
	if _, err := os.Stat(kek); err == nil {
		t.Error("a new key-encryption key was made")
	}
	move(filepath.Join(c.Dir, "audit"), filepath.Join(aside, "audit"))
	move(filepath.Join(aside, "kek"), kek)
	refused("a key-encryption key")
	// A truncated, empty file does not count as a store.
	if err := os.WriteFile(storeFile(c.Dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, binary.StartRefused(t, c.Dir), "refuse to make a new store")

	// With its files back, the server serves the store as before.
	for _, file := range files {
		move(filepath.Join(aside, filepath.Base(file)), file)
	}
	c.again()
	c.must(c.refresh(token), http.StatusOK)
	c.stop()

	// --new-store makes a new store on purpose.
	for _, file := range files {
		os.Remove(file)
	}
	fresh := start(t, c.Dir, "--new-store")
	fresh.session()
	says(t, fresh.Log(), "new_store is set")
}

// TestAStoreThatVanishesIsNotWrittenTo removes the data directory of a running server.
// The server resumes when the same files are back.
func TestAStoreThatVanishesIsNotWrittenTo(t *testing.T) {
	parent := t.TempDir()
	dir, aside := filepath.Join(parent, "data"), filepath.Join(parent, "aside")
	c := start(t, dir)
	token := c.session()
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	status := func() int {
		t.Helper()
		resp, err := http.Get(c.Management + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	move(dir, aside)
	for range 5 {
		c.must(c.refresh(token), http.StatusServiceUnavailable)
	}
	if got := status(); got != http.StatusServiceUnavailable {
		t.Errorf("the server is ready: %d", got)
	}
	within(t, "an error in the log", func() bool { return strings.Contains(c.Log(), `"level":"ERROR","msg":"the store is gone`) })
	move(aside, dir)
	c.must(c.refresh(token), http.StatusOK)
	if got := status(); got != http.StatusOK {
		t.Errorf("with its store again, the server is not ready: %d", got)
	}
	within(t, "a line about its end", func() bool { return strings.Contains(c.Log(), "the store is back") })
	if n := strings.Count(c.Log(), "the store is gone"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}
