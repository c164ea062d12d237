package conformance_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/crypto/argon2"

	"github.com/mintage/mintage/internal/account"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/pages"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

const (
	sessionName = "__Host-mintage_session"
	browserName = "__Host-mintage_browser"
	knownName   = "__Host-mintage_known"
)

// cheaply makes a user's password hash cost a ten-thousandth, for tests that are not
// about passwords.
func cheaply(u *account.User) {
	salt := []byte("sixteen bytes ok")
	enc := base64.RawStdEncoding
	u.Password = fmt.Sprintf("$argon2id$v=19$m=8,t=1,p=1$%s$%s", enc.EncodeToString(salt), enc.EncodeToString(argon2.IDKey([]byte(password), salt, 1, 8, 1, 32)))
}

// oneTimeCode returns an authenticator app's code at the deployment's time.
func (d *deployment) oneTimeCode(secret []byte) string { return testkit.OneTimeCode(secret, d.now()) }

// userWithCode registers a user with a second factor.
func (d *deployment) userWithCode(name string) (secret []byte) {
	d.t.Helper()
	d.user(name, cheaply, func(u *account.User) {
		*u, secret = u.SetTOTP(d.ring(), grant.At(d.now()))
		u.Version = 1
	})
	return secret
}

// changeUser stores an administrator's change of a user.
func (d *deployment) changeUser(name string, alter func(account.User) account.User, cutoffs ...store.Cutoff) {
	d.t.Helper()
	u, err := account.Find(context.Background(), d.sqlite, realm, name)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := account.Put(context.Background(), d.sqlite, alter(u), store.Change{Cutoffs: cutoffs}); err != nil {
		d.t.Fatal(err)
	}
	d.poll()
}

// disable disables a user, as the command does.
func (d *deployment) disable(name string) {
	d.t.Helper()
	now := grant.At(d.now())
	d.changeUser(name, func(u account.User) account.User { return u.Disable(now) }, store.Cutoff{Realm: realm, Subject: name, At: now})
}

// visitor starts a deployment with pages and a user, and returns a browser in which
// nobody is signed in.
func visitor(t *testing.T, choose ...func(*options)) (*deployment, *browser) {
	d := start(t, append([]func(*options){withFront}, choose...)...)
	d.user(username, cheaply)
	return d, d.browser()
}

// open goes to an address, and follows redirects to the page that the user sees.
func (b *browser) open(address string) shownPage { b.t.Helper(); return b.follow(b.get(address)) }

// logIn fills in the login page, and follows to the next page.
func (b *browser) logIn(page shownPage, name, password string) shownPage {
	b.t.Helper()
	return b.follow(b.post(interactionURL, "id="+page.field("id"), "step=login", "username="+name, "password="+password))
}

// decide presses a button of the consent page, and does not follow the redirect.
func (b *browser) decide(page shownPage, decision string) shownPage {
	b.t.Helper()
	return b.post(interactionURL, "id="+page.field("id"), "step=consent", "decision="+decision)
}

// at requires that the page is the one for a step.
func (s shownPage) at(t *testing.T, step string) shownPage {
	t.Helper()
	if s.StatusCode != http.StatusOK || s.field("step") != step || s.field("id") == "" {
		t.Fatalf("status %d, page %q with step %q; want that of %s", s.StatusCode, s.title(), s.field("step"), step)
	}
	return s
}

// code requires a redirect to the client with a code, and returns the code.
func (s shownPage) code(t *testing.T, redirectURI string) string {
	t.Helper()
	to := s.location()
	code := to.Query().Get("code")
	if s.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to.String(), redirectURI) || code == "" {
		t.Fatalf("status %d, page %q, to %.60q; want a code for %s", s.StatusCode, s.title(), to, redirectURI)
	}
	return code
}

// challenged returns the form that redeems the code of a request by asking.
func (c oauthClient) challenged(code string) url.Values {
	form := c.redeem(code)
	form.Set("code_verifier", verifier)
	return form
}

// heading returns the first heading of the page.
func (s shownPage) heading() string {
	_, after, _ := strings.Cut(s.body, "<h1>")
	text, _, _ := strings.Cut(after, "</h1>")
	return html.UnescapeString(text)
}

// messages are the message pages' headings and advice.
var messages = map[pages.MessageKey][2]string{
	pages.ClientDisabled:      {"This application has been disabled", "ask the operator of this service"},
	pages.UnknownClient:       {"This application is not known", "tell its provider about this error"},
	pages.BadRedirectURI:      {"This request is not safe to answer", "tell its provider about this error"},
	pages.BadRequest:          {"This request cannot be understood", "Go back to the application and start again"},
	pages.InteractionExpired:  {"You took too long", "Go back to the application and start again"},
	pages.InteractionUnknown:  {"This page cannot be used here", "start again, in this browser"},
	pages.InteractionAnswered: {"This is already done", "If you are not signed in there, start again"},
	pages.UserSwitched:        {"Another account is signed in now", "start again, with the account that you want to use"},
	pages.CrossSite:           {"This form came from another site", "start again from there"},
	pages.ClientChanged:       {"The application has changed", "Go back to the application and start again"},
	pages.NotFound:            {"This page does not exist", "go back to the application that you came from"},
	pages.Method:              {"This page cannot be opened this way", "Go back to the application and start again"},
	pages.CookiesOff:          {"This page needs a cookie", "allow cookies for this site"},
	pages.TooLarge:            {"This request is too large", "Go back to the application and start again"},
	pages.TooMany:             {"Too many attempts", "then try again"},
	pages.TooManyCodes:        {"Too many wrong codes", "Please wait an hour"},
	pages.TooManyClients:      {"Too many new applications", "wait an hour"},
	pages.Unavailable:         {"Not available right now", "Please try again in a moment"},
}

// says requires a message page with a status and without a redirect. If no application
// sent the user, the page has another advice.
func (s shownPage) says(t *testing.T, status int, key pages.MessageKey, advice ...string) {
	t.Helper()
	s.refusedPage(t, status)
	want, ok := messages[key]
	if !ok {
		t.Fatalf("no text for %s", key)
	}
	want[1] = cmp.Or(append(advice, want[1])...)
	if s.title() != want[0] || s.heading() != want[0] || !strings.Contains(s.body, want[1]) {
		t.Errorf("the page is %q, %q; want %q and the advice %q", s.title(), s.heading(), want[0], want[1])
	}
	s.hasPageHeaders(t)
}

// hasPageHeaders checks the headers that every page has.
func (s shownPage) hasPageHeaders(t *testing.T) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
		"Cache-Control": "no-store", "Content-Type": "text/html; charset=utf-8",
	} {
		if got := s.Header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s (%d) has %s %q, want %q alone", s.title(), s.StatusCode, name, got, want)
		}
	}
	policies := s.Header.Values("Content-Security-Policy")
	if len(policies) != 1 {
		t.Fatalf("%d policies", len(policies))
	}
	directives := map[string]string{}
	for d := range strings.SplitSeq(policies[0], ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(d), " ")
		if _, ok := directives[name]; ok {
			t.Errorf("%s is there twice, and browsers take the first", name)
		}
		directives[name] = value
	}
	for name, want := range map[string]string{
		"default-src": "'none'", "style-src": "'self'", "img-src": "'self'", "frame-ancestors": "'none'", "base-uri": "'none'",
	} {
		if directives[name] != want {
			t.Errorf("%s: the policy has %s %q, want %q", s.title(), name, directives[name], want)
		}
	}
	if !strings.HasPrefix(directives["form-action"], "'self'") || strings.Contains(directives["form-action"], "*") || len(directives) != 6 {
		t.Errorf("the policy is %q", policies[0])
	}
}

// cookie returns the value of a cookie in the browser, or "".
func (b *browser) cookie(name string) string {
	at, _ := url.Parse(publicURL)
	for _, c := range b.Jar.Cookies(at) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// setCookie sets a cookie in the browser; an empty value removes it.
func (b *browser) setCookie(name, value string) {
	at, _ := url.Parse(publicURL)
	c := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true}
	if value == "" {
		c.MaxAge = -1
	}
	b.Jar.SetCookies(at, []*http.Cookie{c})
}

// set returns the cookie that the response sets, or nil.
func (s shownPage) set(name string) *http.Cookie {
	for _, c := range s.Cookies() {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// grants returns all grants of the deployment.
func (d *deployment) grants() []grant.Grant {
	d.t.Helper()
	list, err := d.sqlite.Grants(context.Background(), store.GrantFilter{Realm: realm, Limit: 100})
	if err != nil {
		d.t.Fatal(err)
	}
	return list
}
