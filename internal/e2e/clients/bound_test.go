//go:build e2e

package clients

import (
	"crypto/rand"
	"encoding/pem"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// programOf returns the block of a how-to page whose first line is the comment "// name".
func programOf(t *testing.T, page, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/how-to/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := strings.Cut(string(text), "\n// "+name+"\n")
	program, _, closed := strings.Cut(program, "\n```\n")
	if !found || !closed {
		t.Fatalf("%s shows no %s", page, name)
	}
	return program + "\n"
}

// compiled builds a program of a page in a directory of this module, so that it uses the
// library versions of go.mod.
func compiled(t *testing.T, page, name string) string {
	t.Helper()
	source, err := os.MkdirTemp(".", "program")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(source) })
	file, program := filepath.Join(source, "main.go"), filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte(programOf(t, page, name)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return program
}

// TestTheProgramsOfBoundTokens runs the unchanged programs of bind-tokens.md: clients in
// Node and Go get tokens that are bound to a key, with DPoP nonces of the server, and
// call the API, which issues nonces of its own.
func TestTheProgramsOfBoundTokens(t *testing.T) {
	install(t)
	const page = "bind-tokens.md"
	s := binary.Start(t, t.TempDir(), "--authorization-dpop-nonce", "all")
	listen := binary.FreeAddress(t, "127.0.0.1")
	front := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: listen})
	}})
	t.Cleanup(front.Close)
	roots, err := os.ReadFile(s.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "roots.pem")
	roots = append(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})...)
	if err := os.WriteFile(bundle, roots, 0o600); err != nil {
		t.Fatal(err)
	}
	secret := machine(t, s, "stock", "--audience", front.URL, "--access-token-format", "jwt", "--dpop", "required")
	environment := append(os.Environ(), "SSL_CERT_FILE="+bundle, "NODE_EXTRA_CA_CERTS="+bundle, "ISSUER="+s.Issuer, "API="+front.URL,
		"NONCE_KEY="+rand.Text()+rand.Text(), "LISTEN="+listen, "CLIENT=stock", "SECRET="+secret)

	api := exec.Command(compiled(t, page, "api.go"))
	api.Env = environment
	binary.Serve(t, api, listen)
	// Write the program into js, where Node finds node_modules.
	file := filepath.Join("js", "bound.mjs")
	if err := os.WriteFile(file, []byte(programOf(t, page, "client.mjs")), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(file) })
	for name, cmd := range map[string]*exec.Cmd{"Node": exec.Command("node", file), "Go": exec.Command(compiled(t, page, "client.go"))} {
		cmd.Env, cmd.Stderr = environment, os.Stderr
		if out, err := cmd.Output(); err != nil || string(out) != "stock for stock\n" && string(out) != "stock for stock\n\n" {
			t.Errorf("%s: %v, %q", name, err, out)
		}
	}
}
