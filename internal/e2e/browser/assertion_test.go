//go:build e2e

package browser

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestClientsOfMCPPresentAssertions: clients of the Model Context Protocol's SDK call the
// server of docs/how-to/mcp.md with assertions of trusted issuers. One issuer is a
// company's identity provider, another Mintage, at which the user has signed in with a
// browser (enterprise-managed authorization); the other is the platform on which the
// client runs (workload identity).
func TestClientsOfMCPPresentAssertions(t *testing.T) {
	t.Parallel()
	w := openWorld(t, t.TempDir(), binary.FreeAddress(t, mintageHost))
	company := openWorld(t, t.TempDir(), binary.FreeAddress(t, mintageHost))
	address := serveTools(t, w)
	platform, token := servePlatform(t)
	agent := w.create(t, "", "--name", "Agent", "--id", "agent", "--grant-types", "", "--api", address)
	job := w.create(t, "", "--name", "Orders job", "--id", "orders-job", "--grant-types", "", "--api", address)
	w.Run(t, "trust", "create", "--issuer", company.Issuer, "--kind", "id-jag", "--client", agent.ID, "--api", address+" tickets:read", "--jwks-ca", w.CAFile)
	w.Run(t, "trust", "create", "--issuer", platform, "--kind", "workload", "--client", job.ID, "--api", address+" tickets:read", "--jwks-ca", w.CAFile,
		"--subject", "system:serviceaccount:shop:orders")
	callback := serveHTTP(t, "127.0.0.1:0", http.HandlerFunc(landing)) + "/callback"
	w.waitFor(t, w.register(t, "Last", "https://last.example/cb")) // the trusts were created before, so the server knows them, too

	t.Run("company", func(t *testing.T) {
		t.Parallel()
		login := company.create(t, callback, "--name", "Agent", "--native", "--public", "--redirect-uri", callback, "--scope", "openid",
			"--id-jag", w.Issuer+" client=agent resource="+address+" scope=tickets:read public")
		password := company.user(t, "alice", "Alice Cooper")
		company.waitFor(t, login)
		b := newWindow(t)
		b.open(company.authorizeURL(login, url.Values{"scope": {"openid"}}))
		b.signIn("alice", password)
		b.click("#allow")
		b.reads("code: true")
		tokens, err := company.Post(t.Context(), company.post, url.Values{"grant_type": {"authorization_code"}, "client_id": {login.ID}, "redirect_uri": {callback},
			"code": b.last(callback).Query()["code"], "code_verifier": {"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}})
		if err != nil || tokens.IDToken == "" {
			t.Fatalf("%d %s: %v", tokens.Status, tokens.Error, err)
		}
		got := w.asserts(t, address, map[string]string{"issuer": w.Issuer, "client_id": agent.ID, "client_secret": agent.Secret,
			"idp_client_id": login.ID, "idp_id_token": tokens.IDToken, "idp_issuer": company.Issuer, "idp_token_endpoint": company.TokenEndpoint})
		user := company.Issuer + "|alice"
		if want := "tickets of " + user; len(got) != 2 || got[0].Text != want || got[1].Text != want {
			t.Errorf("%+v, and not of %s", got, user)
		}
		if n := w.grants(t, user); n != 2 { // one per assertion
			t.Errorf("%d grants", n)
		}
	})
	t.Run("platform", func(t *testing.T) {
		t.Parallel()
		got := w.asserts(t, address, map[string]string{"issuer": w.Issuer, "client_id": job.ID, "valid_jwt": token("aud", w.Issuer)})
		if len(got) != 1 || got[0].Text != "tickets of orders-job" {
			t.Errorf("%+v", got)
		}
		for resource, want := range map[string]string{address: `"accepted": true`, "https://other.example": `"accepted": false`} {
			if said := w.Run(t, "trust", "test", token("aud", w.Issuer, "resource", resource), "--json"); !strings.Contains(said, want) {
				t.Errorf("for %s: %s", resource, said)
			}
		}
	})
}

// asserts runs asserting.mjs with the client's settings and returns its report: the scope
// must be one of the trust, without a refresh token.
func (w *world) asserts(t *testing.T, address string, has map[string]string) (got []agentReport) {
	t.Helper()
	context, err := json.Marshal(has)
	if err != nil {
		t.Fatal(err)
	}
	cmd := nodeProgram(t, w, "asserting.mjs", address)
	cmd.Env = append(cmd.Env, "MCP_CONFORMANCE_CONTEXT="+string(context))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	text, _ := strings.CutPrefix(string(out), "done ")
	if err != nil || json.Unmarshal([]byte(text), &got) != nil {
		t.Fatalf("%v:\n%s%s", err, out, &stderr)
	}
	for _, g := range got {
		if g.Scope != "tickets:read" || g.Refreshed {
			t.Errorf("%+v", g)
		}
	}
	return got
}

// servePlatform serves the keys of a workload platform. It returns the platform's issuer,
// and a function that signs a workload's token as a Kubernetes cluster does, with claims
// as name and value pairs.
func servePlatform(t *testing.T) (issuer string, token func(claims ...string) string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	issuer = "https://" + mintageHost + ":" + serveHTTPS(t, mintageHost+":0", mux)
	publish := func(path string, document any) {
		mux.HandleFunc("GET "+path, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			json.NewEncoder(rw).Encode(document)
		})
	}
	publish("/.well-known/openid-configuration", map[string]string{"issuer": issuer, "jwks_uri": issuer + "/keys"})
	publish("/keys", jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
	return issuer, func(claims ...string) string {
		t.Helper()
		now := time.Now().Unix()
		all := map[string]any{"iss": issuer, "sub": "system:serviceaccount:shop:orders", "iat": now, "nbf": now, "exp": now + 3600}
		for i := 0; i < len(claims); i += 2 {
			all[claims[i]] = []string{claims[i+1]}
		}
		text, err := jwt.Signed(signer).Claims(all).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}
