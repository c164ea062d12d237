package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// config check refuses what a start would fail with, although each value is well-formed.
func TestConfigCheckRefusesWhatAStartRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		store bool
		want  string
	}{
		"no such group":     {[]string{"--admin-group", "nobody-has-this-group"}, false, "admin.group: group: unknown group nobody-has-this-group"},
		"no such directory": {[]string{"--admin-listen", "unix:/nowhere/at/all/admin.sock"}, false, "admin.listen: find the directory of the socket: "},
		"one of a service":  {[]string{"--admin-listen", "unix:/run/nothing-yet/admin.sock"}, false, ""},
		"a long path":       {[]string{"--admin-listen", "unix:/tmp/" + strings.Repeat("a", 103)}, false, "has 108 bytes, and a socket's path has at most 107"},
		"a file":            {[]string{"--audit-directory", "config_test.go"}, false, "audit.directory: config_test.go is no directory"},
		"two listeners":     {[]string{"--management-listen", "127.0.0.1:8443"}, false, "management.listen: "},
		"no key":            {nil, true, "kek_file: the key-encryption key is missing: "},
		"nothing yet":       {nil, false, ""},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if c.store {
			if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "mintage.db"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		root := Root("test")
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetArgs(append([]string{"config", "check", "--data", dir, "--public-url", "https://auth.example.com:8443", "--listen", "127.0.0.1:8443", "--trusted-proxies", "127.0.0.1"}, c.args...))
		if err := root.Execute(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// config check warns 21 days before a certificate expires, and accepts it.
func TestConfigCheckWarnsBeforeACertificateExpires(t *testing.T) {
	const day = 24 * time.Hour
	for left, want := range map[time.Duration]string{20 * day: "mintage: warning: the certificate expires at ", 22 * day: "", -time.Hour: "mintage: warning: the certificate has expired at "} {
		dir := t.TempDir()
		cert, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"auth.example.com"}, NotBefore: time.Now().Add(-70 * day), NotAfter: time.Now().Add(left)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(key)
		err = errors.Join(err,
			os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
			os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		var warned strings.Builder
		root := Root("test")
		root.SetOut(io.Discard)
		root.SetErr(&warned)
		root.SetArgs([]string{"config", "check", "--data", dir, "--public-url", "https://auth.example.com:8443", "--tls-cert", cert, "--tls-key", keyFile})
		if err := root.Execute(); err != nil || (warned.Len() == 0) != (want == "") || !strings.HasPrefix(warned.String(), want) {
			t.Errorf("%s before the end: %v, %q, want %q", left, err, warned.String(), want)
		}
	}
}
