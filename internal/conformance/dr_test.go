package conformance_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

const registerURL = "/oauth2/register"

// registering enables dynamic client registration.
func registering(o *options) { o.front, o.Registrations = true, &client.Registrations{} }

// selfRegistered returns the function by which a node recognizes registrations; nil if
// registration is off.
func selfRegistered(of *client.Registrations) func(context.Context, oauth.AuthorizationRequest, netip.Prefix) (*store.Client, error) {
	if of == nil {
		return nil
	}
	return func(_ context.Context, r oauth.AuthorizationRequest, _ netip.Prefix) (*store.Client, error) {
		c, err := of.Client(r.ClientID, r.RedirectURI)
		if err == nil {
			of.Directory.Latest().Offer(c)
		}
		return c, err
	}
}

// register sends a registration request.
func (d *deployment) register(body string, header ...string) answer {
	d.t.Helper()
	r := newRequest(nil)
	r.target, r.body = registerURL, &body
	r.set("Content-Type", "application/json")
	r.header = append(r.header, header...)
	return d.send(r)
}

// registered returns a client that has registered itself.
func (d *deployment) registered(body string) oauthClient {
	d.t.Helper()
	a := d.register(body)
	var got client.RegistrationAnswer
	if err := json.Unmarshal([]byte(a.body), &got); a.status != http.StatusCreated || err != nil {
		d.t.Fatalf("%d %s, %v", a.status, a.body, err)
	}
	return oauthClient{store.Client{ID: got.ID, Settings: store.Settings{RedirectURIs: got.RedirectURIs}}, got.Secret}
}

// written returns how many writes the server has made since the last call.
func (d *deployment) written() (n int) {
	for method, calls := range d.faulty.Calls() {
		if strings.HasPrefix(string(method), "Commit") || method == storetest.CreateGrant || method == storetest.UpdateGrant {
			n += calls
		}
	}
	return n
}

func TestDR01_TheAnswerAboutARegistration(t *testing.T) {
	d := start(t, registering)
	d.written()
	for method, c := range map[string]struct{ sent, want string }{
		"client_secret_basic": {`{"redirect_uris":["https://agent.example/cb"],"client_uri":"https://agent.example","logo_uri":"https://agent.example/x","jwks_uri":"https://agent.example/k","scope":"a","application_type":"web","client_name":null}`,
			`"redirect_uris":["https://agent.example/cb"],`},
		"client_secret_post": {`{"client_name":"Agent","redirect_uris":["https://agent.example/cb"],"grant_types":["authorization_code"],"response_types":["code"],"token_endpoint_auth_method":"client_secret_post"}`,
			`"client_name":"Agent","redirect_uris":["https://agent.example/cb"],`},
		"none": {`{"client_name":"Cursor","redirect_uris":["http://192.168.1.2/cb","cursor://anysphere.cursor-mcp/oauth/callback","http://localhost:3118/cb"],"token_endpoint_auth_method":"none"}`,
			`"client_name":"Cursor","redirect_uris":["cursor://anysphere.cursor-mcp/oauth/callback","http://localhost:3118/cb"],`},
	} {
		a := d.register(c.sent)
		var got client.RegistrationAnswer
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || !strings.HasPrefix(got.ID, keys.RegistrationPrefix) || len(got.ID) > 255 {
			t.Fatalf("%s: %d %s, %v", method, a.status, a.body, err)
		}
		secret := ""
		if method != "none" {
			secret = `"client_secret":"` + got.Secret + `","client_secret_expires_at":0,`
		}
		want := fmt.Sprintf(`{"client_id":"%s","client_id_issued_at":%d,%s%s"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"%s"}`,
			got.ID, d.now().Unix(), secret, c.want, method)
		if a.status != http.StatusCreated || a.body != want || method != "none" && len(got.Secret) < 43 || a.header["Cache-Control"][0] != "no-store" {
			t.Errorf("%s: %d %s, want %s", method, a.status, a.body, want)
		}
	}
	long := d.registered(`{"client_name":"` + strings.Repeat("名", 40) + `","redirect_uris":["https://a.example/1","https://a.example/2","https://a.example/3","https://a.example/4","https://a.example/5"]}`)
	if len(long.ID) > 255 {
		t.Errorf("%d characters", len(long.ID))
	}
	if n := d.written(); n != 0 {
		t.Errorf("%d writes", n)
	}
}

// Metrics have a label value for each client of an operator, and one for all
// self-registered clients, of which anybody can create any number.
func TestDR20_MetricsCountClientsThatRegisteredThemselvesTogether(t *testing.T) {
	m := metrics.New("test", 10)
	d, b := signedIn(t, registering, func(o *options) { o.Metrics = m })
	d.api(store.API{ID: ordersAPI, Number: 1, Open: true, Scopes: []store.APIScope{{Name: "orders", Number: 1}}})
	for range 2 {
		c := d.registered(`{"redirect_uris":["` + redirect + `"]}`)
		d.mustIssue(d.post(c.challenged(b.decide(b.open(asking(c, "scope=orders")).at(t, "consent"), "allow").code(t, redirect))))
	}
	d.tokens(d.a)
	got := map[string]float64{}
	for series, n := range testkit.Series(t, m) {
		if of, counted := strings.CutPrefix(series, "mintage_client_token_requests_total{client_id="); counted && n > 0 {
			client, _, _ := strings.Cut(of, ",")
			got[client] += n
		}
	}
	if want := map[string]float64{"self_registered": 2, d.a.ID: 1}; !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestDR02_ARegisteredClientGetsTokens(t *testing.T) {
	d, b := signedIn(t, registering)
	d.api(store.API{ID: ordersAPI, Number: 1, Open: true, Scopes: []store.APIScope{{Name: "orders", Number: 1}}})
	c := d.registered(`{"client_name":"Agent","redirect_uris":["` + redirect + `"]}`)
	record := func() *store.Client {
		t.Helper()
		rec, err := d.directory.Record(t.Context(), realm, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	// Before a user has consented, the client is unknown to the token endpoint.
	want(t, d.post(c.challenged("mintage_ac_x")), http.StatusUnauthorized, "invalid_client")
	page := b.open(asking(c, "scope=openid orders")).at(t, "consent")
	if record() != nil || !strings.Contains(page.body, "Agent") {
		t.Error("recorded before anybody has agreed, or not named")
	}
	form := c.challenged(b.decide(page, "allow").code(t, redirect))
	if rec := record(); rec == nil || rec.RegisteredBy != store.ByRequest || rec.Name != "Agent" || rec.MayUse(store.GrantClientCredentials) {
		t.Errorf("%+v", rec)
	}
	d.log.Reset()
	pair := d.mustIssue(d.post(form))
	if pair.Scope != "orders" {
		t.Errorf("scope %q", pair.Scope)
	}
	if !strings.Contains(d.log.String(), c.ID) {
		t.Error("the log does not name the client")
	}
	// Both methods of sending the secret are accepted, whichever was registered.
	r := newRequest(c.refresh(pair.RefreshToken))
	r.basic(c.ID, c.secret)
	pair = d.mustIssue(d.send(r))
	for what, secret := range map[string]string{"another": c.secret[1:] + "A", "that of another id": d.registered(`{"redirect_uris":["` + redirect + `"]}`).secret} {
		form = c.refresh(pair.RefreshToken)
		form.Set("client_secret", secret)
		if a := d.post(form); a.status != http.StatusBadRequest || a.Error != "invalid_client" {
			t.Errorf("%s secret: %v", what, a)
		}
	}
	form = c.refresh(pair.RefreshToken)
	form.Del("client_secret")
	want(t, d.post(form), http.StatusBadRequest, "invalid_client")
	want(t, d.post(c.identify(forItself())), http.StatusBadRequest, "unauthorized_client")
	d.alive(c, pair.RefreshToken)
	// Turning registration off also disables the self-registered clients.
	d.directory.AdmitSelfRegistered(func(_, _ string) bool { return false })
	want(t, d.post(c.refresh(pair.RefreshToken)), http.StatusUnauthorized, "invalid_client")
	b.get(asking(c)).says(t, http.StatusBadRequest, pages.UnknownClient)
}

func TestDR09_AnOperatorDisablesAClientThatRegisteredItself(t *testing.T) {
	d, b := signedIn(t, registering)
	d.api(store.API{ID: ordersAPI, Number: 1, Open: true, Scopes: []store.APIScope{{Name: "orders", Number: 1}}})
	c := d.registered(`{"client_name":"Agent","redirect_uris":["` + redirect + `"]}`)
	operator := &admin.Admin{Store: d.sqlite, Realm: realm, Now: d.now, Actor: admin.ByUser("test"), Changed: func(ctx context.Context) { _ = d.directory.Poll(ctx) }}
	set := func(state store.ClientState) {
		t.Helper()
		if _, err := operator.Clients().SetState(t.Context(), c.ID, "", state); err != nil {
			t.Fatal(err)
		}
	}
	page := b.open(asking(c, "scope=orders")).at(t, "consent")
	pair := d.mustIssue(d.post(c.challenged(b.decide(page, "allow").code(t, redirect))))
	asked := b.open(asking(c, "scope=orders", "prompt=consent")).at(t, "consent")
	set(store.ClientDisabled)
	want(t, d.post(c.refresh(pair.RefreshToken)), http.StatusBadRequest, "invalid_client")
	if v := d.verify(pair.AccessToken); v.status != http.StatusUnauthorized {
		t.Errorf("its access token: %v", v)
	}
	b.get(asking(c)).says(t, http.StatusBadRequest, pages.ClientDisabled)
	b.decide(asked, "allow").says(t, http.StatusBadRequest, pages.ClientDisabled)
	set(store.ClientEnabled)
	if v := d.verify(pair.AccessToken); v.status != http.StatusOK {
		t.Errorf("its access token, once it is enabled: %v", v)
	}
	d.mustIssue(d.post(c.refresh(pair.RefreshToken)))
	b.open(asking(c, "scope=orders", "prompt=consent")).at(t, "consent")
}

// A client's record is deleted after its last grant. The id contains the registration, so
// it works again as a new client.
func TestDR02_AnIDIsAsGoodAsNewWhenItsRecordHasGone(t *testing.T) {
	d, b := signedIn(t, registering)
	d.api(store.API{ID: ordersAPI, Number: 1, Open: true, DefaultScope: "orders", Scopes: []store.APIScope{{Name: "orders", Number: 1}}})
	c := d.registered(`{"redirect_uris":["` + redirect + `"]}`)
	agree := func() tokens {
		t.Helper()
		return d.mustIssue(d.post(c.challenged(b.decide(b.open(asking(c)).at(t, "consent"), "allow").code(t, redirect))))
	}
	before := agree()
	if err := d.sqlite.Commit(t.Context(), store.Change{Delete: []store.DocumentKey{store.ClientKey(realm, c.ID)}}); err != nil {
		t.Fatal(err)
	}
	want(t, d.post(c.refresh(before.RefreshToken)), http.StatusUnauthorized, "invalid_client")
	d.alive(c, agree().RefreshToken)
}

func TestDR03_MetadataThatAreNotAccepted(t *testing.T) {
	d := start(t, registering)
	for body, want := range map[string]string{
		``: "invalid_client_metadata", `[]`: "invalid_client_metadata", `{"redirect_uris":"https://a.example/cb"}`: "invalid_client_metadata",
		`{}`:                     "invalid_redirect_uri",
		`{"redirect_uris":null}`: "invalid_redirect_uri",
		`{"redirect_uris":["http://a.example/cb","javascript:alert(1)","https://a.example/#x",7]}`:                                                                "invalid_redirect_uri",
		`{"redirect_uris":["https://a.example/1","https://a.example/2","https://a.example/3","https://a.example/4","https://a.example/5","https://a.example/6"]}`: "invalid_redirect_uri",
		`{"redirect_uris":["https://a.example/cb"],"token_endpoint_auth_method":"private_key_jwt"}`:                                                               "invalid_client_metadata",
		`{"redirect_uris":["https://a.example/cb"],"grant_types":["client_credentials"]}`:                                                                         "invalid_client_metadata",
		`{"redirect_uris":["https://a.example/cb"],"response_types":["token"]}`:                                                                                   "invalid_client_metadata",
	} {
		if a := d.register(body); a.status != http.StatusBadRequest || a.Error != want {
			t.Errorf("%s: %v", body, a)
		}
	}
	form := "redirect_uris=https://a.example/cb"
	r := newRequest(nil)
	r.target, r.body = registerURL, &form
	if a := d.send(r); a.status != http.StatusBadRequest || a.body != errorBody("invalid_client_metadata", "content type must be application/json") {
		t.Errorf("a form: %v", a)
	}
}

func TestDR04_AnUnknownSealedID(t *testing.T) {
	d := start(t, registering, func(o *options) { o.BasicAuthStatus = http.StatusBadRequest })
	genuine := d.registered(`{"redirect_uris":["` + redirect + `"],"token_endpoint_auth_method":"none"}`)
	for what, id := range map[string]string{"nobody has agreed": genuine.ID, "altered": genuine.ID[:60] + "AAAA" + genuine.ID[64:], "short": keys.RegistrationPrefix} {
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"mintage_rt_x"}, "client_id": {id}}
		r := newRequest(form)
		if r.basic(id, "secret"); id == genuine.ID {
			r = newRequest(form)
		}
		for how, a := range map[string]answer{"by form": d.send(newRequest(form)), "by header": d.send(r)} {
			if a.status != http.StatusUnauthorized || a.Error != "invalid_client" || len(a.header["Www-Authenticate"]) != 1 {
				t.Errorf("%s, %s: %v", what, how, a)
			}
		}
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"mintage_rt_x"}, "client_id": {"nobody"}}
	want(t, d.send(newRequest(form)), http.StatusBadRequest, "invalid_client")
}

func TestDR04_AnIDByAWithdrawnKey(t *testing.T) {
	d, b := signedIn(t, registering)
	d.api(store.API{ID: ordersAPI, Number: 1, Open: true, DefaultScope: "orders", Scopes: []store.APIScope{{Name: "orders", Number: 1}}})
	body := `{"redirect_uris":["` + redirect + `"],"token_endpoint_auth_method":"none"}`
	c := d.registered(body)
	pair := d.mustIssue(d.post(c.challenged(b.agree(asking(c)).Query().Get("code"))))
	operators := d.mustIssue(d.post(d.a.challenged(b.agree(asking(d.a)).Query().Get("code"))))
	done, err := directory.WithdrawKeys(t.Context(), d.sqlite, d.kek, directory.Withdrawal{Purposes: []keys.Purpose{keys.Registration}}, d.now)
	if err != nil || len(done.Keys) != 1 || len(done.Added) != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if n, err := directory.CountEnded(t.Context(), d.sqlite, done.Keys, nil, grant.At(d.now())); err != nil || n.Grants != 1 {
		t.Errorf("it ends %+v, %v; want 1 grant", n, err)
	}
	d.poll()
	for what, form := range map[string]url.Values{"a refresh": c.refresh(pair.RefreshToken), "a code": c.challenged("mintage_ac_x")} {
		if a := d.post(form); a.status != http.StatusUnauthorized || a.Error != "invalid_client" || len(a.header["Www-Authenticate"]) != 1 {
			t.Errorf("%s: %v", what, a)
		}
	}
	b.get(asking(c)).says(t, http.StatusBadRequest, pages.UnknownClient)
	// The client can register again under the successor key; other clients are not
	// affected.
	again := d.registered(body)
	d.mustIssue(d.post(again.challenged(b.agree(asking(again)).Query().Get("code"))))
	d.alive(d.a, operators.RefreshToken)
}

func TestDR05_TheInitialAccessToken(t *testing.T) {
	token := strings.Repeat("t", 32)
	d := start(t, registering, func(o *options) { o.Registrations.Token = token })
	const body = `{"redirect_uris":["` + redirect + `"]}`
	for header, want := range map[string]int{"X: y": 401, "Authorization: Bearer x": 401, "Authorization: Bearer " + token + "t": 401, "Authorization: Bearer " + token: 201} {
		if a := d.register(body, header); a.status != want || want == 401 && !strings.HasPrefix(a.header["Www-Authenticate"][0], "Bearer ") {
			t.Errorf("%s: %v", header, a)
		}
	}
	// Without a token, the response has no error code (RFC 6750 section 3.1); the log has
	// the reason.
	if text := d.log.String(); !strings.Contains(text, `"error":"access token missing"`) || strings.Contains(text, `"error":": `) {
		t.Error("the log does not say that the token is missing")
	}
}

// registration returns a registration request for a handler.
func registration(from netip.Addr, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, registerURL, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr, r.TLS = netip.AddrPortFrom(from, 4711).String(), &tls.ConnectionState{}
	return r
}

func TestDR06_AFloodOfRegistrationsLeavesNothing(t *testing.T) {
	n := 5_000
	if os.Getenv("SOAK") != "" {
		n = 100_000
	}
	d, b := signedIn(t, registering, alone, func(o *options) { o.RateLimits = overload.RateLimits{Interactions: 600} })
	pair := d.mustIssue(d.post(d.a.challenged(b.agree(asking(d.a)).Query().Get("code"))))
	handler := d.server.Handler()
	register := func(from netip.Addr) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, registration(from, `{"client_name":"Flood","redirect_uris":["https://flood.example/cb"]}`))
		return w.Code
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{100, byte(i >> 16), byte(i >> 8), byte(i)}) }
	register(address(0))
	d.written()
	version, err := d.sqlite.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	d.log.Reset()
	before := heap()
	for i := range n {
		if code := register(address(i)); code != http.StatusCreated {
			t.Fatalf("registration %d: %d", i, code)
		}
		if i%1000 == 0 {
			d.log.Reset() // the log is kept by the test only
		}
	}
	d.log.Reset()
	// The limiter remembers addresses, at tens of bytes each.
	if grown := int64(heap()) - int64(before); grown > 32<<20 {
		t.Errorf("%d bytes more after %d registrations", grown, n)
	}
	after, err := d.sqlite.Changes(t.Context(), 0)
	if writes := d.written(); writes != 0 || err != nil || after.Version != version.Version {
		t.Errorf("%d writes, version %d after %d; %v", writes, after.Version, version.Version, err)
	}
	d.alive(d.a, pair.RefreshToken)
	// A network that exceeds its share is refused; other networks are not.
	refused := 0
	for range 1000 {
		if register(netip.MustParseAddr("203.0.113.7")) == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < 300 || register(netip.MustParseAddr("198.51.100.1")) != http.StatusCreated {
		t.Errorf("%d of 1000 were refused", refused)
	}
}

func TestDR07_WhereRegistrationIsOn(t *testing.T) {
	d := start(t, registering)
	if got := d.metadata()["registration_endpoint"]; got != issuerID+"/register" {
		t.Errorf("registration_endpoint %v", got)
	}
	a := d.register(`{"redirect_uris":["`+redirect+`"]}`, "Origin: https://any.example")
	if a.status != http.StatusCreated || a.header["Access-Control-Allow-Origin"][0] != "*" || a.header["Access-Control-Allow-Credentials"] != nil {
		t.Errorf("%v %v", a, a.header)
	}
}

func TestDR07_WhereRegistrationIsOff(t *testing.T) {
	d := start(t, withFront)
	if got := d.metadata()["registration_endpoint"]; got != nil {
		t.Errorf("registration_endpoint %v", got)
	}
	w := httptest.NewRecorder()
	if d.server.Handler().ServeHTTP(w, registration(local().AddrPort().Addr(), `{"redirect_uris":["`+redirect+`"]}`)); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestDR08_RedirectURIsOfTheRegistration(t *testing.T) {
	d, b := signedIn(t, registering)
	d.api(store.API{ID: ordersAPI, Number: 1, Open: true, DefaultScope: "orders", Scopes: []store.APIScope{{Name: "orders", Number: 1}}})
	c := d.registered(`{"client_name":"Agent","token_endpoint_auth_method":"none","redirect_uris":["http://127.0.0.1:1000/cb","http://localhost/cb","http://localhost:3118/callback","https://agent.example/cb","zed://cb/x"]}`)
	for uri, accepted := range map[string]bool{
		"http://127.0.0.1:2000/cb": true, "http://127.0.0.1/cb": true, "http://localhost:7/cb": true, "http://localhost:3118/callback": true, "https://agent.example/cb": true, "zed://cb/x": true, "http://localhost:3119/callback": true, "http://localhost/callback": true,
		"http://localhost:3119/other": false, "http://[::1]:1000/cb": false, "https://agent.example:8443/cb": false, "https://agent.example/cb/": false, "https://evil.example/cb": false, "zed://cb/y": false,
	} {
		s := b.open(asking(c, "redirect_uri="+uri))
		if !accepted {
			s.says(t, http.StatusBadRequest, pages.BadRedirectURI)
			continue
		}
		b.decide(s.at(t, "consent"), "allow").code(t, uri)
	}
	// Signed in or not, the user gets the error on a page.
	for _, visitor := range []*browser{b, d.browser()} {
		if s := visitor.get(asking(c, "redirect_uri=https://agent.example/cb", "prompt=none", "scope=none")); s.StatusCode/100 == 3 {
			t.Errorf("redirected to %s", s.location())
		}
	}
}
