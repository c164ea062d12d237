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

// KeySchedule is how long keys live in a deployment. A retired signing key is
// kept for as long as a token can live that it signed at the last moment, on
// nodes whose clocks differ, for verifiers that load the set later.
func KeySchedule(cfg config.Config) keys.Schedule {
	maxAge, skew := cfg.JWKSMaxAge.Std(), cfg.Skew()
	return keys.Schedule{
		Lifetime: cfg.KeyLifetime.Std(), Lead: cfg.KeyLead.Std(), MaxAge: maxAge, MaxSkew: skew,
		Retention:  max(cfg.AccessTokenLifetime, cfg.IDTokenLifetime).Std() + maxAge + 2*skew + time.Minute,
		Algorithms: keys.SigningAlgorithms,
	}
}

// KEKPath is where the key-encryption key is: where the configuration says, which
// knows of systemd's credential, or in the data directory.
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

// KEKIsAbsent reports whether the key-encryption key is to be made: there is none
// where this program keeps its own.
func KEKIsAbsent(cfg config.Config) bool {
	path, ours := KEKPath(cfg)
	// A link that leads nowhere, as to a disk that is not mounted, is there.
	_, err := os.Lstat(path)
	return ours && errors.Is(err, fs.ErrNotExist)
}

// MakeKEK writes a new key-encryption key into the data directory, unless the
// store has keys that only the missing one can unwrap.
func MakeKEK(ctx context.Context, cfg config.Config, st store.Store) (*keys.KEK, error) {
	held, err := st.Changes(ctx, 0)
	if err != nil {
		return nil, err
	}
	if len(held.Keys) == 0 {
		// We hold the data directory's lock: nobody else makes one now.
		path, _ := KEKPath(cfg)
		if err := ReplaceFile(path, []byte(keys.NewKEKText()), 0o600); err != nil {
			return nil, fmt.Errorf("make the key-encryption key: %w", err)
		}
	}
	return ReadKEK(cfg)
}
