package conformance_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/web"
)

const (
	devicePath = "/oauth2/device_authorization"
	deviceURL  = publicURL + web.DevicePath
)

// codes is the response of the device authorization endpoint.
type codes struct {
	DeviceCode string `json:"device_code"`
	UserCode   string `json:"user_code"`
	Page       string `json:"verification_uri"`
	Complete   string `json:"verification_uri_complete"`
	ExpiresIn  int    `json:"expires_in"`
	Interval   int    `json:"interval"`
}

// terminal registers a public client for the device grant.
func (d *deployment) terminal(change ...func(*client.Registration)) oauthClient {
	d.t.Helper()
	r := client.Registration{Settings: store.Settings{Name: "Terminal", Auth: store.AuthNone, RedirectURIs: []string{}, GrantTypes: []string{"device_code", "refresh_token"}}}
	for _, f := range change {
		f(&r)
	}
	return d.client(r)
}

func (d *deployment) ask(c oauthClient, pairs ...string) answer {
	d.t.Helper()
	r := newRequest(c.identify(with(url.Values{}, pairs...)))
	r.target = devicePath
	return d.send(r)
}

func (d *deployment) codes(c oauthClient, pairs ...string) (out codes) {
	d.t.Helper()
	a := d.ask(c, pairs...)
	if err := json.Unmarshal([]byte(a.body), &out); a.status != http.StatusOK || err != nil || out.DeviceCode == "" {
		d.t.Fatalf("%v, %v", a, err)
	}
	return out
}

func (c oauthClient) polls(device codes, pairs ...string) url.Values {
	return with(c.identify(url.Values{"grant_type": {store.GrantDeviceCode}, "device_code": {device.DeviceCode}}), pairs...)
}

// enter submits a user code, and follows to the next page.
func (b *browser) enter(code string) shownPage {
	b.t.Helper()
	return b.follow(b.post(deviceURL, "user_code="+code))
}

// answerDevice submits the decision on a device's page.
func (b *browser) answerDevice(page shownPage, decision string) shownPage {
	b.t.Helper()
	return b.follow(b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision="+decision, "same=yes"))
}

func TestDV01_ADeviceGetsAPair(t *testing.T) {
	d, b := visitor(t)
	c := d.terminal()
	device := d.codes(c, "scope", "a b offline_access")
	letters := strings.ReplaceAll(device.UserCode, "-", "")
	if len(letters) != 8 || device.UserCode[4] != '-' || strings.Trim(letters, "BCDFGHJKLMNPQRSTVWXZ") != "" || device.Page != deviceURL ||
		device.Complete != deviceURL+"?user_code="+device.UserCode || device.ExpiresIn != 600 || device.Interval != 5 || !strings.HasPrefix(device.DeviceCode, "mintage_dc_") {
		t.Errorf("the answer is %+v", device)
	}
	want(t, d.post(c.polls(device)), 400, "authorization_pending")
	page := b.get(deviceURL)
	if page.StatusCode != 200 || !strings.Contains(page.body, `name="user_code"`) {
		t.Fatalf("%d %q", page.StatusCode, page.title())
	}
	page = b.logIn(b.enter(device.UserCode).at(t, "login"), username, password)
	for _, shown := range []string{device.UserCode, "<bdi>Terminal</bdi>", "The request came from <bdi>127.", "It came just now.", "<bdi>User alice (alice)</bdi>", `name="same"`} {
		if !strings.Contains(page.body, shown) {
			t.Errorf("the page does not show %s: %s", shown, page.body)
		}
	}
	d.step(5 * time.Second)
	want(t, d.post(c.polls(device)), 400, "authorization_pending")
	if done := b.answerDevice(page, "allow"); done.StatusCode != 200 || !strings.Contains(done.body, "may now access your account") {
		t.Fatalf("%d %q", done.StatusCode, done.title())
	}
	d.step(5 * time.Second)
	pair := d.mustIssue(d.post(c.polls(device)))
	if pair.Scope != "a b" || pair.ExpiresIn != "300" {
		t.Errorf("the pair is %+v", pair)
	}
	if in := d.introspect(d.resourceServer(), pair.AccessToken); !strings.Contains(in.body, `"sub":"alice"`) || !strings.Contains(in.body, `"client_id":"`+c.ID+`"`) {
		t.Errorf("introspection answers %s", in.body)
	}
	if a := d.tokenInfo(pair.AccessToken); !strings.Contains(a.body, `"grant_type":"`+store.GrantDeviceCode+`"`) {
		t.Errorf("token info answers %s", a.body)
	}
	d.alive(c, pair.RefreshToken)
}

func TestDV02_AConfidentialClientAuthenticatesWhenItAsks(t *testing.T) {
	d, b := signedIn(t)
	c := d.terminal(func(r *client.Registration) { r.Auth = store.AuthEither })
	unproven := oauthClient{Client: c.Client}
	a := d.ask(unproven)
	want(t, a, 400, "invalid_client")
	if !strings.Contains(a.body, "SetAuthURLParam") || !strings.Contains(a.body, "public") {
		t.Errorf("the refusal does not name the remedy: %s", a.body)
	}
	want(t, d.ask(oauthClient{Client: c.Client, secret: "wrong"}), 400, "invalid_client")
	want(t, d.ask(oauthClient{Client: store.Client{ID: "nobody"}}), 400, "invalid_client")
	device := d.codes(c)
	want(t, d.post(unproven.polls(device)), 400, "invalid_client")
	b.answerDevice(b.enter(device.UserCode), "allow")
	want(t, d.post(unproven.polls(device)), 400, "invalid_client")
	d.mustIssue(d.post(c.polls(device)))
}

func TestDV03_WhatADeviceMayAskFor(t *testing.T) {
	d, b := signedIn(t)
	c := d.terminal()
	want(t, d.ask(c, "scope", "a d"), 400, "invalid_scope")
	want(t, d.ask(c, "scope", `"`), 400, "invalid_scope")
	want(t, d.ask(c, "resource", "https://unknown.example"), 400, "invalid_target")
	want(t, d.ask(c, "resource", "no uri"), 400, "invalid_target")
	// The parameter audience means resource only for clients that are registered so.
	d.codes(c, "audience", "https://unknown.example")
	says := d.terminal(func(r *client.Registration) { r.AudienceParameter = true })
	d.codes(says)
	want(t, d.ask(says, "audience", "https://unknown.example"), 400, "invalid_target")
	want(t, d.ask(d.a), 400, "unauthorized_client")
	want(t, d.post(d.a.polls(d.codes(c))), 400, "unauthorized_client")
	want(t, d.post(c.polls(codes{})), 400, "invalid_request")
	// Without a scope, the request is for all scopes of the client.
	device := d.codes(c)
	b.answerDevice(b.enter(device.UserCode), "allow")
	if pair := d.mustIssue(d.post(c.polls(device))); pair.Scope != "a b c" {
		t.Errorf("scope %q", pair.Scope)
	}
	// A scope that the client loses before the poll is not granted.
	device = d.codes(c, "scope", "a b")
	b.answerDevice(b.enter(device.UserCode), "allow")
	c = d.change(c, func(c *store.Client) { c.Scope = "a" })
	if pair := d.mustIssue(d.post(c.polls(device))); pair.Scope != "a" {
		t.Errorf("scope %q", pair.Scope)
	}
}

func TestDV04_AUserCodeIsReadAsItIsTyped(t *testing.T) {
	d, b := signedIn(t)
	c := d.terminal()
	for _, typed := range []func(string) string{
		func(s string) string { return s },
		strings.ToLower,
		func(s string) string { return strings.ReplaceAll(s, "-", "") },
		func(s string) string { return " " + strings.ToLower(strings.ReplaceAll(s, "-", " ")) },
		func(s string) string { return strings.ReplaceAll(s, "-", "\u2010") },
	} {
		code := d.codes(c).UserCode
		if page := b.enter(typed(code)); !strings.Contains(page.body, code) || page.StatusCode != 200 {
			t.Errorf("%q: %d %q", typed(code), page.StatusCode, page.title())
		}
	}
	// Without a session, the response does not show whether a code is right.
	code, stranger := d.codes(c).UserCode, d.browser()
	right, wrong := stranger.enter(code).at(t, "login"), stranger.enter("BBBB-BBBB").at(t, "login")
	same := func(s shownPage) string { return strings.ReplaceAll(s.body, s.field("id"), "") }
	if same(right) != same(wrong) {
		t.Error("the pages differ")
	}
	for _, text := range []string{"AAAA-AAAA", "BBBB", "BBBB-BBBB-BBBB-BBBB", "", "\x00"} {
		if page := b.enter(text); page.StatusCode != http.StatusUnprocessableEntity && page.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: %d %q", text, page.StatusCode, page.title())
		}
	}
	// A code that was decided looks like an unknown one, in both forms.
	b.answerDevice(b.enter(code), "deny")
	if page := b.enter(code); page.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(page.body, "No device is waiting") {
		t.Errorf("%d %q", page.StatusCode, page.title())
	}
}

func TestDV05_ALinkIsComparedToo(t *testing.T) {
	d, b := signedIn(t)
	own := d.terminal(func(r *client.Registration) { r.FirstParty = true })
	for range 2 {
		device := d.codes(own, "scope", "a")
		first := b.get(device.Complete)
		if to := first.Header.Get("Location"); first.StatusCode != http.StatusSeeOther || strings.Contains(to, device.UserCode) || !strings.HasPrefix(to, interactionURL) {
			t.Fatalf("%d to %s", first.StatusCode, to)
		}
		page := b.follow(first)
		if !strings.Contains(page.body, device.UserCode) || strings.Contains(page.body, `name="remember"`) {
			t.Errorf("the page is %q", page.title())
		}
		for name, value := range map[string]string{"X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "Cache-Control": "no-store"} {
			if got := page.Header.Get(name); got != value {
				t.Errorf("%s is %q", name, got)
			}
		}
		// Without the confirmation, nothing is decided.
		again := b.follow(b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=allow", "remember=yes"))
		if !strings.Contains(again.body, device.UserCode) {
			t.Errorf("%d %q", again.StatusCode, again.title())
		}
		want(t, d.post(own.polls(device)), 400, "authorization_pending")
		b.answerDevice(page, "allow")
		d.step(5 * time.Second)
		d.mustIssue(d.post(own.polls(device)))
	}
	// A form of another site is refused.
	device := d.codes(own)
	page := b.enter(device.UserCode)
	b.header["Sec-Fetch-Site"] = "cross-site"
	b.answerDevice(page, "allow").says(t, http.StatusForbidden, pages.CrossSite)
	b.post(deviceURL, "user_code="+device.UserCode).says(t, http.StatusForbidden, pages.CrossSite)
}

func TestDV06_AnswersToAPoll(t *testing.T) {
	d, b := signedIn(t)
	c, other := d.terminal(), d.terminal()
	device := d.codes(c)
	want(t, d.post(other.polls(device)), 400, "invalid_grant")
	want(t, d.post(c.polls(codes{DeviceCode: device.DeviceCode + "A"})), 400, "invalid_grant")
	want(t, d.post(c.polls(codes{DeviceCode: "mintage_dc_x"})), 400, "invalid_grant")
	// Two requests of one poll, with different authentication methods, count as one.
	poll := func(after time.Duration, code string) {
		t.Helper()
		d.step(after)
		want(t, d.post(c.polls(device)), 400, code)
		d.step(3 * time.Millisecond)
		r := newRequest(c.polls(device, "client_id", ""))
		r.header = append(r.header, "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte(c.ID+":")))
		want(t, d.send(r), 400, code)
	}
	poll(0, "authorization_pending")
	poll(5*time.Second, "authorization_pending")
	poll(2*time.Second, "slow_down")              // the interval is now 10 s
	poll(6*time.Second, "slow_down")              // and now 15 s
	poll(15*time.Second, "authorization_pending") // it stays 15 s
	poll(5*time.Second, "slow_down")
	d.step(20 * time.Second)
	b.answerDevice(b.enter(device.UserCode), "deny")
	poll(0, "access_denied")
	poll(30*time.Second, "access_denied")

	device = d.codes(c)
	d.step(10*time.Minute - time.Millisecond)
	want(t, d.post(c.polls(device)), 400, "authorization_pending")
	d.step(time.Minute)
	want(t, d.post(c.polls(device)), 400, "expired_token")
	if page := b.enter(device.UserCode); page.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("%d %q", page.StatusCode, page.title())
	}
	d.step(24 * time.Hour)
	want(t, d.post(c.polls(device)), 400, "expired_token")
	want(t, d.post(other.polls(device)), 400, "invalid_grant")
}

func TestDV07_ADeviceCodeIsRedeemedOnce(t *testing.T) {
	d, b := signedIn(t)
	c, other := d.terminal(), d.terminal()
	device := d.codes(c)
	b.answerDevice(b.enter(device.UserCode), "allow")
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			a, err := d.postVia(d.httpClient(), c.polls(device))
			mu.Lock()
			defer mu.Unlock()
			if err != nil || a.status != 200 {
				t.Errorf("%v, %v", a, err)
			}
			got[a.RefreshToken+a.AccessToken]++
		})
	}
	all.Wait()
	if len(got) != 1 || len(d.grants()) != 1 {
		t.Errorf("%d pairs, %d grants", len(got), len(d.grants()))
	}
	want(t, d.post(other.polls(device)), 400, "invalid_grant")
	d.step(59 * time.Second) // within the minute of a public client's retry window
	pair := d.mustIssue(d.post(c.polls(device)))
	if got[pair.RefreshToken+pair.AccessToken] == 0 {
		t.Error("another pair")
	}
	d.step(5 * time.Second)
	next := d.alive(c, pair.RefreshToken)
	want(t, d.post(c.polls(device)), 400, "invalid_grant") // the tokens were used: a replay
	want(t, d.post(c.refresh(next.RefreshToken)), 400, "invalid_grant")

	device = d.codes(c)
	b.answerDevice(b.enter(device.UserCode), "allow")
	pair = d.mustIssue(d.post(c.polls(device)))
	d.step(2 * time.Minute)
	want(t, d.post(c.polls(device)), 400, "invalid_grant")
	want(t, d.post(c.refresh(pair.RefreshToken)), 400, "invalid_grant")
}

func TestDV08_AChallengeIsHeldTo(t *testing.T) {
	d, b := signedIn(t)
	c := d.terminal()
	want(t, d.ask(c, "code_challenge", challenge), 400, "invalid_request")
	want(t, d.ask(c, "code_challenge", challenge, "code_challenge_method", "plain"), 400, "invalid_request")
	want(t, d.ask(c, "code_challenge", "short", "code_challenge_method", "S256"), 400, "invalid_request")
	want(t, d.ask(c, "code_challenge_method", "S256"), 400, "invalid_request")
	device := d.codes(c, "code_challenge", challenge, "code_challenge_method", "S256")
	// Even before the user has decided, a wrong verifier is an error.
	want(t, d.post(c.polls(device)), 400, "invalid_grant")
	want(t, d.post(c.polls(device, "code_verifier", strings.Repeat("x", 43))), 400, "invalid_grant")
	want(t, d.post(c.polls(device, "code_verifier", verifier)), 400, "authorization_pending")
	b.answerDevice(b.enter(device.UserCode), "allow")
	want(t, d.post(c.polls(device)), 400, "invalid_grant")
	want(t, d.post(c.polls(device, "code_verifier", strings.Repeat("x", 43))), 400, "invalid_grant")
	want(t, d.post(c.polls(device, "code_verifier", "short")), 400, "invalid_request")
	d.mustIssue(d.post(c.polls(device, "code_verifier", verifier)))
	want(t, d.post(c.polls(device)), 400, "invalid_grant")
	d.mustIssue(d.post(c.polls(device, "code_verifier", verifier)))
	// A verifier without a challenge in the request is an error, too.
	device = d.codes(c)
	want(t, d.post(c.polls(device, "code_verifier", verifier)), 400, "invalid_grant")
	b.answerDevice(b.enter(device.UserCode), "allow")
	want(t, d.post(c.polls(device, "code_verifier", verifier)), 400, "invalid_grant")
	d.mustIssue(d.post(c.polls(device)))
}

func TestDV09_APollWritesNothing(t *testing.T) {
	d, b := signedIn(t)
	c := d.terminal()
	d.written()
	device := d.codes(c)
	if n := d.written(); n != 1 {
		t.Errorf("a request of a device writes %d times", n)
	}
	for range 20 {
		d.step(6 * time.Second)
		want(t, d.post(c.polls(device)), 400, "authorization_pending")
	}
	if n := d.written(); n != 0 {
		t.Errorf("20 polls have written %d times", n)
	}
	b.answerDevice(b.enter(device.UserCode), "allow")
	d.step(6 * time.Second)
	d.faulty.Inject(storetest.Document, 1, storetest.Lost)
	want(t, d.post(c.polls(device)), 400, "authorization_pending")
	if !strings.Contains(d.log.String(), `"level":"ERROR"`) {
		t.Error("the fault is not in the log")
	}
	d.written()
	d.step(6 * time.Second)
	d.mustIssue(d.post(c.polls(device)))
	if n := d.written(); n != 1 {
		t.Errorf("a redemption has written %d times", n)
	}
}

func TestDV10_WrongUserCodes(t *testing.T) {
	d := start(t, withFront, func(o *options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	c := d.terminal()
	visit := func(name, address string) *browser {
		d.user(name, cheaply)
		b := d.browser()
		b.header["X-Forwarded-For"], b.header["X-Forwarded-Proto"] = address, "https"
		d.signIn(b, name)
		return b
	}
	guesser := visit("mallory", "192.0.2.1")
	wrong := func(b *browser) int { return b.enter("BBBB-BBBB").StatusCode }
	for range 10 {
		if status := wrong(guesser); status != http.StatusUnprocessableEntity {
			t.Fatalf("status %d", status)
		}
	}
	guesser.enter("BBBB-BBBB").says(t, http.StatusTooManyRequests, pages.TooManyCodes)
	device := d.codes(c)
	guesser.enter(device.UserCode).says(t, http.StatusTooManyRequests, pages.TooManyCodes) // even a right code is not checked now
	// Other users of the network are not refused, even when it has used up its limit.
	for i := range 9 {
		other := visit("m"+string(rune('a'+i)), "192.0.2.1")
		for range 10 {
			wrong(other)
		}
	}
	late := visit("late", "192.0.2.1")
	if status := wrong(late); status != http.StatusUnprocessableEntity {
		t.Errorf("status %d", status)
	}
	if status := wrong(late); status != http.StatusTooManyRequests {
		t.Errorf("the network is over its limit, and a second wrong code is answered %d", status)
	}
	owner := visit("owner", "192.0.2.1")
	if page := owner.enter(device.UserCode); !strings.Contains(page.body, device.UserCode) {
		t.Errorf("%d %q", page.StatusCode, page.title())
	}
	d.step(time.Hour)
	if status := wrong(guesser); status != http.StatusUnprocessableEntity {
		t.Errorf("an hour later: status %d", status)
	}
}

func TestDV11_ADeviceOfAClientThatRegisteredItself(t *testing.T) {
	d, b := signedIn(t, func(o *options) { o.Registrations = &client.Registrations{} })
	d.openAPI()
	register := func(grants string) oauthClient {
		t.Helper()
		return d.registered(`{"client_name":"Agent","token_endpoint_auth_method":"none","redirect_uris":["` + redirect + `"],"grant_types":` + grants + `}`)
	}
	c := register(`["authorization_code","refresh_token","` + store.GrantDeviceCode + `"]`)
	device := d.codes(c)
	want(t, d.post(c.polls(device)), 400, "authorization_pending") // nothing of the client is stored
	page := b.enter(device.UserCode)
	if !strings.Contains(page.body, "The application calls itself “<bdi>Agent</bdi>”") || !strings.Contains(page.body, device.UserCode) {
		t.Fatalf("%d %q", page.StatusCode, page.title())
	}
	b.answerDevice(page, "allow")
	d.step(5 * time.Second)
	pair := d.mustIssue(d.post(c.polls(device)))
	d.alive(c, pair.RefreshToken)
	// With a record, the client can request further codes.
	device = d.codes(c)
	b.answerDevice(b.enter(device.UserCode), "allow")
	d.mustIssue(d.post(c.polls(device)))

	// A client that did not register the grant type gets no codes, with or without a
	// record.
	c = register(`["authorization_code"]`)
	want(t, d.ask(c), 400, "unauthorized_client")
	b.decide(b.open(asking(c)).at(t, "consent"), "allow")
	want(t, d.ask(c), 400, "unauthorized_client")
	want(t, d.ask(oauthClient{Client: store.Client{ID: "mintage_ci_AAAA"}}), 401, "invalid_client")

	// A client whose document was not fetched yet gets codes, but its user cannot approve
	// them.
	const address = "https://agent.example/client.json"
	d.directory.AdmitSelfRegistered(func(_, id string) bool { return id == address })
	d.authorizer.SelfRegistered = func(context.Context, oauth.AuthorizationRequest, netip.Prefix) (*store.Client, error) {
		return &store.Client{ID: address, Realm: realm, State: store.ClientEnabled, RegisteredBy: store.ByDocument, Secrets: []store.Secret{},
			Settings: store.Settings{Name: "Agent", Auth: store.AuthNone, GrantTypes: store.DefaultGrantTypes}}, nil
	}
	c = oauthClient{Client: store.Client{ID: address}}
	device = d.codes(c)
	if page := b.enter(device.UserCode); page.StatusCode != http.StatusBadRequest || strings.Contains(page.body, `name="same"`) {
		t.Errorf("%d %q", page.StatusCode, page.title())
	}
	d.step(5 * time.Second)
	want(t, d.post(c.polls(device)), 400, "authorization_pending")

	// If the document names the grant type, the page shows the client's host and not its
	// name, which anybody can copy.
	d.authorizer.SelfRegistered = func(context.Context, oauth.AuthorizationRequest, netip.Prefix) (*store.Client, error) {
		return &store.Client{ID: address, Realm: realm, State: store.ClientEnabled, RegisteredBy: store.ByDocument, Secrets: []store.Secret{},
			Settings: store.Settings{Name: "Agent", Auth: store.AuthNone, GrantTypes: append([]string{store.GrantDeviceCode}, store.DefaultGrantTypes...)}}, nil
	}
	if page := b.enter(d.codes(c).UserCode); !strings.Contains(page.body, "agent.example") || !strings.Contains(page.body, `name="same"`) {
		t.Errorf("%d %q\n%s", page.StatusCode, page.title(), page.body)
	}

	// A client whose record is older than the grant type in its document gets codes, too.
	recorded := store.Client{ID: address, Realm: realm, RegisteredBy: store.ByDocument, State: store.ClientEnabled, Settings: store.Settings{Name: "Agent", Auth: store.AuthNone, GrantTypes: store.DefaultGrantTypes}}
	if err := d.store.Commit(t.Context(), store.Change{Documents: []store.Document{recorded.Record(grant.At(d.now()), grant.At(d.now().Add(time.Hour)))}}); err != nil {
		t.Fatal(err)
	}
	d.codes(c)
}

func TestDV12_WhatEndsAGrantEndsTheDevices(t *testing.T) {
	for name, end := range map[string]func(*deployment, oauthClient){
		"cutoff of the subject": func(d *deployment, _ oauthClient) { d.cutOff(store.Cutoff{Subject: username}) },
		"cutoff of the client":  func(d *deployment, c oauthClient) { d.cutOff(store.Cutoff{ClientID: c.ID}) },
		"client disabled": func(d *deployment, c oauthClient) {
			d.change(c, func(c *store.Client) { c.State = store.ClientDisabled })
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, b := signedIn(t)
			c := d.terminal()
			waits, has := d.codes(c), d.codes(c)
			b.answerDevice(b.enter(waits.UserCode), "allow")
			b.answerDevice(b.enter(has.UserCode), "allow")
			pair := d.mustIssue(d.post(c.polls(has)))
			d.step(time.Second)
			end(d, c)
			d.step(5 * time.Second)
			if a := d.post(c.polls(waits)); a.status != 400 || a.Error != "invalid_grant" && a.Error != "invalid_client" {
				t.Errorf("a waiting device: %v", a)
			}
			if a := d.post(c.polls(has)); a.status != 400 || a.Error != "invalid_grant" && a.Error != "invalid_client" {
				t.Errorf("an approved device: %v", a)
			}
			if in := d.introspect(d.resourceServer(), pair.AccessToken); in.body != `{"active":false}` {
				t.Errorf("introspection answers %s", in.body)
			}
		})
	}
}

func TestDV13_MetadataOfTheDeviceGrant(t *testing.T) {
	for _, front := range []bool{true, false} {
		d := start(t, func(o *options) { o.front, o.alone = front, true })
		a := d.send(ask("GET", "/.well-known/oauth-authorization-server/oauth2/api"))
		var m struct {
			Endpoint string   `json:"device_authorization_endpoint"`
			Types    []string `json:"grant_types_supported"`
		}
		if err := json.Unmarshal([]byte(a.body), &m); err != nil {
			t.Fatal(err, a)
		}
		if has := slices.Contains(m.Types, store.GrantDeviceCode); has != front || (m.Endpoint == publicURL+"/oauth2/api/device_authorization" || m.Endpoint == publicURL+devicePath) != front {
			t.Errorf("with pages %v: %v, %q", front, has, m.Endpoint)
		}
		if !front {
			want(t, d.post(d.a.polls(codes{DeviceCode: "x"})), 400, "unsupported_grant_type")
		}
	}
}

func TestDV14_AnIDTokenOfADevice(t *testing.T) {
	d, b := signedIn(t)
	c := d.terminal(func(r *client.Registration) { r.Scope = "openid a" })
	device := d.codes(c, "scope", "openid a", "nonce", "n")
	b.answerDevice(b.enter(device.UserCode), "allow")
	pair := d.mustIssue(d.post(c.polls(device)))
	_, claims := d.verifyIDToken(c, pair)
	for name, there := range map[string]bool{"auth_time": true, "at_hash": true, "sid": true, "nonce": false} {
		if _, has := claims[name]; has != there {
			t.Errorf("%s: %v", name, has)
		}
	}
}

func TestDV15_WhoAnswersForADevice(t *testing.T) {
	d, b := signedIn(t)
	c := d.terminal()
	device := d.codes(c)
	page := b.enter(device.UserCode)
	// In another browser, the form belongs to no interaction.
	d.user("bob", cheaply)
	other := d.browser()
	d.signIn(other, "bob")
	mine := other.enter(device.UserCode)
	if s := other.post(interactionURL, "id="+page.field("id"), "step=consent", "decision=allow", "same=yes"); s.StatusCode != http.StatusForbidden {
		t.Errorf("another browser: %d", s.StatusCode)
	}
	want(t, d.post(c.polls(device)), 400, "authorization_pending")
	// Another user signs in in this browser while the page is open.
	d.signIn(b, "bob")
	b.answerDevice(page, "allow").says(t, http.StatusForbidden, pages.UserSwitched, `href="/device"`)
	// The first of two decisions counts.
	other.answerDevice(mine, "deny")
	d.signIn(b, username)
	b.answerDevice(page, "allow").says(t, http.StatusConflict, pages.InteractionAnswered, `href="/device"`)
	d.step(5 * time.Second)
	want(t, d.post(c.polls(device)), 400, "access_denied")
	if len(d.grants()) != 0 {
		t.Error("there is a grant")
	}
}
