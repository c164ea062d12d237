//go:build e2e

// Package sharing runs two processes of one program that share a token file.
package sharing

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A task is the work of one process. Like many agents, the process reads the token file
// once and keeps a copy in memory.
type task struct {
	Endpoint, CAFile, TokenFile, ClientID string

	Refreshes int           // the number of refreshes in a row
	For       time.Duration // or the duration, refreshing when the access token has expired
}

const taskVariable = "SHARING_TASK"

func TestMain(m *testing.M) {
	text := os.Getenv(taskVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var t task
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errLoggedOut = errors.New("logged out")

func (t task) run() error {
	pem, err := os.ReadFile(t.CAFile)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	token, err := os.ReadFile(t.TokenFile)
	if err != nil {
		return err
	}
	copied := string(token)
	refresh := func() (time.Duration, error) {
		resp, err := client.PostForm(t.Endpoint, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {copied}, "client_id": {t.ClientID}})
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		var a binary.Answer
		if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
			return 0, err
		}
		if resp.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("%w: %d %s", errLoggedOut, resp.StatusCode, a.Error)
		}
		copied = a.RefreshToken
		return time.Duration(a.ExpiresIn) * time.Second, nil
	}
	for range t.Refreshes {
		if _, err := refresh(); err != nil {
			return err
		}
	}
	var expires time.Time
	for end := time.Now().Add(t.For); time.Now().Before(end); {
		time.Sleep(time.Duration(rand.Int64N(int64(20 * time.Second))))
		if time.Now().Before(expires) {
			continue
		}
		left, err := refresh()
		if err != nil {
			return err
		}
		expires = time.Now().Add(left)
	}
	return nil
}

// TestTwoProcessesShareATokenFile: two processes with copies of one token file stay
// logged in if their client has a reuse grace. Without it, the same processes revoke the
// grant.
func TestTwoProcessesShareATokenFile(t *testing.T) {
	s := binary.Start(t, t.TempDir(), "--access-token-lifetime", "1m", "--retry-window", "0s", "--retry-window-public", "0s")
	work := task{Endpoint: s.TokenEndpoint, CAFile: s.CAFile, Refreshes: 100}
	if binary.Soak() {
		work.Refreshes, work.For = 0, 10*time.Minute
	}
	for _, c := range []struct {
		id     string
		args   []string
		refuse bool
	}{
		{"agent", []string{"--reuse-grace", "24h"}, false},
		{"strict", nil, true},
	} {
		s.Run(t, append([]string{"client", "create", "--data", s.Dir, "--id", c.id, "--name", "Agent", "--public", "--redirect-uri", s.RedirectURI, "--scope", "read"}, c.args...)...)
		work.ClientID, work.TokenFile = c.id, filepath.Join(t.TempDir(), "token")
		if c.refuse {
			work.Refreshes, work.For = 100, 0
		}
		id := login(t, s, work)
		outcome := make(chan error, 2)
		for range 2 {
			go func() { outcome <- start(t.Context(), work) }()
		}
		first, second := <-outcome, <-outcome
		if c.refuse {
			if !strings.Contains(fmt.Sprint(first, second), errLoggedOut.Error()) {
				t.Errorf("%s: no process was logged out: %v, %v", c.id, first, second)
			}
			continue
		}
		if first != nil || second != nil {
			t.Errorf("%s: %v, %v", c.id, first, second)
		}
		if text := s.Run(t, "explain", "--data", s.Dir, id); !strings.Contains(text, "2 holders or more") {
			t.Errorf("explain does not say that there are two holders:\n%s", text)
		}
	}
}

// login writes the token file of a user, and returns the id of the grant.
func login(t *testing.T, s *binary.Server, work task) string {
	const verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	var code struct {
		Code    string `json:"code"`
		GrantID string `json:"grant_id"`
	}
	out := s.Run(t, "code", "issue", "--data", s.Dir, "--client", work.ClientID, "--redirect-uri", s.RedirectURI, "--subject", "alice", "--code-challenge", challenge, "--json")
	if err := json.Unmarshal([]byte(out), &code); err != nil {
		t.Fatal(err)
	}
	a, err := s.Post(t.Context(), &http.Client{Transport: s.Transport(t, "")}, url.Values{
		"grant_type": {"authorization_code"}, "code": {code.Code}, "redirect_uri": {s.RedirectURI}, "client_id": {work.ClientID}, "code_verifier": {verifier},
	})
	if err != nil || a.RefreshToken == "" {
		t.Fatalf("%v, %+v", err, a)
	}
	if err := os.WriteFile(work.TokenFile, []byte(a.RefreshToken), 0o600); err != nil {
		t.Fatal(err)
	}
	return code.GrantID
}

// start runs the task in a process of its own.
func start(ctx context.Context, work task) error {
	text, err := json.Marshal(work)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), taskVariable+"="+string(text))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return nil
}
