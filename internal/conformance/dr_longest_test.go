package conformance_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/web"
)

// The longest request that a self-registered client may send leads to a code and tokens,
// for the longest login. A request that would not fit must fail before the login.
func TestDR10_TheLongestRequestGetsTokens(t *testing.T) {
	d := start(t, registering, func(o *options) {
		o.rsa = true
		o.tuneFront = func(f *web.Front) { f.Users, f.Authorizer.Alive = nil, nil } // with handoff, a login records more about the user
	})
	scope, resources := "openid", []string{issuerID}
	d.api(store.API{ID: issuerID, Number: 60_000, Open: true})
	for n := range grant.MaxAPIs - 1 {
		a := store.API{ID: fmt.Sprintf("https://api%d.example/mcp", n), Number: uint16(60_001 + n), Open: true}
		name := strings.Repeat(string(rune('a'+n)), 61+n/2) // all scopes together have oauth.MaxScopeLength
		a.Scopes = []store.APIScope{{Name: name, Number: 1}}
		d.api(a)
		scope, resources = scope+" "+name, append(resources, a.ID)
	}
	c := d.registered(`{"client_name":"` + strings.Repeat("n", 56) + `éééé","redirect_uris":["` + redirect + `","https://a.example/2","https://a.example/3","https://a.example/4","https://a.example/5"]}`)

	b, v := d.browser(), login.Visitor{Browser: login.NewBrowser()}
	it, err := d.authorizer.BeginAccount(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	cookie, err := d.authorizer.SignIn(context.Background(), it, login.Identity{
		Subject: strings.Repeat("s", oauth.MaxSubject), Claims: `{"x":"` + strings.Repeat("y", 120) + `"}`, AuthTime: grant.At(d.now()),
		Login: openid.Login{ReportedACR: strings.Repeat("a", grant.MaxReportedACR), ReportedAMR: strings.Repeat("m", grant.MaxReportedAMR)},
	}, v)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := url.Parse(publicURL)
	b.Jar.SetCookies(at, []*http.Cookie{{Name: sessionName, Value: cookie, Path: "/", Secure: true}})

	address := asking(c, "scope="+scope, "nonce="+strings.Repeat("n", oauth.MaxNonce))
	for _, id := range resources {
		address += "&resource=" + url.QueryEscape(id)
	}
	code := b.decide(b.open(address).at(t, "consent"), "allow").code(t, redirect)
	if len(scope) != oauth.MaxScopeLength || len(c.ID) < 240 || len(code) < 1970 {
		t.Errorf("not the longest: scope %d, client id %d, code %d", len(scope), len(c.ID), len(code))
	}
	got := d.mustIssue(d.post(c.challenged(code)))
	if got.Scope != scope || got.IDToken == "" {
		t.Errorf("scope %q, id_token %.10q", got.Scope, got.IDToken)
	}
	// The same holds for a refresh, which may narrow the scope.
	if got = d.mustIssue(d.post(c.refresh(got.RefreshToken))); got.Scope != scope || got.IDToken == "" {
		t.Errorf("refreshed: scope %q, id_token %.10q", got.Scope, got.IDToken)
	}
	if got = d.mustIssue(d.post(with(c.refresh(got.RefreshToken), "scope", "openid"))); got.Scope != "openid" || got.IDToken == "" {
		t.Errorf("refreshed for openid: scope %q, id_token %.10q", got.Scope, got.IDToken)
	}
}
