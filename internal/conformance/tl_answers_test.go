package conformance_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/overload"
)

const strictTransport = "max-age=31536000"

// RFC 6797 section 7.2: the header is on every response over TLS and on no other. It does
// not apply to IP addresses, and is omitted for localhost, where it would affect every
// other server of the machine.
func TestTL06_HTTPSAnswersAskForHTTPSAlone(t *testing.T) {
	proxied := func(o *options) {
		o.PlainHTTP, o.TrustedProxies = true, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	at := func(url string) func(*options) { return func(o *options) { o.PublicURL = url } }
	for name, c := range map[string]struct {
		choose []func(*options)
		lines  []string
		want   []string
	}{
		"TLS":                          {nil, nil, []string{strictTransport}},
		"a proxy that had TLS":         {[]func(*options){proxied}, []string{"X-Forwarded-Proto: https"}, []string{strictTransport}},
		"a proxy that had none":        {[]func(*options){proxied}, []string{"X-Forwarded-Proto: http"}, nil},
		"plain, from this machine":     {[]func(*options){func(o *options) { o.PlainHTTP = true }}, nil, nil},
		"a proxy that nobody declared": {[]func(*options){func(o *options) { o.PlainHTTP = true }}, []string{"X-Forwarded-Proto: https"}, nil},
		"localhost":                    {[]func(*options){at("https://localhost:8443")}, nil, nil},
		"a name below localhost":       {[]func(*options){at("https://auth.localhost")}, nil, nil},
		"an address":                   {[]func(*options){at("https://127.0.0.1:8443")}, nil, nil},
		"an address of IPv6":           {[]func(*options){at("https://[::1]:8443")}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := start(t, c.choose...)
			good := newRequest(d.a.redeem(d.code(d.a).Code))
			bad := newRequest(nil)
			document := newRequest(nil)
			document.method, document.target = "GET", "/oauth2/jwks"
			nothing := newRequest(nil)
			nothing.target = "/nothing"
			for _, r := range []*request{good, bad, document, nothing} {
				r.header = append(r.header, c.lines...)
				if a := d.send(r); !slices.Equal(a.header["Strict-Transport-Security"], c.want) {
					t.Errorf("%s %s: %d with %q, want %q", r.method, r.target, a.status, a.header["Strict-Transport-Security"], c.want)
				}
			}
		})
	}
}

// endpoints are paths with the methods that they allow.
var endpoints = map[string]string{
	endpoint: "POST", "/oauth2/introspect": "POST", "/oauth2/revoke": "POST", "/oauth2/token/revoke": "POST",
	"/oauth2/jwks": "GET, HEAD", metadataPath: "GET, HEAD", "/oauth2/tokeninfo": "GET, HEAD",
	"/oauth2/revocations": "GET, HEAD",
}

func TestTL13_MethodsThatAreNotForTheEndpointAreRefused(t *testing.T) {
	d := start(t)
	for target, allowed := range endpoints {
		for _, m := range []string{"TRACE", "OPTIONS", "CONNECT", "PUT", "DELETE", "PATCH", "get", "BREW"} {
			r := newRequest(nil)
			r.method, r.target = m, target
			r.set("X-Secret", "do not echo")
			a := d.send(r)
			if m == "CONNECT" { // whose target is not a path
				if a.status != 400 && a.status != 404 && a.status != 405 {
					t.Errorf("CONNECT %s: %v", target, a)
				}
				continue
			}
			if a.status != 405 || a.Error != "invalid_request" || strings.Contains(a.body, "echo") {
				t.Errorf("%s %s: %v", m, target, a)
			}
			if got := a.header["Allow"]; !slices.Equal(got, []string{allowed}) {
				t.Errorf("%s %s: Allow %q, want %q", m, target, got, allowed)
			}
		}
	}
	for _, line := range [][2]string{{"OPTIONS", "*"}, {"CONNECT", "auth.example:443"}, {"CONNECT", "[::1]:443"}} {
		r := newRequest(nil)
		r.method, r.target = line[0], line[1]
		a := d.send(r)
		if a.status != 400 || a.body != errorBody("invalid_request", "request target must be a path") {
			t.Errorf("%s %s: %v", line[0], line[1], a)
		}
		compareHeader(t, a)
	}
}

// A panicking store is a bug, of which callers must learn nothing.
func TestTL14_NothingIsToldOfTheProgramNorOfItsPanics(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	d.faulty.Before(panicking("a bug in net/http, at runtime.go:1"))
	answers := map[string]answer{"a panic": d.post(d.a.refresh(pair.RefreshToken))}
	d.faulty.Heal()
	if a := answers["a panic"]; a.status != 500 || a.body != errorBody("server_error", "internal error") {
		t.Errorf("a panic: %v", a)
	}
	for target := range endpoints {
		for _, m := range []string{"GET", "POST", "OPTIONS"} {
			r := newRequest(nil)
			r.method, r.target = m, target
			answers[m+" "+target] = d.send(r)
		}
	}
	for name, a := range answers {
		for _, h := range []string{"Server", "X-Powered-By", "Via"} {
			if a.header[h] != nil {
				t.Errorf("%s: %s: %q", name, h, a.header[h])
			}
		}
		text := strings.ToLower(fmt.Sprint(a.header, a.body))
		for _, word := range []string{"goroutine", "panic", "runtime", ".go:", "net/http", "mintage/", "sqlite", "version"} {
			if strings.Contains(text, word) && !strings.Contains(name, metadataPath) {
				t.Errorf("%s: it holds %q", name, word)
			}
		}
	}
}

func TestTL15_NoAnswerIsOpenToGuessesOfItsType(t *testing.T) {
	d, b := signedIn(t)
	pages := []shownPage{
		b.get(publicURL + "/oauth2/authorize"), b.get(asking(d.a)), b.get(publicURL + "/account/connections"),
		b.get(publicURL + "/account/logout"), b.get(publicURL + "/account/assets/nothing.css"), b.get(publicURL + "/oauth2/interaction"),
		b.get(publicURL + "/nothing"),
	}
	for _, s := range pages {
		if got := s.Header.Values("X-Content-Type-Options"); !slices.Equal(got, []string{"nosniff"}) {
			t.Errorf("%s: %q", s.Request.URL, got)
		}
	}
	for target := range endpoints {
		for _, m := range []string{"GET", "HEAD", "POST", "DELETE"} {
			r := newRequest(nil)
			r.method, r.target = m, target
			if a := d.send(r); !slices.Equal(a.header["X-Content-Type-Options"], []string{"nosniff"}) {
				t.Errorf("%s %s: %q", m, target, a.header["X-Content-Type-Options"])
			}
		}
	}
}

func TestTL16_ErrorsOfEveryStatusAreConstantJSON(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	d.faulty.Before(panicking("a bug in net/http, at runtime.go:1"))
	large := strings.Repeat("a=b&", 20_000)
	other := strings.Repeat("z", 70_000)
	for name, c := range map[string]struct {
		status int
		want   string
		spoil  []func(*request)
	}{
		"404": {404, errorBody("invalid_request", "no such endpoint"), []func(*request){
			func(r *request) { r.target = "/nothing" }, func(r *request) { r.target = "/oauth2/access_token/<script>" },
			func(r *request) { r.method, r.target = "GET", "/oauth2//access_token" }, func(r *request) { r.target = "/%2e%2e/etc/passwd" },
		}},
		"405": {405, errorBody("invalid_request", "method must be POST"), []func(*request){
			func(r *request) { r.method = "GET" }, func(r *request) { r.method = "DELETE" }, func(r *request) { r.method = "BREW" },
		}},
		"413": {413, errorBody("invalid_request", "request too large"), []func(*request){
			func(r *request) { r.body = &large }, func(r *request) { r.body = &other },
			func(r *request) {
				text := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(large), large)
				r.body = &text
				r.set("Transfer-Encoding", "chunked")
			},
		}},
		"500": {500, errorBody("server_error", "internal error"), []func(*request){
			func(r *request) { r.form = d.a.refresh(pair.RefreshToken) },
		}},
	} {
		for n, spoil := range c.spoil {
			r := newRequest(d.a.refresh("x"))
			spoil(r)
			a := d.send(r)
			if a.status != c.status || a.body != c.want {
				t.Errorf("%s, way %d: %v", name, n, a)
			}
			var extra []string
			switch c.status {
			case 405:
				extra = append(extra, "Allow: POST")
			case 413:
				extra = append(extra, "Connection: close")
			}
			compareHeader(t, a, extra...)
		}
	}
}

func TestTL17_NoAnswerIsMadeOfTheHost(t *testing.T) {
	d := start(t)
	normal := func(target string) *request {
		r := newRequest(nil)
		r.method, r.target = "GET", target
		return r
	}
	targets := []string{metadataPath, "/oauth2/jwks", "/oauth2/tokeninfo", "/nothing", endpoint}
	for _, target := range targets {
		want := d.send(normal(target))
		for _, host := range []string{"evil.example", "evil.example:8443", "localhost", "auth.example@evil.example", "[::1]:1"} {
			named := normal(target)
			named.set("Host", host)
			absolute := normal("https://evil.example" + target)
			absolute.set("Host", host)
			for _, r := range []*request{named, absolute} {
				a := d.send(r)
				if a.status == 400 && a.Error == "" {
					continue // an invalid host by RFC 9110 section 7.2
				}
				if a.status != want.status || a.body != want.body || strings.Contains(fmt.Sprint(a.header), "evil") {
					t.Errorf("%s with the host %s: %v", r.target, host, a)
				}
			}
		}
	}
	absent := normal("/oauth2/jwks")
	absent.set("Host", "")
	if a := d.send(absent); a.status != 400 {
		t.Errorf("without a host: %v", a)
	}
}

// Nothing is compressed: otherwise the length of a page or token response could reveal
// secrets in it beside the request's own text (BREACH).
func TestTL18_NothingIsCompressed(t *testing.T) {
	d, b := signedIn(t)
	code := d.code(d.a).Code
	for _, r := range []*request{
		newRequest(d.a.redeem(code)), newRequest(nil),
		{method: "GET", target: "/oauth2/jwks", proto: "HTTP/1.1", header: []string{"Host: x"}},
		{method: "GET", target: metadataPath, proto: "HTTP/1.1", header: []string{"Host: x"}},
		{method: "GET", target: strings.TrimPrefix(asking(d.a), publicURL), proto: "HTTP/1.1", header: []string{"Host: x"}},
	} {
		for _, encodings := range []string{"gzip, deflate, br, zstd", "*", "gzip;q=1.0, identity;q=0"} {
			r.set("Accept-Encoding", encodings)
			if a := d.send(r); a.header["Content-Encoding"] != nil {
				t.Errorf("%s %s: Content-Encoding %q", r.method, r.target, a.header["Content-Encoding"])
			}
		}
	}
	if s := b.get(publicURL + "/account/connections"); s.Header.Get("Content-Encoding") != "" || s.Uncompressed {
		t.Error("a page is compressed")
	}
}

// If a request is refused before its body was read, the body stays on the connection. The
// server must never parse it as the next request (RFC 9112 section 9.3).
func TestTL19_TheBodyOfARefusedRequestIsNoRequest(t *testing.T) {
	d := start(t, func(o *options) { o.RateLimits = overload.RateLimits{AddressRequests: 1_000_000} })
	hidden := newRequest(d.a.redeem(d.code(d.a).Code)).text()
	for name, spoil := range map[string]func(*request){
		"405":              func(r *request) { r.method = "PUT" },
		"404":              func(r *request) { r.target = "/nothing" },
		"content type":     func(r *request) { r.set("Content-Type", "text/plain") },
		"content encoding": func(r *request) { r.set("Content-Encoding", "gzip") },
		"a document":       func(r *request) { r.method, r.target = "GET", "/oauth2/jwks" },
		"verification":     func(r *request) { r.target = "/oauth2/verify" },
		"a preflight":      func(r *request) { r.method = "OPTIONS" },
		"too large":        func(r *request) { r.body = repeated(hidden, 200) },
		"far too large":    func(r *request) { r.body = repeated(hidden, 5000) },
		"expects to be told": func(r *request) {
			r.set("Expect", "100-continue")
			r.set("Content-Type", "text/plain")
		},
	} {
		conn := d.dial(local())
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		r := newRequest(nil)
		r.body = &hidden
		spoil(r)
		wrote := make(chan struct{})
		go func() {
			defer close(wrote)
			io.WriteString(conn, r.text())
			good := newRequest(with(d.a.redeem("x"), "grant_type", ""))
			io.WriteString(conn, good.text())
		}()
		reader := bufio.NewReader(conn)
		first, err := readAnswer(reader, r.method)
		if err != nil && name != "far too large" { // the server may cut the connection while the body is sent
			t.Errorf("%s: %v", name, err)
		}
		second, err := readAnswer(reader, "POST")
		closed := slices.Equal(first.header["Connection"], []string{"close"})
		switch {
		case first.AccessToken != "" || second.AccessToken != "":
			t.Errorf("%s: the body was taken for a request", name)
		case err == nil && closed:
			t.Errorf("%s: an answer after the last", name)
		case err == nil && second.Description != "grant_type missing":
			t.Errorf("%s: the next request is answered %v", name, second)
		case err != nil && !closed && first.status != 0:
			t.Errorf("%s: the connection ends without a word: %v", name, err)
		}
		conn.Close()
		<-wrote
	}
	if a := d.post(d.a.redeem("x")); a.status != http.StatusBadRequest {
		t.Errorf("%v", a)
	}
}

func repeated(s string, n int) *string {
	s = strings.Repeat(s, n)
	return &s
}
