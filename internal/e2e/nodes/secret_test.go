//go:build e2e

package nodes

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestASecretUsedSecondsAgoIsNotSafeToRevoke uses a client's older secret, and
// immediately calls a server to revoke it. The use is not stored yet: by that server
// itself, with SQLite, or by another node.
func TestASecretUsedSecondsAgoIsNotSafeToRevoke(t *testing.T) {
	t.Parallel()
	nodes := start(t, 2)
	single := binary.Start(t, t.TempDir())
	for name, c := range map[string]struct{ asked, used *binary.Server }{
		"the server of a file": {single, single}, "another node": {nodes[0], nodes[1]},
	} {
		var made struct {
			ID     string `json:"client_id"`
			Secret string `json:"client_secret"`
		}
		if err := json.Unmarshal([]byte(c.asked.Run(t, "client", "create", "--json", "--name", "Billing", "--redirect-uri", "https://billing.example/callback", "--scope", "read")), &made); err != nil {
			t.Fatal(err)
		}
		c.asked.Leaks.KnowClient(made.ID, made.Secret)
		type secret struct {
			ID, Revocation string
			LastUsedAt     *time.Time `json:"last_used_at"`
		}
		list := func() (all []secret) {
			t.Helper()
			if err := json.Unmarshal([]byte(c.asked.Run(t, "client", "secret", "list", made.ID, "--json")), &all); err != nil {
				t.Fatal(err)
			}
			return all
		}
		old := list()[0].ID
		c.asked.Run(t, "client", "secret", "add", made.ID)
		web := &http.Client{Transport: c.used.Transport(t, ""), Timeout: 20 * time.Second}
		// The token is invalid: the client authenticates, and gets invalid_grant.
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"mintage_rt_none"}, "client_id": {made.ID}, "client_secret": {made.Secret}}
		for began := time.Now(); ; time.Sleep(50 * time.Millisecond) { // until the node knows the client
			a, err := c.used.Post(t.Context(), web, form)
			if err != nil {
				t.Fatal(err)
			}
			if a.Error == "invalid_grant" {
				break
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("%s: the client is not authenticated: %d %s", name, a.Status, a.Error)
			}
		}
		_, text, err := c.asked.Try(t, "client", "secret", "revoke", made.ID, old)
		if err == nil || !strings.Contains(text, "it was used") {
			t.Errorf("%s: a secret that was just used is revoked without --force: %v %s", name, err, text)
		}
		for _, s := range list() {
			if s.ID == old && (s.LastUsedAt == nil || s.Revocation == "safe") {
				t.Errorf("%s: a secret that was just used: last use %v, %s", name, s.LastUsedAt, s.Revocation)
			}
		}
	}
}
