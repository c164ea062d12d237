package conformance_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
)

// everyPage returns each page that a user of the deployment can see.
func (d *deployment) everyPage(t *testing.T) map[string]shownPage {
	secret := d.userWithCode("carol")
	b := d.browser()
	seen := map[string]shownPage{
		"signed out":     b.get(logoutURL),
		"unknown client": b.get(authorizeURL + "&client_id=nobody&redirect_uri=" + url.QueryEscape(redirect)),
		"bad redirect":   b.get(asking(d.a, "redirect_uri=https://evil.example/cb")),
		"bare request":   b.get(authorizeURL),
		"forged id":      b.open(interactionURL + "?id=" + strings.Repeat("A", 43)),
		"lost":           b.lost(publicURL + "/nothing"),
		"not found":      b.get(publicURL + "/account/assets/nothing.css"),
		"method":         b.do(http.MethodPut, interactionURL, nil),
	}
	seen["login"] = b.open(asking(d.a))
	seen["wrong password"] = b.logIn(seen["login"], "carol", "wrong")
	seen["second factor"] = b.logIn(seen["login"], "carol", password)
	id := seen["second factor"].field("id")
	seen["wrong code"] = b.post(interactionURL, "id="+id, "step=second_factor", "code=abc")
	seen["consent"] = b.follow(b.post(interactionURL, "id="+id, "step=second_factor", "code="+d.oneTimeCode(secret)))
	seen["account"] = b.open(asking(d.a, "prompt=select_account"))
	b.decide(seen["consent"], "allow").code(t, redirect)
	seen["connections"] = b.get(connectionsURL)
	seen["bounce"] = b.get(asking(d.selfRegistered("Agent"), "scope=nothing"))
	seen["logout"] = b.get(logoutURL)
	b.header = map[string]string{"Sec-Fetch-Site": "cross-site"}
	seen["cross-site"] = b.post(logoutURL)
	for name, s := range seen {
		if s.title() == "" || s.Header.Get("Location") != "" {
			t.Errorf("%s is no page: status %d", name, s.StatusCode)
		}
	}
	return seen
}

// Chromium tests UI-05, too, and the part of UI-06 about frames.
func TestUI04_UI06_EveryPageForbidsScriptsAndFrames(t *testing.T) {
	d, _ := visitor(t, registering)
	for name, s := range d.everyPage(t) {
		s.hasPageHeaders(t)
		lower := strings.ToLower(s.body)
		for _, inline := range []string{"<script", "javascript:", " style=", "<style", "<iframe", "<object", "<base"} {
			if strings.Contains(lower, inline) {
				t.Errorf("%s holds %q", name, inline)
			}
		}
		if m := regexp.MustCompile(`\son[a-z]+=`).FindString(lower); m != "" {
			t.Errorf("%s has a handler %q", name, m)
		}
		// A window that has opened a page must not control it. No page opens a window or
		// names a frame as its target.
		if strings.Contains(lower, "target=") {
			t.Errorf("%s opens another window", name)
		}
	}
}

// lost is a browser's request for an address that the user has typed.
func (b *browser) lost(address string) shownPage {
	before := b.header
	defer func() { b.header = before }()
	b.header = map[string]string{"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
	return b.get(address)
}

func TestABrowserWithoutAWayGetsAPageAndAProgramJSON(t *testing.T) {
	d, b := signedIn(t)
	for _, path := range []string{"/nothing", "/oauth2/nothing", "/oauth2//authorize", "/account/nothing", "/account/../x"} {
		if s := b.lost(publicURL + path); s.StatusCode != http.StatusNotFound || s.title() == "" {
			t.Errorf("a browser at %s: status %d, title %q", path, s.StatusCode, s.title())
		} else {
			s.hasPageHeaders(t)
		}
	}
	for _, path := range []string{"", "/", "/account", "/account/"} {
		if s := b.lost(publicURL + path); s.StatusCode != http.StatusSeeOther || s.location().String() != connectionsURL {
			t.Errorf("a browser at %q: status %d, sent to %q", path, s.StatusCode, s.Header.Get("Location"))
		}
	}
	for _, accept := range []string{"", "*/*", "application/json", "application/json, text/html-not"} {
		b.header = map[string]string{"Accept": accept}
		for _, path := range []string{"/", "/account", "/nothing"} {
			s := b.get(publicURL + path)
			if s.StatusCode != http.StatusNotFound || s.body != errorBody("invalid_request", "no such endpoint") || s.Header.Get("Content-Type") != "application/json" {
				t.Errorf("a program that accepts %q at %s: status %d, %s", accept, path, s.StatusCode, s.body)
			}
		}
	}
	// The endpoints for programs still respond with JSON.
	if s := b.lost(publicURL + endpoint); s.StatusCode != http.StatusMethodNotAllowed || s.Header.Get("Content-Type") != "application/json" {
		t.Errorf("a browser at the token endpoint: status %d, %s", s.StatusCode, s.Header.Get("Content-Type"))
	}
	consent := b.open(asking(d.client(client.Registration{Settings: store.Settings{Name: "New"}}))).at(t, "consent")
	if !strings.Contains(consent.body, `href="/account/connections"`) {
		t.Error("the consent page does not lead to where consent is taken back")
	}
}

func TestADeploymentWithoutPagesAnswersABrowserJSON(t *testing.T) {
	if s := start(t).browser().lost(publicURL + "/"); s.StatusCode != http.StatusNotFound || s.Header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, %s", s.StatusCode, s.Header.Get("Content-Type"))
	}
}

// With only form-action 'self', Chromium would block the redirect after a form.
func TestUI05_ThePolicyOfAFormAllowsTheRedirectOfThisRequest(t *testing.T) {
	d, b := signedIn(t)
	native := d.client(client.Registration{
		Settings: store.Settings{Name: "native", Native: true, Auth: store.AuthNone,
			RedirectURIs: []string{"http://127.0.0.1/cb", "http://localhost/cb", "http://[::1]/cb", "com.example.app:/cb", "https://app.example/cb"},
		},
	})
	for uri, sources := range map[string]string{
		"http://127.0.0.1:4711/cb": "'self' https: http://127.0.0.1:4711",
		"http://localhost:4711/cb": "'self' https: http://localhost:4711",
		"http://[::1]:4711/cb":     "'self' https: http:",
		"com.example.app:/cb":      "'self' https: com.example.app:",
		"https://app.example/cb":   "'self' https:",
	} {
		page := b.open(asking(native, "redirect_uri="+uri)).at(t, "consent")
		if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action "+sources+"; frame-ancestors") {
			t.Errorf("%s: the policy is %q, want form-action %s", uri, policy, sources)
		}
	}
	// A page without a form for a client allows only 'self'.
	if policy := b.get(logoutURL).Header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self';") {
		t.Errorf("the policy of the page to sign out is %q", policy)
	}
}

func TestUI07_WhatOthersHaveWrittenIsEscaped(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>'`
	d := start(t, registering)
	d.user(username, cheaply, func(u *account.User) { u.Name = evil })
	c := d.client(client.Registration{Settings: store.Settings{Name: evil, Scope: "a <script>"}})
	b := d.browser()
	seen := map[string]shownPage{
		"login":        b.open(asking(c, "login_hint="+evil, "ui_locales="+evil, "state="+evil, "scope=<script>")),
		"bad client":   b.get(asking(c, "client_id="+evil)),
		"bad redirect": b.get(asking(c, "redirect_uri="+evil)),
		"bad id":       b.get(interactionURL + "?id=" + url.QueryEscape(evil)),
		"error":        b.get(interactionURL + "?error=" + url.QueryEscape(evil) + "&error_description=" + url.QueryEscape(evil)),
	}
	if !strings.Contains(seen["login"].body, `value="`+html.EscapeString(evil)+`"`) {
		t.Error("the login page does not hold the login_hint: this test tests nothing")
	}
	seen["wrong"] = b.logIn(seen["login"], evil, evil)
	seen["consent"] = b.logIn(seen["login"], username, password).at(t, "consent")
	if !strings.Contains(seen["consent"].body, "&lt;script&gt;") {
		t.Error("the consent page does not show the name: this test tests nothing")
	}
	b.decide(seen["consent"], "allow").code(t, redirect)
	seen["connections"] = b.get(connectionsURL + "?done=" + url.QueryEscape(evil))
	seen["bounce"] = b.get(asking(d.selfRegistered(evil), "scope="+evil, "state="+evil, "login_hint="+evil))
	if !strings.Contains(seen["bounce"].body, "state=%22%3E%3Cscript") {
		t.Error("the page with a link to the client does not hold the state: this test tests nothing")
	}
	seen["logout"] = b.get(logoutURL)
	for name, s := range seen {
		for _, raw := range []string{"<script", "<img", `value=""><`, `alert(1)>'"`} {
			if strings.Contains(s.body, raw) {
				t.Errorf("%s holds %q", name, raw)
			}
		}
	}
}

// A client cannot choose any image or address on a page.
func TestUI08_NobodyChoosesWhereTheUserIsSent(t *testing.T) {
	d, b := visitor(t)
	page := b.open(asking(d.a)).at(t, "login")
	var choices []string
	for _, name := range []string{"return_to", "goto", "next", "redirect", "continue", "url"} {
		for _, to := range []string{"//evil.example", "https:evil.example", `/\evil.example`, "javascript:alert(1)", "https://evil.example/"} {
			choices = append(choices, name+"="+to)
		}
	}
	query := "&" + pairsOf(choices[:10]).Encode()
	for _, address := range []string{connectionsURL + "?x=1" + query, logoutURL + "?x=1" + query, interactionURL + "?id=" + page.field("id") + query} {
		s := b.get(address)
		if to := s.Header.Get("Location"); to != "" && !strings.HasPrefix(to, interactionURL+"?id=") || strings.Contains(s.body, "evil.example") || strings.Contains(to, "evil") {
			t.Errorf("%.60s: status %d to %q", address, s.StatusCode, to)
		}
	}
	fields := []string{"id=" + page.field("id"), "step=login", "username=" + username, "password=" + password}
	for i, c := range choices {
		if i%5 == 0 { // one per name, because a repeated parameter is refused
			fields = append(fields, c)
		}
	}
	if to := b.post(interactionURL, fields...).Header.Get("Location"); to != interactionURL+"?id="+page.field("id") {
		t.Errorf("after the login: %q", to)
	}
	if to := b.post(logoutURL, "goto=//evil.example", "next=https://evil.example").Header.Get("Location"); to != logoutURL {
		t.Errorf("after the logout: %q", to)
	}
	// The Host of a request occurs in no address.
	b.header["X-Forwarded-Host"] = "evil.example"
	if to := b.get(asking(d.a)).Header.Get("Location"); !strings.HasPrefix(to, interactionURL+"?id=") {
		t.Errorf("with another host: %q", to)
	}
}

func TestUI18_ThePasswordIsPostedAndKeptNowhere(t *testing.T) {
	d, b := visitor(t)
	page := b.open(asking(d.a)).at(t, "login")
	for _, text := range []string{`<form method="post"`, `type="password" autocomplete="current-password"`, `autocomplete="username"`} {
		if !strings.Contains(page.body, text) {
			t.Errorf("the login page lacks %s", text)
		}
	}
	wrong := b.logIn(page, username, "mistyped")
	if wrong.StatusCode != http.StatusUnprocessableEntity || strings.Contains(wrong.body, "mistyped") || wrong.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("status %d, %s, and the password in it: %t", wrong.StatusCode, wrong.Header.Get("Cache-Control"), strings.Contains(wrong.body, "mistyped"))
	}
	// In a URL, the password is ignored.
	form := pairsOf([]string{"id=" + page.field("id"), "step=login", "username=" + username, "password=" + password})
	b.get(interactionURL+"?"+form.Encode()).at(t, "login")
	if b.cookie(sessionName) != "" {
		t.Error("signed in by GET")
	}
	// All other secrets of the user are entered in the same way.
	secret := d.userWithCode("carol")
	factor := b.logIn(page, "carol", password).at(t, "second_factor")
	if !strings.Contains(factor.body, `autocomplete="one-time-code"`) || !strings.Contains(factor.body, `<form method="post"`) {
		t.Error("the page for the code is not one that browsers know")
	}
	b.follow(b.post(interactionURL, "id="+page.field("id"), "step=second_factor", "code="+d.oneTimeCode(secret))).at(t, "consent")
	for _, s := range []string{password, "mistyped", d.oneTimeCode(secret)} {
		if strings.Contains(d.log.String(), `"`+s) {
			t.Error("the log holds what a user has typed")
		}
	}
}

func TestUI19_UI24_PagesNeedNothingOfOthersAndNoScript(t *testing.T) {
	d, _ := visitor(t, registering)
	b := d.browser()
	loaded := regexp.MustCompile(`\s(?:src|href|action|formaction|poster|data|srcset)="([^"]*)"`)
	input := regexp.MustCompile(`<(?:input|button)[^>]*>`)
	for name, s := range d.everyPage(t) {
		for _, m := range loaded.FindAllStringSubmatch(s.body, -1) {
			address := html.UnescapeString(m[1])
			ours := strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//")
			// The only external link is the one back to the client.
			if !ours && !(name == "bounce" && strings.HasPrefix(address, redirect+"?error=")) {
				t.Errorf("%s refers to %s", name, address)
			}
			if strings.HasPrefix(address, "/account/assets/") {
				if got := b.get(publicURL + address); got.StatusCode != http.StatusOK || got.Header.Get("Set-Cookie") != "" {
					t.Errorf("%s: %s is %d", name, address, got.StatusCode)
				}
			}
		}
		for _, tag := range input.FindAllString(s.body, -1) {
			hidden, submit := strings.Contains(tag, `type="hidden"`) || strings.HasSuffix(tag, " hidden>"), strings.Contains(tag, `type="submit"`)
			if !submit && !strings.Contains(tag, " name=") || !hidden && !strings.Contains(tag, " id=") && !strings.Contains(tag, `class="danger"`) {
				t.Errorf("%s: %s has no id or no name", name, tag)
			}
			if strings.HasPrefix(tag, "<button") && !submit {
				t.Errorf("%s: %s does nothing without a script", name, tag)
			}
		}
	}
}

func TestUI20_ABadRedirectURIIsNoLink(t *testing.T) {
	d, b := visitor(t)
	for _, uri := range []string{"https://evil.example/cb", "javascript:alert(1)", redirect + "/evil", "//evil.example", redirect + `"><a href="https://evil.example`} {
		s := b.get(asking(d.a, "redirect_uri="+uri))
		s.says(t, http.StatusBadRequest, pages.BadRedirectURI)
		if strings.Contains(s.body, "evil") || strings.Contains(s.body, "javascript") || strings.Contains(s.body, "<a ") {
			t.Errorf("%s: the page holds it, or a link", uri)
		}
	}
}

// Hundreds of pending requests fill neither cookies nor memory, and expire.
func TestUI23_StateIsKeptOnTheServerAndExpires(t *testing.T) {
	d, b := visitor(t)
	first := b.open(asking(d.a)).at(t, "login")
	held := b.cookie(browserName)
	const many = 100
	for range many {
		if s := b.get(asking(d.a)); s.StatusCode != http.StatusSeeOther || s.set(browserName) != nil {
			t.Fatalf("status %d", s.StatusCode)
		}
	}
	if b.cookie(browserName) != held || len(held) > 64 {
		t.Error("what is under way is in the browser")
	}
	b.get(interactionURL+"?id="+first.field("id")).at(t, "login")
	d.step(d.authorizer.Interactions.Lifetime + 1e9)
	if _, deleted, err := d.sqlite.Sweep(t.Context(), store.SweptDocuments, "", grant.At(d.now()), 10*many); err != nil || deleted != many+1 {
		t.Errorf("%d interactions are swept, %v; want %d", deleted, err, many+1)
	}
	// A browser that sends too large a cookie gets an error, and keeps its session.
	b.header["Cookie"] = "junk=" + strings.Repeat("x", 5000)
	if s := b.open(asking(d.a)); s.StatusCode >= 500 {
		t.Errorf("with a cookie of 5 kB: status %d", s.StatusCode)
	}
}

func TestUI23_OneAddressBeginsOnlySoMany(t *testing.T) {
	d, b := visitor(t, func(o *options) { o.Interactions = 5 })
	for range 5 {
		b.open(asking(d.a)).at(t, "login")
	}
	s := b.get(asking(d.a))
	s.says(t, http.StatusTooManyRequests, pages.TooMany)
	if s.Header.Get("Retry-After") == "" {
		t.Error("no word of when to come back")
	}
	b.get(connectionsURL).says(t, http.StatusTooManyRequests, pages.TooMany)
}
