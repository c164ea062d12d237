//go:build e2e

package nodes

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestAClientRegistersAtOneNodeAndIsUsedAtAnother: a registered client's id contains its
// registration, so the other nodes need no notification of it. Nodes learn of the user's
// consent as of any other consent.
func TestAClientRegistersAtOneNodeAndIsUsedAtAnother(t *testing.T) {
	t.Parallel()
	c := open(t, 2, "--client-metadata-registration")
	first := c.nodes[0]
	first.Run(t, "api", "create", "--id", "https://mcp.example/mcp", "--name", "Tools", "--scope", "tools=Use the tools", "--self-registered-clients", "--default-scope", "tools")
	register := func(i int) (id, secret string) {
		t.Helper()
		resp, err := c.client.Post(c.node(i).Issuer+"/register", "application/json", strings.NewReader(`{"redirect_uris":["https://agent.example/cb"],"token_endpoint_auth_method":"client_secret_post"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatalf("node %d: %s %s, %v", i, resp.Status, text, err)
		}
		var a struct {
			ID     string `json:"client_id"`
			Secret string `json:"client_secret"`
		}
		if err := json.Unmarshal(text, &a); err != nil {
			t.Fatal(err)
		}
		return a.ID, a.Secret
	}
	name, password := c.demoUser(t)
	for i := range 2 {
		id, secret := register(i)
		v := c.visitor(t) // a browser that uses another node for each request
		ask := v.origin + "/oauth2/authorize?" + url.Values{"response_type": {"code"}, "client_id": {id}, "redirect_uri": {"https://agent.example/cb"},
			"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"}, "resource": {"https://mcp.example/mcp"}}.Encode()
		v.leaves = "https://agent.example/cb"
		page, _ := v.get(ask)
		page, _ = v.submit(page, url.Values{"username": {name}, "password": {password}})
		_, callback := v.submit(page, url.Values{"decision": {"allow"}})
		if callback == nil || callback.Query().Get("code") == "" {
			t.Fatalf("no code comes back: %v\n%s", callback, page)
		}
		form := url.Values{"grant_type": {"authorization_code"}, "code": callback.Query()["code"], "redirect_uri": {"https://agent.example/cb"}, "client_id": {id}, "client_secret": {secret},
			"code_verifier": {"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}}
		pair := c.post(t, i+1, form, http.StatusOK)
		for node := range 4 {
			pair = c.post(t, node, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {pair.RefreshToken}, "client_id": {id}, "client_secret": {secret}}, http.StatusOK)
		}
	}
}
