package conformance_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/web"
)

const (
	authorizeURL   = publicURL + "/oauth2/authorize?realm=/api"
	interactionURL = publicURL + "/oauth2/interaction"
	connectionsURL = publicURL + "/account/connections"
	logoutURL      = publicURL + "/account/logout"

	// The user of these tests.
	username = "alice"
	password = "correct horse battery staple"
)

// withFront enables the authorization endpoint with built-in users.
func withFront(o *options) { o.front = true }

// newFront wires the pages, with the deployment's clock.
func (d *deployment) newFront() *web.Front {
	d.t.Helper()
	set, err := pages.New(pages.Options{})
	if err != nil {
		d.t.Fatal(err)
	}
	users := account.New(account.Users{
		Realm: realm, Store: d.store, Now: d.now, Log: d.issuer.Log,
		Ring: func() (*keys.Ring, error) {
			view, err := d.directory.View()
			if err != nil {
				return nil, err
			}
			return view.Ring, nil
		},
	})
	d.authorizer = login.New(d.issuer, login.Documents{Realm: realm, Store: d.issuer.Store, Directory: d.directory, Now: d.now})
	d.authorizer.Interactions.Lifetime, d.authorizer.ContinueURL = 10*time.Minute, interactionURL+"?id="
	d.authorizer.Sessions.Lifetime, d.authorizer.Idle, d.authorizer.Alive = 12*time.Hour, time.Hour, users.Alive
	return &web.Front{Authorizer: d.authorizer, Pages: set, Users: users}
}

// hashed is the slow hash of the tests' common password, computed once.
var hashed = sync.OnceValue(func() string { return keys.HashSlow(password) })

// user registers a built-in user.
func (d *deployment) user(name string, choose ...func(*account.User)) account.User {
	d.t.Helper()
	u := account.User{
		Username: name, Name: "User " + name, Subject: name, Realm: realm, State: account.Enabled, Password: hashed(),
		CreatedAt: grant.At(d.now()), UpdatedAt: grant.At(d.now()), Version: 1,
	}
	for _, f := range choose {
		f(&u)
	}
	if err := account.Create(context.Background(), d.sqlite, u); err != nil {
		d.t.Fatal(err)
	}
	return u
}

// A browser keeps cookies, sends Origin and Sec-Fetch headers, and follows no redirects
// by itself.
type browser struct {
	t *testing.T
	http.Client
	// header is sent with every request; an empty value removes a header.
	header map[string]string
}

// A shownPage is a response to a browser.
type shownPage struct {
	*http.Response
	body string
}

// browser returns a new browser, which reaches the deployment under any host name.
func (d *deployment) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: d.roots, ServerName: "localhost"},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, d.address)
		},
	}
	d.t.Cleanup(transport.CloseIdleConnections)
	return &browser{t: d.t, Client: http.Client{
		Jar: jar, Transport: transport, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, header: map[string]string{"Sec-Fetch-Site": "same-origin"}}
}

func (b *browser) do(method, address string, form url.Values) shownPage {
	b.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequest(method, address, body)
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range b.header {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	res, err := b.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return shownPage{res, string(text)}
}

func (b *browser) get(address string) shownPage {
	b.t.Helper()
	return b.do(http.MethodGet, address, nil)
}

// post sends a form, given as name=value pairs.
func (b *browser) post(address string, pairs ...string) shownPage {
	b.t.Helper()
	return b.do(http.MethodPost, address, pairsOf(pairs))
}

func pairsOf(pairs []string) url.Values {
	form := url.Values{}
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		form.Add(name, value)
	}
	return form
}

// follow follows redirects as long as they stay on the server's own pages.
func (b *browser) follow(s shownPage) shownPage {
	b.t.Helper()
	for range 10 {
		to := s.Header.Get("Location")
		if to == "" || !strings.HasPrefix(to, publicURL+"/") {
			return s
		}
		s = b.get(to)
	}
	b.t.Fatal("a loop of redirects")
	return s
}

// asking returns an authorization request of c with the redirect URI and PKCE. Each pair
// replaces or adds a parameter; a name without "=" removes it.
func asking(c oauthClient, pairs ...string) string {
	q := url.Values{
		"response_type": {"code"}, "client_id": {c.ID}, "redirect_uri": {c.RedirectURIs[0]}, "state": {"st"},
		"code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}
	for _, p := range pairs {
		name, value, given := strings.Cut(p, "=")
		q.Del(name)
		if given {
			q.Set(name, value)
		}
	}
	return authorizeURL + "&" + q.Encode()
}

// signIn gives the browser a session without the login page.
func (d *deployment) signIn(b *browser, name string) {
	d.t.Helper()
	v := login.Visitor{Browser: login.NewBrowser()}
	it, err := d.authorizer.BeginAccount(context.Background(), v)
	if err != nil {
		d.t.Fatal(err)
	}
	cookie, err := d.authorizer.SignIn(context.Background(), it, login.Identity{Subject: name, Username: name, AuthTime: grant.At(d.now()), Login: openid.Password}, v)
	if err != nil {
		d.t.Fatal(err)
	}
	at, _ := url.Parse(publicURL)
	b.Jar.SetCookies(at, []*http.Cookie{{Name: "__Host-mintage_session", Value: cookie, Path: "/", Secure: true}})
}

// agree sends a request, gives the user's consent, and returns the redirect's target.
func (b *browser) agree(address string) *url.URL {
	b.t.Helper()
	s := b.follow(b.get(address))
	if id := s.field("id"); id != "" {
		s = b.post(interactionURL, "id="+id, "step=consent", "decision=allow", "remember=yes")
	}
	return s.location()
}

// location returns the redirect's target.
func (s shownPage) location() *url.URL {
	u, err := s.Location()
	if err != nil {
		return &url.URL{}
	}
	return u
}

// field returns the value of a hidden field of the page, or "".
func (s shownPage) field(name string) string {
	m := regexp.MustCompile(`<input type="hidden" name="` + name + `" value="([^"]*)"`).FindStringSubmatch(s.body)
	if m == nil {
		return ""
	}
	return m[1]
}

// title returns the page's title.
func (s shownPage) title() string {
	_, after, _ := strings.Cut(s.body, "<title>")
	title, _, _ := strings.Cut(after, "</title>")
	return title
}

// told requires a redirect to the client with this error, and returns the parameters.
func (s shownPage) told(t *testing.T, redirectURI string, code oauth.ErrorCode) url.Values {
	t.Helper()
	u := s.location()
	if s.StatusCode != http.StatusSeeOther || !strings.HasPrefix(u.String(), redirectURI) {
		t.Fatalf("status %d to %.80q, not a redirect to %s", s.StatusCode, u.String(), redirectURI)
	}
	q := u.Query()
	if q.Get("error") != string(code) || q.Get("iss") != issuerID || q.Has("code") || u.Fragment != "" {
		t.Errorf("answered %v, not %s with iss", q, code)
	}
	return q
}

// refusedPage requires an error page with a status and without a redirect.
func (s shownPage) refusedPage(t *testing.T, status int) {
	t.Helper()
	if s.StatusCode != status || s.Header.Get("Location") != "" || !strings.HasPrefix(s.Header.Get("Content-Type"), "text/html") {
		t.Errorf("status %d, Location %q, %s; not a page with status %d", s.StatusCode, s.Header.Get("Location"), s.Header.Get("Content-Type"), status)
	}
}

// signedIn starts a deployment with pages, a user and a browser in which the user is
// signed in.
func signedIn(t *testing.T, choose ...func(*options)) (*deployment, *browser) {
	d := start(t, append([]func(*options){withFront}, choose...)...)
	d.user(username)
	b := d.browser()
	d.signIn(b, username)
	return d, b
}
