//go:build e2e

package resource

import (
	"encoding/base64"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/testkit"
)

// startGateway runs Debian's nginx with its JavaScript module and the files of the page.
func startGateway(t *testing.T, w *world, mintage string) *front {
	t.Helper()
	behind := startAPI(t)
	address := binary.FreeAddress(t, "127.0.0.1")
	cert, key, _ := w.ca.certify(t, "api.example.com")
	dir := t.TempDir()
	program := write(t, filepath.Join(dir, "phantom.js"), shown(t, "phantom-token.md", "/etc/nginx/phantom.js"))
	credentials := write(t, filepath.Join(dir, "gateway.conf"), here(t, shown(t, "phantom-token.md", "/etc/nginx/mintage-gateway.conf"),
		"Y2xpZW50OnNlY3JldA==", base64.StdEncoding.EncodeToString([]byte(w.api.ID+":"+w.api.Secret))))
	site := here(t, shown(t, "phantom-token.md", "/etc/nginx/conf.d/gateway.conf"),
		"listen 443 ssl", "listen "+address+" ssl",
		"server auth.example.com:443;", "server "+mintage+";",
		"127.0.0.1:8080", behind.address,
		"/etc/nginx/phantom.js", program,
		"/etc/nginx/mintage-gateway.conf", credentials,
		"/etc/ssl/certs/ca-certificates.crt", w.ca.file,
		"/etc/ssl/api.example.com.crt", cert, "/etc/ssl/private/api.example.com.key", key)
	runNginx(t, address, "load_module /usr/lib/nginx/modules/ngx_http_js_module.so;", site)
	return newFront(w, "phantom token", address, behind)
}

// checkPhantom checks that the services receive a JWT, and never the client's token.
func (f *front) checkPhantom(t *testing.T, w *world) {
	const (
		challenge = noToken + `, resource_metadata="` + audience + metadataPath + `"`
		bad       = challenge + `, error="invalid_token"`
	)
	verifier := w.verifier(t, "ES256")
	for name, c := range map[string]client{"opaque": w.opaque, "JWT": w.jwt} {
		both := w.pair(t, c, "read write")
		t.Run(name, func(t *testing.T) {
			o := f.ask(t, "POST", "/reports/?month=5&month=6", "total=12", append(bearer(both.AccessToken), "X-Phantom", "1")...)
			if o.seen == nil {
				t.Fatalf("status %d", o.status)
			}
			inside, _ := strings.CutPrefix(o.seen.Header.Get("Authorization"), "Bearer ")
			verified, err := verifier.Verify(w.context(t), inside)
			if err != nil {
				t.Fatalf("the service's verifier refuses the JWT: %v", err)
			}
			var claims struct {
				ClientID string `json:"client_id"`
				Scope    string `json:"scope"`
			}
			if err := verified.Claims(&claims); err != nil {
				t.Fatal(err)
			}
			if verified.Subject != "alice" || claims.ClientID != c.ID || claims.Scope != "read write" || len(o.seen.Header["Authorization"]) != 1 {
				t.Errorf("sub %q, client_id %q, scope %q", verified.Subject, claims.ClientID, claims.Scope)
			}
			if name == "opaque" && inside == both.AccessToken || o.seen.Method != "POST" || o.seen.URI != "/reports/?month=5&month=6" || o.seen.Body != "total=12" {
				t.Errorf("%s %s with %d bytes of body", o.seen.Method, o.seen.URI, len(o.seen.Body))
			}
			for _, token := range []string{forge(both.AccessToken), both.RefreshToken, "x"} {
				f.ask(t, "GET", "/", "", bearer(token)...).wantRefused(t, http.StatusUnauthorized, bad)
			}
			w.revoke(t, c, both.AccessToken)
			f.ask(t, "GET", "/", "", bearer(both.AccessToken)...).wantRefused(t, http.StatusUnauthorized, bad)
		})
	}
	t.Run("a client cannot introspect in the gateway's place", func(t *testing.T) {
		token := w.pair(t, w.opaque, "read").AccessToken
		if o := f.ask(t, "POST", "/_introspect", "token="+token, append(bearer(token), "Content-Type", "application/x-www-form-urlencoded")...); o.status != http.StatusNotFound {
			t.Errorf("status %d, %d bytes", o.status, len(o.body))
		}
	})
	f.checkDocument(t)
	t.Run("no token or two are refused", func(t *testing.T) {
		good := bearer(w.pair(t, w.opaque, "read").AccessToken)
		f.ask(t, "GET", "/", "").wantRefused(t, http.StatusUnauthorized, challenge)
		f.ask(t, "GET", "/", "", "Authorization", good[1]+"&token=x").wantRefused(t, http.StatusUnauthorized, challenge)
		if o := f.ask(t, "GET", "/", "", append(bearer("x"), good...)...); o.seen != nil || o.status < 400 || o.status > 499 {
			t.Errorf("status %d, API reached: %t", o.status, o.seen != nil)
		}
	})
	t.Run("a bound token is refused, with a proof too", func(t *testing.T) {
		for _, c := range []client{w.opaque, w.jwt} {
			p := testkit.NewProver(t)
			token := bound(t, w.Server, w.post, c, p, "read")
			f.ask(t, "GET", "/", "", bearer(token)...).wantRefused(t, http.StatusUnauthorized, bad)
			f.ask(t, "GET", "/", "", append(bearer(token), "DPoP", p.Proof("GET", audience+"/", token, time.Now()))...).wantRefused(t, http.StatusUnauthorized, bad)
		}
	})
	t.Run("a token for another API is refused", func(t *testing.T) {
		for _, c := range w.others {
			f.ask(t, "GET", "/", "", bearer(w.pair(t, c, "read").AccessToken)...).wantRefused(t, http.StatusUnauthorized, bad)
		}
	})
}
