//go:build e2e

package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/testkit"
	"github.com/mintage/mintage/resource"
)

// nodeProgram returns a Node program that uses the libraries of the MCP tests.
func nodeProgram(t *testing.T, w *world, args ...string) *exec.Cmd {
	t.Helper()
	const folder = "mcp"
	if _, err := os.Stat(filepath.Join(folder, "node_modules")); err != nil {
		t.Fatalf("%v (make tools installs what is missing)", err)
	}
	cmd := exec.Command("node_modules/.bin/node", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+w.CAFile)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// serverOfThePage returns server.mjs of docs/how-to/mcp.md with the addresses of this
// test.
func serverOfThePage(t *testing.T, issuer, address, port string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/how-to/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := strings.Cut(string(page), "```js\n// server.mjs\n")
	program, _, closed := strings.Cut(program, "\n```\n")
	if !found || !closed {
		t.Fatal("mcp.md shows no server.mjs")
	}
	for from, to := range map[string]string{"https://auth.example.com/oauth2/api": issuer, "https://mcp.example.com/mcp": address, "listen(3000,": "listen(" + port + ","} {
		if strings.Count(program, from) != 1 {
			t.Fatalf("mcp.md does not have %q once", from)
		}
		program = strings.ReplaceAll(program, from, to)
	}
	return program
}

// serveTools runs the MCP server of docs/how-to/mcp.md with an API for self-registered
// clients, and returns its address.
func serveTools(t *testing.T, w *world) string {
	t.Helper()
	behind := binary.FreeAddress(t, "127.0.0.1")
	port := serveHTTPS(t, mintageHost+":0", &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: behind})
			r.Out.Host = r.In.Host
		},
		ErrorLog: log.New(io.Discard, "", 0), // agents close connections early
	})
	address := "https://" + mintageHost + ":" + port + "/mcp"
	w.Run(t, "api", "create", "--id", address, "--name", "Ticket tools", "--scope", "tickets:read=Read your tickets", "--scope", "tickets:write=Write tickets",
		"--self-registered-clients", "--default-scope", "tickets:read", "--token-format", "jwt")
	_, behindPort, _ := strings.Cut(behind, ":")
	binary.Serve(t, nodeProgram(t, w, "--input-type=module", "--eval", serverOfThePage(t, w.Issuer, address, behindPort)), behind)
	return address
}

// TestTheMCPServerRefusesBoundTokens: the MCP server of docs/how-to/mcp.md verifies no
// proofs. It accepts a bearer token, and no token that is bound to a key (RFC 9449
// section 7.1).
func TestTheMCPServerRefusesBoundTokens(t *testing.T) {
	t.Parallel()
	w := openWorld(t, t.TempDir(), binary.FreeAddress(t, mintageHost))
	address := serveTools(t, w)
	var c struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	out := w.Run(t, "client", "create", "--json", "--name", "Service", "--grant-types", "client_credentials", "--api", address+" tickets:read")
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	p := testkit.NewProver(t)
	endpoint, _, _ := strings.Cut(w.TokenEndpoint, "?")
	for proof, want := range map[string]int{"": http.StatusOK, p.Proof("POST", endpoint, "", time.Now()): http.StatusUnauthorized} {
		a, err := w.PostProven(t.Context(), w.post, url.Values{
			"grant_type": {"client_credentials"}, "resource": {address}, "client_id": {c.ID}, "client_secret": {c.Secret},
		}, proof)
		if err != nil || a.Status != http.StatusOK || (a.TokenType == "DPoP") != (proof != "") {
			t.Fatalf("%v, status %d, %s (%s), token type %q", err, a.Status, a.Error, a.Description, a.TokenType)
		}
		for _, proof := range []string{"", p.Proof("POST", address, a.AccessToken, time.Now())} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Authorization": {"Bearer " + a.AccessToken}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			if proof != "" {
				r.Header.Set("DPoP", proof)
			}
			resp, err := w.post.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("a token of type %s: %d %s, want %d", a.TokenType, resp.StatusCode, resp.Header.Get("WWW-Authenticate"), want)
			}
		}
	}
}

// TestTheSDKOfMCPSignsInByItsDocument: the client of the MCP SDK signs its user in for
// the MCP server of docs/how-to/mcp.md, calls a tool, and gets a new token when the old
// one has expired.
func TestTheSDKOfMCPSignsInByItsDocument(t *testing.T) {
	t.Parallel()
	w := openWorld(t, t.TempDir(), binary.FreeAddress(t, mintageHost), "--client-metadata-documents", "any")
	password := w.user(t, "alice", "Alice Cooper")
	address := serveTools(t, w)

	var document []byte
	id := "https://" + mintageHost + ":" + serveHTTPS(t, mintageHost+":0", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.Write(document)
	})) + "/oauth/client.json"
	redirect := "http://" + binary.FreeAddress(t, "127.0.0.1") + "/callback"
	document = fmt.Appendf(nil, `{"client_id":%q,"client_name":"SDK Agent","redirect_uris":["http://127.0.0.1/callback"],"token_endpoint_auth_method":"none"}`, id)

	got := signInAgent(t, w, password, "Read your tickets", nodeProgram(t, w, "agent.mjs", address, redirect, id))
	if got.ClientID != id || got.Text != "tickets of alice" || got.Again != got.Text || !got.Refreshed || got.Scope != "tickets:read" {
		t.Errorf("%+v", got)
	}
}

// TestTheSDKOfMCPSignsInByRegistration: without a metadata document, the same client
// registers itself (RFC 7591), as a public client and with a secret by either method.
func TestTheSDKOfMCPSignsInByRegistration(t *testing.T) {
	t.Parallel()
	w := openWorld(t, t.TempDir(), binary.FreeAddress(t, mintageHost), "--client-metadata-registration")
	password := w.user(t, "alice", "Alice Cooper")
	address := serveTools(t, w)
	for _, method := range []string{"none", "client_secret_post", "client_secret_basic"} {
		redirect := "http://" + binary.FreeAddress(t, "127.0.0.1") + "/callback"
		got := signInAgent(t, w, password, "Read your tickets", nodeProgram(t, w, "agent.mjs", address, redirect, "", method))
		if !strings.HasPrefix(got.ClientID, "mintage_ci_") || got.Text != "tickets of alice" || got.Again != got.Text || !got.Refreshed || got.Scope != "tickets:read" {
			t.Errorf("%s: %+v", method, got)
		}
	}
}

// An agentReport is the last output of agent.mjs.
type agentReport struct {
	ClientID  string `json:"client_id"`
	Text      string `json:"text"`
	Again     string `json:"again"`
	Scope     string `json:"scope"`
	Refreshed bool   `json:"refreshed"`
}

// signInAgent runs an agent and performs its sign-in in a browser. The consent page must
// show what the scope means.
func signInAgent(t *testing.T, w *world, password, scope string, agent *exec.Cmd) (report agentReport) {
	t.Helper()
	var stderr strings.Builder
	agent.Stderr = &stderr
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agent.Process.Kill() })
	b := newWindow(t)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if address, ok := strings.CutPrefix(lines.Text(), "open "); ok {
			if !strings.HasPrefix(address, w.origin) {
				t.Fatalf("the agent opens %s", address)
			}
			b.open(address)
			b.fill("#username", "alice")
			b.fill("#password", password)
			b.click("#submit")
			b.reads(scope)
			b.reads("Your answer goes to a program on this device")
			b.click("#allow")
			b.reads("You can close this page.")
		}
		if text, ok := strings.CutPrefix(lines.Text(), "done "); ok {
			if err := json.Unmarshal([]byte(text), &report); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := agent.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, &stderr)
	}
	return report
}

// TestTheJudgeOfMCPAcceptsTheAgents: MCP's conformance suite for clients accepts
// proving.mjs, with and without nonces, and asserting.mjs with either assertion.
func TestTheJudgeOfMCPAcceptsTheAgents(t *testing.T) {
	t.Parallel()
	folder, err := filepath.Abs("mcp")
	if err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(folder, "node_modules/.bin/node")
	for scenario, is := range map[string]struct{ agent, passed string }{
		"auth/dpop":                             {"proving.mjs", "12/12"},
		"auth/dpop-nonce":                       {"proving.mjs", "14/14"},
		"auth/enterprise-managed-authorization": {"asserting.mjs", "18/18"},
		"auth/wif-jwt-bearer":                   {"asserting.mjs", "8/8"},
	} {
		cmd := exec.Command(node, "node_modules/@modelcontextprotocol/conformance/dist/index.js", "client", "--command", node+" "+filepath.Join(folder, is.agent), "--scenario", scenario)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Passed: "+is.passed) {
			t.Errorf("%s: %v:\n%s", scenario, err, out)
		}
	}
}

// TestAnAgentOfMCPProvesItsKey: an agent that proves its key signs its user in at
// Mintage, calls an MCP server in Go that requires proofs, with nonces of its own or
// without, refreshes and calls again. The server refuses the same token as Bearer.
func TestAnAgentOfMCPProvesItsKey(t *testing.T) {
	t.Parallel()
	for _, nonces := range []string{"off", "all"} {
		t.Run(nonces, func(t *testing.T) {
			t.Parallel()
			w := openWorld(t, t.TempDir(), binary.FreeAddress(t, mintageHost), "--client-metadata-registration", "--authorization-dpop-nonce", nonces)
			password := w.user(t, "alice", "Alice Cooper")
			address := serveProvenTools(t, w, nonces == "all")
			redirect := "http://" + binary.FreeAddress(t, "127.0.0.1") + "/callback"
			got := signInAgent(t, w, password, "Read your tickets", nodeProgram(t, w, "proving.mjs", address, redirect))
			if got.Text != "tickets of alice" || got.Again != "401 DPoP" || !got.Refreshed || got.Scope != "tickets:read" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// serveProvenTools runs an MCP server with one tool that accepts key-bound tokens, and
// returns its address.
func serveProvenTools(t *testing.T, w *world, nonces bool) string {
	t.Helper()
	var handler http.Handler
	address := "https://" + mintageHost + ":" + serveHTTPS(t, mintageHost+":0", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { handler.ServeHTTP(rw, r) })) + "/mcp"
	w.Run(t, "api", "create", "--id", address, "--name", "Ticket tools", "--scope", "tickets:read=Read your tickets",
		"--self-registered-clients", "--default-scope", "tickets:read", "--token-format", "jwt")
	config := resource.Config{Issuer: w.Issuer, Audience: address, PublishMetadata: true, ScopesSupported: []string{"tickets:read"}, HTTPClient: w.post}
	if nonces {
		config.NonceKey = []byte(strings.Repeat("a key of nonces ", 2))
	}
	verifier, err := resource.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(verifier.Close)
	mux := http.NewServeMux()
	mux.Handle(verifier.MetadataPath(), verifier.Metadata())
	mux.Handle("POST /mcp", verifier.Require("tickets:read")(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		caller, _ := resource.FromContext(r.Context())
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil || caller.KeyThumbprint == "" {
			http.Error(rw, "not a bound call", http.StatusBadRequest)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		result := map[string]any{"tools": []any{map[string]any{"name": "tickets of " + caller.Subject, "inputSchema": map[string]any{"type": "object"}}}}
		if call.Method == "initialize" {
			result = map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "tickets", "version": "1"}}
		}
		if call.ID == nil {
			rw.WriteHeader(http.StatusAccepted)
			return
		}
		json.NewEncoder(rw).Encode(map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": result})
	})))
	handler = mux
	return address
}
