package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

func TestExamineReportsTheEffectiveSettings(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Create(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	c, err := st.Examine(t.Context())
	if err != nil || c.JournalMode != "wal" || c.Synchronous != 2 || c.Size == 0 || c.Free <= 0 || c.Network != "" {
		t.Errorf("Examine = %+v, %v", c, err)
	}
	if err := st.TryWrite(t.Context()); err != nil {
		t.Error(err)
	}
	if err := st.QuickCheck(t.Context()); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := st.QuickCheck(ended); err == nil {
		t.Error("a check whose context has ended reports no damage")
	}
}

func TestQuickCheckFindsADamagedPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, err := sqlite.Create(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	// The body continues in overflow pages at the end of the file.
	d := store.Document{Kind: store.DocumentConsents, Key: store.DocumentKey{1}, Version: 1, Body: make([]byte, 10<<10)}
	if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, sqlite.FileName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// An overflow page begins with the number of the next one. The loop damages these
	// numbers; the rest of the pages is zero.
	for page := len(text) - 8*1024; page < len(text); page += 1024 {
		for i := range 4 {
			text[page+i] = 0xff
		}
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err = sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.QuickCheck(t.Context()); err == nil {
		t.Error("a page of ones was not found")
	}
}
