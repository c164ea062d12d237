//go:build e2e

package faults

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// writePair writes a self-signed certificate and its key, each atomically, and returns
// the certificate's bytes.
func writePair(t *testing.T, certFile, keyFile string, serial int64) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "reload"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	replace(t, certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return der
}

func replace(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// presented returns the certificate that a new handshake presents.
func presented(t *testing.T, host string) []byte {
	t.Helper()
	// The test compares the certificate and need not verify it.
	conn, err := tls.Dial("tcp", host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Raw
}

// TestTL07_CertificateIsReloaded replaces the certificate and its key while the server
// runs. When the new files are invalid, the last valid pair stays in service.
func TestTL07_CertificateIsReloaded(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	certFile, keyFile := filepath.Join(files, "cert.pem"), filepath.Join(files, "key.pem")
	first := writePair(t, certFile, keyFile, 1)
	s := binary.Start(t, t.TempDir(), "--tls-cert", certFile, "--tls-key", keyFile)
	u, err := url.Parse(s.TokenEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	is := func(want []byte) bool { return bytes.Equal(presented(t, u.Host), want) }
	// The server checks the files every second.
	shows := func(want []byte, when string) {
		t.Helper()
		time.Sleep(1100 * time.Millisecond)
		if !is(want) {
			t.Fatalf("%s: another certificate is presented", when)
		}
	}
	if !is(first) {
		t.Fatal("the server does not present its certificate")
	}
	// An existing connection must survive the reload.
	old, err := tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	second := writePair(t, certFile, keyFile, 2)
	shows(second, "the new pair")
	old.SetDeadline(time.Now().Add(time.Minute))
	if _, err := old.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Error(err)
	}
	if n, err := old.Read(make([]byte, 16)); n == 0 {
		t.Errorf("an old connection has ended: %v", err)
	}

	replace(t, certFile, []byte("-----BEGIN CERTIFICATE-----\nbroken\n"))
	shows(second, "a broken certificate")
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	shows(second, "no certificate")
	third := writePair(t, certFile, keyFile, 3)
	shows(third, "the third pair")
	// A new certificate is not used before its key is there, too.
	kept := filepath.Join(files, "kept.pem")
	fourth := writePair(t, certFile, kept, 4)
	shows(third, "a certificate without its key")
	if err := os.Rename(kept, keyFile); err != nil {
		t.Fatal(err)
	}
	shows(fourth, "the fourth pair")
}
