package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"
)

// A mintage is the authorization server as the sample uses it.
type mintage struct {
	t         *testing.T
	url       string
	challenge string
	refresh   string // how refresh requests are refused; "" for success
	renewed   int
}

func (m *mintage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server/oauth2/api":
		fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q}`, m.issuer(), m.url+"/authorize", m.url+"/token")
	case "/token":
		id, secret, _ := r.BasicAuth()
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		fits := r.PostFormValue("code") == "the-code" && base64.RawURLEncoding.EncodeToString(sum[:]) == m.challenge
		grant := r.PostFormValue("grant_type")
		switch {
		case id != "c1" || secret != "s1":
			w.WriteHeader(401)
			fmt.Fprint(w, `{"error":"invalid_client"}`)
		case grant == "refresh_token" && m.refresh != "":
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error":%q}`, m.refresh)
		case grant == "refresh_token" && r.PostFormValue("refresh_token") == fmt.Sprint("secret-rt-", m.renewed), grant == "authorization_code" && fits:
			if grant == "refresh_token" {
				m.renewed++
			}
			json.NewEncoder(w).Encode(map[string]any{"scope": "read write", "expires_in": 300, "token_type": "Bearer",
				"access_token": fmt.Sprint("secret-at-", m.renewed), "refresh_token": fmt.Sprint("secret-rt-", m.renewed)})
		default:
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":"invalid_grant"}`)
		}
	case "/api":
		fmt.Fprintf(w, "<i>hello</i>, with the right token: %t", r.Header.Get("Authorization") == fmt.Sprint("Bearer secret-at-", m.renewed))
	default:
		http.NotFound(w, r)
	}
}

func (m *mintage) issuer() string { return m.url + "/oauth2/api" }

// A browser has cookies and does not follow redirects.
type browser struct {
	t    *testing.T
	url  string
	http *http.Client
}

func (b *browser) do(method, path string) (status int, page string, to *url.URL) {
	b.t.Helper()
	r, err := http.NewRequest(method, b.url+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if strings.Contains(string(body), "secret-") {
		b.t.Error("a token is on the page")
	}
	to, err = resp.Location()
	if err != nil {
		to = &url.URL{}
	}
	return resp.StatusCode, string(body), to
}

// page returns the front page to which a request redirects.
func (b *browser) page(method, path string) string {
	b.t.Helper()
	if status, _, to := b.do(method, path); status != http.StatusSeeOther || to.Path != "/" {
		b.t.Fatalf("%s %s: %d to %s", method, path, status, to)
	}
	_, page, _ := b.do("GET", "/")
	return page
}

func start(t *testing.T) (*mintage, *browser) {
	t.Helper()
	m := &mintage{t: t}
	as := httptest.NewServer(m)
	t.Cleanup(as.Close)
	m.url = as.URL
	c := &client{issuer: m.issuer(), api: m.url + "/api", http: as.Client(), sessions: map[string]*session{}, extra: url.Values{"prompt": {"login"}},
		conf: oauth2.Config{ClientID: "c1", ClientSecret: "s1", RedirectURL: "http://127.0.0.1/callback", Scopes: []string{"read", "write"},
			Endpoint: oauth2.Endpoint{AuthStyle: oauth2.AuthStyleInHeader}}}
	if err := c.discover(); err != nil {
		t.Fatal(err)
	}
	app := httptest.NewServer(c.handler())
	t.Cleanup(app.Close)
	return m, newBrowser(t, app.URL)
}

func newBrowser(t *testing.T, address string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, address, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// login begins a login and returns its state.
func (b *browser) login(m *mintage) string {
	b.t.Helper()
	_, _, to := b.do("GET", "/login")
	q := to.Query()
	if to.Path != "/authorize" || q.Get("code_challenge_method") != "S256" || q.Get("scope") != "read write" || q.Get("prompt") != "login" ||
		q.Get("redirect_uri") != "http://127.0.0.1/callback" || len(q.Get("state")) < 22 {
		b.t.Fatalf("to %s", to)
	}
	m.challenge = q.Get("code_challenge")
	return q.Get("state")
}

// callback returns the response to a login.
func (m *mintage) callback(state string, members ...string) string {
	q := url.Values{"state": {state}, "iss": {m.issuer()}}
	for i := 0; i < len(members); i += 2 {
		q.Set(members[i], members[i+1])
	}
	return "/callback?" + q.Encode()
}

func TestAGrantLivesAndTheBrowserSeesNoToken(t *testing.T) {
	m, b := start(t)
	if _, page, _ := b.do("GET", "/"); !strings.Contains(page, `id="sign-in"`) {
		t.Fatal(page)
	}
	page := b.page("GET", m.callback(b.login(m), "code", "the-code"))
	for _, want := range []string{`id="scope">read write<`, `id="expires-in">300<`, `id="renewed">0<`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in %s", want, page)
		}
	}
	if page := b.page("POST", "/call"); !strings.Contains(page, "&lt;i&gt;hello&lt;/i&gt;, with the right token: true") {
		t.Error(page)
	}
	for n := 1; n <= 2; n++ {
		if page := b.page("POST", "/refresh"); !strings.Contains(page, fmt.Sprintf(`id="renewed">%d<`, n)) {
			t.Error(page)
		}
	}
	m.refresh = "temporarily_unavailable"
	if page := b.page("POST", "/refresh"); !strings.Contains(page, "Not refreshed") || !strings.Contains(page, `id="renewed">2<`) {
		t.Errorf("tokens must be kept: %s", page)
	}
	m.refresh = "invalid_grant"
	if page := b.page("POST", "/refresh"); !strings.Contains(page, "No longer connected") || !strings.Contains(page, `id="sign-in"`) {
		t.Errorf("the grant has ended: %s", page)
	}
}

func TestAnAnswerIsTakenOnceFromTheRightIssuerByTheRightBrowser(t *testing.T) {
	m, b := start(t)
	refused := func(name string, b *browser, path, want string) {
		t.Helper()
		status, page, _ := b.do("GET", path)
		if !strings.Contains(page, want) || strings.Contains(page, `id="scope"`) || !strings.Contains(page, `id="sign-in"`) {
			t.Errorf("%s: %d %s", name, status, page)
		}
	}
	state := b.login(m)
	other := newBrowser(t, b.url)
	other.login(m)
	refused("another browser", other, m.callback(state, "code", "the-code"), "no login")
	refused("another state", b, m.callback("x", "code", "the-code"), "no login")
	refused("no state", b, "/callback?code=the-code", "no login")
	refused("another issuer", b, m.callback(state, "code", "the-code", "iss", "https://evil.example"), "issuer")
	refused("a state that is spent", b, m.callback(state, "code", "the-code"), "no login")
	refused("no issuer", b, m.callback(b.login(m), "code", "the-code", "iss", ""), "issuer")
	refused("another's error", b, m.callback(b.login(m), "error", "access_denied", "iss", "https://evil.example"), "issuer")
	refused("denied", b, m.callback(b.login(m), "error", "access_denied", "error_description", "<b>no</b>"), "access_denied. &lt;b&gt;no&lt;/b&gt;")
	refused("a stolen code", b, m.callback(b.login(m), "code", "another-code"), "invalid_grant")

	// With two tabs, each response has its own verifier.
	first := b.login(m)
	challenge := m.challenge
	second := b.login(m)
	if page := b.page("GET", m.callback(second, "code", "the-code")); !strings.Contains(page, `id="scope"`) {
		t.Error(page)
	}
	m.challenge = challenge
	if page := b.page("GET", m.callback(first, "code", "the-code")); !strings.Contains(page, `id="scope"`) {
		t.Error(page)
	}
	if page := b.page("POST", "/forget"); strings.Contains(page, `id="scope"`) {
		t.Error(page)
	}
}

func TestMetadataOfAnotherIssuerAreRefused(t *testing.T) {
	as := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"issuer":"https://evil.example","authorization_endpoint":"https://evil.example/a","token_endpoint":"https://evil.example/t"}`)
	}))
	defer as.Close()
	c := &client{issuer: as.URL + "/oauth2/api", http: as.Client()}
	if err := c.discover(); err == nil || !strings.Contains(err.Error(), "evil.example") {
		t.Errorf("discover: %v", err)
	}
}
