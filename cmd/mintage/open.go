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
	"strings"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
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
	trail *audit.Log                                  // closed with the store; nil if there is none
	nodes func(context.Context) ([]store.Node, error) // that share the store; nil if only one can
	now   grant.Instant
	actor string
}

// openOffice opens the configured store. Close it.
// It needs no key: who has lost one, or does not have it at hand in the middle
// of an incident, can still look, disable and revoke.
func (s *settings) openOffice(ctx context.Context) (*office, error) {
	cfg, err := s.load()
	if err != nil {
		return nil, err
	}
	st, err := openStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	o := &office{cfg: cfg, now: grant.At(time.Now()), actor: operator()}
	if shared, ok := st.(*postgres.Store); ok {
		o.nodes = shared.Nodes
	}
	st, o.trail = openNoting(cfg, st)
	o.store = announcing{st, cfg}
	return o, nil
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

// openStore opens the configured store for a command, checked for what concerns
// it.
func openStore(ctx context.Context, cfg config.Config) (store.Store, error) {
	if err := cfg.CheckStore(); err != nil {
		return nil, &usageError{err}
	}
	if cfg.Store == config.StoreSQLite {
		return sqlite.Open(ctx, cfg.Data)
	}
	return postgres.Open(ctx, database(cfg))
}

// A servedStore is a store that also says whether it works, and how busy it is.
type servedStore interface {
	store.Store
	Ready(ctx context.Context) error
	Load() store.Load
}

// createStore opens the configured store for the server, which makes it if it
// is absent and has not been lost.
func createStore(ctx context.Context, cfg config.Config) (servedStore, error) {
	if cfg.Store != config.StoreSQLite {
		return postgres.CreateIf(ctx, database(cfg), func() error { return lostStore(cfg) })
	}
	absent, err := sqlite.Absent(cfg.Data)
	if err == nil && absent {
		err = lostStore(cfg)
	}
	if err != nil {
		return nil, err
	}
	return sqlite.Create(ctx, cfg.Data)
}

// lostStore returns an error if what is there shows that there was a store before,
// unless a new one is wanted. A server that made an empty one would log every
// client and every user out, and say that it serves.
func lostStore(cfg config.Config) error {
	if cfg.NewStore {
		return nil
	}
	var found []string
	kek, _ := kekPath(cfg)
	if _, err := os.Lstat(kek); err == nil {
		found = append(found, "a key-encryption key ("+kek+")")
	}
	if dir := cfg.AuditDirectory(); dir != "" {
		if files, err := filepath.Glob(filepath.Join(dir, "*.jsonl")); err == nil && len(files) > 0 {
			found = append(found, "an audit log ("+dir+")")
		}
	}
	if found == nil {
		return nil
	}
	place, lost := filepath.Join(cfg.Data, sqlite.FileName), "mount its disk, or restore a backup (mintage restore --help)"
	if cfg.Store != config.StoreSQLite {
		place, lost = "this database", "check which database and schema the URL names, or restore a backup"
	}
	return hint(fmt.Errorf("refuse to make a new store: there is none in %s, but there is %s of one that was used", place, strings.Join(found, " and ")),
		"if the store is lost: "+lost+"; if this is the first start with a key of your own, an earlier first start was cut short, or the old store is given up: start once with --new-store")
}

func database(cfg config.Config) postgres.Database {
	d := postgres.Database{URL: cfg.Store}
	if cfg.StorePasswordFile != "" {
		d.Password = func() (string, error) {
			text, err := readSecretFile(cfg.StorePasswordFile)
			if err != nil {
				return "", fmt.Errorf("store_password_file: %w", err)
			}
			return strings.TrimRight(text, "\r\n"), nil
		}
	}
	return d
}

func operator() string {
	if u, err := user.Current(); err == nil {
		return "operator:" + u.Username
	}
	return fmt.Sprintf("operator:uid %d", os.Getuid())
}

// kekPath is where the key-encryption key is: where the configuration says, which
// knows of systemd's credential, or in the data directory.
func kekPath(cfg config.Config) (path string, ours bool) {
	if cfg.KEKFile != "" {
		return cfg.KEKFile, false
	}
	return filepath.Join(cfg.Data, "kek"), true
}

func readKEK(cfg config.Config) (*keys.KEK, error) {
	path, ours := kekPath(cfg)
	text, err := readSecretFile(path)
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

// kekIsAbsent reports whether the key-encryption key is to be made: there is none
// where this program keeps its own.
func kekIsAbsent(cfg config.Config) bool {
	path, ours := kekPath(cfg)
	// A link that leads nowhere, as to a disk that is not mounted, is there.
	_, err := os.Lstat(path)
	return ours && errors.Is(err, fs.ErrNotExist)
}

// makeKEK writes a new key-encryption key into the data directory, unless the
// store has keys that only the missing one can unwrap.
func makeKEK(ctx context.Context, cfg config.Config, st store.Store) (*keys.KEK, error) {
	held, err := st.Changes(ctx, 0)
	if err != nil {
		return nil, err
	}
	if len(held.Keys) == 0 {
		// We hold the data directory's lock: nobody else makes one now.
		path, _ := kekPath(cfg)
		if err := replaceFile(path, []byte(keys.NewKEKText()), 0o600); err != nil {
			return nil, fmt.Errorf("make the key-encryption key: %w", err)
		}
	}
	return readKEK(cfg)
}
