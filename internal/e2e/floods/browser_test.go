//go:build e2e

package floods

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A world is a server whose visitors have many different addresses.
type world struct {
	*binary.Server
	t              *testing.T
	origin         string
	user, password string
}

// proxy is the address of the trusted proxy. Every other address of 127.0.0.0/8 is a
// client of its own.
const proxy = "127.0.0.1"

func open(t *testing.T) *world {
	t.Helper()
	w := &world{Server: binary.Start(t, t.TempDir(), "--trusted-proxies", proxy), t: t}
	var dev struct{ Username, Password string }
	text, err := os.ReadFile(filepath.Join(w.Dir, "dev.json"))
	if err == nil {
		err = json.Unmarshal(text, &dev)
	}
	if err != nil || dev.Password == "" {
		t.Fatalf("demo user: %v", err)
	}
	u, err := url.Parse(w.TokenEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	w.origin, w.user, w.password = "https://"+u.Host, dev.Username, dev.Password
	return w
}

// A browser has its own cookies and keeps one connection. through is the client address
// that the proxy forwards, or "" without a proxy.
type browser struct {
	http.Client
	w       *world
	through string
	address string // as the server sees it
}

// browser returns a browser with an address of 127.0.0.0/8, or behind the proxy.
func (w *world) browser(local, through string) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return &browser{w: w, through: through, address: cmp.Or(through, local), Client: http.Client{
		Transport: w.Transport(w.t, local), Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// A view is a response to a browser.
type view struct {
	status int
	to     string // the redirect's target
	page   string
}

func (b *browser) send(ctx context.Context, method, address string, form url.Values) (view, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return view{}, err
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", b.w.origin)
	}
	if b.through != "" {
		r.Header.Set("X-Forwarded-For", b.through)
		r.Header.Set("X-Forwarded-Proto", "https")
	}
	resp, err := b.Do(r)
	if err != nil {
		return view{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return view{resp.StatusCode, resp.Header.Get("Location"), string(text)}, err
}

// ask returns the address of an authorization request. It requires consent, because the
// server asks for none on behalf of the first-party demo client.
func (w *world) ask(state string) string {
	return w.origin + "/oauth2/authorize?" + url.Values{"response_type": {"code"}, "client_id": {w.ClientID},
		"redirect_uri": {w.RedirectURI}, "scope": {"read"}, "state": {state}, "prompt": {"consent"}}.Encode()
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`)

// fill adds the hidden fields of a page's form to the typed values.
func fill(page string, typed url.Values) url.Values {
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		typed.Set(m[1], m[2])
	}
	return typed
}

// login performs a whole login, from the client's request to its tokens. Each step must
// succeed at the first try, within a time for which people wait.
func (b *browser) login() error {
	ctx, cancel := context.WithTimeout(b.w.t.Context(), 20*time.Second)
	defer cancel()
	defer b.CloseIdleConnections()
	step := func(name string, want int, method, address string, form url.Values) (view, error) {
		v, err := b.send(ctx, method, address, form)
		if err == nil && v.status != want {
			err = fmt.Errorf("status %d, want %d: %.300s", v.status, want, v.page)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return v, err
	}
	const submit = "/oauth2/interaction"
	v, err := step("request", http.StatusSeeOther, http.MethodGet, b.w.ask("xyz"), nil)
	if err != nil {
		return err
	}
	at := v.to
	if v, err = step("login page", http.StatusOK, http.MethodGet, at, nil); err != nil {
		return err
	}
	typed := url.Values{"username": {b.w.user}, "password": {b.w.password}}
	if v, err = step("password", http.StatusSeeOther, http.MethodPost, b.w.origin+submit, fill(v.page, typed)); err != nil {
		return err
	}
	if v, err = step("consent page", http.StatusOK, http.MethodGet, v.to, nil); err != nil {
		return err
	}
	if v, err = step("consent", http.StatusSeeOther, http.MethodPost, b.w.origin+submit, fill(v.page, url.Values{"decision": {"allow"}})); err != nil {
		return err
	}
	back, err := url.Parse(v.to)
	if err != nil || back.Query().Get("code") == "" {
		return errors.Join(errors.New("no code comes back"), err)
	}
	a, err := b.w.Post(ctx, &b.Client, b.w.ExchangeForm(back.Query().Get("code")))
	if err == nil && a.Status != http.StatusOK {
		err = fmt.Errorf("token request: status %d", a.Status)
	}
	if err != nil {
		return fmt.Errorf("code: %w", err)
	}
	return nil
}
