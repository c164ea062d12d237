package conformance_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/store"
)

// ours registers a first-party client, for which no consent is asked: the response to its
// request is the redirect with the code.
func (d *deployment) ours(choose ...func(*client.Registration)) oauthClient {
	d.t.Helper()
	r := client.Registration{Settings: store.Settings{Name: "Ours", FirstParty: true}}
	for _, f := range choose {
		f(&r)
	}
	return d.client(r)
}

// sendRaw sends a raw request target over its own connection, with the cookies of b unless
// that is nil, and with further header lines.
func (d *deployment) sendRaw(b *browser, method, target string, lines ...string) answer {
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

// target returns an authorization request's URL without scheme and host.
func target(address string) string { return strings.TrimPrefix(address, publicURL) }

// isRefusedPage is refusedPage for a response to sendRaw.
func (a answer) isRefusedPage(t *testing.T, what string, status int) {
	t.Helper()
	media := strings.Join(a.header["Content-Type"], ",")
	if a.status != status || a.header["Location"] != nil || a.header["Refresh"] != nil || !strings.HasPrefix(media, "text/html") {
		t.Errorf("%s: status %d, Location %.60q, %s; not a page with status %d", what, a.status, a.to(), media, status)
	}
}

// to returns the address to which the response redirects.
func (a answer) to() string { return strings.Join(a.header["Location"], ", ") }

// granted requires a redirect to the client with exactly one code, and returns the
// parameters.
func (s shownPage) granted(t *testing.T, redirectURI string) url.Values {
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

// mustRedeem redeems the code of a request by asking.
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
