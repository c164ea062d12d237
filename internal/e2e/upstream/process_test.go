//go:build e2e

// Package upstream logs in at a real OpenID Connect provider, the npm package
// oidc-provider, through its own pages.
package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

const (
	clientID     = "mintage"
	clientSecret = "a secret: 100% of the tests, and +more"
	publicClient = "mintage-without-secret"
	redirectURL  = "http://127.0.0.1:9/oauth2/callback" // never requested: the test reads the code from the redirect
)

// install runs npm ci unless js/node_modules already contains the pinned version.
func install(t *testing.T) {
	t.Helper()
	if installed(t) {
		return
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = "js"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	if !installed(t) {
		t.Fatal("npm ci has not installed the version that js/package.json names")
	}
}

func installed(t *testing.T) bool {
	t.Helper()
	var want struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	text, err := os.ReadFile(filepath.Join("js", "package.json"))
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, version := range want.Dependencies {
		var got struct {
			Version string `json:"version"`
		}
		text, err := os.ReadFile(filepath.Join("js", "node_modules", name, "package.json"))
		if err != nil || json.Unmarshal(text, &got) != nil || got.Version != version {
			return false
		}
	}
	return true
}

// A process is a running provider.
type process struct {
	issuer string
	stop   func()
}

// start runs the provider on a port, or on a free one for 0, until the test ends or stop
// is called.
func start(t *testing.T, port int) *process {
	t.Helper()
	install(t)
	configuration, err := json.Marshal(map[string]any{"port": port, "clients": []map[string]any{
		{"client_id": clientID, "client_secret": clientSecret, "redirect_uris": []string{redirectURL}},
		{"client_id": publicClient, "token_endpoint_auth_method": "none", "redirect_uris": []string{redirectURL}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var written binary.Output
	cmd := exec.Command("node", "provider.mjs")
	cmd.Dir, cmd.Stdin, cmd.Stderr = "js", bytes.NewReader(configuration), &written
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (make tools installs what is missing)", err)
	}
	p := &process{stop: sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the provider wrote:\n%s", &written)
		}
	})
	// The provider prints a line when it listens. Read the rest of its output, too: a
	// full pipe would block it.
	listening := make(chan string, 1)
	go func() {
		defer close(listening)
		lines := bufio.NewScanner(io.TeeReader(stdout, &written))
		for lines.Scan() {
			if issuer, ok := strings.CutPrefix(lines.Text(), "issuer: "); ok {
				listening <- issuer
			}
		}
	}()
	select {
	case p.issuer = <-listening:
	case <-time.After(time.Minute):
	}
	if p.issuer == "" {
		p.stop()
		t.Fatalf("the provider does not listen:\n%s", &written)
	}
	return p
}
