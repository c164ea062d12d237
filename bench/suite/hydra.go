package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/bench"
)

// defaultIterations is Hydra's default number of PBKDF2 iterations for a client's secret,
// which it computes for every request to its token endpoint. A random secret needs only
// one.
const defaultIterations = 25_000

// hydra starts a Hydra with the same client on the kind of store of base, and creates its
// grants.
func (p *peering) hydra(ctx context.Context, base *contender, iterations int) error {
	program, err := filepath.Abs(filepath.Join(p.peers, "hydra"))
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("%w: run scripts/peers", err)
	}
	name := fmt.Sprintf("hydra_%s_%d", strings.ToLower(base.store), iterations)
	// By default, its pool keeps two connections and opens the others again each time.
	const pool = "max_conns=16&max_idle_conns=16"
	dsn := "sqlite://" + filepath.Join(p.dir, name) + "?_fk=true&_journal_mode=WAL&" + pool
	if base.store == "PostgreSQL" {
		if _, err := p.database.admin.Exec(ctx, `CREATE DATABASE `+name); err != nil {
			return err
		}
		dsn = p.database.server.URL(name, pool)
	}
	public, err := freePort()
	if err != nil {
		return err
	}
	admin, err := freePort()
	if err != nil {
		return err
	}
	cert, key := p.certificate(base)
	environ := append(os.Environ(), "DSN="+dsn, "SECRETS_SYSTEM="+rand.Text(), "LOG_LEVEL=error", "SQA_OPT_OUT=true",
		"URLS_SELF_ISSUER=https://127.0.0.1:"+public, "URLS_LOGIN=https://pages.example/login", "URLS_CONSENT=https://pages.example/consent",
		"SERVE_PUBLIC_HOST=127.0.0.1", "SERVE_PUBLIC_PORT="+public, "SERVE_ADMIN_HOST=127.0.0.1", "SERVE_ADMIN_PORT="+admin,
		"SERVE_TLS_ENABLED=true", "SERVE_TLS_CERT_PATH="+cert, "SERVE_TLS_KEY_PATH="+key, fmt.Sprintf("OAUTH2_HASHERS_PBKDF2_ITERATIONS=%d", iterations))
	migrate := exec.CommandContext(ctx, program, "migrate", "sql", "up", "--read-from-env", "--yes")
	migrate.Env = environ
	if out, err := migrate.CombinedOutput(); err != nil {
		return fmt.Errorf("hydra migrate: %w\n%s", err, out)
	}
	cmd := exec.Command(program, "serve", "all")
	cmd.Env = environ
	started, err := start(cmd, filepath.Join(p.dir, name+".log"))
	if err != nil {
		return err
	}
	c := p.add(&contender{name: "Hydra " + info.Main.Version, store: base.store, base: base, child: started})
	h := &hydraAPI{address: "https://127.0.0.1:" + admin, client: &http.Client{Transport: &http.Transport{TLSClientConfig: base.target.TLS.Clone()}}}
	defer h.client.CloseIdleConnections()
	if err := c.await(ctx, func() (bool, error) { return h.call(ctx, http.MethodGet, "/health/ready", nil, nil) == nil, nil }); err != nil {
		return err
	}
	c.target = base.targetAt("https://127.0.0.1:" + public + "/oauth2/token")
	if c.introspection = h.address + "/admin/oauth2/introspect"; iterations != 1 {
		// Hydra authenticates nobody at introspection, so the figure would be the same.
		c.name, c.introspection = c.name+", secrets hashed as by default", ""
	}
	note("making %d grants on %s, %s", p.grants, c.name, c.store)
	if err := h.seed(ctx, c, p.grants); err != nil {
		return fmt.Errorf("%s, %s: %w", c.name, c.store, err)
	}
	return nil
}

// freePort returns a free port.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port, l.Close()
}

// A hydraAPI is Hydra's admin API.
type hydraAPI struct {
	address string
	client  *http.Client
}

// call sends a request with JSON, and reads the response into answer unless that is nil.
func (h *hydraAPI) call(ctx context.Context, method, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, h.address+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := h.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if text, err = io.ReadAll(response.Body); err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s\n%s", method, path, response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// seed creates the client and its grants. It also imports the key for id_tokens, because
// Hydra would generate a 4,096-bit key at the first authorization, which may exceed its
// timeouts.
func (h *hydraAPI) seed(ctx context.Context, c *contender, grants int) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	keys := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key, KeyID: "bench", Algorithm: "RS256", Use: "sig"}}}
	if err := h.call(ctx, http.MethodPut, "/admin/keys/hydra.openid.id-token", keys, nil); err != nil {
		return err
	}
	if err := h.call(ctx, http.MethodPost, "/admin/clients", map[string]any{
		"client_id": c.target.ClientID, "client_secret": c.target.ClientSecret, "token_endpoint_auth_method": "client_secret_post",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"redirect_uris": []string{c.target.RedirectURI}, "scope": scope + " offline",
	}, nil); err != nil {
		return err
	}
	for i := range grants {
		token, err := h.grant(ctx, c.target, fmt.Sprintf("user-%d", i))
		if err != nil {
			return err
		}
		c.tokens = append(c.tokens, token)
	}
	return nil
}

// grant creates a grant for a user: it follows the redirects as a browser does, and
// decides by the admin API instead of the pages for sign-in and consent.
func (h *hydraAPI) grant(ctx context.Context, target bench.Target, user string) (refresh string, err error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	browser := &http.Client{Transport: h.client.Transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	at := strings.Replace(target.Endpoint, "/oauth2/token", "/oauth2/auth?", 1) + url.Values{"response_type": {"code"}, "client_id": {target.ClientID},
		"redirect_uri": {target.RedirectURI}, "scope": {scope + " offline"}, "state": {rand.Text()}}.Encode()
	accept := map[string]any{"login": map[string]string{"subject": user}, "consent": map[string][]string{"grant_scope": strings.Fields(scope + " offline")}}
	for range 5 {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			return "", err
		}
		response, err := browser.Do(r)
		if err != nil {
			return "", err
		}
		response.Body.Close()
		next, value, err := step(response.Header.Get("Location"))
		if err != nil {
			return "", fmt.Errorf("authorization of %s: %s: %w", user, response.Status, err)
		}
		if next == "code" {
			p, _, err := redeem(ctx, h.client, target, url.Values{"grant_type": {"authorization_code"}, "code": {value}, "redirect_uri": {target.RedirectURI}})
			return p.Refresh, err
		}
		var accepted struct {
			RedirectTo string `json:"redirect_to"`
		}
		if err := h.call(ctx, http.MethodPut, "/admin/oauth2/auth/requests/"+next+"/accept?"+next+"_challenge="+url.QueryEscape(value), accept[next], &accepted); err != nil {
			return "", err
		}
		at = accepted.RedirectTo
	}
	return "", fmt.Errorf("authorization of %s: too many redirects", user)
}

// step parses a redirect of Hydra: to the page for login or consent, with a challenge, or
// to the client with a code.
func step(location string) (next, value string, err error) {
	u, err := url.Parse(location)
	if err != nil {
		return "", "", err
	}
	for _, s := range []struct{ next, parameter string }{{"login", "login_challenge"}, {"consent", "consent_challenge"}, {"code", "code"}} {
		if value := u.Query().Get(s.parameter); value != "" {
			return s.next, value, nil
		}
	}
	return "", "", fmt.Errorf("no code and no challenge in %q", location)
}
