package server_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/server"
)

// files are the two files of a certificate.
type files struct{ cert, key string }

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

// pair creates a certificate with a serial number, and its key.
func pair(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// write gives each version of a file a different time, because two versions within one
// tick of the file system's clock look the same.
func write(t *testing.T, name string, text []byte, version int) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000+int64(version), 0)
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

func serial(c *server.Certificate) int64 { return c.Current().Leaf.SerialNumber.Int64() }

func TestANewCertificateIsUsedFromTheNextHandshakeThatComesASecondLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFiles(t)
		var log bytes.Buffer
		cert, key := pair(t, 1)
		write(t, f.cert, cert, 1)
		write(t, f.key, key, 1)
		c, err := server.LoadCertificate(f.cert, f.key, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		expect := func(when string, want int64) {
			t.Helper()
			if got := serial(c); got != want {
				t.Errorf("%s: certificate %d, want %d", when, got, want)
			}
		}
		expect("at first", 1)
		newCert, newKey := pair(t, 2)
		write(t, f.cert, newCert, 2)
		write(t, f.key, newKey, 2)
		expect("at once", 1)
		time.Sleep(time.Second)
		expect("a second later", 2)
		if !strings.Contains(log.String(), "certificate reloaded") {
			t.Error("the reload was not logged")
		}
		log.Reset()
		time.Sleep(time.Hour)
		expect("with nothing new", 2)
		if log.Len() != 0 {
			t.Errorf("logged without a reason: %s", log.String())
		}
	})
}

func TestFilesThatCannotBeUsedLeaveTheLastGoodCertificateInService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFiles(t)
		var log bytes.Buffer
		cert, key := pair(t, 1)
		write(t, f.cert, cert, 1)
		write(t, f.key, key, 1)
		c, err := server.LoadCertificate(f.cert, f.key, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		newCert, newKey := pair(t, 2)
		step := func(what string, change func(), want int64, faults int) {
			t.Helper()
			log.Reset()
			change()
			time.Sleep(time.Second)
			if got := serial(c); got != want {
				t.Errorf("%s: certificate %d, want %d", what, got, want)
			}
			if n := strings.Count(log.String(), "cannot use the new certificate"); n != faults {
				t.Errorf("%s: logged %d times, want %d", what, n, faults)
			}
		}
		// A renewal writes one file after the other.
		step("the new certificate with the old key", func() { write(t, f.cert, newCert, 2) }, 1, 1)
		step("no key", func() { os.Remove(f.key) }, 1, 1)
		step("half a key", func() { write(t, f.key, newKey[:40], 3) }, 1, 1)
		step("still half a key", func() {}, 1, 0)
		// A file that was read during a write may keep its time.
		step("the whole key", func() { write(t, f.key, newKey, 3) }, 2, 0)
		step("no certificate", func() { os.Remove(f.cert) }, 2, 1)
		step("the first again", func() { write(t, f.cert, cert, 5); write(t, f.key, key, 5) }, 1, 0)
	})
}

func TestFilesThatDoNotFitAreRefusedAtTheStart(t *testing.T) {
	f := newFiles(t)
	cert, _ := pair(t, 1)
	_, key := pair(t, 2)
	log := slog.New(slog.DiscardHandler)
	if _, err := server.LoadCertificate(f.cert, f.key, log); err == nil || !strings.Contains(err.Error(), f.cert) {
		t.Errorf("no files: %v", err)
	}
	write(t, f.cert, cert, 1)
	write(t, f.key, key, 1)
	if _, err := server.LoadCertificate(f.cert, f.key, log); err == nil || !strings.Contains(err.Error(), f.key) {
		t.Errorf("another certificate's key: %v", err)
	}
}

// BCP 195 (RFC 9325) sections 3.1.1 and 4.2.
func TestOnlyRecommendedVersionsAndCipherSuitesAreOffered(t *testing.T) {
	f := newFiles(t)
	cert, key := pair(t, 1)
	write(t, f.cert, cert, 1)
	write(t, f.key, key, 1)
	c, err := server.LoadCertificate(f.cert, f.key, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	config := server.TLSConfig(c)
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.(*tls.Conn).HandshakeContext(t.Context())
			conn.Close()
		}
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	handshake := func(change func(*tls.Config)) error {
		client := &tls.Config{RootCAs: roots, ServerName: "localhost"}
		change(client)
		conn, err := tls.Dial("tcp", l.Addr().String(), client)
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := handshake(func(*tls.Config) {}); err != nil {
		t.Errorf("a client of today: %v", err)
	}
	if err := handshake(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	}
	if err := handshake(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	suites := append(tls.CipherSuites(), tls.InsecureCipherSuites()...)
	for _, suite := range suites {
		if suite.SupportedVersions[0] == tls.VersionTLS13 {
			continue
		}
		recommended := strings.HasPrefix(suite.Name, "TLS_ECDHE_") && (strings.Contains(suite.Name, "_GCM_") || strings.Contains(suite.Name, "CHACHA20_POLY1305"))
		// The certificate has an elliptic curve key, so only its suites can be used.
		want := recommended && strings.HasPrefix(suite.Name, "TLS_ECDHE_ECDSA_")
		err := handshake(func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{suite.ID}
		})
		if (err == nil) != want {
			t.Errorf("%s: %v, accepted %t is wanted", suite.Name, err, want)
		}
	}
}
