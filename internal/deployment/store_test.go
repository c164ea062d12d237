package deployment

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

// A server creates a store only at a declared first start, and never where another store
// was.
func TestAStoreIsMadeOnlyAtADeclaredFirstStart(t *testing.T) {
	for _, c := range []struct {
		name     string
		dev, set bool
		files    []string
		refused  string // part of the error; "" if the store is created
	}{
		{"empty, in production", false, false, nil, "no file announces a first start"},
		{"empty, with --dev", true, false, nil, ""},
		{"empty, with new_store", false, true, nil, ""},
		{"empty, with the installation's file", false, false, []string{"new-store"}, ""},
		{"only a lock", false, false, []string{"serve.lock"}, "no file announces a first start"},
		{"a key, with --dev", true, false, []string{"kek"}, "a key-encryption key"},
		{"a key, and the installation's file", false, false, []string{"kek", "new-store"}, "a key-encryption key"},
		{"an audit log, and the installation's file", false, false, []string{"audit/1.jsonl", "new-store"}, "an audit log"},
		{"a key, with new_store", false, true, []string{"kek"}, ""},
	} {
		cfg := config.Default()
		cfg.Data, cfg.NewStore = t.TempDir(), c.set
		for _, name := range c.files {
			path := filepath.Join(cfg.Data, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		st, err := CreateStore(t.Context(), cfg, c.dev)
		if err == nil {
			err = st.Close()
		} else if _, made := os.Stat(filepath.Join(cfg.Data, "mintage.db")); made == nil {
			t.Errorf("%s: a store was made", c.name)
		}
		var advice *Hinted
		switch {
		case c.refused == "" && err != nil, c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v, want %q", c.name, err, c.refused)
		case err != nil && (!errors.As(err, &advice) || !strings.Contains(advice.Hint, "mount its disk, or restore a backup") || !strings.Contains(advice.Hint, "--new-store")):
			t.Errorf("%s: the advice is %+v", c.name, advice)
		}
		// Once a store exists, the start need not be declared.
		if cfg.NewStore = false; c.refused == "" {
			st, err := CreateStore(t.Context(), cfg, false)
			if err != nil {
				t.Errorf("%s, again: %v", c.name, err)
				continue
			}
			st.Close()
		}
	}
}
