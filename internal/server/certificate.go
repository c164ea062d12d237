package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/secretfile"
)

// loadPair reads a certificate and its key. It refuses a weak key or signature (RFC 9325
// sections 4.4 and 4.5), as clients do or should, and a key file that everybody can read.
// A group may read it, as with other secret files.
func loadPair(certFile, keyFile string) (tls.Certificate, error) {
	if err := private(keyFile); err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		if text, _ := os.ReadFile(keyFile); bytes.Contains(text, []byte("ENCRYPTED")) {
			err = fmt.Errorf("%s is encrypted, and the server cannot enter a passphrase: decrypt it with openssl pkey", keyFile)
		}
		if errors.Is(err, fs.ErrPermission) {
			err = fmt.Errorf("%w: let the server's user or its group read it", err)
		}
		return pair, err
	}
	for i, der := range pair.Certificate {
		c, err := x509.ParseCertificate(der)
		if err == nil {
			err = strong(c)
		}
		if err != nil {
			return pair, fmt.Errorf("certificate %d of the chain: %w", i+1, err)
		}
	}
	return pair, nil
}

var weakSignatures = []x509.SignatureAlgorithm{
	x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1,
}

func strong(c *x509.Certificate) error {
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < 2048 {
			return fmt.Errorf("its RSA key has %d bits, and at least 2048 are required: create a new key and a certificate for it", key.N.BitLen())
		}
	case *ecdsa.PublicKey:
		if key.Curve.Params().BitSize < 256 {
			return fmt.Errorf("its key is of the curve %s, and at least P-256 is required: create a new key and a certificate for it", key.Curve.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return errors.New("its key is of a type that clients do not support: use ECDSA (P-256), RSA (2048 bits) or Ed25519")
	}
	if slices.Contains(weakSignatures, c.SignatureAlgorithm) && c.CheckSignatureFrom(c) != nil && !slices.Equal(c.RawIssuer, c.RawSubject) {
		return fmt.Errorf("it is signed with %s, which clients refuse: renew it", c.SignatureAlgorithm)
	}
	return nil
}

// ExpiryWarning is the remaining lifetime at which the renewal of a certificate is
// overdue: certificates of ninety days are renewed a month before they expire.
const ExpiryWarning = 21 * 24 * time.Hour

// ExpiresSoon reports whether the renewal of a certificate is overdue. If its lifetime is
// less than twelve weeks, the renewal is overdue when a quarter of it is left, because
// renewal programs act when a third is left.
func ExpiresSoon(c *x509.Certificate, now time.Time) bool {
	return c.NotAfter.Sub(now) < min(ExpiryWarning, c.NotAfter.Sub(c.NotBefore)/4)
}

// doubts lists probable faults of a certificate, even if some clients accept it; each
// item says what to do. Host is the name that clients use, or "" if unknown.
func doubts(pair *tls.Certificate, host string, now time.Time) (list []string) {
	leaf := pair.Leaf
	switch {
	case now.After(leaf.NotAfter):
		list = append(list, "the certificate has expired at "+leaf.NotAfter.UTC().Format(time.RFC3339)+": renew it")
	case now.Before(leaf.NotBefore):
		list = append(list, "the certificate is not valid before "+leaf.NotBefore.UTC().Format(time.RFC3339)+": check this machine's clock")
	case ExpiresSoon(leaf, now):
		list = append(list, "the certificate expires at "+leaf.NotAfter.UTC().Format(time.RFC3339)+": check its renewal")
	}
	if host != "" && leaf.VerifyHostname(host) != nil {
		list = append(list, "the certificate is not for "+host+", the host of public_url: clients that connect directly refuse it")
	}
	below := leaf
	for _, der := range pair.Certificate[1:] {
		above, err := x509.ParseCertificate(der)
		if err != nil || below.CheckSignatureFrom(above) != nil {
			list = append(list, "the chain is out of order: each certificate of tls.cert must have signed the one before it")
			break
		}
		below = above
	}
	if len(pair.Certificate) == 1 && !slices.Equal(leaf.RawIssuer, leaf.RawSubject) && leaf.IssuingCertificateURL != nil {
		// A public authority signs with an intermediate, and gives its URL in the leaf.
		list = append(list, "tls.cert holds no intermediate certificate: give the whole chain (fullchain.pem), or clients cannot verify it")
	}
	return list
}

// worse returns an error if next must not replace the certificate in service: next has
// expired and the other expires later, or next is not valid yet and the other is.
func (c *Certificate) worse(next *x509.Certificate, now time.Time) error {
	have := c.current.Leaf
	switch {
	case now.After(next.NotAfter) && have.NotAfter.After(next.NotAfter):
		return errors.New("it has expired at " + next.NotAfter.UTC().Format(time.RFC3339) + ": renew it")
	case now.Before(next.NotBefore) && !now.Before(have.NotBefore) && now.Before(have.NotAfter):
		return errors.New("it is not valid before " + next.NotBefore.UTC().Format(time.RFC3339) + ": the server loads it then; check this machine's clock if it should be valid now")
	}
	return nil
}

// Refused reports whether the files were rejected when they were last read, so that an
// earlier certificate is still in service.
func (c *Certificate) Refused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused != ""
}

// Doubts lists probable faults of the certificate in service, for clients that use
// publicURL.
func (c *Certificate) Doubts(publicURL string) []string {
	host := ""
	if u, err := url.Parse(publicURL); err == nil {
		host = u.Hostname()
	}
	return doubts(c.Current(), host, time.Now())
}

// Expect sets the address that clients use. From now on, a certificate that is not valid
// for its host causes a warning in the log, as other doubts do.
func (c *Certificate) Expect(publicURL string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u, err := url.Parse(publicURL); err == nil {
		c.host = u.Hostname()
	}
	c.warn()
}

// warn logs the doubts about the certificate in service.
func (c *Certificate) warn() {
	for _, doubt := range doubts(c.current, c.host, time.Now()) {
		c.log.Warn(doubt, "certificate", c.certFile)
	}
}

// A Certificate is a certificate and its key in two files. Handshakes check for new
// files, at most once a second.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	looked  time.Time
	changed [2]time.Time
	current *tls.Certificate
	host    string // that clients use, if it is known
	refused string // why the files at hand are not in service; "" if they are
}

// LoadCertificate reads the files; it fails if they do not fit together.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, looked: time.Now()}
	var err error
	if c.changed, err = c.times(); err != nil {
		return nil, err
	}
	pair, err := loadPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	c.current = &pair
	return c, nil
}

// Current returns the certificate to present. If the files cannot be used, the
// previous certificate stays in service until a later check accepts them.
func (c *Certificate) Current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= time.Second {
		c.looked = now
		c.reload()
	}
	return c.current
}

// private returns an error if every user of the machine can read or change a file with
// a private key. It ignores a missing file, which the caller fails to read.
func private(keyFile string) error {
	info, err := os.Stat(keyFile)
	if err != nil || info.Mode().Perm()&0o006 == 0 {
		return nil
	}
	return fmt.Errorf("%s: everybody on this machine can read or change the private key (mode %04o): run %s (in Kubernetes: defaultMode: 0440)", keyFile, info.Mode().Perm(), secretfile.UserOf("").Close(keyFile, "o="))
}

func (c *Certificate) reload() {
	changed, err := c.times()
	if err == nil && changed == c.changed {
		c.refused = "" // the files in service are back
		return
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = loadPair(c.certFile, c.keyFile)
	}
	if err == nil {
		err = c.worse(pair.Leaf, time.Now())
	}
	if err != nil {
		if why := err.Error(); why != c.refused {
			c.refused = why
			c.log.Error("cannot use the new certificate; the old one stays in service", "certificate", c.certFile, "error", err)
		}
		return
	}
	c.changed, c.current, c.refused = changed, &pair, ""
	c.log.Info("certificate reloaded", "certificate", c.certFile, "expires", pair.Leaf.NotAfter)
	c.warn()
}

func (c *Certificate) times() (t [2]time.Time, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return t, fmt.Errorf("certificate: %w", err)
		}
		t[i] = info.ModTime()
	}
	return t, nil
}
