//go:build e2e

package nodes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestTX08_EndsOfExchangedTokensOnTwoNodes ends, row by row, something on which exchanged
// tokens depend. That ends both an opaque token and a JWT on both nodes; tokens that
// another client exchanged for another user stay active.
func TestTX08_EndsOfExchangedTokensOnTwoNodes(t *testing.T) {
	t.Parallel()
	c := open(t, 2, "--access-token-lifetime", "1h")
	resourceServer := c.api(t)
	first := c.nodes[0]
	shops := map[string]url.Values{}
	create := func(id string, args ...string) {
		t.Helper()
		var made struct {
			Secret string `json:"client_secret"`
		}
		if err := json.Unmarshal([]byte(first.Run(t, append([]string{"client", "create", "--json", "--name", id, "--id", id}, args...)...)), &made); err != nil {
			t.Fatal(err)
		}
		shops[id] = url.Values{"client_id": {id}, "client_secret": {made.Secret}}
	}
	ask := func(i int, id string, pairs ...string) (a binary.Answer) {
		t.Helper()
		form := url.Values{"client_id": shops[id]["client_id"], "client_secret": shops[id]["client_secret"]}
		for k := 0; k < len(pairs); k += 2 {
			form.Set(pairs[k], pairs[k+1])
		}
		soonBy(t, 250*time.Millisecond, "the registration of "+id, func() (known bool) {
			var err error
			if a, err = c.node(i).Post(t.Context(), c.client, form); err != nil {
				t.Fatal(err)
			}
			return a.Error != "invalid_client" && a.Error != "invalid_target"
		})
		if a.Status != http.StatusOK {
			t.Fatalf("%s: %d %s %q", id, a.Status, a.Error, a.Description)
		}
		return a
	}
	// chain registers an API in each token format, a shop and a gateway. It returns the
	// tokens that the gateway gets by exchange, and the subject token.
	chain := func(t *testing.T, n int) (tokens []string, subject string) {
		t.Helper()
		shop, gateway, user := fmt.Sprint("shop", n), fmt.Sprint("gateway", n), fmt.Sprint("user", n)
		var apis, may []string
		for form, format := range []string{"opaque", "jwt"} {
			id := fmt.Sprintf("https://api%d.example/%d", form, n)
			first.Run(t, "api", "create", "--id", id, "--name", id, "--scope", fmt.Sprintf("use%d:%d=Use it", form, n), "--token-format", format)
			apis, may = append(apis, id), append(may, "--api", id)
		}
		create(shop, append(may, "--redirect-uri", "https://shop.example/cb", "--no-pkce")...)
		create(gateway, "--exchange-from", shop, "--serves-api", apis[0], "--exchange-api", apis[0], "--exchange-api", apis[1])
		code := first.Code(t, user, "--client", shop, "--redirect-uri", "https://shop.example/cb", "--scope", fmt.Sprintf("use0:%d use1:%d", n, n))
		subject = ask(n, shop, "grant_type", "authorization_code", "code", code, "redirect_uri", "https://shop.example/cb").AccessToken
		for i, api := range apis {
			tokens = append(tokens, ask(n+i, gateway, "grant_type", "urn:ietf:params:oauth:grant-type:token-exchange", "resource", api,
				"subject_token", subject, "subject_token_type", "urn:ietf:params:oauth:token-type:access_token").AccessToken)
		}
		return tokens, subject
	}
	others, _ := chain(t, 0)
	for i, row := range []struct {
		name    string
		command string // "": the gateway revokes the tokens
		ends    int    // how many of the two tokens end
	}{
		{"the user's grants", "grant revoke --subject userN", 2},
		{"the user's grants to the shop", "grant revoke --subject userN --client shopN", 2},
		{"the shop", "client disable shopN", 2},
		{"the shop's grants", "grant revoke --client shopN", 2},
		{"the gateway", "client disable gatewayN", 2},
		{"the gateway's grants", "grant revoke --client gatewayN", 2},
		{"the user's grants to the gateway", "grant revoke --subject userN --client gatewayN", 2},
		{"the gateway is deleted", "client delete gatewayN --yes", 2},
		{"one API", "api delete https://api0.example/N --yes", 1},
		{"a revocation of the tokens alone", "", 2},
	} {
		n := i + 1
		t.Run(row.name, func(t *testing.T) {
			tokens, subject := chain(t, n)
			for _, token := range tokens {
				resourceServer.isActive(t, token, true)
			}
			if row.command != "" {
				first.Run(t, strings.Fields(strings.ReplaceAll(row.command, "N", fmt.Sprint(n)))...)
			} else {
				for k, token := range tokens {
					form := url.Values{"token": {token}, "client_id": shops[fmt.Sprint("gateway", n)]["client_id"], "client_secret": shops[fmt.Sprint("gateway", n)]["client_secret"]}
					resp, err := c.client.PostForm(strings.Replace(c.node(k).TokenEndpoint, "access_token", "token/revoke", 1), form)
					if err != nil || resp.StatusCode != http.StatusOK {
						t.Fatalf("revocation: %v, %v", resp, err)
					}
					resp.Body.Close()
				}
			}
			for k, token := range tokens {
				if k >= row.ends {
					resourceServer.isActive(t, token, true)
					continue
				}
				soon(t, "the end of a token", func() bool {
					for node := range c.nodes {
						if active, status := resourceServer.introspect(t, node, token); status != http.StatusOK || active {
							return false
						}
					}
					return true
				})
			}
			if row.command == "" {
				resourceServer.isActive(t, subject, true)
			}
		})
	}
	for _, token := range others {
		resourceServer.isActive(t, token, true)
	}
}
