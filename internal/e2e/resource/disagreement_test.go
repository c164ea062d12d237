//go:build e2e

package resource

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A gate is a proxy in front of Mintage, or Mintage itself.
type gate struct {
	name, address string
}

// gates starts the proxies of docs/how-to/proxy.md.
func gates(t *testing.T, ca *authority, mintage string) []gate {
	t.Helper()
	cert, key, both := ca.certify(t, "auth.example.com")
	caddy := caddyGate(t, ca, mintage, mintage)
	nginx := binary.FreeAddress(t, "127.0.0.1")
	runNginx(t, nginx, "", here(t, shown(t, "proxy.md", "/etc/nginx/conf.d/auth.conf"),
		"listen 443 ssl", "listen "+nginx+" ssl", "10.0.0.5:8443", mintage, "/etc/ssl/certs/ca-certificates.crt", ca.file,
		"/etc/ssl/auth.example.com.crt", cert, "/etc/ssl/private/auth.example.com.key", key))
	haproxy := binary.FreeAddress(t, "127.0.0.1")
	around := "global\n\tlog stderr local0 warning\ndefaults\n\tlog global\n\tmode http\n\ttimeout client 50s\n\n"
	site := here(t, shown(t, "proxy.md", "/etc/haproxy/haproxy.cfg, after Debian's global and defaults"),
		"bind :443 ", "bind "+haproxy+" ", "10.0.0.5:8443", mintage, "/etc/ssl/certs/ca-certificates.crt", ca.file,
		"/etc/ssl/private/auth.example.com.pem", both)
	binary.Serve(t, exec.Command("/usr/sbin/haproxy", "-db", "-f", write(t, filepath.Join(t.TempDir(), "haproxy.cfg"), around+site)), haproxy)
	return []gate{{"nginx", nginx}, {"HAProxy", haproxy}, caddy}
}

// theClient is the source address of requests; it differs from the proxies' address.
const theClient = "127.0.0.2"

// send writes raw, and then a plain request on the same connection. The second response
// is wrong if proxy and server disagree about the end of the first request. Status 0
// means that the connection was closed without a response.
func (g gate) send(t *testing.T, ca *authority, raw string) (status int, body answer, next int) {
	t.Helper()
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(theClient)}}
	c, err := tls.DialWithDialer(from, "tcp", g.address, &tls.Config{RootCAs: ca.pool(), ServerName: "auth.example.com"})
	if err != nil {
		t.Fatalf("%s: %v", g.name, err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	const plain = "GET /oauth2/jwks HTTP/1.1\r\nHost: auth.example.com\r\nConnection: close\r\n\r\n"
	if _, err := c.Write([]byte(raw + plain)); err != nil {
		return 0, body, 0
	}
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, &http.Request{Method: strings.Fields(raw)[0]})
	if err != nil {
		return 0, body, 0
	}
	json.NewDecoder(resp.Body).Decode(&body)
	resp.Body.Close()
	if second, err := http.ReadResponse(r, nil); err == nil {
		second.Body.Close()
		next = second.StatusCode
	}
	return resp.StatusCode, body, next
}

// An answer holds the members of a response that these tests compare.
type answer struct {
	Error        string `json:"error"`
	RefreshToken string `json:"refresh_token"`
}

// post returns a raw request with a form.
func post(target, form string, header ...string) string {
	lines := append([]string{"POST " + target + " HTTP/1.1", "Host: auth.example.com"}, header...)
	lines = append(lines, "Content-Type: application/x-www-form-urlencoded", fmt.Sprintf("Content-Length: %d", len(form)))
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + form
}

// TestOP21_AProxyAndTheServerUnderstandTheSame: a proxy may refuse what Mintage would
// accept, and must never turn a request that Mintage refuses into an acceptable one (RFC
// 9700 section 4.13).
func TestOP21_AProxyAndTheServerUnderstandTheSame(t *testing.T) {
	ca := newAuthority(t)
	cert, key, _ := ca.certify(t, "auth.example.com")
	s := binary.Start(t, t.TempDir(), "--issuer", issuer, "--tls-cert", cert, "--tls-key", key, "--trusted-proxies", "127.0.0.1",
		"--log-level", "debug", "--throttle-address-failures", "0", "--throttle-client-failures", "0")
	s.CAFile = ca.file
	host := mustParse(t, s.TokenEndpoint).Host
	direct := gate{"Mintage itself", host}

	const endpoint = "/oauth2/access_token?realm=/api"
	// With this form, a correctly parsed request gets invalid_grant, and no other error.
	good := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}, "client_id": {s.ClientID}, "client_secret": {s.ClientSecret}}.Encode()
	chunked := func(header ...string) string {
		lines := append([]string{"POST " + endpoint + " HTTP/1.1", "Host: auth.example.com", "Content-Type: application/x-www-form-urlencoded"}, header...)
		return strings.Join(lines, "\r\n") + fmt.Sprintf("\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(good), good)
	}
	basic := "Authorization: Basic " + "eDp5" // x:y
	cases := map[string]string{}
	for _, path := range []string{
		"//oauth2/access_token", "/oauth2//access_token", "/oauth2/./access_token", "/oauth2/x/../access_token", "/oauth2/access_token/",
		"/oauth2/%61ccess_token", "/oauth2%2Faccess_token", "/oauth2/access_token%2F", "/oauth2/access_token;x=y", "/OAUTH2/access_token",
		"/oauth2/access_token%00", "/oauth2/access_token%3Frealm=/api", "/admin/v1/codes", "/../admin/v1/codes", "/oauth2/..%2Fadmin/v1/codes",
		"/metrics", "/readyz",
	} {
		cases["path "+path] = post(path+"?realm=/api", good)
	}
	for name, raw := range map[string]string{
		"nothing unusual":              post(endpoint, good),
		"an absolute target":           post("https://auth.example.com"+endpoint, good),
		"realm twice":                  post(endpoint+"&realm=/api", good),
		"realm encoded":                post("/oauth2/access_token?realm=%2Fapi", good),
		"realm doubly encoded":         post("/oauth2/access_token?realm=%252Fapi", good),
		"a parameter in the query":     post(endpoint+"&refresh_token=x", good),
		"a parameter twice":            post(endpoint, good+"&refresh_token=x"),
		"a broken escape":              post(endpoint, good+"&x=%zz"),
		"no UTF-8":                     post(endpoint, good+"&x=%ff"),
		"a NUL":                        post(endpoint, good+"&x=%00"),
		"a semicolon":                  post(endpoint, strings.ReplaceAll(good, "&", ";")),
		"two Authorization":            post(endpoint, good, basic, basic),
		"Authorization and a secret":   post(endpoint, good, basic),
		"two Content-Type":             post(endpoint, good, "Content-Type: text/plain"),
		"X_Authorization":              post(endpoint, good, "X_Authorization: x", "Authorization_: x"),
		"a compressed body, it says":   post(endpoint, good, "Content-Encoding: gzip"),
		"two lengths, equal":           post(endpoint, good, fmt.Sprintf("Content-Length: %d", len(good))),
		"two lengths":                  post(endpoint, good, "Content-Length: 3"),
		"a length with a sign":         strings.Replace(post(endpoint, good), "Content-Length: ", "Content-Length: +", 1),
		"chunks":                       chunked("Transfer-Encoding: chunked"),
		"chunks and a length":          chunked("Transfer-Encoding: chunked", "Content-Length: 4"),
		"chunks, written strangely":    chunked("Transfer-Encoding: xchunked", fmt.Sprintf("Content-Length: %d", len(good))),
		"chunks, twice":                chunked("Transfer-Encoding: chunked, chunked"),
		"a space before the colon":     post(endpoint, good, "Transfer-Encoding : chunked"),
		"a folded line":                post(endpoint, good, "X-A: b\r\n c"),
		"a bare line feed":             post(endpoint, good, "X-A: b\nX-B: c"),
		"two Host":                     post(endpoint, good, "Host: evil.example"),
		"another method by header":     strings.Replace(post(endpoint, good, "X-HTTP-Method-Override: POST"), "POST", "PUT", 1),
		"Connection names what counts": post(endpoint, good, "Connection: close, Content-Type, X-Forwarded-Proto"),
		"the scheme is denied":         post(endpoint, good, "X-Forwarded-Proto: http"),
	} {
		cases[name] = raw
	}
	// A proxy rewrites such a request, but its meaning stays the same.
	mended := map[string]bool{
		"an absolute target": true, // RFC 9112 section 3.2.2
	}
	fronts := gates(t, ca, host)
	for name, raw := range cases {
		want, told, _ := direct.send(t, ca, raw)
		for _, g := range fronts {
			got, body, next := g.send(t, ca, raw)
			switch {
			case body.Error == "invalid_grant" && told.Error != "invalid_grant" && !mended[name]:
				t.Errorf("%s makes acceptable: %s, which is %d %s without the proxy", g.name, name, want, told.Error)
			case got != want && got != 0 && got/100 != 4 && got != http.StatusNotImplemented:
				t.Errorf("%s, %s: %d %s, and without the proxy %d %s", g.name, name, got, body.Error, want, told.Error)
			case next != 0 && next != http.StatusOK:
				t.Errorf("%s, %s: the next request on the connection is answered %d", g.name, name, next)
			}
			if name == "nothing unusual" && (got != http.StatusBadRequest || body.Error != "invalid_grant" || next != http.StatusOK) {
				t.Errorf("%s: an ordinary request is answered %d %s, and the next %d", g.name, got, body.Error, next)
			}
			if strings.HasPrefix(name, "path ") && got != http.StatusNotFound && got != http.StatusBadRequest {
				t.Errorf("%s, %s: %d", g.name, name, got)
			}
		}
	}

	t.Run("a client cannot say where it comes from", func(t *testing.T) {
		for _, g := range fronts {
			before := len(s.Log())
			g.send(t, ca, post(endpoint, good, "X-Forwarded-For: 203.0.113.7", "X-Forwarded-For: 203.0.113.8", "Forwarded: for=203.0.113.9", "X-Real-IP: 203.0.113.10"))
			if log := s.Logged(t, before); strings.Contains(log, "203.0.113.") || !strings.Contains(log, `"remote_ip":"`+theClient+`"`) {
				t.Errorf("%s: the log says %s", g.name, log)
			}
		}
	})
	t.Run("a refresh goes through, and its repetition", func(t *testing.T) {
		for _, g := range fronts {
			_, first, _ := g.send(t, ca, post(endpoint, s.ExchangeForm(s.Code(t, "alice")).Encode()))
			form := s.RefreshForm(first.RefreshToken).Encode()
			_, second, _ := g.send(t, ca, post(endpoint, form))
			_, again, next := g.send(t, ca, post(endpoint, form))
			if second.RefreshToken == "" || second.RefreshToken == first.RefreshToken || again != second || next != http.StatusOK {
				t.Errorf("%s: another pair, or none: %s", g.name, second.Error)
			}
		}
	})
}
