//go:build e2e

// Package clients runs unmodified third-party client software against the built program
// over TLS. What a library reports as a success must be one, and it must interpret each
// refusal correctly.
package clients

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A registered is a client of the server under test.
type registered struct {
	id, secret, redirect string
}

func demo(s *binary.Server) registered {
	return registered{s.ClientID, s.ClientSecret, s.RedirectURI}
}

const redirect = "https://client.example/callback"

// register creates a client with the command. existing is an existing secret, which the
// command reads from standard input, or "".
func register(t *testing.T, s *binary.Server, existing string, args ...string) registered {
	t.Helper()
	all := append([]string{"client", "create", "--data", s.Dir, "--json", "--name", t.Name(), "--redirect-uri", redirect, "--scope", "read write", "--no-pkce"}, args...)
	cmd := exec.Command(binary.Path(t), all...)
	cmd.Stdin = strings.NewReader(existing)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("client create: %v", err)
	}
	var c struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatal(err)
	}
	if c.Secret == "" {
		c.Secret = existing
	}
	return registered{c.ID, c.Secret, redirect}
}

// code issues a code for c.
func code(t *testing.T, s *binary.Server, c registered, args ...string) string {
	t.Helper()
	return s.Code(t, "alice", append([]string{"--client", c.id, "--redirect-uri", c.redirect}, args...)...)
}

// addresses are the forms of the token endpoint's address that such deployments use: the
// realm in the query or in the path.
func addresses(s *binary.Server) map[string]string {
	root := strings.TrimSuffix(s.Issuer, "/oauth2/api")
	return map[string]string{
		"realm query":           root + "/oauth2/access_token?realm=/api",
		"realm query, encoded":  root + "/oauth2/access_token?realm=%2Fapi",
		"realm query, bare":     root + "/oauth2/access_token?realm=api",
		"realm path":            root + "/oauth2/api/access_token",
		"realm path from root":  root + "/oauth2/realms/root/realms/api/access_token",
		"realm path and query":  root + "/oauth2/api/access_token?realm=/api",
		"announced in dev.json": s.TokenEndpoint,
	}
}
