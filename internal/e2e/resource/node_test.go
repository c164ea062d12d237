//go:build e2e

package resource

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
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
)

// js is the directory of the programs that use the libraries, and of the libraries.
const js = "../clients/js"

// A session is a running program that uses a library, and executes one operation per
// line.
type session struct {
	in  io.Writer
	out *bufio.Scanner
}

func node(t *testing.T, s *binary.Server, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := os.Stat(filepath.Join(js, "node_modules", "openid-client")); err != nil {
		t.Fatalf("%v (make tools installs what is missing)", err)
	}
	cmd := exec.Command("node", args...)
	cmd.Dir = js
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+s.CAFile)
	return cmd
}

func start(t *testing.T, s *binary.Server, program string, args ...string) *session {
	t.Helper()
	cmd := node(t, s, append([]string{program}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", program, err, &stderr)
		}
	})
	return &session{in, bufio.NewScanner(out)}
}

// A reply is the result or the error of a library's operation.
type reply struct {
	Value  json.RawMessage `json:"value"`
	Error  string          `json:"error"`
	Status int             `json:"status"`
}

func (s *session) do(t *testing.T, command map[string]string) (r reply) {
	t.Helper()
	line, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	if !s.out.Scan() {
		t.Fatalf("the program has ended: %v", s.out.Err())
	}
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// claims are the claims that both libraries return for a valid token.
type claims struct {
	Active   bool   `json:"active"`
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	ClientID string `json:"client_id"`
	Scope    string `json:"scope"`
	ID       string `json:"jti"`
	Type     string `json:"token_type"`
	Expires  int64  `json:"exp"`
}

func (r reply) claims(t *testing.T) (c claims) {
	t.Helper()
	if r.Error != "" {
		t.Errorf("a valid token is refused: %s", r.Error)
		return c
	}
	if err := json.Unmarshal(r.Value, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func (l *libraries) checkOAuth4WebAPI(t *testing.T) {
	s := start(t, l.Server, "validate.mjs", l.Issuer)
	validate := func(token, audience string) reply {
		return s.do(t, map[string]string{"op": "validate", "token": token, "audience": audience})
	}
	for _, alg := range []string{"ES256", "EdDSA", "RS256"} {
		t.Run(alg, func(t *testing.T) {
			c := register(t, l.Server, alg, "--access-token-format", "jwt", "--signing-alg", alg, "--audience", audience)
			token := pair(t, l.Server, l.post, c, "read").AccessToken
			got := validate(token, audience).claims(t)
			if got.Issuer != l.Issuer || got.Subject != "alice" || got.Audience != audience || got.ClientID != c.ID || got.Scope != "read" || got.ID == "" {
				t.Errorf("claims %+v", got)
			}
			for name, test := range map[string]struct{ token, audience, err string }{
				"changed":              {forge(token), audience, "OAUTH_"},
				"cut off":              {token[:len(token)-4], audience, "OAUTH_INVALID_RESPONSE"},
				"unsigned":             {unsigned(token), audience, "OAUTH_INVALID_RESPONSE"},
				"signed by a stranger": {resign(t, token), audience, "OAUTH_"},
				"for another audience": {token, "https://other.example.com", "OAUTH_JWT_CLAIM_COMPARISON_FAILED"},
			} {
				if r := validate(test.token, test.audience); !strings.HasPrefix(r.Error, test.err) || r.Error == "" {
					t.Errorf("a token that is %s: %q, want an error %s", name, r.Error, test.err)
				}
			}
		})
	}
	t.Run("a token of the type JWT is refused", func(t *testing.T) {
		c := register(t, l.Server, "typ", "--access-token-format", "jwt", "--jwt-type", "JWT", "--audience", audience)
		if r := validate(pair(t, l.Server, l.post, c, "read").AccessToken, audience); !strings.Contains(r.Error, `"typ"`) {
			t.Errorf("error %q", r.Error)
		}
	})
	t.Run("the keys are asked for once", func(t *testing.T) {
		if r := s.do(t, map[string]string{"op": "sent"}); string(r.Value) != "2" { // metadata and keys
			t.Errorf("%s requests, want 2", r.Value)
		}
	})
}

func (l *libraries) checkOpenIDClient(t *testing.T) {
	c := register(t, l.Server, "own", "--audience", audience)
	jwt := register(t, l.Server, "own, JWT", "--access-token-format", "jwt", "--audience", audience)
	api := resourceServer(t, l.Server)
	other := register(t, l.Server, "other", "--audience", "https://other.example.com")
	const dead = `{"active":false}`
	for _, kind := range []string{"oidc", "oauth2"} {
		for _, signed := range []string{"", "ES256"} {
			t.Run(kind+", answers "+map[string]string{"": "plain", "ES256": "signed"}[signed], func(t *testing.T) {
				server := start(t, l.Server, "introspect.mjs", l.Issuer, kind, api.ID, api.Secret, signed)
				introspect := func(s *session, token string) reply {
					return s.do(t, map[string]string{"op": "introspect", "token": token})
				}
				var metadata struct {
					Issuer string `json:"issuer"`
					Token  string `json:"token_endpoint"`
				}
				if r := server.do(t, map[string]string{"op": "metadata"}); json.Unmarshal(r.Value, &metadata) != nil || metadata.Issuer != l.Issuer || metadata.Token != l.Issuer+"/access_token" {
					t.Errorf("discovered %+v", metadata)
				}
				for name, owner := range map[string]client{"opaque": c, "JWT": jwt} {
					mine := start(t, l.Server, "introspect.mjs", l.Issuer, kind, owner.ID, owner.Secret, signed)
					tokens := pair(t, l.Server, l.post, owner, "read")
					got := introspect(server, tokens.AccessToken).claims(t)
					if !got.Active || got.Issuer != l.Issuer || got.Subject != "alice" || got.Audience != audience || got.ClientID != owner.ID || got.Scope != "read" || got.Type != "Bearer" {
						t.Errorf("%s: %+v", name, got)
					}
					if r := introspect(server, tokens.RefreshToken); string(r.Value) != dead {
						t.Errorf("%s: a resource server can introspect a refresh token: %s%s", name, r.Value, r.Error)
					}
					if got := introspect(mine, tokens.RefreshToken).claims(t); !got.Active || got.Type != "" || got.Subject != "alice" {
						t.Errorf("%s: a client's own refresh token: %+v", name, got)
					}
					if r := introspect(server, forge(tokens.AccessToken)); string(r.Value) != dead {
						t.Errorf("%s: a forged token: %s%s", name, r.Value, r.Error)
					}
					// Revoking an access token ends only that token; revoking a refresh
					// token ends the grant.
					if r := mine.do(t, map[string]string{"op": "revoke", "token": tokens.AccessToken, "hint": "refresh_token"}); r.Error != "" {
						t.Errorf("%s: revocation: %s", name, r.Error)
					}
					if r := introspect(server, tokens.AccessToken); string(r.Value) != dead {
						t.Errorf("%s: a revoked access token: %s%s", name, r.Value, r.Error)
					}
					if got := introspect(mine, tokens.RefreshToken).claims(t); !got.Active {
						t.Errorf("%s: the refresh token ended with an access token", name)
					}
					again := pair(t, l.Server, l.post, owner, "read")
					if r := mine.do(t, map[string]string{"op": "revoke", "token": again.RefreshToken}); r.Error != "" {
						t.Errorf("%s: revocation: %s", name, r.Error)
					}
					for _, token := range []string{again.AccessToken, again.RefreshToken} {
						if r := introspect(mine, token); string(r.Value) != dead {
							t.Errorf("%s: a token of a revoked grant: %s%s", name, r.Value, r.Error)
						}
					}
				}
				if r := introspect(server, pair(t, l.Server, l.post, other, "read").AccessToken); string(r.Value) != dead {
					t.Errorf("a token for another API: %s%s", r.Value, r.Error)
				}
			})
		}
	}
}

// checkNodeAPI runs the API program of the page.
func (l *libraries) checkNodeAPI(t *testing.T) {
	api := resourceServer(t, l.Server)
	address := binary.FreeAddress(t, "127.0.0.1")
	_, port, _ := strings.Cut(address, ":")
	program := here(t, shown(t, "node-api.md", "api.mjs"), "https://auth.example.com/oauth2/api", l.Issuer, "listen(8080,", "listen("+port+",")
	// The directory of the library.
	cmd := node(t, l.Server, "--input-type=module", "--eval", program)
	cmd.Env = append(cmd.Env, "MINTAGE_CLIENT_ID="+api.ID, "MINTAGE_CLIENT_SECRET="+api.Secret)
	binary.Serve(t, cmd, address)

	ask := func(method string, header ...string) (status int, challenge, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+"/reports", nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Add(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("WWW-Authenticate"), string(text)
	}
	const challenge = `Bearer realm="/api", resource_metadata="` + audience + metadataPath + `"`
	const bad = challenge + `, error="invalid_token"`
	want := func(status int, challenge string, method string, header ...string) {
		t.Helper()
		if s, c, _ := ask(method, header...); s != status || c != challenge {
			t.Errorf("%s: status %d, challenge %q; want %d, %q", method, s, c, status, challenge)
		}
	}
	want(http.StatusUnauthorized, challenge, "GET")
	resp, err := http.Get("http://" + address + metadataPath)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	about, err := io.ReadAll(resp.Body)
	if want := `{"resource":"` + audience + `","authorization_servers":["` + l.Issuer + `"],"scopes_supported":["read","write"],"bearer_methods_supported":["header"]}`; err != nil || string(about) != want {
		t.Errorf("metadata %s, want %s", about, want)
	}
	for name, format := range map[string][]string{"opaque": nil, "JWT": {"--access-token-format", "jwt"}} {
		t.Run(name+" of a service", func(t *testing.T) {
			c := create(t, l.Server, append(format, "--name", "Service", "--grant-types", "client_credentials", "--scope", "read", "--audience", audience)...)
			a, err := l.Post(t.Context(), l.post, url.Values{"grant_type": {"client_credentials"}, "client_id": {c.ID}, "client_secret": {c.Secret}})
			if err != nil || a.Status != http.StatusOK {
				t.Fatalf("no token: %v, status %d %s", err, a.Status, a.Error)
			}
			if status, _, body := ask("GET", bearer(a.AccessToken)...); status != http.StatusOK || body != `{"sub":"`+c.ID+`","client_id":"`+c.ID+`","scope":"read"}` {
				t.Errorf("status %d, %s", status, body)
			}
		})
		t.Run(name, func(t *testing.T) {
			c := register(t, l.Server, name, append(format, "--audience", audience)...)
			tokens := pair(t, l.Server, l.post, c, "read")
			good := tokens.AccessToken
			if status, _, body := ask("GET", bearer(good)...); status != http.StatusOK || body != `{"sub":"alice","client_id":"`+c.ID+`","scope":"read"}` {
				t.Errorf("status %d, %s", status, body)
			}
			want(http.StatusForbidden, challenge+`, error="insufficient_scope", scope="write"`, "POST", bearer(good)...)
			for _, token := range []string{forge(good), good[:len(good)-4], good + "A", tokens.RefreshToken, "x", "mintage_at_", "a.b.c", "e30.e30.e30"} {
				want(http.StatusUnauthorized, bad, "GET", bearer(token)...)
			}
			p := testkit.NewProver(t)
			withKey := bound(t, l.Server, l.post, c, p, "read")
			want(http.StatusUnauthorized, bad, "GET", bearer(withKey)...)
			want(http.StatusUnauthorized, bad, "GET", append(bearer(withKey), "DPoP", p.Proof("GET", audience+"/reports", withKey, time.Now()))...)
			elsewhere := register(t, l.Server, name, append(format, "--audience", "https://other.example.com")...)
			want(http.StatusUnauthorized, bad, "GET", bearer(pair(t, l.Server, l.post, elsewhere, "read").AccessToken)...)
			if name == "JWT" {
				want(http.StatusUnauthorized, bad, "GET", bearer(unsigned(good))...)
				want(http.StatusUnauthorized, bad, "GET", bearer(resign(t, good))...)
				return
			}
			if _, err := l.post.PostForm(endpoint(l.Server, "revoke"), map[string][]string{"token": {good}, "client_id": {c.ID}, "client_secret": {c.Secret}}); err != nil {
				t.Fatal(err)
			}
			want(http.StatusUnauthorized, bad, "GET", bearer(good)...)
		})
	}
	// A resource server whose client is disabled cannot introspect tokens: it must refuse
	// all of them.
	t.Run("an introspection that fails is no access", func(t *testing.T) {
		l.Run(t, "client", "disable", api.ID)
		c := register(t, l.Server, "late", "--audience", audience)
		token := pair(t, l.Server, l.post, c, "read").AccessToken
		noticed(t, func() bool {
			status, _, _ := ask("GET", bearer(token)...)
			return status == http.StatusServiceUnavailable
		})
	})
}
