package upstream_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/upstream"
)

const (
	clientID     = "mintage"
	clientSecret = "a secret: 100%"
	redirectURL  = "https://auth.example.com/oauth2/callback"
	accessToken  = "the access token of the provider"
	code         = "the-code-of-this-login"
)

// An object is a JSON object. A nil member is omitted.
type object map[string]any

func (o object) with(changes object) object {
	all := maps.Clone(o)
	for name, v := range changes {
		if v == nil {
			delete(all, name)
		} else {
			all[name] = v
		}
	}
	return all
}

// A provider is a small OpenID Connect provider with configurable errors. Each code is
// valid once, for one challenge.
type provider struct {
	t       *testing.T
	url     string
	now     time.Time
	key     *ecdsa.PrivateKey
	signing jose.SigningKey

	metadata, claims object
	sign             func(payload []byte) string
	tokens           object // changed members of the token response
	// answers replace the provider's responses, by path.
	answers map[string]http.HandlerFunc

	pending  upstream.Pending
	redeemed map[string]bool
	asked    map[string]*atomic.Int64
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{
		t: t, key: key, now: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
		signing: jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}},
		tokens:  object{}, answers: map[string]http.HandlerFunc{}, redeemed: map[string]bool{},
		asked: map[string]*atomic.Int64{discoveryPath: {}, "/keys": {}, "/token": {}, "/userinfo": {}},
	}
	p.sign = p.signed
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.url = s.URL
	p.metadata = object{
		"issuer": p.url, "authorization_endpoint": p.url + "/auth?tenant=t1", "token_endpoint": p.url + "/token", "jwks_uri": p.url + "/keys",
		"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"},
	}
	p.claims = object{"iss": p.url, "sub": "248289761001", "aud": clientID, "iat": p.now.Unix(), "exp": p.now.Add(time.Minute).Unix()}
	return p
}

const discoveryPath = "/.well-known/openid-configuration"

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if n := p.asked[r.URL.Path]; n != nil {
		n.Add(1)
	}
	if answer := p.answers[r.URL.Path]; answer != nil {
		answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case discoveryPath:
		json.NewEncoder(w).Encode(p.metadata)
	case "/keys":
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k1"}}})
	case "/token":
		p.token(w, r)
	default:
		http.NotFound(w, r)
	}
}

// token is the token endpoint, as strict as RFC 6749 section 4.1.3 and RFC 7636 section
// 4.6.
func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if basic {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	begun, err := url.Parse(p.pending.URL)
	if err != nil {
		p.t.Error(err)
		return
	}
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(object{"error": code, "error_description": "about " + r.PostFormValue("code")})
	}
	switch sent := r.PostFormValue("code"); {
	case id != clientID || secret != clientSecret:
		refuse(401, "invalid_client")
	case sent != code, p.redeemed[sent], r.PostFormValue("redirect_uri") != redirectURL,
		base64.RawURLEncoding.EncodeToString(sum[:]) != begun.Query().Get("code_challenge"):
		refuse(400, "invalid_grant")
	default:
		p.redeemed[sent] = true
		claims := object{"nonce": begun.Query().Get("nonce")}.with(p.claims)
		payload, err := json.Marshal(claims)
		if err != nil {
			p.t.Error(err)
		}
		json.NewEncoder(w).Encode(object{"access_token": accessToken, "token_type": "Bearer", "id_token": p.sign(payload)}.with(p.tokens))
	}
}

// signed returns a JWT that p's signing key has signed.
func (p *provider) signed(payload []byte) string {
	signer, err := jose.NewSigner(p.signing, nil)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	signature, err := signer.Sign(payload)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	text, err := signature.CompactSerialize()
	if err != nil {
		p.t.Error(err)
	}
	return text
}

// unsigned returns a JWT with alg none.
func unsigned(payload []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(payload) + "."
}

// hash returns the at_hash of an access token for algorithms with SHA-256.
func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:sha256.Size/2])
}

func (p *provider) config() upstream.Config {
	return upstream.Config{
		Issuer: p.url, ClientID: clientID, ClientSecret: oauth.Secret(clientSecret), RedirectURL: redirectURL,
		Now: func() time.Time { return p.now },
	}
}

// begin begins a login at p.
func (p *provider) begin(u *upstream.Provider, r upstream.Request) upstream.Pending {
	p.t.Helper()
	pending, err := u.Begin(p.t.Context(), r)
	if err != nil {
		p.t.Fatalf("Begin: %v", err)
	}
	p.pending = pending
	p.redeemed = map[string]bool{}
	return pending
}

// login performs a whole login, in which the user consents to everything.
func (p *provider) login(u *upstream.Provider, r upstream.Request) (upstream.Identity, error) {
	p.t.Helper()
	return u.Finish(p.t.Context(), upstream.Answer{Code: code}, p.begin(u, r))
}

// silent requires that an error contains no secret of the login.
func (p *provider) silent(err error) {
	p.t.Helper()
	for _, secret := range []string{code, accessToken, clientSecret, url.QueryEscape(clientSecret), p.pending.Verifier, p.pending.Nonce} {
		if secret != "" && err != nil && strings.Contains(err.Error(), secret) {
			p.t.Errorf("the error holds a secret of %d characters", len(secret))
		}
	}
}

// stranger returns another key with the kid of p's key.
func stranger(t *testing.T) crypto.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
