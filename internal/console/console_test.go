package console_test

import (
	"context"
	"encoding/base32"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/console"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/operator"
	serveradmin "github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

const origin = "https://console.example:8445"

// A fixture is a console on its own store, without built-in users. Operators
// sign in by invitation.
type fixture struct {
	t       *testing.T
	data    string // directory of the store
	store   store.Store
	console *console.Console
	api     *serveradmin.API
	handler http.Handler
	now     time.Time
	cases   admin.Admin

	checkups int // number of check-ups
	watch    func() adminapi.Watch

	auditDirectory string
	audit          *audit.Log
	users          *account.Users // of the realm; a test that needs them sets console.Users
}

func open(t *testing.T) *fixture {
	t.Helper()
	data := t.TempDir()
	r := &fixture{t: t, data: data, store: testkit.Create(t, data), now: time.Date(2026, 11, 25, 9, 30, 0, 0, time.UTC)}
	now := func() time.Time { return r.now }
	schedule := keys.Schedule{Lifetime: 30 * 24 * time.Hour, Lead: 24 * time.Hour, MaxAge: time.Hour, Retention: time.Hour, Algorithms: testkit.Schedule().Algorithms}
	kek := testkit.KEK(t)
	dir, err := directory.Open(t.Context(), r.store, kek, schedule, slog.New(slog.DiscardHandler), now)
	if err != nil {
		t.Fatal(err)
	}
	r.cases = admin.Admin{
		Store: r.store, Realm: "/api", Actor: admin.ByUser("test"), Now: now, Policy: grant.Policy{AccessLifetime: 5 * time.Minute}, Schedule: schedule,
		KEK: func(context.Context) (*keys.KEK, error) { return kek, nil }, Ring: func(context.Context) (*keys.Ring, error) { return dir.Ring(), nil },
	}
	api := serveradmin.NewLocal(r.cases)
	r.auditDirectory = filepath.Join(t.TempDir(), "audit")
	r.audit = audit.Open(audit.Options{Directory: r.auditDirectory, Node: "a", Now: now, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { r.audit.Close() })
	api.Audit, api.AuditDirectory = r.audit, r.auditDirectory
	// The contents of explanations are tested in internal/explain.
	api.Explain = func(_ context.Context, in adminapi.ExplainRequest, _ []string) (any, error) {
		if _, err := grant.ParseID(in.Text); err == nil {
			return adminapi.Explanation{Kind: "grant", Grant: &adminapi.Grant{ID: in.Text, State: "active", ClientID: "shop", Subject: "alice"}, Life: []adminapi.LifeEntry{{What: "authorized"}}}, nil
		}
		if in.Text == "forged" {
			return adminapi.Explanation{Kind: "refresh_token", Authentic: new(bool), Now: &adminapi.Reading{Verdict: "refused", Why: "its MAC is wrong", Next: "look elsewhere"}}, nil
		}
		if in.Text == "a session" {
			return adminapi.Explanation{Kind: "session", Session: &adminapi.ExplainedSession{State: "unknown"}}, nil
		}
		return adminapi.Explanation{Kind: "unknown", Now: &adminapi.Reading{Verdict: "unknown", Why: "it is no token", Next: "look elsewhere"}}, nil
	}
	api.Realm, api.ConsoleURL = adminapi.Realm{Name: "api", Issuer: "https://auth.example/oauth2/api", Login: "upstream"}, origin
	api.Checkup = func(start bool) adminapi.Checkup {
		if start {
			r.checkups++
		}
		return adminapi.Checkup{At: new(r.now.Add(-7 * time.Minute)), Running: start, Findings: []adminapi.Finding{
			{Check: "files", Level: "ok", Text: "all is well"}, {Check: "secrets", Level: "warning", Text: "<b>one</b> ends soon"}, {Check: "certificate", Level: "fault", Text: "it has expired", Advice: "renew it"},
		}}
	}
	api.Settings = func() adminapi.Settings {
		return adminapi.Settings{OnReload: []string{"log.level", "realms.staff.login.mode"}, Settings: []adminapi.SettingValue{{Name: "data", Group: "Files", Value: "/var/lib/<mintage>", Source: "--data", Given: true}, {Name: "log.level", Group: "Log", Value: "info", Source: "default", Reloads: true}, {Name: "kek_file", Group: "Files"}}}
	}
	api.Watch = func(store.Client) (adminapi.Watch, bool) { return r.watch(), true }
	api.Traffic = func(_ context.Context, of, step time.Duration) (adminapi.Traffic, error) {
		n := int(of / step)
		v := adminapi.Traffic{From: r.now.Add(-of), Step: int(step / time.Second)}
		for _, name := range []string{"requests", "refreshes", "codes", "logins", "invalid_grant", "invalid_scope"} {
			s := adminapi.Series{Name: name, Error: strings.HasPrefix(name, "invalid"), Counts: make([]uint64, n)}
			if name == "requests" || name == "invalid_grant" {
				s.Counts[1], s.Counts[n-1], s.Total = 200, 1, 201
			}
			v.Series = append(v.Series, s)
		}
		return v, nil
	}
	r.users = account.New(account.Users{Realm: "/api", Store: r.store, Ring: func() (*keys.Ring, error) { return dir.Ring(), nil }, Now: now, Log: slog.New(slog.DiscardHandler)})
	r.console = &console.Console{URL: origin, Service: "Example", API: serveradmin.Realms([]*serveradmin.API{api}), Store: r.store, Now: now, Log: slog.New(slog.DiscardHandler)}
	r.api = api
	r.console.Hurry(time.Millisecond)
	r.console.Enrolled = func(by admin.Actor, u account.User, at grant.Instant) store.Change {
		cases := r.cases
		cases.Actor = by
		return cases.Users().Enrolled(u, at)
	}
	r.handler = r.console.Handler()
	return r
}

// operator adds an operator, of one realm if it is given, and returns a browser in which
// the operator is signed in.
func (r *fixture) operator(name, role string, realm ...string) *browser {
	r.t.Helper()
	if err := operator.Add(r.t.Context(), r.store, operator.Operator{Name: name, Role: role, Realm: strings.Join(realm, "")}); err != nil {
		r.t.Fatal(err)
	}
	b := &browser{fixture: r}
	if w := b.post(r.invitation(name), nil); w.Code != http.StatusSeeOther || b.cookie == nil {
		r.t.Fatalf("the invitation of %s: %d\n%s", name, w.Code, w.Body)
	}
	return b
}

// cookieOf returns the cookie of a new session of an operator.
func (r *fixture) cookieOf(name string) *http.Cookie {
	r.t.Helper()
	b := &browser{fixture: r}
	b.post(r.invitation(name), nil)
	return b.cookie
}

// session returns the cookie of a new session of a built-in user.
func (r *fixture) session(u account.User) (cookie string) {
	r.t.Helper()
	cookie, err := operator.Begin(r.t.Context(), r.store, operator.Session{Operator: u.Username, How: operator.ByPassword, BeganAt: grant.At(r.now), Epoch: u.Epoch})
	if err != nil {
		r.t.Fatal(err)
	}
	return cookie
}

// invitation returns the path of a new invitation.
func (r *fixture) invitation(name string) string {
	r.t.Helper()
	text, _, err := operator.Invite(r.t.Context(), r.store, name, "test", grant.At(r.now))
	if err != nil {
		r.t.Fatal(err)
	}
	return "/invitation/" + text
}

// A browser keeps the cookies of the console.
type browser struct {
	*fixture
	cookie *http.Cookie
	known  []*http.Cookie // cookies that outlive sessions
}

func (b *browser) do(method, path string, form url.Values, change func(*http.Request)) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequest(method, origin+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
	}
	for _, c := range append(b.known, b.cookie) {
		if c != nil {
			r.AddCookie(c)
		}
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if strings.HasSuffix(c.Name, "_known") {
			b.known = []*http.Cookie{c}
		} else if b.cookie = c; c.MaxAge < 0 {
			b.cookie = nil
		}
	}
	return w
}

func (b *browser) get(path string) *httptest.ResponseRecorder {
	b.t.Helper()
	return b.do(http.MethodGet, path, nil, nil)
}

func (b *browser) post(path string, form url.Values) *httptest.ResponseRecorder {
	b.t.Helper()
	return b.do(http.MethodPost, path, form, nil)
}

// pagesOfOperators are the pages that require a session.
var pagesOfOperators = []string{"/", "/?period=week", "/checkup", "/realms", "/settings", "/keys", "/operators", "/clients", "/new/client", "/new/client?kind=web", "/grants", "/grants?subject=alice", "/audit", "/audit/export", "/explain", "/users", "/new/user", "/keys/rotate", "/apis", "/new/api", "/restores", "/new/restore"}

func TestNobodySeesAnythingWithoutASession(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	for _, path := range pagesOfOperators {
		if w := alice.get(path); w.Code != http.StatusOK {
			t.Errorf("%s of an operator: %d\n%s", path, w.Code, w.Body)
		}
		for name, b := range map[string]*browser{"no cookie": {fixture: r}, "a guess": {fixture: r, cookie: &http.Cookie{Name: "__Host-mintage_console", Value: "guess"}},
			"the account's cookie":         {fixture: r, cookie: &http.Cookie{Name: "__Host-mintage_session", Value: alice.cookie.Value}},
			"the console's under its name": {fixture: r, cookie: &http.Cookie{Name: "mintage_console", Value: alice.cookie.Value}}} {
			if w := b.get(path); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/sign-in" {
				t.Errorf("%s with %s: %d", path, name, w.Code)
			}
		}
	}
}

func TestTheCookieIsForTheConsoleAlone(t *testing.T) {
	c := open(t).operator("alice", operator.Admin).cookie
	if c.Name != "__Host-mintage_console" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("the cookie is %v", c)
	}
}

// A form is accepted only from a page of the console (CWE-352).
func TestForgedForms(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	for _, from := range []string{"", "null", "https://evil.example", "https://console.example", "https://console.example:8443", "http://console.example:8445", "https://console.example:8445.evil.example"} {
		for _, path := range []string{"/sign-out", "/sign-in", "/factor", r.invitation("alice"), "/operators/sessions/000000000000000000000000/end"} {
			w := alice.do(http.MethodPost, path, nil, func(r *http.Request) {
				r.Header.Set("Origin", from)
				if from == "" {
					r.Header.Del("Origin")
				}
			})
			if w.Code != http.StatusForbidden {
				t.Errorf("POST %s from %q: %d", path, from, w.Code)
			}
		}
	}
	if w := alice.get("/"); w.Code != http.StatusOK {
		t.Errorf("a forged form has signed the operator out: %d", w.Code)
	}
}

// A form that is sent after the session has ended changes nothing, and can be sent again: the
// answer is no redirect, because the browser would forget the form.
func TestAFormAfterTheSession(t *testing.T) {
	r := open(t)
	r.shop("Shop", "shop")
	alice := r.operator("alice", operator.Admin)
	form := url.Values{"state": {"disabled"}}
	session := alice.cookie
	alice.cookie = nil
	if w := alice.post("/clients/shop/state", form); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "Nothing was changed") || !strings.Contains(w.Body.String(), `href="/sign-in" target="_blank"`) {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
	if w := alice.get("/clients"); w.Header().Get("Location") != "/sign-in" {
		t.Errorf("a page: %d to %s", w.Code, w.Header().Get("Location"))
	}
	alice.cookie = session
	if w := alice.post("/clients/shop/state", form); w.Code != http.StatusSeeOther || !strings.Contains(w.Header().Get("Location"), "done=disabled") {
		t.Errorf("the form again, after a sign-in: %d", w.Code)
	}
}

// A form that was sent in an earlier session creates nothing again: the page about a client
// with its secret is reloaded after the session has ended, and once more after a sign-in.
func TestAFormThatAnEarlierSessionSent(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	form := url.Values{"once": {operator.NewForm()}, "kind": {"web"}, "name": {"Shop"}, "redirect_uris": {"https://shop.example/cb"}, "scope": {"read"}}
	for _, of := range []struct {
		cookie *http.Cookie
		status int
	}{{alice.cookie, http.StatusOK}, {nil, http.StatusForbidden}, {r.cookieOf("alice"), http.StatusConflict}} {
		alice.cookie = of.cookie
		if w := alice.post("/new/client", form); w.Code != of.status {
			t.Errorf("%d, want %d\n%s", w.Code, of.status, w.Body)
		}
	}
}

// A form that is too large gets an error of its own, and is not reported as forged.
func TestALargeForm(t *testing.T) {
	alice := open(t).operator("alice", operator.Admin)
	w := alice.post("/explain", url.Values{"text": {strings.Repeat("x", 64<<10)}})
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "A form can hold 64 KiB.") {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
}

// DNS rebinding: a page of another site can reach the console's address, but only under
// its own host name.
func TestTheConsoleAnswersOnlyUnderItsOwnHostName(t *testing.T) {
	alice := open(t).operator("alice", operator.Admin)
	for _, host := range []string{"evil.example:8445", "127.0.0.1:8445", "console.example", "console.example:8443", ""} {
		w := alice.do(http.MethodGet, "/", nil, func(r *http.Request) { r.Host = host })
		if w.Code != http.StatusMisdirectedRequest || strings.Contains(w.Body.String(), "alice") {
			t.Errorf("under %q: %d", host, w.Code)
		}
	}
}

// No page can be framed, has a script, or sends its address elsewhere.
func TestHeadersOfEveryPage(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	script := regexp.MustCompile(`(?i)<script|\son[a-z]+=|javascript:|<style|\sstyle=`)
	for _, path := range append([]string{"/sign-in", "/nothing", "/factor", "/invitation/guess"}, pagesOfOperators...) {
		w := alice.get(path)
		h := w.Header()
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "script-src 'self';") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %s", path, csp)
		}
		if h.Get("X-Frame-Options") != "DENY" || h.Get("Referrer-Policy") != "same-origin" || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, h)
		}
		if found := script.Find(w.Body.Bytes()); found != nil {
			t.Errorf("%s has %s", path, found)
		}
	}
}

// A wrong password, a user without a second factor, a user who is not an operator and an
// unknown user get the same answer, so that guessing passwords gives no information.
func TestARefusedSignInDoesNotSayWhatWasRight(t *testing.T) {
	r := open(t)
	r.console.Users, r.console.Audit = r.users, r.audit
	passwords := map[string]string{"nobody": "a guess"}
	for _, name := range []string{"alice", "bob"} {
		_, generated, err := r.cases.Users().Create(t.Context(), account.Registration{Username: name})
		if err != nil {
			t.Fatal(err)
		}
		passwords[name] = generated
	}
	if err := operator.Add(t.Context(), r.store, operator.Operator{Name: "alice", Role: operator.Admin}); err != nil {
		t.Fatal(err)
	}
	answer := func(name, password string) string {
		b := &browser{fixture: r}
		w := b.post("/sign-in", url.Values{"username": {name}, "password": {password}, "code": {"123456"}})
		if w.Code != http.StatusUnprocessableEntity || b.cookie != nil {
			t.Errorf("%s: %d", name, w.Code)
		}
		return strings.ReplaceAll(w.Body.String(), name, "NAME")
	}
	want := answer("alice", "a guess")
	if !strings.Contains(want, "or you are no operator") {
		t.Fatalf("a wrong password is answered with\n%s", want)
	}
	for name, password := range passwords {
		if got := answer(name, password); got != want {
			t.Errorf("%s is answered with\n%s", name, got)
		}
	}
	// The audit log contains only names of operators: any other text may be a password
	// that was typed into the wrong field.
	if err := r.audit.Close(); err != nil {
		t.Fatal(err)
	}
	for e, err := range audit.Read(r.auditDirectory, audit.Filter{}) {
		if err != nil || e.Event == audit.LoginFailed && e.Actor != "console" && e.Actor != "console:alice" {
			t.Errorf("recorded as of %q, %v", e.Actor, err)
		}
	}
}

// Throttled attempts are in the audit log too, at most one a minute.
func TestThrottledSignInsAreRecorded(t *testing.T) {
	r := open(t)
	r.console.Users, r.console.Audit = r.users, r.audit
	if err := operator.Add(t.Context(), r.store, operator.Operator{Name: "alice", Role: operator.Admin}); err != nil {
		t.Fatal(err)
	}
	var last int
	for range account.DefaultFailures + 2 {
		b := &browser{fixture: r}
		last = b.post("/sign-in", url.Values{"username": {"alice"}, "password": {"a guess"}, "code": {"123456"}}).Code
	}
	if err := r.audit.Close(); err != nil || last != http.StatusTooManyRequests {
		t.Fatal(last, err)
	}
	var actors []string
	for e, err := range audit.Read(r.auditDirectory, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event == audit.Throttled {
			actors = append(actors, e.Actor)
		}
	}
	if !slices.Equal(actors, []string{"console:alice"}) {
		t.Errorf("throttled: %q", actors)
	}
}

// What the console changes is recorded with the browser's request and address.
func TestAChangeIsRecordedWithTheRequestOfTheBrowser(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	var from audit.Origin
	api := r.console.API
	r.console.API = http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		from = audit.From(hr.Context())
		api.ServeHTTP(w, hr)
	})
	w := alice.get("/clients")
	if id := w.Header().Get("X-Request-Id"); from.RequestID != id || id == "" || from.RemoteIP.String() != "192.0.2.1" {
		t.Errorf("of request %q: %+v", id, from)
	}
}

// Failures in other browsers do not throttle a browser in which the operator has signed in
// before.
func TestABrowserThatIsKnownIsNotThrottledWithOthers(t *testing.T) {
	r := open(t)
	r.console.Users = r.users
	_, password, err := r.cases.Users().Create(t.Context(), account.Registration{Username: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := r.cases.Users().SetTOTP(t.Context(), "alice", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Add(t.Context(), r.store, operator.Operator{Name: "alice", Role: operator.Admin}); err != nil {
		t.Fatal(err)
	}
	signIn := func(b *browser, password string) int {
		r.now = r.now.Add(time.Minute) // to the next code
		return b.post("/sign-in", url.Values{"username": {"alice"}, "password": {password}, "code": {testkit.OneTimeCode(secret, r.now)}}).Code
	}
	alice := &browser{fixture: r}
	if status := signIn(alice, password); status != http.StatusSeeOther || len(alice.known) == 0 {
		t.Fatalf("the first time: %d", status)
	}
	alice.post("/sign-out", nil)
	for range 3 * account.DefaultFailures {
		b := &browser{fixture: r}
		b.post("/sign-in", url.Values{"username": {"alice"}, "password": {"a guess"}, "code": {"123456"}})
		b.post("/sign-in", url.Values{"username": {"alice"}, "password": {password}, "code": {"000000"}})
	}
	r.now = r.now.Add(-time.Minute)
	if status := signIn(&browser{fixture: r}, password); status != http.StatusTooManyRequests {
		t.Errorf("in a new browser: %d", status)
	}
	if status := signIn(alice, password); status != http.StatusSeeOther {
		t.Errorf("in the known browser: %d", status)
	}
}

// The number of concurrent requests is limited. A form that is sent slowly does not count.
func TestASlowFormTakesNoSlot(t *testing.T) {
	r := open(t)
	r.console.Users = r.users
	server := httptest.NewServer(r.handler)
	defer server.Close()
	for range 8 {
		body, end := io.Pipe()
		defer end.Close()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/sign-in", body)
		if err != nil {
			t.Fatal(err)
		}
		q.Host = strings.TrimPrefix(origin, "https://")
		q.Header.Set("Origin", origin)
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		go func() {
			if resp, err := server.Client().Do(q); err == nil {
				resp.Body.Close()
			}
		}()
		if _, err := end.Write([]byte("username=a")); err != nil { // the request has begun
			t.Fatal(err)
		}
	}
	if w := (&browser{fixture: r}).get("/sign-in"); w.Code != http.StatusOK {
		t.Errorf("beside slow forms: %d", w.Code)
	}
}

// nobody reports that every operator of a list can sign in.
func nobody([]operator.Operator) ([]string, error) { return nil, nil }

// The role of an operator is read at each request, and so is whether the operator still
// exists.
func TestARemovedRoleIsLostAtTheNextRequest(t *testing.T) {
	r := open(t)
	r.operator("carol", operator.Admin)
	alice := r.operator("alice", operator.Admin)
	if w := alice.get("/operators"); w.Code != http.StatusOK {
		t.Fatal(w.Code)
	}
	if err := operator.Remove(t.Context(), r.store, "alice", "test", grant.At(r.now), nobody); err != nil {
		t.Fatal(err)
	}
	if w := alice.get("/operators"); w.Code != http.StatusSeeOther {
		t.Errorf("after the removal: %d", w.Code)
	}
	if err := operator.Add(t.Context(), r.store, operator.Operator{Name: "alice", Role: operator.Auditor}); err != nil {
		t.Fatal(err)
	}
	if w := alice.get("/operators"); w.Code == http.StatusOK && strings.Contains(w.Body.String(), "/end\">") {
		t.Error("an auditor who was an admin is offered changes")
	}
}

// A session of a built-in user ends when the password or the second factor changes, and
// when the user is deleted.
func TestAChangedUserIsSignedOut(t *testing.T) {
	r := open(t)
	ctx := t.Context()
	users := r.cases.Users()
	for what, change := range map[string]func(name string) error{
		"nothing":                nil,
		"another password":       func(name string) error { _, _, err := users.SetPassword(ctx, name, "", "", false); return err },
		"another second factor":  func(name string) error { _, _, err := users.SetTOTP(ctx, name, ""); return err },
		"no second factor":       func(name string) error { _, err := users.RemoveTOTP(ctx, name, ""); return err },
		"a user who is disabled": func(name string) error { _, err := users.Disable(ctx, name, ""); return err },
	} {
		name := strings.ReplaceAll(what, " ", "-")
		if _, _, err := users.Create(ctx, account.Registration{Username: name}); err != nil {
			t.Fatal(err)
		}
		u, _, err := users.SetTOTP(ctx, name, "")
		if err != nil {
			t.Fatal(err)
		}
		b := r.operator(name, operator.Admin)
		r.console.Users = r.users
		if w := b.get("/clients"); w.Code != http.StatusSeeOther {
			t.Errorf("%s: %d in a session of an earlier epoch", what, w.Code)
		}
		b.cookie.Value = r.session(u)
		if w := b.get("/clients"); w.Code != http.StatusOK {
			t.Fatalf("%s: %d before the change", what, w.Code)
		}
		want := http.StatusSeeOther
		if change == nil {
			want = http.StatusOK
		} else if err := change(name); err != nil {
			t.Fatal(err)
		}
		if w := b.get("/clients"); w.Code != want {
			t.Errorf("%s: %d", what, w.Code)
		}
		r.console.Users = nil
		if w := b.get("/clients"); w.Code != http.StatusSeeOther {
			t.Errorf("%s: %d where users are built in no longer", what, w.Code)
		}
	}
}

// Whoever makes a new password for the own account is told that the session has ended.
func TestAnOperatorMakesTheOwnPassword(t *testing.T) {
	r := open(t)
	b := r.operator("alice", operator.Admin)
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
	b.cookie.Value = r.session(u)
	for _, name := range []string{"bob", "alice"} {
		page := b.post("/users/"+name+"/password", url.Values{"once": {field(b.get("/users/"+name).Body.String(), "once")}}).Body.String()
		if own := name == "alice"; own != strings.Contains(page, `href="/sign-in"`) || own == strings.Contains(page, "To the user") {
			t.Errorf("%s:\n%s", name, page)
		}
	}
}

// An auditor can end only the auditor's own session, whatever form is sent. An admin can
// end any.
func TestAnAuditorChangesNothing(t *testing.T) {
	r := open(t)
	alice, bob := r.operator("alice", operator.Admin), r.operator("bob", operator.Auditor)
	list, err := operator.Sessions(t.Context(), r.store, grant.At(r.now))
	if err != nil || len(list) != 2 {
		t.Fatalf("%d sessions, %v", len(list), err)
	}
	of := map[string]string{}
	for _, s := range list {
		of[s.Operator] = s.ID()
	}
	if body := bob.get("/operators").Body.String(); strings.Contains(body, "/end\"") {
		t.Error("an auditor is offered the end of a session")
	}
	if w := bob.post("/operators/sessions/"+of["alice"]+"/end", nil); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "Your role does not allow this") {
		t.Errorf("an auditor ends a session: %d", w.Code)
	}
	if w := alice.get("/operators/sessions/" + of["bob"] + "/end"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "End this session?") {
		t.Errorf("the question: %d", w.Code)
	}
	if w := alice.post("/operators/sessions/"+of["bob"]+"/end", nil); w.Code != http.StatusSeeOther {
		t.Errorf("an admin ends a session: %d", w.Code)
	}
	if w := bob.get("/"); w.Code != http.StatusSeeOther {
		t.Errorf("after the end: %d", w.Code)
	}
}

// An invitation still works once after a program has opened its link.
func TestInvitations(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	link := r.invitation("alice")
	for range 3 {
		if w := (&browser{fixture: r}).get(link); w.Code != http.StatusOK || len(w.Result().Cookies()) > 0 {
			t.Fatalf("the page: %d, %v", w.Code, w.Result().Cookies())
		}
	}
	if w := (&browser{fixture: r}).do(http.MethodHead, link, nil, nil); len(w.Result().Cookies()) > 0 {
		t.Error("HEAD gives a cookie")
	}
	first, second := &browser{fixture: r}, &browser{fixture: r}
	if w := first.post(link, nil); w.Code != http.StatusSeeOther || first.cookie == nil {
		t.Errorf("the first: %d", w.Code)
	}
	if w := second.post(link, nil); w.Code != http.StatusGone || second.cookie != nil || !strings.Contains(w.Body.String(), "used already") {
		t.Errorf("the second: %d", w.Code)
	}
	late := r.invitation("alice")
	r.now = r.now.Add(operator.Invitation)
	if w := second.post(late, nil); w.Code != http.StatusGone || !strings.Contains(w.Body.String(), "expired") {
		t.Errorf("after ten minutes: %d", w.Code)
	}
	if w := second.post("/invitation/guess", nil); w.Code != http.StatusGone {
		t.Errorf("a guess: %d", w.Code)
	}

	// The link of another operator is opened in the browser of alice.
	r.operator("bob", operator.Auditor)
	theirs, mine := r.invitation("bob"), alice.cookie.Value
	if w := alice.get(theirs); !strings.Contains(w.Body.String(), "another operator is signed in") {
		t.Error("the page does not say who is signed in")
	}
	if w := alice.post(theirs, nil); w.Code != http.StatusOK || alice.cookie.Value != mine {
		t.Errorf("without an answer to the question, alice is signed out: %d", w.Code)
	}
	if w := alice.post(theirs, url.Values{"instead": {"alice"}}); w.Code != http.StatusSeeOther || alice.cookie.Value == mine {
		t.Errorf("after the answer: %d", w.Code)
	}
	if w := (&browser{fixture: r, cookie: &http.Cookie{Name: "__Host-mintage_console", Value: mine}}).get("/"); w.Code != http.StatusSeeOther {
		t.Error("the session of alice goes on in the browser of bob")
	}
}

// An operator who has lost the password or the phone signs in by an invitation. The newly
// enrolled factor ends the user's other sessions, and not the session that enrolls it.
func TestAnInvitedOperatorEnrolsASecondFactor(t *testing.T) {
	r := open(t)
	r.console.Users = r.users
	ctx, users := t.Context(), r.cases.Users()
	var secret []byte
	if _, _, err := users.Create(ctx, account.Registration{Username: "alice"}); err != nil {
		t.Fatal(err)
	}
	if err := operator.Add(ctx, r.store, operator.Operator{Name: "alice", Role: operator.Admin}); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []func() error{
		func() error { return nil },
		func() error { _, _, err := users.SetPassword(ctx, "alice", "", "", false); return err },
		func() error { _, err := users.RemoveTOTP(ctx, "alice", ""); return err },
	} {
		if err := lost(); err != nil {
			t.Fatal(err)
		}
		before, err := users.Read(ctx, "alice")
		if err != nil {
			t.Fatal(err)
		}
		b := &browser{fixture: r}
		b.post(r.invitation("alice"), nil)
		r.now = r.now.Add(time.Minute) // to the next code
		if before.TOTP == nil {
			_, page, _ := strings.Cut(b.get("/factor").Body.String(), `id="secret">`)
			shown, _, _ := strings.Cut(page, "<")
			if secret, err = base32.StdEncoding.DecodeString(strings.ReplaceAll(shown, " ", "")); err != nil {
				t.Fatalf("the secret: %v", err)
			}
		}
		if w := b.post("/factor", url.Values{"code": {testkit.OneTimeCode(secret, r.now)}}); w.Code != http.StatusSeeOther {
			t.Fatalf("the code: %d\n%s", w.Code, w.Body)
		}
		if w := b.get("/"); w.Code != http.StatusOK {
			t.Errorf("after the code: %d, to %s", w.Code, w.Header().Get("Location"))
		}
		for who, to := range map[*browser]string{b: "/", {fixture: r}: "/sign-in?ended"} { // neither owes a code
			if w := who.post("/factor", url.Values{"code": {"000000"}}); w.Code != http.StatusSeeOther || w.Header().Get("Location") != to {
				t.Errorf("a code that is not due: %d, to %s", w.Code, w.Header().Get("Location"))
			}
		}
		after, err := users.Read(ctx, "alice")
		if err != nil {
			t.Fatal(err)
		}
		ends, err := r.store.Documents(ctx, store.DocumentFilter{Kind: store.DocumentLogout, Limit: 10})
		if enrolled := before.TOTP == nil; enrolled != (after.Epoch == before.Epoch+1) || enrolled != (after.SessionsEnd == grant.At(r.now)) || err != nil || len(ends) == 0 {
			t.Errorf("enrolled %t: epoch %d after %d, sessions ended at %d, %d ends to tell, %v", enrolled, after.Epoch, before.Epoch, after.SessionsEnd, len(ends), err)
		}
	}
}

// If two browsers enroll a factor at the same time, the second one's attempt changes
// nothing.
func TestTwoBrowsersEnrolASecondFactorAtOnce(t *testing.T) {
	r := open(t)
	r.console.Users = r.users
	if _, _, err := r.cases.Users().Create(t.Context(), account.Registration{Username: "alice"}); err != nil {
		t.Fatal(err)
	}
	if err := operator.Add(t.Context(), r.store, operator.Operator{Name: "alice", Role: operator.Admin}); err != nil {
		t.Fatal(err)
	}
	first, second := &browser{fixture: r}, &browser{fixture: r}
	enter := func(b *browser) *httptest.ResponseRecorder {
		_, page, _ := strings.Cut(b.get("/factor").Body.String(), `id="secret">`)
		shown, _, _ := strings.Cut(page, "<")
		secret, err := base32.StdEncoding.DecodeString(strings.ReplaceAll(shown, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		return b.post("/factor", url.Values{"code": {testkit.OneTimeCode(secret, r.now)}})
	}
	first.post(r.invitation("alice"), nil)
	second.post(r.invitation("alice"), nil)
	enrolled := r.console.Enrolled
	r.console.Enrolled = func(by admin.Actor, u account.User, at grant.Instant) store.Change {
		r.console.Enrolled = enrolled
		if w := enter(first); w.Header().Get("Location") != "/" {
			t.Errorf("the first: %d, to %q", w.Code, w.Header().Get("Location"))
		}
		return enrolled(by, u, at)
	}
	if w := enter(second); w.Header().Get("Location") != "/factor" {
		t.Errorf("the second: %d, to %q", w.Code, w.Header().Get("Location"))
	}
	if to := second.get("/factor").Header().Get("Location"); to != "/sign-in?ended" {
		t.Errorf("the second browser is sent to %q", to)
	}
	third := &browser{fixture: r}
	third.post(r.invitation("alice"), nil)
	if _, err := r.cases.Users().RemoveTOTP(t.Context(), "alice", ""); err != nil {
		t.Fatal(err)
	}
	if w := third.get("/factor"); w.Header().Get("Location") != "/sign-in?ended" {
		t.Errorf("asked for a code of a factor that was removed: %d", w.Code)
	}
}

// hostile are names with special characters for a browser, a spreadsheet, a shell, a
// terminal or a reader.
var hostile = []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `=HYPERLINK("http://evil.example")`, `$(touch /tmp/x)`, "safe\u202eelbat", `</title><h1>`}

func TestHostileNames(t *testing.T) {
	r := open(t)
	alice := r.operator("alice", operator.Admin)
	for i, name := range hostile {
		c, _, err := r.cases.Clients().Create(t.Context(), client.Registration{Settings: store.Settings{Name: name, RedirectURIs: []string{"https://shop.example/cb"}, Scope: "read", Auth: store.AuthEither}, Secret: ""}, store.ClientEnabled)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		// The overview names a secret that expires soon.
		if _, _, err := r.cases.Clients().AddSecret(t.Context(), c.ID, time.Hour); err != nil {
			t.Fatal(err)
		}
		secrets := c.Secrets
		if err := r.cases.Clients().RevokeSecret(t.Context(), c.ID, secrets[0].ID, true); err != nil {
			t.Fatal(err)
		}
	}
	body := alice.get("/").Body.String()
	if n := strings.Count(body, "the last secret of this client ends on"); n != len(hostile) {
		t.Fatalf("%d clients are named, of %d", n, len(hostile))
	}
	for _, bad := range []string{"<script>alert", "<img", "\u202e", "</title><h1>"} {
		if strings.Contains(body, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(body, `\u202e`) {
		t.Error("the page hides a character that changes the text direction")
	}
}

func TestJapanese(t *testing.T) {
	alice := open(t).operator("alice", operator.Admin)
	for accept, want := range map[string]string{"ja,en;q=0.5": "要確認", "fr, ja;q=0.8": "要確認", "en-GB": "Needs attention", "": "Needs attention", "x;;,": "Needs attention"} {
		w := alice.do(http.MethodGet, "/", nil, func(r *http.Request) { r.Header.Set("Accept-Language", accept) })
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q: no %s", accept, want)
		}
	}
}

// Pages that are rendered concurrently have the language and the realm of their own
// requests.
func TestPagesAtOnce(t *testing.T) {
	r := open(t)
	r.staff()
	r.operator("alice", operator.Admin)
	cookie := r.cookieOf("alice")
	want := map[string]map[string]string{"en": {"/": ">Needs attention<", "/realms/staff/": ">Needs attention<"}, "ja": {"/": ">要確認<", "/realms/staff/": ">要確認<"}}
	var all sync.WaitGroup
	for accept, pages := range want {
		for path, text := range pages {
			all.Go(func() {
				b := &browser{fixture: r, cookie: cookie}
				for range 10 {
					body := b.do(http.MethodGet, path, nil, func(r *http.Request) { r.Header.Set("Accept-Language", accept) }).Body.String()
					if !strings.Contains(body, text) || !strings.Contains(body, `href="`+path+`clients"`) {
						t.Errorf("%s in %s:\n%s", path, accept, body)
					}
				}
			})
		}
	}
	all.Wait()
}
