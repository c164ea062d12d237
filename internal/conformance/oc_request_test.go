package conformance_test

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/web"
)

func TestOC20_AnIDTokenHintNamesTheUser(t *testing.T) {
	d, b := signedIn(t)
	c, other := d.relying(), d.relying()
	idToken := func(c oauthClient) string {
		t.Helper()
		return d.mustRedeem(c, b.agree(asking(c, "scope=openid")).Query().Get("code")).IDToken
	}
	hint, foreign := idToken(c), idToken(other)
	d.step(10 * time.Minute) // an expired hint is still valid
	b.get(asking(c, "scope=openid", "prompt=none", "id_token_hint="+hint)).granted(t, redirect)
	b.get(asking(c, "scope=a", "prompt=none", "id_token_hint=x")).granted(t, redirect) // without openid, an unknown parameter
	head, _, _ := strings.Cut(hint, ".")
	for name, bad := range map[string]string{
		"another client's": foreign, "no JWT": "x", "forged": hint[:len(hint)-8] + "AAAAAAAA", "without a signature": head + ".e30.",
		"too long": strings.Repeat("x", 4097),
	} {
		if q := b.get(asking(c, "scope=openid", "id_token_hint="+bad)).told(t, redirect, oauth.InvalidRequest); q.Get("state") != "st" {
			t.Errorf("%s: no state", name)
		}
	}

	d.user("somebody")
	another := d.browser()
	d.signIn(another, "somebody")
	another.get(asking(c, "scope=openid", "prompt=none", "id_token_hint="+hint)).told(t, redirect, oauth.LoginRequired)
	page := another.open(asking(c, "scope=openid", "id_token_hint="+hint)).at(t, "login")
	// If another user logs in, the client gets login_required and no code.
	if s := another.logIn(page, "somebody", password); s.StatusCode != http.StatusSeeOther || s.location().Query().Get("error") != "login_required" {
		t.Errorf("another user logged in: status %d to %s", s.StatusCode, s.Header.Get("Location"))
	}
	page = another.open(asking(c, "scope=openid", "id_token_hint="+hint)).at(t, "login")
	another.logIn(page, username, password).granted(t, redirect)
}

func TestOC21_RequestedClaims(t *testing.T) {
	d, b := signedIn(t)
	c := d.relying()
	got := d.mustRedeem(c, b.agree(asking(c, "scope=openid")).Query().Get("code"))
	id, _ := d.verifyIDToken(c, got)
	claims := func(text string, more ...string) string {
		return asking(c, append(more, "scope=openid", "claims="+text)...)
	}
	for _, text := range []string{
		`{"userinfo":{"name":{"essential":true},"sub":{"value":"` + id.Subject + `"}}}`, `{"id_token":{"auth_time":{"essential":true},"acr":{"values":["x"]}}}`,
		`{"id_token":{"acr":{"essential":true,"values":["x","urn:mintage:1"]}}}`,
	} {
		b.get(claims(text, "prompt=none")).granted(t, redirect)
	}
	b.get(asking(c, "scope=a", "claims=x")).granted(t, redirect) // without openid, an unknown parameter
	for text, code := range map[string]oauth.ErrorCode{
		`x`: oauth.InvalidRequest, `{"id_token":{"x":null,"x":null}}`: oauth.InvalidRequest, `{"x":"` + strings.Repeat("x", 4096) + `"}`: oauth.InvalidRequest,
		`{"id_token":{"sub":{"value":"other"}}}`: oauth.LoginRequired, `{"id_token":{"acr":{"essential":true,"value":"urn:mintage:2"}}}`: oauth.LoginRequired,
		`{"id_token":{"acr":{"essential":true,"value":"x"}}}`: oauth.UnmetRequirements,
	} {
		b.get(claims(text, "prompt=none")).told(t, redirect, code)
	}
	b.get(claims(`{"id_token":{"sub":{"value":"other"}}}`, "id_token_hint="+got.IDToken)).told(t, redirect, oauth.LoginRequired)
	// A login without a second factor does not satisfy the request.
	page := b.open(claims(`{"id_token":{"acr":{"essential":true,"value":"urn:mintage:2"}}}`)).at(t, "login")
	b.logIn(page, username, password).told(t, redirect, oauth.UnmetRequirements)
}

func TestOC22_ParametersThatAreAcceptedAndIgnored(t *testing.T) {
	d, b := signedIn(t)
	c := d.relying()
	b.get(asking(c, "scope=openid", "prompt=none", "acr_values=x y", "display=popup", "claims_locales=ja en")).granted(t, redirect)
}

func TestOC23_SelectAccountAndRequestObjects(t *testing.T) {
	d, b := signedIn(t)
	c := d.relying()
	page := b.open(asking(c, "scope=openid", "prompt=select_account")).at(t, "account")
	b.follow(b.post(interactionURL, "id="+page.field("id"), "step=account", "action=continue")).granted(t, redirect)
	b.get(asking(c, "scope=openid", "request=eyJhbGciOiJub25lIn0.e30.")).told(t, redirect, oauth.RequestNotSupported)
	b.get(asking(c, "scope=openid", "request_uri=https://client.example/r")).told(t, redirect, oauth.RequestURINotSupported)
}

// A client may request claims by name beyond those of its scopes. The consent page names
// them, and only claims of the client's registration are allowed.
func TestOC16_ClaimsThatARequestNames(t *testing.T) {
	d := claimed(t)
	b := d.browser()
	d.signIn(b, "alice")
	c := d.relying(func(r *client.Registration) { r.FirstParty, r.Scope = false, "openid email phone a" })
	const wish = `claims={"userinfo":{"email":{"essential":true},"birthdate":null},"id_token":{"phone_number":null,"birthdate":null}}`
	redeem := func(u *url.URL) tokens { t.Helper(); return d.mustRedeem(c, u.Query().Get("code")) }

	redeem(b.agree(asking(c, "scope=openid a")))
	b.get(asking(c, "scope=openid a", "prompt=none", wish)).told(t, redirect, oauth.ConsentRequired)
	page := b.open(asking(c, "scope=openid a", wish)).at(t, "consent")
	for text, want := range map[string]bool{"See your email address": true, "See your phone number": true, "See your birthday": false} {
		if strings.Contains(page.body, text) != want {
			t.Errorf("the page says %q: %t", text, !want)
		}
	}
	got := redeem(b.follow(b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=allow", "remember=yes")).location())
	_, id := d.verifyIDToken(c, got)
	if id["phone_number"] != "+81 3 1234" || id["email"] != nil || id["birthdate"] != nil {
		t.Errorf("the id_token says %v", id)
	}
	const named = `{"email":"alice@example.com","sub":"alice"}`
	if a := d.userInfo(got.AccessToken); a.body != named {
		t.Errorf("userinfo: %s", a.body)
	}
	// A refresh returns the same claims, and so does a later request, because the consent
	// is remembered.
	got = d.mustIssue(d.post(c.refresh(got.RefreshToken)))
	if _, id := d.verifyIDToken(c, got); id["phone_number"] != "+81 3 1234" || d.userInfo(got.AccessToken).body != named {
		t.Errorf("after a refresh: %v", id)
	}
	b.get(asking(c, "scope=openid a", "prompt=none", wish)).granted(t, redirect)
	if a := d.userInfo(redeem(b.agree(asking(c, "scope=openid a"))).AccessToken); a.body != `{"sub":"alice"}` {
		t.Errorf("a request that names nothing: %s", a.body)
	}
	if page := b.get(publicURL + "/account/connections"); !strings.Contains(page.body, "See your phone number") {
		t.Error("the account pages do not name what was agreed to")
	}
	// A consent to a scope covers its claims.
	redeem(b.agree(asking(c, "scope=openid email")))
	both := d.mustRedeem(c, b.get(asking(c, "scope=openid email", "prompt=none", `claims={"id_token":{"email":null},"userinfo":{"email":null}}`)).granted(t, redirect).Get("code"))
	if _, id := d.verifyIDToken(c, both); id["email"] == nil {
		t.Errorf("the id_token says %v", id)
	}
	// A refresh without a scope omits the scope's claims, even those requested by name.
	form := c.refresh(both.RefreshToken)
	form.Set("scope", "openid")
	both = d.mustIssue(d.post(form))
	if _, id := d.verifyIDToken(c, both); id["email"] != nil || d.userInfo(both.AccessToken).body != `{"sub":"alice"}` {
		t.Errorf("without the scope, the id_token says %v", id)
	}
	d.change(c, func(c *store.Client) { c.Scope = "openid a" })
	if a := d.userInfo(got.AccessToken); a.body != `{"sub":"alice"}` {
		t.Errorf("a client that is no longer registered for them: %s", a.body)
	}
}

// OAuth 2.0 Form Post Response Mode: the browser posts successes and errors, by one
// script that the policy allows, or by a button.
func TestOC17_ResponsesByFormPost(t *testing.T) {
	d, b := signedIn(t)
	c := d.relying()
	hash := func(page shownPage) string {
		t.Helper()
		_, script, _ := strings.Cut(page.body, "<script>")
		script, after, _ := strings.Cut(script, "</script>")
		if script == "" || strings.Contains(after, "<script") {
			t.Errorf("not one script: %q", page.body)
		}
		sum := sha256.Sum256([]byte(script))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	const bytes = `<"&' ü+%`
	posted := func(page shownPage) url.Values {
		t.Helper()
		policy := page.Header.Get("Content-Security-Policy")
		if page.StatusCode != http.StatusOK || page.Header.Get("Cache-Control") != "no-store" || page.Header.Get("Referrer-Policy") != "origin" ||
			!strings.HasPrefix(policy, "default-src 'none';") || !strings.Contains(policy, "form-action https:;") || !strings.HasSuffix(policy, "; script-src "+hash(page)) {
			t.Errorf("status %d, policy %q", page.StatusCode, policy)
		}
		if !strings.Contains(page.body, `<form method="post" action="`+redirect+`"`) || !strings.Contains(page.body, `<button type="submit"`) {
			t.Errorf("page %s", page.body)
		}
		got := url.Values{}
		for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(page.body, -1) {
			got.Add(m[1], html.UnescapeString(m[2]))
		}
		if got.Get("state") != bytes || got.Get("iss") != issuerID {
			t.Errorf("posted %v", got)
		}
		return got
	}
	by := func(pairs ...string) string {
		return asking(c, append(pairs, "response_mode=form_post", "state="+bytes)...)
	}
	if got := posted(b.get(by("scope=openid", "prompt=none"))); len(got) != 3 || d.mustRedeem(c, got.Get("code")).IDToken == "" {
		t.Errorf("posted %v", got)
	}
	if got := posted(b.get(by("scope=unknown"))); got.Get("error") != "invalid_scope" || got.Get("code") != "" {
		t.Errorf("posted %v", got)
	}
	page := b.open(by("scope=openid", "prompt=login")).at(t, "login")
	if got := posted(b.post(interactionURL, "id="+page.field("id"), "step=login", "action=cancel")); got.Get("error") != "access_denied" {
		t.Errorf("posted %v", got)
	}
	page = b.open(by("scope=openid", "prompt=login")).at(t, "login")
	if got := posted(b.logIn(page, username, password)); got.Get("code") == "" {
		t.Errorf("posted %v", got)
	}
	if got := posted(d.browser().get(by("scope=unknown"))); got.Get("error") != "invalid_scope" {
		t.Errorf("of nobody who is signed in: posted %v", got)
	}
	// With authorization.error_page "always", the page for an unauthenticated user posts
	// an error only by the button, without a script.
	careful, _ := signedIn(t, func(o *options) { o.alone, o.tuneFront = true, func(f *web.Front) { f.ErrorPage = true } })
	bounce := careful.browser().get(asking(careful.relying(), "response_mode=form_post", "state="+bytes, "scope=unknown"))
	if bounce.StatusCode != http.StatusBadRequest || strings.Contains(bounce.body, "<script") || bounce.field("error") != "invalid_scope" ||
		!strings.Contains(bounce.body, `<form method="post" action="`+redirect+`"`) || !strings.Contains(bounce.Header.Get("Content-Security-Policy"), "form-action https:;") {
		t.Errorf("status %d, %s, %s", bounce.StatusCode, bounce.Header.Get("Content-Security-Policy"), bounce.body)
	}
	// A private-use scheme cannot receive a POST.
	native := d.client(client.Registration{Settings: store.Settings{Native: true, FirstParty: true, RedirectURIs: []string{"com.example.app:/cb"}}})
	if s := b.get(asking(native, "redirect_uri=com.example.app:/cb", "response_mode=form_post", "prompt=none")); !strings.HasPrefix(s.Header.Get("Location"), "com.example.app:/cb?error=invalid_request") {
		t.Errorf("status %d to %s", s.StatusCode, s.Header.Get("Location"))
	}
}
