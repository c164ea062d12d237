package deployment

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// Realm is the only realm of this version. It is part of every row and MAC.
const Realm = "/api"

// OpenStore checks the settings of the store, and opens it for a command.
func OpenStore(ctx context.Context, cfg config.Config) (store.Store, error) {
	if err := cfg.CheckStore(); err != nil {
		return nil, Usage(err)
	}
	if cfg.Store == config.StoreSQLite {
		return sqlite.Open(ctx, cfg.Data)
	}
	return postgres.Open(ctx, Database(cfg))
}

// CreateStore opens the configured store for the server, and creates it if it is
// absent and was not lost.
func CreateStore(ctx context.Context, cfg config.Config) (store.Store, error) {
	if cfg.Store != config.StoreSQLite {
		return postgres.Create(ctx, Database(cfg), func() error { return lostStore(cfg) })
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

// lostStore returns an error if a key-encryption key or an audit log shows that there
// was a store before, unless new_store is set. An empty store in its place would log
// out every client and user.
func lostStore(cfg config.Config) error {
	if cfg.NewStore {
		return nil
	}
	var found []string
	kek, _ := KEKPath(cfg)
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
	return Hint(fmt.Errorf("refuse to make a new store: there is none in %s, but there is %s of one that was used", place, strings.Join(found, " and ")),
		"if the store is lost: "+lost+"; if this is the first start with a key of your own, an earlier first start was cut short, or the old store is given up: start once with --new-store")
}

// Database returns how to connect to the configured PostgreSQL database.
func Database(cfg config.Config) postgres.Database {
	d := postgres.Database{URL: cfg.Store}
	if cfg.StorePasswordFile != "" {
		d.Password = func() (string, error) {
			text, err := ReadSecretFile(cfg.StorePasswordFile)
			if err != nil {
				return "", fmt.Errorf("store_password_file: %w", err)
			}
			return strings.TrimRight(text, "\r\n"), nil
		}
	}
	return d
}

// Operator returns the name under which changes by this user are recorded.
func Operator() string {
	if u, err := user.Current(); err == nil {
		return "operator:" + u.Username
	}
	return fmt.Sprintf("operator:uid %d", os.Getuid())
}
