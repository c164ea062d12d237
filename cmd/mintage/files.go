package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// checkDataDirectory refuses a directory in which others can put files: they
// could exchange the store, the key-encryption key or the admin socket.
func checkDataDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return hint(fmt.Errorf("data directory %s: others than its owner can write to it (mode %04o)", dir, info.Mode().Perm()),
			"run: chmod go-w "+show.Quote(dir)+" (or name a directory inside of it with --data)")
	}
	return nil
}

// readSecretFile reads a key or a token, and says what to do about one that
// everybody can read. A group may read it; see warnOfExposure.
func readSecretFile(path string) (string, error) {
	text, err := config.ReadSecret(path)
	return text, withAdvice(err)
}

// withAdvice adds what to do about a secret that everybody can read, if that is
// what err is about.
func withAdvice(err error) error {
	var exposed *config.Exposed
	if errors.As(err, &exposed) {
		return hint(err, "run: chmod o= "+show.Quote(exposed.Path)+" (in Kubernetes: defaultMode: 0440)")
	}
	return err
}

// warnOfExposure logs which files more people can use than need to, and that a
// lost store would be replaced.
func warnOfExposure(cfg config.Config, log *slog.Logger) {
	if cfg.NewStore {
		log.Warn("new_store is set: if the store is lost, the next start makes an empty one in its place", "advice", "leave new_store out from now on")
	}
	kek, _ := kekPath(cfg)
	files := []struct {
		path, class string
		bits        fs.FileMode
	}{
		{filepath.Join(cfg.Data, sqlite.FileName), "others", 0o006},
		{kek, "group", 0o060},
	}
	for _, path := range []string{cfg.Admin.TokenFile, cfg.StorePasswordFile} {
		if path != "" {
			files = append(files, files[1])
			files[len(files)-1].path = path
		}
	}
	for _, f := range files {
		if info, err := os.Stat(f.path); err == nil && info.Mode().Perm()&f.bits != 0 {
			log.Warn("a file is open to more than its owner", "file", f.path, "mode", fmt.Sprintf("%04o", info.Mode().Perm()),
				"advice", "chmod "+f.class[:1]+"= "+show.Quote(f.path))
		}
	}
}

// warnOfDatabase logs which hosts of the database's URL somebody else could take
// the place of.
func warnOfDatabase(cfg config.Config, log *slog.Logger) {
	if cfg.Store == config.StoreSQLite {
		return
	}
	if hosts, err := postgres.Unverified(database(cfg)); err == nil && len(hosts) > 0 {
		log.Warn("connections to the database are not verified", "hosts", hosts,
			"advice", "add sslmode=verify-full and sslrootcert=FILE to the store's URL")
	}
}

// replaceFile writes a file in one step: whatever happens, there is then the
// whole new one, or what was there before. It is durable, name and content.
func replaceFile(path string, text []byte, mode fs.FileMode) error {
	tmp := path + ".new"
	// What a crash has left of an earlier try goes. Anything else under this
	// name is not ours: it is neither removed nor, as a link, followed.
	if info, err := os.Lstat(tmp); err == nil && info.Mode().IsRegular() {
		if err := os.Remove(tmp); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	// Whatever the umask is.
	err = f.Chmod(mode)
	// What root replaces for the server stays the server's.
	if info, absent := os.Lstat(path); absent == nil && info.Mode().IsRegular() && os.Geteuid() == 0 {
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			err = errors.Join(err, f.Chown(int(s.Uid), int(s.Gid)), f.Chmod(mode))
		}
	}
	if err == nil {
		_, err = f.Write(text)
	}
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
