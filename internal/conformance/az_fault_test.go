package conformance_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// failAfter lets pass calls of a method succeed and makes the next one fail.
func failAfter(f *storetest.Faulty, m storetest.Method, pass int, fault storetest.Fault) {
	f.Inject(m, pass, storetest.Meanwhile(func() {}))
	f.Inject(m, 1, fault)
}

// quiet checks that a response contains no details of an internal error.
func quiet(t *testing.T, what string, s shownPage) {
	t.Helper()
	for _, inside := range []string{"injected", "goroutine", "panic", "sqlite", ".go:", "store"} {
		if strings.Contains(s.body, inside) || strings.Contains(s.Header.Get("Location"), inside) {
			t.Errorf("%s: the answer says %q", what, inside)
		}
	}
}

// When the client is verified and the user is known, a store failure is redirected to the
// client as an error.
func TestAZ68_AZ37_AStoreThatIsDownIsToldToTheClient(t *testing.T) {
	d, b := signedIn(t)
	for what, c := range map[string]struct {
		method storetest.Method
		pass   int // calls that succeed first: the session and its user
		fault  storetest.Fault
	}{
		"reading the consents":    {storetest.Document, 2, storetest.Lost},
		"too many wait":           {storetest.Document, 2, storetest.Full},
		"storing the interaction": {storetest.CommitDocument, 0, storetest.Lost},
		"answer to a write lost":  {storetest.CommitDocument, 0, storetest.Unanswered},
		"too many writes wait":    {storetest.CommitDocument, 0, storetest.Full},
	} {
		failAfter(d.faulty, c.method, c.pass, c.fault)
		s := b.get(asking(d.a))
		if q := s.told(t, redirect+"?", oauth.TemporarilyUnavailable); q.Get("state") != "st" {
			t.Errorf("%s: state %q", what, q["state"])
		}
		quiet(t, what, s)
		d.faulty.Heal()
	}
	if s := b.follow(b.get(asking(d.a))); s.field("step") != "consent" {
		t.Errorf("healed: %d", s.StatusCode)
	}
}

// When the store cannot tell whether a user is signed in, the browser gets a page with
// Retry-After.
func TestAZ68_AStoreThatIsDownIsAPage(t *testing.T) {
	d, b := signedIn(t)
	stranger := d.browser()
	page := b.follow(b.get(asking(d.a)))
	id := page.field("id")
	for what, c := range map[string]struct {
		method storetest.Method
		fault  storetest.Fault
		ask    func() shownPage
		status int
	}{
		"reading the session":                 {storetest.Document, storetest.Lost, func() shownPage { return b.get(asking(d.a)) }, 503},
		"storing a stranger's interaction":    {storetest.CommitDocument, storetest.Lost, func() shownPage { return stranger.get(asking(d.a)) }, 503},
		"reading the interaction":             {storetest.Document, storetest.Lost, func() shownPage { return b.get(interactionURL + "?id=" + id) }, 503},
		"reading it for its answer":           {storetest.Document, storetest.Full, func() shownPage { return b.decide(page, "allow") }, 503},
		"storing the decision":                {storetest.CommitDocument, storetest.Lost, func() shownPage { return b.decide(page, "allow") }, 503},
		"a bug while it is read":              {storetest.Document, storetest.Panics, func() shownPage { return b.get(interactionURL + "?id=" + id) }, 500},
		"a bug at the authorization endpoint": {storetest.Document, storetest.Panics, func() shownPage { return b.get(asking(d.a)) }, 500},
	} {
		d.faulty.Inject(c.method, 1, c.fault)
		s := c.ask()
		s.refusedPage(t, c.status)
		checkPage(t, what, s)
		quiet(t, what, s)
		if c.status == 503 && s.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", what)
		}
		d.faulty.Heal()
	}
	// No decision was stored, so the same form still works.
	code := b.decide(page, "allow").granted(t, redirect).Get("code")
	d.mustRedeem(d.a, code)
}

// If a decision's commit fails, or only its outcome is lost, then the decision is stored
// at most once.
func TestAZ68_AZ62_ADecisionThatMayHaveBeenStoredIsMadeOnce(t *testing.T) {
	d, b := signedIn(t)
	for what, fault := range map[string]storetest.Fault{"lost": storetest.Lost, "unanswered": storetest.Unanswered} {
		page := b.follow(b.get(asking(d.a, "prompt=consent")))
		d.faulty.Inject(storetest.CommitDocument, 1, fault)
		b.decide(page, "allow").refusedPage(t, 503)
		d.step(time.Second)
		first := b.decide(page, "allow")
		code := first.granted(t, redirect).Get("code")
		if again := b.decide(page, "allow"); again.Header.Get("Location") != first.Header.Get("Location") {
			t.Errorf("%s: two answers", what)
		}
		before := len(d.grants())
		d.mustRedeem(d.a, code)
		if after := len(d.grants()); after != before+1 {
			t.Errorf("%s: %d grants more", what, after-before)
		}
	}
	// The decision and the remembered consent are stored together or not at all.
	page := b.follow(b.get(asking(d.b)))
	allow := func() shownPage {
		return b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=allow", "remember=yes")
	}
	d.faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
	allow().refusedPage(t, 503)
	b.get(asking(d.b, "prompt=none")).told(t, redirect, "consent_required")
	allow().granted(t, redirect)
	b.get(asking(d.b, "prompt=none")).granted(t, redirect)
}

func TestAZ70_ClientAndRedirectURIAreLookedAtAgain(t *testing.T) {
	d, b := signedIn(t)
	for what, c := range map[string]struct {
		alter  func(*store.Client)
		status int
		error  oauth.ErrorCode
	}{
		"disabled":                    {func(c *store.Client) { c.State = store.ClientDisabled }, 400, ""},
		"deleted":                     {func(c *store.Client) { c.State = store.ClientDeleted }, 400, ""},
		"its redirect URI taken away": {func(c *store.Client) { c.RedirectURIs = c.RedirectURIs[1:] }, 400, ""},
		"its scope narrowed":          {func(c *store.Client) { c.Scope = "a" }, 303, oauth.InvalidScope},
		"its grant type taken away":   {func(c *store.Client) { c.GrantTypes = []string{store.GrantRefreshToken} }, 303, oauth.UnauthorizedClient},
	} {
		victim := d.client(client.Registration{Settings: store.Settings{Name: what}})
		before := b.follow(b.get(asking(victim, "scope=a b")))
		decided := b.follow(b.get(asking(victim, "scope=a b", "prompt=consent")))
		b.decide(decided, "allow").granted(t, redirect)
		d.change(victim, c.alter)
		for _, s := range []shownPage{b.decide(before, "allow"), b.get(interactionURL + "?id=" + before.field("id")), b.decide(decided, "allow")} {
			if s.StatusCode != c.status {
				t.Errorf("%s: status %d to %.60q", what, s.StatusCode, s.Header.Get("Location"))
			}
			if c.status == 400 {
				s.refusedPage(t, 400)
			} else if s.location().Query().Has("code") {
				t.Errorf("%s: a code", what)
			}
		}
		if c.error != "" {
			b.decide(before, "allow").told(t, redirect, c.error)
		}
		if c.status == 400 {
			b.decide(before, "deny").refusedPage(t, 400)
		}
	}
	// A disabled user, or one whose grants were all revoked, cannot consent.
	page := b.follow(b.get(asking(d.a)))
	d.cutOff(store.Cutoff{Subject: username})
	if s := b.follow(b.decide(page, "allow")); s.field("step") != "login" {
		t.Errorf("after the cutoff: %d, step %q, to %.60q", s.StatusCode, s.field("step"), s.Header.Get("Location"))
	}
}

func TestAZ74_NothingSecretOfAFlowIsLogged(t *testing.T) {
	d, b := visitor(t)
	const state, wrong, mistaken = "state-5ecret-0123456789", "wr0ng-pass-0123456789", "passw0rd-typed-as-name"
	request := asking(d.a, "state="+state, "login_hint=hint-5ecret@example.com")
	login := b.open(request)
	secrets := []string{state, wrong, mistaken, password, challenge, verifier, d.a.secret, login.field("id"), "hint-5ecret"}
	b.logIn(login, username, wrong)
	b.logIn(login, mistaken, wrong)
	consent := b.logIn(login, username, password).at(t, "consent")
	secrets = append(secrets, consent.field("id"))
	at, _ := url.Parse(publicURL)
	for _, c := range b.Jar.Cookies(at) {
		secrets = append(secrets, c.Value)
	}
	if len(secrets) < 13 {
		t.Fatalf("only %d secrets: %d cookies", len(secrets), len(b.Jar.Cookies(at)))
	}
	code := b.decide(consent, "allow").granted(t, redirect).Get("code")
	b.decide(consent, "allow").granted(t, redirect)
	pair := d.mustRedeem(d.a, code)
	secrets = append(secrets, code, pair.AccessToken, pair.RefreshToken)
	b.decide(consent, "allow").refusedPage(t, 409)
	d.post(with(d.a.redeem(code), "code_verifier", verifier))

	// Send every secret to every endpoint in the wrong place, with and without faults.
	for _, fault := range []storetest.Fault{nil, storetest.Lost, storetest.Panics} {
		for _, secret := range secrets {
			if fault != nil {
				d.faulty.Inject(storetest.Document, 4, fault)
				d.faulty.Inject(storetest.CommitDocument, 2, fault)
			}
			escaped := url.QueryEscape(secret)
			b.get(asking(d.a, "state="+state, "scope="+secret, "prompt="+secret))
			b.get(asking(d.a, "redirect_uri="+redirect+"?code="+secret))
			b.get(asking(d.a, "state="+secret) + "&state=" + escaped)
			b.post(authorizeURL, "state="+secret, "redirect_uri="+secret)
			b.get(interactionURL + "?id=" + escaped + "&verifier=" + escaped)
			b.post(interactionURL, "id="+secret, "step="+secret, "username="+secret, "password="+secret, "code="+secret)
			b.post(interactionURL, "id="+consent.field("id"), "step=consent", "decision="+secret)
			b.get(publicURL + "/oauth2/callback?code=" + escaped + "&state=" + escaped)
			b.get(connectionsURL + "?done=" + escaped)
			b.get(publicURL + "/oauth2/" + escaped + "?code=" + escaped)
			d.faulty.Heal()
		}
	}
	// Control: the log does contain the invalid redirect URI, for explain.
	b.get(asking(d.a, "redirect_uri=https://evil.example/cb?code=x"))
	b.get(asking(d.a, "scope=a openid nonsense"))
	log := d.log.String()
	for _, wanted := range []string{"redirect_uri not registered: it was \\\"https://evil.example/cb?...", "scope not allowed: it was \\\"a openid ?", "authorization answered", "interaction answered", "interaction refused", "authorization refused", "authorization failed", "bug", username} {
		if !strings.Contains(log, wanted) {
			t.Errorf("the log has no %q: the search searched nothing", wanted)
		}
	}
	for _, secret := range secrets {
		if strings.Contains(log, secret) || strings.Contains(log, url.QueryEscape(secret)) {
			t.Errorf("the log holds a secret of %d characters, beginning with %q", len(secret), secret[:6])
		}
	}
	if g := d.grants(); len(g) != 1 || g[0].State != grant.Revoked {
		t.Errorf("%d grants; the code that was used twice revokes its own", len(g))
	}
}
