//go:build e2e

package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// The program of docs/how-to/sign-in-from-a-terminal.md finds the endpoints, shows where
// to enter which code, and waits for the user.
func TestTheProgramForATerminalShowsACode(t *testing.T) {
	page, err := os.ReadFile("../../../docs/how-to/sign-in-from-a-terminal.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page has no program")
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "terminal")
	if err := os.WriteFile(source, block[1], 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := binary.Start(t, t.TempDir())
	s.Run(t, "client", "create", "--id", "example-cli", "--name", "Example", "--public", "--grant-types", "device_code,refresh_token", "--scope", "read write")
	cmd := exec.Command(program, s.Issuer, "example-cli")
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+filepath.Join(s.Dir, "dev-ca.pem"))
	var text binary.Output
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() { cmd.Process.Kill(); <-ended }()
	shown := regexp.MustCompile(`^Open https://[^ ]+/device and enter [B-Z]{4}-[B-Z]{4}\n$`)
	for deadline := time.Now().Add(20 * time.Second); !shown.MatchString(text.String()); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the program shows %q", text.String())
		}
	}
	select {
	case err := <-ended:
		ended <- err
		t.Errorf("the program does not wait for the user: %v, %q", err, text.String())
	case <-time.After(6 * time.Second): // one poll
	}
}
