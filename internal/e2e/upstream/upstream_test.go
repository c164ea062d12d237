//go:build e2e

package upstream

import (
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/upstream"
)

// A browser is a user at the provider's pages: it follows redirects, keeps cookies, and
// stops at the redirect that leaves the provider.
type browser struct {
	t    *testing.T
	http *http.Client
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, &http.Client{Jar: jar, Timeout: 10 * time.Second, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), redirectURL+"?") {
			return http.ErrUseLastResponse
		}
		return nil
	}}}
}

// A view is the browser's current state: a page with a form, or the provider's response.
type view struct {
	from   *url.URL
	page   string
	answer url.Values // the parameters of the redirect; nil before the response
}

func (b *browser) view(resp *http.Response, err error) view {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	v := view{from: resp.Request.URL, page: string(body)}
	if to, err := resp.Location(); err == nil {
		v.answer = to.Query()
	} else if resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s answered %s:\n%s", resp.Request.URL.Path, resp.Status, body)
	}
	return v
}

func (b *browser) open(address string) view {
	b.t.Helper()
	return b.view(b.http.Get(address))
}

var (
	formAction = regexp.MustCompile(`<form [^>]*action="([^"]+)"`)
	hidden     = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
	abortLink  = regexp.MustCompile(`<a href="([^"]+)">\s*\[ Cancel \]`)
)

// asks reports whether the page asks for a prompt, such as login or consent.
func (v view) asks(prompt string) bool {
	return v.answer == nil && strings.Contains(v.page, fmt.Sprintf(`name="prompt" value="%s"`, prompt))
}

// submit sends the form of a page.
func (b *browser) submit(v view, fields url.Values) view {
	b.t.Helper()
	action := formAction.FindStringSubmatch(v.page)
	if action == nil {
		b.t.Fatalf("no form on\n%s", v.page)
	}
	for _, field := range hidden.FindAllStringSubmatch(v.page, -1) {
		fields.Set(field[1], html.UnescapeString(field[2]))
	}
	to, err := v.from.Parse(html.UnescapeString(action[1]))
	if err != nil {
		b.t.Fatal(err)
	}
	return b.view(b.http.PostForm(to.String(), fields))
}

// login fills in the provider's pages until it has responded. It returns the response,
// and how often a password was asked for.
func (b *browser) login(v view, account string) (url.Values, int) {
	b.t.Helper()
	logins := 0
	for range 4 {
		switch {
		case v.answer != nil:
			return v.answer, logins
		case v.asks("login"):
			logins++
			v = b.submit(v, url.Values{"login": {account}, "password": {"any"}})
		case v.asks("consent"):
			v = b.submit(v, url.Values{})
		default:
			b.t.Fatalf("an unexpected page:\n%s", v.page)
		}
	}
	b.t.Fatal("the provider shows too many pages")
	return nil, 0
}

func configuration(issuer string) upstream.Config {
	return upstream.Config{
		Issuer: issuer, ClientID: clientID, ClientSecret: oauth.Secret(clientSecret), Scopes: []string{"openid", "profile", "email"},
		RedirectURL: redirectURL, Now: time.Now,
	}
}

func begin(t *testing.T, u *upstream.Provider, r upstream.Request) upstream.Pending {
	t.Helper()
	r.State = "the state of the test"
	pending, err := u.Begin(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return pending
}

// answer converts the parameters as the callback would pass them on.
func answer(t *testing.T, q url.Values) upstream.Answer {
	t.Helper()
	if q.Get("state") != "the state of the test" {
		t.Errorf("the state has become %q", q.Get("state"))
	}
	if q.Get("iss") == "" {
		t.Error("the response lacks iss (RFC 9207), which this provider supports")
	}
	return upstream.Answer{Code: q.Get("code"), Error: q.Get("error"), Issuer: q.Get("iss")}
}

func TestALoginAtARealProvider(t *testing.T) {
	p := start(t, 0)
	for name, c := range map[string]struct {
		config func(*upstream.Config)
		want   string
	}{
		"by sub":          {func(*upstream.Config) {}, "alice"},
		"by address":      {func(c *upstream.Config) { c.SubjectClaim, c.SubjectPrefix = "email", "corp|" }, "corp|alice@example.com"},
		"a public client": {func(c *upstream.Config) { c.ClientID, c.ClientSecret = publicClient, "" }, "alice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := configuration(p.issuer)
			c.config(&cfg)
			u, b := upstream.New(cfg), newBrowser(t)
			pending := begin(t, u, upstream.Request{LoginHint: "hinted@example.com"})
			v := b.open(pending.URL)
			if !v.asks("login") || !strings.Contains(v.page, "hinted@example.com") {
				t.Fatalf("the hint is not on\n%s", v.page)
			}
			q, _ := b.login(v, "alice")
			id, err := u.Finish(t.Context(), answer(t, q), pending)
			if err != nil || id.Subject != c.want || id.Name != "User alice" {
				t.Fatalf("%+v, %v; want %s", id, err, c.want)
			}
			// The code can be redeemed once.
			if _, err := u.Finish(t.Context(), answer(t, q), pending); !errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), "invalid_grant") {
				t.Errorf("the code again: %v, want ErrInvalid", err)
			}
		})
	}
	t.Run("denied", func(t *testing.T) {
		t.Parallel()
		u, b := upstream.New(configuration(p.issuer)), newBrowser(t)
		pending := begin(t, u, upstream.Request{})
		v := b.open(pending.URL)
		link := abortLink.FindStringSubmatch(v.page)
		if link == nil {
			t.Fatalf("no way to cancel on\n%s", v.page)
		}
		to, err := v.from.Parse(html.UnescapeString(link[1]))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Finish(t.Context(), answer(t, b.open(to.String()).answer), pending); !errors.Is(err, upstream.ErrDenied) {
			t.Errorf("%v, want ErrDenied", err)
		}
	})
	t.Run("an address that is not verified", func(t *testing.T) {
		t.Parallel()
		cfg := configuration(p.issuer)
		cfg.SubjectClaim = "email"
		u, b := upstream.New(cfg), newBrowser(t)
		pending := begin(t, u, upstream.Request{})
		q, _ := b.login(b.open(pending.URL), "mallory")
		if id, err := u.Finish(t.Context(), answer(t, q), pending); !errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), "email_verified") {
			t.Errorf("%+v, %v; want ErrInvalid", id, err)
		}
	})
	t.Run("another login's code", func(t *testing.T) {
		t.Parallel()
		u, b := upstream.New(configuration(p.issuer)), newBrowser(t)
		stolen, _ := b.login(b.open(begin(t, u, upstream.Request{}).URL), "alice")
		mine := begin(t, u, upstream.Request{})
		if _, err := u.Finish(t.Context(), answer(t, stolen), mine); !errors.Is(err, upstream.ErrInvalid) {
			t.Errorf("%v, want ErrInvalid", err)
		}
	})
	t.Run("a wrong secret", func(t *testing.T) {
		t.Parallel()
		cfg := configuration(p.issuer)
		cfg.ClientSecret += "x"
		u, b := upstream.New(cfg), newBrowser(t)
		pending := begin(t, u, upstream.Request{})
		q, _ := b.login(b.open(pending.URL), "alice")
		_, err := u.Finish(t.Context(), answer(t, q), pending)
		if !errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), "invalid_client") || strings.Contains(err.Error(), clientSecret) {
			t.Errorf("%v, want ErrInvalid", err)
		}
	})
}

func TestARealProviderProvesThatALoginIsFresh(t *testing.T) {
	p := start(t, 0)
	u, b := upstream.New(configuration(p.issuer)), newBrowser(t)
	again := func(r upstream.Request) (upstream.Identity, int) {
		t.Helper()
		pending := begin(t, u, r)
		q, logins := b.login(b.open(pending.URL), "alice")
		id, err := u.Finish(t.Context(), answer(t, q), pending)
		if err != nil {
			t.Fatal(err)
		}
		return id, logins
	}
	hour := 3600
	first, logins := again(upstream.Request{MaxAge: &hour})
	if age := time.Since(first.AuthTime); logins != 1 || age < 0 || age > time.Minute {
		t.Fatalf("%d logins, %s ago", logins, age)
	}
	for time.Now().Unix() == first.AuthTime.Unix() {
		time.Sleep(20 * time.Millisecond) // the provider's auth_time has whole seconds
	}
	same, logins := again(upstream.Request{MaxAge: &hour})
	if logins != 0 || !same.AuthTime.Equal(first.AuthTime) {
		t.Errorf("a session that is young enough: %d logins, at %s and before at %s", logins, same.AuthTime, first.AuthTime)
	}
	if silent, logins := again(upstream.Request{}); logins != 0 || silent.Subject != "alice" {
		t.Errorf("a session: %d logins of %q", logins, silent.Subject)
	}
	forced, logins := again(upstream.Request{ForceLogin: true})
	if logins != 1 || !forced.AuthTime.After(first.AuthTime) {
		t.Errorf("prompt=login: %d logins, at %s and before at %s", logins, forced.AuthTime, first.AuthTime)
	}

	// The user removes prompt from the URL, raises max_age, and returns without a login.
	ahead := configuration(p.issuer)
	ahead.Now = func() time.Time { return time.Now().Add(5 * time.Minute) }
	later := upstream.New(ahead)
	pending := begin(t, later, upstream.Request{ForceLogin: true})
	tampered, err := url.Parse(pending.URL)
	if err != nil {
		t.Fatal(err)
	}
	query := tampered.Query()
	query.Del("prompt")
	query.Set("max_age", "3600")
	tampered.RawQuery = query.Encode()
	q, logins := b.login(b.open(tampered.String()), "alice")
	if logins != 0 {
		t.Fatalf("%d logins", logins)
	}
	if _, err := later.Finish(t.Context(), answer(t, q), pending); !errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), "auth_time is too long ago") {
		t.Errorf("prompt=login taken out: %v, want ErrInvalid", err)
	}
	// Without max_age, this provider sends no auth_time.
	query.Del("max_age")
	tampered.RawQuery = query.Encode()
	pending2 := pending
	q, _ = b.login(b.open(tampered.String()), "alice")
	if _, err := later.Finish(t.Context(), answer(t, q), pending2); !errors.Is(err, upstream.ErrInvalid) || !strings.Contains(err.Error(), "no auth_time") {
		t.Errorf("max_age taken out: %v, want ErrInvalid", err)
	}
}

func TestARealProviderMayComeAndGo(t *testing.T) {
	issuer := "http://" + binary.FreeAddress(t, "127.0.0.1")
	port, err := strconv.Atoi(strings.TrimPrefix(issuer, "http://127.0.0.1:"))
	if err != nil {
		t.Fatal(err)
	}
	u, b := upstream.New(configuration(issuer)), newBrowser(t)
	if _, err := u.Begin(t.Context(), upstream.Request{}); !errors.Is(err, upstream.ErrUnavailable) {
		t.Fatalf("before it is there: %v, want ErrUnavailable", err)
	}
	p := start(t, port)
	pending := begin(t, u, upstream.Request{})
	q, _ := b.login(b.open(pending.URL), "alice")
	p.stop()
	if _, err := u.Finish(t.Context(), answer(t, q), pending); !errors.Is(err, upstream.ErrUnavailable) || errors.Is(err, upstream.ErrInvalid) {
		t.Errorf("after it has gone: %v, want ErrUnavailable", err)
	}
}
