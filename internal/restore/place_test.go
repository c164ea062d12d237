package restore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// owner returns the user and group ids of a file.
func owner(t *testing.T, path string) [2]int {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	s := info.Sys().(*syscall.Stat_t)
	return [2]int{int(s.Uid), int(s.Gid)}
}

// A user other than root owns all files anyway.
func TestARestoreByRootLeavesAStoreThatTheServerCanOpen(t *testing.T) {
	t.Parallel()
	server, other := [2]int{os.Getuid(), os.Getgid()}, [2]int{os.Getuid(), os.Getgid()}
	if os.Getuid() == 0 {
		server, other = [2]int{12345, 23456}, [2]int{12346, 23457}
	}
	model := newFixture(t)
	give := func(t *testing.T, path string, to [2]int) {
		t.Helper()
		if err := os.Chown(path, to[0], to[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		before func(t *testing.T, h fixture)
		stop   string
	}{
		{"over a store", func(t *testing.T, h fixture) {
			give(t, h.dir, other)
			give(t, filepath.Join(h.dir, sqlite.FileName), server)
		}, ""},
		{"where there is none", func(t *testing.T, h fixture) {
			give(t, h.dir, server)
			if err := os.Remove(filepath.Join(h.dir, sqlite.FileName)); err != nil {
				t.Fatal(err)
			}
		}, ""},
		{"interrupted", func(t *testing.T, h fixture) {
			give(t, h.dir, server)
			damageStore(h)
			for _, end := range []string{"", "-wal"} {
				give(t, filepath.Join(h.dir, sqlite.FileName+end), server)
			}
		}, "switch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := model.copyOf(t)
			tt.before(t, h)
			release, err := sqlite.Lock(h.dir)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			crash := errors.New("crash")
			if _, err := h.restore(func(step string) error {
				if step == tt.stop {
					return crash
				}
				return nil
			}); err != nil && !errors.Is(err, crash) {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(h.dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				want := server
				if e.Name() == "serve.lock" {
					want = owner(t, h.dir)
				}
				if have := owner(t, filepath.Join(h.dir, e.Name())); have != want {
					t.Errorf("%s belongs to %v, want %v", e.Name(), have, want)
				}
			}
			if len(entries) < 2 {
				t.Errorf("the directory holds %v", entries)
			}
		})
	}
}

// A second name could be deleted as a kept store, or written to as the store.
func TestARestoreThatFailsLeavesNoSecondNameOfTheStore(t *testing.T) {
	t.Parallel()
	model := newFixture(t)
	fault := errors.New("fault")
	noSecond := func(t *testing.T, h fixture) {
		t.Helper()
		if names, err := filepath.Glob(filepath.Join(h.dir, "*.before-*")); err != nil || len(names) > 0 {
			t.Errorf("%v is left, %v", names, err)
		}
	}
	for _, stop := range []string{"keep mintage.db", "make that durable", "switch"} {
		t.Run(stop, func(t *testing.T) {
			h := model.copyOf(t)
			if _, err := h.restore(func(step string) error {
				if step == stop {
					return fault
				}
				return nil
			}); !errors.Is(err, fault) {
				t.Fatal(err)
			}
			noSecond(t, h)
			h.isOld(h.dir)
		})
	}
	t.Run("the rename fails", func(t *testing.T) {
		h := model.copyOf(t)
		if _, err := h.restore(func(step string) error {
			if step == "switch" {
				return os.Remove(filepath.Join(h.dir, sqlite.FileName+".restoring"))
			}
			return nil
		}); !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		noSecond(t, h)
		h.isOld(h.dir)
	})
	t.Run("it is stopped", func(t *testing.T) {
		h := model.copyOf(t)
		ctx, stop := context.WithCancel(t.Context())
		r := h.prepare()
		r.OnStep(func(step string) error {
			if step == "switch" {
				stop()
			}
			return nil
		})
		if err := r.Declare(ctx, asItIs, h.declared, store.Event{At: base, Name: store.EventRestored, About: "store"}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Install(ctx, filepath.Join(h.dir, "mintage.db.before-x")); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		noSecond(t, h)
		h.isOld(h.dir)
	})
	for _, stop := range []string{"keep mintage.db-wal", "mark the directory", "remove mintage.db-shm"} {
		t.Run("damaged: "+stop, func(t *testing.T) {
			h := model.copyOf(t)
			damageStore(h)
			if _, err := h.restore(func(step string) error {
				if step == stop {
					return fault
				}
				return nil
			}); !errors.Is(err, fault) {
				t.Fatal(err)
			}
			noSecond(t, h)
		})
	}
	t.Run("what has the name already stays", func(t *testing.T) {
		h := model.copyOf(t)
		aside := filepath.Join(h.dir, "mintage.db.before-x")
		if err := os.WriteFile(aside, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := h.prepare().Install(t.Context(), aside); !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(aside); err != nil || string(text) != "precious" {
			t.Errorf("it holds %q, %v", text, err)
		}
	})
}
