package conformance_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/web"
)

// A client for OpenAM does not support PKCE, and expects code, scope, state, iss and
// client_id at its callback (compat.callback_parameters).
func TestClientWithoutPKCEWorksEndToEnd(t *testing.T) {
	d, b := visitor(t, func(o *options) { o.tuneFront = func(f *web.Front) { f.Authorizer.CallbackParameters = true } })
	old := d.client(client.Registration{Settings: store.Settings{Name: "Old", NoPKCE: true, Scope: "read write"}})
	request := asking(old, "code_challenge", "code_challenge_method", "state=af0ifjsldkj", "scope=read write")
	consent := b.logIn(b.open(request).at(t, "login"), username, password).at(t, "consent")
	s := b.decide(consent, "allow")
	code, q := s.code(t, redirect), s.location().Query()
	for name, want := range map[string]string{
		"scope": "read write", "state": "af0ifjsldkj", "iss": issuerID, "client_id": old.ID, "code": code,
	} {
		if got := q[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %d times at the callback, or wrong: %.20q", name, len(got), got)
		}
	}
	if len(q) != 5 {
		t.Errorf("the callback has %d members", len(q))
	}
	pair := d.mustIssue(d.post(old.redeem(code)))
	if pair.Scope != "read write" || pair.TokenType != "Bearer" {
		t.Errorf("scope %q, type %q", pair.Scope, pair.TokenType)
	}
	d.alive(old, pair.RefreshToken)
	// Other clients' requests without PKCE are still refused.
	b.get(asking(d.a, "code_challenge", "code_challenge_method")).told(t, redirect, oauth.InvalidRequest)
	// If the client does send a challenge, it must prove it.
	code = b.decide(b.open(asking(old, "scope=read")).at(t, "consent"), "allow").code(t, redirect)
	want(t, d.post(old.redeem(code)), http.StatusBadRequest, "invalid_grant")
}

func TestFirstPartyClientIsNotAskedFor(t *testing.T) {
	d, b := visitor(t)
	own := d.client(client.Registration{Settings: store.Settings{Name: "Own", FirstParty: true}})
	s := b.logIn(b.open(asking(own)).at(t, "login"), username, password)
	d.mustIssue(d.post(own.challenged(s.code(t, redirect))))
	b.get(asking(own)).code(t, redirect) // signed in: no page is shown
	b.get(asking(own, "prompt=none")).code(t, redirect)
	b.open(asking(own, "prompt=consent")).at(t, "consent")
	b.open(asking(d.a)).at(t, "consent")
}

// Any program of the user's machine can use a loopback address or a private-use scheme
// (RFC 8252 section 8.6). Neither a remembered consent nor first-party status skips the
// question.
func TestNativeClientIsAlwaysAskedFor(t *testing.T) {
	d, b := signedIn(t)
	native := d.client(client.Registration{
		Settings: store.Settings{Name: "Native", Native: true, FirstParty: true, Auth: store.AuthNone,
			RedirectURIs: []string{"http://127.0.0.1/cb", "com.example.app:/cb", "https://app.example/cb"},
		},
	})
	for _, uri := range []string{"http://127.0.0.1:5000/cb", "com.example.app:/cb"} {
		for range 2 {
			page := b.open(asking(native, "redirect_uri="+uri)).at(t, "consent")
			if strings.Contains(page.body, `name="remember"`) {
				t.Errorf("%s: the page offers to remember", uri)
			}
			if !strings.Contains(page.body, "can claim to be") {
				t.Errorf("%s: the page does not warn", uri)
			}
			b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=allow", "remember=yes").code(t, uri)
		}
		b.get(asking(native, "redirect_uri="+uri, "prompt=none")).told(t, uri, oauth.InteractionRequired)
	}
	// A claimed https redirect URI, whose domain belongs to the client's owner, is
	// different.
	b.get(asking(native, "redirect_uri=https://app.example/cb")).code(t, "https://app.example/cb")
}

func TestRememberedConsentIsNotAskedForAgain(t *testing.T) {
	d, b := signedIn(t)
	allow := func(page shownPage, remember string) {
		t.Helper()
		b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=allow", "remember="+remember).code(t, redirect)
	}
	// Without the check box, the user is asked again, and the page shows the earlier
	// consent.
	allow(b.open(asking(d.a, "scope=a")).at(t, "consent"), "")
	page := b.open(asking(d.a, "scope=a")).at(t, "consent")
	if !strings.Contains(page.body, "You have already allowed it to:") {
		t.Error("the page does not say what was agreed to before")
	}
	allow(page, "yes")
	b.get(asking(d.a, "scope=a")).code(t, redirect)
	b.get(asking(d.a, "scope=a", "prompt=none")).code(t, redirect)

	// If a request has more scopes, the user is asked, and the page separates new from
	// known scopes.
	b.get(asking(d.a, "scope=a b", "prompt=none")).told(t, redirect, oauth.ConsentRequired)
	page = b.open(asking(d.a, "scope=a b")).at(t, "consent")
	asked, known, both := strings.Cut(page.body, "You have already allowed it to:")
	if !both || !strings.Contains(asked, "asks for more than before:") || strings.Count(asked, "<li>") != 1 || strings.Count(known, "<li>") != 1 || !strings.Contains(asked, "New") {
		t.Errorf("new and known are not apart: %d and %d", strings.Count(asked, "<li>"), strings.Count(known, "<li>"))
	}
	b.decide(page, "deny").told(t, redirect, oauth.AccessDenied)
	b.get(asking(d.a, "scope=a")).code(t, redirect) // a denial withdraws nothing
	allow(b.open(asking(d.a, "scope=a b")).at(t, "consent"), "yes")
	b.get(asking(d.a, "scope=b a")).code(t, redirect)
	b.open(asking(d.a, "scope=a", "prompt=consent")).at(t, "consent")
	// The consent is for this client and this user only.
	b.open(asking(d.b, "scope=a")).at(t, "consent")
	d.user("bob", cheaply)
	other := d.browser()
	d.signIn(other, "bob")
	other.open(asking(d.a, "scope=a")).at(t, "consent")
}

// Disconnecting a client immediately ends its grants, its unredeemed codes and the
// consent.
func TestDisconnectEndsWhatTheClientHas(t *testing.T) {
	d, b := signedIn(t)
	pair := d.mustIssue(d.post(d.a.challenged(b.agree(asking(d.a)).Query().Get("code"))))
	kept := d.mustIssue(d.post(d.b.challenged(b.agree(asking(d.b)).Query().Get("code"))))
	onItsWay := b.get(asking(d.a)).code(t, redirect)
	list := b.get(connectionsURL)
	if strings.Count(list.body, `name="client_id"`) != 2 || !strings.Contains(list.body, `value="`+d.a.ID+`"`) {
		t.Fatalf("%q lists %d", list.title(), strings.Count(list.body, `name="client_id"`))
	}
	s := b.follow(b.post(connectionsURL, "client_id="+d.a.ID))
	if s.StatusCode != http.StatusOK || strings.Count(s.body, `name="client_id"`) != 1 || !strings.Contains(s.body, "<bdi>A</bdi> has been disconnected.") {
		t.Errorf("status %d, %d left", s.StatusCode, strings.Count(s.body, `name="client_id"`))
	}
	want(t, d.post(d.a.refresh(pair.RefreshToken)), http.StatusBadRequest, "invalid_grant")
	want(t, d.post(d.a.challenged(onItsWay)), http.StatusBadRequest, "invalid_grant")
	d.alive(d.b, kept.RefreshToken)
	page := b.open(asking(d.a)).at(t, "consent")
	if strings.Contains(page.body, "already allowed") {
		t.Error("what was taken back is shown as allowed")
	}
	// The client can be connected again at once.
	d.mustIssue(d.post(d.a.challenged(b.decide(page, "allow").code(t, redirect))))
	b.post(connectionsURL).says(t, http.StatusBadRequest, pages.BadRequest)
}

// handedOff configures a login by another system.
func handedOff(o *options) {
	o.front = true
	o.tuneFront = func(f *web.Front) { f.Users, f.Handoff, f.Authorizer.Alive = nil, loginURL, nil }
}

const loginURL = "https://login.example/in?shop=1"

func TestHandedOffLogin(t *testing.T) {
	d := start(t, handedOff)
	b := d.browser()
	begin := func(pairs ...string) string {
		t.Helper()
		to := b.follow(b.get(asking(d.a, pairs...))).location()
		if to.Host != "login.example" || to.Query().Get("shop") != "1" {
			t.Fatalf("sent to %s", to)
		}
		return to.Query().Get("challenge")
	}
	accept := func(challenge string, who login.Identity) *url.URL {
		t.Helper()
		to, err := d.authorizer.AcceptLogin(t.Context(), challenge, who)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(to)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	challenge := begin()
	to := accept(challenge, login.Identity{Subject: "u-1", Name: "Ulla", Claims: `{"tenant":"t1"}`})
	// The challenge alone, or with an invented verifier, signs nobody in.
	if s := b.get(interactionURL + "?id=" + challenge); s.location().Host != "login.example" || b.cookie(sessionName) != "" {
		t.Errorf("without the verifier: status %d, %q", s.StatusCode, s.title())
	}
	b.get(interactionURL+"?id="+challenge+"&verifier="+strings.Repeat("A", 43)).says(t, http.StatusForbidden, pages.InteractionUnknown)
	// The address signs in no other browser: an attacker cannot plant a session in a
	// victim's browser by sending it.
	victim := d.browser()
	victim.open(asking(d.a))
	victim.get(to.String()).says(t, http.StatusForbidden, pages.InteractionUnknown)

	consent := b.open(to.String()).at(t, "consent")
	if !strings.Contains(consent.body, "<bdi>Ulla</bdi>") {
		t.Error("the page does not say who is signed in")
	}
	b.open(to.String()).at(t, "consent") // a reload works, too
	d.mustIssue(d.post(d.a.challenged(b.decide(consent, "allow").code(t, redirect))))
	if g := d.grants(); len(g) != 1 || g[0].Subject != "u-1" || g[0].Claims != `{"tenant":"t1"}` {
		t.Errorf("%d grants", len(g))
	}

	// A refused login is redirected to the client as an error.
	challenge = begin("prompt=login")
	said, err := d.authorizer.RejectLogin(t.Context(), challenge, oauth.LoginRequired)
	if err != nil {
		t.Fatal(err)
	}
	b.get(said).told(t, redirect, oauth.LoginRequired)
	b.get(said).told(t, redirect, oauth.LoginRequired)

	// On the account pages, there is no client to redirect to.
	b.post(logoutURL)
	challenge = b.open(connectionsURL).location().Query().Get("challenge")
	if said, err = d.authorizer.RejectLogin(t.Context(), challenge, ""); err != nil {
		t.Fatal(err)
	}
	if s := b.get(said); s.StatusCode != http.StatusForbidden || s.title() != "You were not signed in" {
		t.Errorf("status %d, %q", s.StatusCode, s.title())
	}
	// A form for built-in users has no effect here.
	page := begin()
	b.post(interactionURL, "id="+page, "step=login", "username="+username, "password="+password).says(t, http.StatusBadRequest, pages.BadRequest)

	// After the timeout, neither accepting nor refusing works.
	late := begin()
	lateURL := accept(late, login.Identity{Subject: "u-1"})
	d.step(d.authorizer.Interactions.Lifetime + time.Second)
	b.get(lateURL.String()).says(t, http.StatusGone, pages.InteractionExpired)
}
