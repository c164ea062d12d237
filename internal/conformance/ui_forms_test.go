package conformance_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
)

// Two checks prevent forged requests: the interaction's id, which a cookie binds to the
// browser, and the request's own origin headers.
func TestUI01_ConsentNeedsTheBrowsersOwnInteraction(t *testing.T) {
	d, b := signedIn(t)
	page := b.open(asking(d.a)).at(t, "consent")
	other := d.browser()
	d.signIn(other, username)
	theirs := other.open(asking(d.a)).at(t, "consent")

	b.post(interactionURL, "step=consent", "decision=allow").says(t, http.StatusForbidden, pages.InteractionUnknown)
	b.post(interactionURL, "id=", "step=consent", "decision=allow").says(t, http.StatusForbidden, pages.InteractionUnknown)
	b.post(interactionURL, "id="+strings.Repeat("A", 43), "step=consent", "decision=allow").says(t, http.StatusForbidden, pages.InteractionUnknown)
	for _, decision := range []string{"allow", "deny"} {
		b.decide(theirs, decision).says(t, http.StatusForbidden, pages.InteractionUnknown)
	}
	b.get(interactionURL+"?id="+theirs.field("id")).says(t, http.StatusForbidden, pages.InteractionUnknown)

	// The refused forms have changed neither interaction.
	b.decide(page, "allow").code(t, redirect)
	other.decide(theirs, "allow").code(t, redirect)
}

func TestUI02_FormsOfOtherSitesAreRefused(t *testing.T) {
	d, b := visitor(t)
	page := b.open(asking(d.a)).at(t, "login")
	for name, header := range map[string]map[string]string{
		"cross-site":                {"Sec-Fetch-Site": "cross-site"},
		"same-site":                 {"Sec-Fetch-Site": "same-site"},
		"cross-site with our name":  {"Sec-Fetch-Site": "cross-site", "Referer": publicURL},
		"another origin":            {"Origin": "https://evil.example"},
		"our host by http":          {"Origin": "http://auth.example.evil.example"},
		"null, and no word of site": {"Origin": "null"},
		"neither":                   {},
	} {
		b.header = header
		s := b.logIn(page, username, password)
		s.says(t, http.StatusForbidden, pages.CrossSite)
		if b.cookie(sessionName) != "" {
			t.Errorf("%s: signed in", name)
		}
		b.post(logoutURL).says(t, http.StatusForbidden, pages.CrossSite)
		b.post(connectionsURL, "client_id="+d.a.ID).says(t, http.StatusForbidden, pages.CrossSite)
	}
	b.header = map[string]string{"Sec-Fetch-Site": "same-origin"}
	b.logIn(page, username, password).at(t, "consent")
}

// The pages do not send the referrer policy "no-referrer", with which browsers send
// "Origin: null" with forms. If something else causes that header, Sec-Fetch-Site still
// shows that the form is the server's own.
func TestUI03_OurOwnFormWorksWithAnOriginOfNull(t *testing.T) {
	d, b := visitor(t)
	for name, header := range map[string]map[string]string{
		"null and same-origin":   {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
		"our origin alone":       {"Origin": publicURL},
		"same-origin alone":      {"Sec-Fetch-Site": "same-origin"},
		"typed by the user":      {"Sec-Fetch-Site": "none"},
		"our origin and its own": {"Origin": publicURL, "Sec-Fetch-Site": "same-origin"},
	} {
		b.header = header
		b.setCookie(sessionName, "")
		page := b.open(asking(d.a)).at(t, "login")
		if got := page.Header.Get("Referrer-Policy"); got == "no-referrer" {
			t.Errorf("the policy of referrers is %s", got)
		}
		next := b.logIn(page, username, password)
		if next.field("step") != "consent" {
			t.Errorf("%s: status %d, %q", name, next.StatusCode, next.title())
		}
	}
}

// The consent is for the request, whatever the form contains.
func TestUI12_FieldsThatAFormDoesNotHaveChangeNothing(t *testing.T) {
	d, b := signedIn(t)
	d.user("bob", cheaply)
	narrow := d.client(client.Registration{Settings: store.Settings{Name: "narrow", Scope: "a b"}})
	page := b.open(asking(narrow, "scope=a")).at(t, "consent")
	s := b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=allow",
		"scope=a b c", "client_id="+d.b.ID, "redirect_uri="+otherRedirect, "username=bob", "subject=bob", "state=other",
		"response_type=token", "code_challenge=", "realm=/other", "verifier=x")
	q := s.location().Query()
	code := s.code(t, redirect)
	if strings.HasPrefix(s.location().String(), otherRedirect) || q.Get("state") != "st" {
		t.Errorf("the answer goes to %s%s with state %q", s.location().Host, s.location().Path, q.Get("state"))
	}
	// The request's challenge still applies: without its verifier, the code cannot be
	// redeemed.
	want(t, d.post(narrow.redeem(code)), http.StatusBadRequest, "invalid_grant")
	got := d.mustIssue(d.post(narrow.challenged(code)))
	if got.Scope != "a" {
		t.Errorf("scope %q", got.Scope)
	}
	if grants := d.grants(); len(grants) != 1 || grants[0].Subject != username {
		t.Errorf("%d grants, the first of %q", len(grants), grants[0].Subject)
	}
}

func TestUI13_ConsentOfOneUserIsNotGivenByAnother(t *testing.T) {
	d, b := signedIn(t)
	d.user("bob", cheaply)
	page := b.open(asking(d.a)).at(t, "consent")
	d.signIn(b, "bob")
	for _, decision := range []string{"allow", "deny"} {
		shown := b.decide(page, decision)
		shown.says(t, http.StatusForbidden, pages.UserSwitched)
		if !strings.Contains(shown.body, `<a id="back"`) {
			t.Error("there is no way back to the client")
		}
	}
	b.get(interactionURL+"?id="+page.field("id")).says(t, http.StatusForbidden, pages.UserSwitched)
	d.signIn(b, username)
	b.decide(page, "allow").code(t, redirect)
	// Nor is the code returned again to another user.
	d.signIn(b, "bob")
	b.decide(page, "allow").says(t, http.StatusForbidden, pages.UserSwitched)
}

func TestUI14_ConsentSaysWhoAsksForWhatAndOfWhom(t *testing.T) {
	d, b := signedIn(t)
	page := b.open(asking(d.a, "scope=a b")).at(t, "consent")
	for what, text := range map[string]string{
		"the client":        "Allow <bdi>A</bdi> to access your account?",
		"the redirect host": "<bdi>client.example</bdi>",
		"the user":          "Signed in as <bdi>" + username + "</bdi>",
		"one scope":         `<li><code translate="no">a</code>`,
		"the other":         `<li><code translate="no">b</code>`,
		"deny":              `name="decision" value="deny"`,
		"allow":             `name="decision" value="allow"`,
		"the way back":      "You can take this back at any time",
	} {
		if !strings.Contains(page.body, text) {
			t.Errorf("the page lacks %s: %q", what, text)
		}
	}
	items := strings.Count(page.body, "<li>")
	if items != 2 {
		t.Errorf("%d scopes are listed, want 2", items)
	}
	// Deny and Allow are buttons of one form: each takes one click.
	_, form, _ := strings.Cut(page.body, "<form")
	form, _, _ = strings.Cut(form, "</form>")
	if strings.Count(form, `<button type="submit"`) != strings.Count(page.body, "<button") || strings.Count(form, `name="decision"`) != 2 {
		t.Error("Deny and Allow are not two buttons of one form")
	}
	b.decide(page, "deny").told(t, redirect, oauth.AccessDenied)
}

func TestUI26_DenyIsProtectedAsAllowIs(t *testing.T) {
	d, b := signedIn(t)
	page := b.open(asking(d.a)).at(t, "consent")
	b.post(interactionURL, "id="+strings.Repeat("B", 43), "step=consent", "decision=deny").says(t, http.StatusForbidden, pages.InteractionUnknown)
	b.header = map[string]string{"Sec-Fetch-Site": "cross-site"}
	b.decide(page, "deny").says(t, http.StatusForbidden, pages.CrossSite)
	b.post(interactionURL, "id="+page.field("id"), "action=cancel").says(t, http.StatusForbidden, pages.CrossSite)
	b.header = map[string]string{"Sec-Fetch-Site": "same-origin"}
	b.decide(page, "allow").code(t, redirect)
}

func TestUI27_CancelAtTheLoginTellsTheClient(t *testing.T) {
	d, b := visitor(t)
	page := b.open(asking(d.a)).at(t, "login")
	s := b.post(interactionURL, "id="+page.field("id"), "step=login", "action=cancel", "username=", "password=")
	if q := s.told(t, redirect, oauth.AccessDenied); q.Get("state") != "st" {
		t.Errorf("state %q", q.Get("state"))
	}
	if b.cookie(sessionName) != "" {
		t.Error("whoever cancels is signed in")
	}
	// The interaction is decided: nobody can sign in there afterwards.
	b.logIn(page, username, password).told(t, redirect, oauth.AccessDenied)
	if b.cookie(sessionName) != "" {
		t.Error("signed in by a form that was cancelled")
	}
}
