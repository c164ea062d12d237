//go:build e2e

// Package connect runs the unchanged programs of docs/how-to/connect.md against the built
// server; the tests play the user's browser. Package browser runs the page's program for
// a browser.
package connect

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// program returns a block of connect.md, with the addresses of this test in place of the
// page's addresses.
func program(t *testing.T, s *binary.Server, language, begins string, replace ...string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/how-to/connect.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(page), "\n```"+language+"\n")[1:] {
		text, _, _ := strings.Cut(block, "\n```\n")
		if strings.HasPrefix(text, begins) {
			return strings.NewReplacer(append(replace, "https://127.0.0.1:8443/oauth2/api", s.Issuer)...).Replace(text)
		}
	}
	t.Fatalf("connect.md has no %s that begins with %q", language, begins)
	return ""
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// register registers a client as the page does, but with another port.
func register(t *testing.T, s *binary.Server, args ...string) (secret string) {
	t.Helper()
	var c struct {
		Secret string `json:"client_secret"`
	}
	if err := json.Unmarshal([]byte(s.Run(t, append([]string{"client", "create", "--json", "--scope", "openid profile"}, args...)...)), &c); err != nil {
		t.Fatal(err)
	}
	return c.Secret
}

// run starts a program and returns its output, line by line.
func run(t *testing.T, dir string, env []string, name string, args ...string) (*exec.Cmd, io.Writer, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (make tools installs what is missing)", err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, in, bufio.NewScanner(out)
}

// await reads lines until one contains the text, and returns the rest of that line.
func await(t *testing.T, out *bufio.Scanner, text string) string {
	t.Helper()
	for out.Scan() {
		if _, rest, found := strings.Cut(out.Text(), text); found {
			return strings.TrimSpace(rest)
		}
	}
	t.Fatalf("the program has ended without %q: %v", text, out.Err())
	return ""
}

// A person is a browser with a user, who signs in and consents.
type person struct {
	*http.Client
	t                  *testing.T
	username, password string
	left               string // the redirect to an app's private-use scheme
	consents           int    // how many consents the server has asked for
}

func newPerson(t *testing.T, s *binary.Server) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var demo struct{ Username, Password string }
	text, err := os.ReadFile(filepath.Join(s.Dir, "dev.json"))
	if err == nil {
		err = json.Unmarshal(text, &demo)
	}
	if err != nil || demo.Password == "" {
		t.Fatalf("demo user: %v", err)
	}
	p := &person{t: t, username: demo.Username, password: demo.Password}
	p.Client = &http.Client{Transport: s.Transport(t, ""), Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
			p.left = r.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return p
}

func (p *person) send(r *http.Request, err error) (body string, at *url.URL, status int) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	if r.Method == http.MethodPost {
		r.Header.Set("Origin", "https://"+r.URL.Host)
	}
	resp, err := p.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text), resp.Request.URL, resp.StatusCode
}

func (p *person) get(address string) (body string, status int) {
	p.t.Helper()
	body, _, status = p.send(http.NewRequest("GET", address, nil))
	return body, status
}

var (
	field  = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`)
	isForm = regexp.MustCompile(`name="(password|decision)"`)
)

// signIn opens an address, signs in and consents, and returns the last page.
func (p *person) signIn(address string) (body string) {
	p.t.Helper()
	body, at, _ := p.send(http.NewRequest("GET", address, nil))
	for range 3 {
		kind := isForm.FindStringSubmatch(body)
		if kind == nil || p.left != "" {
			return body
		}
		form := url.Values{}
		for _, m := range field.FindAllStringSubmatch(body, -1) {
			form.Set(m[1], m[2])
		}
		if kind[1] == "password" {
			form.Set("username", p.username)
			form.Set("password", p.password)
		} else {
			form.Set("decision", "allow")
			p.consents++
		}
		r, err := http.NewRequest("POST", at.Scheme+"://"+at.Host+"/oauth2/interaction", strings.NewReader(form.Encode()))
		if err == nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		body, at, _ = p.send(r, err)
	}
	p.t.Fatalf("the login does not end:\n%s", body)
	return ""
}
