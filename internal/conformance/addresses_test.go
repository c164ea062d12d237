package conformance_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

var tags = regexp.MustCompile(`<[^>]*>`)

// text returns the visible text of a page.
func (s shownPage) text() string {
	_, main, _ := strings.Cut(s.body, "<main>")
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(main, ""))), " ")
}

// reads requires that the text of a page contains want, and none of never.
func (s shownPage) reads(t *testing.T, what string, want string, never ...string) {
	t.Helper()
	text := s.text()
	if !strings.Contains(text, want) {
		t.Errorf("%s does not say %q: %s", what, want, text)
	}
	for _, other := range never {
		if strings.Contains(strings.ReplaceAll(text, want, ""), other) {
			t.Errorf("%s says %q: %s", what, other, text)
		}
	}
}

// openAPI creates an API for self-registered clients.
func (d *deployment) openAPI() {
	d.t.Helper()
	d.api(store.API{ID: ordersAPI, Number: 1, Open: true, DefaultScope: "orders", Scopes: []store.APIScope{{Name: "orders", Number: 1}}})
}

func TestCM24_WhatPagesShowOfARedirectURI(t *testing.T) {
	d, b := signedIn(t, registering)
	d.openAPI()
	const fallback = "https://fallback.example/cb"
	for _, r := range testkit.Addresses {
		body, err := json.Marshal(map[string]any{"client_name": "Agent", "redirect_uris": []string{r.URI, fallback}, "token_endpoint_auth_method": "none"})
		if err != nil {
			t.Fatal(err)
		}
		c := d.registered(string(body))
		if !r.Own {
			if !slices.Equal(c.RedirectURIs, []string{fallback}) {
				t.Errorf("%q is registered", r.URI)
			}
			// A registration by an earlier version, which accepted this redirect URI.
			old, err := d.directory.Ring().Registrations(realm).Seal(keys.SealedRegistration{Method: 2, Name: "Agent", At: grant.At(d.now()), Redirects: [][16]byte{keys.RedirectDigest(r.URI)}})
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{c.ID, old} {
				s := b.open(asking(oauthClient{Client: store.Client{ID: id, Settings: store.Settings{RedirectURIs: []string{r.URI}}}}))
				s.refusedPage(t, http.StatusBadRequest)
				s.reads(t, r.URI, "", "evil", "google", "pple.com", "Agent")
			}
			continue
		}
		c.RedirectURIs = []string{r.URI}
		goes, isApp := "Your answer goes to "+r.Shown+".", false
		switch {
		case strings.HasPrefix(r.URI, "http:"):
			goes = "Your answer goes to a program on this device, "
		case !strings.HasPrefix(r.URI, "https:"):
			goes, isApp = "Your answer goes to the app on this device that opens "+r.Shown+" links, ", true
		}
		never := []string{"google", "anysphere", "codeium", "github"}
		page := b.open(asking(c, "prompt=consent")).at(t, "consent")
		page.reads(t, r.URI+": consent", goes, never...)
		page.reads(t, r.URI+": consent", "The application calls itself “Agent”.")
		never = append(never, "Agent")

		denied := b.decide(page, "deny")
		if !isApp {
			denied.told(t, r.URI, oauth.AccessDenied)
		} else {
			denied.refusedPage(t, http.StatusBadRequest)
			denied.reads(t, r.URI+": denied", "The application has not been told.", never...)
			if !strings.Contains(html.UnescapeString(denied.body), `<a id="continue" class="button" href="`+r.URI) {
				t.Errorf("%s: no link to the program on %s", r.URI, denied.body)
			}
		}
		wrong := b.open(asking(c, "resource=https://other.example"))
		wrong.refusedPage(t, http.StatusBadRequest)
		link := r.Shown
		if isApp {
			link = "the application"
		}
		wrong.reads(t, r.URI+": error", "Return to "+link, never...)
		if strings.HasPrefix(r.URI, "http") {
			form := b.decide(b.open(asking(c, "prompt=consent", "response_mode=form_post")).at(t, "consent"), "allow")
			form.reads(t, r.URI+": form_post", "Continue to "+r.Shown, never...)
		}
		login := d.browser().open(asking(c)).at(t, "login")
		login.reads(t, r.URI+": sign-in", r.Shown, never...)
	}
}

// An API none of whose scopes the consent page has shown is in no token, even if the
// consent to another API is remembered.
func TestAnAPIThatTheUserWasNotShownIsInNoToken(t *testing.T) {
	d, b := signedIn(t, registering)
	d.openAPI()
	const files = "https://files.example/mcp"
	d.api(store.API{ID: files, Number: 2, Open: true, Scopes: []store.APIScope{{Name: "files", Number: 1}}})
	d.api(store.API{ID: issuerID, Number: 3, Open: true})
	c := d.selfRegistered("Agent")
	b.agree(asking(c, "resource="+ordersAPI, "scope=openid orders"))
	code := b.get(asking(c, "prompt=none", "resource="+ordersAPI, "scope=orders")+"&resource="+url.QueryEscape(files)).code(t, redirect)
	pair := d.mustIssue(d.post(c.challenged(code)))
	if got := d.introspect(d.resourceServer(), pair.AccessToken).body; !strings.Contains(got, `"aud":"`+ordersAPI+`"`) || pair.Scope != "orders" {
		t.Error(got)
	}
	for scope, want := range map[string]oauth.ErrorCode{"openid": oauth.InvalidScope, "openid files": oauth.ConsentRequired} {
		if page := b.get(asking(c, "prompt=none", "resource="+files, "scope="+scope)); !strings.Contains(page.body, string(want)) {
			t.Errorf("%s: %d, not %s", scope, page.StatusCode, want)
		}
	}
}

// Texts that an attacker puts into a client's name appear only on the consent page, in
// quotation marks.
func TestCM25_NamesAreNoMessages(t *testing.T) {
	d, b := signedIn(t, registering)
	d.openAPI()
	const message = "Your account is locked. Call +1 555 0100 now. Mintage support"
	for _, name := range []string{
		message, "Locked. Call +1 555 0100 now.", `Agent”. This is Mintage support. “x`, `Agent" is checked. "x`, "Agent„ x", "Agent« x »", "「Agent」", "Agent\nCall +1 555 0100", "Agent\u2028Call +1 555 0100",
	} {
		body, err := json.Marshal(map[string]any{"client_name": name, "redirect_uris": []string{redirect}, "token_endpoint_auth_method": "none"})
		if err != nil {
			t.Fatal(err)
		}
		var told client.RegistrationAnswer
		a := d.register(string(body))
		if err := json.Unmarshal([]byte(a.body), &told); a.status != http.StatusCreated || err != nil {
			t.Fatal(a, err)
		}
		short := name == "Locked. Call +1 555 0100 now."
		if short != (told.Name == name) || !short && told.Name != "" {
			t.Errorf("the name %q is registered as %q", name, told.Name)
		}
		c := oauthClient{Client: store.Client{ID: told.ID, Settings: store.Settings{RedirectURIs: []string{redirect}}}}
		page := b.open(asking(c, "prompt=consent")).at(t, "consent")
		if short {
			page.reads(t, "consent", "The application calls itself “"+name+"”. Nobody has checked this name.", "555")
		} else {
			page.reads(t, "consent", "Your answer goes to client.example.", "555", "Mintage support", "is checked", "「")
		}
		b.agree(asking(c, "prompt=consent"))
		for what, s := range map[string]shownPage{
			"sign-in":   d.browser().open(asking(c)),
			"error":     b.open(asking(c, "resource=https://other.example")),
			"message":   b.open(asking(c, "redirect_uri=https://other.example/cb")),
			"account":   b.open(asking(c, "prompt=select_account")),
			"form_post": b.open(asking(c, "response_mode=form_post")),
			"connected": b.open(connectionsURL),
			"logout":    b.open(publicURL + "/oauth2/end_session?" + url.Values{"client_id": {c.ID}}.Encode()),
			"done":      b.open(connectionsURL + "?done=" + url.QueryEscape(c.ID)),
		} {
			s.reads(t, what+" of "+name, "", "555 0100", "locked", "Locked", "support", "is checked", "„", "「")
			if what == "connected" {
				s.reads(t, what, "client.example")
			}
		}
	}
}

// One user can create at most twenty client records an hour.
func TestCM26_OneUserMakesTwentyRecordsAnHour(t *testing.T) {
	d, b := signedIn(t, registering)
	d.openAPI()
	next := 0
	agree := func() shownPage {
		next++
		return b.decide(b.open(asking(d.registered(fmt.Sprintf(`{"client_name":"Agent %d","redirect_uris":["%s"],"token_endpoint_auth_method":"none"}`, next, redirect)))).at(t, "consent"), "allow")
	}
	known := d.registered(`{"redirect_uris":["` + redirect + `"],"token_endpoint_auth_method":"none"}`)
	b.decide(b.open(asking(known)).at(t, "consent"), "allow").code(t, redirect)
	for range 19 {
		agree().code(t, redirect)
	}
	for range 2 {
		agree().says(t, http.StatusTooManyRequests, pages.TooManyClients)
	}
	// Another consent to a recorded client does not count, and each user has a separate
	// limit.
	b.decide(b.open(asking(known, "prompt=consent")).at(t, "consent"), "allow").code(t, redirect)
	d.user("bob")
	alice := b
	b = d.browser()
	d.signIn(b, "bob")
	agree().code(t, redirect)
	b = alice
	d.step(time.Hour - time.Minute)
	d.signIn(b, username)
	agree().says(t, http.StatusTooManyRequests, pages.TooManyClients)
	d.step(2 * time.Minute)
	agree().code(t, redirect)
}
