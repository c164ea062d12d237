// Package binary builds the mintage program and runs it for end-to-end tests as its users
// would: over TLS, with files in a directory, stopped by signals.
package binary

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var build = sync.OnceValues(func() (string, error) {
	removeLeftovers()
	// Linking takes some seconds, and twenty packages have such tests: "make e2e" builds
	// the program once for all of them.
	if path := os.Getenv("E2E_PROGRAM"); path != "" && os.Getenv("E2E_RACE") == "" {
		return filepath.Abs(path)
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", leftovers, os.Getpid()))
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "mintage")
	// Build it as for a release, however the test is built: with cgo, the same sources
	// would be compiled again.
	args, cgo := []string{"build", "-o", path}, "0"
	if os.Getenv("E2E_RACE") != "" {
		args, cgo = append(args, "-race"), "1"
	}
	cmd := exec.Command("go", append(args, "github.com/mintage/mintage/cmd/mintage")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// Path builds the program once per test process and returns its path.
func Path(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Soak reports whether the long form of the suite runs (make soak).
func Soak() bool { return os.Getenv("SOAK") != "" }

// Scaled returns its first argument in the ordinary suite and its second one in the soak.
func Scaled(ordinary, soak int) int {
	if Soak() {
		return soak
	}
	return ordinary
}

// Dev is the content of DIR/dev.json.
type Dev struct {
	Issuer        string `json:"issuer"`
	TokenEndpoint string `json:"token_endpoint"`
	CAFile        string `json:"ca_file"`
	ClientID      string `json:"client_id"`
	ClientSecret  string `json:"client_secret"`
	RedirectURI   string `json:"redirect_uri"`
	AdminSocket   string `json:"admin_socket"`
	Management    string `json:"management"`
}

// A Server is a running `mintage serve`, either with --dev or as another node of such a
// server.
type Server struct {
	Dev
	Dir string
	// Program is the program that Restart runs; "" is the one built from this source.
	Program string
	args    []string
	peer    []string // of a Peer, the flags that make it a node of another server
	cmd     *exec.Cmd
	log     *Output
	done    chan error

	// Leaks are the secrets of the tests. At the end of the test, everything that the
	// server has produced is searched for them.
	Leaks *Leaks
	// Verifier is the PKCE verifier of each code, for a public client. It is "" for a
	// client with a secret.
	Verifier string
	exempt   []string // files that may contain secrets
	logged   []byte   // the log of earlier processes
	metrics  []byte
}

// Start runs `mintage serve --dev` on a data directory and waits until it is ready. It
// uses free ports unless args name others. The server is killed at the end of the test.
func Start(t testing.TB, dir string, args ...string) *Server {
	t.Helper()
	return StartProgram(t, "", dir, args...)
}

// StartProgram is Start with another mintage program, such as an older one.
func StartProgram(t testing.TB, program, dir string, args ...string) *Server {
	t.Helper()
	s := &Server{Dir: dir, Program: program, args: args, Leaks: &Leaks{}}
	t.Cleanup(func() { s.finish(t) })
	if err := s.Restart(t); err != nil {
		t.Fatal(err)
	}
	return s
}

// Peer runs another node on the store of s, which must be PostgreSQL. The node has its
// own data directory, port and admin socket and no --dev. It shares the certificate, the
// key-encryption key, the issuer and the demo client of s. Args are those of s, including
// --store, and further ones.
func (s *Server) Peer(t testing.TB, args ...string) *Server {
	t.Helper()
	u, err := url.Parse(s.TokenEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	n := &Server{Dir: t.TempDir(), Program: s.Program, Dev: s.Dev, Leaks: s.Leaks, args: slices.Concat(s.args, args), peer: []string{
		"--public-url", "https://" + u.Host, "--kek-file", filepath.Join(s.Dir, "kek"),
		"--tls-cert", filepath.Join(s.Dir, "dev-cert.pem"), "--tls-key", filepath.Join(s.Dir, "dev-key.pem"),
	}}
	n.AdminSocket = filepath.Join(n.Dir, "admin.sock")
	n.TokenEndpoint = strings.Replace(s.TokenEndpoint, u.Host, FreeAddress(t, "127.0.0.1"), 1)
	t.Cleanup(func() { n.finish(t) })
	if err := n.Restart(t); err != nil {
		t.Fatal(err)
	}
	return n
}

// Restart runs the program again on the same directory, after Kill or Stop.
// It uses the same port, so that clients find it again.
func (s *Server) Restart(t testing.TB) error {
	u, err := url.Parse(s.TokenEndpoint)
	if err != nil {
		return err
	}
	listen := u.Host
	if listen == "" {
		listen = FreeAddress(t, "127.0.0.1") // reserved, so that a restart can use it again
	}
	args := []string{"serve", "--data", s.Dir, "--listen", listen, "--management-listen", "127.0.0.1:0"}
	if s.peer == nil {
		args = append(args, "--dev")
	}
	s.cmd = Command(t, slices.Concat(args, s.peer, s.args)...)
	if s.Program != "" {
		s.cmd.Path = s.Program
	}
	s.logged = s.Written()
	s.log = &Output{}
	ready := &waiter{needle: "Scripts find these values", seen: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = ready, s.log
	if s.peer != nil {
		ready.needle = `"msg":"serving"`
		s.cmd.Stderr = io.MultiWriter(s.log, ready)
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.done = make(chan error, 1)
	cmd, done := s.cmd, s.done
	go func() { done <- cmd.Wait() }()
	select {
	case <-ready.seen:
	case err := <-done:
		done <- err
		return fmt.Errorf("serve ended: %v\n%s", err, s.log)
	case <-time.After(time.Minute):
		s.Kill()
		return fmt.Errorf("serve is not ready after a minute\n%s", s.log)
	}
	if s.peer != nil {
		return s.readManagement(ready.read())
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "dev.json"))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &s.Dev)
}

// readManagement finds the address of the management listener in the log.
func (s *Server) readManagement(log string) error {
	for line := range strings.Lines(log) {
		var entry struct{ Msg, Management string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "serving" {
			s.Management = "http://" + entry.Management
			return nil
		}
	}
	return errors.New("the log does not name the management listener")
}

// Kill sends SIGKILL and waits for the end.
func (s *Server) Kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.cmd.Process.Kill()
		s.wait()
	}
}

// Signal sends a signal.
func (s *Server) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

// Stop sends SIGTERM and waits for the end. It returns the exit error.
func (s *Server) Stop() error {
	s.scrape()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.wait()
}

func (s *Server) wait() error {
	err := <-s.done
	s.done <- err
	return err
}

// PID is the process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Log returns the program's standard error so far. A request's line may be written after
// its response.
func (s *Server) Log() string { return s.log.String() }

// Logged waits until the program has written a line after the first behind bytes of its
// log, and returns what follows them.
func (s *Server) Logged(t testing.TB, behind int) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if text := s.Log()[behind:]; strings.HasSuffix(text, "\n") {
			return text
		}
	}
	t.Fatal("nothing is logged")
	return ""
}

// Transport returns a transport that trusts the server's certificate. local, unless "",
// is the source address of its connections: each address of 127.0.0.0/8 counts as a
// client of its own.
func (s *Server) Transport(t testing.TB, local string) *http.Transport {
	t.Helper()
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	d := &net.Dialer{Timeout: 10 * time.Second}
	if local != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(local)}
	}
	return &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext:     d.DialContext, MaxIdleConnsPerHost: 256,
	}
}

// commandFlags returns the flags with which commands find the server.
func (s *Server) commandFlags() []string {
	flags := []string{"--data", s.Dir}
	if i := slices.Index(s.args, "--store"); i >= 0 {
		flags = append(flags, s.args[i:i+2]...)
	}
	if i := slices.Index(s.peer, "--kek-file"); i >= 0 {
		flags = append(flags, s.peer[i:i+2]...)
	}
	return flags
}

// Code issues a code by command, for the demo client unless args name another one. Its
// scope is "read write", unless args say more.
func (s *Server) Code(t testing.TB, subject string, args ...string) string {
	t.Helper()
	all := append([]string{"code", "issue", "--data", s.Dir, "--client", s.ClientID, "--redirect-uri", s.RedirectURI, "--subject", subject}, args...)
	if i := slices.Index(args, "--client"); !slices.Contains(args, "--scope") && (i < 0 || args[i+1] == s.ClientID) {
		all = append(all, "--scope", "read write")
	}
	out, err := Command(t, all...).Output()
	if err != nil {
		t.Fatalf("code issue: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// FastCode issues a code for the demo client through the admin socket, for tests that
// need many codes.
func (s *Server) FastCode(ctx context.Context, subject string) (string, error) {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.AdminSocket)
	}, DisableKeepAlives: true}}
	asked := map[string]string{"client_id": s.ClientID, "redirect_uri": s.RedirectURI, "subject": subject, "scope": "read write"}
	if s.Verifier != "" {
		sum := sha256.Sum256([]byte(s.Verifier))
		asked["code_challenge"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	body, _ := json.Marshal(asked)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://admin/admin/v1/codes", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if answer.Code == "" {
		return "", fmt.Errorf("admin API: %s %s", resp.Status, answer.Detail)
	}
	return answer.Code, nil
}

// ExchangeForm returns the form that redeems a code for the demo client.
func (s *Server) ExchangeForm(code string) url.Values {
	return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {s.RedirectURI},
		"client_id": {s.ClientID}, "client_secret": {s.ClientSecret}, "code_verifier": {s.Verifier}}
}

// RefreshForm returns the form that refreshes a token for the demo client.
func (s *Server) RefreshForm(token string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token},
		"client_id": {s.ClientID}, "client_secret": {s.ClientSecret}}
}

// An Answer is a response of the token endpoint.
type Answer struct {
	Status       int
	RetryAfter   string  `json:"-"`
	Nonce        string  `json:"-"` // for the next DPoP proof
	Scope        string  `json:"scope"`
	ExpiresIn    float64 `json:"expires_in"`
	TokenType    string  `json:"token_type"`
	RefreshToken string  `json:"refresh_token"`
	AccessToken  string  `json:"access_token"`
	IDToken      string  `json:"id_token"`
	Error        string  `json:"error"`
	Description  string  `json:"error_description"`
}

// Post sends a form to the token endpoint. An error means that no complete response was
// received.
func (s *Server) Post(ctx context.Context, client *http.Client, form url.Values) (a Answer, err error) {
	return s.PostProven(ctx, client, form, "")
}

// PostProven is Post with a DPoP proof of the client's key (RFC 9449), or without if
// proof is "".
func (s *Server) PostProven(ctx context.Context, client *http.Client, form url.Values, proof string) (a Answer, err error) {
	if id := form.Get("client_id"); id != s.ClientID {
		s.Leaks.KnowClient(id, form.Get("client_secret"))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.TokenEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if proof != "" {
		req.Header.Set("DPoP", proof)
	}
	resp, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return a, err
	}
	a.Status, a.RetryAfter, a.Nonce = resp.StatusCode, resp.Header.Get("Retry-After"), resp.Header.Get("DPoP-Nonce")
	return a, nil
}

// A waiter closes seen when needle has been written.
type waiter struct {
	needle string
	mu     sync.Mutex
	text   strings.Builder
	seen   chan struct{}
	found  bool
}

func (w *waiter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.found {
		return len(p), nil
	}
	w.text.Write(p)
	if strings.Contains(w.text.String(), w.needle) {
		w.found = true
		close(w.seen)
	}
	return len(p), nil
}

// read returns what was written until needle was seen.
func (w *waiter) read() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
