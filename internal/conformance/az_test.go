package conformance_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/store"
)

// ours registers a client of the provider itself, whose users are not asked:
// its answer follows on the request.
func (d *deployment) ours(choose ...func(*client.Registration)) oauthClient {
	d.t.Helper()
	r := client.Registration{Settings: store.Settings{Name: "Ours", FirstParty: true}}
	for _, f := range choose {
		f(&r)
	}
	return d.client(r)
}

// knock sends a target as it stands, with the browser's cookies if there is
// one, on a connection of its own. Whole header lines may follow.
func (d *deployment) knock(b *browser, method, target string, lines ...string) answer {
	d.t.Helper()
	r := newRequest(nil)
	r.method, r.target = method, target
	r.header = append([]string{"Host: auth.example"}, lines...)
	if method == http.MethodPost {
		r.header = append(r.header, "Content-Type: application/x-www-form-urlencoded")
	}
	if b != nil {
		at, _ := url.Parse(publicURL)
		for _, c := range b.Jar.Cookies(at) {
			r.header = append(r.header, "Cookie: "+c.Name+"="+c.Value)
		}
	}
	return d.send(r)
}

// target is an authorization request without its scheme and host.
func target(address string) string { return strings.TrimPrefix(address, publicURL) }

// isRefusedPage is refusedPage for what knock has got.
func (a answer) isRefusedPage(t *testing.T, what string, status int) {
	t.Helper()
	media := strings.Join(a.header["Content-Type"], ",")
	if a.status != status || a.header["Location"] != nil || a.header["Refresh"] != nil || !strings.HasPrefix(media, "text/html") {
		t.Errorf("%s: status %d, Location %.60q, %s; not a page with status %d", what, a.status, a.to(), media, status)
	}
}

// to is where the answer sends the browser.
func (a answer) to() string { return strings.Join(a.header["Location"], ", ") }

// granted is what the client gets at its redirect URI, which must be one code.
func (s sight) granted(t *testing.T, redirectURI string) url.Values {
	t.Helper()
	return granted(t, s.StatusCode, s.Header.Get("Location"), redirectURI)
}

func granted(t *testing.T, status int, to, redirectURI string) url.Values {
	t.Helper()
	separator := "?"
	if strings.Contains(redirectURI, "?") {
		separator = "&"
	}
	answered, found := strings.CutPrefix(to, redirectURI+separator)
	q, err := url.ParseQuery(answered)
	if status != http.StatusSeeOther || !found || err != nil {
		t.Fatalf("status %d to %.80q (%v), not a redirect to %s", status, to, err, redirectURI)
	}
	if len(q["code"]) != 1 || q.Get("code") == "" || q.Has("error") || q.Get("iss") != issuerID || strings.Contains(to, "#") {
		t.Errorf("%d codes, error %q, iss %q, fragment %t", len(q["code"]), q.Get("error"), q.Get("iss"), strings.Contains(to, "#"))
	}
	return q
}

// mustRedeem redeems the code of a request that asking has made.
func (d *deployment) mustRedeem(c oauthClient, code string) tokens {
	d.t.Helper()
	return d.mustIssue(d.post(with(c.redeem(code), "code_verifier", verifier)))
}

func TestAZ36_AZ40_CallbackHoldsTheIssuer(t *testing.T) {
	d, b := signedIn(t)
	callback := b.agree(asking(d.a))
	q := callback.Query()
	if q.Get("iss") != issuerID || q.Get("iss") != d.metadata()["issuer"] || q.Get("code") == "" || q.Get("state") != "st" {
		t.Fatalf("callback %v", q)
	}
	if len(q) != 3 {
		t.Errorf("%d members", len(q))
	}
	form := d.a.redeem(q.Get("code"))
	form.Set("code_verifier", verifier)
	d.mustIssue(d.post(form))
}
