package conformance_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/server"
)

func TestTL01_PlainHTTPIsRefusedWithoutARedirect(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	conn, err := net.Dial("tcp", d.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a, err := converse(conn, newRequest(good).text(), "POST")
	if err != nil {
		t.Fatal(err)
	}
	if a.status != 400 || a.header["Location"] != nil || strings.Contains(a.body, "access_token") {
		t.Errorf("over plain http: %d, Location %q", a.status, a.header["Location"])
	}
	d.mustIssue(d.post(good))
}

// Behind a declared proxy, the proxy reports the scheme of the request (step H2).
func TestTL01_BehindAProxyPlainHTTPIsRefused(t *testing.T) {
	d := start(t, func(o *options) {
		o.PlainHTTP = true
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	good := d.a.redeem(d.code(d.a).Code)
	for _, lines := range [][]string{nil, {"X-Forwarded-Proto: http"}, {"X-Forwarded-Proto: https", "X-Forwarded-Proto: http"}, {"X-Forwarded-Proto: https, http"}} {
		r := newRequest(good)
		r.header = append(r.header, lines...)
		a := d.send(r)
		if a.status != 400 || a.body != errorBody("invalid_request", "https required") {
			t.Errorf("%v: %v", lines, a)
		}
		compareHeader(t, a, "-Strict-Transport-Security")
	}
	r := newRequest(good)
	r.set("X-Forwarded-Proto", "https")
	d.mustIssue(d.send(r))
}

// An undeclared proxy on this machine is believed only when it reports plain HTTP.
func TestTL01_BehindAnUndeclaredProxyPlainHTTPIsRefused(t *testing.T) {
	d := start(t, func(o *options) { o.PlainHTTP = true })
	good := d.a.redeem(d.code(d.a).Code)
	for _, lines := range [][]string{{"X-Forwarded-Proto: http"}, {"X-Forwarded-Proto: https", "X-Forwarded-Proto: http"}, {"X-Forwarded-Proto: https, http"}} {
		r := newRequest(good)
		r.header = append(r.header, lines...)
		if a := d.send(r); a.status != 400 || a.body != errorBody("invalid_request", "https required") {
			t.Errorf("%v: %v", lines, a)
		}
	}
	d.mustIssue(d.post(good))
}

// handshake connects with a client's TLS configuration.
func (d *deployment) handshake(c *tls.Config) (tls.ConnectionState, error) {
	d.t.Helper()
	c.RootCAs, c.ServerName = d.roots, "127.0.0.1"
	conn, err := tls.Dial("tcp", d.address, c)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	return conn.ConnectionState(), nil
}

func TestTL02_TL04_OnlyTLS12And13(t *testing.T) {
	d := start(t)
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		if _, err := d.handshake(&tls.Config{MinVersion: version, MaxVersion: version}); err == nil {
			t.Errorf("%s is accepted", tls.VersionName(version))
		}
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		if state, err := d.handshake(&tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: version}); err != nil || state.Version != version {
			t.Errorf("%s: %s, %v", tls.VersionName(version), tls.VersionName(state.Version), err)
		}
	}
	// A ClientHello of SSL 3.0 with one cipher suite.
	hello := []byte{22, 3, 0, 0, 45, 1, 0, 0, 41, 3, 0}
	hello = append(hello, make([]byte, 32)...)
	hello = append(hello, 0, 0, 2, 0, 0x0a, 1, 0)
	conn, err := net.Dial("tcp", d.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	conn.Write(hello)
	if answer, _ := io.ReadAll(conn); len(answer) < 1 || answer[0] != 21 {
		t.Errorf("SSL 3.0 is answered with % x, want an alert", answer)
	}
}

func TestTL03_OnlyTheRecommendedCipherSuites(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaPair, err := selfSigned(rsaKey, &rsaKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := writePair(t, t.TempDir(), rsaPair)
	rsaCert, err := server.LoadCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	withECDSA := start(t)
	withRSA := &deployment{t: t, roots: x509.NewCertPool()}
	withRSA.roots.AppendCertsFromPEM(rsaPair[0])
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server.TLSConfig(rsaCert))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	withRSA.address = listener.Addr().String()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.(*tls.Conn).Handshake()
			conn.Close()
		}
	}()
	var accepted []string
	for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
			continue
		}
		for _, d := range []*deployment{withECDSA, withRSA} {
			if _, err := d.handshake(&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}}); err == nil {
				accepted = append(accepted, suite.Name)
			}
		}
	}
	slices.Sort(accepted)
	// The suites of RFC 9325 section 4.2, and ChaCha20 (recommended by IANA).
	want := []string{
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
		"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	}
	if !slices.Equal(accepted, want) {
		t.Errorf("accepted: %q", accepted)
	}
}

// Go's TLS server neither renegotiates nor compresses. Mintage's part is to present a new
// certificate without a restart.
func TestTL07_ANewCertificateIsPresentedWithoutARestart(t *testing.T) {
	first, err := makeCertificate()
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	second, err := selfSigned(rsaKey, &rsaKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile := writePair(t, dir, first)
	replace := func(pair [2][]byte, changed time.Time) {
		t.Helper()
		writePair(t, dir, pair)
		for _, name := range []string{certFile, keyFile} {
			if err := os.Chtimes(name, changed, changed); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := time.Now()
	synctest.Test(t, func(t *testing.T) {
		c, err := server.LoadCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		config := server.TLSConfig(c)
		presented := func() x509.PublicKeyAlgorithm {
			cert, err := config.GetCertificate(nil)
			if err != nil {
				t.Fatal(err)
			}
			return cert.Leaf.PublicKeyAlgorithm
		}
		for _, step := range []struct {
			pair [2][]byte
			want x509.PublicKeyAlgorithm
		}{
			{second, x509.RSA},
			{[2][]byte{first[0], second[1]}, x509.RSA}, // halves that do not match leave the last valid pair
			{[2][]byte{[]byte("garbage"), nil}, x509.RSA},
			{first, x509.ECDSA},
		} {
			now = now.Add(time.Minute)
			replace(step.pair, now)
			time.Sleep(time.Second)
			if got := presented(); got != step.want {
				t.Errorf("presented %v, want %v", got, step.want)
			}
		}
	})
}
