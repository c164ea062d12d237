package conformance_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/logout"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/web"
)

const (
	endSessionURL = publicURL + "/oauth2/end_session"
	afterLogout   = "https://client.example/signed-out?from=mintage"
)

// leaving registers a relying party with post-logout redirect URIs.
func (d *deployment) leaving(choose ...func(*client.Registration)) oauthClient {
	d.t.Helper()
	r := client.Registration{Settings: store.Settings{Name: "Leaving", Scope: "openid a", FirstParty: true, IDTokenAlg: keys.ES256, PostLogoutRedirectURIs: []string{"https://client.example/other", afterLogout}}}
	for _, f := range choose {
		f(&r)
	}
	return d.client(r)
}

// signsIn signs the user in to a client, and returns its tokens.
func (b *browser) signsIn(d *deployment, c oauthClient) tokens {
	b.t.Helper()
	return d.mustRedeem(c, b.get(asking(c, "scope=openid a", "prompt=none")).granted(b.t, redirect).Get("code"))
}

// leave returns a logout request.
func leave(pairs ...string) string { return endSessionURL + "?" + pairsOf(pairs).Encode() }

// isSignedIn reports whether a user is signed in at the browser.
func (b *browser) isSignedIn() bool {
	b.t.Helper()
	return b.get(connectionsURL).StatusCode == http.StatusOK
}

// gone requires a redirect to an address, and that nobody is signed in.
func (s shownPage) gone(t *testing.T, b *browser, want string) {
	t.Helper()
	if s.StatusCode != http.StatusSeeOther || s.Header.Get("Location") != want || b.isSignedIn() {
		t.Errorf("status %d to %q, signed in %t; want %q", s.StatusCode, s.Header.Get("Location"), b.isSignedIn(), want)
	}
}

func TestLO01_AHintOfThisSessionSignsTheUserOutWithoutAQuestion(t *testing.T) {
	d, b := signedIn(t)
	c := d.leaving()
	hint := b.signsIn(d, c).IDToken
	d.step(30 * time.Minute) // an expired hint is still valid
	b.get(leave("id_token_hint="+hint, "client_id="+c.ID, "post_logout_redirect_uri="+afterLogout, "state=a b&c", "logout_hint=x", "ui_locales=ja", "other=x")).
		gone(t, b, afterLogout+"&state=a+b%26c")
	if b.cookie(sessionName) != "" {
		t.Error("the cookie is still there")
	}
	// Repeating the request without a session gives the same response, without a
	// question.
	b.get(leave("id_token_hint="+hint, "post_logout_redirect_uri="+afterLogout)).gone(t, b, afterLogout)
	b.get(leave("id_token_hint="+hint)).gone(t, b, logoutURL)
	b.get(leave()).gone(t, b, logoutURL)
	b.get(publicURL+"/oauth2/connect/endSession").gone(t, b, logoutURL) // the path in OpenAM
}

// Another site has no id_token of the browser's session: its requests make the server ask
// the user (CWE-352).
func TestLO02_EveryOtherRequestAsksTheUser(t *testing.T) {
	d, b := signedIn(t)
	c := d.leaving()
	hint := b.signsIn(d, c).IDToken
	phone := d.browser()
	d.signIn(phone, username)
	elsewhere := phone.signsIn(d, c).IDToken
	for name, request := range map[string]string{
		"nothing": leave(), "state": leave("state=s"), "client_id": leave("client_id=" + c.ID), "a session elsewhere": leave("id_token_hint=" + elsewhere),
	} {
		page := b.open(request)
		if page.StatusCode != http.StatusOK || page.field("step") != "logout" || !b.isSignedIn() || strings.Contains(page.body, "Leaving") == (name == "nothing" || name == "state") {
			t.Fatalf("%s: status %d, step %q", name, page.StatusCode, page.field("step"))
		}
		stays := b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=cancel")
		if stays.Header.Get("Location") != connectionsURL || !b.isSignedIn() {
			t.Errorf("%s, and the user stays: to %q", name, stays.Header.Get("Location"))
		}
	}
	// A logout ends this browser's session, whichever session the hint names. Only the
	// server's own page can confirm it.
	page := b.open(leave("id_token_hint="+elsewhere, "post_logout_redirect_uri="+afterLogout, "state=s"))
	for _, from := range []map[string]string{{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "", "Origin": "https://evil.example"}, {"Sec-Fetch-Site": ""}} {
		b.header = from
		if s := b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout"); s.StatusCode != http.StatusForbidden {
			t.Errorf("from elsewhere: status %d", s.StatusCode)
		}
		b.header = map[string]string{"Sec-Fetch-Site": "same-origin"}
	}
	if !b.isSignedIn() {
		t.Fatal("another site signed the user out")
	}
	b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout").gone(t, b, afterLogout+"&state=s")
	b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout").gone(t, b, afterLogout+"&state=s") // a second click
	if !phone.isSignedIn() {
		t.Error("the other browser's session has ended")
	}
	d.signIn(b, username)
	if b.open(leave("id_token_hint="+hint)).field("step") != "logout" {
		t.Error("a hint of the session before signs out without a question")
	}
}

// An expired logout is not reported to the client as a failed login, even if the client
// uses one address for both.
func TestLO02_AnExpiredLogoutLeadsToNoClient(t *testing.T) {
	d, b := signedIn(t)
	c := d.leaving(func(r *client.Registration) { r.PostLogoutRedirectURIs = []string{redirect} })
	page := b.open(leave("client_id="+c.ID, "post_logout_redirect_uri="+redirect, "state=s"))
	if page.field("step") != "logout" {
		t.Fatalf("step %q", page.field("step"))
	}
	d.step(d.authorizer.Interactions.Lifetime)
	if s := b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout"); s.StatusCode == http.StatusSeeOther || strings.Contains(s.body, `id="back"`) {
		t.Errorf("status %d: %s", s.StatusCode, s.body)
	}
}

func TestLO02_ThePageIsInTheLanguageThatTheClientNames(t *testing.T) {
	_, b := signedIn(t)
	for request, want := range map[string]string{leave(): "en", leave("ui_locales=pt ja"): "ja"} {
		if page := b.open(request); page.field("step") != "logout" || !strings.Contains(page.body, `<html lang="`+want+`"`) {
			t.Errorf("%s: step %q, not in %s", request, page.field("step"), want)
		}
	}
}

// The button ends only the session that the page has shown.
func TestTheAnswerIsAboutTheSessionThatWasAskedAbout(t *testing.T) {
	d, b := signedIn(t)
	c := d.leaving()
	d.user("bob")
	for name, ask := range map[string]struct{ page, at string }{
		"a client asks":    {leave("client_id=" + c.ID), interactionURL},
		"the account page": {logoutURL, logoutURL},
	} {
		page := b.open(ask.page)
		answer := []string{"id=" + page.field("id"), "step=logout", "action=logout", "session=" + page.field("session")}
		d.signIn(b, "bob")
		again := b.post(ask.at, answer...)
		if again.StatusCode != http.StatusOK || again.field("session") == page.field("session") || !strings.Contains(again.body, "bob") || !b.isSignedIn() {
			t.Errorf("%s, and another user has signed in: status %d, %q is signed in: %t", name, again.StatusCode, again.field("session"), b.isSignedIn())
		}
		answer[3] = "session=" + again.field("session")
		b.post(ask.at, answer...).gone(t, b, logoutURL)
		d.signIn(b, username)
	}
}

func TestAUserSignsOutEverywhere(t *testing.T) {
	var d *deployment
	d, b := signedIn(t, func(o *options) {
		o.tuneFront = func(f *web.Front) {
			f.EndAll = func(ctx context.Context, subject string) error {
				a := admin.Admin{
					Store: d.store, Realm: realm, Actor: admin.Actor{Via: admin.ViaAccount, Name: subject}, Policy: d.issuer.Policy, Now: d.issuer.Now,
					Changed: func(ctx context.Context) { _ = d.issuer.Directory.Poll(ctx) },
				}
				_, err := a.Grants().CutOff(ctx, subject, "")
				return err
			}
		}
	})
	c := d.leaving()
	kept := b.signsIn(d, c)
	phone, bob := d.browser(), d.browser()
	d.signIn(phone, username)
	d.user("bob")
	d.signIn(bob, "bob")
	page := b.get(logoutURL)
	if page.StatusCode != http.StatusOK || !strings.Contains(page.body, `name="everywhere" value="yes"`) {
		t.Fatalf("status %d: the page does not offer it", page.StatusCode)
	}
	b.header["Sec-Fetch-Site"] = "cross-site"
	if s := b.post(logoutURL, "everywhere=yes"); s.StatusCode != http.StatusForbidden || !phone.isSignedIn() {
		t.Fatalf("another site's form: status %d", s.StatusCode)
	}
	b.header["Sec-Fetch-Site"] = "same-origin"
	b.post(logoutURL, "everywhere=yes").gone(t, b, logoutURL)
	if s := b.get(logoutURL); !strings.Contains(s.body, "You are signed out in all browsers") {
		t.Errorf("the page does not say that all sessions have ended:\n%s", s.body)
	}
	if phone.isSignedIn() || !bob.isSignedIn() {
		t.Errorf("phone %t, another user %t", phone.isSignedIn(), bob.isSignedIn())
	}
	want(t, d.post(c.refresh(kept.RefreshToken)), http.StatusBadRequest, "invalid_grant")
	list, err := logout.Of(t.Context(), d.store, realm, username)
	if err != nil || len(list) == 0 || list[0].Session != "" {
		t.Errorf("clients are told of %+v, %v; want all sessions", list, err)
	}
	events, err := d.store.Events(t.Context(), store.AboutSubject(username), 10)
	if err != nil || !slices.ContainsFunc(events, func(e store.Event) bool {
		return e.Name == store.EventCutoff && e.Actor == store.AboutSubject(username)
	}) {
		t.Errorf("events %+v, %v", events, err)
	}
	// Without a session, the server cannot know whose sessions to end, and the page says
	// so.
	if s := b.post(logoutURL, "everywhere=yes"); s.StatusCode != http.StatusConflict || !strings.Contains(s.body, "You were signed out in this browser before.") {
		t.Errorf("without a session: status %d\n%s", s.StatusCode, s.body)
	}
	b.post(logoutURL).gone(t, b, logoutURL)
	d.signIn(b, username)
	d.alive(c, b.signsIn(d, c).RefreshToken)
}

// A POST from the client's site carries no cookies: the server stores the request, and
// redirects the browser to a GET.
func TestLO03_APostFromAnotherSite(t *testing.T) {
	d, b := signedIn(t)
	c := d.leaving()
	hint := b.signsIn(d, c).IDToken
	stranger := d.browser()
	stranger.header = map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://client.example"}
	s := stranger.post(endSessionURL, "id_token_hint="+hint, "post_logout_redirect_uri="+afterLogout, "state=s")
	to := s.Header.Get("Location")
	if s.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, interactionURL+"?id=") || len(s.Cookies()) != 0 || strings.Contains(to, hint[:40]) {
		t.Fatalf("status %d to %q, cookies %v", s.StatusCode, to, s.Cookies())
	}
	b.get(to).gone(t, b, afterLogout+"&state=s")
	// Without a hint, the user is asked.
	d.signIn(b, username)
	to = stranger.post(endSessionURL, "client_id="+c.ID).Header.Get("Location")
	if page := b.get(to); page.field("step") != "logout" || !b.isSignedIn() {
		t.Errorf("status %d", page.StatusCode)
	}
	d.step(11 * time.Minute)
	if s := b.get(to); s.StatusCode != http.StatusGone {
		t.Errorf("after its time: status %d", s.StatusCode)
	}
}

func TestLO04_RedirectsGoToRegisteredAddressesOnly(t *testing.T) {
	d, b := signedIn(t)
	c, other := d.leaving(), d.leaving(func(r *client.Registration) { r.PostLogoutRedirectURIs = nil })
	hint, foreign := b.signsIn(d, c).IDToken, b.signsIn(d, other).IDToken
	// The address must match exactly; otherwise an error page is shown, and the session
	// continues.
	for _, uri := range []string{
		"https://client.example/signed-out", afterLogout + "&x=y", afterLogout + "#", "https://CLIENT.example/signed-out?from=mintage", redirect, "https://evil.example/", "/signed-out", "javascript:alert(1)",
	} {
		for _, how := range []string{"id_token_hint=" + hint, "client_id=" + c.ID} {
			if s := b.get(leave(how, "post_logout_redirect_uri="+uri, "state=s")); s.StatusCode != http.StatusBadRequest || s.Header.Get("Location") != "" || strings.Contains(s.body, "evil.example") {
				t.Errorf("%s: status %d", uri, s.StatusCode)
			}
		}
	}
	for name, pairs := range map[string][]string{
		"modified":         {"id_token_hint=" + hint[:len(hint)-8] + "AAAAAAAA"},
		"not signed":       {"id_token_hint=" + strings.Join(strings.Split(hint, ".")[:2], ".") + "."},
		"no JWT":           {"id_token_hint=x", "client_id=" + c.ID},
		"another client":   {"id_token_hint=" + foreign, "client_id=" + c.ID},
		"its registration": {"id_token_hint=" + foreign},
		"unknown client":   {"client_id=nobody"},
	} {
		if s := b.get(leave(append(pairs, "post_logout_redirect_uri="+afterLogout)...)); s.StatusCode != http.StatusBadRequest || s.Header.Get("Location") != "" {
			t.Errorf("%s: status %d", name, s.StatusCode)
		}
	}
	for _, query := range []string{"client_id=" + c.ID + "&client_id=" + c.ID, "state=" + strings.Repeat("x", 2049), "realm=/other", "x=%zz"} {
		if s := b.get(endSessionURL + "?" + query); s.StatusCode != http.StatusBadRequest {
			t.Errorf("%.40s: status %d", query, s.StatusCode)
		}
	}
	if !b.isSignedIn() {
		t.Fatal("a refused request signed the user out")
	}
	// Without a client, the address cannot be verified: the user is asked, and not
	// redirected.
	page := b.open(leave("post_logout_redirect_uri="+afterLogout, "state=s"))
	b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout").gone(t, b, logoutURL)
	// client_id names a client that has registered the address.
	d.signIn(b, username)
	page = b.open(leave("client_id="+c.ID, "post_logout_redirect_uri="+afterLogout, "state=s"))
	// The registration changes while the page is open.
	uris := c.PostLogoutRedirectURIs
	c = d.change(c, func(c *store.Client) { c.PostLogoutRedirectURIs = nil })
	b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout").gone(t, b, logoutURL)
	c = d.change(c, func(c *store.Client) { c.PostLogoutRedirectURIs = uris })
	d.signIn(b, username)
	page = b.open(leave("client_id="+c.ID, "post_logout_redirect_uri="+afterLogout, "state=s"))
	c = d.change(c, func(c *store.Client) { c.State = store.ClientDisabled })
	b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout").gone(t, b, logoutURL)
	d.change(c, func(c *store.Client) { c.State = store.ClientEnabled })
	b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout").gone(t, b, afterLogout+"&state=s")
}

// Grants survive a logout, because they are also for the user's absence, unless the
// client is registered otherwise.
func TestLO05_GrantsSurviveALogoutUnlessTheClientSaysOtherwise(t *testing.T) {
	d, b := signedIn(t)
	keeps, ends := d.leaving(), d.leaving(func(r *client.Registration) { r.LogoutEndsGrants = true })
	kept, ended := b.signsIn(d, keeps), b.signsIn(d, ends)
	phone := d.browser()
	d.signIn(phone, username)
	there := phone.signsIn(d, ends)
	if page := b.get(logoutURL); !strings.Contains(page.body, "keep their access, except those whose access ends") {
		t.Error("the page does not say which applications keep their access")
	}
	b.get(leave("id_token_hint="+kept.IDToken)).gone(t, b, logoutURL)
	d.mustIssue(d.post(keeps.refresh(kept.RefreshToken)))
	d.mustIssue(d.post(ends.refresh(there.RefreshToken))) // a grant of another session
	want(t, d.post(ends.refresh(ended.RefreshToken)), http.StatusBadRequest, "invalid_grant")
	list, err := d.sqlite.Grants(t.Context(), store.GrantFilter{ClientID: ends.ID, Limit: 10})
	if err != nil || len(list) != 2 {
		t.Fatal(len(list), err)
	}
	for _, g := range list {
		if g.State == grant.Revoked && g.Reason != grant.ReasonLogout {
			t.Errorf("reason %s", g.Reason)
		}
	}
	// Signing out on the account page revokes the grants, too.
	phone.post(logoutURL)
	list, _ = d.sqlite.Grants(t.Context(), store.GrantFilter{ClientID: ends.ID, Limit: 10})
	if list[0].State != grant.Revoked || list[1].State != grant.Revoked {
		t.Error("a logout on the account page ends nothing")
	}
}

// sid identifies the session to one client: it stays the same after another login in the
// same browser, and differs between clients.
func TestLO06_SidNamesTheSession(t *testing.T) {
	d, b := signedIn(t)
	c, other := d.leaving(), d.leaving()
	sid := func(c oauthClient) string {
		t.Helper()
		h, err := d.issuer.Hint(b.signsIn(d, c).IDToken)
		if err != nil || len(h.SessionID) != 22 {
			t.Fatal(h, err)
		}
		return h.SessionID
	}
	first := sid(c)
	if sid(other) == first {
		t.Error("two clients have one sid")
	}
	b.logIn(b.open(asking(c, "scope=openid a", "prompt=login")).at(t, "login"), username, password).granted(t, redirect)
	if sid(c) != first {
		t.Error("a new login of the same user in the same browser has another sid")
	}
	for g, err := range store.EachGrant(t.Context(), d.sqlite, store.GrantFilter{Realm: realm, Subject: username}) {
		if err != nil || g.Session == [16]byte{} || openid.SessionID(g.Session, c.ID) != first {
			t.Errorf("the row refers to another session: %v", err)
		}
	}
	b.post(logoutURL)
	d.signIn(b, username)
	if sid(c) == first {
		t.Error("after a logout, the session is the same")
	}
}

func TestLO07_TheMetadataNameTheEndpoint(t *testing.T) {
	d, b := signedIn(t)
	s := d.browser().get(publicURL + "/.well-known/openid-configuration")
	if !strings.Contains(s.body, `"end_session_endpoint":"`+issuerID+`/end_session"`) {
		t.Errorf("%s", s.body)
	}
	// HEAD does not sign out.
	if s := b.do(http.MethodHead, endSessionURL, nil); s.StatusCode != http.StatusMethodNotAllowed || !b.isSignedIn() {
		t.Errorf("HEAD: status %d", s.StatusCode)
	}
	for _, name := range []string{"Content-Security-Policy", "X-Frame-Options"} {
		if page := b.open(leave()); page.Header.Get(name) == "" {
			t.Errorf("%s is missing", name)
		}
	}
}
