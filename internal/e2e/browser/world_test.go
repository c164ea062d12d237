//go:build e2e

package browser

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/resource"
)

// A world is the built server with an HTTP client for it.
type world struct {
	*binary.Server
	origin string
	post   *http.Client // trusts the server, and follows no redirect
}

// openWorld starts the server at a free address.
func openWorld(t *testing.T, dir, address string, args ...string) *world {
	t.Helper()
	cert, key := certificateFiles(t)
	w := &world{origin: "https://" + address}
	w.Server = binary.Start(t, dir, append([]string{"--listen", address, "--tls-cert", cert, "--tls-key", key}, args...)...)
	w.CAFile = cert
	w.post = &http.Client{Transport: w.Transport(t, ""), Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return w
}

// A client is a registered client.
type client struct {
	ID       string `json:"client_id"`
	Secret   string `json:"client_secret"`
	redirect string
}

// register registers a client, and waits until the server knows it.
func (w *world) register(t *testing.T, name, redirect string, args ...string) client {
	t.Helper()
	return w.create(t, redirect, append([]string{"--name", name, "--redirect-uri", redirect, "--scope", "read write"}, args...)...)
}

func (w *world) create(t *testing.T, redirect string, args ...string) client {
	t.Helper()
	c := client{redirect: redirect}
	if err := json.Unmarshal([]byte(w.Run(t, append([]string{"client", "create", "--json"}, args...)...)), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// waitFor waits until the server knows a newly registered client.
func (w *world) waitFor(t *testing.T, c client) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		resp, err := w.post.Get(w.authorizeURL(c, nil))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusSeeOther {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server answers %s for a client that is registered", resp.Status)
		}
	}
}

// authorizeURL returns an authorization request of a client, with the challenge of RFC
// 7636 appendix B.
func (w *world) authorizeURL(c client, more url.Values) string {
	q := url.Values{"response_type": {"code"}, "client_id": {c.ID}, "redirect_uri": {c.redirect}, "state": {"the state"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"}}
	for name, values := range more {
		q[name] = values
	}
	return w.origin + "/oauth2/authorize?" + q.Encode()
}

// user creates a built-in user and returns the password.
func (w *world) user(t *testing.T, username, name string) (password string) {
	t.Helper()
	var made struct {
		Password string `json:"password"`
	}
	if err := json.Unmarshal([]byte(w.Run(t, "user", "create", username, "--name", name, "--json")), &made); err != nil || made.Password == "" {
		t.Fatalf("no password was made: %v", err)
	}
	return made.Password
}

// grants counts the active grants of a subject.
func (w *world) grants(t *testing.T, subject string) (active int) {
	t.Helper()
	var list []struct {
		State string `json:"state"`
	}
	if err := json.Unmarshal([]byte(w.Run(t, "grant", "list", "--subject", subject, "--json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, g := range list {
		if g.State == "active" {
			active++
		}
	}
	return active
}

// startAPI starts a small API that requires the scope read.
func (w *world) startAPI(t *testing.T) (address string) {
	t.Helper()
	own := w.create(t, "", "--name", "Reports API", "--introspect")
	v, err := resource.New(resource.Config{
		Issuer: w.Issuer, Audience: w.Issuer, ClientID: own.ID, ClientSecret: own.Secret,
		HTTPClient: &http.Client{Transport: w.Transport(t, ""), Timeout: 10 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return serveHTTP(t, "127.0.0.1:0", v.Require("read")(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		caller, _ := resource.FromContext(r.Context())
		fmt.Fprintf(rw, "reports of %s", caller.Subject)
	})))
}

// serveHTTP serves h at an address until the test ends.
func serveHTTP(t *testing.T, address string, h http.Handler) (origin string) {
	t.Helper()
	return "http://" + listen(t, address, h, nil)
}

// serveHTTPS is serveHTTP with the certificate that Chromium trusts. It returns the port,
// because the certificate has several names.
func serveHTTPS(t *testing.T, address string, h http.Handler) (port string) {
	t.Helper()
	_, port, err := net.SplitHostPort(listen(t, address, h, &tls.Config{Certificates: []tls.Certificate{certificate()}}))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func listen(t *testing.T, address string, h http.Handler, encrypted *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener, s.TLS = l, encrypted
	if encrypted == nil {
		s.Start()
	} else {
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return l.Addr().String()
}

// samplePrograms builds the programs in examples, once, into samplesDirectory.
var (
	samplePrograms = sync.OnceValues(func() (dir string, err error) {
		if dir, err = os.MkdirTemp("", "mintage-samples-"); err != nil {
			return "", err
		}
		samplesDirectory = dir
		out, err := exec.Command("go", "build", "-o", dir+"/",
			"github.com/mintage/mintage/examples/client", "github.com/mintage/mintage/examples/login", "github.com/mintage/mintage/examples/signin").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
		return dir, nil
	})
	samplesDirectory string
)

// run starts a program, waits for the line that begins with a prefix, and returns the
// rest of the line. The program ends with the test, or by stop.
func run(t *testing.T, cmd *exec.Cmd, prefix string) (rest string, stop func()) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (make tools installs what is missing)", err)
	}
	name := filepath.Base(cmd.Path)
	said := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		// Read to the end: a full pipe would block the program.
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(), prefix); ok && len(said) == 0 {
				said <- text
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		cmd.Process.Kill()
		<-read
		cmd.Wait()
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() && stderr.Len() > 0 {
			t.Logf("%s wrote:\n%s", name, &stderr)
		}
	})
	select {
	case rest = <-said:
	case <-read:
	case <-time.After(within):
	}
	if rest == "" {
		stop()
		t.Fatalf("%s does not print %q:\n%s", name, prefix, &stderr)
	}
	return rest, stop
}

func sampleCommand(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := samplePrograms()
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(filepath.Join(dir, name), args...)
}

// A shop is the sample client as a process. It speaks plain HTTP; a proxy in front of it
// speaks HTTPS, as in a deployment.
type shop struct {
	client
	origin string
	args   []string
	stop   func()
}

// openShop registers the sample client and starts it.
func (w *world) openShop(t *testing.T, name string, args ...string) *shop {
	t.Helper()
	address := binary.FreeAddress(t, "127.0.0.1")
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address})
			r.Out.Host = r.In.Host
		},
		ErrorLog: log.New(io.Discard, "", 0), // browsers close connections early
	}
	origin := "https://shop.example:" + serveHTTPS(t, "127.0.0.1:0", proxy)
	s := &shop{client: w.register(t, name, origin+"/callback"), origin: origin}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(s.Secret), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{"--listen", address, "--redirect", s.redirect, "--issuer", w.Issuer, "--ca", w.CAFile, "--client-id", s.ID, "--client-secret-file", secret}
	s.start(t, args...)
	w.waitFor(t, s.client)
	return s
}

// start runs the program, also again after a stop.
func (s *shop) start(t *testing.T, args ...string) {
	t.Helper()
	line, stop := run(t, sampleCommand(t, "client", append(append([]string{}, s.args...), args...)...), "Open ")
	s.stop = stop
	if !strings.Contains(line, s.redirect) {
		t.Fatalf("the client has another redirect URI than %s: %s", s.redirect, line)
	}
}
