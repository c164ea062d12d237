//go:build e2e

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// notice is how long the server may take to apply a command's change: two seconds, and
// more on a busy machine.
const notice = 20 * time.Second

// within repeats done until it returns true. It fails if that takes longer than notice,
// or if a single try does.
func within(t *testing.T, what string, done func() bool) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		late := time.Since(began) > notice
		if done() {
			return
		}
		if late {
			t.Errorf("%s: not within %s", what, notice)
			return
		}
	}
}

// decode reads a command's JSON.
func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return v
}

// as returns the client with other credentials.
func (c *client) as(id, secret string) *client {
	s := *c.Server
	s.ClientID, s.ClientSecret = id, secret
	return &client{c.t, &s, c.http}
}

type created struct {
	ID       string `json:"client_id"`
	SecretID string `json:"secret_id"`
	Secret   string `json:"client_secret"`
}

// TestServerFollowsClientCommands creates, disables, enables and deletes a
// client beside the running server.
func TestServerFollowsClientCommands(t *testing.T) {
	t.Parallel()
	c := start(t, t.TempDir())
	made := decode[created](t, c.Run(t, "client", "create", "--name", "Beside", "--no-pkce", "--redirect-uri", c.RedirectURI, "--scope", "read write", "--json"))
	beside := c.as(made.ID, made.Secret)
	var code string
	within(t, "a new client gets codes", func() (ok bool) {
		var err error
		code, err = beside.FastCode(t.Context(), "alice")
		return err == nil
	})
	token := beside.must(beside.redeem(code), http.StatusOK).RefreshToken

	answered := func(status int, code string) func() bool {
		return func() bool {
			a := beside.must(beside.refresh(token), http.StatusOK, http.StatusBadRequest)
			if a.Status == http.StatusOK {
				token = a.RefreshToken
			}
			return a.Status == status && a.Error == code
		}
	}
	beside.Run(t, "client", "disable", made.ID)
	within(t, "a disabled client is refused", answered(http.StatusBadRequest, "invalid_client"))
	beside.Run(t, "client", "enable", made.ID)
	within(t, "an enabled client goes on", answered(http.StatusOK, ""))
	beside.Run(t, "client", "delete", made.ID, "--yes")
	within(t, "a deleted client is refused", answered(http.StatusBadRequest, "invalid_client"))
	c.must(c.redeem(c.code()), http.StatusOK) // the revocation of another grant does not concern it
}

// TestServerFollowsSecretCommands replaces a secret beside the running server,
// without an outage.
func TestServerFollowsSecretCommands(t *testing.T) {
	t.Parallel()
	c := start(t, t.TempDir())
	type secret struct {
		ID       string     `json:"id"`
		LastUsed *time.Time `json:"last_used_at"`
	}
	list := func() []secret {
		return decode[[]secret](t, c.Run(t, "client", "secret", "list", c.ClientID, "--json"))
	}
	old := list()[0].ID
	token := c.session()
	added := decode[created](t, c.Run(t, "client", "secret", "add", c.ClientID, "--json"))
	second := c.as(c.ClientID, added.Secret)
	within(t, "an added secret is accepted", func() bool {
		a := second.must(second.refresh(token), http.StatusOK, http.StatusBadRequest)
		return a.Status == http.StatusOK
	})
	token = second.must(second.refresh(token), http.StatusOK).RefreshToken // a repeat
	token = c.must(c.refresh(token), http.StatusOK).RefreshToken           // the old secret is still valid during the overlap

	if binary.Soak() {
		// The running server stores the time of a secret's last use once a minute.
		for began := time.Now(); list()[0].LastUsed == nil; time.Sleep(time.Second) {
			if time.Since(began) > 65*time.Second {
				t.Fatal("no last use after 65 seconds")
			}
		}
	}
	used := time.Now()
	token = second.must(second.refresh(token), http.StatusOK).RefreshToken
	c.stop()
	for _, s := range list() {
		if s.LastUsed == nil || s.LastUsed.Before(used.Add(-90*time.Second)) || s.LastUsed.After(time.Now()) {
			t.Errorf("last use %v after the stop, the secret was used just now", s.LastUsed)
		}
	}

	c.again()
	c.Run(t, "client", "secret", "revoke", c.ClientID, old, "--force")
	within(t, "a revoked secret is refused", func() bool {
		a := c.must(c.refresh(token), http.StatusOK, http.StatusBadRequest)
		if a.Status == http.StatusOK {
			token = a.RefreshToken
		}
		return a.Error == "invalid_client"
	})
	second.must(second.refresh(token), http.StatusOK)
	c.stop()
	if left := list(); len(left) != 1 || left[0].ID != added.SecretID || left[0].LastUsed == nil {
		t.Errorf("secrets left: %+v", left)
	}
}

// TestServerFollowsRevocations revokes one grant, which takes effect at once, and then
// all grants of a subject, which also invalidates its unredeemed codes.
func TestServerFollowsRevocations(t *testing.T) {
	t.Parallel()
	c := start(t, t.TempDir())
	issue := func(subject string) string {
		code, err := c.FastCode(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	token := c.must(c.redeem(issue("bob")), http.StatusOK).RefreshToken
	type grant struct {
		ID    string `json:"id"`
		State string `json:"state"`
	}
	list := func(subject string) []grant {
		return decode[[]grant](t, c.Run(t, "grant", "list", "--subject", subject, "--json"))
	}
	c.Run(t, "grant", "revoke", list("bob")[0].ID)
	c.must(c.refresh(token), http.StatusBadRequest)
	if g := list("bob")[0]; g.State != "revoked" {
		t.Errorf("the grant is %s", g.State)
	}

	token = c.must(c.redeem(issue("carol")), http.StatusOK).RefreshToken
	unused := []string{issue("carol"), issue("carol")}
	other := c.must(c.redeem(issue("dave")), http.StatusOK).RefreshToken
	c.Run(t, "grant", "revoke", "--subject", "carol")
	within(t, "a subject's grants end", func() bool {
		a := c.must(c.refresh(token), http.StatusOK, http.StatusBadRequest)
		if a.Status == http.StatusOK {
			token = a.RefreshToken
		}
		return a.Error == "invalid_grant"
	})
	for _, code := range unused {
		c.must(c.redeem(code), http.StatusBadRequest)
	}
	c.must(c.refresh(other), http.StatusOK)
	fresh := c.must(c.redeem(issue("carol")), http.StatusOK).RefreshToken // a new consent after the revocation
	c.must(c.refresh(fresh), http.StatusOK)
	c.must(c.refresh(token), http.StatusBadRequest)
}

// TestCommandsWriteBesideAFullLoad runs commands that write while many connections
// refresh as fast as they can. No command fails because the store is locked.
func TestCommandsWriteBesideAFullLoad(t *testing.T) {
	c := start(t, t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	var working sync.WaitGroup
	var refreshes atomic.Int64
	for range 32 {
		token := c.session()
		working.Go(func() {
			one := &http.Client{Transport: c.Transport(t, "")}
			for ctx.Err() == nil {
				a, err := c.Post(context.Background(), one, c.RefreshForm(token))
				if err != nil || a.Status != http.StatusOK {
					t.Errorf("answer %d %s, %v", a.Status, a.Error, err)
					return
				}
				token = a.RefreshToken
				refreshes.Add(1)
			}
		})
	}
	defer working.Wait()
	defer stop()
	began := time.Now()
	var slowest time.Duration
	const commands = 10
	for i := range commands {
		at := time.Now()
		_, text, err := c.Try(t, "client", "create", "--name", fmt.Sprintf("Client %d", i), "--redirect-uri", c.RedirectURI, "--scope", "a")
		if err != nil {
			t.Errorf("client create, number %d, after %s: %v\n%s", i+1, time.Since(at), err, text)
		}
		slowest = max(slowest, time.Since(at))
	}
	took := time.Since(began)
	stop()
	working.Wait()
	t.Logf("%d commands, the slowest in %s, beside %.0f refreshes a second", commands, slowest, float64(refreshes.Load())/took.Seconds())
	if refreshes.Load() < 100 {
		t.Error("there was no load")
	}
}
