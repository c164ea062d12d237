package client_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/dpop"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/token"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// An endpoint is the token endpoint of a server with a bench with trusts, and its audit
// log.
type endpoint struct {
	*trusting
	server   *server.Server
	audit    *audit.Log
	dir      string
	secrets  map[string]oauth.Secret
	requests []presented
}

// A presented is a request whose assertion was refused.
type presented struct{ name, id, text, because string }

func newEndpoint(b *trusting) *endpoint {
	e := &endpoint{trusting: b, dir: b.T.TempDir(), secrets: map[string]oauth.Secret{}}
	e.audit = audit.Open(audit.Options{Directory: e.dir, Node: "test", Now: time.Now, Log: b.Log})
	for _, id := range []string{"named", "mailed", "mapped", "off", "stranger", "job", "twin"} {
		_, e.secrets[id] = b.Register(client.Registration{ID: id, Settings: store.Settings{Name: id, Scope: "read", GrantTypes: []string{}, Auth: store.AuthEither}})
	}
	e.server = server.New(b.Directory, server.Options{
		Site: server.Site{PublicURL: "https://auth.example", Realm: testkit.Realm}, Proxies: server.Proxies{PlainHTTP: true},
		Queue:    server.NewQueue(overload.Capacity{Requests: 1}, nil, slog.New(slog.DiscardHandler)),
		Throttle: overload.NewThrottle(overload.RateLimits{}, func(string) {}), Clients: b.auth, Audit: e.audit,
		Proofs: server.Proofs{Seen: &dpop.Seen{}, Now: b.Clock.Now},
	}, b.Log)
	tokens := token.Endpoints{Issuer: b.Issuer, Assertions: b.auth}
	e.server.Mount(tokens.Routes()...)
	return e
}

// present sends an assertion that must be refused for the reason because.
func (e *endpoint) present(name, clientID string, text oauth.Secret, because string) {
	e.T.Helper()
	form := url.Values{"grant_type": {oauth.GrantJWTBearer}, "client_id": {clientID}, "assertion": {string(text)}}
	if secret, ok := e.secrets[clientID]; ok {
		form.Set("client_secret", string(secret))
	} else {
		form.Set("client_assertion", string(e.signer.sign(e.claims(nil))))
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	}
	r := httptest.NewRequest(http.MethodPost, "/oauth2/api/access_token", strings.NewReader(form.Encode()))
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	e.server.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"invalid_grant"`) || strings.Contains(w.Body.String(), because) {
		e.T.Errorf("%s: answered %d %s", name, w.Code, w.Body)
	}
	e.requests = append(e.requests, presented{name, w.Header().Get("X-Request-Id"), string(text), because})
}

// explain checks that "mintage explain" finds the reason of each refusal in the audit log,
// which contains no part of the assertion except one value.
func (e *endpoint) explain() {
	e.T.Helper()
	if err := e.audit.Close(); err != nil {
		e.T.Fatal(err)
	}
	x := &explain.Explainer{Realm: testkit.Realm, Store: e.Engine, Directory: e.Directory, Now: e.Now, Issuer: e.Issuer}
	x.Config.Audit.Directory = e.dir
	for _, r := range e.requests {
		v, err := x.Explain(e.T.Context(), explain.Parse(r.id), nil)
		if err != nil {
			e.T.Fatal(err)
		}
		var out strings.Builder
		if err := v.Print(&out); err != nil {
			e.T.Fatal(err)
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		if want := "refused assertion's " + r.because; !strings.Contains(text, want[:min(len(want), 200)]) || !strings.Contains(text, "mintage trust test") {
			e.T.Errorf("%s: %q is missing in\n%s", r.name, want, out.String())
		}
		if parts := strings.Split(r.text, "."); strings.Contains(text, parts[1]) || strings.Contains(text, parts[2]) || len(text) > 1500 {
			e.T.Errorf("%s: %d characters, or a part of the assertion, in\n%s", r.name, len(text), out.String())
		}
	}
}
