package web_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/upstream"
)

// A provider is a small OpenID Connect provider at which users of a fixture log in.
type provider struct {
	t      *testing.T
	url    string
	key    *ecdsa.PrivateKey
	now    func() time.Time
	nonce  string         // nonce of the present login
	claims map[string]any // of the id_token, beside those that it must have
	down   bool           // all its responses are 502
	refuse string         // error of its token endpoint
	asked  func(path string)
	// endless means that the provider has no logout endpoint.
	endless bool
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t, claims: map[string]any{}}
	p.renew()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if p.asked != nil {
			p.asked(r.URL.Path)
		}
		var answer any
		switch {
		case p.down:
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Path == "/keys":
			answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: p.keyID()}}}
		case r.URL.Path == "/token" && p.refuse != "":
			w.WriteHeader(http.StatusBadRequest)
			answer = map[string]any{"error": p.refuse}
		case r.URL.Path == "/token":
			answer = map[string]any{"access_token": "at", "token_type": "Bearer", "id_token": p.sign("JWT", map[string]any{"nonce": p.nonce, "exp": p.now().Add(time.Minute).Unix()})}
		default:
			of := map[string]any{
				"issuer": p.url, "authorization_endpoint": p.url + "/auth", "token_endpoint": p.url + "/token", "jwks_uri": p.url + "/keys",
				"id_token_signing_alg_values_supported": []string{"ES256"},
			}
			if !p.endless {
				of["end_session_endpoint"] = p.url + "/end"
			}
			answer = of
		}
		json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// renew replaces the provider's key.
func (p *provider) renew() {
	p.t.Helper()
	var err error
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		p.t.Fatal(err)
	}
}

func (p *provider) keyID() string { return p.key.X.Text(36) }

// sign signs the claims, together with p.claims and the registered ones.
func (p *provider) sign(typ jose.ContentType, claims map[string]any) string {
	p.t.Helper()
	all := map[string]any{"iss": p.url, "aud": "mintage", "sub": "42", "iat": p.now().Unix()}
	for _, of := range []map[string]any{p.claims, claims} {
		for name, value := range of {
			if all[name] = value; value == nil {
				delete(all, name)
			}
		}
	}
	payload, err := json.Marshal(all)
	if err != nil {
		p.t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: p.keyID()}}, (&jose.SignerOptions{}).WithType(typ))
	if err != nil {
		p.t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// logoutToken returns a logout token for a session of the provider.
func (p *provider) logoutToken(id, session string) string {
	p.t.Helper()
	return p.sign("logout+jwt", map[string]any{
		"sid": session, "jti": id, "iat": p.now().Unix(), "exp": p.now().Add(2 * time.Minute).Unix(), "auth_time": nil, "name": nil,
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	})
}

// atProvider makes the users of a fixture log in at p.
func atProvider(p *provider, change ...func(*upstream.Config)) func(*fixture, *choice) {
	return func(r *fixture, c *choice) {
		p.now = r.kit.Clock.Now
		cfg := upstream.Config{Issuer: p.url, ClientID: "mintage", SubjectPrefix: "people:", RedirectURL: callbackURL, Now: p.now}
		for _, f := range change {
			f(&cfg)
		}
		c.Users, c.Authorizer.Alive, c.Upstream = nil, nil, upstream.New(cfg)
	}
}

// sent checks that the browser is redirected to p for a login, and returns the state.
func (p *provider) sent(s shownPage) (state string) {
	p.t.Helper()
	q := s.query()
	if p.nonce = q.Get("nonce"); s.StatusCode != http.StatusSeeOther || p.nonce == "" || q.Get("state") == "" {
		p.t.Fatalf("status %d to %q: not a login at the provider", s.StatusCode, s.to())
	}
	return q.Get("state")
}
