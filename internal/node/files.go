package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/secretfile"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// CheckFiles reads the files that the configuration names, and those of the store.
func CheckFiles(cfg config.Config) (faults []error) {
	if _, err := os.Stat(cfg.Data); !errors.Is(err, fs.ErrNotExist) {
		faults = addFault(faults, "data", deployment.CheckDataDirectory(cfg.Data))
	}
	if !deployment.KEKIsAbsent(cfg) || deployment.HoldsStore(cfg) {
		_, err := deployment.ReadKEK(cfg)
		faults = addFault(faults, "kek_file", err)
	}
	return append(faults, checkNamedFiles(cfg)...)
}

func addFault(faults []error, name string, err error) []error {
	if err == nil {
		return faults
	}
	return append(faults, &config.Fault{Name: name, Err: err})
}

// checkNamedFiles reads the files that a start needs beside the store and its
// key-encryption key.
func checkNamedFiles(cfg config.Config) (faults []error) {
	fault := func(name string, err error) { faults = addFault(faults, name, err) }
	if cfg.TLS.Cert != "" && cfg.TLS.Key != "" {
		_, err := server.LoadCertificate(cfg.TLS.Cert, cfg.TLS.Key, slog.New(slog.DiscardHandler))
		fault("tls", err)
	}
	if path, unix := strings.CutPrefix(cfg.AdminListen(), "unix:"); unix {
		// A start makes the data directory, and systemd makes the directories in /run.
		made := filepath.Dir(path) == filepath.Clean(cfg.Data) || strings.HasPrefix(path, "/run/")
		if err := checkSocket(path); !made || !errors.Is(err, fs.ErrNotExist) {
			fault("admin.listen", err)
		}
		if cfg.Admin.Group != "" {
			_, err := groupID(cfg.Admin.Group)
			fault("admin.group", err)
		}
	}
	if cfg.Admin.TokenFile != "" {
		_, err := deployment.ReadAdminToken(cfg.Admin.TokenFile)
		fault("admin.token_file", err)
	}
	if dir := cfg.AuditDirectory(); dir != "" {
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			fault("audit.directory", fmt.Errorf("%s is no directory", dir))
		}
	}
	if cfg.StorePasswordFile != "" {
		_, err := deployment.ReadSecretFile(cfg.StorePasswordFile)
		fault("store_password_file", err)
	}
	if cfg.Store != config.StoreSQLite && cfg.CheckStore() == nil {
		_, err := postgres.Unverified(deployment.Database(cfg))
		fault("store", err)
	}
	for _, c := range cfg.Each() {
		if err := c.Named(errors.Join(checkRealmFiles(c)...)); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// Faulty returns the error of a configuration with faults, each with its advice, or nil
// if there are none.
func Faulty(faults []*config.Fault) error {
	var lines []string
	for _, f := range faults {
		lines = append(lines, f.Error())
		if h, ok := errors.AsType[*deployment.Hinted](f); ok {
			lines = append(lines, "         "+h.Hint)
		}
	}
	if lines == nil {
		return nil
	}
	return deployment.Usage(errors.New("configuration:\n" + strings.Join(lines, "\n")))
}

// checkRealmFiles reads the files that the settings of a realm name.
func checkRealmFiles(cfg config.Config) (faults []error) {
	if file := cfg.ClientMetadata.RegistrationTokenFile; file != "" {
		if _, err := deployment.ReadRegistrationToken(file); err != nil {
			faults = append(faults, &config.Fault{Name: "client_metadata.registration_token_file", Err: err})
		}
	}
	if cfg.Login.Mode != config.LoginOff {
		if _, err := newPages(cfg); err != nil {
			faults = append(faults, err)
		}
	}
	if cfg.Login.Mode == config.LoginUpstream {
		if _, err := newUpstream(cfg, nil); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// warnOfExposure logs files whose permissions are too wide, and a configuration that
// would replace a lost store.
func warnOfExposure(cfg config.Config, log *slog.Logger) {
	if cfg.NewStore {
		log.Warn("new_store is set: if the store is lost, the next start makes an empty one in its place", "advice", "leave new_store out from now on")
	}
	kek, _ := deployment.KEKPath(cfg)
	user := secretfile.UserOf(cfg.Data)
	for _, path := range []string{filepath.Join(cfg.Data, sqlite.FileName), kek, cfg.Admin.TokenFile, cfg.ClientMetadata.RegistrationTokenFile, cfg.StorePasswordFile} {
		if e, err := user.Exposure(path, path != kek); err == nil && e != nil {
			log.Warn("a file is open to more than the server", "file", path, "mode", fmt.Sprintf("%04o", e.Mode), "advice", e.Advice)
		}
	}
}

// CertificateDoubts lists what may be wrong with the configured certificate, although
// the server uses it.
func CertificateDoubts(cfg config.Config) []string {
	if cfg.TLS.Cert == "" {
		return nil
	}
	c, err := server.LoadCertificate(cfg.TLS.Cert, cfg.TLS.Key, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil // CheckFiles reports it
	}
	return c.Doubts(cfg.PublicURL)
}

// firstStartOver removes the file that has allowed this start to create a store.
func firstStartOver(cfg config.Config, log *slog.Logger) {
	if err := os.Remove(deployment.FirstStart(cfg)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("cannot remove the file that allows a new store: if the store is lost, the next start makes an empty one in its place", "error", err)
	}
}

// watchStore looks each second whether the embedded store's files are where they were
// opened, and logs an error when they are gone.
func watchStore(ctx context.Context, present func() error, log *slog.Logger) {
	for gone := false; directory.Pause(ctx, time.Second); {
		err := present()
		switch {
		case err != nil && !gone:
			log.Error("the store is gone: nothing is written, and nobody gets tokens", "error", err,
				"advice", "mount its disk again; if the files are lost, stop the server and restore a backup (mintage restore --help)")
		case err == nil && gone:
			log.Info("the store is back: it takes writes again")
		}
		gone = err != nil
	}
}

// provenReady is for how many seconds a node must have been ready before watchOutage ends
// an outage although requests still fail. An outage of the store makes a node unready within
// five seconds (directory.StaleAfter).
const provenReady = 10

// watchOutage ends an outage of the store, and logs the number of failures. An outage ends
// once nothing fails and the node is ready, or once the node has been ready for provenReady
// seconds. During an outage, failures are counted and not logged (see store.Outage). Without
// the second condition, requests that fail for another reason, which anyone may be able to
// send, could prolong the outage and so keep real faults out of the log.
func watchOutage(ctx context.Context, o *store.Outage, ready func(context.Context) error, log *slog.Logger) {
	for wasReady := 0; directory.Pause(ctx, time.Second); {
		if !o.Quiet(time.Now(), 0) || ready(ctx) != nil {
			wasReady = 0 // nothing has failed, or the store cannot be used
			continue
		}
		level, what := slog.LevelInfo, "the failures have ended: the store works"
		if !o.Quiet(time.Now(), time.Second) {
			if wasReady++; wasReady < provenReady {
				continue
			}
			level, what = slog.LevelWarn, "the store works, and requests still fail: each is logged again"
		}
		lasted, failed := o.End(time.Now())
		log.Log(ctx, level, what, "failed", failed, "lasted", lasted.Round(time.Millisecond).String())
		wasReady = 0
	}
}

// warnOfDatabase logs the database hosts whose certificate is not verified.
func warnOfDatabase(cfg config.Config, log *slog.Logger) {
	if cfg.Store == config.StoreSQLite {
		return
	}
	if hosts, err := postgres.Unverified(deployment.Database(cfg)); err == nil && len(hosts) > 0 {
		log.Warn("connections to the database are not verified", "hosts", hosts,
			"advice", "add sslmode=verify-full and sslrootcert=FILE to the store's URL")
	}
}

// noteIssuer stores the issuer at the first start, and logs an error if it differs
// later: clients and resource servers compare it.
func noteIssuer(ctx context.Context, cfg config.Config, st store.Store, log *slog.Logger) {
	was, err := directory.RememberIssuer(ctx, st, cfg.Realm, cfg.IssuerID())
	switch {
	case err != nil:
		log.Warn("cannot read or store the issuer", "error", err)
	case was != cfg.IssuerID():
		log.Error("the issuer has changed: clients and resource servers that expect the old one reject this server's tokens",
			"was", was, "is", cfg.IssuerID(), "advice", "set the old issuer (or public_url, base_path) again; if the change is meant: mintage doctor --accept-issuer")
	}
}
