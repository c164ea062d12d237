package conformance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const (
	introspectPath = "/oauth2/introspect"
	revokePath     = "/oauth2/revoke"

	inactive = `{"active":false}`
)

// about returns a valid request about a token.
func (c oauthClient) about(path, token string) *request {
	r := newRequest(c.identify(url.Values{"token": {token}}))
	r.target = path
	return r
}

func (d *deployment) introspect(c oauthClient, token string, lines ...string) answer {
	d.t.Helper()
	r := c.about(introspectPath, token)
	r.header = append(r.header, lines...)
	return d.send(r)
}

func (d *deployment) revoke(c oauthClient, token string) answer {
	d.t.Helper()
	return d.send(c.about(revokePath, token))
}

// resourceServer registers a client that may introspect every client's tokens, or those
// for some audiences.
func (d *deployment) resourceServer(audiences ...string) oauthClient {
	d.t.Helper()
	return d.client(client.Registration{Settings: store.Settings{Name: "API", Introspect: true, IntrospectAudience: audiences}})
}

// jwtClient registers a client whose access tokens are JWTs.
func (d *deployment) jwtClient(audiences ...string) oauthClient {
	d.t.Helper()
	return d.client(client.Registration{Settings: store.Settings{Name: "JWT", TokenFormat: store.TokenJWT, Audience: audiences}})
}

// members decodes a JSON object, and keeps the spelling of numbers.
func members(t *testing.T, text string) map[string]any {
	t.Helper()
	var m map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantActive requires that each token is introspected as active, or as inactive.
func (d *deployment) wantActive(c oauthClient, active bool, list ...string) {
	d.t.Helper()
	for _, token := range list {
		a := d.introspect(c, token)
		if a.status != http.StatusOK || active && !strings.HasPrefix(a.body, `{"active":true,`) || !active && a.body != inactive {
			d.t.Errorf("a token that begins with %.14s: %d %s, want active %t", token, a.status, a.body, active)
		}
	}
}

func TestIN03_ALivingAccessTokenIsDescribedInFull(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	for name, c := range map[string]oauthClient{
		"opaque": d.client(client.Registration{}), "for an audience": d.client(client.Registration{Settings: store.Settings{Audience: []string{"https://one.example"}}}),
		"for two": d.client(client.Registration{Settings: store.Settings{Audience: []string{"https://one.example", "https://two.example"}}}),
		"JWT":     d.jwtClient(), "JWT for two": d.jwtClient("https://one.example", "https://two.example"),
	} {
		ids := map[any]bool{}
		pair, id := d.tokens(c)
		for _, scope := range []string{"a b c", "b"} {
			g := d.row(id)
			a := d.introspect(rs, pair.AccessToken)
			compareHeader(t, a)
			aud := fmt.Sprintf("%q", issuerID)
			switch len(c.Audience) {
			case 1:
				aud = fmt.Sprintf("%q", c.Audience[0])
			case 2:
				aud = `["https://one.example","https://two.example"]`
			}
			jti := members(t, a.body)["jti"]
			want := fmt.Sprintf(`{"active":true,"scope":%q,"client_id":%q,"token_type":"Bearer","exp":%d,"iat":%d,"sub":"alice","aud":%s,"iss":%q,"jti":%q}`,
				scope, c.ID, d.expiry(id), int64(g.RotatedAt)/1000, aud, issuerID, jti)
			if a.status != http.StatusOK || a.body != want {
				t.Errorf("%s: %d %s\nwant %s", name, a.status, a.body, want)
			}
			if text, _ := jti.(string); len(text) != 43 || ids[jti] {
				t.Errorf("%s: jti %q", name, jti)
			}
			ids[jti] = true
			if again := d.introspect(rs, pair.AccessToken); again.body != a.body {
				t.Errorf("%s: the second answer differs: %s", name, again.body)
			}
			d.step(1234 * time.Millisecond)
			pair = d.mustIssue(d.post(with(c.refresh(pair.RefreshToken), "scope", "b")))
		}
	}
}

func TestIN03_AClientSeesItsOwnAccessTokensAndNobodyElses(t *testing.T) {
	d := start(t)
	own, _ := d.tokens(d.a)
	foreign, _ := d.tokens(d.b)
	d.wantActive(d.a, true, own.AccessToken)
	d.wantActive(d.a, false, foreign.AccessToken, foreign.RefreshToken)
	// A resource server can introspect access tokens, and no refresh tokens.
	d.wantActive(d.resourceServer(), true, own.AccessToken, foreign.AccessToken)
}

func TestIN05_TokenIsRequiredOnce(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	pair, _ := d.tokens(d.a)
	good := rs.about(introspectPath, pair.AccessToken).form
	repeated := func(name string) url.Values {
		form := with(good, "token_type_hint", "access_token")
		form[name] = []string{form[name][0], form[name][0]}
		return form
	}
	for name, c := range map[string]struct {
		form        url.Values
		description string
	}{
		"missing":   {with(good, "token", ""), "token missing"},
		"empty":     {url.Values{"token": {""}, "client_id": {rs.ID}, "client_secret": {rs.secret}}, "token missing"},
		"twice":     {repeated("token"), "parameter repeated"},
		"two hints": {repeated("token_type_hint"), "parameter repeated"},
	} {
		r := newRequest(c.form)
		r.target = introspectPath
		a := d.send(r)
		if a.status != http.StatusBadRequest || a.body != errorBody("invalid_request", c.description) {
			t.Errorf("%s: %v", name, a)
		}
		compareHeader(t, a)
	}
}

func TestIN06_TheHintIsNotNeeded(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	for _, hint := range []string{"access_token", "refresh_token", "id_token", "\u00fc", ""} {
		for _, token := range []string{pair.AccessToken, pair.RefreshToken} {
			r := d.a.about(introspectPath, token)
			r.form.Set("token_type_hint", hint)
			if a := d.send(r); !strings.HasPrefix(a.body, `{"active":true,`) {
				t.Errorf("hint %q: %v", hint, a)
			}
		}
	}
}

func TestIN09_OnlyTheOwnerMayAskAboutARefreshToken(t *testing.T) {
	d := start(t)
	pair, id := d.tokens(d.a)
	g := d.row(id)
	for name, c := range map[string]oauthClient{"a resource server": d.resourceServer(), "another client": d.b} {
		if a := d.introspect(c, pair.RefreshToken); a.body != inactive {
			t.Errorf("%s: %v", name, a)
		}
	}
	a := d.introspect(d.a, pair.RefreshToken)
	compareHeader(t, a)
	want := fmt.Sprintf(`{"active":true,"scope":"a b c","client_id":%q,"exp":%d,"iat":%d,"sub":"alice","iss":%q}`,
		d.a.ID, int64(g.ExpiresAt)/1000, int64(g.RotatedAt)/1000, issuerID)
	if a.body != want {
		t.Errorf("%s\nwant %s", a.body, want)
	}
	d.step(31*24*time.Hour - time.Millisecond)
	d.wantActive(d.a, true, pair.RefreshToken)
	d.step(time.Millisecond)
	d.wantActive(d.a, false, pair.RefreshToken)
}

// A spent refresh token is active exactly while the token endpoint would repeat its
// response; introspection is not a use.
func TestIN10_ASpentRefreshTokenIsActiveWhileARepeatWouldBeAnswered(t *testing.T) {
	d := start(t)
	first, id := d.tokens(d.a)
	second := d.alive(d.a, first.RefreshToken)
	d.wantActive(d.a, true, first.RefreshToken, second.RefreshToken)
	d.step(2 * time.Minute)
	d.wantActive(d.a, true, first.RefreshToken)
	if again := d.alive(d.a, first.RefreshToken); again.RefreshToken != second.RefreshToken {
		t.Error("the repeat is another pair")
	}
	d.step(time.Millisecond)
	d.wantActive(d.a, false, first.RefreshToken)
	if g := d.row(id); g.State != grant.Active || g.Version != 2 {
		t.Errorf("asking changed the grant: version %d, %v", g.Version, g.State)
	}

	// Once the successor was used, the token is inactive at once.
	third := d.alive(d.a, second.RefreshToken)
	d.wantActive(d.a, true, second.RefreshToken, third.RefreshToken)
	fourth := d.alive(d.a, third.RefreshToken)
	d.wantActive(d.a, false, first.RefreshToken, second.RefreshToken)
	d.wantActive(d.a, true, third.RefreshToken, fourth.RefreshToken)
	want(t, d.post(d.a.refresh(second.RefreshToken)), 400, "invalid_grant")
	d.wantActive(d.a, false, third.RefreshToken, fourth.RefreshToken, fourth.AccessToken)

	without := start(t, strict, alone)
	spent, id := without.tokens(without.a)
	next := without.alive(without.a, spent.RefreshToken)
	without.wantActive(without.a, false, spent.RefreshToken)
	without.wantActive(without.a, true, next.RefreshToken)
	if g := without.row(id); g.State != grant.Active {
		t.Errorf("asking revoked the grant: %v", g.Reason)
	}
}

func TestIN10_OtherKindsAreInactive(t *testing.T) {
	d := start(t)
	fresh, used := d.code(d.a), d.code(d.a)
	pair := d.mustIssue(d.post(d.a.redeem(used.Code)))
	raw := strings.TrimPrefix
	d.wantActive(d.a, false, fresh.Code, used.Code, d.a.secret, d.a.ID, used.GrantID.String(), "urn:ietf:params:oauth:request_uri:x",
		// Another kind's prefix does not help.
		keys.AccessPrefix+raw(pair.RefreshToken, keys.RefreshPrefix), keys.RefreshPrefix+raw(pair.AccessToken, keys.AccessPrefix),
		keys.AccessPrefix+raw(fresh.Code, keys.CodePrefix))
	// Introspection of the code is not its use.
	d.mustIssue(d.post(d.a.redeem(fresh.Code)))
	d.wantActive(d.a, true, pair.AccessToken, pair.RefreshToken)
}

// If the client loses the grant type, its refresh token is inactive.
func TestIN10_WithoutTheGrantTypeARefreshTokenIsInactive(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	less := d.change(d.a, func(c *store.Client) { c.GrantTypes = []string{store.GrantAuthorizationCode} })
	want(t, d.post(less.refresh(pair.RefreshToken)), 400, "unauthorized_client")
	d.wantActive(less, false, pair.RefreshToken)
	none := d.change(less, func(c *store.Client) { c.GrantTypes, c.Scope = store.GrantTypes, "x" })
	want(t, d.post(none.refresh(pair.RefreshToken)), 400, "invalid_scope")
	d.wantActive(none, false, pair.RefreshToken)
	back := d.change(none, func(c *store.Client) { c.Scope = "a c" })
	if a := d.introspect(back, pair.RefreshToken); members(t, a.body)["scope"] != "a c" {
		t.Errorf("the scope that it would refresh: %s", a.body)
	}
}

func TestIN11_AResourceServerSeesOnlyWhatIsMeantForIt(t *testing.T) {
	d := start(t)
	const one, two, three = "https://one.example", "https://two.example", "https://three.example"
	limited, both := d.resourceServer(one), d.resourceServer(two, one)
	for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
		for _, c := range []struct {
			audience      []string
			limited, both bool
		}{
			{nil, false, false}, {[]string{one}, true, true}, {[]string{two}, false, true}, {[]string{three}, false, false},
			{[]string{three, one}, true, true}, {[]string{one + "/"}, false, false}, {[]string{"https://ONE.example"}, false, false},
		} {
			pair, _ := d.tokens(d.client(client.Registration{Settings: store.Settings{TokenFormat: format, Audience: c.audience}}))
			d.wantActive(limited, c.limited, pair.AccessToken)
			d.wantActive(both, c.both, pair.AccessToken)
			d.wantActive(d.resourceServer(), true, pair.AccessToken)
		}
	}
	// A client may always introspect its own tokens.
	own, _ := d.tokens(limited)
	d.wantActive(limited, true, own.AccessToken, own.RefreshToken)
	// A JWT's own audience counts, not the client's current registration.
	c := d.jwtClient(one)
	pair, _ := d.tokens(c)
	d.change(c, func(c *store.Client) { c.Audience = []string{three} })
	d.wantActive(limited, true, pair.AccessToken)
}

// scopeOf returns the scope with which an access token is introspected.
func (d *deployment) scopeOf(c oauthClient, token string) oauth.Scope {
	d.t.Helper()
	scope, _ := members(d.t, d.introspect(c, token).body)["scope"].(string)
	return oauth.Scope(scope)
}

// If the client loses a scope, new tokens lack it; existing ones keep it until they
// expire.
func TestIN03_AnAccessTokenKeepsItsScope(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	for _, c := range []oauthClient{d.a, d.jwtClient()} {
		pair, _ := d.tokens(c)
		c = d.change(c, func(c *store.Client) { c.Scope = "c" })
		if got := d.scopeOf(rs, pair.AccessToken); got != "a b c" {
			t.Errorf("scope %q, was given a b c", got)
		}
		next := d.alive(c, pair.RefreshToken)
		if got := d.scopeOf(rs, next.AccessToken); got != "c" || next.Scope != "c" {
			t.Errorf("after the refresh: %q, answered %q", got, next.Scope)
		}
	}
}
