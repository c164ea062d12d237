package deployment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// KeySchedule returns the lifetimes of a deployment's keys. A retired signing key
// stays published until the last token that it signed has expired, with allowance
// for skew and for caches of the published set.
func KeySchedule(cfg config.Config) keys.Schedule {
	maxAge, skew := cfg.JWKSMaxAge.Std(), cfg.Skew()
	return keys.Schedule{
		Lifetime: cfg.KeyLifetime.Std(), Lead: cfg.KeyLead.Std(), MaxAge: maxAge, MaxSkew: skew,
		Retention:  max(cfg.AccessTokenLifetime, cfg.IDTokenLifetime).Std() + maxAge + 2*skew + time.Minute,
		Algorithms: keys.SigningAlgorithms, Registrations: cfg.ClientMetadata.Registration,
	}
}

// KEKPath returns the path of the key-encryption key, and whether that is the default
// in the data directory.
func KEKPath(cfg config.Config) (path string, ours bool) {
	if cfg.KEKFile != "" {
		return cfg.KEKFile, false
	}
	return filepath.Join(cfg.Data, "kek"), true
}

// ReadKEK reads the key-encryption key.
func ReadKEK(cfg config.Config) (*keys.KEK, error) {
	path, ours := KEKPath(cfg)
	text, err := ReadSecretFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		advice := "the store's keys cannot be used without it: put the file back, or name it with --kek-file"
		if cfg.Store != config.StoreSQLite {
			advice = "every node needs the key-encryption key of the one that was first: copy its file, or name it with --kek-file"
		}
		if dir := os.Getenv("CREDENTIALS_DIRECTORY"); ours && dir != "" {
			advice += "; systemd has given no credential " + filepath.Join(dir, "kek")
		} else if ours {
			// Commands run outside of the service's unit.
			advice += "; a systemd credential is at /run/credentials/UNIT/kek"
		}
		return nil, Hint(fmt.Errorf("the key-encryption key is missing: %w", err), advice)
	}
	if err != nil {
		return nil, fmt.Errorf("key-encryption key: %w", err)
	}
	kek, err := keys.ParseKEK(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return kek, nil
}

// KEKIsAbsent reports whether a key-encryption key has to be created: none is
// configured, and there is none in the data directory.
func KEKIsAbsent(cfg config.Config) bool {
	path, ours := KEKPath(cfg)
	// A dangling link, such as to a disk that is not mounted, counts as present.
	_, err := os.Lstat(path)
	return ours && errors.Is(err, fs.ErrNotExist)
}

// MakeKEK creates a key-encryption key in the data directory, unless the store has
// keys, which only the missing one unwraps.
func MakeKEK(ctx context.Context, cfg config.Config, st store.Store) (*keys.KEK, error) {
	held, err := st.Changes(ctx, 0)
	if err != nil {
		return nil, err
	}
	if len(held.Keys) == 0 {
		// The caller holds the lock of the data directory.
		path, _ := KEKPath(cfg)
		if err := ReplaceFile(path, []byte(keys.NewKEKText()), 0o600); err != nil {
			return nil, fmt.Errorf("make the key-encryption key: %w", err)
		}
	}
	return ReadKEK(cfg)
}
