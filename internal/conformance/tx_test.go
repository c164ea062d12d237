package conformance_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const (
	accessTokenType = "urn:ietf:params:oauth:token-type:access_token"
	jwtType         = "urn:ietf:params:oauth:token-type:jwt"
)

// exchanger registers a client that may exchange another client's tokens.
func (d *deployment) exchanger(of oauthClient, change func(*client.Registration)) oauthClient {
	d.t.Helper()
	r := client.Registration{Settings: store.Settings{Name: "Gateway", Scope: "a", GrantTypes: []string{store.GrantClientCredentials},
		ExchangeFrom: []string{of.ID}, ServesAPIs: []string{ordersAPI}, ExchangeAPIs: []string{ordersAPI, invoicesAPI}}}
	if change != nil {
		change(&r)
	}
	return d.client(r)
}

// exchanges returns a client's exchange request for a subject token.
func (c oauthClient) exchanges(subject string, pairs ...string) url.Values {
	return with(c.identify(url.Values{"grant_type": {store.GrantTokenExchange}, "subject_token": {subject}, "subject_token_type": {accessTokenType}}), pairs...)
}

// shopping signs a user in at a client for both APIs. It returns the browser, the client
// and an access token for the first API.
func shopping(t *testing.T) (*deployment, *browser, oauthClient, string) {
	t.Helper()
	d, b := signedIn(t)
	c := d.withAPIs()
	pair := d.mustIssue(d.post(c.challenged(b.agree(asking(c, "scope=openid orders invoices")).Query().Get("code"))))
	form := c.refresh(pair.RefreshToken)
	form.Set("resource", ordersAPI)
	return d, b, c, d.mustIssue(d.post(form)).AccessToken
}

func TestTX01_TX07_ParametersOfAnExchange(t *testing.T) {
	d, _, shop, subject := shopping(t)
	c := d.exchanger(shop, nil)
	own := d.post(c.identify(forItself())).accessToken(t)
	for _, row := range []struct {
		pairs []string
		code  string
	}{
		{nil, ""},
		{[]string{"resource", invoicesAPI}, ""},
		{[]string{"audience", invoicesAPI}, ""},
		{[]string{"resource", invoicesAPI + "/", "audience", invoicesAPI}, ""},
		{[]string{"resource", invoicesAPI, "scope", "invoices"}, ""},
		{[]string{"resource", invoicesAPI, "requested_token_type", jwtType}, ""},
		{[]string{"requested_token_type", accessTokenType}, ""},
		{[]string{"actor_token", own, "actor_token_type", accessTokenType}, ""},

		{[]string{"subject_token", ""}, "invalid_request"},
		{[]string{"subject_token_type", ""}, "invalid_request"},
		{[]string{"subject_token_type", "urn:ietf:params:oauth:token-type:refresh_token"}, "invalid_request"},
		{[]string{"subject_token_type", "urn:ietf:params:oauth:token-type:id_token"}, "invalid_request"},
		{[]string{"subject_token_type", jwtType}, "invalid_request"}, // the subject token is opaque
		{[]string{"actor_token", own}, "invalid_request"},
		{[]string{"actor_token_type", accessTokenType}, "invalid_request"},
		{[]string{"actor_token", own, "actor_token_type", jwtType}, "invalid_request"},
		{[]string{"actor_token", own, "actor_token_type", "urn:ietf:params:oauth:token-type:id_token"}, "invalid_request"},
		{[]string{"actor_token", subject, "actor_token_type", accessTokenType}, "invalid_request"},
		{[]string{"requested_token_type", "urn:ietf:params:oauth:token-type:saml2"}, "invalid_request"},
		{[]string{"requested_token_type", jwtType}, "invalid_request"}, // the API has no JWTs
		{[]string{"resource", ordersAPI, "audience", invoicesAPI}, "invalid_target"},
		{[]string{"audience", c.ID}, "invalid_target"},
		{[]string{"audience", shop.ID}, "invalid_target"},
		{[]string{"resource", issuerID}, "invalid_target"},
		{[]string{"resource", "https://api.example/none"}, "invalid_target"},
		{[]string{"scope", "openid"}, "invalid_scope"},
		{[]string{"scope", "invoices"}, "invalid_scope"},
	} {
		a := d.post(c.exchanges(subject, row.pairs...))
		if row.code != "" {
			want(t, a, http.StatusBadRequest, row.code)
		} else if a.status != http.StatusOK {
			t.Errorf("%q: %v", row.pairs, a)
		}
	}
	for _, name := range []string{"subject_token", "subject_token_type"} {
		for _, requested := range []string{accessTokenType, oauth.TypeIDJAG} {
			if a := d.post(c.exchanges(subject, name, "", "requested_token_type", requested)); a.Description != oauth.ErrNoSubject.Description {
				t.Errorf("without %s: %v", name, a)
			}
		}
	}
	for name, value := range map[string]string{"actor_token": own, "actor_token_type": accessTokenType} {
		want(t, d.post(c.exchanges(subject, "subject_token_type", idTokenType, "requested_token_type", oauth.TypeIDJAG, "audience", chatServer, name, value)), http.StatusBadRequest, "invalid_request")
	}
	want(t, d.post(shop.exchanges(subject)), http.StatusBadRequest, "unauthorized_client")
	public := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
	want(t, d.post(public.exchanges(subject)), http.StatusBadRequest, "unauthorized_client")
}

// Checks the response, the claims, and who can read them.
func TestTX02_TX05_TX06_TX10_AnExchangedToken(t *testing.T) {
	d, b, shop, subject := shopping(t)
	c := d.exchanger(shop, func(r *client.Registration) { r.MayAct = "mesh" })
	a := d.post(c.exchanges(subject))
	text := a.accessToken(t)
	if want := `{"scope":"orders","expires_in":300,"token_type":"Bearer","access_token":"` + text + `","issued_token_type":"` + accessTokenType + `"}`; a.body != want {
		t.Errorf("the answer is %s, want %s", a.body, want)
	}
	if kind := d.post(c.exchanges(subject, "resource", invoicesAPI, "requested_token_type", jwtType)); !strings.HasSuffix(kind.body, `"issued_token_type":"`+jwtType+`"}`) {
		t.Errorf("the answer with a JWT is %s", kind.body)
	}
	const claims = `"act":{"sub":"CLIENT"},"may_act":{"sub":"mesh"},"granted_client_id":"SHOP"`
	named := strings.NewReplacer("CLIENT", c.ID, "SHOP", shop.ID).Replace(claims)
	if in := d.introspect(c, text); !strings.Contains(in.body, named) || !strings.Contains(in.body, `"client_id":"`+c.ID+`"`) || !strings.Contains(in.body, `"sub":"alice"`) {
		t.Errorf("introspection answers %s", in.body)
	}
	if in := d.introspect(shop, text); in.body != `{"active":false}` {
		t.Errorf("the client of the grant is told %s", in.body)
	}
	jwt := d.post(c.exchanges(subject, "resource", invoicesAPI)).accessToken(t)
	if v := d.verified(jwt); v.claims["client_id"] != c.ID || v.claims["granted_client_id"] != shop.ID || v.claims["act"].(map[string]any)["sub"] != c.ID || v.claims["aud"] != invoicesAPI {
		t.Errorf("claims %v", v.claims)
	}
	if login := members(t, d.introspect(shop, subject).body)["auth_time"]; login == nil || d.verified(jwt).claims["auth_time"] != login {
		t.Errorf("the user signed in at %v, and the JWT says %v", login, d.verified(jwt).claims["auth_time"])
	}
	for _, token := range []string{text, jwt} {
		if v := d.verify(token, "X-Required-Actor: required"); v.status != http.StatusOK || v.header["X-Auth-Actor"][0] != c.ID || v.header["X-Auth-Subject"][0] != "alice" {
			t.Errorf("verification answers %v", v)
		}
		if v := d.verify(token, "X-Required-Actor: refused"); v.status != http.StatusForbidden || !strings.Contains(v.header["Www-Authenticate"][0], "insufficient_scope") {
			t.Errorf("verification that refuses actors answers %v", v)
		}
		if u := d.userInfo(token); u.status != http.StatusUnauthorized {
			t.Errorf("userinfo answers %v", u)
		}
	}
	if v := d.verify(subject, "X-Required-Actor: required"); v.status != http.StatusForbidden {
		t.Errorf("verification that demands an actor answers %v", v)
	}
	if v := d.verify(subject, "X-Required-Actor: refused"); v.status != http.StatusOK || v.header["X-Auth-Actor"] != nil {
		t.Errorf("verification of a direct token answers %v", v)
	}
	if r := d.revoke(c, text); r.status != http.StatusOK {
		t.Errorf("revocation answers %v", r)
	}
	if v := d.verify(text); v.status != http.StatusUnauthorized {
		t.Errorf("after its revocation, verification answers %v", v)
	}
	if v := d.verify(subject); v.status != http.StatusOK {
		t.Errorf("the subject token is gone with it: %v", v)
	}
	// Userinfo is for the client of the login, even if the issuer is an API.
	d.api(store.API{ID: issuerID, Number: 3, Scopes: []store.APIScope{{Name: "own", Number: 1}}})
	shop = d.client(client.Registration{Settings: store.Settings{Name: "Shop of the issuer", Scope: "openid a", APIs: []string{ordersAPI, issuerID}}})
	c = d.exchanger(shop, func(r *client.Registration) { r.ExchangeAPIs = []string{issuerID} })
	pair := d.mustIssue(d.post(shop.challenged(b.agree(asking(shop, "scope=openid orders own")).Query().Get("code"))))
	form := shop.refresh(pair.RefreshToken)
	form.Set("resource", ordersAPI)
	text = d.post(c.exchanges(d.mustIssue(d.post(form)).AccessToken, "resource", issuerID)).accessToken(t)
	if u := d.userInfo(text); u.status != http.StatusUnauthorized {
		t.Errorf("userinfo answers a token that was exchanged for the issuer %v", u)
	}
}

// The consent page names what other clients can get by exchange, and the user is asked
// again when that grows.
func TestTX11_TheConsentPageNamesWhatOthersMayHave(t *testing.T) {
	d, b := signedIn(t)
	c := d.withAPIs()
	ask := asking(c, "scope=orders", "resource="+ordersAPI)
	b.agree(ask)
	if again := b.get(ask); !strings.HasPrefix(again.Header.Get("Location"), redirect) {
		t.Fatalf("the user is asked again: %v", again)
	}
	d.step(time.Second)
	d.exchanger(c, func(r *client.Registration) {
		r.Name, r.ExchangeBeyond = "Shipping", []string{invoicesAPI + " invoices"}
	})
	d.poll()
	page := b.open(ask)
	if !strings.Contains(page.body, "<bdi>Shipping</bdi> may also:") || !strings.Contains(page.body, "<code translate=\"no\">invoices</code>") {
		t.Errorf("the page does not name the other client: %s", page.body)
	}
	d.step(time.Second)
	b.agree(ask)
	if again := b.get(ask); !strings.HasPrefix(again.Header.Get("Location"), redirect) {
		t.Errorf("the user is asked about the same again: %v", again)
	}
}

// The audit log records which client exchanged whose token, and which one impersonated a
// user.
func TestAnExchangeIsRecorded(t *testing.T) {
	var tr auditLog
	d, b := signedIn(t, audited(t, &tr))
	shop := d.withAPIs()
	pair := d.mustIssue(d.post(shop.challenged(b.agree(asking(shop, "scope=openid orders invoices")).Query().Get("code"))))
	form := shop.refresh(pair.RefreshToken)
	form.Set("resource", ordersAPI)
	subject := d.mustIssue(d.post(form)).AccessToken
	want := map[string]audit.Name{}
	for mode, name := range map[store.ExchangeMode]audit.Name{"": audit.TokenExchanged, store.Impersonate: audit.UserImpersonated} {
		c := d.exchanger(shop, func(r *client.Registration) { r.ExchangeMode = mode })
		if a := d.post(c.exchanges(subject)); a.status != http.StatusOK {
			t.Fatalf("mode %q: %v", mode, a)
		}
		want[c.ID] = name
	}
	for _, e := range tr.entries() {
		if (e.Event == audit.TokenExchanged || e.Event == audit.UserImpersonated) && e.Event == want[e.ClientID] && e.Subject == username && e.Detail == "a token of client "+shop.ID {
			delete(want, e.ClientID)
		}
	}
	if len(want) > 0 {
		t.Errorf("not recorded: %v", want)
	}
}
