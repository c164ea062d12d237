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
	ring  *keys.Ring
	now   grant.Instant
	actor string
}

// openOffice opens the store of the configured data directory. Close its store.
func (s *settings) openOffice(ctx context.Context) (*office, error) {
	cfg, err := s.load()
	if err != nil {
		return nil, err
	}
	st, err := sqlite.Open(ctx, cfg.Data)
	if err != nil {
		return nil, err
	}
	o := &office{cfg: cfg, store: st, now: grant.At(time.Now()), actor: operator()}
	kek, err := readKEK(cfg)
	if err == nil {
		var dir *issuer.Directory
		if dir, err = issuer.OpenDirectory(ctx, st, kek, slog.New(slog.DiscardHandler), time.Now); err == nil {
			var view *issuer.View
			if view, err = dir.View(); err == nil {
				o.ring = view.Ring
				return o, nil
			}
		}
	}
	return nil, errors.Join(err, st.Close())
}

// event records what the operator does.
func (o *office) event(name store.EventName, about, detail string) store.Event {
	return store.Event{At: o.now, Name: name, About: about, Actor: o.actor, Detail: detail}
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
	path, _ := kekPath(cfg)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hint(fmt.Errorf("the key-encryption key is missing: %w", err),
			"the store's keys cannot be used without it: put the file back, or name it with --kek-file")
	}
	if err != nil {
		return nil, fmt.Errorf("key-encryption key: %w", err)
	}
	kek, err := keys.ParseKEK(string(text))
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
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // there is one, and readKEK explains what is wrong with it
	}
	// We hold the data directory's lock: nobody else makes one now.
	if err := replaceFile(path, []byte(keys.NewKEKText()), 0o600); err != nil {
		return fmt.Errorf("make the key-encryption key: %w", err)
	}
	return nil
}

// replaceFile writes a file in one step: whatever happens, there is then the
// whole new one, or what was there before. It is durable, name and content.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
