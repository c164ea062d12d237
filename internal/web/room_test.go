package web_test

import (
	"cmp"
	"encoding/base64"
	"fmt"
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

	"golang.org/x/crypto/argon2"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/metrics"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
	"github.com/mintage/mintage/internal/web"
)

const (
	publicURL      = "https://auth.example"
	interactionURL = publicURL + "/oauth2/interaction"
	connectionsURL = publicURL + "/account/connections"
	logoutURL      = publicURL + "/account/logout"
	callbackURL    = publicURL + "/oauth2/callback"
	endSessionURL  = publicURL + "/oauth2/end_session"

	redirectURI = "https://shop.example/cb"
	afterLogout = "https://shop.example/bye"
	password    = "correct horse battery staple"

	browserName = "__Host-mintage_browser"
	sessionName = "__Host-mintage_session"
	knownName   = "__Host-mintage_known"
)

// A fixture is the pages of a server, called without a network, with their audit
// log, metrics and log. Users are built in unless the test chooses otherwise.
type fixture struct {
	*web.Front
	t        *testing.T
	kit      *testkit.Kit
	server   *server.Server
	metrics  *metrics.Metrics
	audit    *audit.Log
	auditDir string
	counted  map[string]float64 // at the last call of outcome
	shop     store.Client
}

// A choice has what a test can change about its fixture.
type choice struct {
	*web.Front
	limits   overload.RateLimits
	capacity overload.Capacity
}

// templates are shared by all rooms.
var templates = sync.OnceValues(func() (*pages.Set, error) { return pages.New(pages.Options{}) })

func newFixture(t *testing.T, choose ...func(*fixture, *choice)) *fixture {
	t.Helper()
	r := &fixture{t: t, metrics: metrics.New("v1", 0), auditDir: filepath.Join(t.TempDir(), "audit")}
	r.kit = testkit.New(t, func(s *testkit.Setup) {
		s.ID, s.Policy.RefreshLifetime = publicURL+"/oauth2/api", 24*time.Hour
		s.Schedule.Algorithms = []keys.Purpose{keys.ES256}
		s.IDTokenLifetime = time.Hour
	})
	set, err := templates()
	if err != nil {
		t.Fatal(err)
	}
	users := account.New(account.Users{
		Realm: testkit.Realm, Store: r.kit.Faulty, Now: r.kit.Clock.Now, Log: r.kit.Issuer.Log,
		Ring: func() (*keys.Ring, error) { return r.kit.View().Ring, nil },
	})
	a := login.New(r.kit.Issuer, login.Documents{Realm: testkit.Realm, Store: r.kit.Issuer.Store, Directory: r.kit.Issuer.Directory, Now: r.kit.Issuer.Now})
	a.Interactions.Lifetime, a.ContinueURL = 10*time.Minute, interactionURL+"?id="
	a.Sessions.Lifetime, a.Idle, a.Alive = 12*time.Hour, time.Hour, users.Alive
	r.Front = &web.Front{Pages: set, Users: users, Authorizer: a}
	c := &choice{Front: r.Front, capacity: overload.Capacity{Requests: 64}}
	for _, f := range choose {
		f(r, c)
	}
	log := slog.New(slog.NewTextHandler(r.kit.Logged, nil))
	r.audit = audit.Open(audit.Options{Directory: r.auditDir, Node: "a", Routine: true, Now: r.kit.Clock.Now, Log: log})
	t.Cleanup(func() { r.audit.Close() }) // what it writes later would be in the way of removing the directory
	r.server = server.New(r.kit.Issuer.Directory, server.Options{
		Site: server.Site{PublicURL: publicURL, Realm: testkit.Realm}, Queue: overload.NewQueue(c.capacity, func(string) {}),
		Throttle: overload.NewThrottle(c.limits, r.metrics.Throttled), Audit: r.audit, Metrics: r.metrics,
	}, log)
	r.server.Mount(r.Front.Routes(r.server)...)
	r.shop = r.client(client.Registration{ID: "shop", Settings: store.Settings{Name: "Shop"}})
	r.user("alice")
	r.counts()
	return r
}

// client registers a client that needs neither a secret nor PKCE.
func (r *fixture) client(of client.Registration) store.Client {
	r.t.Helper()
	of.Auth, of.NoPKCE, of.IDTokenAlg = store.AuthEither, true, keys.ES256
	of.Scope = cmp.Or(of.Scope, "openid a b email")
	of.RedirectURIs, of.PostLogoutRedirectURIs = []string{redirectURI}, []string{afterLogout}
	c, _ := r.kit.Register(of)
	return c
}

// user registers a built-in user with a cheap password hash.
func (r *fixture) user(name string) {
	r.t.Helper()
	salt, enc := []byte("sixteen bytes ok"), base64.RawStdEncoding
	err := account.Create(r.t.Context(), r.kit.Engine, account.User{
		Username: name, Name: "User " + name, Subject: "s-" + name, Realm: testkit.Realm, State: account.Enabled, Version: 1,
		Password:  fmt.Sprintf("$argon2id$v=19$m=8,t=1,p=1$%s$%s", enc.EncodeToString(salt), enc.EncodeToString(argon2.IDKey([]byte(password), salt, 1, 8, 1, 32))),
		CreatedAt: r.kit.At(), UpdatedAt: r.kit.At(),
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// change changes a user like another process.
func (r *fixture) change(name string, alter func(account.User) account.User) {
	r.t.Helper()
	u, err := account.Find(r.t.Context(), r.kit.Engine, testkit.Realm, name)
	if err == nil {
		err = account.Put(r.t.Context(), r.kit.Engine, alter(u), store.Change{})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// secondFactor adds an authenticator app for a user, and returns a function that computes
// its codes.
func (r *fixture) secondFactor(name string) (code func() string) {
	r.t.Helper()
	var secret []byte
	r.change(name, func(u account.User) (next account.User) {
		next, secret = u.SetTOTP(r.kit.View().Ring, r.kit.At())
		return next
	})
	return func() string { return testkit.OneTimeCode(secret, r.kit.Clock.Now()) }
}

// counts returns the counters that have changed since the last call, with the differences:
// "name label +n".
func (r *fixture) counts() []string {
	r.t.Helper()
	families, err := r.metrics.Gatherer().Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	var changed []string
	before := r.counted
	r.counted = map[string]float64{}
	for _, f := range families {
		short, mine := map[string]string{
			"mintage_login_attempts_total": "login", "mintage_logouts_total": "logout", "mintage_throttled_total": "throttled", "mintage_device_authorizations_total": "device",
		}[f.GetName()]
		for _, m := range f.GetMetric() {
			if !mine {
				continue
			}
			name := short + " " + m.GetLabel()[0].GetValue()
			r.counted[name] = m.GetCounter().GetValue()
			if by := r.counted[name] - before[name]; by > 0 {
				changed = append(changed, fmt.Sprintf("%s +%v", name, by))
			}
		}
	}
	slices.Sort(changed)
	return changed
}

// recorded closes the audit log, and returns its records since an instant: event, outcome,
// subject, client and detail.
func (r *fixture) recorded(since time.Time) (list []string) {
	r.t.Helper()
	if err := r.audit.Close(); err != nil {
		r.t.Fatal(err)
	}
	for e, err := range audit.Read(r.auditDir, audit.Filter{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		if e.Event == audit.Segment || e.Time.Before(since) {
			continue
		}
		if e.RequestID == "" || e.RemoteIP != "192.0.2.1" || e.Realm != testkit.Realm {
			r.t.Errorf("%s does not contain the origin of the request: %+v", e.Event, e)
		}
		if e.Event == audit.CodeIssued && e.GrantID == "" {
			r.t.Errorf("no grant: %+v", e)
		}
		list = append(list, strings.Join([]string{string(e.Event), string(e.Outcome), e.Subject, e.ClientID, e.Detail}, "|"))
	}
	return list
}

// A browser keeps cookies. It follows redirects only in open and follow.
type browser struct {
	r       *fixture
	cookies map[string]string
	header  map[string]string
	from    string
	plain   bool // without TLS
}

func (r *fixture) browser() *browser {
	return &browser{r, map[string]string{}, map[string]string{"Sec-Fetch-Site": "same-origin"}, "192.0.2.1:1234", false}
}

// A shownPage is a response with its body.
type shownPage struct {
	*http.Response
	body string
}

func (b *browser) do(method, address string, form url.Values) shownPage {
	b.r.t.Helper()
	return b.send(method, address, form.Encode())
}

func (b *browser) send(method, address, form string) shownPage {
	b.r.t.Helper()
	q := httptest.NewRequestWithContext(b.r.t.Context(), method, address, strings.NewReader(form))
	q.RemoteAddr = b.from
	if b.plain {
		q.TLS = nil
	}
	if method == http.MethodPost {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range b.header {
		q.Header.Set(name, value)
	}
	for name, value := range b.cookies {
		q.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	b.r.server.Handler().ServeHTTP(w, q)
	s := shownPage{w.Result(), w.Body.String()}
	for _, c := range s.Cookies() {
		if delete(b.cookies, c.Name); c.MaxAge >= 0 {
			b.cookies[c.Name] = c.Value
		}
	}
	return s
}

func (b *browser) get(address string) shownPage { b.r.t.Helper(); return b.do("GET", address, nil) }

// post sends a form of name=value pairs.
func (b *browser) post(address string, pairs ...string) shownPage {
	b.r.t.Helper()
	form := url.Values{}
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		form.Add(name, value)
	}
	return b.do("POST", address, form)
}

// open requests an address, and follows redirects while they stay on the server's pages.
func (b *browser) open(address string) shownPage { b.r.t.Helper(); return b.follow(b.get(address)) }

func (b *browser) follow(s shownPage) shownPage {
	b.r.t.Helper()
	for range 10 {
		if !strings.HasPrefix(s.to(), publicURL+"/") {
			return s
		}
		s = b.get(s.to())
	}
	b.r.t.Fatal("a loop of redirects")
	return s
}

// to returns the address of a redirect.
func (s shownPage) to() string { return s.Header.Get("Location") }

// query returns the query of the redirect's address.
func (s shownPage) query() url.Values {
	u, err := s.Location()
	if err != nil {
		return url.Values{}
	}
	return u.Query()
}

// field returns the value of a hidden field of the page, or "".
func (s shownPage) field(name string) string {
	m := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(s.body)
	if m == nil {
		return ""
	}
	return m[1]
}

// stepLogout is the step of the form that confirms a logout.
const stepLogout login.Step = "logout"

// at fails the test unless the page is that of a step, and returns the page.
func (s shownPage) at(t *testing.T, step login.Step) shownPage {
	t.Helper()
	if s.field("step") != string(step) {
		t.Fatalf("status %d to %q, step %q, want %s", s.StatusCode, s.to(), s.field("step"), step)
	}
	return s
}

// asking is an authorization request of a client.
func asking(c store.Client, pairs ...string) string {
	q := url.Values{"response_type": {"code"}, "client_id": {c.ID}, "redirect_uri": {redirectURI}, "state": {"st"}, "scope": {"a"}, "realm": {testkit.Realm}}
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		q.Set(name, value)
	}
	return publicURL + "/oauth2/authorize?" + q.Encode()
}

// logIn sends a username and a password.
func (b *browser) logIn(page shownPage, name, password string) shownPage {
	b.r.t.Helper()
	return b.post(interactionURL, "id="+page.field("id"), "step=login", "username="+name, "password="+password)
}

// signedIn returns a browser with a session of the user, which was stored without a
// request.
func (r *fixture) signedIn(name string, change ...func(*login.Identity)) *browser {
	r.t.Helper()
	who := login.Identity{Subject: "s-" + name, Name: "User " + name, AuthTime: r.kit.At()}
	if r.Users != nil {
		who.Username = name
	}
	for _, f := range change {
		f(&who)
	}
	b, v := r.browser(), login.Visitor{Browser: login.NewBrowser()}
	it, err := r.Authorizer.BeginAccount(r.t.Context(), v)
	if err == nil {
		b.cookies[sessionName], err = r.Authorizer.SignIn(r.t.Context(), it, who, v)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// isSignedIn reports whether a user is signed in at the browser.
func (b *browser) isSignedIn() bool {
	b.r.t.Helper()
	s, err := b.r.Authorizer.Session(b.r.t.Context(), b.cookies[sessionName])
	if err != nil {
		b.r.t.Fatal(err)
	}
	return s != nil
}

// hint returns an id_token of the browser's session.
func (b *browser) hint(c store.Client) string {
	b.r.t.Helper()
	code := b.agree(asking(c, "scope=openid")).query().Get("code")
	tokens, err := b.r.kit.Exchange(b.r.t.Context(), &c, codeRequest(code))
	if err != nil {
		b.r.t.Fatal(err)
	}
	return tokens.IDToken
}

// agree requests an address and gives the remembered consent.
func (b *browser) agree(address string) shownPage {
	b.r.t.Helper()
	s := b.open(address)
	if id := s.field("id"); id != "" {
		s = b.post(interactionURL, "id="+id, "step=consent", "decision=allow", "remember=yes")
	}
	return s
}
