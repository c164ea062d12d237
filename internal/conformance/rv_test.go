package conformance_test

import (
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// revoked requires the response of a completed revocation.
func revoked(t *testing.T, a answer) {
	t.Helper()
	if a.status != http.StatusOK || a.body != `{}` {
		t.Errorf("got %v, want 200 {}", a)
	}
	compareHeader(t, a)
}

func TestRV01_RV15_RevokingARefreshTokenEndsTheGrant(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	for _, c := range []oauthClient{d.a, d.jwtClient()} {
		first, id := d.tokens(c)
		second := d.alive(c, first.RefreshToken)
		bystander, _ := d.tokens(c)
		revoked(t, d.revoke(c, second.RefreshToken))
		d.wantActive(rs, false, first.AccessToken, second.AccessToken)
		d.wantActive(c, false, first.RefreshToken, second.RefreshToken)
		d.dead(c, second.RefreshToken, id, grant.ReasonClient)
		d.wantActive(c, true, bystander.AccessToken, bystander.RefreshToken)
		events, err := d.sqlite.Events(t.Context(), id.String(), 10)
		if err != nil || len(events) != 1 || events[0].Name != store.EventGrantRevoked || events[0].Actor != c.ID ||
			!strings.Contains(events[0].Detail, "127.") || strings.Contains(events[0].Detail, "mintage_") {
			t.Errorf("recorded: %+v, %v", events, err)
		}
	}
}

func TestRV02_RevokingAnAccessTokenEndsTheAccessTokensSoFar(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	for _, c := range []oauthClient{d.a, d.jwtClient()} {
		first, id := d.tokens(c)
		second := d.alive(c, first.RefreshToken)
		bystander, _ := d.tokens(c)
		d.step(time.Second)
		revoked(t, d.revoke(c, first.AccessToken))
		d.wantActive(rs, false, first.AccessToken, second.AccessToken)
		d.wantActive(rs, true, bystander.AccessToken)
		// A repeat within the retry window must not return a revoked access token.
		again := d.alive(c, first.RefreshToken)
		if again.RefreshToken != second.RefreshToken || again.AccessToken == second.AccessToken {
			t.Error("the repeat has another refresh token, or the dead access token")
		}
		d.wantActive(rs, true, again.AccessToken)
		third := d.alive(c, second.RefreshToken)
		d.wantActive(rs, true, third.AccessToken)
		d.wantActive(rs, false, first.AccessToken, second.AccessToken)
		if g := d.row(id); g.State != grant.Active || g.Generation != 3 {
			t.Errorf("generation %d, %v", g.Generation, g.State)
		}
		events, err := d.sqlite.Events(t.Context(), id.String(), 10)
		if err != nil || len(events) != 1 || events[0].Name != store.EventAccessRevoked || events[0].Actor != c.ID {
			t.Errorf("recorded: %+v, %v", events, err)
		}
	}
}

// A dead token is already revoked: the response is the same, whatever the token was.
func TestRV03_ADeadTokenIsRevokedAlready(t *testing.T) {
	d := start(t)
	pair, id := d.tokens(d.a)
	jwt := d.jwtClient()
	jwtPair, _ := d.tokens(jwt)
	good := d.revoke(d.a, pair.AccessToken)
	revoked(t, good)
	version := d.row(id).Version
	same := func(name string, c oauthClient, token string) {
		t.Helper()
		if a := d.revoke(c, token); exactly(a) != exactly(good) {
			t.Errorf("%s:\n%s\nwant\n%s", name, exactly(a), exactly(good))
		}
	}
	same("an access token again", d.a, pair.AccessToken)
	if g := d.row(id); g.Version != version {
		t.Errorf("the second revocation wrote: version %d, was %d", g.Version, version)
	}
	same("its refresh token", d.a, pair.RefreshToken)
	same("the refresh token again", d.a, pair.RefreshToken)
	same("an access token of a revoked grant", d.a, pair.AccessToken)
	events, err := d.sqlite.Events(t.Context(), id.String(), 10)
	if err != nil || len(events) != 2 {
		t.Errorf("%d events, %v; want one for each that was alive", len(events), err)
	}
	for _, token := range []string{
		"made-up", "x", keys.AccessPrefix, keys.RefreshPrefix, ".", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", "\u00fc", d.a.secret, pair.RefreshToken + "A",
		strings.Repeat("a", 8192), jwtPair.AccessToken[:40],
	} {
		same("garbage", d.a, token)
	}
	live, _ := d.tokens(jwt)
	d.step(301 * time.Second)
	same("an expired JWT", jwt, live.AccessToken)
	d.step(32 * 24 * time.Hour)
	same("an expired refresh token", jwt, live.RefreshToken)
	d.sweep()
	same("an access token without a row", jwt, live.AccessToken)
	same("a refresh token without a row", jwt, live.RefreshToken)
}

func TestRV04_AnotherClientsTokenIsRefusedAndStaysAlive(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	for _, owner := range []oauthClient{d.b, d.jwtClient()} {
		first, id := d.tokens(owner)
		second := d.alive(owner, first.RefreshToken)
		for name, c := range map[string]oauthClient{"another client": d.a, "a resource server": rs} {
			for _, token := range []string{second.AccessToken, second.RefreshToken, first.AccessToken, first.RefreshToken} {
				a := d.revoke(c, token)
				if a.status != http.StatusBadRequest || a.body != errorBody("invalid_grant", "grant is invalid") {
					t.Errorf("%s: %v", name, a)
				}
				compareHeader(t, a)
			}
		}
		d.wantActive(rs, true, first.AccessToken, second.AccessToken)
		if g := d.row(id); g.State != grant.Active || g.AccessFloor != 0 || g.Version != 2 {
			t.Errorf("the grant was changed: version %d, %v", g.Version, g.State)
		}
		d.alive(owner, second.RefreshToken)
	}
}

func TestRV05_WithoutAuthenticationNothingIsRevoked(t *testing.T) {
	d := start(t)
	pair, id := d.tokens(d.a)
	for _, c := range badCallers(d.a, d.b) {
		for _, token := range []string{pair.AccessToken, pair.RefreshToken} {
			r := d.a.about(revokePath, token)
			r.form = maps.Clone(r.form)
			c.spoil(r)
			a := d.send(r)
			if a.status != c.status || a.body != c.body {
				t.Errorf("%s: %v, want %d %s", c.name, a, c.status, c.body)
			}
			if c.challenge == "" {
				compareHeader(t, a)
			} else {
				compareHeader(t, a, c.challenge)
			}
		}
	}
	if g := d.row(id); g.Version != 1 {
		t.Errorf("the grant was changed: version %d", g.Version)
	}
	d.wantActive(d.a, true, pair.AccessToken, pair.RefreshToken)
	basic := d.a.about(revokePath, pair.RefreshToken)
	basic.basic(d.a.ID, d.a.secret)
	revoked(t, d.send(basic))
}

func TestRV06_APublicClientRevokesItsOwnTokens(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	public := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
	issue := func() (tokens, grant.ID) {
		code := d.code(public, pkce)
		return d.mustIssue(d.post(with(public.redeem(code.Code), "code_verifier", verifier))), code.GrantID
	}
	pair, id := issue()
	foreign, _ := d.tokens(d.a)
	want(t, d.revoke(public, foreign.RefreshToken), 400, "invalid_grant")
	want(t, d.revoke(public, foreign.AccessToken), 400, "invalid_grant")
	want(t, d.send(d.a.about(revokePath, pair.RefreshToken)), 400, "invalid_grant")
	withSecret := public.about(revokePath, pair.RefreshToken)
	withSecret.form.Set("client_secret", "one")
	want(t, d.send(withSecret), 400, "invalid_client")
	d.wantActive(rs, true, pair.AccessToken, foreign.AccessToken)

	revoked(t, d.revoke(public, pair.AccessToken))
	d.wantActive(rs, false, pair.AccessToken)
	next := d.alive(public, pair.RefreshToken)
	revoked(t, d.revoke(public, next.RefreshToken))
	d.wantActive(rs, false, next.AccessToken)
	d.dead(public, next.RefreshToken, id, grant.ReasonClient)
}

func TestRV07_TokenIsRequiredOnce(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	good := d.a.about(revokePath, pair.RefreshToken).form
	empty, twice := maps.Clone(good), maps.Clone(good)
	empty["token"] = []string{""}
	twice["token"] = []string{pair.RefreshToken, pair.RefreshToken}
	for description, forms := range map[string][]url.Values{"token missing": {with(good, "token", ""), empty}, "parameter repeated": {twice}} {
		for _, form := range forms {
			r := newRequest(form)
			r.target = revokePath
			if a := d.send(r); a.status != http.StatusBadRequest || a.body != errorBody("invalid_request", description) {
				t.Errorf("%s: %v", description, a)
			}
		}
	}
	d.wantActive(d.a, true, pair.RefreshToken)
}

func TestRV08_TheHintIsNotNeeded(t *testing.T) {
	d := start(t)
	for _, hint := range []string{"access_token", "refresh_token", "id_token", "nonsense", ""} {
		pair, id := d.tokens(d.a)
		for _, token := range []string{pair.AccessToken, pair.RefreshToken} {
			r := d.a.about(revokePath, token)
			r.form.Set("token_type_hint", hint)
			revoked(t, d.send(r))
			d.wantActive(d.a, false, token)
		}
		if g := d.row(id); g.State != grant.Revoked {
			t.Errorf("hint %q: %v", hint, g.State)
		}
	}
}

func TestRV09_ACodeCannotBeRevoked(t *testing.T) {
	d := start(t)
	code := d.code(d.a)
	for _, c := range []oauthClient{d.a, d.b} {
		for _, token := range []string{code.Code, keys.CodePrefix + "made-up"} {
			a := d.revoke(c, token)
			if a.status != http.StatusBadRequest || a.body != errorBody("unsupported_token_type", "token type not supported") {
				t.Errorf("got %v", a)
			}
			compareHeader(t, a)
		}
	}
	d.mustIssue(d.post(d.a.redeem(code.Code)))
}

func TestRV12_AnyGenerationOfTheRefreshTokenEndsTheGrant(t *testing.T) {
	for name, choose := range map[string]func(*options){"without a window": strict, "inside the window": func(*options) {}} {
		t.Run(name, func(t *testing.T) {
			d := start(t, choose)
			for _, back := range []int{1, 2, 5} {
				pair, id := d.tokens(d.a)
				stale := pair.RefreshToken
				for range back {
					pair = d.alive(d.a, pair.RefreshToken)
				}
				revoked(t, d.revoke(d.a, stale))
				d.wantActive(d.a, false, pair.AccessToken, pair.RefreshToken, stale)
				d.dead(d.a, pair.RefreshToken, id, grant.ReasonClient)
			}
			// An expired generation of a grant that is still active also revokes the
			// grant.
			pair, id := d.tokens(d.a)
			d.step(30 * 24 * time.Hour)
			next := d.alive(d.a, pair.RefreshToken)
			d.step(2 * 24 * time.Hour)
			revoked(t, d.revoke(d.a, pair.RefreshToken))
			d.dead(d.a, next.RefreshToken, id, grant.ReasonClient)
		})
	}
}

func TestRV18_RevocationIsOverTLSOnly(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	for _, r := range []*request{d.a.about(revokePath, pair.RefreshToken), d.a.about(introspectPath, pair.RefreshToken), ask("GET", verifyPath, bearer(pair.AccessToken))} {
		conn, err := net.Dial("tcp", d.address)
		if err != nil {
			t.Fatal(err)
		}
		a, err := converse(conn, r.text(), r.method)
		conn.Close()
		if err != nil {
			t.Fatal(err)
		}
		if a.status != http.StatusBadRequest || a.header["Location"] != nil || strings.Contains(a.body, "active") {
			t.Errorf("%s over plain http: %d", r.target, a.status)
		}
	}
	d.wantActive(d.a, true, pair.RefreshToken)
}

func TestRV18_BehindAProxyPlainHTTPIsRefused(t *testing.T) {
	d := start(t, func(o *options) {
		o.PlainHTTP = true
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	redeem := newRequest(d.a.redeem(d.code(d.a).Code))
	redeem.set("X-Forwarded-Proto", "https")
	pair := d.mustIssue(d.send(redeem))
	for _, r := range []*request{
		d.a.about(revokePath, pair.RefreshToken), d.a.about(introspectPath, pair.RefreshToken),
		ask("GET", verifyPath, bearer(pair.AccessToken)), ask("GET", "/oauth2/tokeninfo", bearer(pair.AccessToken)),
	} {
		r.header = append(r.header, "X-Forwarded-Proto: http")
		a := d.send(r)
		if a.status != http.StatusBadRequest || a.body != errorBody("invalid_request", "https required") {
			t.Errorf("%s: %v", r.target, a)
		}
	}
	r := d.a.about(introspectPath, pair.RefreshToken)
	r.header = append(r.header, "X-Forwarded-Proto: https")
	if a := d.send(r); !strings.HasPrefix(a.body, `{"active":true,`) {
		t.Errorf("over https: %v", a)
	}
}
