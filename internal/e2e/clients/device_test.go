//go:build e2e

package clients

import (
	"bufio"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// The programs of sign-in-from-a-terminal.md, as they stand there: golang.org/x/oauth2
// without an AuthStyle, which sends each poll in two forms, and a shell.
func TestSignInFromATerminal(t *testing.T) {
	page, err := os.ReadFile("../../../docs/how-to/sign-in-from-a-terminal.md")
	if err != nil {
		t.Fatal(err)
	}
	s := binary.Start(t, t.TempDir())
	s.Run(t, "client", "create", "--data", s.Dir, "--name", "Example CLI", "--id", "example-cli", "--public", "--grant-types", "device_code,refresh_token", "--scope", "read write")
	add := binary.Command(t, "user", "create", "alice", "--data", s.Dir, "--password-stdin")
	add.Stdin = strings.NewReader(password)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := t.TempDir()
	block := func(language, begins string) string {
		t.Helper()
		m := regexp.MustCompile("(?s)```" + language + "\n(" + regexp.QuoteMeta(begins) + ".*?)```").FindSubmatch(page)
		if m == nil {
			t.Fatalf("the page has no block of %s that begins with %s", language, begins)
		}
		return string(m[1])
	}
	// In a directory of this module, so that the library is the one of go.mod.
	source, err := os.MkdirTemp(".", "terminal")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(source) })
	file := filepath.Join(source, "main.go")
	if err := os.WriteFile(file, []byte(block("go", "package main")), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "terminal")
	if out, err := exec.Command("go", "build", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, cmd := range map[string]*exec.Cmd{
		"Go":    exec.Command(program, s.Issuer, "example-cli"),
		"shell": exec.Command("sh", "-c", block("sh", "field()")),
	} {
		t.Run(name, func(t *testing.T) {
			cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+s.CAFile, "CA="+s.CAFile, "ISSUER="+s.Issuer, "CLIENT=example-cli")
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan()
			m := regexp.MustCompile(`^Open (\S+) and enter (\S+)$`).FindStringSubmatch(lines.Text())
			if m == nil {
				t.Fatalf("the program says %q", lines.Text())
			}
			allowDevice(t, s, m[1], m[2])
			lines.Scan()
			last := lines.Text()
			if err := cmd.Wait(); err != nil || !strings.HasPrefix(last, "signed in until") && !strings.HasPrefix(last, "mintage_at_") {
				t.Errorf("%v: the program ends with %q", err, last)
			}
			s.Leaks.Know("access token", strings.TrimPrefix(last, "signed in until"))
		})
	}
}

const password = "Correct-Horse-1 on a terminal"

// allowDevice is the user: it enters a code, signs in, compares and allows.
func allowDevice(t *testing.T, s *binary.Server, page, code string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: s.Transport(t, "")}
	at, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	send := func(path string, form url.Values) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at.Scheme+"://"+at.Host+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", at.Scheme+"://"+at.Host)
		res, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var body strings.Builder
		if _, err := bufio.NewReader(res.Body).WriteTo(&body); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d, %v", path, res.StatusCode, err)
		}
		return body.String()
	}
	id := regexp.MustCompile(`name="id" value="([^"]*)"`)
	login := send(at.Path, url.Values{"user_code": {strings.ToLower(code)}})
	compare := send("/oauth2/interaction", url.Values{"id": {id.FindStringSubmatch(login)[1]}, "step": {"login"}, "username": {"alice"}, "password": {password}})
	if !strings.Contains(compare, code) {
		t.Fatal("the page does not show the code")
	}
	done := send("/oauth2/interaction", url.Values{"id": {id.FindStringSubmatch(compare)[1]}, "step": {"consent"}, "decision": {"allow"}, "same": {"yes"}})
	if !strings.Contains(done, "You can go back to your device") {
		t.Fatal("the user is not told that it is done")
	}
}
