package conformance_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/store"
)

const (
	ordersAPI   = "https://api.example/orders"
	invoicesAPI = "https://api.example/invoices"
)

// api stores an API.
func (d *deployment) api(a store.API) {
	d.t.Helper()
	a.Realm, a.Version = "/api", 1
	if err := d.store.Commit(d.t.Context(), store.Change{Entries: []store.Entry{a.Entry()}}); err != nil {
		d.t.Fatal(err)
	}
	d.poll()
}

// withAPIs stores two APIs, and a client that may have tokens for both.
func (d *deployment) withAPIs() oauthClient {
	d.t.Helper()
	d.api(store.API{ID: ordersAPI, Number: 1, Open: true, Scopes: []store.APIScope{{Name: "orders", Number: 1, Texts: map[string]string{"en": "Read <your> orders", "ja": "注文"}}}})
	d.api(store.API{ID: invoicesAPI, Number: 2, TokenFormat: store.TokenJWT, Scopes: []store.APIScope{{Name: "invoices", Number: 1}}})
	return d.client(client.Registration{Settings: store.Settings{Name: "Shop", Scope: "openid a", APIs: []string{ordersAPI, invoicesAPI}}})
}

func TestRS01_RS10_ResourceNarrowsTokensToOneAPI(t *testing.T) {
	d, b := signedIn(t)
	c := d.withAPIs()
	b.get(asking(c, "resource=https://api.example/none", "scope=orders")).told(t, redirect, "invalid_target")
	b.get(asking(c, "resource="+ordersAPI, "scope=invoices")).told(t, redirect, "invalid_scope")
	page := b.follow(b.get(asking(c, "resource="+ordersAPI+"/", "scope=openid orders invoices") + "&resource=" + url.QueryEscape(invoicesAPI)))
	if !strings.Contains(page.body, "Read &lt;your&gt; orders") {
		t.Error("the consent page lacks the text of a scope")
	}
	if page := b.open(asking(c, "resource="+ordersAPI, "scope=orders", "ui_locales=ja")); !strings.Contains(page.body, "注文") {
		t.Error("the consent page in Japanese lacks the Japanese text of a scope")
	}
	code := b.agree(asking(c, "resource="+ordersAPI+"/", "scope=openid orders invoices") + "&resource=" + url.QueryEscape(invoicesAPI)).Query().Get("code")
	all := d.mustIssue(d.post(c.challenged(code)))
	narrow := func(pair tokens, resources ...string) tokens {
		t.Helper()
		form := c.refresh(pair.RefreshToken)
		form["resource"] = resources
		return d.mustIssue(d.post(form))
	}
	server := d.resourceServer(ordersAPI + "/")
	check := func(pair tokens, scope string, userinfo int, audience ...string) {
		t.Helper()
		if pair.Scope != scope {
			t.Errorf("scope %q", pair.Scope)
		}
		for _, aud := range []string{ordersAPI, ordersAPI + "/", invoicesAPI, issuerID} {
			want := http.StatusUnauthorized
			if slices.Contains(audience, strings.TrimSuffix(aud, "/")) {
				want = http.StatusOK
			}
			if a := d.verify(pair.AccessToken, "X-Required-Audience: "+aud); a.status != want {
				t.Errorf("verify for %s: %d", aud, a.status)
			}
		}
		asked := d.introspect(server, pair.AccessToken)
		if active := strings.Contains(asked.body, `"active":true`); active != slices.Contains(audience, ordersAPI) {
			t.Errorf("introspection: %s", asked.body)
		}
		if own := d.introspect(c, pair.AccessToken); len(audience) == 1 && !strings.Contains(own.body, `"aud":"`+audience[0]+`"`) {
			t.Errorf("introspection: %s", own.body)
		}
		if a := d.userInfo(pair.AccessToken); a.status != userinfo {
			t.Errorf("userinfo: %d", a.status)
		}
	}
	check(all, "openid orders invoices", 401, ordersAPI, invoicesAPI)
	one := narrow(all, ordersAPI)
	check(one, "openid orders", 401, ordersAPI)
	two := narrow(one, invoicesAPI+"/", invoicesAPI)
	check(two, "openid invoices", 401, invoicesAPI)
	if aud := d.verified(two.AccessToken).claims["aud"]; aud != invoicesAPI {
		t.Errorf("the JWT is for %v", aud)
	}
	form := c.refresh(two.RefreshToken)
	form["resource"] = []string{ordersAPI, invoicesAPI}
	if a := d.post(form); a.status != http.StatusBadRequest || !strings.Contains(a.body, `"error":"invalid_target"`) {
		t.Errorf("two resources: %v", a)
	}
	check(narrow(two), "openid orders invoices", 401, ordersAPI, invoicesAPI)

	// The issuer is also an API.
	code = b.agree(asking(c, "resource="+issuerID, "scope=openid orders") + "&resource=" + url.QueryEscape(ordersAPI)).Query().Get("code")
	own := d.mustIssue(d.post(c.challenged(code)))
	check(own, "openid orders", 200, issuerID, ordersAPI)
	check(narrow(own, issuerID), "openid", 200, issuerID)
	without := b.agree(asking(c, "scope=openid orders")).Query().Get("code")
	check(d.mustIssue(d.post(c.challenged(without))), "openid orders", 200, ordersAPI, issuerID)
	plain := b.agree(asking(c, "scope=orders")).Query().Get("code")
	check(d.mustIssue(d.post(c.challenged(plain))), "orders", 401, ordersAPI)
	// The scopes of OpenID Connect suffice; such a token has no scope of the API.
	bare := b.agree(asking(c, "resource="+ordersAPI, "scope=openid")).Query().Get("code")
	check(d.mustIssue(d.post(c.challenged(bare))), "openid", 401, ordersAPI)
}

func TestTC27_TR28_ResourceWithACodeAndWithARefresh(t *testing.T) {
	d, b := signedIn(t)
	c := d.withAPIs()
	code := b.agree(asking(c, "resource="+ordersAPI, "scope=orders invoices") + "&resource=" + url.QueryEscape(invoicesAPI)).Query().Get("code")
	form := c.challenged(code)
	want(t, d.post(with(form, "resource", "https://api.example/none")), 400, "invalid_target")
	pair := d.mustIssue(d.post(with(form, "resource", invoicesAPI)))
	if aud := d.verified(pair.AccessToken).claims["aud"]; aud != invoicesAPI || pair.Scope != "invoices" {
		t.Errorf("after the code: for %v, scope %q", aud, pair.Scope)
	}
	form = c.refresh(pair.RefreshToken)
	want(t, d.post(with(form, "resource", "https://api.example/none")), 400, "invalid_target")
	pair = d.mustIssue(d.post(with(form, "resource", ordersAPI)))
	if own := d.introspect(c, pair.AccessToken); !strings.Contains(own.body, `"aud":"`+ordersAPI+`"`) || pair.Scope != "orders" {
		t.Errorf("after the refresh: scope %q, %s", pair.Scope, own.body)
	}
}

func TestRS12_MetadataListScopesOfOpenAPIs(t *testing.T) {
	d := start(t)
	before := list(t, d.metadata(), "scopes_supported")
	d.client(client.Registration{Settings: store.Settings{Name: "Free", Scope: "free email"}})
	if got := list(t, d.metadata(), "scopes_supported"); !slices.Contains(got, "free") || len(got) <= len(before) {
		t.Errorf("without APIs: %v", got)
	}
	d.withAPIs()
	got := list(t, d.metadata(), "scopes_supported")
	for scope, want := range map[string]bool{"orders": true, "invoices": false, "free": false, "a": false, "email": true, "openid": true, "offline_access": false} {
		if slices.Contains(got, scope) != want {
			t.Errorf("%s: %v", scope, got)
		}
	}
}

func TestRS13_ScopesNameTheirAPIs(t *testing.T) {
	d, b := signedIn(t)
	c := d.withAPIs()
	six, ids := "", []string{ordersAPI, invoicesAPI}
	for i, name := range []string{"p", "q", "r", "s", "u", "v"} {
		id := "https://api.example/" + name
		d.api(store.API{ID: id, Number: uint16(10 + i), Scopes: []store.APIScope{{Name: name, Number: 1}}})
		six, ids = six+" "+name, append(ids, id)
	}
	many := d.client(client.Registration{Settings: store.Settings{Name: "Many", Scope: "openid", APIs: ids}})
	b.get(asking(many, "scope=openid"+six)).told(t, redirect, "invalid_target")
	b.get(asking(many)).told(t, redirect, "invalid_target") // the scopes are of too many APIs
	b.open(asking(many, "scope=openid"+six[:len(" p q r s u")])).at(t, "consent")
	if page := b.open(asking(c, "scope=orders")); !strings.Contains(page.body, "Read &lt;your&gt; orders") {
		t.Error("the consent page lacks the text of the scope")
	}
	pair := d.mustIssue(d.post(c.challenged(b.agree(asking(c, "scope=invoices")).Query().Get("code"))))
	for range 2 {
		if got := d.verified(pair.AccessToken).claims; got["aud"] != invoicesAPI || got["scope"] != "invoices" {
			t.Errorf("the JWT is for %v, scope %v", got["aud"], got["scope"])
		}
		for aud, want := range map[string]int{invoicesAPI: http.StatusOK, ordersAPI: http.StatusUnauthorized, issuerID: http.StatusUnauthorized} {
			if a := d.verify(pair.AccessToken, "X-Required-Audience: "+aud); a.status != want {
				t.Errorf("verify for %s: %d", aud, a.status)
			}
		}
		pair = d.mustIssue(d.post(c.refresh(pair.RefreshToken)))
	}
	// openid belongs to no API: the client gets an id_token and userinfo, and the access
	// token is still a JWT.
	pair = d.mustIssue(d.post(c.challenged(b.agree(asking(c, "scope=openid invoices")).Query().Get("code"))))
	if aud := d.verified(pair.AccessToken).claims["aud"]; !slices.Equal(aud.([]any), []any{invoicesAPI, issuerID}) {
		t.Errorf("the JWT is for %v", aud)
	}
	if a := d.userInfo(pair.AccessToken); a.status != http.StatusOK || pair.IDToken == "" {
		t.Errorf("userinfo: %d, id_token %q", a.status, pair.IDToken)
	}
	// A client without APIs gets the same token as before.
	plain := d.client(client.Registration{Settings: store.Settings{Name: "Plain", Scope: "openid a"}})
	pair = d.mustIssue(d.post(plain.challenged(b.agree(asking(plain, "scope=openid a")).Query().Get("code"))))
	if asked := d.introspect(plain, pair.AccessToken); !strings.Contains(asked.body, `"aud":"`+issuerID+`"`) {
		t.Errorf("introspection: %s", asked.body)
	}
}

func TestRS16_AudienceIsAResourceForClientsThatSaySo(t *testing.T) {
	d, b := signedIn(t)
	d.withAPIs()
	of := func(says bool) oauthClient {
		return d.client(client.Registration{Settings: store.Settings{Name: "Says", Scope: "openid a", APIs: []string{ordersAPI, invoicesAPI}, Audience: []string{"legacy"}, AudienceParameter: says,
			GrantTypes: store.GrantTypes}})
	}
	says, plain := of(true), of(false)
	audience := func(pair tokens) string {
		t.Helper()
		var names []string
		for _, aud := range []string{ordersAPI, invoicesAPI, "legacy"} {
			if d.verify(pair.AccessToken, "X-Required-Audience: "+aud).status == http.StatusOK {
				names = append(names, aud[strings.LastIndexByte(aud, '/')+1:])
			}
		}
		return strings.Join(names, " ") + ": " + pair.Scope
	}
	login := func(c oauthClient, parameters ...string) tokens {
		t.Helper()
		return d.mustIssue(d.post(c.challenged(b.agree(asking(c, parameters...)).Query().Get("code"))))
	}
	for _, row := range []struct {
		c          oauthClient
		parameters []string
		want       string
	}{
		{says, []string{"audience=" + invoicesAPI}, "invoices: openid invoices"},
		{says, []string{"audience=" + invoicesAPI + "/", "scope=openid invoices"}, "invoices: openid invoices"},
		{says, []string{"audience=" + invoicesAPI, "resource=" + ordersAPI}, "orders invoices: openid orders invoices"},
		{says, []string{"audience=" + ordersAPI, "resource=" + ordersAPI}, "orders: openid orders"},
		{says, []string{"audience=legacy"}, "legacy: openid a"},
		{says, []string{"scope=orders"}, "orders: orders"},
		{plain, []string{"audience=" + invoicesAPI}, "orders invoices legacy: openid a orders invoices"},
		{plain, []string{"audience=https://api.example/none", "scope=orders"}, "orders: orders"},
	} {
		if got := audience(login(row.c, row.parameters...)); got != row.want {
			t.Errorf("%q: for %s, want %s", row.parameters, got, row.want)
		}
	}
	b.get(asking(says, "audience=https://api.example/none")).told(t, redirect, "invalid_target")
	b.get(asking(says, "audience=no uri")).told(t, redirect, "invalid_target")
	b.get(asking(says, "audience="+ordersAPI)+"&audience="+url.QueryEscape(invoicesAPI)).told(t, redirect, "invalid_request")

	// The parameter at the token endpoint.
	pair := login(says)
	form := says.refresh(pair.RefreshToken)
	form.Set("audience", ordersAPI)
	pair = d.mustIssue(d.post(form))
	if got := audience(pair); got != "orders: openid orders" {
		t.Errorf("a refresh is for %s", got)
	}
	form = says.refresh(pair.RefreshToken)
	form.Set("audience", ordersAPI)
	form.Set("resource", invoicesAPI)
	if a := d.post(form); a.status != http.StatusBadRequest || !strings.Contains(a.body, `"error":"invalid_target"`) {
		t.Errorf("two of them: %v", a)
	}
	form = plain.refresh(login(plain).RefreshToken)
	form.Set("audience", ordersAPI)
	if got := audience(d.mustIssue(d.post(form))); got != "orders invoices legacy: openid a orders invoices" {
		t.Errorf("a refresh that says audience to no avail is for %s", got)
	}
	for c, want := range map[*oauthClient]string{&says: "invoices: invoices", &plain: "orders invoices legacy: a orders invoices"} {
		form := c.identify(forItself())
		form.Set("audience", invoicesAPI)
		if got := audience(d.post(form).tokens); got != want {
			t.Errorf("a token for itself is for %s, want %s", got, want)
		}
	}
}
