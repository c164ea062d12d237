package conformance_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
)

// spoofed are headers in which proxies report the client and the address that it requested.
var spoofed = []string{
	"X-Forwarded-For: 203.0.113.7", "X-Real-Ip: 203.0.113.7", "Forwarded: for=203.0.113.7;proto=http;host=evil.example", "X-Forwarded-Host: evil.example",
	"X-Forwarded-Proto: http", "X-Forwarded-Port: 8080", "X-Forwarded-Prefix: /evil", "X-Forwarded-Server: evil.example", "X-Original-Url: /oauth2/evil",
	"X-Rewrite-Url: /oauth2/evil", "X-Original-Host: evil.example", "X-Http-Method-Override: PUT", "X-Forwarded-Scheme: http", "Front-End-Https: off",
	"True-Client-Ip: 203.0.113.7", "Cf-Connecting-Ip: 203.0.113.7", "X-Forwarded-Path: /evil", "Via: 1.1 evil.example",
}

// addresses returns the client addresses in the log, one per request.
func (d *deployment) addresses() (list []string) {
	d.t.Helper()
	for line := range strings.Lines(d.log.String()) {
		var entry struct {
			RemoteIP string `json:"remote_ip"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			d.t.Fatal(err)
		}
		if entry.RemoteIP != "" {
			list = append(list, entry.RemoteIP)
		}
	}
	return list
}

func TestTL12_ForwardedHeadersOfStrangersAreIgnored(t *testing.T) {
	d, b := signedIn(t)
	ours := d.ours()
	for _, lines := range append([][]string{spoofed, nil}, each(spoofed)...) {
		lines := append([]string{"Host: evil.example"}, lines...)
		hasHost := func(r *request) *request {
			r.header = append(lines, r.header[1:]...) // replaces the harness's own Host
			return r
		}
		// A redirect to the client, one to the server's own page, and one from a POST to
		// its GET.
		r := b.form(asking(ours))
		r.method, r.form = "GET", nil
		a := d.send(hasHost(r))
		granted(t, a.status, a.to(), redirect)
		r = b.form(asking(d.a))
		r.method, r.form = "GET", nil
		if a = d.send(hasHost(r)); a.status != 303 || !strings.HasPrefix(a.to(), interactionURL+"?id=") {
			t.Errorf("%q: %d to %.60q", lines, a.status, a.to())
		}
		if a = d.send(hasHost(b.form(asking(ours), "login_hint=x"))); a.status != 303 || !strings.HasPrefix(a.to(), publicURL+"/oauth2/authorize?") {
			t.Errorf("%q: a POST leads, with %d, to %.60q", lines, a.status, a.to())
		}
		// A page contains no forged address, and a token request is served.
		r = b.form(asking(d.a, "client_id=x"))
		r.method, r.form = "GET", nil
		a = d.send(hasHost(r))
		a.isRefusedPage(t, "a page", 400)
		if strings.Contains(a.body, "evil") {
			t.Errorf("%q: on the page", lines)
		}
	}
	token := newRequest(d.a.redeem(d.code(d.a).Code))
	token.header = append(token.header, spoofed...)
	d.mustIssue(d.send(token))
	for _, address := range d.addresses() {
		if !strings.HasPrefix(address, "127.") {
			t.Errorf("the log believes in %s", address)
		}
	}
	if n := len(d.addresses()); n < 4*len(spoofed) {
		t.Errorf("%d requests in the log", n)
	}
}

// each returns every element as a list of its own.
func each(list []string) (out [][]string) {
	for _, one := range list {
		out = append(out, []string{one})
	}
	return out
}

// Invented addresses evade no limit, and behind a declared proxy each client has its own
// limit.
func TestTL12_LimitsCountTheAddressThatIsTrue(t *testing.T) {
	const limit = 3
	few := func(o *options) { o.Interactions = limit }
	ask := func(d *deployment, lines ...string) int {
		r := newRequest(nil)
		r.method, r.target = "GET", target(asking(d.a))
		r.header = append([]string{"Host: auth.example"}, lines...)
		// Use one source address for all requests.
		return d.sendFrom(proxyAddress, r).status
	}
	d := start(t, withFront, few)
	for i := range limit + 1 {
		want := 303
		if i == limit {
			want = 429
		}
		if got := ask(d, "X-Forwarded-For: 203.0.113."+string(rune('1'+i)), "Forwarded: for=203.0.113.9"); got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
	}

	behind := start(t, withFront, few, alone, func(o *options) {
		o.PlainHTTP, o.TrustedProxies = true, []netip.Prefix{netip.PrefixFrom(proxyAddress.AddrPort().Addr().Unmap(), 32)}
	})
	const https = "X-Forwarded-Proto: https"
	for range limit {
		if got := ask(behind, https, "X-Forwarded-For: 198.51.100.1, 203.0.113.1"); got != 303 {
			t.Errorf("behind a proxy: %d", got)
		}
	}
	// Everything before the last hop comes from the client.
	if got := ask(behind, https, "X-Forwarded-For: 198.51.100.2, 203.0.113.1"); got != 429 {
		t.Errorf("behind a proxy, with an address of its own invention: %d", got)
	}
	if got := ask(behind, https, "X-Forwarded-For: 203.0.113.2"); got != 303 {
		t.Errorf("another client of the proxy: %d", got)
	}
	for _, lines := range [][]string{{"X-Forwarded-Proto: http"}, nil, {https, https}, {"X-Forwarded-Proto: https,http"}} {
		if got := ask(behind, append(lines, "X-Forwarded-For: 203.0.113.3")...); got != 400 {
			t.Errorf("%q: a declared proxy that does not say https: %d", lines, got)
		}
	}
}

var proxyAddress = local()
