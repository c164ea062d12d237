//go:build e2e

// Package resource protects an API with unmodified third-party software against the built
// program: proxies with the configuration of the how-to pages, and libraries that verify,
// introspect and revoke tokens. Each one must accept a valid token and nothing else.
package resource

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// Host names and audience of the pages.
const (
	issuer   = "https://auth.example.com/oauth2/api"
	audience = "https://api.example.com"
	redirect = "https://client.example/callback"
)

// A client is a client that is registered with the server under test.
type client struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret"`
}

// A world is the server under the host names of the pages, with its clients.
type world struct {
	*binary.Server
	ca     *authority
	post   *http.Client
	api    client   // a resource server
	opaque client   // gets opaque access tokens for the audience
	jwt    client   // gets JWTs for it
	others []client // get opaque tokens and JWTs for another audience
}

// open starts the server with the shortest access token lifetime, a minute, so that a
// test can wait until a token has expired.
func open(t *testing.T) *world {
	t.Helper()
	w := &world{ca: newAuthority(t)}
	cert, key, _ := w.ca.certify(t, "auth.example.com")
	w.Server = binary.Start(t, t.TempDir(), "--issuer", issuer, "--tls-cert", cert, "--tls-key", key,
		"--access-token-lifetime", "1m", "--retry-window", "0s", "--retry-window-public", "0s", "--log-level", "debug")
	w.CAFile = w.ca.file
	w.post = &http.Client{Transport: w.Transport(t, ""), Timeout: 10 * time.Second}
	w.api = resourceServer(t, w.Server)
	w.opaque = register(t, w.Server, "Opaque", "--audience", audience)
	w.jwt = register(t, w.Server, "JWT", "--access-token-format", "jwt", "--audience", audience)
	for _, format := range []string{"opaque", "jwt"} {
		w.others = append(w.others, register(t, w.Server, "Other", "--access-token-format", format, "--audience", "https://other.example.com"))
	}
	rotate(t, w.Server, w.post) // as often in practice, a published key is not yet in use
	return w
}

func register(t *testing.T, s *binary.Server, name string, args ...string) client {
	t.Helper()
	return create(t, s, append([]string{"--name", name, "--redirect-uri", redirect, "--scope", "read write", "--no-pkce"}, args...)...)
}

// resourceServer registers an API as the pages do.
func resourceServer(t *testing.T, s *binary.Server) client {
	t.Helper()
	return create(t, s, "--name", "Reports API", "--introspect", "--introspect-audience", audience)
}

func create(t *testing.T, s *binary.Server, args ...string) (c client) {
	t.Helper()
	out := s.Run(t, append([]string{"client", "create", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// pair redeems a code of alice for a pair of tokens.
func pair(t *testing.T, s *binary.Server, post *http.Client, c client, scope string) binary.Answer {
	t.Helper()
	code := s.Code(t, "alice", "--client", c.ID, "--redirect-uri", redirect, "--scope", scope)
	a, err := s.Post(t.Context(), post, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "client_id": {c.ID}, "client_secret": {c.Secret},
	})
	if err != nil || a.Status != http.StatusOK {
		t.Fatalf("no tokens: %v, status %d %s", err, a.Status, a.Error)
	}
	return a
}

func (w *world) pair(t *testing.T, c client, scope string) binary.Answer {
	t.Helper()
	return pair(t, w.Server, w.post, c, scope)
}

// endpoint returns the address of another endpoint of this server.
func endpoint(s *binary.Server, name string) string {
	u, err := url.Parse(s.TokenEndpoint)
	if err != nil {
		panic(err)
	}
	return "https://" + u.Host + "/oauth2/" + name
}

// revoke revokes a token (RFC 7009) as the client that got it.
func (w *world) revoke(t *testing.T, c client, token string) {
	t.Helper()
	resp, err := w.post.PostForm(endpoint(w.Server, "revoke"), url.Values{"token": {token}, "client_id": {c.ID}, "client_secret": {c.Secret}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("revocation is answered %d", resp.StatusCode)
	}
}

// forge changes one character of an authentic token: in the payload of a JWT, otherwise
// in the MAC.
func forge(token string) string {
	i := len(token) - 8
	if parts := strings.Split(token, "."); len(parts) == 3 {
		i = len(parts[0]) + 1 + len(parts[1])/2
	}
	c := byte('A')
	if token[i] == c {
		c = 'B'
	}
	return token[:i] + string(c) + token[i+1:]
}

// unsigned returns a JWT with the same claims and the algorithm "none".
func unsigned(jwt string) string {
	_, rest, _ := strings.Cut(jwt, ".")
	payload, _, _ := strings.Cut(rest, ".")
	return "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0." + payload + "."
}

func mustParse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
