//go:build e2e

package nodes

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// everywhere limits the time until a change is in force on every node.
const everywhere = 2 * time.Second

// TestOP04_NodesReadEachOthersWrites uses each grant at one node after the other.
func TestOP04_NodesReadEachOthersWrites(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	for i := range 20 {
		pair := c.post(t, i+1, c.nodes[0].ExchangeForm(c.code(t, i)), http.StatusOK)
		for k := range 6 {
			next := c.post(t, i+k, c.nodes[0].RefreshForm(pair.RefreshToken), http.StatusOK)
			if next.RefreshToken == pair.RefreshToken {
				t.Fatal("the token was not rotated")
			}
			pair = next
		}
	}
}

// An api is a resource server that introspects tokens at every node.
type api struct {
	*cluster
	ID     string `json:"client_id"`
	Secret string `json:"client_secret"`
}

func (c *cluster) api(t *testing.T) *api {
	t.Helper()
	a := &api{cluster: c}
	out := c.nodes[0].Run(t, "client", "create", "--json", "--name", "API", "--introspect")
	if err := json.Unmarshal([]byte(out), a); err != nil || a.Secret == "" {
		t.Fatalf("client create: %v", err)
	}
	for i := range c.nodes {
		soon(t, "the new client on every node", func() bool {
			_, status := a.introspect(t, i, "x")
			return status == http.StatusOK
		})
	}
	return a
}

func (a *api) introspect(t *testing.T, i int, token string) (active bool, status int) {
	t.Helper()
	u, err := url.Parse(a.node(i).TokenEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = strings.TrimSuffix(u.Path, "access_token") + "introspect"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.String(), strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(a.ID, a.Secret)
	resp, err := a.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var body struct{ Active bool }
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, &body); err != nil {
			t.Fatal(err)
		}
	}
	return body.Active, resp.StatusCode
}

// isActive requires that every node reports active as want.
func (a *api) isActive(t *testing.T, token string, want bool) {
	t.Helper()
	for i := range a.nodes {
		if active, status := a.introspect(t, i, token); status != http.StatusOK || active != want {
			t.Errorf("node %d: active %t with status %d, want %t", i, active, status, want)
		}
	}
}

// soon waits until a change is in force on every node. On a busy machine it may take ten
// times the product's limit.
func soon(t *testing.T, what string, f func() bool) {
	t.Helper()
	soonBy(t, 20*time.Millisecond, what, f)
}

// soonBy is soon with a longer pause between tries, for failures that the server
// throttles.
func soonBy(t *testing.T, pause time.Duration, what string, f func() bool) {
	t.Helper()
	began := time.Now()
	for !f() {
		if time.Since(began) > 10*everywhere {
			t.Fatalf("%s: not in force after %v", what, time.Since(began))
		}
		time.Sleep(pause)
	}
}

// TestIN12_WhatHasEndedIsInactiveOnEveryNodeAtOnce revokes a token on one node and
// introspects it at all nodes immediately.
func TestIN12_WhatHasEndedIsInactiveOnEveryNodeAtOnce(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	a := c.api(t)
	form := c.nodes[0].RefreshForm("")
	revoke := func(t *testing.T, i int, token string) {
		t.Helper()
		u := strings.Replace(c.node(i).TokenEndpoint, "access_token", "token/revoke", 1)
		resp, err := c.client.PostForm(u, url.Values{"token": {token}, "client_id": form["client_id"], "client_secret": form["client_secret"]})
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("revocation: %v, %v", resp, err)
		}
		resp.Body.Close()
	}
	for i := range 10 {
		pair := c.post(t, i, c.nodes[0].ExchangeForm(c.code(t, i)), http.StatusOK)
		a.isActive(t, pair.AccessToken, true)
		revoke(t, i+1, pair.RefreshToken)
		a.isActive(t, pair.AccessToken, false)
		c.post(t, i+2, c.nodes[0].RefreshForm(pair.RefreshToken), http.StatusBadRequest)

		code := c.code(t, i)
		pair = c.post(t, i, c.nodes[0].ExchangeForm(code), http.StatusOK)
		a.isActive(t, pair.AccessToken, true)
		c.post(t, i+1, c.nodes[0].ExchangeForm(code), http.StatusBadRequest) // a replay
		a.isActive(t, pair.AccessToken, false)
	}
}

// TestOP18_CommandsAreInForceOnEveryNodeWithinTwoSeconds changes clients and grants by
// commands beside one node.
func TestOP18_CommandsAreInForceOnEveryNodeWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	a := c.api(t)
	pair := c.post(t, 0, c.nodes[0].ExchangeForm(c.code(t, 0)), http.StatusOK)
	code := c.code(t, 1)

	// Revoking by subject also invalidates unredeemed codes.
	c.nodes[1].Run(t, "grant", "revoke", "--subject", "alice")
	if active, status := a.introspect(t, 1, pair.AccessToken); active || status != http.StatusOK {
		t.Errorf("on the node that the command called: active %t, status %d", active, status)
	}
	for i := range c.nodes {
		soon(t, "the cutoff", func() bool {
			active, status := a.introspect(t, i, pair.AccessToken)
			return status == http.StatusOK && !active
		})
		c.post(t, i, c.nodes[0].RefreshForm(pair.RefreshToken), http.StatusBadRequest)
		c.post(t, i, c.nodes[0].ExchangeForm(code), http.StatusBadRequest)
	}

	// Add a second secret, and revoke the first one.
	var added struct {
		Secret string `json:"client_secret"`
		ID     string `json:"secret_id"`
	}
	form := c.nodes[0].RefreshForm("unknown")
	out := c.nodes[2].Run(t, "client", "secret", "add", c.nodes[0].ClientID, "--json")
	if err := json.Unmarshal([]byte(out), &added); err != nil || added.Secret == "" {
		t.Fatalf("secret add: %v\n%s", err, strings.ReplaceAll(out, added.Secret, "..."))
	}
	status := func(i int, secret string) int {
		form.Set("client_secret", secret)
		answer, err := c.node(i).Post(t.Context(), c.client, form)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Error == "invalid_client" {
			return http.StatusUnauthorized
		}
		return answer.Status
	}
	for i := range c.nodes {
		soon(t, "the new secret", func() bool { return status(i, added.Secret) == http.StatusBadRequest })
	}
	c.nodes[0].Run(t, "client", "disable", c.nodes[0].ClientID)
	for i := range c.nodes {
		soon(t, "the disabled client", func() bool { return status(i, added.Secret) == http.StatusUnauthorized })
	}
}

// TestTR35_RefreshesGoOnAfterKeyRotationAndRestarts rotates the token keys and restarts
// one node after the other.
func TestTR35_RefreshesGoOnAfterKeyRotationAndRestarts(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	pair := c.post(t, 0, c.nodes[0].ExchangeForm(c.code(t, 0)), http.StatusOK)
	refresh := func(i int) {
		t.Helper()
		old := pair
		pair = c.post(t, i, c.nodes[0].RefreshForm(pair.RefreshToken), http.StatusOK)
		// Repeat a refresh at another node, as a client that lost the response would.
		again := c.post(t, i+1, c.nodes[0].RefreshForm(old.RefreshToken), http.StatusOK)
		if again.RefreshToken != pair.RefreshToken || again.AccessToken != pair.AccessToken {
			t.Error("the repeat got another pair")
		}
	}
	refresh(0)
	c.nodes[1].Run(t, "keys", "rotate", "--purpose", "mac")
	retired := func() int {
		var list []struct{ Purpose, Phase string }
		if err := json.Unmarshal([]byte(c.nodes[2].Run(t, "keys", "list", "--json")), &list); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, k := range list {
			if k.Purpose == "mac" && k.Phase == "retired" {
				n++
			}
		}
		return n
	}
	// The nodes use the new key when all of them know it, which takes some seconds.
	for i, began := 0, time.Now(); retired() == 0; i++ {
		refresh(i)
		if time.Since(began) > time.Minute {
			t.Fatal("the new key is not used")
		}
		time.Sleep(200 * time.Millisecond)
	}
	refresh(0)
	refresh(1)
	for i, n := range c.nodes {
		if err := n.Stop(); err != nil {
			t.Errorf("node %d: %v", i, err)
		}
		refresh(i + 1) // uses this node and both others
		if err := n.Restart(t); err != nil {
			t.Fatal(err)
		}
		refresh(i)
	}
	var states []string
	for _, n := range c.nodes {
		resp, err := c.client.Get(strings.Replace(n.TokenEndpoint[:strings.Index(n.TokenEndpoint, "?")], "access_token", "connect/jwk_uri", 1))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("public keys: %d, %v", resp.StatusCode, err)
		}
		states = append(states, string(text))
	}
	if states[0] != states[1] || states[0] != states[2] {
		t.Error("nodes publish different keys")
	}
}
