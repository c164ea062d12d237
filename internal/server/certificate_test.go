package server

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/testkit"
)

// A signer is a certificate and its key.
type signer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func mustKey[K crypto.Signer](t *testing.T, key K, err error) crypto.Signer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func p256(t *testing.T) crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return mustKey(t, key, err)
}

// issue creates a certificate for a key, self-signed if by is nil.
func issue(t *testing.T, key crypto.Signer, by *signer, change ...func(*x509.Certificate)) *signer {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "auth.example.com"}, DNSNames: []string{"auth.example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(60 * 24 * time.Hour),
	}
	for _, f := range change {
		f(template)
	}
	parent, with := template, key
	if by != nil {
		parent, with = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), with)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{cert, key}
}

func authority(c *x509.Certificate) {
	c.Subject = pkix.Name{CommonName: "authority"}
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
}

// storePair writes the files of a certificate with its chain.
func storePair(t *testing.T, s *signer, chain ...*signer) (cert, key string) {
	t.Helper()
	var text []byte
	for _, c := range append([]*signer{s}, chain...) {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw})...)
	}
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, text := range map[string][]byte{cert: text, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestTL05_WeakKeysAreRefused(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0") // otherwise the standard library makes no such short keys
	smallRSA, err := rsa.GenerateKey(rand.Reader, 1024)
	weak := mustKey(t, smallRSA, err)
	smallCurve, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	small := mustKey(t, smallCurve, err)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	ed := mustKey(t, edwards, err)
	root := issue(t, p256(t), nil, authority)
	for name, c := range map[string]struct {
		leaf  *signer
		chain []*signer
		want  string
	}{
		"P-256":                   {issue(t, p256(t), root), []*signer{root}, ""},
		"Ed25519":                 {issue(t, ed, root), []*signer{root}, ""},
		"RSA 1024":                {issue(t, weak, root), nil, "its RSA key has 1024 bits, and at least 2048 are required"},
		"P-224":                   {issue(t, small, root), nil, "its key is of the curve P-224, and at least P-256 is required"},
		"RSA 1024 above the leaf": {issue(t, p256(t), nil), []*signer{issue(t, weak, nil, authority)}, "certificate 2 of the chain: its RSA key has 1024 bits"},
	} {
		cert, key := storePair(t, c.leaf, c.chain...)
		_, err := LoadCertificate(cert, key, slog.New(slog.DiscardHandler))
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), cert)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestAPrivateKeyThatEverybodyCanReadIsRefused also at a renewal, when the old
// certificate stays in service.
func TestAPrivateKeyThatEverybodyCanReadIsRefused(t *testing.T) {
	cert, key := storePair(t, issue(t, p256(t), nil))
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o440: false, 0o644: true, 0o602: true} {
		if err := os.Chmod(key, mode); err != nil {
			t.Fatal(err)
		}
		_, err := loadPair(cert, key)
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), key+": everybody on this machine can read or change the private key") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

func TestAnEncryptedPrivateKeyIsNamed(t *testing.T) {
	cert, key := storePair(t, issue(t, p256(t), nil))
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("0")}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadPair(cert, key); err == nil || !strings.Contains(err.Error(), key+" is encrypted") {
		t.Error(err)
	}
}

func TestTL05_DoubtsAboutChainNameAndDatesAreTold(t *testing.T) {
	root := issue(t, p256(t), nil, authority)
	other := issue(t, p256(t), nil, authority)
	now := time.Now()
	const host = "auth.example.com"
	for name, c := range map[string]struct {
		leaf  *signer
		chain []*signer
		host  string
		now   time.Time
		want  string
	}{
		"good":                   {issue(t, p256(t), root), []*signer{root}, host, now, ""},
		"good, private issuer":   {issue(t, p256(t), root), nil, host, now, ""},
		"good, of itself":        {issue(t, p256(t), nil), nil, host, now, ""},
		"good, of short life":    {issue(t, p256(t), root, func(c *x509.Certificate) { c.NotAfter = now.Add(6 * 24 * time.Hour) }), nil, host, now, ""},
		"name not known":         {issue(t, p256(t), root), nil, "", now, ""},
		"another name":           {issue(t, p256(t), root), nil, "id.example.com", now, "is not for id.example.com"},
		"expired":                {issue(t, p256(t), root), nil, host, now.Add(61 * 24 * time.Hour), "has expired"},
		"not yet good":           {issue(t, p256(t), root), nil, host, now.Add(-2 * time.Hour), "check this machine's clock"},
		"soon over, short life":  {issue(t, p256(t), root, func(c *x509.Certificate) { c.NotAfter = now.Add(6 * 24 * time.Hour) }), nil, host, now.Add(5 * 24 * time.Hour), "check its renewal"},
		"16 days of 60 are left": {issue(t, p256(t), root), nil, host, now.Add(44 * 24 * time.Hour), ""},
		"14 days of 60 are left": {issue(t, p256(t), root), nil, host, now.Add(46 * 24 * time.Hour), "check its renewal"},
		"22 days before its end": {issue(t, p256(t), root, func(c *x509.Certificate) { c.NotAfter = now.Add(90 * 24 * time.Hour) }), nil, host, now.Add(68 * 24 * time.Hour), ""},
		"20 days before its end": {issue(t, p256(t), root, func(c *x509.Certificate) { c.NotAfter = now.Add(90 * 24 * time.Hour) }), nil, host, now.Add(70 * 24 * time.Hour), "check its renewal"},
		"another's chain":        {issue(t, p256(t), root), []*signer{other}, host, now, "the chain is out of order"},
		"no intermediate there":  {issue(t, p256(t), root, func(c *x509.Certificate) { c.IssuingCertificateURL = []string{"http://ca.example/i.der"} }), nil, host, now, "fullchain.pem"},
	} {
		cert, key := storePair(t, c.leaf, c.chain...)
		pair, err := loadPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(doubts(&pair, c.host, c.now), "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAKeyThatTheUserMayNotRead(t *testing.T) {
	cert, key := storePair(t, issue(t, p256(t), nil))
	if err := errors.Join(os.Chmod(key, 0), os.Chmod(cert, 0)); err != nil {
		t.Fatal(err)
	}
	err := testkit.AsNobody(func() error {
		_, err := loadPair(cert, key)
		return err
	})
	if err == nil || !strings.HasSuffix(err.Error(), "permission denied: let the server's user or its group read it") {
		t.Error(err)
	}
}

// TestABadCertificateDoesNotReplaceAGoodOne replaces the certificate files of a running
// server.
func TestABadCertificateDoesNotReplaceAGoodOne(t *testing.T) {
	at := func(from, to time.Duration) *signer {
		return issue(t, p256(t), nil, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now().Add(from), time.Now().Add(to) })
	}
	good, expired, older, early := at(-time.Hour, time.Hour), at(-2*time.Hour, -time.Minute), at(-2*time.Hour, -time.Hour), at(time.Minute, time.Hour)
	for name, step := range map[string]struct {
		before, after *signer
		used          bool
		why           string
	}{
		"expired":                      {good, expired, false, "it has expired at"},
		"not yet valid":                {good, early, false, "check this machine's clock"},
		"renewed":                      {expired, good, true, ""},
		"expired as well, but later":   {older, expired, true, ""},
		"expired as well, and earlier": {expired, older, false, "it has expired at"},
		"not yet valid, after the end": {expired, early, true, ""},
	} {
		cert, key := storePair(t, step.before)
		old := time.Now().Add(-time.Minute)
		if err := errors.Join(os.Chtimes(cert, old, old), os.Chtimes(key, old, old)); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		c, err := LoadCertificate(cert, key, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		nextCert, nextKey := storePair(t, step.after)
		for from, to := range map[string]string{nextCert: cert, nextKey: key} {
			if err := errors.Join(os.Rename(from, to), os.Chtimes(to, time.Now(), time.Now().Add(time.Minute))); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 { // the server checks the files
			c.mu.Lock()
			c.looked = time.Now().Add(-time.Minute)
			c.mu.Unlock()
			c.Current()
		}
		if used := c.Current().Leaf.Equal(step.after.cert); used != step.used || c.Refused() == step.used {
			t.Errorf("%s: used %t, refused %t", name, used, c.Refused())
		}
		// The previous files, with their times, are in service again.
		if !step.used {
			before, beforeKey := storePair(t, step.before)
			for from, to := range map[string]string{before: cert, beforeKey: key} {
				if err := errors.Join(os.Rename(from, to), os.Chtimes(to, old, old)); err != nil {
					t.Fatal(err)
				}
			}
			c.mu.Lock()
			c.looked = time.Now().Add(-time.Minute)
			c.mu.Unlock()
			if !c.Current().Leaf.Equal(step.before.cert) || c.Refused() {
				t.Errorf("%s, then as before: refused %t", name, c.Refused())
			}
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != map[bool]int{true: 0, false: 1}[step.used] || !strings.Contains(log.String(), step.why) {
			t.Errorf("%s: the log has\n%s", name, log.String())
		}
	}
}

func TestTL05_AWeakKeyLeavesTheGoodCertificateInService(t *testing.T) {
	root := issue(t, p256(t), nil, authority)
	cert, key := storePair(t, issue(t, p256(t), root), root)
	var log bytes.Buffer
	c, err := LoadCertificate(cert, key, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	c.Expect("https://id.example.com:8443")
	if !strings.Contains(log.String(), "id.example.com, the host of public_url") {
		t.Errorf("the log has %q", log.String())
	}
	good := c.Current()
	smallCurve, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	weakCert, weakKey := storePair(t, issue(t, mustKey(t, smallCurve, err), root))
	for from, to := range map[string]string{weakCert: cert, weakKey: key} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err == nil {
			err = os.Chtimes(to, time.Now(), time.Now().Add(time.Minute))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.mu.Lock()
	c.looked = time.Now().Add(-time.Minute)
	c.mu.Unlock()
	if now := c.Current(); now != good || !strings.Contains(log.String(), "the old one stays in service") {
		t.Errorf("the weak one is used; the log has %q", log.String())
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		t.Errorf("the files themselves are at fault: %v", err)
	}
}
