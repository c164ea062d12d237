package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
	"github.com/mintage/mintage/internal/testkit"
)

// A crossing is a test of something that a realm issues or accepts. It is made in the
// realm from. use presents it in a realm and reports whether that realm honours it.
type crossing func(s *inhabited, from string) (use func(at string) (honoured bool, saw any))

// inhabited are realms, each with the same clients and the user alice.
type inhabited struct {
	*realms
	all      map[string]inhabitant
	signer   jose.SigningKey // signs for the client "keyed"
	provider *provider       // the provider at which users log in
}

const password = "correct horse battery"

func inhabit(s *realms, p *provider) *inhabited {
	s.t.Helper()
	in := &inhabited{realms: s, all: map[string]inhabitant{}, provider: p, signer: newSigner(s.t)}
	public, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: in.signer.Key.(jose.JSONWebKey).Key.(*ecdsa.PrivateKey).Public(), KeyID: "k1", Algorithm: "ES256"}}})
	if err != nil {
		s.t.Fatal(err)
	}
	for name, of := range ofRealms {
		in.all[name] = s.register(name)
		s.administer("PUT", of.admin+"/clients/keyed", `{"name":"Keyed","scope":"read","auth_method":"private_key_jwt","grant_types":["client_credentials"],"jwks":`+string(public)+`}`, http.StatusCreated)
		s.administer("PUT", of.admin+"/apis/https%3A%2F%2Fapi.example%2Fopen", `{"name":"Open","scopes":[{"name":"agent:read"}],"self_registered_clients":true}`, http.StatusCreated)
		if s.n.cfg.Login.Mode == config.LoginUsers {
			s.administer("POST", of.admin+"/users", `{"username":"alice","password":"`+password+`"}`, http.StatusCreated)
		}
	}
	return in
}

func newSigner(t *testing.T) jose.SigningKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}
}

// sign returns a JWT with a typ, or with none.
func sign(t *testing.T, key jose.SigningKey, typ string, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	options := &jose.SignerOptions{}
	if typ != "" {
		options = options.WithType(jose.ContentType(typ))
	}
	signer, err := jose.NewSigner(key, options)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// base returns the address of a realm up to /oauth2/.
func base(realm string) string {
	return strings.TrimSuffix(ofRealms[realm].endpoints, "/oauth2/"+realm)
}

func authorizationURL(realm, clientID, more string) string {
	scope := "read openid"
	if clientID != sharedID {
		scope = "agent:read" // of the API that is open to self-registered clients
	}
	return ofRealms[realm].endpoints + "/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {clientID}, "redirect_uri": {callback}, "scope": {scope}, "state": {"s"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"}, // of RFC 7636 appendix B
	}.Encode() + more
}

// signIn signs alice in for a client, and returns the id of the consent page.
func (v visit) signIn(realm, clientID string) (id string) {
	v.s.t.Helper()
	_, _, id = v.open(authorizationURL(realm, clientID, ""), nil)
	if id == "" {
		return ""
	}
	_, _, id = v.open(base(realm)+"/oauth2/interaction", url.Values{"id": {id}, "step": {"login"}, "username": {"alice"}, "password": {password}})
	return id
}

// consent submits the remembered consent on a consent page.
func (v visit) consent(realm, id string) (location string) {
	v.s.t.Helper()
	_, location, _ = v.open(base(realm)+"/oauth2/interaction", url.Values{"id": {id}, "step": {"consent"}, "decision": {"allow"}, "remember": {"yes"}})
	return location
}

// isSignedIn reports whether the browser has a session in a realm.
func (v visit) isSignedIn(realm string) bool {
	v.s.t.Helper()
	_, location, _ := v.open(authorizationURL(realm, sharedID, "&prompt=none"), nil)
	return !strings.Contains(location, "error=login_required")
}

// ofUsers are the crossings of realms with built-in users.
var ofUsers = map[string]crossing{
	"an assertion": func(s *inhabited, from string) func(string) (bool, any) {
		text := s.assertion(from, rand.Text())
		return func(at string) (bool, any) {
			status, answer := s.asserted(at, text)
			return status == http.StatusOK, answer
		}
	},
	"the id of a client that registered itself": func(s *inhabited, from string) func(string) (bool, any) {
		id := s.registered(from)
		return func(at string) (bool, any) {
			page := s.visit().signIn(at, id)
			return page != "", page
		}
	},
	// The user consents in one realm. Only its token endpoint accepts the client.
	"the consent to a client that registered itself": func(s *inhabited, from string) func(string) (bool, any) {
		return s.agreed(from, s.registered(from))
	},
	"the consent to a client with a document": func(s *inhabited, from string) func(string) (bool, any) {
		return s.agreed(from, "https://"+strings.ToLower(rand.Text())+".agent.example/client.json")
	},
	"a nonce for proofs": func(s *inhabited, from string) func(string) (bool, any) {
		nonce := s.nonce(from)
		return func(at string) (bool, any) {
			to := ofRealms[at].endpoints + "/access_token"
			status, answer := s.proven(at, to, testkit.NewProver(s.t).Proof("POST", to, "", time.Now(), testkit.WithNonce(nonce)))
			return status == http.StatusOK, answer
		}
	},
	"a proof": func(s *inhabited, from string) func(string) (bool, any) {
		proof := testkit.NewProver(s.t).Proof("POST", ofRealms[from].endpoints+"/access_token", "", time.Now(), testkit.WithNonce(s.nonce(from)))
		return func(at string) (bool, any) {
			status, answer := s.proven(at, ofRealms[at].endpoints+"/access_token", proof)
			return status == http.StatusOK, answer
		}
	},
	// Two realms share this address, and the parameter realm selects one.
	"a proof for an address of several realms": func(s *inhabited, from string) func(string) (bool, any) {
		shared := func(realm string) string {
			u, _ := url.Parse(ofRealms[realm].endpoints)
			return "https://" + u.Host + "/oauth2/access_token"
		}
		proof := testkit.NewProver(s.t).Proof("POST", shared(from), "", time.Now(), testkit.WithNonce(s.nonce(from)))
		return func(at string) (bool, any) {
			status, answer := s.proven(at, shared(at)+"?realm=/"+at, proof)
			return status == http.StatusOK, answer
		}
	},
	"a logout that asks": func(s *inhabited, from string) func(string) (bool, any) {
		asked := s.visit()
		asked.signIn(from, sharedID)
		_, _, id := asked.open(ofRealms[from].endpoints+"/end_session?client_id="+sharedID, nil)
		if id == "" {
			s.t.Fatalf("%s: the logout has no page", from)
		}
		return func(at string) (bool, any) {
			b := s.visit()
			b.signIn(at, sharedID)
			b.take(asked, from, at, false)
			status, location, _ := b.open(base(at)+"/oauth2/interaction", url.Values{"id": {id}, "step": {"logout"}, "action": {"logout"}})
			return !b.isSignedIn(at), []any{status, location}
		}
	},
	"an id_token as the hint of a logout": func(s *inhabited, from string) func(string) (bool, any) {
		b := s.visit()
		to, _ := url.Parse(b.consent(from, b.signIn(from, sharedID)))
		_, answer, _ := s.send(ofRealms[from].endpoints+"/access_token", url.Values{
			"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")}, "redirect_uri": {callback}, "client_id": {sharedID}, "client_secret": {s.all[from].secret},
			"code_verifier": {"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"},
		}, "")
		hint, _ := answer["id_token"].(string)
		return func(at string) (bool, any) {
			own := b
			if at != from {
				own = s.visit()
				own.signIn(at, sharedID)
			}
			status, location, _ := own.open(ofRealms[at].endpoints+"/end_session?id_token_hint="+hint, nil)
			return !own.isSignedIn(at), []any{status, location, hint != ""}
		}
	},
}

// assertion signs an assertion of the client "keyed" for a realm. Its iat is slightly
// ahead, because a node that has just started refuses assertions from before its start.
func (s *inhabited) assertion(realm, jti string) string {
	s.t.Helper()
	return sign(s.t, s.signer, "", map[string]any{"iss": "keyed", "sub": "keyed", "aud": ofRealms[realm].endpoints, "jti": jti, "iat": time.Now().Unix() + 2, "exp": time.Now().Add(time.Minute).Unix()})
}

// asserted authenticates with an assertion at the token endpoint.
func (s *inhabited) asserted(at, assertion string) (int, map[string]any) {
	s.t.Helper()
	status, answer, _ := s.send(ofRealms[at].endpoints+"/access_token", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {"keyed"}, "client_assertion": {assertion},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	}, "")
	return status, answer
}

// registered returns the id of a client that registers itself.
func (s *inhabited) registered(realm string) string {
	s.t.Helper()
	r := httptest.NewRequest("POST", ofRealms[realm].endpoints+"/register", strings.NewReader(`{"client_name":"Agent","redirect_uris":["`+callback+`"],"token_endpoint_auth_method":"none"}`))
	r.Header.Set("Content-Type", "application/json")
	status, answer, _ := s.answer(r)
	id, _ := answer["client_id"].(string)
	if id == "" {
		s.t.Fatalf("%s registers no client: %d %v", realm, status, answer)
	}
	return id
}

// agreed has alice consent to a client in a realm. A realm honours the consent if its
// token endpoint then accepts the client.
func (s *inhabited) agreed(from, clientID string) func(string) (bool, any) {
	s.t.Helper()
	b := s.visit()
	if location := b.consent(from, b.signIn(from, clientID)); !strings.Contains(location, "code=") {
		s.t.Fatalf("%s: the consent to %.40s leads to %q", from, clientID, location)
	}
	return func(at string) (bool, any) {
		_, answer, _ := s.send(ofRealms[at].endpoints+"/access_token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}, "client_id": {clientID}}, "")
		return answer["error"] == "invalid_grant", answer
	}
}

// proven sends a token request of the client "shop" with a DPoP proof.
func (s *inhabited) proven(at, address, proof string) (int, map[string]any) {
	s.t.Helper()
	r := httptest.NewRequest("POST", address, strings.NewReader(url.Values{
		"grant_type": {"client_credentials"}, "scope": {"read"}, "client_id": {sharedID}, "client_secret": {s.all[at].secret},
	}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("DPoP", proof)
	status, answer, _ := s.answer(r)
	return status, answer
}

// nonce returns a nonce for DPoP proofs of a realm.
func (s *inhabited) nonce(realm string) string {
	s.t.Helper()
	to := ofRealms[realm].endpoints + "/access_token"
	r := httptest.NewRequest("POST", to, strings.NewReader("grant_type=client_credentials&client_id=shop&client_secret=x"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("DPoP", testkit.NewProver(s.t).Proof("POST", to, "", time.Now()))
	_, _, header := s.answer(r)
	if header.Get("DPoP-Nonce") == "" {
		s.t.Fatalf("%s gives no nonce", realm)
	}
	return header.Get("DPoP-Nonce")
}

const loginPage = "https://shop.example/login" // where a visit stops

// begun begins a login, and returns the browser and the parameters that the login system
// receives.
func (s *inhabited) begun(realm string) (b visit, received url.Values) {
	s.t.Helper()
	b = s.visit()
	_, location, _ := b.open(authorizationURL(realm, sharedID, ""), nil)
	to, err := url.Parse(location)
	if err != nil || len(to.Query()) == 0 {
		s.t.Fatalf("%s: the login is at %q", realm, location)
	}
	return b, to.Query()
}

// ofHandoffs are the crossings of realms whose users log in by handoff.
var ofHandoffs = map[string]crossing{
	"the challenge of a handoff": func(s *inhabited, from string) func(string) (bool, any) {
		_, received := s.begun(from)
		return func(at string) (bool, any) {
			status, answer := s.tell(at, received.Get("challenge"))
			return status == http.StatusOK, answer
		}
	},
	"the rejection of a handoff": func(s *inhabited, from string) func(string) (bool, any) {
		_, received := s.begun(from)
		return func(at string) (bool, any) {
			status, answer := s.call("POST", ofRealms[at].admin+"/logins/"+received.Get("challenge")+"/reject", `{"reason":"closed"}`)
			return status == http.StatusOK, answer
		}
	},
	"the return from a handoff": func(s *inhabited, from string) func(string) (bool, any) {
		b, received := s.begun(from)
		_, answer := s.tell(from, received.Get("challenge"))
		back, _ := answer["continue_url"].(string)
		return func(at string) (bool, any) {
			own := b
			if at != from {
				own = s.visit()
				own.take(b, from, at, false)
			}
			status, location, id := own.open(strings.Replace(back, base(from), base(at), 1), nil)
			return id != "", []any{status, location, back}
		}
	},
}

func (s *inhabited) tell(at, challenge string) (int, map[string]any) {
	s.t.Helper()
	return s.call("POST", ofRealms[at].admin+"/logins/"+challenge+"/accept", `{"subject":"alice"}`)
}

// ofProviders are the crossings of realms that use the same client of one provider.
var ofProviders = map[string]crossing{
	"the state of a login at a provider": func(s *inhabited, from string) func(string) (bool, any) {
		b, received := s.begun(from)
		return func(at string) (bool, any) {
			own := b
			if at != from {
				own = s.visit()
				own.take(b, from, at, false)
			}
			status, location, id := s.returns(own, at, received, "s1")
			return id != "", []any{status, location}
		}
	},
	// The realms' sessions began with one session at the provider. Its logout token is
	// sent to one realm only.
	"the end of a session at a provider": func(s *inhabited, from string) func(string) (bool, any) {
		session, browsers := rand.Text(), map[string]visit{}
		for name := range ofRealms {
			b, received := s.begun(name)
			if _, location, id := s.returns(b, name, received, session); id == "" {
				s.t.Fatalf("%s: the login leads to %q", name, location)
			}
			browsers[name] = b
		}
		token := s.provider.logoutToken(session)
		if status, answer, _ := s.send(base(from)+"/oauth2/backchannel_logout", url.Values{"logout_token": {token}}, ""); status != http.StatusOK {
			s.t.Fatalf("%s refuses the logout token: %d %v", from, status, answer)
		}
		if status, answer, _ := s.send(base(from)+"/oauth2/backchannel_logout", url.Values{"logout_token": {token}}, ""); status != http.StatusBadRequest {
			s.t.Errorf("%s takes a logout token twice: %d %v", from, status, answer)
		}
		return func(at string) (bool, any) { return !browsers[at].isSignedIn(at), nil }
	},
}

// A provider is an OpenID Connect provider. Its codes contain the nonce and the session.
type provider struct {
	t   *testing.T
	url string
	key jose.SigningKey
}

func newProvider(t *testing.T) *provider {
	p := &provider{t: t, key: newSigner(t)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var body any = map[string]any{
			"issuer": p.url, "authorization_endpoint": "https://shop.example/auth", "token_endpoint": p.url + "/token", "jwks_uri": p.url + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		}
		switch r.URL.Path {
		case "/keys":
			body = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Key.(jose.JSONWebKey).Key.(*ecdsa.PrivateKey).Public(), KeyID: "k1"}}}
		case "/token":
			nonce, session, _ := strings.Cut(r.PostFormValue("code"), " ")
			body = map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": sign(p.t, p.key, "", p.claims(map[string]any{"sub": "alice", "nonce": nonce, "sid": session}))}
		}
		json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

func (p *provider) claims(more map[string]any) map[string]any {
	more["iss"], more["aud"], more["iat"], more["exp"] = p.url, "mintage", time.Now().Unix(), time.Now().Add(time.Minute).Unix()
	return more
}

func (p *provider) logoutToken(session string) string {
	return sign(p.t, p.key, "logout+jwt", p.claims(map[string]any{
		"sid": session, "jti": rand.Text(), "events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}))
}

// returns sends a browser back with the provider's answer to a login.
func (s *inhabited) returns(b visit, at string, received url.Values, session string) (status int, location, id string) {
	s.t.Helper()
	return b.open(base(at)+"/oauth2/callback?"+url.Values{"state": received["state"], "code": {received.Get("nonce") + " " + session}}.Encode(), nil)
}

// cross presents each crossing of each realm in every other realm, at every node. Then it
// checks that its own realm still honours it.
func cross(s *inhabited, nodes []*node, table map[string]crossing) {
	for name, make := range table {
		for from := range ofRealms {
			s.n = nodes[0]
			use := make(s, from)
			for at := range ofRealms {
				for _, s.n = range nodes {
					if at == from {
						continue
					}
					if honoured, saw := use(at); honoured {
						s.t.Errorf("%s of %s is honoured at %s: %v", name, from, at, saw)
					}
				}
			}
			if honoured, saw := use(from); !honoured {
				s.t.Errorf("%s of %s is not honoured in its own realm: %v", name, from, saw)
			}
		}
	}
}

// An assertion is accepted once in its realm, at whichever node. A client with the same id
// in another realm may have used the same jti.
func (s *inhabited) useJTI(nodes []*node) {
	jti := rand.Text()
	for name := range ofRealms {
		for i, text := range []string{s.assertion(name, jti), s.assertion(name, jti)} {
			s.n = nodes[i%len(nodes)]
			if status, answer := s.asserted(name, text); (status == http.StatusOK) != (i == 0) {
				s.t.Errorf("%s, use %d of one jti: %d %v", name, i+1, status, answer)
			}
		}
	}
}

func TestOP20_NothingIssuedCrossesRealms(t *testing.T) {
	server, err := pgtest.Start("fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	p := newProvider(t)
	for name, of := range map[string]struct {
		table  map[string]crossing
		change func(*config.Config)
	}{
		"users": {ofUsers, func(c *config.Config) {
			c.Authorization.DPoPNonce, c.ClientMetadata.Registration, c.ClientMetadata.Documents = config.DPoPNonceAll, true, []string{config.DocumentsAny}
		}},
		"handoffs": {ofHandoffs, func(c *config.Config) { c.Login.Mode, c.Login.HandoffURL = config.LoginHandoff, loginPage }},
		"providers": {ofProviders, func(c *config.Config) {
			c.Login.Mode, c.Login.Upstream.Issuer, c.Login.Upstream.ClientID = config.LoginUpstream, p.url, "mintage"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRealms(t, of.change)
			in := inhabit(s, p)
			cross(in, []*node{s.n}, of.table)
		})
		t.Run(name+", two nodes on PostgreSQL", func(t *testing.T) {
			s := newRealms(t, of.change, func(c *config.Config) { _, c.Store = server.Schema(t) })
			in := inhabit(s, p)
			nodes := []*node{s.n, openForTest(t, s.n.cfg, s.log, false)}
			cross(in, nodes, of.table)
			in.useJTI(nodes)
		})
	}
}
