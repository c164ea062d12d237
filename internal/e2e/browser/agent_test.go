//go:build e2e

package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

const mcpServer = "https://mcp.example/mcp"

// openAgentsWorld starts a server with an API for self-registered clients, whose metadata
// documents may be at any address, including this machine's.
func openAgentsWorld(t *testing.T) *world {
	t.Helper()
	w := openWorld(t, t.TempDir(), binary.FreeAddress(t, mintageHost), "--client-metadata-documents", "any")
	w.Run(t, "api", "create", "--id", mcpServer, "--name", "Tools", "--scope", "tools:use=Use your tools", "--self-registered-clients", "--default-scope", "tools:use")
	return w
}

// TestAnAgentSignsInByItsDocument signs a user in to an agent with a client ID metadata
// document and a loopback redirect URI with a port.
func TestAnAgentSignsInByItsDocument(t *testing.T) {
	t.Parallel()
	w := openAgentsWorld(t)
	password := w.user(t, "alice", "Alice Cooper")
	var answered atomic.Value
	callback := serveHTTP(t, "127.0.0.1:0", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/callback" { // the browser also requests the icon
			answered.Store(r.URL.Query())
		}
		io.WriteString(rw, "<p>You can close this page.</p>")
	}))
	var reads atomic.Int64
	var document map[string]any
	port := serveHTTPS(t, mintageHost+":0", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		reads.Add(1)
		rw.Header().Set("Content-Type", "application/json")
		json.NewEncoder(rw).Encode(document)
	}))
	id := "https://" + mintageHost + ":" + port + "/oauth/client.json"
	document = map[string]any{"client_id": id, "client_name": "Example Agent", "redirect_uris": []string{"cursor://a/b", "http://127.0.0.1/callback"}, "token_endpoint_auth_method": "none"}
	c := client{ID: id, redirect: callback + "/callback"}
	address := w.authorizeURL(c, url.Values{"resource": {mcpServer + "/"}, "scope": {"openid offline_access tools:use"}})

	b := newWindow(t)
	b.open(address)
	b.reads("to continue to " + mintageHost + ":" + port)
	if reads.Load() != 0 {
		t.Error("the document was fetched before the user had signed in")
	}
	b.fill("#username", "alice")
	b.fill("#password", password)
	b.click("#submit")
	b.reads("Allow " + mintageHost + ":" + port + " to access your account?")
	b.reads("Your answer goes to a program on this device, where any program can claim to be this one")
	b.reads("The application calls itself “Example Agent”.")
	if text := b.text("main"); strings.Index(text, id) > strings.Index(text, "Example Agent") || strings.Contains(text, "Remember") {
		t.Errorf("the page says:\n%s", text)
	}
	b.click("#allow")
	b.reads("You can close this page.")
	q := answered.Load().(url.Values)
	if q.Get("code") == "" || q.Get("iss") != w.Issuer || reads.Load() != 1 {
		t.Fatalf("%q after %d reads", q, reads.Load())
	}
	form := url.Values{"grant_type": {"authorization_code"}, "client_id": {id}, "code": q["code"], "redirect_uri": {c.redirect}, "code_verifier": {"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}}
	var tokens struct {
		Scope   string `json:"scope"`
		Refresh string `json:"refresh_token"`
	}
	redeem := func() {
		t.Helper()
		resp, err := w.post.PostForm(w.TokenEndpoint, form)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if err := json.Unmarshal(body, &tokens); err != nil || resp.StatusCode != http.StatusOK || tokens.Scope != "tools:use" {
			t.Fatalf("%s: %s", resp.Status, bytes.ReplaceAll(body, []byte(tokens.Refresh), []byte("...")))
		}
	}
	redeem()
	form = url.Values{"grant_type": {"refresh_token"}, "client_id": {id}, "refresh_token": {tokens.Refresh}}
	redeem()
	if reads.Load() != 1 {
		t.Errorf("the token endpoint fetched the document: %d fetches", reads.Load())
	}
	// A denial is redirected to the agent at once; an error of the request is not.
	b.open(address)
	b.click("#deny")
	b.reads("You can close this page.")
	if q := answered.Load().(url.Values); q.Get("error") != "access_denied" {
		t.Errorf("%q", q)
	}
	b.open(w.authorizeURL(c, url.Values{"resource": {"https://other.example"}}))
	b.reads("You cannot be signed in")
	b.click("#continue")
	b.reads("You can close this page.")
	if q := answered.Load().(url.Values); q.Get("error") != "invalid_target" {
		t.Errorf("%q", q)
	}
}

// TestMCPConformance runs every authorization scenario of the Model Context Protocol's
// conformance suite.
func TestMCPConformance(t *testing.T) {
	t.Parallel()
	const folder = "mcp/node_modules"
	if _, err := os.Stat(folder); err != nil {
		t.Fatalf("%v (make tools installs what is missing)", err)
	}
	w := openAgentsWorld(t)
	password := w.user(t, "alice", "Alice Cooper")
	free := binary.FreeAddress(t, "127.0.0.1")
	port := free[strings.LastIndexByte(free, ':')+1:]
	c := w.create(t, "http://127.0.0.1:"+port+"/callback", "--name", "Judge", "--redirect-uri", "http://127.0.0.1:"+port+"/callback", "--native", "--auth-method", "none", "--audience", mcpServer, "--scope", "read")
	results := t.TempDir()
	cmd := exec.Command(filepath.Join(folder, ".bin/node"), filepath.Join(folder, "@modelcontextprotocol/conformance/dist/index.js"), "authorization",
		"--url", w.Issuer, "--client-id", c.ID, "--resource", mcpServer, "--port", port, "--output-dir", results)
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+w.CAFile)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	var said strings.Builder
	b := newWindow(t)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		fmt.Fprintln(&said, line)
		t.Log(line)
		if !strings.HasPrefix(line, w.origin) || !strings.Contains(line, "response_type=code") {
			continue
		}
		b.open(line)
		b.fill("#username", "alice")
		b.fill("#password", password)
		b.click("#submit")
		b.sees("#allow")
		b.click("#allow")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, said.String())
	}
	if text := said.String(); !strings.Contains(text, "Total: ") || !strings.Contains(text, ", 0 failed") || strings.Count(text, "✓") < 2 {
		t.Errorf("the judge says:\n%s", text)
	}
}
