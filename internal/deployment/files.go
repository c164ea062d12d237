// Package deployment opens what a configuration names: the store, the keys and
// the audit log. Commands and the server share it.
package deployment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/secretfile"
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

// MakeDataDirectory makes the data directory if it is absent, and checks it.
func MakeDataDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Hint(fmt.Errorf("data directory: %w", err), "name another with --data, or make it and give it to this user")
	}
	return CheckDataDirectory(dir)
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
			"run: "+secretfile.UserOf(dir).Close(dir, "go-w")+" (or name a directory inside of it with --data)")
	}
	return nil
}

// ReadSecretFile reads a key or a token. It refuses a file that everybody can read;
// a group may read it.
func ReadSecretFile(path string) (string, error) {
	text, err := config.ReadSecret(path)
	if errors.Is(err, fs.ErrPermission) {
		return "", Hint(err, "let the server's user or its group read it, and run this as that user")
	}
	return text, withAdvice(err)
}

// ReplaceFile replaces a file atomically and durably (write, fsync, rename, fsync of
// the directory). A file that root writes gets the owner of the file that it replaces, or
// else of the first file of like that exists.
func ReplaceFile(path string, text []byte, mode fs.FileMode, like ...string) error {
	tmp := path + ".new"
	// Remove the temporary file of a crashed process. A link or another special file under
	// this name is neither removed nor followed.
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
	for _, owned := range append([]string{path}, like...) {
		if info, absent := os.Lstat(owned); absent == nil && info.Mode().IsRegular() && os.Geteuid() == 0 {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				err = errors.Join(err, f.Chown(int(s.Uid), int(s.Gid)), f.Chmod(mode))
			}
			break
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

// withAdvice adds advice to the error of a secret that everybody can read.
func withAdvice(err error) error {
	if exposed, ok := errors.AsType[*config.Exposed](err); ok {
		return Hint(err, "run: "+secretfile.UserOf("").Close(exposed.Path, "o=")+" (in Kubernetes: defaultMode: 0440)")
	}
	return err
}

// A UsageError is an error in the command line or the configuration.
type UsageError struct{ error }

// Usage returns err as an error of the command line.
func Usage(err error) error { return &UsageError{err} }

// Unwrap returns the wrapped error, which may have a hint.
func (u *UsageError) Unwrap() error { return u.error }

// Unreadable returns the usage error of a configuration that cannot be read.
func Unreadable(err error) error {
	if err == nil {
		return nil
	}
	return Usage(withAdvice(err))
}

// A Hinted error has advice for the operator.
type Hinted struct {
	error
	Hint string
}

// Unwrap returns the error without the hint.
func (h *Hinted) Unwrap() error { return h.error }

// Hint returns err with advice for the operator.
func Hint(err error, what string) error { return &Hinted{err, what} }

// DevInfo is the content of dev.json, for scripts.
type DevInfo struct {
	Issuer        string `json:"issuer"`
	Listen        string `json:"listen"`
	TokenEndpoint string `json:"token_endpoint"`
	CAFile        string `json:"ca_file"`
	ClientID      string `json:"client_id"`
	ClientSecret  string `json:"client_secret"`
	RedirectURI   string `json:"redirect_uri"`
	Username      string `json:"username,omitempty"` // of the demo user
	Password      string `json:"password,omitempty"`
	SignIn        string `json:"sign_in,omitempty"`   // where the demo user signs in
	DemoPage      string `json:"demo_page,omitempty"` // where a browser shows each step
	Console       string `json:"console,omitempty"`
	AdminSocket   string `json:"admin_socket"`
	Management    string `json:"management"`
}

// DevFile returns the path of dev.json, which a --dev server leaves for scripts.
func DevFile(cfg config.Config) string { return filepath.Join(cfg.Data, "dev.json") }

// DevCertificate returns the paths of the certificate and key of a --dev server.
func DevCertificate(cfg config.Config) (cert, key string) {
	return filepath.Join(cfg.Data, "dev-cert.pem"), filepath.Join(cfg.Data, "dev-key.pem")
}

// DevCAFile returns the path of the certificate authority of a --dev server.
func DevCAFile(cfg config.Config) string { return filepath.Join(cfg.Data, "dev-ca.pem") }

// ReadDevFile reads the dev.json of an earlier start with --dev.
func ReadDevFile(cfg config.Config) (info DevInfo, err error) {
	text, err := os.ReadFile(DevFile(cfg))
	if err == nil {
		err = json.Unmarshal(text, &info)
	}
	return info, err
}

// LinkedLog is a symbolic link in the data directory to the file that receives the
// server's standard error.
const LinkedLog = "log"

// NewLogger returns a logger to w as configured, with its level.
func NewLogger(w io.Writer, c config.Log) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	SetLevel(level, c)
	opt := LogOptions(level)
	if c.Format == "text" || c.Format == "auto" && IsTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opt)), level
	}
	return slog.New(slog.NewJSONHandler(w, opt)), level
}

// LogOptions returns handler options that join the lines of an error to one line. Without
// them, a handler would write each line break as \n.
func LogOptions(level slog.Leveler) *slog.HandlerOptions {
	return &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(show.OneLine(err.Error()))
		} else if a.Key == "error" && a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(show.OneLine(a.Value.String()))
		}
		return a
	}}
}

// SetLevel sets level to that of the configuration, which Check has accepted.
func SetLevel(level *slog.LevelVar, c config.Log) {
	var l slog.Level
	_ = l.UnmarshalText([]byte(c.Level))
	level.Set(l)
}

// IsTerminal reports whether w writes to a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
