package deployment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/sqlite"
)

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

// OpenAlone opens the store for a command that must run without a server: for an embedded
// store, it takes the lock that a server takes. Nodes lists the servers of other machines,
// and is nil if there can be none. The error is ErrLocked, with the process, if another
// process has the lock. The caller closes the store and then releases the lock.
func OpenAlone(ctx context.Context, cfg config.Config) (st store.Store, nodes func(context.Context) ([]store.Node, error), release func(), err error) {
	release = func() {}
	if cfg.Store == config.StoreSQLite && cfg.CheckStore() == nil {
		if absent, err := sqlite.Absent(cfg.Data); err == nil && !absent {
			if release, err = sqlite.LockForCommand(cfg.Data); err != nil {
				if locked := (*sqlite.LockedError)(nil); errors.As(err, &locked) {
					err = fmt.Errorf("%w: %w", ErrLocked, err)
				}
				return nil, nil, nil, err
			}
		}
	}
	if st, err = OpenStore(ctx, cfg); err != nil {
		release()
		return nil, nil, nil, err
	}
	if shared, ok := st.(*postgres.Store); ok {
		nodes = shared.Nodes
	}
	return st, nodes, release, nil
}

// ErrLocked means that another process has the lock of the data directory.
var ErrLocked = errors.New("the data directory is in use")

// LockTime bounds how long a command waits for the lock.
const LockTime = sqlite.LockTime

// CreateStore opens the configured store for the server, and creates it if it is
// absent and may be created.
func CreateStore(ctx context.Context, cfg config.Config, dev bool) (store.Store, error) {
	mayCreate := func() error { return lostStore(cfg, dev) }
	if cfg.Store != config.StoreSQLite {
		return postgres.Create(ctx, Database(cfg), mayCreate)
	}
	absent, err := sqlite.Absent(cfg.Data)
	if err == nil && absent {
		err = mayCreate()
	}
	if err != nil {
		return nil, err
	}
	return sqlite.Create(ctx, cfg.Data)
}

// FirstStart returns the path of the file with which an installation marks the next start
// as the first, which may create the store. The server removes it when it has a store.
func FirstStart(cfg config.Config) string { return filepath.Join(cfg.Data, "new-store") }

// lostStore returns an error unless a store may be created: with new_store always,
// otherwise at a first start, if neither a key-encryption key nor an audit log shows that
// there was a store before. An empty store in place of a lost one, or of one whose disk is
// not mounted, would log out every client and user.
func lostStore(cfg config.Config, dev bool) error {
	if cfg.NewStore {
		return nil
	}
	place, lost := filepath.Join(cfg.Data, sqlite.FileName), "mount its disk, or restore a backup (mintage restore --help)"
	if cfg.Store != config.StoreSQLite {
		place, lost = "this database", "check which database and schema the URL names, or restore a backup"
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
		if _, err := os.Lstat(FirstStart(cfg)); dev || err == nil {
			return nil
		}
		return Hint(fmt.Errorf("refuse to make a new store: there is none in %s, and no file announces a first start", place),
			"if there was a store: "+lost+"; if this is a first start: start once with --new-store, or run: touch "+show.Quote(FirstStart(cfg)))
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

// User returns the name of the user of this process.
func User() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return UserOf(os.Getuid())
}

// UserOf returns the name of a user of this machine, or the id of one without a name.
func UserOf(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", uid)
}

// KeySchedule returns the lifetimes of a deployment's keys. A retired signing key
// stays published until the last token that it signed has expired, with allowance
// for skew and for caches of the published set.
func KeySchedule(cfg config.Config) keys.Schedule {
	maxAge, skew := cfg.JWKSMaxAge.Std(), cfg.Skew()
	longest, registrations := config.Duration(0), false
	for _, c := range cfg.Each() {
		longest = max(longest, c.AccessTokenLifetime, c.IDTokenLifetime)
		registrations = registrations || c.ClientMetadata.Registration
	}
	return keys.Schedule{
		Lifetime: cfg.KeyLifetime.Std(), Lead: cfg.KeyLead.Std(), MaxAge: maxAge, MaxSkew: skew,
		Retention:  longest.Std() + maxAge + 2*skew + time.Minute,
		Algorithms: keys.SigningAlgorithms, Registrations: registrations,
	}
}

// Policy returns the lifetimes of a realm's tokens, for the use cases of operators.
func Policy(cfg config.Config) grant.Policy {
	return grant.Policy{AccessLifetime: cfg.AccessTokenLifetime.Std(), CodeLifetime: cfg.CodeLifetime.Std(), RetryWindow: max(cfg.RetryWindow, cfg.RetryWindowPublic).Std(), RefreshLifetime: cfg.RefreshTokenLifetime.Std(), GrantLifetime: cfg.GrantLifetime.Std(), MaxSkew: cfg.Skew()}
}

// Policies returns the Policy of each realm, by its name.
func Policies(cfg config.Config) map[string]grant.Policy {
	of := map[string]grant.Policy{}
	for _, c := range cfg.Each() {
		of[c.Realm] = Policy(c)
	}
	return of
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
		advice := "the store's keys cannot be used without it: restore the file, or name it with --kek-file"
		if cfg.Store != config.StoreSQLite {
			advice = "if there is a store, restore the file: its keys cannot be used without it; every other node than the first: copy that file, or name it with --kek-file; the first node of a new store: make one with: (umask 077; openssl rand -base64 32 > " + show.Quote(path) + "), give it to the server's user, and start once with --new-store"
		}
		if dir := os.Getenv("CREDENTIALS_DIRECTORY"); ours && dir != "" {
			advice += "; systemd has given no credential " + filepath.Join(dir, "kek")
		} else if ours {
			// Commands run outside of the service's unit, and have no access to its credentials.
			advice += "; of a systemd credential, name the file of the unit's LoadCredential="
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

// HoldsStore reports whether the data directory holds an embedded store whose first start
// has finished. Until then, the store may lack keys, which the next start creates.
func HoldsStore(cfg config.Config) bool {
	if _, err := os.Lstat(FirstStart(cfg)); cfg.Store != config.StoreSQLite || cfg.NewStore || err == nil {
		return false
	}
	_, err := os.Lstat(filepath.Join(cfg.Data, sqlite.FileName))
	return err == nil
}

// MakeKEK creates a key-encryption key in the data directory, unless the store has
// keys, which only the missing key-encryption key unwraps.
func MakeKEK(ctx context.Context, cfg config.Config, st store.Store) (*keys.KEK, error) {
	held, err := st.Changes(ctx, 0)
	if err != nil {
		return nil, err
	}
	if len(held.Keys) == 0 {
		// No other process does the same: the caller holds the lock of the data directory.
		path, _ := KEKPath(cfg)
		if err := ReplaceFile(path, []byte(keys.NewKEKText()), 0o600); err != nil {
			return nil, fmt.Errorf("make the key-encryption key: %w", err)
		}
	}
	return ReadKEK(cfg)
}
