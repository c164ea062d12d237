package restore_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/restore"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// contents returns the files of a directory with their contents.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		list[e.Name()] = string(text)
	}
	return list
}

// crash copies a store in use, in the state after a crash.
func crash(t *testing.T, dir string) string {
	t.Helper()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return copied
}

func TestWhatARestoreWouldCostIsToldWithoutAChangeOnTheDisk(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	st := create(t, h.dir) // in use, so what follows is in its write-ahead log
	put(t, st, 1)
	b := openBackup(t, h.file)
	path := func(dir, end string) string { return filepath.Join(dir, sqlite.FileName+end) }
	for _, tt := range []struct {
		name   string
		change func(dir string) error // a change of the crashed store
		made   int64                  // grants that are reported; -1 if it cannot be read
		index  bool                   // the log's index may be created
	}{
		{"crashed", func(string) error { return nil }, 2, false},
		{"crashed, and copied without the index of its log", func(dir string) error { return os.Remove(path(dir, "-shm")) }, 2, true},
		{"stopped", func(dir string) error {
			st, err := sqlite.Open(t.Context(), dir)
			if err != nil {
				return err
			}
			return st.Close()
		}, 2, false},
		{"the file is empty, and all is in the log", func(dir string) error { return os.Truncate(path(dir, ""), 0) }, -1, false},
		{"the file is empty", func(dir string) error {
			return errors.Join(os.Truncate(path(dir, ""), 0), os.Remove(path(dir, "-wal")), os.Remove(path(dir, "-shm")))
		}, -1, false},
		{"the file is damaged", func(dir string) error { return os.WriteFile(path(dir, ""), []byte("no database"), 0o600) }, -1, false},
		{"a change was begun", func(dir string) error {
			return os.WriteFile(path(dir, "-journal"), []byte("\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"+strings.Repeat("\xff", 1024)), 0o600)
		}, -1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := crash(t, h.dir)
			if err := tt.change(dir); err != nil {
				t.Fatal(err)
			}
			before := contents(t, dir)
			l, err := restore.CompareWith(t.Context(), b, dir)
			after := contents(t, dir)
			if tt.index {
				delete(after, sqlite.FileName+"-shm")
			}
			if !maps.Equal(before, after) {
				t.Errorf("the files were %v, and are %v", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
			}
			if tt.made >= 0 && (err != nil || l.Made != tt.made) {
				t.Errorf("%d grants were made, %v; want %d", l.Made, err, tt.made)
			}
			if tt.made < 0 && err == nil {
				t.Errorf("it was read: %+v", l)
			}
		})
	}
	t.Run("in use", func(t *testing.T) {
		if l, err := restore.CompareWith(t.Context(), b, h.dir); err != nil || l.Made != 2 {
			t.Errorf("%d grants were made, %v", l.Made, err)
		}
		put(t, st, 1)
		if l, err := restore.CompareWith(t.Context(), b, h.dir); err != nil || l.Made != 3 {
			t.Errorf("%d grants were made, %v", l.Made, err)
		}
	})
}

// emptied truncates the store's file and returns its write-ahead log.
func (h fixture) emptied() (log string) {
	h.t.Helper()
	gone := h.t.TempDir()
	put(h.t, create(h.t, gone), 20)
	text, err := os.ReadFile(filepath.Join(gone, sqlite.FileName+"-wal"))
	if err == nil {
		err = os.WriteFile(filepath.Join(h.dir, sqlite.FileName+"-wal"), text, 0o600)
	}
	if err := errors.Join(err, os.Truncate(filepath.Join(h.dir, sqlite.FileName), 0)); err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

func TestTheLogOfAnEmptyFileIsKept(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	log := h.emptied()
	for name, try := range map[string]func(context.Context, string) (*sqlite.Store, error){"server": sqlite.Create, "command": sqlite.Open} {
		if st, err := try(t.Context(), h.dir); err == nil || !strings.Contains(err.Error(), "move both files away and restore a backup") {
			t.Errorf("%s: %v", name, err)
			st.Close()
		}
	}
	kept, err := h.restore(always)
	if err != nil || len(kept) != 2 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	if text, err := os.ReadFile(kept[1]); err != nil || string(text) != log {
		t.Errorf("%s has %d bytes of %d, %v", kept[1], len(text), len(log), err)
	}
	h.isNew()
}

// After an earlier restore, a store counts the versions of changes anew: a change that
// the backup lacks may have the version of another change in it.
func TestChangesWithEqualVersionsAreReported(t *testing.T) {
	storeWith := func(deleted bool, state store.ClientState, user string) (dir string) {
		dir = t.TempDir()
		st := create(t, dir)
		alice := store.Document{Kind: store.DocumentUser, Key: store.KeyOf(store.DocumentUser, "/api", "alice"), Version: 1, Body: []byte(user)}
		err := errors.Join(st.Commit(t.Context(), store.Change{Documents: []store.Document{alice}, Entries: []store.Entry{
			store.Client{ID: "shop", Realm: "/api", State: state, Version: 1}.Entry(),
			store.API{ID: "https://api.example", Number: 1, Deleted: deleted, Version: 1}.Entry(),
			store.Trust{ID: "t", Deleted: deleted, Version: 1}.Entry(),
		}}), st.Close())
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	file := filepath.Join(t.TempDir(), "b")
	makeBackup(t, storeWith(false, store.ClientEnabled, `{"state":"enabled"}`), file)
	l, err := restore.CompareWith(t.Context(), openBackup(t, file), storeWith(true, store.ClientDisabled, `{"state":"disabled"}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Clients) != 1 || len(l.APIs) != 1 || len(l.Trusts) != 1 || len(l.Users) != 1 {
		t.Errorf("clients %+v, APIs %+v, trusts %+v, users %+v", l.Clients, l.APIs, l.Trusts, l.Users)
	}
}
