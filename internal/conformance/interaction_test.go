package conformance_test

import (
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
)

// These tests misuse an interaction in every way that a person, a browser or an attacker
// can. Each test ends on a page that says what happened and what to do, or continues; one
// consent never gives two codes.

// address returns the address of an interaction's page.
func (s shownPage) address() string { return interactionURL + "?id=" + s.field("id") }

func TestInteractionAbandoned(t *testing.T) {
	d, b := visitor(t)
	login := b.open(asking(d.a)).at(t, "login")
	// Beginning again is always possible, and leaves the earlier interaction alone.
	second := b.open(asking(d.a, "state=again")).at(t, "login")
	if login.field("id") == second.field("id") {
		t.Fatal("two requests have one interaction")
	}
	consent := b.logIn(second, username, password).at(t, "consent")
	if q := b.decide(consent, "allow").location().Query(); q.Get("state") != "again" || q.Get("code") == "" {
		t.Errorf("answered %v", slices.Sorted(maps.Keys(q)))
	}
	d.step(d.authorizer.Interactions.Lifetime)
	b.open(login.address()).says(t, http.StatusGone, pages.InteractionExpired)
	if n := len(d.grants()); n != 0 {
		t.Errorf("%d grants, and nothing was redeemed", n)
	}
}

func TestInteractionForged(t *testing.T) {
	d, b := visitor(t)
	id := b.open(asking(d.a)).at(t, "login").field("id")
	b.setCookie(sessionName, b.cookie(browserName)) // another kind of cookie is no session
	for name, forged := range map[string]string{
		"none": "", "short": id[:42], "long": id + "A", "very long": strings.Repeat("A", 4000), "padded": id[:42] + "=",
		"another letter": flip(id), "zero bytes": strings.Repeat("A", 43), "path": "../../etc/passwd", "spaces": " " + id[1:],
		"other letters": strings.Repeat("é", 21) + "x", "quote": "' OR 1=1 --", "browser": b.cookie(browserName),
	} {
		for _, s := range []shownPage{
			b.do(http.MethodGet, interactionURL+"?"+pairsOf([]string{"id=" + forged}).Encode(), nil),
			b.post(interactionURL, "id="+forged, "step=login", "username="+username, "password="+password),
			b.post(interactionURL, "id="+forged, "step=consent", "decision=allow"),
		} {
			s.says(t, http.StatusForbidden, pages.InteractionUnknown)
			if t.Failed() {
				t.Fatal(name)
			}
		}
	}
	b.open(interactionURL+"?id="+id).at(t, "login")
}

func flip(id string) string {
	if id[0] == 'A' {
		return "B" + id[1:]
	}
	return "A" + id[1:]
}

// An interaction's id alone is useless to others, in each step, signed in or not.
func TestInteractionOfAnotherBrowser(t *testing.T) {
	d, b := visitor(t)
	d.user("mallory", cheaply)
	thief, cookieless := d.browser(), d.browser()
	thief.open(asking(d.a)).at(t, "login")
	d.signIn(thief, "mallory")
	page := b.open(asking(d.a)).at(t, "login")
	steal := func() {
		t.Helper()
		for _, s := range []shownPage{
			thief.get(page.address()), thief.get(page.address() + "&verifier=x"), thief.logIn(page, "mallory", password),
			thief.decide(page, "allow"), thief.decide(page, "deny"),
			thief.post(interactionURL, "id="+page.field("id"), "action=cancel"),
			thief.post(interactionURL, "id="+page.field("id"), "step=login", "action=switch"),
		} {
			s.says(t, http.StatusForbidden, pages.InteractionUnknown)
		}
		cookieless.get(page.address()).says(t, http.StatusBadRequest, pages.CookiesOff)
	}
	steal()
	consent := b.logIn(page, username, password).at(t, "consent")
	steal()
	b.decide(consent, "allow").code(t, redirect)
	steal()
	d.step(d.authorizer.Interactions.Lifetime)
	steal() // the response does not even show that it has expired
}

func TestInteractionWithoutCookies(t *testing.T) {
	d, b := visitor(t)
	b.Jar = nil
	s := b.get(asking(d.a))
	b.follow(s).says(t, http.StatusBadRequest, pages.CookiesOff)
	id := s.location().Query().Get("id")
	b.post(interactionURL, "id="+id, "step=login", "username="+username, "password="+password).says(t, http.StatusBadRequest, pages.CookiesOff)
	b.open(connectionsURL).says(t, http.StatusBadRequest, pages.CookiesOff)
	if s := b.get(logoutURL); s.title() != "You are signed out" {
		t.Errorf("%q", s.title())
	}
}

// Each tab keeps its own state, scope and challenge, in whatever order the user answers.
// A login in one tab is valid in the other.
func TestInteractionsInTwoTabs(t *testing.T) {
	d, b := visitor(t)
	one := b.open(asking(d.a, "state=one", "scope=a")).at(t, "login")
	two := b.open(asking(d.a, "state=two", "scope=b", "redirect_uri="+otherRedirect)).at(t, "login")
	two = b.logIn(two, username, password).at(t, "consent")
	// The first tab's login step is already done.
	one = b.open(one.address()).at(t, "consent")
	for tab, want := range map[string]string{"one": "a", "two": "b"} {
		page, to := one, redirect
		if tab == "two" {
			page, to = two, otherRedirect
		}
		s := b.decide(page, "allow")
		q := s.location().Query()
		pair := d.mustIssue(d.post(with(d.a.challenged(s.code(t, to)), "redirect_uri", to)))
		if q.Get("state") != tab || pair.Scope != want {
			t.Errorf("tab %s: state %q, scope %q", tab, q.Get("state"), pair.Scope)
		}
	}
}

// The user goes back after each step, and submits the old form again.
func TestInteractionBackButton(t *testing.T) {
	d := start(t, withFront)
	secret := d.userWithCode(username)
	b := d.browser()
	login := b.open(asking(d.a)).at(t, "login")
	factor := b.logIn(login, username, password).at(t, "second_factor")
	b.logIn(login, username, password).at(t, "second_factor")
	code := d.oneTimeCode(secret)
	sendCode := func() shownPage {
		return b.follow(b.post(interactionURL, "id="+factor.field("id"), "step=second_factor", "code="+code))
	}
	consent := sendCode().at(t, "consent")
	session := b.cookie(sessionName)
	b.logIn(login, username, password).at(t, "consent")
	sendCode().at(t, "consent")
	b.open(login.address()).at(t, "consent")
	first := b.decide(consent, "allow").code(t, redirect)
	// Submit the forms of the client's redirect, the consent, the login and the second
	// factor again.
	for _, s := range []shownPage{b.decide(consent, "allow"), b.open(consent.address()), b.logIn(login, username, "x"), sendCode()} {
		if again := s.code(t, redirect); again != first {
			t.Error("another code of the same consent")
		}
	}
	if b.cookie(sessionName) != session {
		t.Error("the session changed although nobody has signed in again")
	}
	d.mustIssue(d.post(d.a.challenged(first)))
	for _, s := range []shownPage{b.decide(consent, "allow"), b.open(consent.address()), b.logIn(login, username, "x"), sendCode()} {
		s.says(t, http.StatusConflict, pages.InteractionAnswered)
	}
	if len(d.grants()) != 1 {
		t.Errorf("%d grants", len(d.grants()))
	}
}

// Simultaneous clicks, as over a slow connection, give one code, one session and one
// response.
func TestInteractionDoubleSubmit(t *testing.T) {
	d := start(t, withFront)
	d.user(username, cheaply)
	b := d.browser()
	const clicks = 8
	atOnce := func(do func() shownPage) (all []shownPage) {
		var mu sync.Mutex
		var group sync.WaitGroup
		for range clicks {
			group.Go(func() {
				s := do()
				mu.Lock()
				defer mu.Unlock()
				all = append(all, s)
			})
		}
		group.Wait()
		return all
	}
	login := b.open(asking(d.a)).at(t, "login")
	for _, s := range atOnce(func() shownPage {
		return b.post(interactionURL, "id="+login.field("id"), "step=login", "username="+username, "password="+password)
	}) {
		// The throttle may refuse some of them, with a page.
		if s.StatusCode != http.StatusSeeOther && s.StatusCode != http.StatusTooManyRequests {
			t.Errorf("login: status %d, %q", s.StatusCode, s.title())
		}
	}
	consent := b.open(login.address()).at(t, "consent")
	codes := map[string]bool{}
	for _, s := range atOnce(func() shownPage { return b.decide(consent, "allow") }) {
		codes[s.code(t, redirect)] = true
	}
	if len(codes) != 1 {
		t.Fatalf("%d codes of one consent", len(codes))
	}
	for code := range codes {
		d.mustIssue(d.post(d.a.challenged(code)))
	}

	denied := b.open(asking(d.a)).at(t, "consent")
	for _, s := range atOnce(func() shownPage { return b.decide(denied, "deny") }) {
		s.told(t, redirect, oauth.AccessDenied)
	}
	// If both buttons are sent simultaneously, one decision is stored; the other request
	// gets a page that says so.
	torn := b.open(asking(d.a)).at(t, "consent")
	var mu sync.Mutex
	next := 0
	var allowed, refused, told int
	for _, s := range atOnce(func() shownPage {
		mu.Lock()
		next++
		decision := []string{"allow", "deny"}[next%2]
		mu.Unlock()
		return b.decide(torn, decision)
	}) {
		switch q := s.location().Query(); {
		case q.Get("code") != "":
			allowed++
		case q.Get("error") == "access_denied":
			refused++
		default:
			told++
			s.says(t, http.StatusConflict, pages.InteractionAnswered)
		}
	}
	if allowed*refused != 0 || told != clicks/2 {
		t.Errorf("%d were sent with a code, %d with the refusal, %d told that it is done", allowed, refused, told)
	}
}

func TestInteractionDecidedTheOtherWayAfterwards(t *testing.T) {
	d, b := signedIn(t)
	page := b.open(asking(d.a)).at(t, "consent")
	b.decide(page, "deny").told(t, redirect, oauth.AccessDenied)
	b.decide(page, "allow").says(t, http.StatusConflict, pages.InteractionAnswered)
	b.decide(page, "deny").told(t, redirect, oauth.AccessDenied)

	page = b.open(asking(d.a)).at(t, "consent")
	first := b.decide(page, "allow").code(t, redirect)
	b.decide(page, "deny").says(t, http.StatusConflict, pages.InteractionAnswered)
	b.post(interactionURL, "id="+page.field("id"), "action=cancel").says(t, http.StatusConflict, pages.InteractionAnswered)
	b.post(interactionURL, "id="+page.field("id"), "step=answered", "action=switch").says(t, http.StatusConflict, pages.InteractionAnswered)
	if b.decide(page, "allow").code(t, redirect) != first {
		t.Error("another code")
	}
	d.mustIssue(d.post(d.a.challenged(first)))
}

func TestInteractionExpired(t *testing.T) {
	d, b := visitor(t)
	lifetime := d.authorizer.Interactions.Lifetime
	login := b.open(asking(d.a)).at(t, "login")
	d.step(lifetime - time.Millisecond)
	b.open(login.address()).at(t, "login")
	d.step(time.Millisecond)
	b.open(login.address()).says(t, http.StatusGone, pages.InteractionExpired)
	b.logIn(login, username, password).says(t, http.StatusGone, pages.InteractionExpired)
	b.post(interactionURL, "id="+login.field("id"), "action=cancel").says(t, http.StatusGone, pages.InteractionExpired)
	if b.cookie(sessionName) != "" {
		t.Error("signed in by an expired form")
	}

	consent := b.logIn(b.open(asking(d.a)).at(t, "login"), username, password).at(t, "consent")
	d.step(lifetime)
	for _, decision := range []string{"allow", "deny"} {
		b.decide(consent, decision).says(t, http.StatusGone, pages.InteractionExpired)
	}
}

// An error page links back to the client where that is safe: the interaction belongs to
// this browser and is undecided, and an operator registered the client and its redirect
// URI.
func TestUI20_AnExpiredLoginLeadsBackToItsClient(t *testing.T) {
	d, b := visitor(t, registering)
	back := regexp.MustCompile(`<a id="back" [^>]*href="([^"]*)"[^>]*>Back to <bdi>([^<]*)</bdi>`)
	expired := ""
	late := func(client oauthClient, edit ...string) shownPage {
		expired = b.open(asking(client, edit...)).at(t, "login").address()
		d.step(d.authorizer.Interactions.Lifetime)
		return b.open(expired)
	}
	shown := late(d.a, "state=a&b")
	link := back.FindStringSubmatch(shown.body)
	if link == nil || link[2] != d.a.Name {
		t.Fatalf("the page of an expired login leads nowhere: %s", shown.body)
	}
	to, err := url.Parse(html.UnescapeString(link[1]))
	if err != nil || !strings.HasPrefix(to.String(), redirect+"?") {
		t.Fatalf("it leads to %s", link[1])
	}
	if q := to.Query(); q.Get("error") != "access_denied" || q.Get("state") != "a&b" || q.Get("iss") != d.issuer.ID || q.Has("code") {
		t.Errorf("with %q", q)
	}
	// In another browser, the page does not reveal the client.
	other := d.browser()
	other.get(authorizeURL)
	if page := other.open(expired); back.MatchString(page.body) || strings.Contains(page.body, d.a.Name) {
		t.Error("another browser is led to the client")
	}
	// A client that expects form_post gets no link.
	if back.MatchString(late(d.a, "response_mode=form_post").body) {
		t.Error("a client that takes responses by POST is linked")
	}
	if back.MatchString(late(d.selfRegistered("Agent")).body) {
		t.Error("a client that registered itself is linked")
	}
	moved := d.client(client.Registration{Settings: store.Settings{Name: "Moved"}})
	login := b.open(asking(moved)).at(t, "login")
	d.change(moved, func(c *store.Client) { c.RedirectURIs = []string{"https://moved.example/cb"} })
	d.step(d.authorizer.Interactions.Lifetime)
	if back.MatchString(b.open(login.address()).body) {
		t.Error("a redirect URI that is no longer registered is linked")
	}
	// A decided interaction gets no link.
	consent := b.logIn(b.open(asking(d.a)).at(t, "login"), username, password).at(t, "consent")
	b.decide(consent, "deny").told(t, redirect, oauth.AccessDenied)
	if page := b.decide(consent, "allow"); back.MatchString(page.body) {
		t.Error("an answered request is linked")
	}
}

// The same code is returned again while it is valid and unused.
func TestInteractionResubmittedAfterItsCode(t *testing.T) {
	d, b := signedIn(t)
	page := b.open(asking(d.a)).at(t, "consent")
	first := b.decide(page, "allow").code(t, redirect)
	d.step(d.issuer.CodeLifetime - time.Millisecond)
	if b.decide(page, "allow").code(t, redirect) != first || b.open(page.address()).code(t, redirect) != first {
		t.Error("another code")
	}
	d.step(time.Millisecond)
	b.decide(page, "allow").says(t, http.StatusConflict, pages.InteractionAnswered)
	b.open(page.address()).says(t, http.StatusConflict, pages.InteractionAnswered)
	want(t, d.post(d.a.challenged(first)), http.StatusBadRequest, "invalid_grant")

	// Returning a redeemed code would make the client revoke its own grant.
	page = b.open(asking(d.a)).at(t, "consent")
	code := b.decide(page, "allow").code(t, redirect)
	pair := d.mustIssue(d.post(d.a.challenged(code)))
	b.decide(page, "allow").says(t, http.StatusConflict, pages.InteractionAnswered)
	b.open(page.address()).says(t, http.StatusConflict, pages.InteractionAnswered)
	d.alive(d.a, pair.RefreshToken)
}
