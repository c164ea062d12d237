//go:build e2e

package resource

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

// caddyGate runs the Caddy of docs/how-to/proxy.md in front of two nodes.
func caddyGate(t *testing.T, ca *authority, one, two string) gate {
	t.Helper()
	address := binary.FreeAddress(t, "127.0.0.1")
	cert, key, _ := ca.certify(t, "auth.example.com")
	runCaddy(t, ca, address, here(t, shown(t, "proxy.md", "/etc/caddy/Caddyfile"), "10.0.0.5:8443", one, "10.0.0.6:8443", two,
		"/etc/ssl/certs/ca-certificates.crt", ca.file, "/etc/ssl/auth.example.com.crt", cert, "/etc/ssl/private/auth.example.com.key", key))
	return gate{"Caddy", address}
}

// TestCaddyInFrontOfSeveralNodes: Caddy distributes requests to both nodes with the
// client's address, skips a stopped node, and uses it again after its restart.
func TestCaddyInFrontOfSeveralNodes(t *testing.T) {
	t.Parallel()
	database, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := database.Stop(); err != nil {
			t.Error(err)
		}
	})
	_, store := database.Schema(t)
	ca := newAuthority(t)
	cert, key, _ := ca.certify(t, "auth.example.com")
	one := binary.Start(t, t.TempDir(), "--store", store, "--issuer", issuer, "--tls-cert", cert, "--tls-key", key, "--trusted-proxies", "127.0.0.1", "--log-level", "debug")
	two := one.Peer(t)
	caddy := caddyGate(t, ca, mustParse(t, one.TokenEndpoint).Host, mustParse(t, two.TokenEndpoint).Host)

	const endpoint = "/oauth2/access_token?realm=/api"
	send := func(form string) (int, answer) {
		status, body, _ := caddy.send(t, ca, post(endpoint, form, "X-Forwarded-For: 203.0.113.7"))
		return status, body
	}
	status, pair := send(one.ExchangeForm(one.Code(t, "alice")).Encode())
	if status != http.StatusOK {
		t.Fatalf("a code is answered %d %s", status, pair.Error)
	}
	// refresh reports whether Mintage has answered; Caddy itself may answer 502 or 503.
	refresh := func() bool {
		t.Helper()
		status, next := send(one.RefreshForm(pair.RefreshToken).Encode())
		if status == http.StatusOK {
			pair = next
		} else if next.Error != "" || status != http.StatusBadGateway && status != http.StatusServiceUnavailable {
			t.Fatalf("a refresh is answered %d %s", status, next.Error)
		}
		return status == http.StatusOK
	}
	answers := func(s *binary.Server) bool { return strings.Contains(s.Log(), `"msg":"token request answered"`) }
	both := func(when string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !answers(one) || !answers(two); {
			if !refresh() || time.Now().After(deadline) {
				t.Fatalf("%s: not both nodes answer", when)
			}
		}
	}
	both("at first")
	for _, s := range []*binary.Server{one, two} {
		if log := s.Log(); strings.Contains(log, "203.0.113.") || !strings.Contains(log, `"remote_ip":"`+theClient+`"`) {
			t.Errorf("the log has an address that the client forged, or the proxy's:\n%s", log)
		}
	}

	if err := one.Stop(); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for range 200 {
		if !refresh() {
			failed++
		}
	}
	if failed > 10 {
		t.Errorf("%d of 200 requests fail while one node is stopped", failed)
	}
	if err := one.Restart(t); err != nil {
		t.Fatal(err)
	}
	both("after a restart")
}
