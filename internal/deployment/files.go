package deployment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/show"
)

// ReadAdminToken reads the token that callers of the admin API over TCP present.
func ReadAdminToken(file string) (string, error) { return readBearer(file, "admin token") }

// ReadRegistrationToken reads the initial access token of registrations.
func ReadRegistrationToken(file string) (string, error) {
	return readBearer(file, "registration token")
}

func readBearer(file, what string) (string, error) {
	text, err := ReadSecretFile(file)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(text)
	if len(token) < 32 {
		return "", Hint(fmt.Errorf("%s: the %s has fewer than 32 characters", file, what), "make one with: openssl rand -hex 32")
	}
	return token, nil
}

// CheckDataDirectory returns an error for a directory that others can write to: they
// could exchange the store, the key-encryption key or the admin socket.
func CheckDataDirectory(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return Hint(fmt.Errorf("data directory %s: others than its owner can write to it (mode %04o)", dir, info.Mode().Perm()),
			"run: chmod go-w "+show.Quote(dir)+" (or name a directory inside of it with --data)")
	}
	return nil
}

// ReadSecretFile reads a key or a token. It refuses a file that everybody can read;
// a group may read it.
func ReadSecretFile(path string) (string, error) {
	text, err := config.ReadSecret(path)
	return text, withAdvice(err)
}

// ReplaceFile replaces a file atomically and durably (write, fsync, rename, fsync of
// the directory).
func ReplaceFile(path string, text []byte, mode fs.FileMode) error {
	tmp := path + ".new"
	// Remove the remainder of a crash. Anything else under this name is neither
	// removed nor, as a link, followed.
	if info, err := os.Lstat(tmp); err == nil && info.Mode().IsRegular() {
		if err := os.Remove(tmp); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	// The umask does not apply.
	err = f.Chmod(mode)
	// A file that root replaces keeps its owner.
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
