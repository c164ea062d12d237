package conformance_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/login"
	"github.com/mintage/mintage/internal/upstream"
	"github.com/mintage/mintage/internal/web"
)

// An upstreamProvider is the part of an OpenID Connect provider that is relevant for
// logouts.
type upstreamProvider struct {
	t          *testing.T
	url        string
	key        *ecdsa.PrivateKey
	endSession string // the path of its end-session endpoint, or ""
	down       bool
}

func newUpstreamProvider(t *testing.T) *upstreamProvider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &upstreamProvider{t: t, key: key, endSession: "/end?tenant=t1"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case p.down:
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Path == "/keys":
			json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k1"}}})
		default:
			m := map[string]any{
				"issuer": p.url, "authorization_endpoint": p.url + "/auth", "token_endpoint": p.url + "/token", "jwks_uri": p.url + "/keys",
				"id_token_signing_alg_values_supported": []string{"ES256"},
			}
			if p.endSession != "" {
				m["end_session_endpoint"] = p.url + p.endSession
			}
			json.NewEncoder(w).Encode(m)
		}
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// logoutToken returns a signed logout token about a session of the provider.
func (p *upstreamProvider) logoutToken(now time.Time, id, session string) string {
	p.t.Helper()
	payload, err := json.Marshal(map[string]any{
		"iss": p.url, "aud": "mintage", "sid": session, "jti": id, "iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix(),
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: "k1"}}, (&jose.SignerOptions{}).WithType("logout+jwt"))
	if err != nil {
		p.t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// atProvider starts a deployment whose users log in at p.
func atProvider(t *testing.T, p *upstreamProvider, logoutURL string) *deployment {
	t.Helper()
	var d *deployment
	d = start(t, func(o *options) {
		o.front = true
		o.tuneFront = func(f *web.Front) {
			f.Users, f.Authorizer.Alive = nil, nil
			f.Upstream = upstream.New(upstream.Config{
				Issuer: p.url, ClientID: "mintage", SubjectPrefix: "people:", RedirectURL: publicURL + "/oauth2/callback", LogoutURL: logoutURL,
				Now: func() time.Time { return d.now() },
			})
		}
	})
	return d
}

// logged requires a log line about a logout token with a reason and the id of the
// request.
func logged(t *testing.T, d *deployment, why string) {
	t.Helper()
	for line := range strings.Lines(d.log.String()) {
		if strings.Contains(line, `"request_id":"`) && strings.Contains(line, why) && strings.Contains(line, "upstream logout") {
			return
		}
	}
	t.Errorf("the log does not say %q:\n%s", why, d.log.String())
}

// signInFrom gives the browser a session that began at a session of the provider.
func (d *deployment) signInFrom(b *browser, p *upstreamProvider, session string) {
	d.t.Helper()
	v := login.Visitor{Browser: login.NewBrowser()}
	it, err := d.authorizer.BeginAccount(context.Background(), v)
	if err != nil {
		d.t.Fatal(err)
	}
	cookie, err := d.authorizer.SignIn(context.Background(), it, login.Identity{Subject: "people:42", Name: "Ulla", AuthTime: grant.At(d.now()), Provider: p.url + "\x00" + session}, v)
	if err != nil {
		d.t.Fatal(err)
	}
	at, _ := url.Parse(publicURL)
	b.Jar.SetCookies(at, []*http.Cookie{{Name: sessionName, Value: cookie, Path: "/", Secure: true}})
}

func TestALogoutTokenOfTheProviderIsTakenByPost(t *testing.T) {
	p := newUpstreamProvider(t)
	d := atProvider(t, p, "")
	phone, laptop, other := d.browser(), d.browser(), d.browser()
	d.signInFrom(phone, p, "s1")
	d.signInFrom(laptop, p, "s2")
	const address = publicURL + "/oauth2/backchannel_logout"
	other.header = nil // as from a server: without cookies and origin
	send := func(name string, status int, pairs ...string) {
		t.Helper()
		s := other.post(address, pairs...)
		if s.StatusCode != status || s.Header.Get("Cache-Control") != "no-store" || s.Header.Get("Location") != "" || len(s.Cookies()) != 0 {
			t.Errorf("%s: status %d, %v; want %d", name, s.StatusCode, s.Header, status)
		}
		if status == http.StatusBadRequest && !strings.Contains(s.body, `"error":"invalid_request"`) {
			t.Errorf("%s: %s", name, s.body)
		}
	}
	token := p.logoutToken(d.now(), "j1", "s1")
	send("nothing", 400)
	send("another parameter", 400, "token="+token)
	send("twice", 400, "logout_token="+token, "logout_token="+token)
	send("forged", 400, "logout_token="+newUpstreamProvider(t).logoutToken(d.now(), "j1", "s1"))
	if s := other.get(address + "?logout_token=" + token); s.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: status %d", s.StatusCode)
	}
	if !phone.isSignedIn() || !laptop.isSignedIn() {
		t.Fatal("a session has ended")
	}
	send("good", 200, "logout_token="+token)
	if phone.isSignedIn() || !laptop.isSignedIn() {
		t.Errorf("phone %t, laptop %t: the token is about the phone", phone.isSignedIn(), laptop.isSignedIn())
	}
	d.log.Reset()
	send("replayed", 400, "logout_token="+token)
	logged(t, d, "logout token presented before")
	send("a session that nobody has here", 200, "logout_token="+p.logoutToken(d.now(), "j2", "s9"))
}

func TestALogoutTokenMayComeAgainIfTheProviderWasDown(t *testing.T) {
	p := newUpstreamProvider(t)
	d := atProvider(t, p, "")
	b := d.browser()
	d.signInFrom(b, p, "s1")
	token := p.logoutToken(d.now(), "j1", "s1")
	p.down = true
	if s := b.post(publicURL+"/oauth2/backchannel_logout", "logout_token="+token); s.StatusCode != http.StatusServiceUnavailable || !b.isSignedIn() {
		t.Errorf("its keys cannot be read: status %d", s.StatusCode)
	}
	logged(t, d, "502")
	p.down = false
	if s := b.post(publicURL+"/oauth2/backchannel_logout", "logout_token="+token); s.StatusCode != http.StatusOK || b.isSignedIn() {
		t.Errorf("again: status %d", s.StatusCode)
	}
}

// With login.upstream.logout, a logout is continued at the provider, and then redirects
// as it would have without (OpenID Connect RP-Initiated Logout 1.0 section 2).
func TestALogoutIsPassedOnToTheProvider(t *testing.T) {
	p := newUpstreamProvider(t)
	d := atProvider(t, p, logoutURL)
	b := d.browser()
	c := d.leaving()
	// passed requires a redirect to the provider, and returns the state.
	passed := func(s shownPage) string {
		t.Helper()
		to := s.location()
		q := to.Query()
		if s.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to.String(), p.url+"/end?") || b.isSignedIn() {
			t.Fatalf("status %d to %s, signed in %t", s.StatusCode, to, b.isSignedIn())
		}
		if q.Get("tenant") != "t1" || q.Get("client_id") != "mintage" || q.Get("post_logout_redirect_uri") != logoutURL || q.Get("logout_hint") != "42" || q.Has("id_token_hint") {
			t.Errorf("the request is %v", q)
		}
		return q.Get("state")
	}
	// The user's own logout returns to the server's page.
	d.signInFrom(b, p, "s1")
	if csp := b.get(logoutURL).Header.Get("Content-Security-Policy"); !strings.Contains(csp, "form-action 'self' https: "+p.url+";") {
		t.Errorf("the page's form may not lead to the provider: %s", csp)
	}
	if state := passed(b.post(logoutURL)); state != "" {
		t.Errorf("state %q", state)
	}
	if s := b.get(logoutURL); s.StatusCode != http.StatusOK || !strings.Contains(s.title(), "signed out") {
		t.Errorf("status %d, %q", s.StatusCode, s.title())
	}
	// Without a session, no logout is passed on.
	b.post(logoutURL).gone(t, b, logoutURL)
	// A client's logout without a question returns to the client.
	d.signInFrom(b, p, "s1")
	hint := b.signsIn(d, c).IDToken
	state := passed(b.get(leave("id_token_hint="+hint, "post_logout_redirect_uri="+afterLogout, "state=a b")))
	if state == "" {
		t.Fatal("no state")
	}
	back := func(s shownPage) { t.Helper(); b.follow(s).gone(t, b, afterLogout+"&state=a+b") }
	b.header["Sec-Fetch-Site"] = "cross-site"
	back(b.get(logoutURL + "?state=" + state))
	b.header["Sec-Fetch-Site"] = "same-origin"
	// A client's logout with a question.
	d.signInFrom(b, p, "s1")
	page := b.open(leave("client_id="+c.ID, "post_logout_redirect_uri="+afterLogout, "state=a b"))
	state = passed(b.post(interactionURL, "id="+page.field("id"), "step=logout", "action=logout"))
	// A user who has signed in meanwhile is asked.
	d.signInFrom(b, p, "s2")
	if s := b.follow(b.get(logoutURL + "?state=" + state)); s.field("step") != "logout" || !b.isSignedIn() {
		t.Errorf("another session: status %d, %q", s.StatusCode, s.title())
	}
	state = passed(b.post(interactionURL, "id="+state, "step=logout", "action=logout"))
	back(b.get(logoutURL + "?state=" + state))
	// An unknown state redirects nowhere.
	if s := b.follow(b.get(logoutURL + "?state=https://evil.example/%26x")); s.StatusCode < 400 || s.Header.Get("Location") != "" {
		t.Errorf("status %d to %q", s.StatusCode, s.Header.Get("Location"))
	}
}

// The local session ends even if the provider fails.
func TestALogoutIsOneWithoutTheProviderToo(t *testing.T) {
	for name, spoil := range map[string]func(*upstreamProvider){
		"down": func(p *upstreamProvider) { p.down = true }, "no endpoint": func(p *upstreamProvider) { p.endSession = "" },
	} {
		t.Run(name, func(t *testing.T) {
			p := newUpstreamProvider(t)
			d := atProvider(t, p, logoutURL)
			spoil(p)
			b := d.browser()
			c := d.leaving(func(r *client.Registration) { r.Name = "Alone" })
			d.signInFrom(b, p, "s1")
			hint := b.signsIn(d, c).IDToken
			b.get(leave("id_token_hint="+hint, "post_logout_redirect_uri="+afterLogout)).gone(t, b, afterLogout)
		})
	}
	p := newUpstreamProvider(t)
	d := atProvider(t, p, "") // and without the setting
	b := d.browser()
	d.signInFrom(b, p, "s1")
	b.post(logoutURL).gone(t, b, logoutURL)
}
