//go:build e2e

package nodes

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// A visitor is a browser that uses another node for each request, as behind a load
// balancer.
type visitor struct {
	*http.Client
	t      *testing.T
	origin string
	leaves string // the callback's prefix, at which it leaves the server
}

func (c *cluster) visitor(t *testing.T) *visitor {
	t.Helper()
	transport := c.nodes[0].Transport(t, "")
	transport.DisableKeepAlives = true
	var turn atomic.Int64
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		u, err := url.Parse(c.node(int(turn.Add(1))).TokenEndpoint)
		if err != nil {
			return nil, err
		}
		var d net.Dialer
		return d.DialContext(ctx, network, u.Host)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(c.nodes[0].TokenEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t, origin: "https://" + u.Host, leaves: c.nodes[0].RedirectURI}
	v.Client = &http.Client{Transport: transport, Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), v.leaves) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return v
}

// demoUser returns the name and the password of the demo user.
func (c *cluster) demoUser(t *testing.T) (name, password string) {
	t.Helper()
	var demo struct{ Username, Password string }
	text, err := os.ReadFile(filepath.Join(c.nodes[0].Dir, "dev.json"))
	if err == nil {
		err = json.Unmarshal(text, &demo)
	}
	if err != nil || demo.Password == "" {
		t.Fatalf("demo user: %v", err)
	}
	return demo.Username, demo.Password
}

// do sends a request and follows redirects. It returns the last page, or the callback
// address that leaves the server.
func (v *visitor) do(r *http.Request, err error) (page string, callback *url.URL) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	resp, err := v.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	if resp.StatusCode == http.StatusSeeOther || resp.StatusCode == http.StatusFound {
		if callback, err = resp.Location(); err != nil {
			v.t.Fatal(err)
		}
	} else if resp.StatusCode != http.StatusOK {
		v.t.Fatalf("%s %s: %d\n%s", r.Method, r.URL.Path, resp.StatusCode, text)
	}
	return string(text), callback
}

func (v *visitor) get(address string) (string, *url.URL) {
	v.t.Helper()
	return v.do(http.NewRequest(http.MethodGet, address, nil))
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`)

// submit fills in the form of a page.
func (v *visitor) submit(page string, values url.Values) (string, *url.URL) {
	v.t.Helper()
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		values.Set(m[1], m[2])
	}
	r, err := http.NewRequest(http.MethodPost, v.origin+"/oauth2/interaction", strings.NewReader(values.Encode()))
	if err == nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", v.origin)
	}
	return v.do(r, err)
}

// TestASignInMayMeetAnotherNodeAtEachStep logs in, consents and redeems the code, each
// step at another node, and returns with the session.
func TestASignInMayMeetAnotherNodeAtEachStep(t *testing.T) {
	t.Parallel()
	c := open(t, 3)
	name, password := c.demoUser(t)
	v := c.visitor(t)
	ask := v.origin + "/oauth2/authorize?" + url.Values{"response_type": {"code"}, "client_id": {c.nodes[0].ClientID},
		"redirect_uri": {c.nodes[0].RedirectURI}, "scope": {"read"}, "state": {"xyz"}}.Encode()
	code := func(callback *url.URL) string {
		t.Helper()
		if callback == nil || callback.Query().Get("code") == "" || callback.Query().Get("state") != "xyz" {
			t.Fatalf("no code comes back: %v", callback)
		}
		return callback.Query().Get("code")
	}
	page, _ := v.get(ask + "&prompt=consent") // require consent: the demo client is first-party
	page, _ = v.submit(page, url.Values{"username": {name}, "password": {password}})
	_, callback := v.submit(page, url.Values{"decision": {"allow"}, "remember": {"yes"}})
	first := code(callback)
	c.post(t, 1, c.nodes[0].ExchangeForm(first), http.StatusOK)
	for range 4 { // at any node, the session suffices without a page
		_, callback = v.get(ask)
		again := code(callback)
		if again == first {
			t.Error("the same code came twice")
		}
		c.post(t, 2, c.nodes[0].ExchangeForm(again), http.StatusOK)
	}
}
