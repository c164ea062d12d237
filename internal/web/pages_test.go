package web_test

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

func TestRoutesOfThePages(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	r := newFixture(t, atProvider(p))
	form := []string{"GET", "POST"} // HEAD never makes a code for a caller that does not read it
	want := map[string]struct {
		paths   []string
		methods []string
		class   overload.Class
		member  string
	}{
		"authorization":   {[]string{"authorize"}, form, overload.Code, "authorization_endpoint"},
		"end session":     {[]string{"end_session", "connect/endSession"}, form, overload.Login, "end_session_endpoint"},
		"interaction":     {[]string{"interaction"}, form, overload.Login, ""},
		"device":          {[]string{"/device"}, form, overload.Login, ""},
		"connections":     {[]string{"/account/connections"}, form, overload.Login, ""},
		"logout":          {[]string{"/account/logout"}, form, overload.Login, ""},
		"asset":           {[]string{"/account/assets/{file}"}, []string{"GET", "HEAD"}, overload.Login, ""},
		"request":         {[]string{"/"}, nil, overload.Login, ""},
		"upstream login":  {[]string{"callback"}, form[:1], overload.Login, ""},
		"upstream logout": {[]string{"backchannel_logout"}, form[1:], overload.Login, ""},
	}
	for _, rt := range r.server.Routes() {
		w, there := want[rt.Name]
		delete(want, rt.Name)
		if !there || !slices.Equal(rt.Paths, w.paths) || !slices.Equal(rt.Methods, w.methods) || rt.Class != w.class || rt.Member != w.member || rt.Page != (rt.Name != "upstream logout") {
			t.Errorf("%s: %v %v %v %q, page %t", rt.Name, rt.Paths, rt.Methods, rt.Class, rt.Member, rt.Page)
		}
	}
	if len(want) > 0 {
		t.Errorf("there is no route %q", slices.Sorted(maps.Keys(want)))
	}
	b := newFixture(t).browser()
	for _, address := range []string{callbackURL, publicURL + "/oauth2/backchannel_logout"} {
		if s := b.post(address); s.StatusCode != http.StatusNotFound {
			t.Errorf("%s without a provider: status %d", address, s.StatusCode)
		}
	}
}

// A form from another site changes nothing. Clients, in contrast, may send authorization
// requests and logouts by POST.
func TestAFormOfAnotherSiteChangesNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b, stranger := r.signedIn("alice"), r.browser()
	b.agree(asking(r.shop))
	consent := b.open(asking(r.shop, "scope=b")).at(t, login.StepConsent)
	leaving := b.open(endSessionURL+"?client_id=shop").at(t, stepLogout)
	signing := stranger.open(asking(r.shop)).at(t, login.StepLogin)
	for _, header := range []map[string]string{
		{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site", "Origin": "https://other.auth.example"}, {"Origin": "https://evil.example"}, {},
	} {
		b.header, stranger.header = header, header
		for name, s := range map[string]shownPage{
			"consent":        b.post(interactionURL, "id="+consent.field("id"), "step=consent", "decision=allow"),
			"logout":         b.post(interactionURL, "id="+leaving.field("id"), "step=logout", "action=logout"),
			"own logout":     b.post(logoutURL),
			"disconnect":     b.post(connectionsURL, "client_id=shop"),
			"a login (CSRF)": stranger.logIn(signing, "alice", password),
		} {
			if s.StatusCode != http.StatusForbidden || s.to() != "" || len(s.Cookies()) > 0 {
				t.Errorf("%s from %v: status %d to %q, cookies %v", name, header, s.StatusCode, s.to(), s.Cookies())
			}
		}
		for name, s := range map[string]shownPage{"authorize": b.post(asking(r.shop)), "end_session": b.post(endSessionURL, "client_id=shop")} {
			if s.StatusCode != http.StatusSeeOther {
				t.Errorf("%s from %v: status %d", name, header, s.StatusCode)
			}
		}
	}
	if !b.isSignedIn() || stranger.isSignedIn() {
		t.Error("another site has signed a user in or out")
	}
	b.header = map[string]string{"Origin": publicURL}
	if s := b.get(connectionsURL); !strings.Contains(s.body, "Shop") {
		t.Error("another site has disconnected a client")
	}
	for name, s := range map[string]shownPage{
		"consent":    b.post(interactionURL, "id="+consent.field("id"), "step=consent", "decision=allow"),
		"disconnect": b.post(connectionsURL, "client_id=shop"),
		"logout":     b.post(interactionURL, "id="+leaving.field("id"), "step=logout", "action=logout"),
	} {
		if s.StatusCode != http.StatusSeeOther {
			t.Errorf("%s from our own page: status %d", name, s.StatusCode)
		}
	}
}

// A request that uses the store, or calls a provider, holds a slot meanwhile, and releases
// it.
func TestAPageHoldsASlotUntilItResponds(t *testing.T) {
	t.Parallel()
	var r *fixture
	seen := -1
	look := func() { seen, _ = r.server.Queue.Load() }
	r = newFixture(t)
	b := r.signedIn("alice")
	b.agree(asking(r.shop))
	consent := b.open(asking(r.shop, "scope=b")).at(t, login.StepConsent)
	leaving := b.open(endSessionURL+"?client_id=shop").at(t, stepLogout)
	p := newProvider(t)
	at := newFixture(t, atProvider(p))
	for name, do := range map[string]func() shownPage{
		"authorize":   func() shownPage { return b.get(asking(r.shop, "scope=b")) },
		"interaction": func() shownPage { return b.get(interactionURL + "?id=" + consent.field("id")) },
		"answer": func() shownPage {
			return b.post(interactionURL, "id="+consent.field("id"), "step=consent", "decision=allow")
		},
		"connections":          func() shownPage { return b.get(connectionsURL) },
		"disconnect":           func() shownPage { return b.post(connectionsURL, "client_id=nobody") },
		"end_session":          func() shownPage { return b.get(endSessionURL + "?client_id=shop") },
		"question of a logout": func() shownPage { return b.get(interactionURL + "?id=" + leaving.field("id")) },
		"logout":               func() shownPage { return b.get(logoutURL) },
	} {
		seen = -1
		r.meanwhile(look)
		if s := do(); s.StatusCode >= 400 || seen != 1 {
			t.Errorf("%s: status %d, %d slots held", name, s.StatusCode, seen)
		}
	}
	r.meanwhile(look)
	if b.post(logoutURL); seen != 1 {
		t.Errorf("answer of the logout: %d slots held", seen)
	}
	p.asked = func(path string) {
		if path == "/keys" {
			seen, _ = at.server.Queue.Load()
		}
	}
	c := at.browser()
	seen = -1
	if s := c.get(callbackURL + "?code=c&state=" + p.sent(c.open(asking(at.shop)))); s.StatusCode != http.StatusSeeOther || seen != 1 {
		t.Errorf("callback: status %d, %d slots held", s.StatusCode, seen)
	}
	at.kit.Clock.Advance(2 * time.Minute) // keys are read once a minute
	p.renew()
	seen = -1
	if s := c.post(publicURL+"/oauth2/backchannel_logout", "logout_token="+p.logoutToken("j", "s")); s.StatusCode != http.StatusOK || seen != 1 {
		t.Errorf("logout of the provider: status %d, %d slots held", s.StatusCode, seen)
	}
	for _, q := range []*overload.Queue{r.server.Queue, at.server.Queue} {
		if running, _ := q.Load(); running != 0 {
			t.Errorf("%d slots are still held", running)
		}
	}
}

// Everything that is stored for a guest counts towards the limit of the guest's address.
func TestInteractionsOfAGuestAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	few := func(n int) func(*fixture, *choice) {
		return func(_ *fixture, c *choice) { c.limits.Interactions = n }
	}
	again := func(r *fixture, b *browser) func() shownPage {
		page := b.open(asking(r.shop, "prompt=select_account"))
		return func() shownPage {
			return b.post(interactionURL, "id="+page.field("id"), "step=account", "action=switch")
		}
	}
	for name, c := range map[string]struct {
		before int // interactions of the preparation
		begin  func(r *fixture) func() shownPage
	}{
		"authorize": {0, func(r *fixture) func() shownPage {
			b := r.browser()
			return func() shownPage { return b.get(asking(r.shop)) }
		}},
		"account pages": {0, func(r *fixture) func() shownPage {
			b := r.browser()
			return func() shownPage { return b.get(connectionsURL) }
		}},
		"logout": {0, func(r *fixture) func() shownPage {
			b := r.signedIn("alice")
			return func() shownPage { return b.get(endSessionURL + "?client_id=shop") }
		}},
		"logout by POST": {0, func(r *fixture) func() shownPage {
			b := r.browser()
			return func() shownPage { return b.post(endSessionURL, "client_id=shop") }
		}},
		"another account": {1, func(r *fixture) func() shownPage { return again(r, r.signedIn("alice")) }},
	} {
		r := newFixture(t, few(c.before+1))
		do := c.begin(r)
		if s := do(); s.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: status %d", name, s.StatusCode)
		}
		if name == "another account" {
			continue // the second click redirects to the new interaction
		}
		if s := do(); s.StatusCode != http.StatusTooManyRequests || s.Header.Get("Retry-After") == "" {
			t.Errorf("%s, beyond the limit: status %d", name, s.StatusCode)
		}
		b := r.browser()
		if b.from = "198.51.100.7:1"; b.get(asking(r.shop)).StatusCode != http.StatusSeeOther {
			t.Errorf("%s: another address is throttled as well", name)
		}
	}
	r := newFixture(t, few(1))
	if s := again(r, r.signedIn("alice"))(); s.StatusCode != http.StatusTooManyRequests {
		t.Errorf("another account, beyond the limit: status %d", s.StatusCode)
	}
}

// Logins and logouts that a provider has confirmed do not count towards the limit of their
// address. Forged ones do.
func TestLoginsThatAProviderConfirmsDoNotCountTowardsTheLimit(t *testing.T) {
	t.Parallel()
	const n = 4
	p := newProvider(t)
	r := newFixture(t, atProvider(p), func(_ *fixture, c *choice) { c.limits.Interactions = n + 1 })
	for i := range n {
		b := r.browser()
		if s := b.get(callbackURL + "?code=c&state=" + p.sent(b.open(asking(r.shop)))); s.StatusCode != http.StatusSeeOther || !b.isSignedIn() {
			t.Fatalf("login %d: status %d", i+1, s.StatusCode)
		}
	}
	p = newProvider(t)
	r = newFixture(t, atProvider(p), func(_ *fixture, c *choice) { c.limits.Interactions = n })
	backchannel := func(token string) shownPage {
		return r.browser().post(publicURL+"/oauth2/backchannel_logout", "logout_token="+token)
	}
	for i := range 3 * n {
		if s := backchannel(p.logoutToken(string(rune('a'+i)), "s1")); s.StatusCode != http.StatusOK {
			t.Fatalf("logout %d: status %d", i+1, s.StatusCode)
		}
	}
	forger := newProvider(t)
	forger.url, forger.now = p.url, p.now
	var statuses []int
	for range n + 1 {
		statuses = append(statuses, backchannel(forger.logoutToken("j", "s1")).StatusCode)
	}
	if want := append(slices.Repeat([]int{http.StatusBadRequest}, n), http.StatusTooManyRequests); !slices.Equal(statuses, want) {
		t.Errorf("forged logouts: %v", statuses)
	}
	r = newFixture(t, atProvider(p), func(_ *fixture, c *choice) { c.limits.Interactions = 3 })
	b := r.browser()
	state := p.sent(b.open(asking(r.shop)))
	other := p.sent(b.open(asking(r.shop)))
	p.claims["aud"] = "another"
	if s := b.get(callbackURL + "?code=c&state=" + other); s.StatusCode != http.StatusBadGateway {
		t.Errorf("a made-up answer: status %d", s.StatusCode)
	}
	if s := b.get(callbackURL + "?code=c&state=" + state); s.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a forged answer beyond the limit: status %d", s.StatusCode)
	}
}

// The server redirects an authorization request by POST to the same request by GET, with
// which browsers send their cookies.
func TestAnAuthorizationByPOSTIsRepeatedByGET(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.signedIn("alice")
	address := asking(r.shop, "state=ä b&c")
	query := address[strings.Index(address, "?")+1:]
	s := b.do("POST", publicURL+"/oauth2/authorize?realm=/api", must(url.ParseQuery(strings.ReplaceAll(query, "realm=", "x="))))
	if s.StatusCode != http.StatusSeeOther || !strings.HasPrefix(s.to(), publicURL+"/oauth2/authorize?realm=/api&") || len(s.Cookies()) != 0 {
		t.Errorf("status %d to %q, cookies %v", s.StatusCode, s.to(), s.Cookies())
	}
	q := b.follow(s).at(t, login.StepConsent)
	if to := b.post(interactionURL, "id="+q.field("id"), "step=consent", "decision=allow"); to.query().Get("state") != "ä b&c" {
		t.Errorf("state %q", to.query().Get("state"))
	}
	// Parameters that a URL cannot contain unchanged are percent-encoded.
	if s := b.send("POST", publicURL+"/oauth2/authorize", "state=ä\x7f&"+query); !strings.Contains(s.to(), "state=%C3%A4%7F&") {
		t.Errorf("to %q", s.to())
	}
	if s := b.post(asking(r.shop), "x="+strings.Repeat("y", 12<<10)); s.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("more than an address can hold: status %d", s.StatusCode)
	}
	for name, address := range map[string]string{"authorize": asking(r.shop, "realm=/other"), "end_session": endSessionURL + "?realm=/other"} {
		if s := b.get(address); s.StatusCode != http.StatusBadRequest || s.to() != "" {
			t.Errorf("%s at another realm: status %d to %q", name, s.StatusCode, s.to())
		}
	}
}

// Pages are in the language that the client requests, on every page of its request.
// Otherwise they are in the language of the browser.
func TestPagesAreInTheLanguageThatWasAskedFor(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.browser()
	in := func(name, want string, s shownPage) {
		t.Helper()
		if !strings.Contains(s.body, `<html lang="`+want+`"`) {
			t.Errorf("%s: status %d, not in %s", name, s.StatusCode, want)
		}
	}
	page := b.open(asking(r.shop, "ui_locales=ja")).at(t, login.StepLogin)
	in("login", "ja", page)
	in("wrong password", "ja", b.logIn(page, "alice", "wrong"))
	in("refused", "ja", b.get(asking(r.shop, "ui_locales=ja", "redirect_uri=https://evil.example/")))
	in("consent", "ja", b.follow(b.logIn(page, "alice", password)))
	in("logout", "ja", b.open(endSessionURL+"?client_id=shop&ui_locales=ja"))
	in("refused logout", "ja", b.get(endSessionURL+"?ui_locales=ja&id_token_hint=x"))
	r.kit.Clock.Advance(11 * time.Minute)
	in("expired", "ja", b.get(interactionURL+"?id="+page.field("id")))
	in("no language", "en", b.get(logoutURL))
	b.header["Accept-Language"] = "ja, en;q=0.5"
	for name, address := range map[string]string{"connections": connectionsURL, "logout": logoutURL, "login": asking(r.shop), "error": interactionURL + "?id=x"} {
		in(name+" of the browser", "ja", b.open(address))
	}
}

// The page lists the connections, and confirms a disconnection. It never says that a
// connected client is disconnected, even if a link claims so.
func TestConnections(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	other := r.client(client.Registration{ID: "other", Settings: store.Settings{Name: "Other <b>"}})
	gone := r.client(client.Registration{ID: "gone", Settings: store.Settings{Name: "Gone"}})
	b := r.signedIn("alice")
	for _, c := range []store.Client{r.shop, other, gone} {
		b.agree(asking(c))
	}
	r.kit.Administer("gone", func(c *store.Client) { c.State = store.ClientDeleted })
	s := b.get(connectionsURL)
	for _, text := range []string{"User alice", "Shop", "Other &lt;b&gt;", `value="gone"`} {
		if !strings.Contains(s.body, text) {
			t.Errorf("the page does not have %q", text)
		}
	}
	count := func(s shownPage, name string) int { return strings.Count(s.body, name) }
	shown := count(s, "Shop")
	if s := b.get(connectionsURL + "?done=shop"); count(s, "Shop") != shown {
		t.Error("a link says that a connected client is disconnected")
	}
	if s := b.get(connectionsURL + "?done=evil"); strings.Contains(s.body, "evil") {
		t.Error("the page has the text of a link")
	}
	s = b.post(connectionsURL, "client_id=shop")
	if s.StatusCode != http.StatusSeeOther || s.to() != connectionsURL+"?done=shop" {
		t.Errorf("disconnect: status %d to %q", s.StatusCode, s.to())
	}
	if s := b.get(s.to()); count(s, "Shop") == 0 || s.field("client_id") == "shop" || count(s, `value="shop"`) != 0 {
		t.Errorf("afterwards, Shop is named %d times", count(s, "Shop"))
	}
	if s := b.get(connectionsURL); count(s, "Shop") != 0 {
		t.Error("a client is still connected")
	}
	if s := b.post(connectionsURL); s.StatusCode != http.StatusBadRequest {
		t.Errorf("disconnect nobody: status %d", s.StatusCode)
	}
	events := must(r.kit.Engine.Events(t.Context(), store.AboutSubject("s-alice"), 10))
	if i := slices.IndexFunc(events, func(e store.Event) bool { return e.Name == store.EventDisconnected }); i < 0 || !strings.Contains(events[i].Detail, `"shop", from 192.0.2.1`) {
		t.Errorf("events %+v", events)
	}
	stranger := r.browser()
	s = stranger.post(connectionsURL, "client_id=other")
	if s.StatusCode != http.StatusSeeOther || !strings.HasPrefix(s.to(), interactionURL) || stranger.cookies[browserName] == "" {
		t.Errorf("a guest: status %d to %q", s.StatusCode, s.to())
	}
	if s := stranger.follow(stranger.logIn(stranger.follow(s).at(t, login.StepLogin), "alice", password)); s.StatusCode != http.StatusOK || count(s, "Other") == 0 {
		t.Errorf("after the login: status %d", s.StatusCode)
	}
}

// The page of a step has the fields of its form, and names the client.
func TestContentsOfThePagesOfAnInteraction(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.browser()
	has := func(name string, s shownPage, want bool, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if strings.Contains(s.body, text) != want {
				t.Errorf("%s: %q is there: %t", name, text, !want)
			}
		}
	}
	const cancel = `value="cancel"`
	page := b.open(asking(r.shop, "login_hint=al@shop")).at(t, login.StepLogin)
	has("login", page, true, "Shop", "shop.example", `value="al@shop"`, cancel)
	wrong := b.logIn(page, "typed", "wrong").at(t, login.StepLogin)
	has("wrong password", wrong, true, "Shop", "shop.example", `value="typed"`, cancel)
	if wrong.field("id") != page.field("id") {
		t.Error("the form is that of another interaction")
	}
	own := b.open(connectionsURL).at(t, login.StepLogin)
	has("login for the account pages", own, false, cancel)
	has("wrong password there", b.logIn(own, "alice", "wrong").at(t, login.StepLogin), false, cancel)
	b.follow(b.logIn(page, "alice", password)).at(t, login.StepConsent)
	choice := b.open(asking(r.shop, "prompt=select_account")).at(t, login.StepAccount)
	has("account", choice, true, "Shop", "User alice", "alice", cancel)
	first := b.open(asking(r.shop)).at(t, login.StepConsent)
	has("consent", first, true, "Shop", "shop.example", "User alice", `name="remember"`)
	b.post(interactionURL, "id="+first.field("id"), "step=consent", "decision=allow", "remember=yes")
	r.secondFactor("alice")
	for _, c := range []struct {
		address string
		cancel  bool
	}{{asking(r.shop), true}, {connectionsURL, false}} {
		stranger := r.browser()
		factor := stranger.follow(stranger.logIn(stranger.open(c.address).at(t, login.StepLogin), "alice", password)).at(t, login.StepSecondFactor)
		wrong := stranger.post(interactionURL, "id="+factor.field("id"), "step=second_factor", "code=1").at(t, login.StepSecondFactor)
		for name, s := range map[string]shownPage{"code": factor, "wrong code": wrong} {
			has(name, s, c.cancel, cancel, "Shop")
			if s.field("id") != factor.field("id") {
				t.Errorf("%s: the form is that of another interaction", name)
			}
		}
	}
}

// A form for a step other than the current one, or without a session, changes nothing.
func TestFormsOfOtherSteps(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.signedIn("alice")
	choice := b.open(asking(r.shop, "prompt=select_account")).at(t, login.StepAccount)
	id := "id=" + choice.field("id")
	at := interactionURL + "?" + id
	for name, pairs := range map[string][]string{
		"login":         {"step=login", "username=alice", "password=" + password},
		"second factor": {"step=second_factor", "code=1"},
		"consent":       {"step=consent", "decision=allow"},
		"switch":        {"step=login", "action=switch"},
	} {
		if s := b.post(interactionURL, append([]string{id}, pairs...)...); s.StatusCode != http.StatusSeeOther || s.to() != at {
			t.Errorf("%s: status %d to %q", name, s.StatusCode, s.to())
		}
	}
	for name, pairs := range map[string][]string{"no button": {"step=account"}, "another button": {"step=account", "action=else"}} {
		if s := b.post(interactionURL, append([]string{id}, pairs...)...); s.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d to %q", name, s.StatusCode, s.to())
		}
	}
	leaving := b.open(endSessionURL+"?client_id=shop").at(t, stepLogout)
	if s := b.post(interactionURL, "id="+leaving.field("id"), "step=logout"); s.StatusCode != http.StatusBadRequest || !b.isSignedIn() {
		t.Errorf("a logout without a button: status %d", s.StatusCode)
	}
	b.get(at).at(t, login.StepAccount)
}

// The account page applies to the user whom it shows: if another user has signed in since,
// in another tab, the page is shown again with that user.
func TestAnAccountIsChosenAsItWasShown(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	r.user("bob")
	b := r.signedIn("alice")
	choice := b.open(asking(r.shop, "prompt=select_account")).at(t, login.StepAccount)
	form := []string{"id=" + choice.field("id"), "step=account", "session=" + choice.field("session"), "action=continue"}
	b.cookies[sessionName] = r.signedIn("bob").cookies[sessionName]
	if again := b.follow(b.post(interactionURL, form...)).at(t, login.StepAccount); !strings.Contains(again.body, "User bob") || strings.Contains(again.body, "alice") {
		t.Errorf("the page shows\n%s", again.body)
	}
	alice := r.signedIn("alice")
	b.cookies[sessionName] = alice.cookies[sessionName]
	choice = b.get(interactionURL+"?id="+choice.field("id")).at(t, login.StepAccount)
	b.follow(b.post(interactionURL, "id="+choice.field("id"), "step=account", "session="+choice.field("session"), "action=continue")).at(t, login.StepConsent)
}

// A user who has signed out meanwhile signs in again in a new interaction. The old
// interaction redirects to the new one.
func TestAUserWhoSignedOutMeanwhileSignsInAgain(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.signedIn("alice")
	consent := b.open(asking(r.shop)).at(t, login.StepConsent)
	old := interactionURL + "?id=" + consent.field("id")
	b.post(logoutURL)
	s := b.post(interactionURL, "id="+consent.field("id"), "step=consent", "decision=allow")
	if s.StatusCode != http.StatusSeeOther || s.to() == old || !strings.HasPrefix(s.to(), interactionURL+"?id=") {
		t.Fatalf("status %d to %q", s.StatusCode, s.to())
	}
	if again := b.get(old); again.to() != s.to() {
		t.Errorf("the old interaction redirects to %q, not %q", again.to(), s.to())
	}
	page := b.follow(b.logIn(b.follow(s).at(t, login.StepLogin), "alice", password)).at(t, login.StepConsent)
	// If the user asks for another account, the present session is not enough.
	next := b.post(interactionURL, "id="+page.field("id"), "step=consent", "action=switch")
	b.follow(next).at(t, login.StepLogin)
}

// A browser in which a user has signed in before keeps attempts of its own when other
// browsers have used up theirs.
func TestABrowserThatIsKnownIsNotThrottledWithOthers(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(_ *fixture, c *choice) { c.Users.SetFailures(1) })
	b := r.browser()
	page := b.open(asking(r.shop)).at(t, login.StepLogin)
	s := b.logIn(page, "alice", password)
	if s.StatusCode != http.StatusSeeOther || b.cookies[knownName] == "" {
		t.Fatalf("status %d, cookies %v", s.StatusCode, b.cookies)
	}
	for _, c := range s.Cookies() {
		want := map[string]int{knownName: 365 * 24 * 3600}[c.Name]
		if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != want {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
	stranger := r.browser()
	theirs := stranger.open(asking(r.shop)).at(t, login.StepLogin)
	stranger.logIn(theirs, "alice", "wrong")
	if s := stranger.logIn(theirs, "alice", password); s.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("a new browser: status %d", s.StatusCode)
	}
	delete(b.cookies, sessionName)
	if s := b.logIn(b.open(asking(r.shop)).at(t, login.StepLogin), "alice", password); s.StatusCode != http.StatusSeeOther {
		t.Errorf("the known browser: status %d", s.StatusCode)
	}
}

// If the password changes before the second factor's code is checked, the login starts
// over, however the change is timed.
func TestAPasswordThatIsChangedBeforeTheCode(t *testing.T) {
	t.Parallel()
	for name, during := range map[string]bool{"before the code is sent": false, "while it is compared": true} {
		r := newFixture(t)
		code := r.secondFactor("alice")
		b := r.browser()
		page := b.follow(b.logIn(b.open(asking(r.shop)).at(t, login.StepLogin), "alice", password)).at(t, login.StepSecondFactor)
		change := func() {
			r.change("alice", func(u account.User) account.User { return must(u.SetPassword("another long password", r.kit.At()+1)) })
		}
		if during {
			alive := r.Authorizer.Alive
			r.Authorizer.Alive = func(ctx context.Context, username string, epoch int64) (bool, error) {
				ok, err := alive(ctx, username, epoch)
				r.Authorizer.Alive = alive
				change()
				return ok, err
			}
		} else {
			change()
		}
		s := b.post(interactionURL, "id="+page.field("id"), "step=second_factor", "code="+code())
		if b.isSignedIn() || s.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: status %d, signed in: %t", name, s.StatusCode, b.isSignedIn())
		}
		b.follow(s).at(t, login.StepLogin)
	}
}

// If the second factor is removed before its code is sent, the login starts over, and
// needs the password alone.
func TestASecondFactorThatIsRemovedBeforeTheCode(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	code := r.secondFactor("alice")
	b := r.browser()
	page := b.follow(b.logIn(b.open(asking(r.shop)).at(t, login.StepLogin), "alice", password)).at(t, login.StepSecondFactor)
	r.change("alice", func(u account.User) account.User { return u.RemoveTOTP(r.kit.At() + 1) })
	s := b.post(interactionURL, "id="+page.field("id"), "step=second_factor", "code="+code())
	if b.isSignedIn() || s.StatusCode != http.StatusSeeOther {
		t.Fatalf("status %d, signed in: %t", s.StatusCode, b.isSignedIn())
	}
	if b.logIn(b.follow(s).at(t, login.StepLogin), "alice", password); !b.isSignedIn() {
		t.Error("the password alone does not sign in")
	}
}

// Each page that uses a session renews the time stamp in its cookie.
func TestUseKeepsASessionAlive(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.signedIn("alice")
	b.agree(asking(r.shop))
	leaving := endSessionURL + "?client_id=shop"
	id := b.open(asking(r.shop, "prompt=select_account")).at(t, login.StepAccount).field("id")
	b.post(interactionURL, "id="+id, "step=account", "action=continue") // the interaction is answered and redirects to the client
	for name, use := range map[string]func() shownPage{
		"connections": func() shownPage { return b.get(connectionsURL) },
		"authorize":   func() shownPage { return b.get(asking(r.shop)) },
		"consent":     func() shownPage { return b.get(interactionURL + "?id=" + id) },
		"logout":      func() shownPage { return b.open(leaving) },
	} {
		r.kit.Clock.Advance(2 * time.Minute)
		before := b.cookies[sessionName]
		if use(); b.cookies[sessionName] == before {
			t.Errorf("%s does not note the use of the session", name)
		}
	}
}

// If the store fails, the page says so, and the session continues.
func TestAFailingStoreEndsNoSession(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	b := r.signedIn("alice")
	consent := b.open(asking(r.shop)).at(t, login.StepConsent)
	for name, address := range map[string]string{
		"connections": connectionsURL, "logout": logoutURL, "end_session": endSessionURL, "authorize": asking(r.shop), "interaction": interactionURL + "?id=" + consent.field("id"),
	} {
		r.kit.Faulty.Inject(storetest.Document, 9, storetest.Lost)
		if s := b.get(address); s.StatusCode != http.StatusServiceUnavailable || s.Header.Get("Retry-After") == "" || b.cookies[sessionName] == "" {
			t.Errorf("%s: status %d to %q", name, s.StatusCode, s.to())
		}
		r.kit.Faulty.Heal()
	}
	if !b.isSignedIn() {
		t.Error("signed out")
	}
}
