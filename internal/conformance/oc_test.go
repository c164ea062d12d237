package conformance_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// relying registers a client that signs users in.
func (d *deployment) relying(choose ...func(*client.Registration)) oauthClient {
	d.t.Helper()
	r := client.Registration{Settings: store.Settings{Name: "Relying", FirstParty: true, Scope: "openid a b", IDTokenAlg: keys.ES256}}
	for _, f := range choose {
		f(&r)
	}
	return d.client(r)
}

// provider returns go-oidc's provider, which is configured with the issuer alone.
func (d *deployment) provider() (context.Context, *oidc.Provider) {
	d.t.Helper()
	ctx := oidc.ClientContext(context.Background(), &d.browser().Client)
	p, err := oidc.NewProvider(ctx, issuerID)
	if err != nil {
		d.t.Fatal(err)
	}
	return ctx, p
}

// verifyIDToken verifies an id_token as a client would.
func (d *deployment) verifyIDToken(c oauthClient, t tokens) (*oidc.IDToken, map[string]any) {
	d.t.Helper()
	ctx, p := d.provider()
	id, err := p.Verifier(&oidc.Config{ClientID: c.ID, Now: d.now}).Verify(ctx, t.IDToken)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := id.VerifyAccessToken(t.AccessToken); err != nil {
		d.t.Error(err)
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		d.t.Fatal(err)
	}
	return id, claims
}

func TestOC01_OC03_OC04_AUserSignsInToAClient(t *testing.T) {
	d, b := signedIn(t)
	for _, alg := range []keys.Purpose{keys.ES256, keys.EdDSA} {
		c := d.relying(func(r *client.Registration) { r.IDTokenAlg = alg })
		nonce := `n "\ü` + strings.Repeat("x", 249)
		got := d.mustRedeem(c, b.agree(asking(c, "scope=openid a", "nonce="+nonce)).Query().Get("code"))
		id, claims := d.verifyIDToken(c, got)
		var want = []string{"acr", "amr", "at_hash", "aud", "auth_time", "exp", "iat", "iss", "nonce", "sid", "sub"}
		if names := sorted(claims); !slices.Equal(names, want) || id.Nonce != nonce || got.Scope != "openid a" {
			t.Errorf("%s: members %v, nonce %q, scope %q", alg, names, id.Nonce, got.Scope)
		}
		if id.Subject != d.grants()[0].Subject || id.Expiry.Sub(id.IssuedAt) != 5*time.Minute {
			t.Errorf("%s: sub %q, lifetime %s", alg, id.Subject, id.Expiry.Sub(id.IssuedAt))
		}
		d.step(time.Minute)
		again := d.mustIssue(d.post(c.refresh(got.RefreshToken)))
		later, claims := d.verifyIDToken(c, again)
		if _, hasNonce := claims["nonce"]; hasNonce || later.Subject != id.Subject || later.IssuedAt.Sub(id.IssuedAt) != time.Minute {
			t.Errorf("%s: a refresh returned %v", alg, claims)
		}
		d.step(-time.Minute)
	}
}

func sorted(m map[string]any) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A too long nonce is an error only if the request would return an id_token.
func TestOC03_ALongNonceIsRefusedBeforeTheLogin(t *testing.T) {
	d := start(t, withFront)
	d.user(username)
	b := d.browser()
	long := "nonce=" + strings.Repeat("n", 256)
	c := d.relying()
	if s := b.get(asking(c, "scope=openid", long)); s.StatusCode == http.StatusSeeOther && s.location().Query().Get("error") != "invalid_request" && !strings.Contains(s.body, "invalid_request") {
		t.Errorf("status %d to %s", s.StatusCode, s.Header.Get("Location"))
	} else if strings.HasPrefix(s.Header.Get("Location"), interactionURL) {
		t.Error("the user is asked to log in first")
	}
	if s := b.get(asking(c, "scope=a", long)); !strings.HasPrefix(s.Header.Get("Location"), interactionURL) {
		t.Errorf("without openid, a nonce is an unknown parameter: status %d to %s", s.StatusCode, s.Header.Get("Location"))
	}
}

func TestOC02_WithoutOpenIDTheAnswerHasFiveMembers(t *testing.T) {
	d, b := signedIn(t)
	c := d.relying()
	a := d.post(with(c.redeem(b.agree(asking(c, "scope=a", "nonce=n")).Query().Get("code")), "code_verifier", verifier))
	if names := sorted(members(t, a.body)); !slices.Equal(names, []string{"access_token", "expires_in", "refresh_token", "scope", "token_type"}) {
		t.Errorf("members %v", names)
	}
	for _, g := range d.grants() {
		if g.Facts.Text() != "" {
			t.Errorf("the row holds %q", g.Facts.Text())
		}
	}
}

func TestOC02_OC08_MetadataOfAProvider(t *testing.T) {
	d := start(t, withFront)
	m := d.metadata()
	for name, want := range map[string]string{
		"subject_types_supported":               `["public"]`,
		"id_token_signing_alg_values_supported": `["RS256","ES256","EdDSA"]`,
		"userinfo_signing_alg_values_supported": `["ES256","EdDSA","RS256"]`,
		"grant_types_supported":                 `["authorization_code","refresh_token","client_credentials","urn:ietf:params:oauth:grant-type:device_code","urn:ietf:params:oauth:grant-type:token-exchange","urn:ietf:params:oauth:grant-type:jwt-bearer"]`,
		"acr_values_supported":                  `["urn:mintage:1","urn:mintage:2"]`,
		"prompt_values_supported":               `["none","login","consent","select_account"]`,
		"claims_parameter_supported":            `true`,
		"response_modes_supported":              `["query","form_post"]`,
		"request_parameter_supported":           `false`,
		"request_uri_parameter_supported":       `false`,
		"backchannel_logout_supported":          `true`,
		"backchannel_logout_session_supported":  `true`,
		"response_types_supported":              `["code"]`,
	} {
		if got := marshal(t, m[name]); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if !slices.Contains(list(t, m, "scopes_supported"), oauth.OpenID) {
		t.Error("openid is not among the scopes")
	}
	if got := list(t, m, "claims_supported"); !slices.IsSorted(got) || !slices.Contains(got, "auth_time") || !slices.Contains(got, "email_verified") {
		t.Errorf("claims_supported is %v: the claims of id_tokens and of userinfo are expected", got)
	}
	if got := m["userinfo_endpoint"]; got != issuerID+"/userinfo" {
		t.Errorf("userinfo_endpoint is %v", got)
	}
	off := start(t, func(o *options) { o.alone = true }).metadata()
	for name := range m {
		_, there := off[name]
		switch name {
		case "subject_types_supported", "id_token_signing_alg_values_supported", "userinfo_signing_alg_values_supported", "claims_supported", "acr_values_supported", "prompt_values_supported",
			"claims_parameter_supported", "request_parameter_supported", "request_uri_parameter_supported",
			"backchannel_logout_supported", "backchannel_logout_session_supported", "userinfo_endpoint", "end_session_endpoint", "authorization_endpoint", "ui_locales_supported",
			"device_authorization_endpoint", "pushed_authorization_request_endpoint", "require_pushed_authorization_requests":
			if there {
				t.Errorf("%s is there with login.mode off", name)
			}
		default:
			if !there {
				t.Errorf("%s is missing with login.mode off", name)
			}
		}
	}
	if slices.Contains(list(t, off, "scopes_supported"), oauth.OpenID) {
		t.Error("openid is a scope with login.mode off")
	}
}

// Every address in the metadata responds, and every member is known.
func TestMD12_OC08_EveryAddressOfAProviderAnswers(t *testing.T) {
	d := start(t, registering)
	b := d.browser()
	want := map[string]int{
		"authorization_endpoint": 400, "token_endpoint": 405, "userinfo_endpoint": 401, "end_session_endpoint": 303, "registration_endpoint": 405, "pushed_authorization_request_endpoint": 405, "device_authorization_endpoint": 405,
		"introspection_endpoint": 405, "revocation_endpoint": 405, "jwks_uri": 200, "revocations_uri": 200,
	}
	for name, value := range d.metadata() {
		address, _ := value.(string)
		if status, known := want[name]; known {
			if s := b.get(address); s.StatusCode != status {
				t.Errorf("GET of %s, %s: %d, want %d", name, address, s.StatusCode, status)
			}
			delete(want, name)
		} else if strings.HasSuffix(name, "_endpoint") || strings.HasSuffix(name, "_uri") {
			t.Errorf("%s is not a member that is known", name)
		}
	}
	if len(want) > 0 {
		t.Errorf("the metadata lack %v", want)
	}
}

func TestOC07_AnIDTokenOpensNothing(t *testing.T) {
	d, b := signedIn(t)
	c := d.relying()
	got := d.mustRedeem(c, b.agree(asking(c, "scope=openid a", "nonce=n")).Query().Get("code"))
	rs := d.resourceServer()
	if a := d.introspect(rs, got.IDToken); a.body != `{"active":false}` {
		t.Errorf("introspection: %s", a.body)
	}
	if a := d.verify(got.IDToken); a.status != http.StatusUnauthorized {
		t.Errorf("verification: %d", a.status)
	}
	if a := d.verify(got.AccessToken); a.status != http.StatusOK {
		t.Errorf("the access token: %d", a.status)
	}
}

func TestOC10_HowAndInWhichSessionAUserLoggedIn(t *testing.T) {
	d := start(t, withFront)
	d.user("plain")
	secret := d.userWithCode("coded")
	one, two := d.relying(), d.relying()
	sids := map[string]bool{}
	login := func(b *browser, c oauthClient) map[string]any {
		t.Helper()
		_, claims := d.verifyIDToken(c, d.mustRedeem(c, b.agree(asking(c, "scope=openid")).Query().Get("code")))
		sid, _ := claims["sid"].(string)
		if len(sid) != 22 {
			t.Errorf("sid %q", sid)
		}
		sids[sid] = true
		return claims
	}
	b := d.browser()
	d.signIn(b, "plain")
	first := login(b, one)
	if marshal(t, first["amr"]) != `["pwd"]` || first["acr"] != "urn:mintage:1" {
		t.Errorf("amr %v, acr %v", first["amr"], first["acr"])
	}
	if other := login(b, two); other["sid"] == first["sid"] {
		t.Error("two clients see the same sid")
	}
	// After a new login of the same user, the session cookie is new, but sid stays the
	// same.
	d.step(time.Minute)
	page := b.open(asking(one, "scope=openid", "prompt=login"))
	redirected := b.logIn(page, "plain", password)
	_, again := d.verifyIDToken(one, d.mustRedeem(one, redirected.location().Query().Get("code")))
	if again["sid"] != first["sid"] || again["auth_time"] == first["auth_time"] {
		t.Errorf("after a new login: sid %v, auth_time %v; before: %v, %v", again["sid"], again["auth_time"], first["sid"], first["auth_time"])
	}
	// Another browser has another sid.
	c := d.browser()
	page = c.open(asking(one, "scope=openid"))
	step := c.logIn(page, "coded", password)
	done := c.follow(c.post(interactionURL, "id="+step.field("id"), "step=second_factor", "code="+d.oneTimeCode(secret)))
	_, coded := d.verifyIDToken(one, d.mustRedeem(one, done.location().Query().Get("code")))
	if marshal(t, coded["amr"]) != `["pwd","otp","mfa"]` || coded["acr"] != "urn:mintage:2" || coded["sid"] == first["sid"] {
		t.Errorf("amr %v, acr %v, the same sid %t", coded["amr"], coded["acr"], coded["sid"] == first["sid"])
	}
}

// A code that a portal issues through the admin API gives an id_token, too.
func TestOC01_ACodeOfTheAdminAPIGivesAnIDToken(t *testing.T) {
	d := start(t, withFront)
	c := d.relying(func(r *client.Registration) { r.NoPKCE = true })
	code := d.code(c, func(a *issuer.Authorization) { a.Scope = "openid" })
	got := d.mustIssue(d.post(c.redeem(code.Code)))
	if _, claims := d.verifyIDToken(c, got); claims["sid"] != nil || claims["amr"] != nil {
		t.Errorf("claims of a login that nobody has seen: %s", marshal(t, claims))
	}
	d.change(c, func(c *store.Client) { c.NoRefreshIDToken = true })
	if again := d.mustIssue(d.post(c.refresh(got.RefreshToken))); again.IDToken != "" {
		t.Error("--no-refresh-id-token has no effect")
	}
}
