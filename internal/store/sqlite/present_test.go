package sqlite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// A store whose files are gone acknowledges no write and is not ready. Both change when
// the same files are back.
func TestAStoreWhoseFilesAreGoneTakesNoWrite(t *testing.T) {
	ctx := t.Context()
	parent := t.TempDir()
	dir, aside := filepath.Join(parent, "data"), filepath.Join(parent, "aside")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Create(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := 0
	// One write of each kind, each of a new row.
	writes := map[string]func() error{
		"a document": func() error {
			n++
			return s.Commit(ctx, store.Change{Documents: []store.Document{{Kind: "try", Key: store.DocumentKey{byte(n)}, Version: 1, Body: []byte("x")}}})
		},
		"a grant": func() error {
			n++
			return s.CreateGrant(ctx, newGrantWithID(grant.ID{byte(n), 15: 1}))
		},
		"uses of secrets": func() error { n++; return s.NoteSecretUses(ctx, map[string]grant.Instant{"s": grant.Instant(n)}) },
		"a test write":    func() error { return s.TryWrite(ctx) },
	}
	works := func(when string) {
		t.Helper()
		for what, write := range writes {
			if err := write(); err != nil {
				t.Errorf("%s: %s: %v", when, what, err)
			}
		}
		if err := s.Ready(ctx); err != nil || s.Present() != nil {
			t.Errorf("%s: not ready: %v", when, err)
		}
	}
	gone := func(when string) {
		t.Helper()
		const text = "is no longer the file that this server has open"
		for what, write := range writes {
			if err := write(); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %s is acknowledged: %v", when, what, err)
			}
		}
		if err := s.Ready(ctx); err == nil || !strings.Contains(err.Error(), text) || s.Present() == nil {
			t.Errorf("%s: ready: %v", when, err)
		}
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	works("at first")
	move(dir, aside)
	gone("without the directory")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	other, err := sqlite.Create(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	gone("with another store in its place")
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	move(aside, dir)
	works("with the directory again")
	log := filepath.Join(dir, sqlite.FileName+"-wal")
	move(log, log+".aside")
	gone("without the log")
	move(log+".aside", log)
	works("with the log again")
}
