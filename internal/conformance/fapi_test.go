package conformance_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/conformance"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// A fapi is the setting of a module of the suite's FAPI 2.0 Security Profile plan: two
// clients of the profile, a key for proofs, and a browser whose user is signed in.
type fapi struct {
	*deployment
	t        *testing.T
	b        *browser
	c, other *assertingClient
	p        *testkit.Prover
}

func follows(r *client.Registration) {
	r.Profile, r.NoPKCE = store.ProfileFAPI2, false
	r.Scope, r.FirstParty = "openid a", true
	r.Follow()
}

// push pushes an authorization request with an assertion, and with a proof unless p is
// nil.
func (s *fapi) push(c *assertingClient, claims map[string]any, p *testkit.Prover, pairs ...string) answer {
	s.t.Helper()
	return s.pushBy(c, c.assert(claims), p, pairs...)
}

func (s *fapi) pushBy(c *assertingClient, assertion string, p *testkit.Prover, pairs ...string) answer {
	s.t.Helper()
	u, err := url.Parse(asking(c.oauthClient, append([]string{"scope=openid a", "nonce=n"}, pairs...)...))
	if err != nil {
		s.t.Fatal(err)
	}
	form := u.Query()
	form.Del("realm")
	if assertion != "" {
		form = c.with(assertion, form)
	}
	r := newRequest(form)
	r.target = pushURL
	if p != nil {
		r.header = append(r.header, "DPoP: "+p.Proof("POST", publicURL+pushURL, "", s.now()))
	}
	return s.send(r)
}

// address returns the authorization request for a pushed request's response.
func (s *fapi) address(a answer) string {
	s.t.Helper()
	uri, _ := members(s.t, a.body)["request_uri"].(string)
	if a.status != http.StatusCreated || uri == "" {
		s.t.Fatalf("pushed: %d %s", a.status, a.body)
	}
	return brings(s.c.ID, uri)
}

// granted performs a request and returns the parameters at the client's redirect URI.
func (s *fapi) granted(pairs ...string) url.Values {
	s.t.Helper()
	return s.b.get(s.address(s.push(s.c, nil, nil, pairs...))).granted(s.t, redirect)
}

// redeem redeems a client's code, with a proof unless p is nil.
func (s *fapi) redeem(c *assertingClient, code string, p *testkit.Prover, edit ...func(map[string]any)) answer {
	s.t.Helper()
	return s.redeemBy(c, c.assert(nil), code, verifier, p, edit...)
}

func (s *fapi) redeemBy(c *assertingClient, assertion, code, verifier string, p *testkit.Prover, edit ...func(map[string]any)) answer {
	s.t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}}
	if verifier != "" {
		form.Set("code_verifier", verifier)
	}
	return s.tokenRequest(c, assertion, form, p, edit...)
}

func (s *fapi) tokenRequest(c *assertingClient, assertion string, form url.Values, p *testkit.Prover, edit ...func(map[string]any)) answer {
	s.t.Helper()
	form.Set("client_id", c.ID)
	if assertion != "" {
		form = c.with(assertion, form)
	}
	if p == nil {
		return s.withProofs(form)
	}
	return s.proven(form, p, edit...)
}

func (s *fapi) refresh(c *assertingClient, token string, p *testkit.Prover) answer {
	s.t.Helper()
	return s.tokenRequest(c, c.assert(nil), url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}, p)
}

// resource presents an access token to userinfo, a resource of this server.
func (s *fapi) resource(scheme, token string, p *testkit.Prover, edit ...func(map[string]any)) answer {
	s.t.Helper()
	var lines []string
	if p != nil {
		lines = []string{"DPoP: " + p.Proof("GET", publicURL+userInfoPath, token, s.now(), edit...)}
	}
	return s.presenting("GET", userInfoPath, scheme, token, lines...)
}

// check makes the suite's checks of every successful token response.
func (s *fapi) check(a answer) tokens {
	s.t.Helper()
	got := s.mustIssue(a)
	if got.TokenType != "DPoP" || s.resource("DPoP", got.AccessToken, s.p).status != 200 || s.resource("Bearer", got.AccessToken, nil).status != 401 {
		s.t.Errorf("a token of type %s at the resource", got.TokenType)
	}
	return got
}

// flow performs the whole flow with these request parameters.
func (s *fapi) flow(pairs ...string) (tokens, url.Values, map[string]any) {
	s.t.Helper()
	q := s.granted(pairs...)
	if q.Get("iss") != issuerID {
		s.t.Errorf("the callback has %v", q)
	}
	got := s.check(s.redeem(s.c, q.Get("code"), s.p))
	_, claims := s.verifyIDToken(s.c.oauthClient, got)
	return got, q, claims
}

// refusedPush returns a module in which a pushed request must be refused.
func refusedPush(code oauth.ErrorCode, pairs ...string) func(*fapi) {
	return func(s *fapi) { want(s.t, s.push(s.c, nil, nil, pairs...), 400, string(code)) }
}

// refusedAssertion returns a module in which a client assertion must be refused, at the
// push and at the token endpoint.
func refusedAssertion(claims func(s *fapi) map[string]any) func(*fapi) {
	return func(s *fapi) {
		want(s.t, s.push(s.c, claims(s), nil), 400, string(oauth.InvalidClient))
		code := s.granted().Get("code")
		want(s.t, s.redeemBy(s.c, s.c.assert(claims(s)), code, verifier, s.p), 400, string(oauth.InvalidClient))
		s.check(s.redeem(s.c, code, s.p)) // the refusal has not spent the code
	}
}

func claim(name string, value any) func(map[string]any) {
	return func(c map[string]any) {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
}

const fapiPlan = "fapi2-security-profile-final-"

var fapiModules = map[string]func(*fapi){
	"discovery-end-point-verification": func(s *fapi) {
		m := s.metadata()
		if m["issuer"] != issuerID || m["pushed_authorization_request_endpoint"] != publicURL+pushURL || m["authorization_response_iss_parameter_supported"] != true {
			s.t.Errorf("metadata %v", m)
		}
		for member, value := range map[string]string{
			"code_challenge_methods_supported": "S256", "token_endpoint_auth_methods_supported": "private_key_jwt", "grant_types_supported": "authorization_code",
			"dpop_signing_alg_values_supported": "ES256", "token_endpoint_auth_signing_alg_values_supported": "PS256", "response_types_supported": "code",
		} {
			if list, _ := m[member].([]any); !slices.Contains(list, any(value)) {
				s.t.Errorf("%s is %v", member, m[member])
			}
		}
	},
	"happy-flow": func(s *fapi) {
		if _, q, claims := s.flow("state=st"); len(q) != 3 || q.Get("state") != "st" || claims["nonce"] != "n" {
			s.t.Errorf("callback %v, id_token %v", q, claims)
		}
	},
	"user-rejects-authentication": func(s *fapi) {
		s.change(s.c.oauthClient, func(c *store.Client) { c.FirstParty = false })
		page := s.b.open(s.address(s.push(s.c, nil, nil))).at(s.t, "consent")
		s.b.decide(page, "deny").told(s.t, redirect, oauth.AccessDenied)
	},
	"ensure-authorization-request-without-state-success": func(s *fapi) {
		if _, q, _ := s.flow("state"); q.Has("state") {
			s.t.Errorf("callback %v", q)
		}
	},
	"ensure-authorization-request-without-nonce-success": func(s *fapi) {
		if _, _, claims := s.flow("nonce"); claims["nonce"] != nil {
			s.t.Errorf("nonce %v", claims["nonce"])
		}
	},
	"ensure-authorization-request-with-64-char-nonce-success": func(s *fapi) { s.nonce(64) },
	"ensure-authorization-request-with-long-nonce": func(s *fapi) {
		want(s.t, s.push(s.c, nil, nil, "nonce="+strings.Repeat("n", 384)), 400, string(oauth.InvalidRequest))
		s.nonce(oauth.MaxNonce)
	},
	"ensure-authorization-request-with-long-state": func(s *fapi) {
		long := strings.Repeat("s", 1000)
		if _, q, _ := s.flow("state=" + long); q.Get("state") != long {
			s.t.Error("the state was changed")
		}
	},
	"ensure-other-scope-order-succeeds": func(s *fapi) { s.flow("scope=a openid") },
	// Each claim of claims_supported that the user has is returned, and others are ignored.
	"test-claims-parameter-identity-claims": func(s *fapi) {
		s.change(s.c.oauthClient, func(c *store.Client) { c.Scope = "openid a profile email address phone" })
		s.user("claimant", func(u *account.User) {
			var err error
			if u.Claims, err = claims.Parse([]byte(aliceClaims)); err != nil {
				s.t.Fatal(err)
			}
			u.ProfileAt = 1_700_000_000_000
		})
		s.b = s.browser()
		s.signIn(s.b, "claimant")
		has := []string{"name", "preferred_username", "updated_at", "birthdate", "email", "email_verified", "address", "phone_number"}
		asked := map[string]any{"unknown": map[string]any{"essential": true, "value": "x"}}
		for i, name := range has {
			asked[name] = []any{nil, map[string]any{"essential": true}}[i%2]
		}
		object, err := json.Marshal(map[string]any{"id_token": asked, "userinfo": asked, "elsewhere": asked})
		if err != nil {
			s.t.Fatal(err)
		}
		got, _, inIDToken := s.flow("claims=" + string(object))
		inUserInfo := members(s.t, s.resource("DPoP", got.AccessToken, s.p).body)
		supported := list(s.t, s.metadata(), "claims_supported")
		for _, name := range has {
			if inIDToken[name] == nil || inUserInfo[name] == nil || !slices.Contains(supported, name) {
				s.t.Errorf("%s is %v in the id_token, and %v at userinfo", name, inIDToken[name], inUserInfo[name])
			}
		}
		if inIDToken["unknown"] != nil || inUserInfo["unknown"] != nil {
			s.t.Errorf("id_token %v, userinfo %v", inIDToken, inUserInfo)
		}
	},
	"access-token-type-header-case-sensitivity": func(s *fapi) {
		got, _, _ := s.flow()
		for _, scheme := range []string{"dpop", "DPOP", "dPoP"} {
			if a := s.resource(scheme, got.AccessToken, s.p); a.status != 200 {
				s.t.Errorf("%s: %d", scheme, a.status)
			}
		}
	},
	"check-dpop-proof-nbf-exp": func(s *fapi) {
		now := s.now().Unix()
		got := s.check(s.redeem(s.c, s.granted().Get("code"), s.p, claim("nbf", now), claim("exp", now+300)))
		if a := s.resource("DPoP", got.AccessToken, s.p, claim("nbf", now), claim("exp", now+300)); a.status != 200 {
			s.t.Errorf("at the resource: %d", a.status)
		}
	},
	"ensure-dpopproof-with-iat-10seconds-before-succeeds": func(s *fapi) { s.proofMade(-10 * time.Second) },
	"ensure-dpopproof-with-iat-10seconds-after-succeeds":  func(s *fapi) { s.proofMade(10 * time.Second) },
	"ensure-mismatched-dpop-jkt-fails": func(s *fapi) {
		want(s.t, s.push(s.c, nil, s.p, "dpop_jkt="+testkit.NewProver(s.t).JKT.String()), 400, string(oauth.InvalidDPoPProof))
	},
	"ensure-token-endpoint-fails-with-mismatched-dpop-proof-jkt": func(s *fapi) {
		s.boundCode(s.b.get(s.address(s.push(s.c, nil, s.p))).granted(s.t, redirect).Get("code"))
	},
	"ensure-token-endpoint-fails-with-mismatched-dpop-jkt": func(s *fapi) {
		s.boundCode(s.granted("dpop_jkt=" + s.p.JKT.String()).Get("code"))
	},
	"ensure-dpopproof-at-par-endpoint-binding-success": func(s *fapi) {
		s.check(s.redeem(s.c, s.b.get(s.address(s.push(s.c, nil, s.p))).granted(s.t, redirect).Get("code"), s.p))
	},
	"ensure-dpop-auth-code-binding-success": func(s *fapi) {
		s.check(s.redeem(s.c, s.b.get(s.address(s.push(s.c, nil, s.p, "dpop_jkt="+s.p.JKT.String()))).granted(s.t, redirect).Get("code"), s.p))
	},
	"ensure-different-nonce-inside-and-outside-request-object": func(s *fapi) {
		q := s.b.get(s.address(s.push(s.c, nil, nil))+"&nonce=other").granted(s.t, redirect)
		if _, claims := s.verifyIDToken(s.c.oauthClient, s.check(s.redeem(s.c, q.Get("code"), s.p))); claims["nonce"] != "n" {
			s.t.Errorf("nonce %v", claims["nonce"])
		}
	},
	"ensure-different-state-inside-and-outside-request-object": func(s *fapi) {
		if q := s.b.get(s.address(s.push(s.c, nil, nil, "state=in"))+"&state=out").granted(s.t, redirect); q.Get("state") != "in" {
			s.t.Errorf("callback %v", q)
		}
	},
	"state-only-outside-request-object-not-used": func(s *fapi) {
		if q := s.b.get(s.address(s.push(s.c, nil, nil, "state"))+"&state=out").granted(s.t, redirect); q.Has("state") {
			s.t.Errorf("callback %v", q)
		}
	},
	"ensure-request-object-without-redirect-uri-fails": refusedPush(oauth.InvalidRequest, "redirect_uri"),
	"ensure-redirect-uri-in-authorization-request":     refusedPush(oauth.InvalidRequest, "redirect_uri"),
	// The suite accepts this refusal: an unregistered redirect URI is never accepted.
	"plain-fapi-tolerate-unregistered-redirect-uri": refusedPush(oauth.InvalidRequest, "redirect_uri="+redirect+"/other"),
	"ensure-unsigned-authorization-request-without-using-par-fails": func(s *fapi) {
		s.b.get(asking(s.c.oauthClient, "scope=openid a")).told(s.t, redirect, oauth.InvalidRequest)
	},
	"ensure-response-type-code-idtoken-fails": refusedPush(oauth.UnsupportedResponseType, "response_type=code id_token"),
	"ensure-response-type-token-fails":        refusedPush(oauth.UnsupportedResponseType, "response_type=token"),
	"ensure-client-id-in-token-endpoint": func(s *fapi) {
		code := s.granted().Get("code")
		form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier}, "client_id": {s.other.ID}}
		if a := s.proven(s.c.with(s.c.assert(nil), form), s.p); a.status != 400 || a.Error != string(oauth.InvalidRequest) && a.Error != string(oauth.InvalidClient) {
			s.t.Errorf("another client_id: %s", a)
		}
		s.check(s.redeem(s.c, code, s.p))
	},
	"ensure-holder-of-key-required": func(s *fapi) {
		code := s.granted().Get("code")
		want(s.t, s.redeem(s.c, code, nil), 400, string(oauth.InvalidDPoPProof))
		s.check(s.redeem(s.c, code, s.p))
	},
	"ensure-authorization-code-is-bound-to-client": func(s *fapi) {
		code := s.granted().Get("code")
		want(s.t, s.redeem(s.other, code, s.p), 400, string(oauth.InvalidGrant))
		s.check(s.redeem(s.c, code, s.p))
	},
	"attempt-reuse-authorization-code-after-one-second": func(s *fapi) {
		code := s.granted().Get("code")
		got := s.check(s.redeem(s.c, code, s.p))
		s.step(time.Second)
		want(s.t, s.redeem(s.c, code, s.p), 400, string(oauth.InvalidGrant))
		if a := s.resource("DPoP", got.AccessToken, s.p); a.status != 401 {
			s.t.Errorf("the access token of a code that was presented again: %d", a.status)
		}
	},
	"ensure-token-endpoint-fails-with-expired-auth-code": func(s *fapi) {
		code := s.granted().Get("code")
		s.step(62 * time.Second)
		want(s.t, s.redeem(s.c, code, s.p), 400, string(oauth.InvalidGrant))
	},
	"ensure-signed-client-assertion-with-RS256-fails": func(s *fapi) {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			s.t.Fatal(err)
		}
		set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}})
		if err != nil {
			s.t.Fatal(err)
		}
		c := s.assertingClient(func(r *client.Registration) {
			r.Assertion = store.AssertionRule{Alg: string(jose.PS256), Keys: set}
			follows(r)
		})
		want(s.t, s.pushBy(c, s.signed(c, jose.RS256, key), nil), 400, string(oauth.InvalidClient))
		if a := s.pushBy(c, s.signed(c, jose.PS256, key), nil); a.status != 201 {
			s.t.Errorf("PS256: %d %s", a.status, a.body)
		}
	},
	"ensure-client-assertion-in-token-endpoint": func(s *fapi) {
		code := s.granted().Get("code")
		want(s.t, s.redeemBy(s.c, "", code, verifier, s.p), 400, string(oauth.InvalidClient))
		s.check(s.redeem(s.c, code, s.p))
	},
	"ensure-client-assertion-with-exp-is-5-minutes-in-past-fails": refusedAssertion(func(s *fapi) map[string]any {
		return map[string]any{"iat": s.now().Unix() - 360, "exp": s.now().Unix() - 300}
	}),
	"ensure-client-assertion-with-wrong-aud-fails": refusedAssertion(func(*fapi) map[string]any { return map[string]any{"aud": "https://other.example"} }),
	"ensure-client-assertion-with-no-sub-fails":    refusedAssertion(func(*fapi) map[string]any { return map[string]any{"sub": nil} }),
	"ensure-invalid-client-assertions-fail": func(s *fapi) {
		now := s.now().Unix()
		for name, claims := range map[string]map[string]any{
			"exp": {"exp": nil}, "past": {"iat": now - 120, "exp": now - 60}, "aud": {"aud": nil}, "wrong aud": {"aud": issuerID + "/"}, "iss": {"iss": nil}, "wrong iss": {"iss": s.other.ID},
			"sub": {"sub": nil}, "wrong sub": {"sub": s.other.ID}, "jti": {"jti": nil}, "nbf": {"nbf": now + 61}, "iat": {"iat": now + 61},
			"list": {"aud": []string{issuerID}}, "list of two": {"aud": []string{issuerID, "https://other.example"}}, "push endpoint": {"aud": publicURL + pushURL}, "token endpoint": {"aud": publicURL + "/oauth2/api/access_token"},
		} {
			if a := s.push(s.c, claims, nil); a.status != 400 || a.Error != string(oauth.InvalidClient) {
				s.t.Errorf("%s: %s", name, a)
			}
		}
		_, body, _ := strings.Cut(s.c.assert(nil), ".")
		body, _, _ = strings.Cut(body, ".")
		_, another, _ := strings.Cut(s.other.assert(nil), ".")
		for name, assertion := range map[string]string{
			"none": "", "alg none": base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + body + ".",
			"another key": base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"k"}`)) + "." + body + another[strings.IndexByte(another, '.'):],
		} {
			if a := s.pushBy(s.c, assertion, nil); a.status != 400 || a.Error != string(oauth.InvalidClient) {
				s.t.Errorf("%s: %s", name, a)
			}
		}
		for _, kind := range []string{"", "urn:example:x"} {
			want(s.t, s.push(s.c, nil, nil, "client_assertion_type="+kind), 400, string(oauth.InvalidRequest))
		}
		s.address(s.push(s.c, map[string]any{"nbf": now + 8, "iat": now + 8, "exp": now + 68}, nil))
		s.address(s.push(s.c, nil, nil))
	},
	"dpop-negative-tests": func(s *fapi) {
		code := s.granted().Get("code")
		old := s.now().Add(-time.Hour).Unix()
		bad := map[string]func(map[string]any){
			"no jti": claim("jti", nil), "no htm": claim("htm", nil), "no htu": claim("htu", nil), "no iat": claim("iat", nil), "PUT": claim("htm", "PUT"),
			"another address": claim("htu", "https://other.example/"), "an hour ago": claim("iat", old), "in an hour": claim("iat", old+7200),
		}
		for name, edit := range bad {
			if a := s.redeem(s.c, code, s.p, edit); a.status != 400 || a.Error != string(oauth.InvalidDPoPProof) {
				s.t.Errorf("%s for a token: %s", name, a)
			}
		}
		got := s.check(s.redeem(s.c, code, s.p, claim("htu", tokenURL+"?realm=/api#x")))
		bad["no ath"], bad["another ath"] = claim("ath", nil), claim("ath", "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo")
		for name, edit := range bad {
			if a := s.resource("DPoP", got.AccessToken, s.p, edit); a.status != 401 {
				s.t.Errorf("%s at the resource: %d", name, a.status)
			}
		}
		for name, p := range map[string]*testkit.Prover{"no proof": nil, "another key": testkit.NewProver(s.t)} {
			if a := s.resource("DPoP", got.AccessToken, p); a.status != 401 {
				s.t.Errorf("%s at the resource: %d", name, a.status)
			}
		}
	},
	"refresh-token": func(s *fapi) {
		got, _, _ := s.flow()
		want(s.t, s.refresh(s.other, got.RefreshToken, s.p), 400, string(oauth.InvalidGrant))
		want(s.t, s.refresh(s.c, got.RefreshToken, nil), 400, string(oauth.InvalidDPoPProof))
		want(s.t, s.tokenRequest(s.c, "", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {got.RefreshToken}}, s.p), 400, string(oauth.InvalidClient))
		for _, p := range []*testkit.Prover{s.p, testkit.NewProver(s.t), s.p} { // a confidential client may change its key
			s.step(31 * time.Second)
			again := s.mustIssue(s.refresh(s.c, got.RefreshToken, p))
			if again.RefreshToken != got.RefreshToken || again.AccessToken == got.AccessToken {
				s.t.Error("the refresh token rotates, or the access token stays")
			}
			if a := s.resource("DPoP", again.AccessToken, p); a.status != 200 {
				s.t.Errorf("a refreshed token: %d", a.status)
			}
			s.verifyIDToken(s.c.oauthClient, again)
		}
	},
	"par-ensure-reused-request-uri-prior-to-auth-completion-succeeds": func(s *fapi) {
		s.change(s.c.oauthClient, func(c *store.Client) { c.FirstParty = false })
		address := s.address(s.push(s.c, nil, nil))
		s.b.open(address).at(s.t, "consent")
		q := s.b.decide(s.b.open(address).at(s.t, "consent"), "allow").granted(s.t, redirect)
		s.check(s.redeem(s.c, q.Get("code"), s.p))
	},
	"par-attempt-reuse-request_uri": func(s *fapi) {
		address := s.address(s.push(s.c, nil, nil))
		s.b.get(address).granted(s.t, redirect)
		s.b.get(address).refusedPage(s.t, 400)
	},
	"par-attempt-to-use-expired-request_uri": func(s *fapi) {
		address := s.address(s.push(s.c, nil, nil))
		s.step(login.PushedLifetime)
		s.b.get(address).refusedPage(s.t, 400)
	},
	"par-ensure-jwt-client-assertions-nbf-8-seconds-in-the-future-is-accepted": func(s *fapi) {
		now := s.now().Unix()
		s.address(s.push(s.c, map[string]any{"nbf": now + 8, "iat": now + 8, "exp": now + 68}, nil))
	},
	"par-ensure-jwt-client-assertions-nbf-over-60-seconds-in-the-future-fails": func(s *fapi) {
		now := s.now().Unix()
		want(s.t, s.push(s.c, map[string]any{"nbf": now + 61, "iat": now + 61, "exp": now + 121}, nil), 400, string(oauth.InvalidClient))
	},
	"par-attempt-to-use-request_uri-for-different-client": func(s *fapi) {
		address := s.address(s.push(s.c, nil, nil))
		s.b.get(strings.Replace(address, s.c.ID, s.other.ID, 1)).refusedPage(s.t, 400)
		s.b.get(address).granted(s.t, redirect)
	},
	"par-authorization-request-containing-request_uri-form-param": refusedPush(oauth.InvalidRequest, "request_uri="+oauth.PushedPrefix+"x"),
	"par-attempt-invalid-http-method": func(s *fapi) {
		r := newRequest(nil)
		r.method, r.target = "PUT", pushURL
		if a := s.send(r); a.status != 405 {
			s.t.Errorf("PUT: %d", a.status)
		}
	},
	"par-ensure-pkce-required": refusedPush(oauth.InvalidRequest, "code_challenge", "code_challenge_method"),
	"par-plain-pkce-rejected":  refusedPush(oauth.InvalidRequest, "code_challenge="+verifier, "code_challenge_method=plain"),
	"ensure-pkce-code-verifier-required": func(s *fapi) {
		want(s.t, s.redeemBy(s.c, s.c.assert(nil), s.granted().Get("code"), "", s.p), 400, string(oauth.InvalidGrant))
	},
	"incorrect-pkce-code-verifier-rejected": func(s *fapi) {
		want(s.t, s.redeemBy(s.c, s.c.assert(nil), s.granted().Get("code"), strings.Repeat("x", 43), s.p), 400, string(oauth.InvalidGrant))
	},
	"par-without-duplicate-parameters": func(s *fapi) { s.flow() }, // the authorization request contains only client_id and request_uri
	"par-test-array-as-audience-fails": refusedAssertion(func(*fapi) map[string]any {
		return map[string]any{"aud": []string{issuerID, "https://other.example"}}
	}),
	"par-test-par-endpoint-url-as-audience-fails": refusedAssertion(func(*fapi) map[string]any {
		return map[string]any{"aud": publicURL + pushURL}
	}),
	"par-test-token-endpoint-url-as-audience-fails": refusedAssertion(func(*fapi) map[string]any {
		return map[string]any{"aud": publicURL + "/oauth2/api/access_token"}
	}),
}

// nonce performs the flow with a nonce of n bytes.
func (s *fapi) nonce(n int) {
	s.t.Helper()
	long := strings.Repeat("n", n)
	if _, _, claims := s.flow("nonce=" + long); claims["nonce"] != long {
		s.t.Errorf("nonce %v", claims["nonce"])
	}
}

// proofMade makes proofs whose iat is before or after now.
func (s *fapi) proofMade(by time.Duration) {
	s.t.Helper()
	at := claim("iat", s.now().Add(by).Unix())
	got := s.check(s.redeem(s.c, s.granted().Get("code"), s.p, at))
	if a := s.resource("DPoP", got.AccessToken, s.p, at); a.status != 200 {
		s.t.Errorf("at the resource: %d", a.status)
	}
}

// boundCode checks that a proof by another key cannot redeem a code that is bound to the
// key of s.
func (s *fapi) boundCode(code string) {
	s.t.Helper()
	want(s.t, s.redeem(s.c, code, testkit.NewProver(s.t)), 400, string(oauth.InvalidGrant))
	s.check(s.redeem(s.c, code, s.p))
}

// signed returns an assertion that an RSA key has signed.
func (s *fapi) signed(c *assertingClient, alg jose.SignatureAlgorithm, key *rsa.PrivateKey) string {
	s.t.Helper()
	c.jti++
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	now := s.now().Unix()
	body, err := json.Marshal(map[string]any{"iss": c.ID, "sub": c.ID, "aud": issuerID, "jti": keys.RandomText(8), "iat": now, "exp": now + 60})
	if err != nil {
		s.t.Fatal(err)
	}
	object, err := signer.Sign(body)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := object.CompactSerialize()
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// TestFAPISecurityProfile runs a subtest for each module of the suite's plan that
// conformance.Modules assigns to it.
func TestFAPISecurityProfile(t *testing.T) {
	d, _ := signedIn(t)
	d.issuer.CodeLifetime = 10 * time.Minute // the profile's limit of a minute applies despite the configuration
	named := 0
	for _, m := range conformance.Modules {
		if !slices.Contains(m.By, t.Name()) {
			continue
		}
		named++
		part := fapiModules[strings.TrimPrefix(m.Name, fapiPlan)]
		if part == nil {
			t.Errorf("there is no part for %s", m.Name)
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			defer func(whole *testing.T) { d.t = whole }(d.t)
			d.t = t
			s := &fapi{deployment: d, t: t, b: d.browser(), c: d.assertingClient(follows), other: d.assertingClient(follows), p: testkit.NewProver(t)}
			d.signIn(s.b, username)
			part(s)
		})
	}
	if named != len(fapiModules) {
		t.Errorf("there are %d parts, and %d modules name this test", len(fapiModules), named)
	}
}

// The profile's name sets all that the profile requires.
func TestFA01_OneWordSetsWhatTheProfileDemands(t *testing.T) {
	d := start(t)
	c := d.assertingClient(follows)
	if c.Auth != store.AuthPrivateKeyJWT || c.Assertion.Alg != "ES256" || c.Assertion.TokenEndpoint || !c.RequiresPKCE() || !c.RequirePAR || c.DPoP != store.DPoPRequired || !c.NoRotation ||
		c.IDTokenAlg == keys.RS256 || c.IDTokenAlg == "" || !c.FAPI() {
		t.Errorf("%+v", c.Settings)
	}
}

func TestFA02_WhatContradictsTheProfileIsRefusedByItsRule(t *testing.T) {
	d := start(t)
	good := d.assertingClient(follows)
	for flag, contradict := range map[string]struct {
		change func(r *client.Registration)
		rule   string
	}{
		"auth-method":                       {func(r *client.Registration) { r.Auth = store.AuthBasic }, "5.3.2.1-6"},
		"assertion-signing-alg":             {func(r *client.Registration) { r.Assertion.Alg = "RS256" }, "5.4.1"},
		"assertion-token-endpoint-audience": {func(r *client.Registration) { r.Assertion.TokenEndpoint = true }, "5.3.2.1-8"},
		"no-pkce":                           {func(r *client.Registration) { r.NoPKCE = true }, "5.3.2.2-5"},
		"require-par":                       {func(r *client.Registration) { r.RequirePAR = false }, "5.3.2.2-3"},
		"dpop":                              {func(r *client.Registration) { r.DPoP = store.DPoPAllowed }, "5.3.2.1-4"},
		"no-rotation":                       {func(r *client.Registration) { r.NoRotation = false }, "5.3.2.1-9"},
		"grant-types":                       {func(r *client.Registration) { r.GrantTypes = append(r.GrantTypes, store.GrantDeviceCode) }, "5.3.2.2-3"},
		"redirect-uri": {func(r *client.Registration) {
			r.Native, r.RedirectURIs = true, []string{"http://127.0.0.1/cb", "http://localhost:3000/cb"}
		}, "5.3.2.2-8"},
		"signing-alg":          {func(r *client.Registration) { r.SigningAlg = keys.RS256 }, "5.4.1"},
		"id-token-signing-alg": {func(r *client.Registration) { r.IDTokenAlg = "" }, "5.4.1"},
		"id-jag": {func(r *client.Registration) {
			r.IDJAGs = []string{"https://other.example client=x alg=ES256", "https://third.example client=x"}
		}, "5.4.1"},
		"userinfo-signed-response-alg": {func(r *client.Registration) { r.UserInfoAlg = keys.RS256 }, "5.4.1"},
		"profile":                      {func(r *client.Registration) { r.Profile = "fapi3" }, "fapi2"},
	} {
		r := client.Registered(good.Client)
		contradict.change(&r)
		_, err := r.Change(good.Client, d.issuer.Policy)
		var invalid *oauth.Invalid
		if !errors.As(err, &invalid) || invalid.Field != flag || !strings.Contains(invalid.Message, contradict.rule) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	r := client.Registered(good.Client)
	r.GrantTypes = append(r.GrantTypes, "device_code") // as the command line abbreviates it
	if _, err := r.Change(good.Client, d.issuer.Policy); err == nil || !strings.Contains(err.Error(), "5.3.2.2-3") {
		t.Errorf("device_code: %v", err)
	}
	r = client.Registered(good.Client)
	r.Native, r.RedirectURIs = true, []string{"http://127.0.0.1/cb", "http://[::1]/cb", "com.example.app:/cb", redirect}
	if _, err := r.Change(good.Client, d.issuer.Policy); err != nil {
		t.Errorf("loopback addresses: %v", err)
	}
	// Without the profile, these settings are allowed.
	r.Profile, r.DPoP, r.RequirePAR = "", store.DPoPAllowed, false
	if _, err := r.Change(good.Client, d.issuer.Policy); err != nil {
		t.Error(err)
	}
}

// An assertion of another issuer does not authenticate a client of the profile.
func TestFA10_AWorkloadOfTheProfileAuthenticates(t *testing.T) {
	d := startTrusted(t)
	c := d.assertingClient(func(r *client.Registration) {
		follows(r)
		r.APIs = []string{ordersAPI}
	})
	d.trust(store.Trust{Issuer: theirCluster, Kind: store.TrustWorkload, ClientID: c.ID, APIs: []string{ordersAPI}, Subjects: []string{"ns:bank:*"}})
	text := d.workload(map[string]any{"sub": "ns:bank:a"})
	for name, form := range map[string]url.Values{"no client named": asserted(text), "its client named": asserted(text, "client_id", c.ID)} {
		if a := d.proven(form, testkit.NewProver(t)); a.status != http.StatusBadRequest || a.Error != "invalid_client" {
			t.Errorf("%s: %s", name, a)
		}
	}
	if a := d.proven(c.with(c.assert(nil), asserted(text, "client_id", c.ID)), testkit.NewProver(t)); a.status != http.StatusOK || a.TokenType != "DPoP" {
		t.Errorf("with an assertion of its own: %s", a)
	}
}

func TestFA04_CodesComeOfPushedRequestsAlone(t *testing.T) {
	d := start(t, withFront)
	c := d.assertingClient(follows)
	_, err := d.issuer.Codes().Issue(t.Context(), issuer.Authorization{ClientID: c.ID, RedirectURI: redirect, Subject: "alice", Challenge: challenge})
	var invalid *oauth.Invalid
	if !errors.As(err, &invalid) || invalid.Field != "client_id" || !strings.Contains(invalid.Message, "5.3.2.2-3") {
		t.Errorf("a code of an operator's: %v", err)
	}
}
