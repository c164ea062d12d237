package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

const hour, day = time.Hour, 24 * time.Hour

// template is the files of a deployment without faults: a store with keys and one client,
// and the key-encryption key. Generating keys is slow, so it is done once and copied.
var template = sync.OnceValues(func() (files map[string][]byte, err error) {
	dir, err := os.MkdirTemp("", "mintage-doctor-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := makeTemplate(dir); err != nil {
		return nil, err
	}
	files = map[string][]byte{}
	for _, name := range []string{"kek", sqlite.FileName} {
		if files[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return files, nil
})

func makeTemplate(dir string) (err error) {
	cfg, text := healthyConfig(dir), keys.NewKEKText()
	if err := os.WriteFile(filepath.Join(dir, "kek"), []byte(text), 0o600); err != nil {
		return err
	}
	ctx := context.Background()
	st, err := sqlite.Create(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	kek, err := keys.ParseKEK(text)
	if err != nil {
		return err
	}
	known, err := directory.Open(ctx, st, kek, schedule, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		return err
	}
	view, err := known.View()
	if err != nil {
		return err
	}
	c, _, err := client.Registration{ID: "shop", Settings: store.Settings{Name: "Shop", RedirectURIs: []string{"https://shop.example/cb"}, Scope: "read", Auth: store.AuthEither}}.
		Client(realm, view.Ring, grant.Policy{AccessLifetime: cfg.AccessTokenLifetime.Std()}, grant.At(time.Now()))
	if err == nil {
		err = st.Commit(ctx, store.Change{Entries: []store.Entry{c.Entry()}})
	}
	if err == nil {
		_, err = directory.RememberIssuer(ctx, st, realm, cfg.IssuerID())
	}
	return err
}

const realm = "/api"

// schedule is the key schedule of the default configuration.
var schedule = keys.Schedule{
	Lifetime: config.Default().KeyLifetime.Std(), Lead: config.Default().KeyLead.Std(), MaxAge: config.Default().JWKSMaxAge.Std(),
	Retention: hour, Algorithms: keys.SigningAlgorithms,
}

func healthyConfig(dir string) config.Config {
	cfg := config.Default()
	cfg.Data, cfg.PublicURL = dir, "https://auth.example.com"
	return cfg
}

// healthy returns a deployment without faults, with a certificate and a recorded backup.
func healthy(t *testing.T) *Deployment {
	t.Helper()
	files, err := template()
	must(t, err)
	p := &Deployment{
		Config: healthyConfig(t.TempDir()), Realm: realm, Now: grant.At(time.Now()), Schedule: schedule, Demo: Demo{Err: fs.ErrNotExist},
		kernelClock: func() (bool, bool) { return true, true },
	}
	p.StoreFile, p.KEKFile = filepath.Join(p.Config.Data, sqlite.FileName), filepath.Join(p.Config.Data, "kek")
	must(t, os.Chmod(p.Config.Data, 0o700))
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(p.Config.Data, name), text, 0o600))
	}
	p.Config.TLS.Cert, p.Config.TLS.Key, _ = certify(t, "auth.example.com", 60*day)
	p.KEK, err = keys.ParseKEK(string(files["kek"]))
	must(t, err)
	p.open(t)
	p.read(t)
	recordBackup(t, p, hour)
	return p
}

// open opens the store until the end of the test.
func (p *Deployment) open(t *testing.T) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), p.Config.Data)
	must(t, err)
	t.Cleanup(func() { st.Close() })
	p.Store, p.Embedded = st, &Embedded{TryWrite: st.TryWrite, Examine: st.Examine, QuickCheck: st.QuickCheck}
}

// read reads the directory again.
func (p *Deployment) read(t *testing.T) {
	t.Helper()
	var err error
	if p.Changes, err = p.Store.Changes(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
}

func recordBackup(t *testing.T, p *Deployment, age time.Duration) {
	t.Helper()
	auditLog := audit.Open(audit.Options{Directory: p.Config.AuditDirectory(), Node: "test", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	auditLog.Record(audit.Event{Name: audit.BackupMade, Time: p.Now.Time().Add(-age), Actor: "operator:test"})
	if err := auditLog.Close(); err != nil {
		t.Fatal(err)
	}
}

// certify creates a certificate for a host that expires after left.
func certify(t *testing.T, host string, left time.Duration) (cert, key, ca string) {
	t.Helper()
	dir := t.TempDir()
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	issuing := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test authority"}, NotBefore: now.Add(-100 * day), NotAfter: now.Add(100 * day),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	issuingDER, err := x509.CreateCertificate(rand.Reader, issuing, issuing, authority.Public(), authority)
	if err != nil {
		t.Fatal(err)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, NotBefore: now.Add(-90 * day), NotAfter: now.Add(left),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{host}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if host != "auth.example.com" {
		leaf.IPAddresses = nil
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, issuing, private.Public(), authority)
	if err != nil {
		t.Fatal(err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, ca = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	for _, f := range []struct {
		name, kind string
		der        []byte
	}{{cert, "CERTIFICATE", leafDER}, {key, "PRIVATE KEY", privateDER}, {ca, "CERTIFICATE", issuingDER}} {
		must(t, os.WriteFile(f.name, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600))
	}
	return cert, key, ca
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// change stores a changed client.
func (p *Deployment) change(t *testing.T, f func(*store.Client)) {
	t.Helper()
	c, err := p.Store.Client(t.Context(), "shop")
	must(t, err)
	c = c.Clone()
	f(&c)
	c.Version++
	must(t, p.Store.Commit(t.Context(), store.Change{Entries: []store.Entry{c.Entry()}}))
	p.read(t)
}

// old returns a change that makes the client and its secret as old as age.
func (p *Deployment) old(age time.Duration) func(*store.Client) {
	return func(c *store.Client) {
		c.CreatedAt = p.Now.Add(-age)
		for i := range c.Secrets {
			c.Secrets[i].CreatedAt = p.Now.Add(-age)
		}
	}
}
