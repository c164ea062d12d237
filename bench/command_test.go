package bench_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// bench runs `mintage bench` and returns its outputs and exit status.
func bench(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary.Path(t), append([]string{"bench"}, args...)...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

type result struct {
	Requests int
	Errors   map[string]int
	Latency  map[string]float64 `json:"latency_ms"`
	Server   *struct {
		PID      int
		Resident int64 `json:"resident_bytes"`
	}
}

func TestBenchLoadsTheDevServerWithEachOperation(t *testing.T) {
	s := binary.Start(t, t.TempDir())
	for _, operation := range []string{"refresh", "connect", "code"} {
		stdout, stderr, status := bench(t, "--data", s.Dir, "--operation", operation, "--requests", "40", "--connections", "4", "--json")
		var r result
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || status != 0 {
			t.Fatalf("%s: status %d, %v\n%s%s", operation, status, err, stdout, stderr)
		}
		if r.Requests != 40 || len(r.Errors) != 0 || r.Latency["p50"] <= 0 || r.Latency["max"] < r.Latency["p99.9"] {
			t.Errorf("%s: %+v", operation, r)
		}
		// The command has found the process through the admin socket.
		if r.Server == nil || r.Server.PID != s.PID() || r.Server.Resident == 0 {
			t.Errorf("%s: server %+v, and it is process %d", operation, r.Server, s.PID())
		}
	}
	stdout, stderr, status := bench(t, "--data", s.Dir, "--duration", "1100ms", "--connections", "2")
	for _, want := range []string{"throughput", "p99.9", "server CPU", "errors         none"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
	if status != 0 || !strings.Contains(stderr, "1 s") || !strings.Contains(stderr, "0 errors") {
		t.Errorf("status %d, progress:\n%s", status, stderr)
	}
}

func TestBenchGoesOnWithTheTokensOfItsLastRun(t *testing.T) {
	s := binary.Start(t, t.TempDir(), "--retry-window", "0s") // without a window, every replay revokes
	client := &http.Client{Transport: s.Transport(t, "")}
	file := filepath.Join(t.TempDir(), "tokens")
	var tokens []string
	for range 3 {
		a, err := s.Post(t.Context(), client, s.ExchangeForm(s.Code(t, "alice")))
		if err != nil || a.RefreshToken == "" {
			t.Fatalf("code: status %d, %v", a.Status, err)
		}
		tokens = append(tokens, a.RefreshToken)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	for name, text := range map[string]string{file: strings.Join(tokens, "\n"), secret: s.ClientSecret + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--token-endpoint", s.TokenEndpoint, "--ca-file", s.CAFile, "--client-id", s.ClientID,
		"--client-secret-file", secret, "--refresh-tokens", file, "--connections", "2", "--requests", "20"}
	for run := range 3 {
		if stdout, stderr, status := bench(t, args...); status != 0 {
			t.Fatalf("run %d: status %d\n%s%s", run, status, stdout, stderr)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	after := strings.Fields(string(text))
	if len(after) != 3 || slices.ContainsFunc(after, func(s string) bool { return slices.Contains(tokens, s) }) {
		t.Errorf("the file holds %d tokens, or one that was used", len(after))
	}

	// A wrong answer is counted, reported, and leads to exit status 1.
	if err := os.WriteFile(file, []byte(strings.Join(tokens, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := bench(t, args...)
	if status != 1 || !strings.Contains(stdout, "3 × status 400 invalid_grant") || !strings.Contains(stderr, "3 of 3 requests went wrong") {
		t.Errorf("used tokens: status %d\n%s%s", status, stdout, stderr)
	}
}

func TestBenchExplainsWhatItCannotDo(t *testing.T) {
	empty := t.TempDir()
	foreign := []string{"--token-endpoint", "https://127.0.0.1:1/", "--client-id", "c"}
	one := filepath.Join(empty, "one")
	twice := filepath.Join(empty, "twice")
	for name, text := range map[string]string{one: "a\n", twice: "a\na\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--data", empty}, 1, "mintage serve --dev"},
		{[]string{"--operation", "login"}, 2, "refresh, code or connect"},
		{[]string{"--connections", "0"}, 2, "must be positive"},
		{[]string{"--duration", "0s"}, 2, "no end"},
		{[]string{"--connections", "4", "--grants", "3"}, 2, "one of its own"},
		{[]string{"--client-id", "c"}, 2, "belong to --token-endpoint"},
		{foreign, 2, "--refresh-tokens"},
		{append(foreign, "--refresh-tokens", one, "--operation", "code"), 2, "--dev server only"},
		{append(foreign, "--refresh-tokens", one, "--grants", "100"), 2, "are the grants"},
		{append(foreign, "--refresh-tokens", one, "--connections", "2"), 1, "fewer than the 2 connections"},
		{append(foreign, "--refresh-tokens", twice, "--connections", "2"), 1, "twice"},
		{append(foreign, "--refresh-tokens", one, "--connections", "1"), 1, "connection refused"},
		{append(foreign, "--refresh-tokens", one, "--ca-file", one), 1, "no certificate"},
	} {
		stdout, stderr, status := bench(t, tt.args...)
		if status != tt.status || !strings.Contains(stderr, tt.want) || stdout != "" {
			t.Errorf("%v: status %d, want %d and %q\n%s%s", tt.args, status, tt.status, tt.want, stdout, stderr)
		}
	}
	if text, err := os.ReadFile(one); err != nil || string(text) != "a\n" {
		t.Errorf("runs that could not begin left %q, %v", text, err)
	}
}
