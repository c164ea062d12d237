package conformance_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/dpop"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/resource"
	"github.com/mintage/mintage/internal/server/token"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/web"
)

const (
	realm     = "/api"
	publicURL = "https://auth.example"
	issuerID  = publicURL + "/oauth2/api"
	endpoint  = "/oauth2/access_token?realm=/api"
	redirect  = "https://client.example/cb"
	// otherRedirect is also registered for every client.
	otherRedirect = "https://client.example/other?a=1&b=2"
)

// keySchedule omits RSA, whose keys take long to generate, and rotates nothing.
var keySchedule = keys.Schedule{
	MaxAge: time.Hour, Retention: time.Hour + 6*time.Minute, Algorithms: []keys.Purpose{keys.ES256, keys.EdDSA},
}

// A deployment is a whole server over TLS, with its own store and a clock that the test
// sets.
type deployment struct {
	t          *testing.T
	dir        string
	address    string
	store      store.Store // as the server uses it, including faults
	faulty     *storetest.Faulty
	sqlite     *sqlite.Store
	kek        *keys.KEK
	directory  *directory.Directory
	issuer     *issuer.Issuer
	clients    *client.Authenticator
	authorizer *login.Authorizer
	log        *lockedBuffer
	roots      *x509.CertPool
	plain      bool
	kept       *http.Client
	ended      func(func()) // registers a function for the end of the test
	clock      atomic.Int64 // milliseconds since 1970; it stands still
	a, b       oauthClient
	server     *server.Server
	// connections is nil if connections are not limited.
	connections *server.Connections
}

// options are what a test can choose about its deployment.
type options struct {
	server.Options
	overload.Capacity
	overload.RateLimits
	token.Endpoints
	Front               *web.Front // nil without pages
	RedirectURIMismatch bool
	ScopesSupported     []string
	TokenInfoQuery      bool

	retryWindow       time.Duration
	retryWindowPublic time.Duration
	wrap              func(store.Store) store.Store
	tune              func(*http.Server)
	monotonic         func() time.Time // the directory's monotonic clock
	alone             bool             // not in parallel with other tests
	front             bool             // with the authorization endpoint
	tuneFront         func(*web.Front)
	rsa               bool // with an RSA key, the default for id_tokens
	connections       *server.ConnectionLimits
}

// An oauthClient is a registered client with its secret.
type oauthClient struct {
	store.Client
	secret string
}

// start runs a deployment until the end of the test. Its clock stands still until step.
func start(t *testing.T, choose ...func(*options)) *deployment {
	t.Helper()
	def := config.Default()
	o := options{
		// Race tests send all requests at once, even on a small machine.
		Options:     server.Options{Site: server.Site{PublicURL: publicURL}, BasicAuthStatus: def.Errors.BasicAuthStatus},
		Capacity:    overload.Capacity{Requests: 1024},
		retryWindow: def.RetryWindow.Std(), retryWindowPublic: def.RetryWindowPublic.Std(),
		monotonic: slow(time.Now()),
	}
	for _, f := range choose {
		f(&o)
	}
	if !o.alone {
		t.Parallel()
	}
	d := &deployment{t: t, dir: t.TempDir(), log: &lockedBuffer{}, plain: o.PlainHTTP, ended: t.Cleanup}
	d.clock.Store(time.Now().UnixMilli())
	log := slog.New(slog.NewJSONHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug}))

	var err error
	if d.sqlite, err = sqlite.Create(t.Context(), d.dir); err != nil {
		t.Fatal(err)
	}
	d.faulty = storetest.NewFaulty(d.sqlite)
	d.store = d.faulty
	if o.wrap != nil {
		d.store = o.wrap(d.faulty)
	}
	if d.kek, err = keys.ParseKEK(keys.NewKEKText()); err != nil {
		t.Fatal(err)
	}
	schedule := keySchedule
	schedule.Registrations = o.Registrations != nil
	if o.rsa {
		schedule.Algorithms = append(slices.Clip(schedule.Algorithms), keys.RS256)
	}
	if d.directory, err = directory.Open(t.Context(), d.store, d.kek, schedule, log, o.monotonic); err != nil {
		t.Fatal(err)
	}
	if o.Registrations != nil {
		o.Registrations.Realm, o.Registrations.Directory, o.Registrations.Now = realm, d.directory, d.now
		d.directory.AdmitSelfRegistered(func(_, id string) bool { return o.Registrations.Admits(id) })
	}
	d.issuer = issuer.New(issuer.Issuer{
		Realm: realm, ID: issuerID, Store: d.store, Directory: d.directory,
		Policy: grant.Policy{
			AccessLifetime: def.AccessTokenLifetime.Std(), RefreshLifetime: def.RefreshTokenLifetime.Std(),
			RetryWindow: o.retryWindow,
		},
		RetryWindowPublic: o.retryWindowPublic, CodeLifetime: def.CodeLifetime.Std(),
		RevocationsMaxAge: def.RevocationsMaxAge.Std(),
		Now:               d.now, Log: log,
	})
	if o.front {
		d.issuer.IDTokenLifetime = def.IDTokens()
		o.Front = d.newFront()
		o.Front.RedirectURIMismatch = o.RedirectURIMismatch
		d.authorizer.SelfRegistered = selfRegistered(o.Registrations)
		if o.tuneFront != nil {
			o.tuneFront(o.Front)
		}
	}
	background, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { d.directory.Run(background) })

	d.server = newServer(d.issuer, &o, log)
	d.clients = o.Clients
	srv := server.HTTPServer(checkAnswers(t, d.server.Handler(), o), log)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.address = listener.Addr().String()
	if !d.plain {
		certFile, keyFile, roots := certificate(t)
		d.roots = roots
		cert, err := server.LoadCertificate(certFile, keyFile, log)
		if err != nil {
			t.Fatal(err)
		}
		srv.TLSConfig = server.TLSConfig(cert)
	}
	// Longer timeouts than in production: a busy machine needs time for the steps of a
	// test, and a timeout must not end a flood that the server itself has to hold back.
	srv.ReadHeaderTimeout, srv.ReadTimeout, srv.WriteTimeout = time.Minute, time.Minute, time.Minute
	if o.tune != nil {
		o.tune(srv)
	}
	if o.connections != nil {
		d.connections = server.NewConnections(*o.connections, nil, log)
		listener = d.connections.Bound(listener, srv)
	}
	running.Go(func() {
		if d.plain {
			srv.Serve(listener)
		} else {
			srv.ServeTLS(listener, "", "")
		}
	})
	t.Cleanup(func() {
		srv.Close()
		stop()
		running.Wait()
		if err := d.sqlite.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	d.a = d.client(client.Registration{Settings: store.Settings{Name: "A"}})
	d.b = d.client(client.Registration{Settings: store.Settings{Name: "B"}})
	return d
}

// newServer mounts the public endpoints.
func newServer(iss *issuer.Issuer, o *options, log *slog.Logger) *server.Server {
	o.Queue = server.NewQueue(o.Capacity, nil, log)
	o.Throttle = overload.NewThrottle(o.RateLimits, func(string) {})
	o.Clients = &client.Authenticator{Realm: iss.Realm, Store: iss.Store, Directory: iss.Directory, Now: iss.Now, Log: log, Slow: client.NewSlowPool(),
		Issuer: iss.ID, TokenEndpoint: []string{"https://auth.example/oauth2/api/access_token"}}
	o.Realm = iss.Realm
	o.Proofs.Seen, o.Proofs.Shared, o.Proofs.Now = &dpop.Seen{}, iss.Store, iss.Now
	srv := server.New(iss.Directory, o.Options, log)
	o.Endpoints.Issuer, o.Endpoints.Assertions = iss, o.Clients
	if o.Front != nil {
		o.PushedLifetime, o.Push = login.PushedLifetime, func(ctx context.Context, _ *server.Request, req oauth.AuthorizationRequest, form string, known bool) (string, error) {
			return o.Front.Authorizer.Push(ctx, req, form, login.Visitor{}, known)
		}
	}
	resources := &resource.Endpoints{Server: srv, Issuer: iss, Directory: iss.Directory, ScopesSupported: o.ScopesSupported, TokenInfoQuery: o.TokenInfoQuery}
	if o.Front != nil {
		resources.Claims, iss.Claims = o.Front.Claims, o.Front.Claims
		iss.SessionLives = o.Front.Authorizer.Sessions.Lives
		o.DevicePage = publicURL + web.DevicePath
	}
	routes := slices.Concat(o.Endpoints.Routes(), resources.Routes())
	if o.Front != nil {
		routes = append(routes, o.Front.Routes(srv)...)
	}
	srv.Mount(routes...)
	return srv
}

// slow returns a clock for the age of polled data. It runs slower than real time, because
// on a busy machine the poll, which these tests are not about, may be late by seconds.
func slow(start time.Time) func() time.Time {
	return func() time.Time { return start.Add(time.Since(start) / 20) }
}

func strict(o *options) { o.retryWindow, o.retryWindowPublic = 0, 0 }

func alone(o *options) { o.alone = true }

// now is the deployment's clock.
func (d *deployment) now() time.Time {
	return time.UnixMilli(d.clock.Load())
}

// step moves the deployment's clock.
func (d *deployment) step(by time.Duration) { d.clock.Add(by.Milliseconds()) }

// client registers a client, with defaults for omitted fields.
func (d *deployment) client(r client.Registration) oauthClient {
	d.t.Helper()
	if r.Name == "" {
		r.Name = d.t.Name()
	}
	if len(r.Name) > 100 {
		r.Name = r.Name[:100]
	}
	if r.RedirectURIs == nil {
		r.RedirectURIs = []string{redirect, otherRedirect}
	}
	if r.Scope == "" {
		r.Scope = "a b c"
	}
	if r.Auth == "" {
		r.Auth = store.AuthEither
	}
	if r.IDTokenAlg == "" {
		r.IDTokenAlg = keys.ES256 // RSA keys take long to generate
	}
	c, secret, err := r.Client(realm, d.ring(), d.issuer.Policy, grant.At(d.now()))
	if err != nil {
		d.t.Fatal(err)
	}
	if r.Secret != "" {
		secret = r.Secret
	}
	if err := d.sqlite.Commit(context.Background(), store.Change{Entries: []store.Entry{c.Entry()}}); err != nil {
		d.t.Fatal(err)
	}
	d.poll()
	return oauthClient{c, string(secret)}
}

// change stores an altered registration.
func (d *deployment) change(c oauthClient, alter func(*store.Client)) oauthClient {
	d.t.Helper()
	c.Client = c.Clone()
	alter(&c.Client)
	c.Version++
	if err := d.sqlite.Commit(context.Background(), store.Change{Entries: []store.Entry{c.Client.Entry()}}); err != nil {
		d.t.Fatal(err)
	}
	d.poll()
	return c
}

// selfRegistered stores a client that has registered itself.
func (d *deployment) selfRegistered(name string) oauthClient {
	d.t.Helper()
	body, err := json.Marshal(map[string]any{"client_name": name, "redirect_uris": []string{redirect}})
	if err != nil {
		d.t.Fatal(err)
	}
	return d.registered(string(body))
}

// cutOff stores a cutoff and waits until it is in force.
func (d *deployment) cutOff(c store.Cutoff) {
	d.t.Helper()
	c.Realm, c.At = realm, grant.At(d.now())
	if err := d.sqlite.Commit(context.Background(), store.Change{Cutoffs: []store.Cutoff{c}}); err != nil {
		d.t.Fatal(err)
	}
	d.poll()
}

func (d *deployment) poll() {
	d.t.Helper()
	if err := d.directory.Poll(context.Background()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *deployment) ring() *keys.Ring {
	d.t.Helper()
	view, err := d.directory.View()
	if err != nil {
		d.t.Fatal(err)
	}
	return view.Ring
}

// row returns a grant as it is stored.
func (d *deployment) row(id grant.ID) grant.Grant {
	d.t.Helper()
	g, err := d.sqlite.Grant(context.Background(), id)
	if err != nil {
		d.t.Fatalf("grant %s: %v", id, err)
	}
	return g
}

// code issues a code without a challenge, even for a client that must use PKCE, as login
// portals formerly could.
func (d *deployment) code(c oauthClient, choose ...func(*issuer.Authorization)) issuer.IssuedCode {
	d.t.Helper()
	a := issuer.Authorization{ClientID: c.ID, RedirectURI: c.RedirectURIs[0], Subject: "alice"}
	for _, f := range choose {
		f(&a)
	}
	view, err := d.issuer.Directory.View()
	if err != nil {
		d.t.Fatal(err)
	}
	now := grant.At(d.now())
	agreed := issuer.Agreement{
		Authorization: a, KeyID: view.Ring.Current(keys.Seal, now),
		AuthorizedAt: d.issuer.AgreedAt(view, a.Subject, c.ID, now), ExpiresAt: now.Add(d.issuer.CodeLifetime),
	}
	rand.Read(agreed.GrantID[:])
	rand.Read(agreed.Nonce[:])
	registered, ok := view.Client(realm, c.ID)
	if !ok {
		d.t.Fatalf("client %s does not exist, or is disabled", c.ID)
	}
	code, err := d.issuer.Codes().IssueAgreed(registered, agreed)
	if err != nil {
		d.t.Fatal(err)
	}
	return code
}

// A lockedBuffer collects the log of concurrent writers.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Reset()
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var makeCertificate = sync.OnceValues(func() ([2][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return [2][]byte{}, err
	}
	return selfSigned(key, &key.PublicKey)
})

// selfSigned returns a certificate and its key, in PEM.
func selfSigned(key, public any) (files [2][]byte, err error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "conformance tests"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return files, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return files, err
	}
	files[0] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	files[1] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	return files, nil
}

// certificate writes the tests' certificate to files.
func certificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	t.Helper()
	pair, err := makeCertificate()
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = writePair(t, t.TempDir(), pair)
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(pair[0])
	return certFile, keyFile, roots
}

func writePair(t *testing.T, dir string, pair [2][]byte) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for i, name := range []string{certFile, keyFile} {
		if err := os.WriteFile(name, pair[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

var lastLocal atomic.Uint32

// local returns an address of this machine that nothing else in the test process uses,
// because failed authentications are counted by address.
func local() *net.TCPAddr {
	n := lastLocal.Add(1)
	return &net.TCPAddr{IP: net.IPv4(127, byte(1+n>>16), byte(n>>8), byte(n))}
}

// dial opens a connection from an address.
func (d *deployment) dial(from *net.TCPAddr) net.Conn {
	d.t.Helper()
	dialer := &net.Dialer{LocalAddr: from, Timeout: 10 * time.Second}
	conn, err := dialer.Dial("tcp", d.address)
	if err != nil {
		d.t.Fatal(err)
	}
	if d.plain {
		return conn
	}
	secure := tls.Client(conn, &tls.Config{RootCAs: d.roots, ServerName: "127.0.0.1", NextProtos: []string{"http/1.1"}})
	if err := secure.Handshake(); err != nil {
		d.t.Fatal(err)
	}
	return secure
}
