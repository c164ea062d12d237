package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// realm is the one realm of this version. It is part of every row and MAC, so
// that a second one will be a matter of configuration.
const realm = "/api"

// An office is the store opened for an administrator's command, beside a
// server that may be running on it.
type office struct {
	cfg   config.Config
	store store.Store
	now   grant.Instant
	actor string
}

// openOffice opens the store of the configured data directory. Close its store.
// It needs no key: who has lost one, or does not have it at hand in the middle
// of an incident, can still look, disable and revoke.
func (s *settings) openOffice(ctx context.Context) (*office, error) {
	cfg, err := s.load()
	if err != nil {
		return nil, err
	}
	st, err := sqlite.Open(ctx, cfg.Data)
	if err != nil {
		return nil, err
	}
	return &office{cfg: cfg, store: announcing{st, cfg}, now: grant.At(time.Now()), actor: operator()}, nil
}

// cutoffAt is the instant of a cutoff that ends everything until now.
func (o *office) cutoffAt() grant.Instant { return grant.At(time.Now()).Add(issuer.CutoffReach) }

// ring opens the key ring, for what makes secrets.
func (o *office) ring(ctx context.Context) (*keys.Ring, error) {
	kek, err := readKEK(o.cfg)
	if err != nil {
		return nil, err
	}
	dir, err := issuer.OpenDirectory(ctx, o.store, kek, keys.Schedule{}, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		return nil, err
	}
	view, err := dir.View()
	if err != nil {
		return nil, err
	}
	return view.Ring, nil
}

func operator() string {
	if u, err := user.Current(); err == nil {
		return "operator:" + u.Username
	}
	return fmt.Sprintf("operator:uid %d", os.Getuid())
}

// kekPath is where the key-encryption key is: configured, given by systemd, or
// in the data directory.
func kekPath(cfg config.Config) (path string, ours bool) {
	if cfg.KEKFile != "" {
		return cfg.KEKFile, false
	}
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		path := filepath.Join(dir, "kek")
		if _, err := os.Stat(path); err == nil {
			return path, false
		}
	}
	return filepath.Join(cfg.Data, "kek"), true
}

func readKEK(cfg config.Config) (*keys.KEK, error) {
	path, ours := kekPath(cfg)
	text, err := readSecretFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		advice := "the store's keys cannot be used without it: put the file back, or name it with --kek-file"
		if dir := os.Getenv("CREDENTIALS_DIRECTORY"); ours && dir != "" {
			advice += "; systemd has given no credential " + filepath.Join(dir, "kek")
		} else if ours {
			// Commands run outside of the service's unit.
			advice += "; a systemd credential is at /run/credentials/UNIT/kek"
		}
		return nil, hint(fmt.Errorf("the key-encryption key is missing: %w", err), advice)
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

// makeKEK writes a new key-encryption key into a data directory that has
// neither one nor a store.
func makeKEK(cfg config.Config) error {
	path, ours := kekPath(cfg)
	if !ours {
		return nil
	}
	if _, err := os.Stat(filepath.Join(cfg.Data, sqlite.FileName)); err == nil {
		return nil // readKEK explains what is missing
	}
	// Also if it is a link that leads nowhere, as to a disk that is not mounted.
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // there is one, and readKEK explains what is wrong with it
	}
	// We hold the data directory's lock: nobody else makes one now.
	if err := replaceFile(path, []byte(keys.NewKEKText()), 0o600); err != nil {
		return fmt.Errorf("make the key-encryption key: %w", err)
	}
	return nil
}
