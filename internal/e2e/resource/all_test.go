//go:build e2e

package resource

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestResourceServers is one test, because its tokens take a minute to expire: it issues
// them first, and presents the expired ones last.
func TestResourceServers(t *testing.T) {
	t.Parallel() // it waits long
	w := open(t)
	early := map[string]string{
		"opaque": w.pair(t, w.opaque, "read").AccessToken,
		"JWT":    w.pair(t, w.jwt, "read").AccessToken,
	}
	expired := time.Now().Add(time.Minute + time.Second)
	l := openLibraries(t)

	nginx, caddy, haproxy, gateway := startNginx(t, w, w.host(), startAPI(t)), startCaddy(t, w, w.host(), startAPI(t)), startHAProxy(t, w, allSlots, startAPI(t)), startGateway(t, w, w.host())
	pages := map[*front]string{nginx: proxies, caddy: proxies, haproxy: proxies, gateway: "phantom-token.md"}
	for _, f := range []*front{nginx, caddy} {
		t.Run(f.name, func(t *testing.T) {
			t.Run("opaque", func(t *testing.T) { f.checkTokens(t, w, w.opaque) })
			t.Run("JWT", func(t *testing.T) { f.checkTokens(t, w, w.jwt) })
			f.checkHeaders(t, w)
			f.checkMetadata(t, w)
			t.Run("bound, opaque", func(t *testing.T) { f.checkBound(t, w, w.opaque) })
			t.Run("bound, JWT", func(t *testing.T) { f.checkBound(t, w, w.jwt) })
		})
	}
	t.Run("HAProxy", func(t *testing.T) {
		t.Run("JWT", func(t *testing.T) { haproxy.checkTokens(t, w, w.jwt) })
		haproxy.checkHeaders(t, w)
		haproxy.checkMetadata(t, w)
		haproxy.checkOffline(t, w)
		t.Run("bound, JWT", func(t *testing.T) { haproxy.checkBound(t, w, w.jwt) })
		t.Run("each of the key files counts", func(t *testing.T) { w.checkKeys(t) })
	})
	t.Run("phantom token", func(t *testing.T) { gateway.checkPhantom(t, w) })
	for f, page := range pages {
		t.Run("the commands of "+page+" at "+f.name, func(t *testing.T) {
			runChecks(t, w, page, w.pair(t, w.jwt, "read").AccessToken, map[string]string{"api.example.com": f.address})
		})
	}
	t.Run("Traefik, replayed", func(t *testing.T) {
		w.checkTraefik(t)
		w.playTraefik(t, startAPI(t)).checkOpenRoute(t)
	})
	t.Run("Envoy, replayed", func(t *testing.T) {
		w.checkEnvoy(t)
		w.playEnvoy(t, startAPI(t)).checkMetadata(t, w)
	})
	t.Run("Spring, replayed", func(t *testing.T) { w.checkSpring(t) })
	t.Run("the commands of spring.md", func(t *testing.T) {
		runChecks(t, w, "spring.md", w.pair(t, w.opaque, "read").AccessToken, map[string]string{"auth.example.com": w.host()})
	})
	t.Run("go-oidc", func(t *testing.T) { w.checkGoOIDC(t) })
	t.Run("oauth4webapi", func(t *testing.T) { l.checkOAuth4WebAPI(t) })
	t.Run("openid-client", func(t *testing.T) { l.checkOpenIDClient(t) })
	t.Run("a Node API", func(t *testing.T) { l.checkNodeAPI(t) })
	t.Run("a key rotation", func(t *testing.T) { l.checkRotation(t) })

	t.Run("Mintage in trouble", func(t *testing.T) { checkTrouble(t, w) })

	time.Sleep(time.Until(expired))
	fronts := []*front{nginx, caddy, haproxy, gateway}
	for kind, token := range early {
		t.Run("an expired token is refused, "+kind, func(t *testing.T) {
			for _, f := range fronts {
				o := f.ask(t, "GET", "/reports", "", bearer(token)...)
				if o.seen != nil || o.status != http.StatusUnauthorized || !strings.Contains(o.challenge, `error="invalid_token"`) {
					t.Errorf("%s: status %d, challenge %q, API reached: %t", f.name, o.status, o.challenge, o.seen != nil)
				}
			}
			if _, err := w.verifier(t, "ES256").Verify(t.Context(), token); err == nil || kind == "JWT" && !strings.Contains(err.Error(), "expired") {
				t.Errorf("go-oidc: %v", err)
			}
		})
	}
	t.Run("no door is open when Mintage has stopped", func(t *testing.T) {
		good := w.pair(t, w.jwt, "read").AccessToken
		if err := w.Stop(); err != nil {
			t.Fatal(err)
		}
		for _, f := range fronts {
			o := f.ask(t, "GET", "/reports", "", bearer(good)...)
			if f.offline {
				f.wantGood(t, o, w.jwt, "read")
			} else if o.seen != nil || o.status < 500 {
				t.Errorf("%s: status %d, API reached: %t", f.name, o.status, o.seen != nil)
			}
		}
	})
}
