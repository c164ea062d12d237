package conformance_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/store"
)

func (d *deployment) machine(change func(*client.Registration)) oauthClient {
	d.t.Helper()
	r := client.Registration{Settings: store.Settings{Name: "Machine", Scope: "a b", GrantTypes: []string{store.GrantClientCredentials}, Introspect: true}}
	if change != nil {
		change(&r)
	}
	return d.client(r)
}

func forItself() url.Values { return url.Values{"grant_type": {"client_credentials"}} }

// accessToken returns the access token of a response.
func (a answer) accessToken(t *testing.T) string {
	t.Helper()
	_, rest, ok := strings.Cut(a.body, `"access_token":"`)
	text, _, ok2 := strings.Cut(rest, `"`)
	if a.status != 200 || !ok || !ok2 {
		t.Fatalf("no access token: %v", a)
	}
	return text
}

func TestCC02_ATokenOfAClientForItself(t *testing.T) {
	d := start(t, func(o *options) { o.front = true })
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		c := d.machine(func(r *client.Registration) { r.TokenFormat = format })
		a := d.post(c.identify(forItself()))
		text := a.accessToken(t)
		if want := `{"scope":"a b","expires_in":300,"token_type":"Bearer","access_token":"` + text + `"}`; a.body != want {
			t.Errorf("%s: the answer is %s, want %s", format, a.body, want)
		}
		in := d.introspect(c, text)
		if !strings.HasPrefix(in.body, `{"active":true,"scope":"a b","client_id":"`+c.ID+`","token_type":"Bearer",`) || !strings.Contains(in.body, `"sub":"`+c.ID+`"`) || strings.Contains(in.body, "auth_time") {
			t.Errorf("%s: introspection answers %s", format, in.body)
		}
		if v := d.verify(text); v.status != 200 || v.header["X-Auth-Subject"][0] != c.ID || v.header["X-Auth-Client"][0] != c.ID {
			t.Errorf("%s: verification answers %v", format, v)
		}
		if u := d.userInfo(text); u.status != 401 || !strings.Contains(u.body, "invalid_token") {
			t.Errorf("%s: userinfo answers %v", format, u)
		}
		if r := d.revoke(c, text); r.status != 200 {
			t.Errorf("%s: revocation answers %v", format, r)
		}
		if in := d.introspect(c, text); in.body != `{"active":false}` {
			t.Errorf("%s: after its revocation, introspection answers %s", format, in.body)
		}
	}
}

func TestCC01_TG32_WhoGetsATokenForItself(t *testing.T) {
	d := start(t, func(o *options) { o.front = true })
	c := d.machine(func(r *client.Registration) { r.Scope = "a b openid" })
	want(t, d.post(c.identify(with(forItself(), "scope", "a c"))), 400, "invalid_scope")
	want(t, d.post(c.identify(with(forItself(), "scope", "a openid"))), 400, "invalid_scope")
	want(t, d.post(c.identify(with(forItself(), "resource", "https://unknown.example"))), 400, "invalid_target")
	several := forItself()
	several["resource"] = []string{"https://one.example", "https://two.example"}
	want(t, d.post(c.identify(several)), 400, "invalid_target")
	want(t, d.post(with(forItself(), "client_id", c.ID)), 400, "invalid_client")
	want(t, d.post(d.a.identify(forItself())), 400, "unauthorized_client")
	if a := d.post(c.identify(forItself())); !strings.HasPrefix(a.body, `{"scope":"a b",`) {
		t.Errorf("without scope: %v", a)
	}
	asserting := d.assertingClient(func(r *client.Registration) { r.GrantTypes = []string{store.GrantClientCredentials} })
	d.post(asserting.with(asserting.assert(nil), forItself())).accessToken(t)
}

func TestCC04_ResourceAndScopeNarrowATokenOfAClientForItself(t *testing.T) {
	d := start(t)
	d.withAPIs()
	c := d.machine(func(r *client.Registration) { r.Scope, r.APIs = "a", []string{ordersAPI, invoicesAPI} })
	ask := func(scope string, resources ...string) answer {
		form := forItself()
		if form["resource"] = resources; scope != "" {
			form.Set("scope", scope)
		}
		return d.post(c.identify(form))
	}
	want(t, ask("", ordersAPI, invoicesAPI), 400, "invalid_target")
	want(t, ask("orders", ordersAPI, "https://none.example"), 400, "invalid_target")
	want(t, ask("", " "+ordersAPI), 400, "invalid_target")
	want(t, ask("orders", invoicesAPI), 400, "invalid_scope")
	for _, a := range []answer{ask("offline_access orders", ordersAPI), ask("orders offline_access"), ask("", ordersAPI+"/", ordersAPI), ask("offline_access", ordersAPI)} {
		text := a.accessToken(t)
		if !strings.HasPrefix(a.body, `{"scope":"orders","expires_in":300,`) || !strings.Contains(d.introspect(c, text).body, `"aud":"`+ordersAPI+`"`) {
			t.Errorf("%v", a)
		}
	}
}
