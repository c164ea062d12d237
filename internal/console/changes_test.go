package console_test

import (
	"encoding/pem"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/console"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/operator"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

// shop registers a client with a secret, and returns it.
func (r *fixture) shop(name, id string) store.Client {
	r.t.Helper()
	c, _, err := r.cases.Clients().Create(r.t.Context(), client.Registration{ID: id, Settings: store.Settings{Name: name, RedirectURIs: []string{"https://shop.example/cb"}, Scope: "read", Auth: store.AuthEither}}, store.ClientEnabled)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// field returns the value of a hidden field of a page.
func field(body, name string) string {
	m := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(body)
	if m == nil {
		return ""
	}
	return html.UnescapeString(m[1])
}

// forms returns a valid form for each page that changes something. Pages that are not in
// the map need no fields.
func forms(once string, c store.Client) map[string]url.Values {
	return map[string]url.Values{
		"/new/client":                               {"once": {once}, "kind": {"web"}, "name": {"Shop"}, "redirect_uris": {"https://shop.example/cb"}, "scope": {"read"}},
		"/clients/{client}/edit":                    {"once": {once}, "name": {"Other"}, "redirect_uris": {"https://shop.example/cb"}, "scope": {"read"}, "auth_method": {"either"}, "grant_types": {"authorization_code\nrefresh_token"}, "retry_window": {"30s"}},
		"/clients/{client}/state":                   {"state": {"disabled"}},
		"/clients/{client}/secrets":                 {"once": {once}},
		"/clients/{client}/delete":                  {"typed": {c.ID}, "counted": {"9"}},
		"/grants/end":                               {"subject": {"alice"}, "counted": {"9"}},
		"/sessions/end":                             {"subject": {"alice"}, "session": {"5f2b6c0e9a1d44735f2b6c0e"}},
		"/new/user":                                 {"once": {once}, "username": {"mallory"}},
		"/users/{user}/password":                    {"once": {once}},
		"/users/{user}/disable":                     {"counted": {"9"}},
		"/new/restore":                              {"once": {once}, "backup_time": {"2026-11-25T03:00:00Z"}},
		"/new/api":                                  {"once": {once}, "id": {"https://other.example"}, "name": {"Other"}, "scopes": {"a=A"}},
		"/apis/{api}/edit":                          {"once": {once}, "name": {"Other"}, "scopes": {"a=A"}},
		"/apis/{api}/delete":                        {"typed": {"https://orders.example"}},
		"/clients/{client}/secrets/{secret}/revoke": {"typed": {c.ID}},
	}
}

// reading lists the POSTs that change nothing. They are POSTs because their text may be a
// secret.
var reading = []string{"/explain", "/checkup"}

// An auditor who sends a valid form for every change of the console changes nothing.
// Cross-site forms are refused, even an admin's.
func TestEveryChangeIsForAdminsAndOfThisOrigin(t *testing.T) {
	r := open(t)
	alice, bob := r.operator("alice", operator.Admin), r.operator("bob", operator.Auditor)
	c := r.shop("Shop", "shop")
	g := testkit.PutGrants(t, r.store, 1)[0]
	if _, _, err := r.cases.Users().Create(t.Context(), account.Registration{Username: "erin"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.cases.APIs().Create(t.Context(), adminapi.API{ID: "https://orders.example", Name: "Orders", Scopes: []adminapi.APIScope{{Name: "a"}}}); err != nil {
		t.Fatal(err)
	}
	sessions, err := operator.Sessions(t.Context(), r.store, grant.At(r.now))
	if err != nil {
		t.Fatal(err)
	}
	path := func(rt console.Route) string {
		return strings.NewReplacer("{user}", "erin", "{api}", "https:%2F%2Forders.example", "{client}", c.ID, "{secret}", c.Secrets[0].ID, "{grant}", g.ID.String(), "{session}", sessions[0].ID()).Replace(rt.Path)
	}
	before, err := r.store.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, rt := range r.console.Routes() {
		if rt.Method != http.MethodPost || rt.Public {
			continue
		}
		form := forms(operator.NewForm(), c)[rt.Path]
		for _, from := range []string{"", "null", "https://evil.example", "https://console.example", "http://console.example:8445"} {
			w := alice.do(http.MethodPost, path(rt), form, func(r *http.Request) {
				r.Header.Set("Origin", from)
				if from == "" {
					r.Header.Del("Origin")
				}
			})
			if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "not sent from the console") {
				t.Errorf("POST %s from %q: %d", rt.Path, from, w.Code)
			}
		}
		if slices.Contains(reading, rt.Path) {
			continue
		}
		tried++
		if w := bob.post(path(rt), form); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "Your role does not allow this") {
			t.Errorf("an auditor sends %s: %d\n%s", rt.Path, w.Code, w.Body)
		}
		if w := (&browser{fixture: r}).post(path(rt), form); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "You are signed out") {
			t.Errorf("nobody sends %s: %d", rt.Path, w.Code)
		}
	}
	if tried < 18 {
		t.Errorf("only %d changes were tried: the test does not find the routes", tried)
	}
	after, err := r.store.Changes(t.Context(), 0)
	if err != nil || after.Version != before.Version {
		t.Errorf("something was written: version %d, was %d, %v", after.Version, before.Version, err)
	}
	if now, err := r.store.Grant(t.Context(), g.ID); err != nil || now.State != grant.Active {
		t.Errorf("the grant is %v, %v", now.State, err)
	}
	// Pages offer an auditor no change.
	for _, page := range []string{"/clients", "/clients/shop", "/users/erin", "/apis", "/apis/https:%2F%2Forders.example", "/grants?subject=alice", "/grants/" + g.ID.String(), "/operators"} {
		body := bob.get(page).Body.String()
		if found := regexp.MustCompile(`href="[^"]*/(end|delete|edit|revoke|disable|factor)"|href="/new/|method="post" action="/(clients|new|grants|users|apis)`).FindString(body); found != "" {
			t.Errorf("%s offers an auditor %s", page, found)
		}
	}
}

// A client is created once, however often its form is sent. Only the response contains the
// secret.
func TestAClientIsCreatedOnce(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	once := field(alice.get("/new/client?kind=web").Body.String(), "once")
	form := forms(once, store.Client{})["/new/client"]
	form.Set("id", "shop")
	form.Set("redirect_uris", "http://shop.example/cb")
	w := alice.post("/new/client", form)
	body := w.Body.String()
	if w.Code != http.StatusUnprocessableEntity || !strings.Contains(body, `role="alert"`) || !strings.Contains(body, `value="Shop"`) || !strings.Contains(body, `aria-invalid="true" id="redirect_uris" name="redirect_uris"`) {
		t.Fatalf("a redirect URI without TLS: %d\n%s", w.Code, body)
	}
	form.Set("once", field(body, "once"))
	form.Set("redirect_uris", "https://shop.example/cb\r\n\r\n https://shop.example/two ")
	w = alice.post("/new/client", form)
	secret := regexp.MustCompile(`id="secret" translate="no">([^<]+)<`).FindStringSubmatch(w.Body.String())
	if w.Code != http.StatusOK || secret == nil || w.Header().Get("Cache-Control") != "no-store" || !strings.Contains(w.Body.String(), "mintage client create --name Shop --id shop") {
		t.Fatalf("the creation: %d\n%s", w.Code, w.Body)
	}
	if w := alice.post("/new/client", form); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "This form was sent before") {
		t.Errorf("the same form again: %d", w.Code)
	}
	c, err := r.cases.Clients().Read(t.Context(), "shop")
	if err != nil || !slices.Equal(c.RedirectURIs, []string{"https://shop.example/cb", "https://shop.example/two"}) || len(c.Secrets) != 1 {
		t.Errorf("the client is %+v, %v", c.Settings, err)
	}
	form.Set("once", operator.NewForm())
	if w := alice.post("/new/client", form); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("the same id again: %d", w.Code)
	}
	for _, page := range []string{"/clients", "/clients/shop", "/audit"} {
		if strings.Contains(alice.get(page).Body.String(), secret[1]) {
			t.Errorf("%s has the secret", page)
		}
	}
	// A second secret, and the revocation of the first.
	page := alice.get("/clients/shop").Body.String()
	w = alice.post("/clients/shop/secrets", url.Values{"once": {field(page, "once")}, "expires": {"90d"}})
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "The secrets of before stay valid") || !strings.Contains(w.Body.String(), "--expires-in 90d shop") {
		t.Errorf("another secret: %d\n%s", w.Code, w.Body)
	}
	if w := alice.post("/clients/shop/secrets", url.Values{"once": {field(page, "once")}}); w.Code != http.StatusConflict {
		t.Errorf("the same form again: %d", w.Code)
	}
	c, err = r.cases.Clients().Read(t.Context(), "shop")
	if err != nil || len(c.Secrets) != 2 || c.Secrets[1].ExpiresAt.Since(grant.At(r.now)) != 90*24*time.Hour {
		t.Fatalf("the secrets are %+v, %v", c.Secrets, err)
	}
	revoke := func(i int) string { return "/clients/shop/secrets/" + c.Secrets[i].ID + "/revoke" }
	if w := alice.post(revoke(0), nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/clients/shop?done=revoked" {
		t.Errorf("an unused secret is revoked: %d", w.Code)
	}
	// Revoking the last secret requires typing the client's id.
	if w := alice.post(revoke(1), url.Values{"typed": {"shopp"}}); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "only secret") {
		t.Errorf("without its name: %d", w.Code)
	}
	if w := alice.post(revoke(1), url.Values{"typed": {"shop"}}); w.Code != http.StatusSeeOther {
		t.Errorf("with its name: %d", w.Code)
	}
}

// A new secret is shown, whatever fails after it was made.
func TestASecretIsShownWhateverFailsAfterIt(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	r.shop("Shop", "shop")
	api, made := r.console.API, false
	r.console.API = http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		if made {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"title":"try again later","status":503}`))
			return
		}
		made = hr.Method == http.MethodPost
		api.ServeHTTP(w, hr)
	})
	for path, form := range map[string]url.Values{"/clients/shop/secrets": {}, "/new/client": {"kind": {"service"}, "name": {"Nightly"}, "scope": {"jobs"}}, "/new/user": {"username": {"dora"}}} {
		made = false
		form.Set("once", operator.NewForm())
		if w := alice.post(path, form); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `<p class="secret">`) {
			t.Errorf("%s: %d\n%s", path, w.Code, w.Body)
		}
	}
}

// A form does not overwrite settings that another operator has changed since the form was
// opened. A saved form keeps the settings that it does not contain.
func TestAStaleFormChangesNothing(t *testing.T) {
	r := open(t)
	alice, carol := r.operator("alice", operator.Admin), r.operator("carol", operator.Admin)
	c := r.shop("Shop", "shop")
	form := url.Values{}
	edit := func(b *browser, page, name string) *httptest.ResponseRecorder {
		form = url.Values{}
		for _, m := range regexp.MustCompile(`<input [^>]*name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			form.Set(m[1], html.UnescapeString(m[2]))
		}
		for _, m := range regexp.MustCompile(`(?s)<textarea [^>]*name="([^"]+)"[^>]*>([^<]*)<`).FindAllStringSubmatch(page, -1) {
			form.Set(m[1], html.UnescapeString(m[2]))
		}
		for _, m := range regexp.MustCompile(`name="([^"]+)" type="checkbox" value="1" checked`).FindAllStringSubmatch(page, -1) {
			form.Set(m[1], "1")
		}
		form.Set("name", name)
		return b.post("/clients/shop/edit", form)
	}
	first, second := alice.get("/clients/shop/edit").Body.String(), carol.get("/clients/shop/edit").Body.String()
	if w := edit(alice, first, "Alice's"); w.Code != http.StatusSeeOther {
		t.Fatalf("the first: %d", w.Code)
	}
	stale := edit(carol, second, "Carol's")
	if stale.Code != http.StatusPreconditionFailed {
		t.Errorf("the stale one: %d", stale.Code)
	}
	// If the conflict page is reloaded, it does not report the change as made.
	if w := carol.post("/clients/shop/edit", form); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "nothing was done this time") {
		t.Errorf("the stale one again: %d\n%s", w.Code, w.Body)
	}
	now, err := r.cases.Clients().Read(t.Context(), "shop")
	if err != nil || now.Name != "Alice's" || now.Scope != c.Scope || !slices.Equal(now.RedirectURIs, c.RedirectURIs) || now.Auth != c.Auth || len(now.Secrets) != 1 || now.NoPKCE != c.NoPKCE {
		t.Errorf("the client is %+v, %v", now.Settings, err)
	}
	// The conflict page has the values that were entered, and shows what they would
	// change.
	page := stale.Body.String()
	for _, text := range []string{`value="Carol&#39;s"`, "somebody else has changed this", "client update --name &#39;Carol"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %s:\n%s", text, page)
		}
	}
	if w := edit(carol, page, "Carol's"); w.Code != http.StatusSeeOther {
		t.Errorf("saved all the same: %d", w.Code)
	}
}

// A service only sends a token request: the program that its page shows has no sign-in.
func TestTheProgramOfAServiceHasNoSignIn(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	for kind, whole := range map[string]bool{"web": true, "service": false} {
		w := alice.post("/new/client", url.Values{"once": {operator.NewForm()}, "kind": {kind}, "name": {"Shop"}, "redirect_uris": {"https://shop.example/cb"}, "scope": {"read"}})
		if body := w.Body.String(); !strings.Contains(body, "A program for it") || strings.Contains(body, "It does the whole way: sign-in") != whole {
			t.Errorf("%s: %d\n%s", kind, w.Code, body)
		}
	}
}

// A form with an invalid value is shown again as it was sent: no entered value is lost,
// neither the invalid one nor those of later fields.
func TestARefusedFormKeepsWhatWasEntered(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	r.shop("Shop", "shop")
	w := alice.post("/clients/shop/edit", url.Values{"once": {operator.NewForm()}, "name": {"Other"}, "retry_window": {"5 min"}, "id_token_lifetime": {"1 h"}, "redirect_uris": {"https://shop.example/two"}, "scope": {"write"}, "auth_method": {"either"}, "jwks": {"{bad"}})
	page := w.Body.String()
	for _, text := range []string{`value="5 min"`, `value="1 h"`, `value="Other"`, `value="write"`, ">https://shop.example/two</textarea>", ">{bad</textarea>", "retry_window &#34;5 min&#34; is not", "; id_token_lifetime &#34;1 h&#34; is not", "; jwks is not valid JSON"} {
		if !strings.Contains(page, text) {
			t.Errorf("%d, and the page lacks %s", w.Code, text)
		}
	}
	if n := strings.Count(page, `aria-invalid="true"`); n != 3 {
		t.Errorf("%d of three fields are marked as wrong", n)
	}
	if strings.Contains(page, "--retry-window") {
		t.Error("the command has a value that was not entered")
	}
}

// Certificates have several lines: a single-line field would lose them, and then no
// setting of the client could be saved. Browsers send the lines with other line ends.
func TestCertificatesStayAsTheyAre(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	settings := store.Settings{Name: "Keyed", RedirectURIs: []string{"https://shop.example/cb"}, Scope: "read", Auth: store.AuthPrivateKeyJWT, Assertion: store.AssertionRule{KeysURI: "https://keys.example/jwks", KeysCA: ca}}
	if _, _, err := r.cases.Clients().Create(t.Context(), client.Registration{ID: "keyed", Settings: settings}, store.ClientEnabled); err != nil {
		t.Fatal(err)
	}
	page := alice.get("/clients/keyed/edit").Body.String()
	m := regexp.MustCompile(`<textarea [^>]*name="jwks_ca"[^>]*>([^<]*)<`).FindStringSubmatch(page)
	if m == nil || !strings.Contains(page, "(paste its content)") {
		t.Fatalf("the page has no field of lines for certificates:\n%s", page)
	}
	form := url.Values{"once": {field(page, "once")}, "etag": {field(page, "etag")}, "name": {"Other"}, "redirect_uris": {"https://shop.example/cb"}, "scope": {"read"}, "auth_method": {"private_key_jwt"},
		"jwks_uri": {"https://keys.example/jwks"}, "jwks_ca": {strings.ReplaceAll(html.UnescapeString(m[1]), "\n", "\r\n")}}
	w := alice.post("/clients/keyed/edit", form)
	now, err := r.cases.Clients().Read(t.Context(), "keyed")
	if w.Code != http.StatusSeeOther || err != nil || now.Name != "Other" || now.Assertion.KeysCA != ca {
		t.Errorf("%d, %v, %+v\n%s", w.Code, err, now.Settings, w.Body)
	}
}

// A crafted form with show=1 changes nothing, even on pages without the button that shows
// the command.
func TestShowingACommandChangesNothing(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	c := r.shop("Shop", "shop")
	if _, _, err := r.cases.Users().Create(t.Context(), account.Registration{Username: "erin"}); err != nil {
		t.Fatal(err)
	}
	before, err := r.store.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("{client}", c.ID, "{user}", "erin")
	for path, form := range forms("", c) {
		if form.Has("once") {
			form.Set("show", "1")
			alice.post(names.Replace(path), form)
		}
	}
	after, err := r.store.Changes(t.Context(), 0)
	if u, fault := r.cases.Users().Read(t.Context(), "erin"); err != nil || fault != nil || after.Version != before.Version || u.Epoch != 0 {
		t.Errorf("something was written: version %d, was %d, erin %+v, %v", after.Version, before.Version, u, err)
	}
}

// A request that the admin API refuses is shown as the caller's error, and not as a fault
// of the server. For example, the client with which the next page of a list begins has
// been deleted.
func TestARefusedRequestIsNoFaultOfTheServer(t *testing.T) {
	alice := open(t).operator("alice", operator.Admin)
	for path, says := range map[string]string{"/clients?after=gone": "is not in the list", "/users?after=gone": "is not in the list", "/grants?subject=%00": "subject is not UTF-8 text", "/audit?before=x": "before is not the number of a record", "/audit?event=none": "event is no event"} {
		w := alice.get(path)
		if body := w.Body.String(); w.Code != http.StatusUnprocessableEntity || !strings.Contains(body, "This cannot be answered") || !strings.Contains(body, says) {
			t.Errorf("%s: %d\n%s", path, w.Code, body)
		}
	}
}

// A change that can be undone takes one click, and so does undoing it. A deletion requires
// typing the name, and the number that was shown.
func TestUndoAndDelete(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	r.shop("Shop", "a/b")
	state := func() store.ClientState {
		c, err := r.cases.Clients().Read(t.Context(), "a/b")
		if err != nil {
			t.Fatal(err)
		}
		return c.State
	}
	w := alice.post("/clients/a%2Fb/state", url.Values{"state": {"disabled"}})
	if w.Code != http.StatusSeeOther || state() != store.ClientDisabled {
		t.Fatalf("disabled: %d, %s", w.Code, state())
	}
	page := alice.get(w.Header().Get("Location")).Body.String()
	if !strings.Contains(page, `id="undo"`) || !strings.Contains(page, `action="/clients/a%2Fb/state"`) {
		t.Fatalf("there is no undo:\n%s", page)
	}
	alice.post("/clients/a%2Fb/state", url.Values{"state": {field(page, "state")}})
	if state() != store.ClientEnabled {
		t.Error("it was not undone")
	}
	question := alice.get("/clients/a%2Fb/delete").Body.String()
	if !strings.Contains(question, "Active grants that end: 0.") || !strings.Contains(question, "mintage client delete --yes a/b") {
		t.Errorf("the question:\n%s", question)
	}
	for status, forms := range map[int][]url.Values{http.StatusUnprocessableEntity: {{"counted": {"0"}}, {"typed": {"a"}, "counted": {"0"}}}, http.StatusConflict: {{"typed": {"a/b"}}}} {
		for _, form := range forms {
			if w := alice.post("/clients/a%2Fb/delete", form); w.Code != status || state() != store.ClientEnabled {
				t.Errorf("%v: %d", form, w.Code)
			}
		}
	}
	if w := alice.post("/clients/a%2Fb/delete", url.Values{"typed": {"a/b"}, "counted": {"0"}}); w.Code != http.StatusSeeOther {
		t.Errorf("deleted: %d", w.Code)
	}
	if w := alice.get("/clients/a%2Fb"); w.Code != http.StatusNotFound {
		t.Errorf("after that: %d", w.Code)
	}
}

// Grants are listed by subject. They are ended only if the number that was shown is still
// right.
func TestGrantsEnd(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	list := testkit.PutGrants(t, r.store, 3)
	subject := list[0].Subject
	whom := url.Values{"subject": {subject}}.Encode()
	page := alice.get("/grants?" + whom).Body.String()
	if !strings.Contains(page, list[0].ID.String()) || !strings.Contains(page, "mintage grant list --subject ") {
		t.Fatalf("the grants:\n%s", page)
	}
	if w := alice.post("/explain", url.Values{"text": {list[0].ID.String()}}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/grants/"+list[0].ID.String() {
		t.Errorf("looked up: %d %s", w.Code, w.Header().Get("Location"))
	}
	if w := alice.post("/grants/"+list[0].ID.String()+"/end", nil); w.Code != http.StatusSeeOther {
		t.Errorf("the end of one: %d", w.Code)
	}
	if g, err := r.store.Grant(t.Context(), list[0].ID); err != nil || g.State != grant.Revoked {
		t.Errorf("it is %v, %v", g.State, err)
	}
	question := alice.get("/grants/end?" + whom).Body.String()
	form := url.Values{"subject": {subject}, "counted": {"-1"}}
	if w := alice.post("/grants/end", form); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "more would end than before") {
		t.Errorf("with a smaller number: %d", w.Code)
	}
	form.Set("counted", field(question, "counted"))
	if w := alice.post("/grants/end", form); w.Code != http.StatusSeeOther {
		t.Errorf("with the number: %d", w.Code)
	}
	if cut, _, err := r.cases.Grants().Cutoffs(t.Context(), subject, "", adminapi.Page{Limit: 1}); err != nil || len(cut) != 1 {
		t.Errorf("%d cutoffs, %v", len(cut), err)
	}
	if w := alice.post("/sessions/end", url.Values{"subject": {subject}}); w.Code != http.StatusNotFound {
		t.Errorf("no session is named: %d", w.Code)
	}
	if w := alice.get("/grants/end"); w.Code != http.StatusNotFound {
		t.Errorf("nobody is named: %d", w.Code)
	}
}

// Ids and names redirect to their pages. Any other text, which may be a token, is not
// repeated.
func TestLookUp(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Auditor)
	r.shop("Shop", "a/b")
	if w := alice.post("/explain", url.Values{"text": {" a/b "}}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/clients/a%2Fb" {
		t.Errorf("the id of a client: %d %s", w.Code, w.Header().Get("Location"))
	}
	w := alice.post("/explain", url.Values{"text": {"mintage_rt_secretive"}})
	if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "secretive") || w.Header().Get("Cache-Control") != "no-store" || !strings.Contains(w.Body.String(), "it is no token") {
		t.Errorf("a token: %d\n%s", w.Code, w.Body)
	}
	if w := alice.post("/explain", url.Values{"text": {"forged"}}); !strings.Contains(w.Body.String(), "refresh_token, not authentic") {
		t.Errorf("a forged token:\n%s", w.Body)
	}
	if w := alice.post("/explain", url.Values{"text": {"a session"}}); !strings.Contains(w.Body.String(), "session: unknown") || !strings.Contains(w.Body.String(), "with the subject below it") {
		t.Errorf("a session without its subject:\n%s", w.Body)
	}
	if w := alice.post("/explain", url.Values{"text": {" "}}); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("nothing: %d", w.Code)
	}
	if w := alice.get("/explain?text=mintage_rt_secretive"); strings.Contains(w.Body.String(), "secretive") {
		t.Error("a text of an address is shown")
	}
}

// Names with special characters for a browser, a shell, a terminal or a reader are shown
// literally on every page, and the commands of a page still work.
func TestHostileNamesOfClients(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	for i, name := range hostile {
		r.shop(name, []string{"$(reboot)", "';id;'", "<script>", "-rf", "a?b#c", "..%2f"}[i])
	}
	pages := map[string]string{"the list": alice.get("/clients").Body.String()}
	for _, m := range regexp.MustCompile(`<a href="(/clients/[^"]+)"`).FindAllStringSubmatch(pages["the list"], -1) {
		address := html.UnescapeString(m[1])
		for _, below := range []string{"", "/edit", "/delete"} {
			w := alice.get(address + below)
			if w.Code != http.StatusOK {
				t.Errorf("%s%s: %d", address, below, w.Code)
			}
			pages[address+below] = w.Body.String()
		}
	}
	if len(pages) != 1+3*len(hostile) {
		t.Fatalf("%d pages", len(pages))
	}
	pages["a search"] = alice.get("/clients?match=" + url.QueryEscape("\x1b[31m$(id)'\u202e")).Body.String()
	for name, body := range pages {
		for _, bad := range []string{"<script", "<img", "\u202e", "</title><h1>", "\x1b"} {
			// Values of form fields contain the name unchanged.
			if strings.Contains(regexp.MustCompile(` value="[^"]*"`).ReplaceAllString(body, ""), bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
		for _, m := range regexp.MustCompile(`<code lang="en">(mintage [^<]*)</code>`).FindAllStringSubmatch(body, -1) {
			command := html.UnescapeString(m[1])
			out, err := exec.Command("sh", "-c", "mintage() { printf '%s\\n' \"$@\"; }\n"+command).Output()
			if err != nil || strings.Contains(string(out), "uid=") {
				t.Errorf("%s: a shell reads %s as %q, %v", name, command, out, err)
			}
		}
	}
}

// A list links to its next page and its previous page.
func TestPagesOfAList(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Auditor)
	for i := range 60 {
		r.shop("Shop", "shop-"+string(rune('a'+i/26))+string(rune('a'+i%26)))
	}
	link := func(body, id string) string {
		m := regexp.MustCompile(`id="` + id + `" href="([^"]+)"`).FindStringSubmatch(body)
		if m == nil {
			return ""
		}
		return html.UnescapeString(m[1])
	}
	ids := func(body string) []string {
		return regexp.MustCompile(`href="/clients/shop-..`).FindAllString(body, -1)
	}
	var seen [][]string
	at := "/clients?match=shop"
	for at != "" {
		body := alice.get(at).Body.String()
		seen, at = append(seen, ids(body)), link(body, "next")
		if len(seen) > 3 {
			t.Fatal("the list does not end")
		}
		if at == "" {
			for i := len(seen) - 2; i >= 0; i-- {
				body = alice.get(link(body, "previous")).Body.String()
				if !slices.Equal(ids(body), seen[i]) {
					t.Errorf("back to page %d: %q", i, ids(body))
				}
			}
			if link(body, "previous") != "" {
				t.Error("the first page links to a previous page")
			}
		}
	}
	if all := slices.Concat(seen...); len(seen) != 2 || len(all) != 60 {
		t.Errorf("%d clients on %d pages", len(all), len(seen))
	}
}

// The life of a built-in user, as an operator sees it. Removing a second factor requires a
// fresh sign-in.
func TestUsers(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	once := field(alice.get("/new/user").Body.String(), "once")
	w := alice.post("/new/user", url.Values{"once": {once}, "username": {"erin"}, "name": {"Erin"}})
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `id="secret"`) || !strings.Contains(w.Body.String(), "mintage user create --name Erin erin") {
		t.Fatalf("the creation: %d\n%s", w.Code, w.Body)
	}
	if w := alice.post("/new/user", url.Values{"once": {once}, "username": {"erin2"}}); w.Code != http.StatusConflict {
		t.Errorf("the same form again: %d", w.Code)
	}
	if w := alice.post("/new/user", url.Values{"once": {operator.NewForm()}, "username": {"erin"}}); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("the same name again: %d", w.Code)
	}
	page := alice.get("/users/erin").Body.String()
	w = alice.post("/users/erin/password", url.Values{"once": {field(page, "once")}, "grants": {"1"}})
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "--end-grants erin") {
		t.Errorf("another password: %d", w.Code)
	}
	if w := alice.post("/users/erin/disable", url.Values{"counted": {"-1"}}); w.Code != http.StatusConflict {
		t.Errorf("with a number that was not seen: %d", w.Code)
	}
	if w := alice.post("/users/erin/disable", url.Values{"counted": {"0"}}); w.Code != http.StatusSeeOther {
		t.Errorf("disabled: %d", w.Code)
	}
	if u, err := r.cases.Users().Read(t.Context(), "erin"); err != nil || u.State != account.Disabled {
		t.Errorf("erin is %s, %v", u.State, err)
	}
	if w := alice.post("/users/erin/enable", nil); w.Code != http.StatusSeeOther {
		t.Errorf("enabled: %d", w.Code)
	}
	if _, _, err := r.cases.Users().SetTOTP(t.Context(), "erin", ""); err != nil {
		t.Fatal(err)
	}
	factor := func() bool {
		u, err := r.cases.Users().Read(t.Context(), "erin")
		return err == nil && u.TOTP != nil
	}
	r.now = r.now.Add(6 * time.Minute)
	if w := alice.post("/users/erin/factor", nil); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "Sign in again for this") || !factor() {
		t.Errorf("long after the sign-in: %d", w.Code)
	}
	if w := alice.post(r.invitation("alice"), nil); w.Code != http.StatusSeeOther {
		t.Fatal(w.Code)
	}
	if w := alice.post("/users/erin/factor", nil); w.Code != http.StatusSeeOther || factor() {
		t.Errorf("after a new one: %d", w.Code)
	}
}

// A form with English texts only keeps the texts in other languages.
func TestAPIs(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	if w := alice.post("/new/api", url.Values{"once": {operator.NewForm()}, "id": {"https://orders.example/v1"}, "name": {"Orders"}, "scopes": {"orders:read=See your orders\norders:write"}}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/apis/https:%2F%2Forders.example%2Fv1?done=created" {
		t.Fatalf("the creation: %d %s\n%s", w.Code, w.Header().Get("Location"), w.Body)
	}
	api, err := r.cases.APIs().Read(t.Context(), "https://orders.example/v1")
	if err != nil {
		t.Fatal(err)
	}
	v := admin.ViewAPI(api)
	v.Scopes[0].Texts["ja"] = "注文を見る"
	if _, _, err := r.cases.APIs().Apply(t.Context(), v.ID, "", v); err != nil {
		t.Fatal(err)
	}
	page := "/apis/https:%2F%2Forders.example%2Fv1"
	stale := field(alice.get(page+"/edit").Body.String(), "etag")
	change := func(etag, name string) (int, string) {
		w := alice.post(page+"/edit", url.Values{"once": {operator.NewForm()}, "etag": {etag}, "name": {name}, "scopes": {"orders:read=Read your orders"}})
		return w.Code, w.Body.String()
	}
	if status, _ := change(stale, "Nothing"); status != http.StatusSeeOther {
		t.Fatalf("the change: %d", status)
	}
	status, body := change(stale, "The orders")
	if status != http.StatusPreconditionFailed || !strings.Contains(body, "somebody else has changed this") || field(body, "name") != "The orders" {
		t.Errorf("a stale form: %d\n%s", status, body)
	}
	if status, _ := change(field(body, "etag"), "The orders"); status != http.StatusSeeOther {
		t.Errorf("another try: %d", status)
	}
	body = alice.get(page).Body.String()
	for _, text := range []string{"The orders", "Read your orders", "注文を見る"} {
		if !strings.Contains(body, text) {
			t.Errorf("the page lacks %s", text)
		}
	}
	if body := alice.get(page + "/delete").Body.String(); !strings.Contains(body, "Access tokens that name it are refused at once") {
		t.Errorf("the question does not say what ends:\n%s", body)
	}
	if w := alice.post(page+"/delete", url.Values{"typed": {"orders"}}); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("without its id: %d", w.Code)
	}
	if w := alice.post(page+"/delete", url.Values{"typed": {"https://orders.example/v1"}}); w.Code != http.StatusSeeOther {
		t.Errorf("deleted: %d", w.Code)
	}
}

// A form shows the command with the same effect, without saving anything. The page after
// saving shows the command too.
func TestTheCommandOfAForm(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	c := r.shop("Shop", "shop")
	shownCommand := func(w *httptest.ResponseRecorder) string {
		t.Helper()
		m := command.FindAllStringSubmatch(w.Body.String(), -1)
		if w.Code != http.StatusOK || m == nil {
			t.Fatalf("%d\n%s", w.Code, w.Body)
		}
		return html.UnescapeString(m[len(m)-1][1])
	}
	once := operator.NewForm()
	for path, want := range map[string]string{
		"/new/client":        "mintage client create --name Shop --redirect-uri https://shop.example/cb --scope read",
		"/clients/shop/edit": `mintage client update --name 'It'\''s $(id)' --retry-window 30s --redirect-uri https://shop.example/two --scope 'read write' --replace shop`,
		"/new/user":          "mintage user create mallory",
		"/new/api":           "mintage api create --id https://other.example --name Other --scope 'a=A'",
		"/new/restore":       "mintage restore --declare --yes --backup-time 2026-11-25T03:00:00Z",
	} {
		form := forms(once, c)[strings.Replace(path, "shop", "{client}", 1)]
		if path == "/clients/shop/edit" {
			form.Set("name", "It's $(id)")
			form.Set("scope", "read write")
			form.Set("redirect_uris", "https://shop.example/two")
		}
		form.Set("show", "1")
		w := alice.post(path, form)
		if got := shownCommand(w); got != want || !strings.Contains(w.Body.String(), "Nothing is saved.") {
			t.Errorf("%s shows %s, want %s", path, got, want)
		}
	}
	for _, list := range []string{"/clients", "/users", "/apis", "/restores"} {
		if body := alice.get(list).Body.String(); strings.Contains(body, "other.example") || strings.Contains(body, "mallory") || strings.Contains(body, "It&#39;s") || strings.Count(body, "<tbody>") != strings.Count(list, "/clients") {
			t.Errorf("something was saved:\n%s", body)
		}
	}
	if _, err := r.cases.APIs().Create(t.Context(), adminapi.API{ID: "https://orders.example", Name: "Orders", Scopes: []adminapi.APIScope{{Name: "a"}, {Name: "b", Texts: map[string]string{"en": "See b"}}}}); err != nil {
		t.Fatal(err)
	}
	const orders = "/apis/https:%2F%2Forders.example/edit"
	for want, form := range map[string]url.Values{
		"mintage api update --name Orders --scope 'a=' --scope 'b=See b' https://orders.example": {"name": {"Orders"}, "scopes": {"a\nb=See b"}},
		"mintage api update --name 'The orders' https://orders.example":                          {"name": {"The orders"}, "scopes": {"a\nb=See b"}},
		"mintage api update --scope 'a=See a' --replace https://orders.example":                  {"name": {"Orders"}, "scopes": {"a=See a"}},
	} {
		form.Set("show", "1")
		if got := shownCommand(alice.post(orders, form)); got != want {
			t.Errorf("an API: %s, want %s", got, want)
		}
	}
	// Showing the command has not used up the id of the form.
	if w := alice.post("/clients/shop/state", url.Values{"state": {"disabled"}}); shownCommand(alice.get(w.Header().Get("Location"))) != "mintage client disable shop" {
		t.Error("the page does not show the command that disables a client")
	}
	if w := alice.post("/new/user", url.Values{"once": {once}, "username": {"erin"}}); shownCommand(w) != "mintage user create erin" {
		t.Error("a user is created with another command")
	}
	if got := shownCommand(alice.get("/users/erin?done=enabled")); got != "mintage user enable erin" {
		t.Errorf("a user is enabled with %s", got)
	}
}

// The page of a self-registered client shows its redirect hosts and its users, and blocks
// the client with one click.
func TestAClientThatRegisteredItself(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	now := grant.At(r.now)
	c := store.Client{ID: "https://agent.example/client.json", Realm: "/api", State: store.ClientEnabled, RegisteredBy: store.ByDocument, Secrets: []store.Secret{}, CreatedAt: now, UpdatedAt: now,
		Settings: store.Settings{Name: "Agent", Auth: store.AuthNone, GrantTypes: store.DefaultGrantTypes, RedirectURIs: []string{"https://callback.example/cb"}, Scope: "use"}}
	if err := r.store.Commit(t.Context(), store.Change{Documents: []store.Document{c.Record(now, now.Add(24*time.Hour))}}); err != nil {
		t.Fatal(err)
	}
	for i, scope := range []string{"use", "use more", "never"} {
		g := storetest.Everyday(uint64(i))
		g.ClientID, g.Subject, g.Scope = c.ID, "subject-"+string(rune('a'+i%2)), oauth.Scope(scope)
		g.AuthorizedAt, g.RotatedAt, g.ExpiresAt, g.DeleteAfter = now.Add(-time.Hour), now.Add(-time.Hour), now.Add(time.Hour), now.Add(2*time.Hour)
		if scope == "never" {
			g.State = grant.Revoked
		}
		if err := r.store.CreateGrant(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	if body := alice.get("/clients").Body.String(); strings.Contains(body, "agent.example") {
		t.Error("it is among those that operators registered")
	}
	page := "/clients/" + url.PathEscape(c.ID)
	// Only self-registered clients are searched by redirect host.
	for path, label := range map[string]string{"/clients": "Name or id", "/clients?own=1": "Name, id or redirect host"} {
		if body := alice.get(path).Body.String(); !strings.Contains(body, `<label for="match">`+label+`</label>`) {
			t.Errorf("%s does not search by %s:\n%s", path, label, body)
		}
	}
	if body := alice.get("/clients?own=1").Body.String(); !strings.Contains(body, "<code>callback.example</code>") || !strings.Contains(body, `href="`+page+`"`) {
		t.Errorf("the list:\n%s", body)
	}
	body := alice.get(page).Body.String()
	for _, text := range []string{"<dt>Users</dt><dd>2</dd>", "<dt>Allowed scopes</dt><dd>use more</dd>", "25 Nov 2026, 08:30:00", "mintage client usage https://agent.example/client.json", ">Block</button>"} {
		if !strings.Contains(body, text) {
			t.Errorf("the page lacks %s\n%s", text, body)
		}
	}
	if w := alice.post(page+"/state", url.Values{"state": {"disabled"}}); w.Code != http.StatusSeeOther {
		t.Errorf("blocked: %d\n%s", w.Code, w.Body)
	}
	if now, err := r.cases.Clients().Read(t.Context(), c.ID); err != nil || now.State != store.ClientDisabled {
		t.Errorf("it is %s, %v", now.State, err)
	}
}

// The preview of the consent page has its texts and languages, and no form that can be
// sent.
func TestTheConsentPageIsPreviewed(t *testing.T) {
	r := open(t)
	bob := r.operator("bob", operator.Auditor)
	if _, err := r.cases.APIs().Create(t.Context(), adminapi.API{ID: "https://orders.example", Name: "Orders", Scopes: []adminapi.APIScope{{Name: "a", Texts: map[string]string{"en": "See <b>orders</b>", "ja": "注文を見る"}}}}); err != nil {
		t.Fatal(err)
	}
	const page = "/apis/https:%2F%2Forders.example/consent"
	if body := bob.get(page).Body.String(); !strings.Contains(body, "There is no consent page here") {
		t.Errorf("without a consent page:\n%s", body)
	}
	var err error
	if r.api.Pages, err = pages.New(pages.Options{}); err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(bob.get(page).Body.String(), "<main")
	for _, text := range []string{"Allow Example to access your account?", "See &lt;b&gt;orders&lt;/b&gt;", "Deny", "mintage api consent --locale en https://orders.example"} {
		if !strings.Contains(body, text) {
			t.Errorf("the preview lacks %s\n%s", text, body)
		}
	}
	if found := regexp.MustCompile(`<(form|button|input|a href="[^/])`).FindString(body); found != "" {
		t.Errorf("the preview has %s", found)
	}
	if body := bob.get(page + "?locale=ja").Body.String(); !strings.Contains(body, "注文を見る") || !strings.Contains(body, `lang="ja"`) {
		t.Errorf("in Japanese:\n%s", body)
	}
}

// Pages link to what people look for on the wrong page: an agent among the clients, a lost
// phone among the operators, and the history of a grant.
func TestPagesLinkToRelatedPages(t *testing.T) {
	r := open(t)
	r.staff()
	r.console.Users = r.users
	for _, name := range []string{"alice", "bob"} {
		if _, _, err := r.cases.Users().Create(t.Context(), account.Registration{Username: name}); err != nil {
			t.Fatal(err)
		}
	}
	u, _, err := r.cases.Users().SetTOTP(t.Context(), "alice", "")
	if err != nil {
		t.Fatal(err)
	}
	r.console.Dev = true
	alice := r.operator("alice", operator.Admin)
	r.console.Dev = false
	alice.cookie.Value = r.session(u)
	g := testkit.PutGrants(t, r.store, 1)[0]
	for path, want := range map[string][]string{
		"/clients?match=an+agent":  {`href="/clients?own=1&amp;match=an%20agent"`},
		"/operators":               {`href="/users/alice"`, "mintage console invite NAME"},
		"/users/alice":             {"For a phone that is lost", `href="/users/alice/factor"`},
		"/users/bob?done=factor":   {"mintage console invite bob"},
		"/grants/" + g.ID.String(): {`href="/audit?grant=` + g.ID.String() + `"`},
		"/keys":                    {`href="/keys/rotate"`},
		"/keys/rotate":             {"mintage keys rotate"},
		"/":                        {`<a href="/clients">`, `<a href="/operators">`},
		// Pages of the deployment do not link into a realm, where another user may have
		// the operator's name.
		"/realms/staff/operators": {`href="/users/alice"`},
		"/realms/staff/keys":      {`href="/audit?event=key_added"`},
	} {
		body := alice.get(path).Body.String()
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s lacks %s\n%s", path, text, body)
			}
		}
	}
	r.now = r.now.Add(6 * time.Minute)
	if w := alice.post("/keys/rotate", nil); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "Sign in again for this") {
		t.Errorf("keys are rotated long after the sign-in: %d", w.Code)
	}
}
