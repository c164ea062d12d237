package conformance_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const (
	chatServer       = "https://chat.example/"
	idTokenType      = "urn:ietf:params:oauth:token-type:id_token"
	refreshTokenType = "urn:ietf:params:oauth:token-type:refresh_token"
)

// asserting registers a client that may get identity assertions for the chat.
func (d *deployment) asserting(choose ...func(*client.Registration)) oauthClient {
	d.t.Helper()
	return d.leaving(append([]func(*client.Registration){func(r *client.Registration) {
		r.IDJAGs = []string{chatServer + " client=there resource=https://api.chat.example scope=chat.read scope=chat.write alg=ES256"}
	}}, choose...)...)
}

// asserts returns a client's request for an identity assertion.
func (c oauthClient) asserts(subject string, pairs ...string) url.Values {
	return c.exchanges(subject, append([]string{"subject_token_type", idTokenType, "requested_token_type", oauth.TypeIDJAG, "audience", chatServer}, pairs...)...)
}

func TestIG01_IG02_IG05_AnIdentityAssertion(t *testing.T) {
	d, b := signedIn(t)
	c := d.asserting()
	login := b.signsIn(d, c)
	a := d.post(c.asserts(login.IDToken))
	if want := `{"issued_token_type":"` + oauth.TypeIDJAG + `","access_token":"` + a.AccessToken + `","token_type":"N_A","scope":"chat.read chat.write","expires_in":300}`; a.status != http.StatusOK || a.body != want {
		t.Fatalf("the answer is %d %s, want %s", a.status, a.body, want)
	}
	v := d.verified(a.AccessToken)
	if v.typ != "oauth-id-jag+jwt" || v.claims["aud"] != chatServer || v.claims["client_id"] != "there" || v.claims["sub"] != username || v.claims["scope"] != "chat.read chat.write" || v.claims["acr"] != "urn:mintage:1" {
		t.Errorf("typ %s, claims %v", v.typ, v.claims)
	}
	for _, row := range []struct {
		pairs []string
		code  string
	}{
		{[]string{"scope", "chat.read"}, ""},
		{[]string{"resource", "https://api.chat.example/"}, ""},
		{[]string{"subject_token", login.RefreshToken, "subject_token_type", refreshTokenType}, ""},
		{[]string{"subject_token", ""}, "invalid_request"},
		{[]string{"subject_token_type", ""}, "invalid_request"},
		{[]string{"subject_token_type", accessTokenType}, "invalid_request"},
		{[]string{"subject_token", login.RefreshToken}, "invalid_request"},
		{[]string{"subject_token", login.AccessToken}, "invalid_request"},
		{[]string{"subject_token", a.AccessToken}, "invalid_request"}, // an assertion
		{[]string{"actor_token", login.AccessToken, "actor_token_type", accessTokenType}, "invalid_request"},
		{[]string{"audience", ""}, "invalid_request"},
		{[]string{"audience", "https://other.example/"}, "invalid_target"},
		{[]string{"audience", issuerID}, "invalid_target"},
		{[]string{"resource", "https://api.other.example"}, "invalid_target"},
		{[]string{"scope", "chat.admin"}, "invalid_scope"},
		{[]string{"scope", "openid"}, "invalid_scope"},
	} {
		got := d.post(c.asserts(login.IDToken, row.pairs...))
		if row.code != "" {
			want(t, got, http.StatusBadRequest, row.code)
		} else if got.status != http.StatusOK {
			t.Errorf("%q: %v", row.pairs, got)
		}
	}
	// This server itself does not accept the assertion as a token.
	if in := d.introspect(c, a.AccessToken); in.body != `{"active":false}` {
		t.Errorf("introspection answers %s", in.body)
	}
	if u := d.userInfo(a.AccessToken); u.status != http.StatusUnauthorized {
		t.Errorf("userinfo answers %v", u)
	}
	if v := d.verify(a.AccessToken); v.status != http.StatusUnauthorized {
		t.Errorf("verification answers %v", v)
	}
	b.get(asking(c, "scope=openid a", "id_token_hint="+a.AccessToken)).told(t, redirect, "invalid_request")
	want(t, d.post(with(c.identify(url.Values{}), "grant_type", store.GrantTokenExchange, "subject_token", a.AccessToken, "subject_token_type", jwtType)), http.StatusBadRequest, "unauthorized_client")
}

func TestIG03_WhoGetsIdentityAssertions(t *testing.T) {
	d, b := signedIn(t)
	c := d.asserting()
	login := b.signsIn(d, c)
	other := d.asserting()
	want(t, d.post(other.asserts(login.IDToken)), http.StatusBadRequest, "invalid_request")
	want(t, d.post(other.asserts(login.RefreshToken, "subject_token_type", refreshTokenType)), http.StatusBadRequest, "invalid_request")
	want(t, d.post(d.a.asserts(login.IDToken)), http.StatusBadRequest, "unauthorized_client")
	want(t, d.post(oauthClient{Client: c.Client, secret: "wrong"}.asserts(login.IDToken)), http.StatusBadRequest, "invalid_client")
	// The client may not exchange tokens for anything else.
	want(t, d.post(c.exchanges(login.AccessToken)), http.StatusBadRequest, "unauthorized_client")
	public := d.change(c, func(c *store.Client) { c.Auth = store.AuthNone })
	public.secret = ""
	want(t, d.post(public.asserts(login.IDToken)), http.StatusBadRequest, "unauthorized_client")
	public = d.change(public, func(c *store.Client) { c.IDJAGs[0] += " public" })
	if a := d.post(public.asserts(login.IDToken)); a.status != http.StatusOK {
		t.Errorf("a public client by policy: %v", a)
	}
}

// As a subject token, an id_token is valid until it expires or its session ends; the
// session's idle timeout does not matter.
func TestIG04_TheSessionOfAnIDToken(t *testing.T) {
	d, b := signedIn(t)
	c := d.asserting(func(r *client.Registration) { r.IDTokenLifetime = store.InMilliseconds(10 * time.Hour) })
	login := b.signsIn(d, c)
	d.step(9 * time.Hour)
	if b.isSignedIn() {
		t.Error("the browser was not idle for too long")
	}
	if a := d.post(c.asserts(login.IDToken)); a.status != http.StatusOK {
		t.Errorf("of an idle session: %v", a)
	}
	d.step(time.Hour)
	want(t, d.post(c.asserts(login.IDToken)), http.StatusBadRequest, "invalid_request") // expired

	d.signIn(b, username)
	login = b.signsIn(d, c)
	if a := d.post(c.asserts(login.IDToken)); a.status != http.StatusOK {
		t.Fatalf("of a session: %v", a)
	}
	b.get(leave("id_token_hint="+login.IDToken)).gone(t, b, logoutURL)
	want(t, d.post(c.asserts(login.IDToken)), http.StatusBadRequest, "invalid_request")
	d.signIn(b, username) // a new session
	want(t, d.post(c.asserts(login.IDToken)), http.StatusBadRequest, "invalid_request")
	login = b.signsIn(d, c)
	d.changeUser(username, func(u account.User) account.User { return u.Disable(grant.At(d.now())) })
	want(t, d.post(c.asserts(login.IDToken)), http.StatusBadRequest, "invalid_request")
	if in := d.log.String(); !strings.Contains(in, "grant_revoked") {
		t.Error("the log does not name the reason")
	}
}

func TestIG06_MetadataOfIdentityAssertions(t *testing.T) {
	if got := list(t, start(t).metadata(), "identity_chaining_requested_token_types_supported"); len(got) != 1 || got[0] != oauth.TypeIDJAG {
		t.Errorf("metadata name %q", got)
	}
}
