package conformance_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

const tokenURL = publicURL + "/oauth2/access_token"

// proven sends a token request with a DPoP proof.
func (d *deployment) proven(form url.Values, p *testkit.Prover, edit ...func(map[string]any)) answer {
	d.t.Helper()
	return d.withProofs(form, p.Proof("POST", tokenURL, "", d.now(), edit...))
}

func (d *deployment) withProofs(form url.Values, proofs ...string) answer {
	d.t.Helper()
	r := newRequest(form)
	for _, p := range proofs {
		r.header = append(r.header, "DPoP: "+p)
	}
	return d.send(r)
}

func nonceOf(a answer) string { return http.Header(a.header).Get("Dpop-Nonce") }

// boundKinds returns a client of each kind.
func (d *deployment) boundKinds() map[string]oauthClient {
	return map[string]oauthClient{
		"public":       d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}}),
		"confidential": d.client(client.Registration{Settings: store.Settings{NoPKCE: true, GrantTypes: store.GrantTypes}}),
		"jwt":          d.client(client.Registration{Settings: store.Settings{NoPKCE: true, TokenFormat: store.TokenJWT, GrantTypes: store.GrantTypes}}),
	}
}

// exchange returns the form that redeems a new code of c.
func (d *deployment) exchange(c oauthClient) url.Values {
	d.t.Helper()
	return c.challenged(d.code(c, func(a *issuer.Authorization) { a.Challenge = challenge }).Code)
}

func TestDP01_DP37_IN13_MD17_TokensAreBoundToTheKeyOfTheProof(t *testing.T) {
	d := start(t, withFront)
	reader := d.client(client.Registration{Settings: store.Settings{Introspect: true}})
	for name, c := range d.boundKinds() {
		p := testkit.NewProver(t)
		first := d.proven(d.exchange(c), p)
		answers := []answer{first, d.proven(c.refresh(first.RefreshToken), p)}
		if c.MayUse(store.GrantClientCredentials) {
			answers = append(answers, d.proven(c.identify(url.Values{"grant_type": {"client_credentials"}}), p))
		}
		for i, a := range answers {
			if a.status != 200 || a.TokenType != "DPoP" {
				t.Fatalf("%s %d: %s, %s", name, i, a, a.TokenType)
			}
			told := members(t, d.introspect(reader, a.AccessToken).body)
			if told["active"] != true || told["token_type"] != "DPoP" || fmt.Sprint(told["cnf"]) != "map[jkt:"+p.JKT.String()+"]" {
				t.Errorf("%s %d: introspection %v", name, i, told)
			}
		}
		// Without a proof, the token is an ordinary bearer token.
		plain := d.post(d.exchange(c))
		told := members(t, d.introspect(reader, plain.AccessToken).body)
		if plain.TokenType != "Bearer" || told["token_type"] != "Bearer" || told["cnf"] != nil || nonceOf(plain) != "" {
			t.Errorf("%s without a proof: %s, %v", name, plain.TokenType, told)
		}
	}
	if got := fmt.Sprint(d.metadata()["dpop_signing_alg_values_supported"]); got != "[ES256 EdDSA PS256]" {
		t.Errorf("metadata: %s", got)
	}
}

func TestDP02_DP03_DP12_DP13_DP14_DP16_DP18_DP19_DP21_TC35_TR32_ProofsOfTheTokenEndpoint(t *testing.T) {
	d := start(t)
	c := d.client(client.Registration{Settings: store.Settings{NoPKCE: true, DPoP: store.DPoPRequired}})
	p := testkit.NewProver(t)
	code := d.exchange(c)
	claim := func(name string, value any) func(map[string]any) {
		return func(c map[string]any) { c[name] = value }
	}
	good := p.Proof("POST", tokenURL, "", d.now())
	for name, proofs := range map[string][]string{
		"none": nil, "two": {good, p.Proof("POST", tokenURL, "", d.now())}, "two in one": {good + ", " + good}, "no JWT": {"x"},
		"method": {p.Proof("GET", tokenURL, "", d.now())}, "address": {p.Proof("POST", publicURL+"/oauth2/introspect", "", d.now())},
		"Host of the connection": {p.Proof("POST", "https://"+d.address+"/oauth2/access_token", "", d.now())},
		"old":                    {p.Proof("POST", tokenURL, "", d.now().Add(-time.Hour))}, "future": {p.Proof("POST", tokenURL, "", d.now().Add(61*time.Second))},
		"no jti": {p.Proof("POST", tokenURL, "", d.now(), claim("jti", nil))},
	} {
		a := d.withProofs(code, proofs...)
		if a.status != 400 || a.Error != string(oauth.InvalidDPoPProof) || len(a.header["Www-Authenticate"]) > 0 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	wrong := code
	wrong.Set("client_secret", "x")
	if a := d.withProofs(wrong, good); a.Error != string(oauth.InvalidClient) {
		t.Errorf("a wrong secret with a valid proof: %s", a)
	}
	code.Set("client_secret", c.secret)
	first := d.withProofs(code, p.Proof("POST", tokenURL+"?realm=/api#x", "", d.now().Add(-10*time.Second)))
	if first.status != 200 { // the failure has not spent the code
		t.Fatal(first)
	}
	proof := p.Proof("POST", tokenURL, "", d.now().Add(10*time.Second))
	if a := d.withProofs(c.refresh(first.RefreshToken), proof); a.status != 200 {
		t.Fatal(a)
	}
	if a := d.withProofs(c.refresh(first.RefreshToken), proof); a.Error != string(oauth.InvalidDPoPProof) {
		t.Errorf("a proof again: %s", a)
	}
	if a := d.post(c.refresh(first.RefreshToken)); a.Error != string(oauth.InvalidDPoPProof) {
		t.Errorf("a refresh without proof: %s", a)
	}
}

// Proofs of a client that is registered without DPoP are ignored, and need no nonce.
func TestProofsOfAClientWithoutThemAreIgnored(t *testing.T) {
	for _, choose := range [][]func(*options){{withFront, alone}, {withFront, alone, withNonces(true)}} {
		d := start(t, choose...)
		c := d.client(client.Registration{Settings: store.Settings{NoPKCE: true, DPoP: store.DPoPOff}})
		p := testkit.NewProver(t)
		for _, proof := range []string{"x", p.Proof("POST", tokenURL, "", d.now())} {
			if a := d.withProofs(d.exchange(c), proof); a.status != 200 || a.TokenType != "Bearer" || nonceOf(a) != "" {
				t.Errorf("%s, %s", a, a.TokenType)
			}
		}
		for _, proof := range []string{"x", p.Proof("POST", publicURL+pushURL, "", d.now())} {
			r := pushing(c)
			r.header = append(r.header, "DPoP: "+proof)
			if a := d.send(r); a.status != 201 {
				t.Errorf("pushed: %v", a)
			}
		}
	}
}

// Tokens of the device grant and of token exchange are also bound. A device's token is
// for the resource that the request names.
func TestTokensOfOtherGrantsAreBoundToTheKeyOfTheProof(t *testing.T) {
	d, b, shop, subject := shopping(t)
	gateway := d.exchanger(shop, nil)
	c := d.terminal(func(r *client.Registration) { r.APIs = shop.APIs })
	device := d.codes(c, "scope", "orders invoices")
	b.answerDevice(b.enter(device.UserCode), "allow")
	reader, p := d.client(client.Registration{Settings: store.Settings{Introspect: true}}), testkit.NewProver(t)
	for name, form := range map[string]url.Values{"device": c.polls(device, "resource", ordersAPI), "exchange": gateway.exchanges(subject)} {
		a := d.proven(form, p)
		told := members(t, d.introspect(reader, a.AccessToken).body)
		if a.status != 200 || a.TokenType != "DPoP" || fmt.Sprint(told["cnf"]) != "map[jkt:"+p.JKT.String()+"]" || told["aud"] != ordersAPI {
			t.Errorf("%s: %v, %s, introspection %v", name, a, a.TokenType, told)
		}
	}
}

func TestDP34_TR30_TR31_RefreshTokensOfPublicClientsAreBound(t *testing.T) {
	d := start(t)
	for name, c := range d.boundKinds() {
		p, other := testkit.NewProver(t), testkit.NewProver(t)
		first := d.proven(d.exchange(c), p)
		stolen := d.proven(c.refresh(first.RefreshToken), other)
		without := d.post(c.refresh(first.RefreshToken))
		if name == "public" {
			if stolen.Error != string(oauth.InvalidGrant) || without.Error != string(oauth.InvalidGrant) {
				t.Errorf("public: with another key %s, without a proof %s", stolen, without)
			}
			d.mustIssue(d.proven(c.refresh(first.RefreshToken), p))
			continue
		}
		if stolen.status != 200 || stolen.TokenType != "DPoP" {
			t.Errorf("%s: a new key: %s", name, stolen)
		}
	}
}

func TestDP26_DP27_DP28_DP29_PA23_CodesAreBoundToAKey(t *testing.T) {
	d, b := signedIn(t)
	p, other := testkit.NewProver(t), testkit.NewProver(t)
	redeem := func(code string, proof *testkit.Prover) answer {
		form := d.a.challenged(code)
		if proof == nil {
			return d.post(form)
		}
		return d.proven(form, proof)
	}
	pushWith := func(by *testkit.Prover, pairs ...string) answer {
		r := pushing(d.a, pairs...)
		r.header = append(r.header, "DPoP: "+by.Proof("POST", publicURL+pushURL, "", d.now()))
		return d.send(r)
	}
	for name, address := range map[string]string{
		"dpop_jkt": asking(d.a, "dpop_jkt="+p.JKT.String()), "pushed": d.pushed(d.a, "dpop_jkt="+p.JKT.String()),
		"proof of the push": brings(d.a.ID, fmt.Sprint(members(t, pushWith(p).body)["request_uri"])),
		"both":              brings(d.a.ID, fmt.Sprint(members(t, pushWith(p, "dpop_jkt="+p.JKT.String()).body)["request_uri"])),
	} {
		code := b.agree(address).Query().Get("code")
		for _, a := range []answer{redeem(code, other), redeem(code, nil)} {
			if a.status != 400 || a.Error != string(oauth.InvalidGrant) {
				t.Errorf("%s: another key: %s", name, a)
			}
		}
		if a := redeem(code, p); a.status != 200 || a.TokenType != "DPoP" {
			t.Errorf("%s: its key: %s", name, a)
		}
	}
	if a := pushWith(other, "dpop_jkt="+p.JKT.String()); a.status != 400 || a.Error != string(oauth.InvalidDPoPProof) {
		t.Errorf("two keys at the push: %s", a)
	}
	for _, bad := range []string{"x", p.JKT.String() + "A", p.JKT.String()[:42] + "="} {
		b.get(asking(d.a, "dpop_jkt="+bad)).told(t, redirect, oauth.InvalidRequest)
	}
}

// withNonces makes the deployment require nonces.
func withNonces(all bool) func(*options) {
	return func(o *options) {
		o.Proofs.OfAll = all
		o.Proofs.Nonces = func(minute int64) []byte { s := sha256.Sum256(fmt.Append(nil, minute)); return s[:] }
	}
}

func TestDP23_DP24_DP25_TC31_NoncesAreDemandedBeforeAnythingIsUsed(t *testing.T) {
	for _, all := range []bool{false, true} {
		d := start(t, withNonces(all), alone)
		for name, c := range d.boundKinds() {
			if name != "public" && !all {
				if a := d.proven(d.exchange(c), testkit.NewProver(t)); a.status != 200 {
					t.Errorf("%s needs a nonce: %s", name, a)
				}
				continue
			}
			p := testkit.NewProver(t)
			code := d.exchange(c)
			nonce := ""
			for _, with := range []string{"", "x", d.oldNonce()} {
				a := d.proven(code, p, testkit.WithNonce(with))
				if nonce = nonceOf(a); a.status != 400 || a.Error != string(oauth.UseDPoPNonce) || len(a.header["Dpop-Nonce"]) != 1 || nonce == "" {
					t.Fatalf("%s: %s, %v", name, a, a.header)
				}
			}
			a := d.proven(code, p, testkit.WithNonce(nonce))
			if a.status != 200 || nonceOf(a) == "" {
				t.Errorf("%s with the nonce: %s", name, a)
			}
			d.step(time.Minute) // the nonce of the previous minute is still valid
			if a = d.proven(c.refresh(a.RefreshToken), p, testkit.WithNonce(nonce)); a.status != 200 {
				t.Errorf("%s a minute later: %s", name, a)
			}
			d.step(2 * time.Minute)
			if again := d.proven(c.refresh(a.RefreshToken), p, testkit.WithNonce(nonce)); again.Error != string(oauth.UseDPoPNonce) {
				t.Errorf("%s with an old nonce: %s", name, again)
			}
		}
		if a := d.post(d.exchange(d.a)); a.status != 200 || nonceOf(a) != "" {
			t.Errorf("without a proof: %s, %v", a, a.header)
		}
		if a := d.post(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}, "client_id": {d.a.ID}, "client_secret": {d.a.secret}}); nonceOf(a) != "" {
			t.Errorf("refused for another reason: %s, %v", a, a.header)
		}
		for name, c := range d.boundKinds() {
			d.change(c, func(c *store.Client) { c.DPoP = store.DPoPRequired })
			code := d.exchange(c)
			a := d.post(code)
			if nonce := nonceOf(a); a.Error != "invalid_dpop_proof" || (nonce != "") != (all || name == "public") {
				t.Errorf("%s, the proof is missing: %s, %q", name, a, nonce)
			} else if a = d.proven(code, testkit.NewProver(t), testkit.WithNonce(nonce)); a.status != 200 {
				t.Errorf("%s, with a proof and that nonce: %s", name, a)
			}
		}
	}
}

// A workload authenticates only with its assertion, so its request need not name a
// client.
func TestDP23_ANonceIsDemandedOfAWorkloadToo(t *testing.T) {
	for _, all := range []bool{false, true} {
		d := startTrusted(t, withNonces(all), alone)
		for name, form := range map[string]url.Values{
			"its client named": asserted(d.workload(nil), "client_id", d.job.ID), "no client named": asserted(d.workload(nil)),
			"a type alone": asserted(d.workload(nil), "client_id", d.job.ID, "client_assertion_type", "x"),
		} {
			p := testkit.NewProver(t)
			a := d.proven(form, p)
			if a.status != 400 || a.Error != string(oauth.UseDPoPNonce) || nonceOf(a) == "" {
				t.Errorf("%s: %s", name, a)
				continue
			}
			if a = d.proven(form, p, testkit.WithNonce(nonceOf(a))); a.status != 200 || a.TokenType != "DPoP" {
				t.Errorf("%s, with the nonce: %s", name, a)
			}
		}
	}
}

// oldNonce returns a nonce of three minutes ago, which has expired.
func (d *deployment) oldNonce() string {
	return d.server.Proofs.Nonces.At(d.now().Add(-3 * time.Minute))
}

// presenting sends a request with an access token.
func (d *deployment) presenting(method, path, scheme, token string, lines ...string) answer {
	d.t.Helper()
	r := newRequest(nil)
	r.method, r.target = method, path
	r.set("Content-Type", "")
	r.header = append(append(r.header, "Authorization: "+scheme+" "+token), lines...)
	return d.send(r)
}

// A bound token is accepted only with a proof by its key, for this request, made now, and
// not used before.
func TestDP30_DP31_DP32_WhereBoundTokensAreAccepted(t *testing.T) {
	d := start(t, withFront)
	c := d.client(client.Registration{Settings: store.Settings{Scope: "openid a", NoPKCE: true}})
	p, other := testkit.NewProver(t), testkit.NewProver(t)
	token := d.proven(d.exchange(c), p).AccessToken
	plain := d.post(d.exchange(c)).AccessToken
	const origin = "https://api.example"
	for path, at := range map[string]struct {
		uri   string
		lines []string
	}{
		userInfoPath: {publicURL + userInfoPath, nil},
		verifyPath + "?dpop=" + url.QueryEscape(origin): {origin + "/orders", []string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /orders?page=2"}},
	} {
		ask := func(scheme, token string, proofs ...string) answer {
			lines := slices.Clone(at.lines)
			for _, one := range proofs {
				lines = append(lines, "DPoP: "+one)
			}
			return d.presenting("GET", path, scheme, token, lines...)
		}
		proof := p.Proof("GET", at.uri, token, d.now())
		for name, c := range map[string]struct {
			scheme, token string
			proofs        []string
			code          string
		}{
			"as Bearer":                  {"Bearer", token, nil, "invalid_token"},
			"as Bearer, with a proof":    {"Bearer", token, []string{p.Proof("GET", at.uri, token, d.now())}, "invalid_token"},
			"no proof":                   {"DPoP", token, nil, "invalid_dpop_proof"},
			"proof of another key":       {"DPoP", token, []string{other.Proof("GET", at.uri, token, d.now())}, "invalid_token"},
			"of another token":           {"DPoP", token, []string{p.Proof("GET", at.uri, plain, d.now())}, "invalid_dpop_proof"},
			"without ath":                {"DPoP", token, []string{p.Proof("GET", at.uri, "", d.now())}, "invalid_dpop_proof"},
			"for another method":         {"DPoP", token, []string{p.Proof("POST", at.uri, token, d.now())}, "invalid_dpop_proof"},
			"for another address":        {"DPoP", token, []string{p.Proof("GET", at.uri+"/x", token, d.now())}, "invalid_dpop_proof"},
			"of an hour ago":             {"DPoP", token, []string{p.Proof("GET", at.uri, token, d.now().Add(-time.Hour))}, "invalid_dpop_proof"},
			"two proofs":                 {"DPoP", token, []string{proof, proof}, "invalid_dpop_proof"},
			"bearer token by DPoP":       {"DPoP", plain, []string{p.Proof("GET", at.uri, plain, d.now())}, "invalid_token"},
			"a token that is nobody's":   {"DPoP", "x", []string{p.Proof("GET", at.uri, "x", d.now())}, "invalid_token"},
			"bearer scheme, other's key": {"Bearer", token, []string{other.Proof("GET", at.uri, token, d.now())}, "invalid_token"},
		} {
			a := ask(c.scheme, c.token, c.proofs...)
			challenge := http.Header(a.header).Get("Www-Authenticate")
			if a.status != 401 || !strings.HasPrefix(challenge, "DPoP ") || !strings.Contains(challenge, `algs="ES256 EdDSA PS256"`) || !strings.Contains(challenge, `error="`+c.code+`"`) {
				t.Errorf("%s, %s: %d %s", path, name, a.status, challenge)
			}
		}
		for _, scheme := range []string{"DPoP", "dpop", "DPOP"} {
			proof = p.Proof("GET", at.uri, token, d.now())
			if a := ask(scheme, token, proof); a.status != 200 {
				t.Errorf("%s, %s: %d %s", path, scheme, a.status, a.body)
			}
		}
		if a := ask("DPoP", token, proof); a.status != 401 {
			t.Errorf("%s: a proof again: %d", path, a.status)
		}
		if a := ask("Bearer", plain); a.status != 200 {
			t.Errorf("%s: a bearer token: %d %s", path, a.status, a.body)
		}
	}
	// A proxy that does not pass on the original request's method and address cannot have
	// proofs verified: every request is refused. The log says what the operator must
	// change.
	for path, says := range map[string]string{
		verifyPath: "names no dpop=ORIGIN", verifyPath + "?dpop=" + origin: "must set X-Forwarded-Method and X-Forwarded-Uri", "/oauth2/tokeninfo": "",
		verifyPath + "?dpop=https://other.example": "at dpop=https://other.example", verifyPath + "?dpop=api.example": "dpop is no address",
	} {
		var lines []string
		if strings.Contains(says, "dpop ") || strings.Contains(says, "other") {
			lines = []string{"X-Original-Method: GET", "X-Original-Uri: /orders"}
		}
		for _, scheme := range []string{"DPoP", "Bearer"} {
			if a := d.presenting("GET", path, scheme, token, append(lines, "DPoP: "+p.Proof("GET", origin+"/orders", token, d.now()))...); a.status == 200 || !strings.Contains(d.log.String(), says) {
				t.Errorf("%s, %s: %d; the log must say %q", path, scheme, a.status, says)
			}
		}
	}
}

// Nonces are also required with bound access tokens.
func TestNoncesOfAccessTokens(t *testing.T) {
	d := start(t, withFront, withNonces(true))
	c := d.client(client.Registration{Settings: store.Settings{Scope: "openid a", NoPKCE: true}})
	p := testkit.NewProver(t)
	nonce := d.server.Proofs.Nonces.At(d.now())
	token := d.proven(d.exchange(c), p, testkit.WithNonce(nonce)).AccessToken
	a := d.presenting("GET", userInfoPath, "DPoP", token, "DPoP: "+p.Proof("GET", publicURL+userInfoPath, token, d.now()))
	if a.status != 401 || nonceOf(a) != nonce || !strings.Contains(http.Header(a.header).Get("Www-Authenticate"), `error="use_dpop_nonce"`) {
		t.Errorf("%d %v", a.status, a.header)
	}
	a = d.presenting("GET", userInfoPath, "DPoP", token, "DPoP: "+p.Proof("GET", publicURL+userInfoPath, token, d.now(), testkit.WithNonce(nonce)))
	if a.status != 200 || nonceOf(a) != nonce {
		t.Errorf("%d %v", a.status, a.header)
	}
	plain := d.post(d.exchange(c)).AccessToken
	for _, ask := range []struct{ scheme, token, want string }{{"DPoP", token, nonce}, {"Bearer", token, nonce}, {"Bearer", plain, ""}, {"DPoP", plain, ""}} {
		if a := d.presenting("GET", userInfoPath, ask.scheme, ask.token, "Origin: https://app.example"); nonceOf(a) != ask.want || strings.Contains(http.Header(a.header).Get("Access-Control-Expose-Headers"), "DPoP-Nonce") != (ask.want != "") {
			t.Errorf("%s, no proof: %d %v", ask.scheme, a.status, a.header)
		}
	}
}

// A thief who revokes a token does no harm: to require a proof would only hinder the
// owner.
func TestRV14_RevocationNeedsNoProof(t *testing.T) {
	d := start(t)
	c := d.boundKinds()["public"]
	p := testkit.NewProver(t)
	bound := d.proven(d.exchange(c), p)
	if a := d.revoke(c, bound.RefreshToken); a.status != 200 {
		t.Fatal(a)
	}
	if a := d.proven(c.refresh(bound.RefreshToken), p); a.Error != string(oauth.InvalidGrant) {
		t.Errorf("after its revocation: %s", a)
	}
}

// A self-registered client can register for bound tokens; then each of its requests needs
// a proof.
func TestDP36_ARegistrationBindsItsTokens(t *testing.T) {
	d := start(t, registering)
	d.withAPIs()
	d.user(username)
	b := d.browser()
	d.signIn(b, username)
	answer := members(t, d.register(`{"client_name":"Agent","redirect_uris":["`+redirect+`"],"token_endpoint_auth_method":"none","dpop_bound_access_tokens":true}`).body)
	if answer["dpop_bound_access_tokens"] != true {
		t.Errorf("the answer %v", answer)
	}
	c := oauthClient{store.Client{ID: answer["client_id"].(string), Settings: store.Settings{RedirectURIs: []string{redirect}}}, ""}
	code := c.challenged(b.decide(b.open(asking(c, "scope=orders")).at(t, "consent"), "allow").code(t, redirect))
	if a := d.post(code); a.Error != string(oauth.InvalidDPoPProof) {
		t.Errorf("without a proof: %s", a)
	}
	p := testkit.NewProver(t)
	bound := d.mustIssue(d.proven(code, p))
	if a := d.post(c.refresh(bound.RefreshToken)); a.Error != string(oauth.InvalidDPoPProof) {
		t.Errorf("a refresh without a proof: %s", a)
	}
	if other := members(t, d.register(`{"redirect_uris":["`+redirect+`"]}`).body); other["dpop_bound_access_tokens"] != nil {
		t.Errorf("the answer about another client %v", other)
	}
}

// The audit log records the key of bound tokens, and the rule that a proof has violated.
func TestTheAuditLogHasKeysAndProofs(t *testing.T) {
	var tr auditLog
	d := start(t, audited(t, &tr))
	p := testkit.NewProver(t)
	code := d.exchange(d.a)
	d.proven(code, p, func(c map[string]any) { c["htm"] = "PUT" })
	d.mustIssue(d.proven(code, p))
	d.mustIssue(d.post(d.exchange(d.a)))
	c := d.asserting()
	d.proven(c.asserts(d.mustIssue(d.post(d.exchange(c))).RefreshToken, "subject_token_type", refreshTokenType), p)
	required := d.client(client.Registration{Settings: store.Settings{NoPKCE: true, DPoP: store.DPoPRequired}})
	d.post(d.exchange(required))
	list := tr.entries()
	if issued := of(list, audit.IDJAGIssued); len(issued) != 1 || issued[0].Detail != "for "+chatServer+", bound to the DPoP key "+p.JKT.String() {
		t.Errorf("assertions: %+v", issued)
	}
	redeemed, refused := of(list, audit.CodeRedeemed), of(list, audit.TokenRefused)
	if len(redeemed) != 3 || redeemed[0].Detail != "bound to the DPoP key "+p.JKT.String() || redeemed[1].Detail != "" {
		t.Errorf("redeemed: %+v", redeemed)
	}
	if len(refused) != 2 || refused[1].Detail != "invalid_dpop_proof: DPoP proof missing, authorization_code token request" || refused[1].ClientID != required.ID || !strings.HasPrefix(refused[0].Detail, "invalid_dpop_proof: DPoP proof is not valid: its htm is not the method of the request") || refused[0].ClientID != d.a.ID {
		t.Errorf("refused: %+v", refused)
	}
}
