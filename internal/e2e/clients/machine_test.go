//go:build e2e

package clients

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// machine registers a service, and returns its secret, or "" if it has none.
func machine(t *testing.T, s *binary.Server, id string, args ...string) (secret string) {
	t.Helper()
	out := s.Run(t, append([]string{"client", "create", "--json", "--id", id, "--name", id, "--grant-types", "client_credentials", "--scope", "stock:read"}, args...)...)
	var made struct {
		Secret string `json:"client_secret"`
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	return made.Secret
}

// publicKeys writes the key set of a key to a file.
func publicKeys(t *testing.T, key any) (file string, set []byte) {
	t.Helper()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key, KeyID: "k1", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(file, set, 0o600); err != nil {
		t.Fatal(err)
	}
	return file, set
}

func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestServicesGetTokens gets a token for a service with golang.org/x/oauth2,
// openid-client and oauth4webapi: by secret, by a client assertion of the service, and by
// a platform's projected token.
func TestServicesGetTokens(t *testing.T) {
	install(t)
	s := binary.Start(t, t.TempDir())
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file, _ := publicKeys(t, key.Public())
	secret := machine(t, s, "by-secret")
	machine(t, s, "by-key", "--auth-method", "private_key_jwt", "--jwks", file)
	const platform, account = "https://kubernetes.default.svc.cluster.local", "system:serviceaccount:shop:orders"
	machine(t, s, "by-token", "--auth-method", "federated", "--jwks", file, "--assertion-signing-alg", "ES256",
		"--assertion-issuer", platform, "--assertion-subject", account, "--assertion-audience", "mintage")

	ctx := context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: s.Transport(t, "")})
	now := time.Now()
	assertion := sign(t, jose.ES256, key, map[string]any{"iss": "by-key", "sub": "by-key", "aud": s.Issuer, "jti": "1", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()})
	projected := sign(t, jose.ES256, key, map[string]any{"iss": platform, "sub": account, "aud": []string{"mintage"}, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix()})
	for name, conf := range map[string]clientcredentials.Config{
		"secret":          {ClientID: "by-secret", ClientSecret: secret},
		"assertion":       {EndpointParams: url.Values{"client_assertion": {assertion}, "client_assertion_type": {jwtBearer}}, AuthStyle: oauth2.AuthStyleInParams},
		"projected token": {ClientID: "by-token", EndpointParams: url.Values{"client_assertion": {projected}, "client_assertion_type": {jwtBearer}}, AuthStyle: oauth2.AuthStyleInParams},
	} {
		conf.TokenURL, conf.Scopes = s.TokenEndpoint, []string{"stock:read"}
		got, err := conf.Token(ctx)
		if err != nil || !strings.HasPrefix(got.AccessToken, "mintage_st_") || got.RefreshToken != "" || got.Expiry.IsZero() {
			t.Errorf("x/oauth2 by %s: %v", name, err)
		}
	}

	private, err := json.Marshal(jose.JSONWebKey{Key: key, KeyID: "k1"})
	if err != nil {
		t.Fatal(err)
	}
	for id, more := range map[string]map[string]any{"by-secret": {"client_secret": secret}, "by-key": {"jwk": json.RawMessage(private)}, "by-token": {"token": projected}} {
		more["issuer"], more["token_endpoint"], more["client_id"], more["scope"] = s.Issuer, s.TokenEndpoint, id, "stock:read"
		in, err := json.Marshal(more)
		if err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "node", "machine.mjs")
		cmd.Dir, cmd.Stdin, cmd.Stderr = "js", bytes.NewReader(in), &stderr
		cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+s.CAFile)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: node machine.mjs: %v\n%s", id, err, &stderr)
			continue
		}
		var answers []pair
		if err := json.Unmarshal(out, &answers); err != nil || len(answers) != 2 {
			t.Errorf("%s: %v in %d answers", id, err, len(answers))
		}
		for i, a := range answers {
			if !strings.HasPrefix(a.AccessToken, "mintage_st_") || a.RefreshToken != "" || a.ExpiresIn != 300 {
				t.Errorf("%s: library %d got scope %q for %d s", id, i, a.Scope, a.ExpiresIn)
			}
		}
	}
}

const jwtBearer = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// TestAWorkloadGetsATokenWithoutASecret authenticates a client repeatedly with the
// projected token of a cluster, whose keys are at a private address behind its own CA.
// While the server cannot fetch the keys, it answers 503; explain names a wrong claim.
func TestAWorkloadGetsATokenWithoutASecret(t *testing.T) {
	s := binary.Start(t, t.TempDir())
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, set := publicKeys(t, key.Public())
	var fetched atomic.Int64
	var down atomic.Bool
	cluster := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched.Add(1)
		if down.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/jwk-set+json")
		w.Write(set)
	}))
	t.Cleanup(cluster.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cluster.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	const issuer = "https://kubernetes.default.svc.cluster.local"
	for _, id := range []string{"orders", "late"} {
		machine(t, s, id, "--auth-method", "federated", "--jwks-uri", cluster.URL+"/openid/v1/jwks?"+id, "--jwks-ca", ca,
			"--assertion-issuer", issuer, "--assertion-subject", "system:serviceaccount:shop:*", "--assertion-audience", "mintage")
	}
	now := time.Now().Unix()
	projected := func(change map[string]any) string {
		claims := map[string]any{
			"iss": issuer, "sub": "system:serviceaccount:shop:orders", "aud": []string{"mintage"}, "iat": now, "nbf": now, "exp": now + 3607,
			"kubernetes.io": map[string]any{"namespace": "shop", "serviceaccount": map[string]any{"name": "orders"}},
		}
		for name, value := range change {
			claims[name] = value
		}
		return sign(t, jose.RS256, key, claims)
	}
	web := &http.Client{Transport: s.Transport(t, ""), Timeout: 20 * time.Second}
	ask := func(id, assertion string) (int, string, string) {
		t.Helper()
		resp, err := web.PostForm(s.TokenEndpoint, url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_assertion": {assertion}, "client_assertion_type": {jwtBearer}})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var a struct{ Error string }
		if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, a.Error, resp.Header.Get("X-Request-Id")
	}
	token := projected(nil)
	for range 3 {
		if status, code, _ := ask("orders", token); status != http.StatusOK {
			t.Fatalf("%d %s", status, code)
		}
	}
	if n := fetched.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
	status, code, request := ask("orders", projected(map[string]any{"aud": []string{"vault"}}))
	if status != http.StatusBadRequest || code != "invalid_client" {
		t.Errorf("a token for another audience: %d %s", status, code)
	}
	if out := s.Run(t, "explain", request); !strings.Contains(out, "aud is not the audience that the client is registered for") {
		t.Errorf("explain says\n%s", out)
	}
	down.Store(true)
	if status, code, _ := ask("late", token); status != http.StatusServiceUnavailable || code != "temporarily_unavailable" {
		t.Errorf("while the keys cannot be fetched: %d %s", status, code)
	}
	if status, code, _ := ask("orders", token); status != http.StatusOK {
		t.Errorf("with the keys fetched before: %d %s", status, code)
	}
}
