package conformance_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/claims"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/conformance"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A suite is the setting of a module of the OpenID Foundation's suite: a client with a
// secret and every scope, and a browser in which a user is signed in. Its id_tokens are
// signed with ES256, because RSA keys take long to generate; the other tests that Modules
// names use RS256, as the suite does.
type suite struct {
	*deployment
	t *testing.T
	b *browser
	c oauthClient
}

const allScopes = "openid profile email address phone"

// login makes an authorization request that shows no page, and redeems the code. It makes
// the checks that the suite makes in each module: the members of the response, the
// signature and claims of the id_token, and userinfo.
func (s suite) login(pairs ...string) (tokens, map[string]any) {
	s.t.Helper()
	return s.redeem(s.b.get(asking(s.c, slices.Concat([]string{"scope=" + allScopes, "nonce=n"}, pairs)...)))
}

func (s suite) redeem(redirected shownPage) (tokens, map[string]any) {
	s.t.Helper()
	q := redirected.granted(s.t, redirect)
	if len(q) != 3 || q.Get("state") != "st" || q.Get("iss") != issuerID {
		s.t.Errorf("the callback has %v", q)
	}
	got := s.mustRedeem(s.c, q.Get("code"))
	return got, s.check(got)
}

func (s suite) check(got tokens) map[string]any {
	s.t.Helper()
	id, claims := s.verifyIDToken(s.c, got)
	info := s.userInfo(got.AccessToken)
	if info.status != http.StatusOK || members(s.t, info.body)["sub"] != id.Subject || id.Subject != username {
		s.t.Errorf("the id_token names %q, and userinfo is %d %s", id.Subject, info.status, info.body)
	}
	return claims
}

// logIn makes a request after which the user must log in again.
func (s suite) logIn(pairs ...string) (tokens, map[string]any) {
	s.t.Helper()
	page := s.b.open(asking(s.c, slices.Concat([]string{"scope=" + allScopes}, pairs)...)).at(s.t, "login")
	return s.redeem(s.b.logIn(page, username, password))
}

// accepts returns a module whose parameters must not change the response.
func accepts(pairs ...string) func(suite) {
	return func(s suite) { s.login(pairs...) }
}

// refuses returns a module whose parameters must cause an error.
func refuses(code oauth.ErrorCode, pairs ...string) func(suite) {
	return func(s suite) {
		if q := s.b.get(asking(s.c, slices.Concat([]string{"scope=openid"}, pairs)...)).told(s.t, redirect, code); q.Get("state") != "st" {
			s.t.Errorf("the error has state %q", q.Get("state"))
		}
	}
}

var modules = map[string]func(suite){
	"oidcc-server": func(s suite) {
		q := s.b.get(asking(s.c, "scope="+allScopes, "nonce=n")).granted(s.t, redirect)
		form := with(s.c.redeem(q.Get("code")), "code_verifier", verifier)
		form.Del("client_id")
		form.Del("client_secret")
		r := newRequest(form)
		r.basic(s.c.ID, s.c.secret)
		got := s.mustIssue(s.send(r))
		if claims := s.check(got); claims["nonce"] != "n" || got.TokenType != "Bearer" {
			s.t.Errorf("nonce %v, token type %s", claims["nonce"], got.TokenType)
		}
	},
	"oidcc-server-client-secret-post": func(s suite) {
		form := with(s.c.redeem(s.b.get(asking(s.c, "scope=openid")).granted(s.t, redirect).Get("code")), "code_verifier", verifier)
		if form.Get("client_secret") == "" {
			s.t.Fatal("the secret is not in the form")
		}
		s.check(s.mustIssue(s.post(form)))
	},
	"oidcc-response-type-missing": func(s suite) {
		s.b.get(asking(s.c, "scope=openid", "response_type")).told(s.t, redirect, oauth.InvalidRequest)
	},
	"oidcc-ensure-request-without-nonce-succeeds-for-code-flow": func(s suite) {
		if _, claims := s.login("nonce"); claims["nonce"] != nil {
			s.t.Errorf("nonce %v was not sent", claims["nonce"])
		}
	},
	"oidcc-scope-all": func(s suite) {
		got, _ := s.login()
		info := members(s.t, s.userInfo(got.AccessToken).body)
		for _, name := range []string{"sub", "name", "birthdate", "preferred_username", "updated_at", "email", "email_verified", "address", "phone_number"} {
			if info[name] == nil {
				s.t.Errorf("userinfo has no %s", name)
			}
		}
	},
	"oidcc-ensure-other-scope-order-succeeds":              accepts("scope=email openid"),
	"oidcc-display-page":                                   accepts("display=page"),
	"oidcc-display-popup":                                  accepts("display=popup"),
	"oidcc-ensure-request-with-unknown-parameter-succeeds": accepts("extra=foobar"),
	"oidcc-login-hint":                                     accepts("login_hint=somebody@example.com"),
	"oidcc-ui-locales":                                     accepts("ui_locales=se"),
	"oidcc-claims-locales":                                 accepts("claims_locales=se"),
	"oidcc-ensure-request-with-acr-values-succeeds":        accepts("acr_values=1 2"),
	"oidcc-ensure-request-with-valid-pkce-succeeds":        accepts("code_challenge="+challenge, "code_challenge_method=S256"),
	"oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported":    refuses(oauth.RequestURINotSupported, "request_uri=https://client.example/r.jwt"),
	"oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported": refuses(oauth.RequestNotSupported, "request=eyJhbGciOiJub25lIn0.e30."),
	"oidcc-ensure-request-object-with-redirect-uri": refuses(oauth.RequestNotSupported,
		"request=eyJhbGciOiJub25lIn0.eyJyZWRpcmVjdF91cmkiOiJodHRwczovL2V2aWwuZXhhbXBsZS8ifQ."),
	"oidcc-prompt-login": func(s suite) {
		_, first := s.login()
		s.step(2 * time.Second)
		if _, again := s.logIn("prompt=login"); again["auth_time"].(float64) <= first["auth_time"].(float64) || again["sub"] != first["sub"] {
			s.t.Errorf("auth_time %v after %v, sub %v after %v", again["auth_time"], first["auth_time"], again["sub"], first["sub"])
		}
	},
	"oidcc-prompt-none-not-logged-in": func(s suite) {
		s.browser().get(asking(s.c, "scope=openid", "prompt=none")).told(s.t, redirect, oauth.LoginRequired)
	},
	"oidcc-prompt-none-logged-in": func(s suite) {
		_, first := s.login()
		s.step(2 * time.Second)
		if _, again := s.login("prompt=none"); again["auth_time"] != first["auth_time"] || again["sub"] != first["sub"] {
			s.t.Errorf("auth_time %v after %v, sub %v after %v", again["auth_time"], first["auth_time"], again["sub"], first["sub"])
		}
	},
	"oidcc-max-age-1": func(s suite) {
		_, first := s.login()
		s.step(2 * time.Second)
		_, again := s.logIn("max_age=1")
		if age := again["iat"].(float64) - again["auth_time"].(float64); age > 1 || again["auth_time"] == first["auth_time"] {
			s.t.Errorf("the login is %v seconds old, auth_time %v after %v", age, again["auth_time"], first["auth_time"])
		}
	},
	"oidcc-max-age-10000": func(s suite) {
		_, first := s.login()
		s.step(2 * time.Second)
		if _, again := s.login("max_age=10000"); again["auth_time"] != first["auth_time"] || again["auth_time"] == nil {
			s.t.Errorf("auth_time %v after %v", again["auth_time"], first["auth_time"])
		}
	},
	"oidcc-id-token-hint": func(s suite) {
		got, first := s.login()
		if _, again := s.login("prompt=none", "id_token_hint="+got.IDToken); again["sub"] != first["sub"] || again["auth_time"] != first["auth_time"] {
			s.t.Errorf("%v after %v", again, first)
		}
	},
	"oidcc-codereuse":           codeReuse(0),
	"oidcc-codereuse-30seconds": codeReuse(30 * time.Second),
	"oidcc-ensure-registered-redirect-uri": func(s suite) {
		s.b.get(asking(s.c, "scope=openid", "redirect_uri="+redirect+"/other")).refusedPage(s.t, http.StatusBadRequest)
	},
	"oidcc-ensure-post-request-succeeds": func(s suite) {
		at, query, _ := strings.Cut(asking(s.c, "scope="+allScopes, "nonce=n"), "&")
		form, err := url.ParseQuery(query)
		if err != nil {
			s.t.Fatal(err)
		}
		s.redeem(s.b.get(s.b.do(http.MethodPost, at, form).Header.Get("Location")))
	},
	"oidcc-claims-essential": func(s suite) {
		got, _ := s.login(`claims={"userinfo":{"name":{"essential":true}}}`)
		if info := members(s.t, s.userInfo(got.AccessToken).body); info["name"] != "User alice" {
			s.t.Errorf("the name is %v", info["name"])
		}
	},
	"oidcc-refresh-token": func(s suite) {
		got, first := s.login()
		want(s.t, s.post(s.b2().refresh(got.RefreshToken)), 400, "invalid_grant")
		s.step(time.Second)
		fresh := s.mustIssue(s.post(with(s.c.refresh(got.RefreshToken), "scope", allScopes)))
		again := s.check(fresh)
		for _, name := range []string{"iss", "sub", "aud", "auth_time"} {
			if again[name] != first[name] {
				s.t.Errorf("%s is %v after %v", name, again[name], first[name])
			}
		}
		if again["iat"] == first["iat"] || again["nonce"] != nil || fresh.AccessToken == got.AccessToken {
			s.t.Errorf("a refresh returns %v", again)
		}
	},
	"oidcc-rp-initiated-logout-discovery-endpoint-verification": func(s suite) {
		if address := s.metadata()["end_session_endpoint"]; address != issuerID+"/end_session" {
			s.t.Errorf("end_session_endpoint is %v", address)
		}
	},
	"oidcc-rp-initiated-logout": func(s suite) {
		got, _ := s.login()
		s.leave(got, "post_logout_redirect_uri="+afterLogout, "state=s").gone(s.t, s.b, afterLogout+"&state=s")
		s.b.get(asking(s.c, "scope=openid", "prompt=none")).told(s.t, redirect, oauth.LoginRequired)
	},
	"oidcc-rp-initiated-logout-no-state": func(s suite) {
		got, _ := s.login()
		s.leave(got, "post_logout_redirect_uri="+afterLogout).gone(s.t, s.b, afterLogout)
	},
	"oidcc-rp-initiated-logout-no-post-logout-redirect-uri": func(s suite) {
		got, _ := s.login()
		s.leave(got, "state=s").gone(s.t, s.b, logoutURL)
		if page := s.b.get(logoutURL); page.StatusCode != http.StatusOK || !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
			s.t.Errorf("after the logout: status %d", page.StatusCode)
		}
	},
	"oidcc-rp-initiated-logout-bad-post-logout-redirect-uri": func(s suite) {
		got, _ := s.login()
		s.leave(got, "post_logout_redirect_uri=https://client.example/foreign", "state=s").refusedPage(s.t, http.StatusBadRequest)
	},
	"oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri": func(s suite) {
		got, _ := s.login()
		s.leave(got, "post_logout_redirect_uri="+afterLogout+"&foo=bar", "state=s").refusedPage(s.t, http.StatusBadRequest)
	},
	"oidcc-rp-initiated-logout-modified-id-token-hint": func(s suite) {
		got, _ := s.login()
		parts := strings.Split(got.IDToken, ".")
		payload := strings.Replace(string(mustDecode(s.t, parts[1])), `"sub":"alice"`, `"sub":"bob"`, 1)
		got.IDToken = parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + parts[2]
		s.leave(got, "post_logout_redirect_uri="+afterLogout, "state=s").refusedPage(s.t, http.StatusBadRequest)
	},
	"oidcc-rp-initiated-logout-bad-id-token-hint": func(s suite) { // HS256 with the client's secret
		got, _ := s.login()
		text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + strings.Split(got.IDToken, ".")[1]
		mac := hmac.New(sha256.New, []byte(s.c.secret))
		mac.Write([]byte(text))
		got.IDToken = text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		s.leave(got, "post_logout_redirect_uri="+afterLogout, "state=s").refusedPage(s.t, http.StatusBadRequest)
	},
	"oidcc-rp-initiated-logout-no-id-token-hint": asksBeforeLogout("post_logout_redirect_uri="+afterLogout, "state=s"),
	"oidcc-rp-initiated-logout-no-params":        asksBeforeLogout(),
	"oidcc-rp-initiated-logout-only-state":       asksBeforeLogout("state=s"),
	"oidcc-discovery-endpoint-verification": func(s suite) {
		m := s.metadata()
		if m["issuer"] != issuerID || m["claims_parameter_supported"] == nil && m["request_uri_parameter_supported"] != false ||
			!slices.Contains(list(s.t, m, "id_token_signing_alg_values_supported"), "RS256") || !slices.Contains(list(s.t, m, "scopes_supported"), "openid") ||
			!slices.Contains(list(s.t, m, "response_types_supported"), "code") || !slices.Contains(list(s.t, m, "subject_types_supported"), "public") {
			s.t.Errorf("the metadata are %v", m)
		}
		for _, name := range []string{"authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri"} {
			if address, _ := m[name].(string); !strings.HasPrefix(address, publicURL+"/") {
				s.t.Errorf("%s is %q", name, address)
			}
		}
	},
}

// codeReuse redeems a code twice: the second request fails, and the access token is
// revoked.
func codeReuse(later time.Duration) func(suite) {
	return func(s suite) {
		code := s.b.get(asking(s.c, "scope=openid")).granted(s.t, redirect).Get("code")
		got := s.mustRedeem(s.c, code)
		s.step(later)
		want(s.t, s.post(with(s.c.redeem(code), "code_verifier", verifier)), 400, "invalid_grant")
		if a := s.userInfo(got.AccessToken); a.status != http.StatusUnauthorized {
			s.t.Errorf("the access token of a code that was redeemed twice: %d", a.status)
		}
	}
}

// leave requests a logout, with the id_token of a login as hint.
func (s suite) leave(got tokens, pairs ...string) shownPage {
	s.t.Helper()
	return s.b.get(leave(slices.Concat([]string{"id_token_hint=" + got.IDToken}, pairs)...))
}

// asksBeforeLogout returns a module whose request must lead to a question, and must not
// redirect to an unverified address.
func asksBeforeLogout(pairs ...string) func(suite) {
	return func(s suite) {
		s.login()
		page := s.b.open(leave(pairs...)).at(s.t, "logout")
		if !s.b.isSignedIn() {
			s.t.Error("nobody was asked")
		}
		s.b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout").gone(s.t, s.b, logoutURL)
	}
}

// b2 returns another client.
func (s suite) b2() oauthClient {
	return s.client(client.Registration{Settings: store.Settings{Scope: allScopes}})
}

// TestConformanceSuite runs a subtest for each module of the OpenID Foundation's suite
// that conformance.Modules assigns to it.
func TestConformanceSuite(t *testing.T) {
	d := start(t, withFront)
	d.user(username, func(u *account.User) {
		var err error
		if u.Claims, err = claims.Parse([]byte(aliceClaims)); err != nil {
			t.Fatal(err)
		}
		u.ProfileAt = 1_700_000_000_999
	})
	named := 0
	for _, m := range conformance.Modules {
		if !slices.Contains(m.By, t.Name()) {
			continue
		}
		named++
		part := modules[m.Name]
		if part == nil {
			t.Errorf("there is no part for %s", m.Name)
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			defer func(whole *testing.T) { d.t = whole }(d.t)
			d.t = t
			s := suite{deployment: d, t: t, b: d.browser(), c: d.client(client.Registration{Settings: store.Settings{Name: m.Name, FirstParty: true, Scope: allScopes, PostLogoutRedirectURIs: []string{afterLogout}}})}
			d.signIn(s.b, username)
			part(s)
		})
	}
	if named != len(modules) {
		t.Errorf("there are %d parts, and %d modules name this test", len(modules), named)
	}
}
