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
		template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"auth.example.com"}, NotBefore: time.Now().Add(-60 * day), NotAfter: time.Now().Add(left)}
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
