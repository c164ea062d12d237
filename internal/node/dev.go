package node

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/demo"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// This file prepares the --dev server: certificate, demo client and demo user.

const devCallback = "https://client.example/callback"

// devRedirects are the redirect URIs of the demo client: an address that leads nowhere, so
// that people read the code in the browser, and those of programs under development on any
// port of this machine.
var devRedirects = []string{devCallback, "http://127.0.0.1/callback", "http://localhost/callback"}

// devScope is the scope of the demo client: the one to sign its user in, and two scopes
// without a meaning.
const devScope = "openid profile email read write"

// devAddress returns the address of the public listener, which is part of the
// issuer. For port 0 it opens the listener, to reserve a free port.
func devAddress(cfg config.Config) (net.Listener, net.Addr, error) {
	if tcp, err := net.ResolveTCPAddr("tcp", cfg.Listen); err == nil && tcp.Port != 0 {
		return nil, tcp, nil
	}
	l, err := listenPublic(cfg)
	if err != nil {
		return nil, nil, err
	}
	return l, l.Addr(), nil
}

// prepareDev sets the addresses that the configuration does not set, and the paths of the
// certificate.
func prepareDev(cfg *config.Config, addr net.Addr) error {
	tcp := addr.(*net.TCPAddr)
	if !tcp.IP.IsLoopback() {
		return deployment.Usage(deployment.Hint(fmt.Errorf("--dev listens on this machine only, not on %s", tcp),
			"for other machines, prepare public_url, tls.cert and tls.key, and leave out --dev"))
	}
	dir, err := filepath.Abs(cfg.Data)
	if err != nil {
		return err
	}
	cfg.Data = dir
	cfg.PublicURL = cmp.Or(cfg.PublicURL, "https://"+tcp.String())
	if at := devConsole(tcp); cfg.Console.Listen == "" && at != cfg.Management.Listen { // a --dev server has a console by default
		cfg.Console.Listen = at
	}
	cfg.Pages.Name = cmp.Or(cfg.Pages.Name, "Mintage") // instead of the address
	if cfg.TLS.Cert == "" {
		cfg.TLS.Cert, cfg.TLS.Key = deployment.DevCertificate(*cfg)
	}
	cfg.Share()
	return nil
}

// makeDevFiles creates the certificate, unless one is configured. It refuses a
// production data directory: the demo client's secret is in a file.
func makeDevFiles(ctx context.Context, cfg config.Config, addr net.Addr, st store.Store) error {
	if _, err := os.Stat(deployment.DevFile(cfg)); errors.Is(err, fs.ErrNotExist) {
		id, err := realClient(ctx, st)
		if err != nil {
			return err
		}
		if id != "" {
			return deployment.Hint(fmt.Errorf("%s holds client %q and no dev.json: it is not a directory of --dev", cfg.Data, id),
				"name another one with --data, or leave out --dev")
		}
	}
	if cert, key := deployment.DevCertificate(cfg); cfg.TLS.Cert == cert && cfg.TLS.Key == key {
		u, err := url.Parse(cfg.PublicURL)
		if err != nil {
			return err
		}
		return makeDevCertificate(deployment.DevCAFile(cfg), cert, key, addr.(*net.TCPAddr).IP, u.Hostname())
	}
	return nil
}

// realClient returns an enabled client that is not the demo client, or "". After an
// interrupted first start, the demo client exists without dev.json.
func realClient(ctx context.Context, st store.Store) (string, error) {
	ch, err := st.Changes(ctx, 0)
	if err != nil {
		return "", err
	}
	for _, c := range ch.Clients {
		if c.State != store.ClientEnabled {
			continue
		}
		events, err := st.Events(ctx, c.ID, 1)
		if err != nil {
			return "", err
		}
		for _, e := range events {
			if e.Name == store.EventClientCreated && e.Actor != devActor {
				return c.ID, nil
			}
		}
	}
	return "", nil
}

// warnOfDemo warns a server without --dev of an enabled demo client.
func warnOfDemo(cfg config.Config, dir *directory.Directory, log *slog.Logger) {
	info, err := deployment.ReadDevFile(cfg)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		log.Warn("cannot determine which client is the demo client of --dev", "file", deployment.DevFile(cfg), "error", err)
		return
	}
	view, err := dir.View()
	if err != nil {
		return // no client can authenticate
	}
	if _, enabled := view.Client(oauth.DefaultRealm, info.ClientID); enabled {
		log.Warn("the demo client of --dev is enabled, and its secret is in a file", "client_id", info.ClientID, "file", deployment.DevFile(cfg),
			"advice", "mintage client delete "+info.ClientID+" --yes --data "+show.Quote(cfg.Data))
	}
}

// makeDevCertificate writes a certificate authority and a certificate for the
// listener's address and the host of public_url, unless valid ones exist. It does
// not keep the authority's key.
func makeDevCertificate(caFile, certFile, keyFile string, ip net.IP, host string) error {
	if devCertificateFits(caFile, certFile, ip.String(), host) {
		return nil
	}
	names, addresses := []string{"localhost"}, []net.IP{ip, net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	if other := net.ParseIP(host); other != nil {
		addresses = append(addresses, other)
	} else if host != "localhost" {
		names = append(names, host)
	}
	now := time.Now()
	sign := func(c, parent *x509.Certificate, by *ecdsa.PrivateKey) (key *ecdsa.PrivateKey, der []byte, err error) {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, nil, err
		}
		if by == nil {
			by = key
		}
		der, err = x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
		return key, der, err
	}
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Mintage --dev authority"}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey, caDER, err := sign(ca, ca, nil)
	if err != nil {
		return err
	}
	key, der, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "Mintage --dev"}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 6, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: names, IPAddresses: addresses,
	}, ca, caKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		writePEM(keyFile, 0o600, "PRIVATE KEY", keyDER),
		writePEM(certFile, 0o644, "CERTIFICATE", der),
		writePEM(caFile, 0o644, "CERTIFICATE", caDER),
	)
}

func devCertificateFits(caFile, certFile, address, host string) bool {
	read := func(name string) *x509.Certificate {
		text, _ := os.ReadFile(name)
		block, _ := pem.Decode(text)
		if block == nil {
			return nil
		}
		c, _ := x509.ParseCertificate(block.Bytes)
		return c
	}
	ca, cert := read(caFile), read(certFile)
	return ca != nil && cert != nil && cert.CheckSignatureFrom(ca) == nil &&
		time.Until(cert.NotAfter) > 24*time.Hour && cert.VerifyHostname(address) == nil && cert.VerifyHostname(host) == nil
}

func writePEM(name string, mode os.FileMode, kind string, der []byte) error {
	return deployment.ReplaceFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

// makeDemo creates the demo client and user and, if there is a console, an invitation to
// it.
func (n *node) makeDemo(ctx context.Context, cfg config.Config, listeners []listener) (invitation string, err error) {
	demo, err := finishDev(ctx, cfg, n.store, n.directory, listeners)
	if err != nil {
		return "", err
	}
	n.demo.Store(&demo)
	if len(listeners) > 3 { // there is a console
		// While another process locks the store, the server starts all the same, and
		// answers 503.
		if invitation, err = inviteDev(ctx, cfg, n.store); err != nil {
			n.log.Warn("cannot make an invitation to the console: run mintage console invite dev", "error", err)
		}
	}
	return invitation, nil
}

// finishDev creates the demo client, unless dev.json names an existing one, and
// writes dev.json.
func finishDev(ctx context.Context, cfg config.Config, st store.Store, dir *directory.Directory, listeners []listener) (deployment.DevInfo, error) {
	var info deployment.DevInfo
	if text, err := os.ReadFile(deployment.DevFile(cfg)); err == nil {
		_ = json.Unmarshal(text, &info) // a damaged file is written anew
	}
	view, err := dir.Current(ctx)
	if err != nil {
		return info, err
	}
	if _, there := view.Client(oauth.DefaultRealm, info.ClientID); !there {
		now := grant.At(time.Now())
		c, secret, err := client.Registration{Settings: store.Settings{
			Name: "Demo client of --dev", RedirectURIs: append(slices.Clone(devRedirects), demoCallback(cfg)), Scope: devScope, Auth: store.AuthEither, NoPKCE: true,
			Native: true, FirstParty: true,
		}}.Client(oauth.DefaultRealm, view.Ring, grant.Policy{AccessLifetime: cfg.AccessTokenLifetime.Std()}, now)
		if err != nil {
			return info, err
		}
		event := store.Event{At: now, Name: store.EventClientCreated, About: c.ID, Actor: devActor, Detail: c.Name}
		if err := errors.Join(st.Commit(ctx, store.Change{Entries: []store.Entry{c.Entry()}, Events: []store.Event{event}}), dir.Poll(ctx)); err != nil {
			return info, err
		}
		info.ClientID, info.ClientSecret = c.ID, string(secret)
	}
	if err := errors.Join(admitDemoPage(ctx, cfg, st, dir, info), makeDevUser(ctx, cfg, st, &info)); err != nil {
		return info, err
	}
	info.Issuer = cfg.IssuerID()
	info.Listen = listeners[0].Addr().String()
	info.TokenEndpoint = cfg.PublicURL + cfg.BasePath + "/oauth2/access_token?realm=" + oauth.DefaultRealm
	info.CAFile = deployment.DevCAFile(cfg)
	info.RedirectURI = devCallback
	info.DemoPage = ""
	if cfg.Login.Mode != config.LoginOff {
		info.DemoPage = cfg.PublicURL + cfg.BasePath + demo.Path
	}
	info.Console = cfg.ConsoleURL()
	info.AdminSocket = listeners[2].Addr().String()
	info.Management = "http://" + listeners[1].Addr().String()
	text, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return info, err
	}
	// Replace it atomically: scripts wait for the file, and a full disk must not lose the secret.
	return info, deployment.ReplaceFile(deployment.DevFile(cfg), append(text, '\n'), 0o600)
}

// printDev prints commands to paste. The commands issue a code themselves, because a
// printed code would expire within a minute. They name this executable by its path: go run
// does not put it into the PATH.
func printDev(w io.Writer, cfg config.Config, d deployment.DevInfo, invitation string) {
	self, err := os.Executable()
	if err != nil {
		self = "mintage"
	}
	last := 4
	if d.DemoPage == "" { // no step 3: nobody can sign in
		last = 3
	}
	fmt.Fprintf(w, `
Mintage is serving on %s (for trying out; stop it with Ctrl-C).

1. Redeem a code for a pair of tokens (paste into another terminal):

code=$(%[2]s code issue --data %[3]s%[11]s --client %[4]s --redirect-uri %[5]s --subject alice --scope 'read write')
curl --silent --cacert %[6]s '%[7]s' \
  --data grant_type=authorization_code --data-urlencode "code=$code" --data redirect_uri=%[5]s \
  --data client_id=%[4]s --data client_secret=%[8]s | tee %[9]s

2. Refresh: a new access token and a new refresh token:

refresh=$(sed 's/.*"refresh_token":"\([^"]*\)".*/\1/' %[9]s)
curl --silent --cacert %[6]s '%[7]s' \
  --data grant_type=refresh_token --data "refresh_token=$refresh" \
  --data client_id=%[4]s --data client_secret=%[8]s

%[12]s%[13]sScripts find these values in %[10]s
`, cfg.PublicURL, show.Quote(self), show.Quote(cfg.Data), d.ClientID, d.RedirectURI, show.Quote(d.CAFile), d.TokenEndpoint, d.ClientSecret,
		show.Quote(filepath.Join(cfg.Data, "tokens.json")), deployment.DevFile(cfg), devAdminFlags(cfg, d), devSignIn(d),
		devInvitation(last, invitation, show.Quote(self), show.Quote(cfg.Data)+devAdminFlags(cfg, d)))
}

// devSignIn describes how to sign in as the demo user.
func devSignIn(d deployment.DevInfo) string {
	if d.DemoPage == "" {
		return ""
	}
	user := "a user"
	if d.Password != "" {
		user = d.Username + ", password " + d.Password
	}
	return fmt.Sprintf(`3. Or sign in with a browser, and see each step on a page: %s

%s

The browser does not know the certificate of this server, and warns of it. Continue all the same:
"Advanced", then "Proceed" (Chrome, Edge), "Accept the Risk and Continue" (Firefox), "visit this website" (Safari).

`, user, d.DemoPage)
}

// devAdminFlags returns the flags that name an admin API at another address than the
// default.
func devAdminFlags(cfg config.Config, d deployment.DevInfo) string {
	if cfg.Admin.Listen == "" {
		return ""
	}
	absolute := func(path string) string {
		if abs, err := filepath.Abs(path); err == nil {
			return abs
		}
		return path
	}
	if strings.HasPrefix(cfg.Admin.Listen, "unix:") {
		return " --admin-listen " + show.Quote("unix:"+absolute(d.AdminSocket))
	}
	flags := " --admin-listen " + show.Quote(d.AdminSocket)
	if cfg.Admin.TokenFile != "" {
		flags += " --admin-token-file " + show.Quote(absolute(cfg.Admin.TokenFile))
	}
	return flags
}

// devUsername is the username of the demo user.
const devUsername = "demo"

// makeDevUser creates the demo user, unless it exists or users are not built in.
func makeDevUser(ctx context.Context, cfg config.Config, st store.Store, info *deployment.DevInfo) error {
	if cfg.Login.Mode != config.LoginUsers {
		info.Username, info.Password, info.SignIn = "", "", ""
		return nil
	}
	_, err := account.Find(ctx, st, oauth.DefaultRealm, devUsername)
	switch {
	case errors.Is(err, store.ErrNotFound):
		now := grant.At(time.Now())
		password := account.GeneratePassword()
		user, err := account.NewUser(account.Registration{
			Realm: oauth.DefaultRealm, Username: devUsername, Name: "Demo user", Password: password,
			Claims: claims.Claims{"email": json.RawMessage(`"demo@example.com"`), "email_verified": json.RawMessage("true")},
		}, now)
		if err != nil {
			return err
		}
		event := store.Event{At: now, Name: store.EventUserCreated, About: store.AboutSubject(user.Subject), Actor: devActor, Detail: user.Username}
		if err := account.Create(ctx, st, user, event); err != nil {
			return err
		}
		info.Username, info.Password = devUsername, password
		// The password hash needs more memory than the rest of the server, which would
		// raise the collector's target.
		runtime.GC()
	case err != nil:
		return err
	}
	info.SignIn = cfg.PublicURL + cfg.BasePath + "/oauth2/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {info.ClientID}, "redirect_uri": {devCallback}, "scope": {"openid profile email"}, "state": {"demo"},
	}.Encode()
	return nil
}
