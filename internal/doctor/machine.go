package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/secretfile"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// This file checks this machine: configuration, files, sockets, the audit log.

func checkConfiguration(_ context.Context, p *Deployment) (f findings) {
	cfg := p.Config
	if err := cfg.Check(); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			f.fault("correct it; see: mintage config check --help, and "+config.Page("reference/configuration.md"), "%s", line)
		}
		return f
	}
	if cfg.Compat.QueryParameters || cfg.Compat.TokenInfoQuery {
		f.warn("switch compat.query_parameters and compat.tokeninfo_query off as soon as no client needs them", "secrets in URLs are accepted, which logs and histories keep")
	}
	if cfg.NewStore {
		f.warn("leave new_store out: it is for the first start alone", "a lost store would be replaced by an empty one at the next start (new_store)")
	}
	for _, d := range cfg.Departures() {
		f.note("departure from the specification: %s", d)
	}
	return f.unless("accepted, with the issuer %s", cfg.IssuerID())
}

// checkFiles checks who can read and write the files of the data directory and the
// secrets that the configuration names.
func checkFiles(_ context.Context, p *Deployment) (f findings) {
	info, err := os.Stat(p.Config.Data)
	user := secretfile.UserOf(p.Config.Data)
	switch {
	case err != nil:
		return f.fault("name the server's data directory: --data or --config", "data directory: %v", err)
	case info.Mode().Perm()&0o022 != 0:
		f.fault(user.Close(p.Config.Data, "go-w"), "others than its owner can write to the data directory %s (mode %04o)", p.Config.Data, info.Mode().Perm())
	case info.Mode().Perm()&0o055 != 0:
		f.warn(user.Close(p.Config.Data, "go="), "others than its owner can read the data directory %s (mode %04o)", p.Config.Data, info.Mode().Perm())
	}
	if p.Config.Store == config.StoreSQLite {
		f.exposed(p, user, p.StoreFile, levelWarning, false)
	}
	f.exposed(p, user, p.KEKFile, levelFault, false)
	secrets := []string{p.Config.Admin.TokenFile, p.Config.ClientMetadata.RegistrationTokenFile, p.Config.StorePasswordFile, p.Config.Login.Upstream.ClientSecretFile, p.Config.TLS.Key}
	for _, of := range p.Config.Realms {
		secrets = append(secrets, of.ClientMetadata.RegistrationTokenFile, of.Login.Upstream.ClientSecretFile)
	}
	slices.Sort(secrets)
	for _, path := range slices.Compact(secrets) {
		if path != "" {
			f.exposed(p, user, path, levelFault, true)
		}
	}
	return f.unless("the data directory %s and the files with secrets are for the server alone", p.Config.Data)
}

// exposed reports a file that others than the server can read or change: at the given level
// if everybody can, and as a warning otherwise.
func (f *findings) exposed(p *Deployment, user secretfile.User, path, level string, anyGroup bool) {
	switch e, err := user.Exposure(path, anyGroup); {
	case f.denied(p, err):
	case err != nil:
		f.unknown("check the path, and the permissions of this user", "%v", err)
	case e != nil && e.Everybody:
		f.add(level, e.Advice, "everybody on this machine can read or change %s (mode %04o)", path, e.Mode)
	case e != nil:
		f.warn(e.Advice, "%s is open to more than the server (mode %04o)", path, e.Mode)
	}
}

func checkCertificate(_ context.Context, p *Deployment) (f findings) {
	if p.Config.TLS.Cert == "" {
		return f.note("none is configured: TLS ends at a proxy")
	}
	pair, err := tls.LoadX509KeyPair(p.Config.TLS.Cert, p.Config.TLS.Key)
	if f.denied(p, err) {
		return f
	}
	if errors.Is(err, fs.ErrPermission) {
		return f.fault("let the server's user or its group read it, and run doctor as that user", "%v", err)
	}
	if err != nil {
		return f.fault("put a certificate and its key there, both in PEM", "%s with %s: %v", p.Config.TLS.Cert, p.Config.TLS.Key, err)
	}
	f.validity(pair.Leaf, p.Now.Time())
	if u, err := url.Parse(p.Config.PublicURL); err == nil && u.Hostname() != "" {
		if err := pair.Leaf.VerifyHostname(u.Hostname()); err != nil {
			f.warn("have a certificate issued for "+u.Hostname()+", unless a proxy in front has its own", "the certificate is not for the host of public_url: %v", err)
		}
	}
	return f.unless("%s is valid until %s", p.Config.TLS.Cert, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
}

func (f *findings) validity(c *x509.Certificate, now time.Time) {
	const advice = "renew it, and find out why that did not happen by itself; a changed file is used within a second"
	left := c.NotAfter.Sub(now)
	switch {
	case now.Before(c.NotBefore):
		f.fault("set the clock, or wait", "the certificate is not valid before %s", c.NotBefore.UTC().Format(time.RFC3339))
	case left <= 0:
		f.fault(advice, "the certificate expired on %s", c.NotAfter.UTC().Format(time.RFC3339))
	case server.ExpiresSoon(c, now):
		f.warn(advice, "the certificate expires on %s, in %s", c.NotAfter.UTC().Format(time.RFC3339), show.Roughly(left))
	}
}

func checkListeners(_ context.Context, p *Deployment) (f findings) {
	if exposedAddress(p.Config.Management.Listen) {
		f.warn("management.listen: an address that only your monitoring reaches, such as 127.0.0.1:9000, or a firewall",
			"the management listener is on %s: anyone who reaches it can read metrics and the state of the server", p.Config.Management.Listen)
		if p.Config.Management.Pprof {
			f.fault("management.pprof: false, or another management.listen", "Go's profiles are served on %s: they cost processor time, and show what is in memory", p.Config.Management.Listen)
		}
	}
	if path, unix := strings.CutPrefix(p.Config.AdminListen(), "unix:"); !unix {
		if exposedAddress(p.Config.Admin.Listen) {
			f.warn("admin.listen: a Unix socket, or an address that only the administrators' network reaches", "the admin API is on %s, behind its token alone", p.Config.Admin.Listen)
		}
	} else if info, err := os.Stat(path); err == nil {
		if mode := info.Mode().Perm(); mode&0o007 != 0 {
			f.fault(secretfile.UserOf(p.Config.Data).Close(path, "o="), "everybody on this machine can use the admin socket %s (mode %04o)", path, mode)
		}
	}
	if p.Config.TLS.Cert == "" && exposedAddress(p.Config.Listen) {
		f.note("the public listener %s speaks plain HTTP, for the proxies in trusted_proxies alone", p.Config.Listen)
	}
	if text := p.Config.PortWarning(); text != "" && !p.Dev {
		f.note("%s", text)
	}
	return f.unless("only the public listener %s is open to others", p.Config.Listen)
}

// exposedAddress reports whether others than this machine may reach a listener.
func exposedAddress(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && !config.IsLoopback(host)
}

// checkConsole checks whether somebody can sign in to the console.
func checkConsole(ctx context.Context, p *Deployment) (f findings) {
	if p.Config.Console.Listen == "" {
		return f.ok("there is none")
	}
	list, err := operator.List(ctx, p.Store)
	switch {
	case err != nil:
		return f.unknown("see database", "the operators cannot be read: %v", err)
	case len(list)+len(p.Config.Console.Operators) == 0:
		return f.warn("mintage operator add NAME --role admin, and mintage console invite NAME", "the console has no operator")
	case !p.Config.ByLogin() && p.Config.Login.Mode != config.LoginUsers:
		f.note("operators get in by invitation alone: console.second_factor is not set")
	}
	return f.unless("%s, and %s", show.Count(len(list), "operator", "operators"), show.Count(len(p.Config.Console.Operators), "rule", "rules"))
}

func checkDemo(_ context.Context, p *Deployment) (f findings) {
	switch err := p.Demo.Err; {
	case p.Dev:
		return f.note("the server runs with --dev")
	case errors.Is(err, fs.ErrNotExist):
		return f.ok("there is none")
	case err != nil:
		return f.unknown("look at it, and delete the client that it names", "%s: %v", p.Demo.File, err)
	}
	for _, c := range p.Changes.Clients {
		if c.ID == p.Demo.ClientID && c.State == store.ClientEnabled {
			f.fault("mintage client delete "+c.ID+" --yes, or serve another data directory", "the demo client %s of --dev is enabled, and its secret is in %s", c.ID, p.Demo.File)
		}
	}
	return f.unless("the one of an earlier start with --dev is not enabled")
}

// checkAudit checks whether records can be written, and whether the last file of
// the audit log is whole. mintage audit verify reads all files.
func checkAudit(_ context.Context, p *Deployment) (f findings) {
	dir := p.Config.AuditDirectory()
	if dir == "" {
		return f.warn("audit.directory: leave it out", "the audit log is switched off: it is not recorded who did what")
	}
	info, err := os.Stat(dir)
	if f.denied(p, err) {
		return f
	}
	if errors.Is(err, fs.ErrNotExist) {
		return f.warn("has the server been started with this configuration? It makes the directory", "there is no audit log at %s", dir)
	}
	if err != nil {
		return f.unknown("run this as the server's user", "%v", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		f.warn(secretfile.UserOf(p.Config.Data).Close(dir, "go="), "others than its owner can look into the audit log %s (mode %04o)", dir, mode)
	}
	trial, err := os.CreateTemp(dir, ".doctor-*")
	if err == nil {
		err = errors.Join(trial.Close(), os.Remove(trial.Name()))
	}
	if f.denied(p, err) {
		return f
	}
	if err != nil {
		f.fault("run this as the server's user; if that is the one, give it the directory", "the audit log cannot be written: %v", err)
	}
	files, globErr := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if globErr != nil || len(files) == 0 {
		return f.unknown("is it the directory of this server?", "there is no file of an audit log in %s", dir)
	}
	last := files[len(files)-1] // their names are numbers of one length
	v, err := audit.Check{}.VerifyFiles([]string{last})
	var broken *audit.Break
	switch {
	case errors.As(err, &broken):
		f.fault("keep the files as they are, and see: mintage audit verify", "the audit log is broken: %v", broken)
	case err != nil:
		f.unknown("run this as the server's user", "the audit log cannot be read: %v", err)
	default:
		f.unless("%d records in the last file of %s, each chained to the one before (all: mintage audit verify)", v.Records, dir)
	}
	return f
}
