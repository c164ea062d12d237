package server

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}

// request returns a request from a peer with headers, given as names and values.
func request(peer string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.RemoteAddr = peer
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestTheAddressIsThePeersOrWhatDeclaredProxiesSay(t *testing.T) {
	for name, c := range map[string]struct {
		peer    string
		headers []string
		want    string
	}{
		"no proxy":                          {"192.0.2.1:80", nil, "192.0.2.1"},
		"a stranger's header":               {"192.0.2.1:80", []string{"X-Forwarded-For", "198.51.100.1"}, "192.0.2.1"},
		"a proxy without a header":          {"10.0.0.1:80", nil, "10.0.0.1"},
		"one proxy":                         {"10.0.0.1:80", []string{"X-Forwarded-For", "198.51.100.1"}, "198.51.100.1"},
		"two proxies":                       {"10.0.0.1:80", []string{"X-Forwarded-For", "198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		"what a stranger told the proxy":    {"10.0.0.1:80", []string{"X-Forwarded-For", "203.0.113.9, 198.51.100.1"}, "198.51.100.1"},
		"a stranger who claims to be one":   {"10.0.0.1:80", []string{"X-Forwarded-For", "203.0.113.9, 10.9.9.9, 198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		"two headers":                       {"10.0.0.1:80", []string{"X-Forwarded-For", "203.0.113.9", "X-Forwarded-For", "198.51.100.1"}, "198.51.100.1"},
		"proxies all the way":               {"10.0.0.1:80", []string{"X-Forwarded-For", "10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"nonsense next to the proxy":        {"10.0.0.1:80", []string{"X-Forwarded-For", "198.51.100.1, unknown"}, "10.0.0.1"},
		"nonsense behind a proxy":           {"10.0.0.1:80", []string{"X-Forwarded-For", "unknown, 10.0.0.2"}, "10.0.0.2"},
		"an empty header":                   {"10.0.0.1:80", []string{"X-Forwarded-For", ""}, "10.0.0.1"},
		"spaces":                            {"10.0.0.1:80", []string{"X-Forwarded-For", " 198.51.100.1 ,  10.0.0.2 "}, "198.51.100.1"},
		"IPv6":                              {"[2001:db8::1]:80", []string{"X-Forwarded-For", "2001:db9::5"}, "2001:db9::5"},
		"IPv4 in IPv6, as a proxy":          {"[::ffff:10.0.0.1]:80", []string{"X-Forwarded-For", "::ffff:198.51.100.1"}, "198.51.100.1"},
		"IPv4 in IPv6, as a stranger":       {"[::ffff:192.0.2.1]:80", []string{"X-Forwarded-For", "198.51.100.1"}, "192.0.2.1"},
		"a proxy's address with a zone":     {"[2001:db8::1%eth0]:80", []string{"X-Forwarded-For", "198.51.100.1"}, "2001:db8::1%eth0"},
		"a zone, which can be any text":     {"10.0.0.1:80", []string{"X-Forwarded-For", "fe80::1%your bank\u202e, 10.0.0.2"}, "fe80::1"},
		"another header is nobody's word":   {"10.0.0.1:80", []string{"Forwarded", "for=198.51.100.1", "X-Real-Ip", "198.51.100.1"}, "10.0.0.1"},
		"an address with a port":            {"10.0.0.1:80", []string{"X-Forwarded-For", "198.51.100.1:4711, 10.0.0.2:80"}, "198.51.100.1"},
		"IPv6 with a port":                  {"10.0.0.1:80", []string{"X-Forwarded-For", "[2001:db9::5]:4711"}, "2001:db9::5"},
		"IPv4 in IPv6 with a port":          {"10.0.0.1:80", []string{"X-Forwarded-For", "[::ffff:198.51.100.1]:4711"}, "198.51.100.1"},
		"a port that is none":               {"10.0.0.1:80", []string{"X-Forwarded-For", "198.51.100.1:port"}, "10.0.0.1"},
		"a Unix socket's peer, which is no": {"@", []string{"X-Forwarded-For", "198.51.100.1"}, "invalid IP"},
	} {
		s := Proxies{TrustedProxies: proxies}
		if got := s.address(request(c.peer, c.headers...)); got.String() != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	s := Proxies{}
	if got := s.address(request("10.0.0.1:80", "X-Forwarded-For", "198.51.100.1")); got.String() != "10.0.0.1" {
		t.Errorf("without declared proxies: %s, want the peer", got)
	}
}

func TestARequestIsSecureOverTLSAlone(t *testing.T) {
	for name, c := range map[string]struct {
		plain   bool // the listener has no TLS
		peer    string
		headers []string
		tls     bool
		want    bool
	}{
		"TLS":                                {false, "192.0.2.1:80", nil, true, true},
		"TLS, whatever a header says":        {false, "192.0.2.1:80", []string{"X-Forwarded-Proto", "http"}, true, true},
		"a TLS listener's plain request":     {false, "127.0.0.1:80", []string{"X-Forwarded-Proto", "https"}, false, false},
		"plain from this machine":            {true, "127.0.0.1:80", nil, false, true},
		"plain from this machine, IPv6":      {true, "[::1]:80", nil, false, true},
		"plain from this machine, mapped":    {true, "[::ffff:127.0.0.1]:80", nil, false, true},
		"plain from elsewhere":               {true, "192.0.2.1:80", nil, false, false},
		"a stranger who claims https":        {true, "192.0.2.1:80", []string{"X-Forwarded-Proto", "https"}, false, false},
		"a proxy that had TLS":               {true, "10.0.0.1:80", []string{"X-Forwarded-Proto", "https"}, false, true},
		"a proxy that had TLS, upper case":   {true, "10.0.0.1:80", []string{"X-Forwarded-Proto", "HTTPS"}, false, true},
		"a proxy that had none":              {true, "10.0.0.1:80", []string{"X-Forwarded-Proto", "http"}, false, false},
		"a proxy that does not tell":         {true, "10.0.0.1:80", nil, false, false},
		"a proxy that tells two things":      {true, "10.0.0.1:80", []string{"X-Forwarded-Proto", "https", "X-Forwarded-Proto", "http"}, false, false},
		"a proxy that passes a client's on":  {true, "10.0.0.1:80", []string{"X-Forwarded-Proto", "https, http"}, false, false},
		"a peer that has no address, a bug?": {true, "@", nil, false, false},
	} {
		s := Proxies{TrustedProxies: proxies, PlainHTTP: c.plain}
		r := request(c.peer, c.headers...)
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if got := s.secure(r); got != c.want {
			t.Errorf("%s: secure %t, want %t", name, got, c.want)
		}
	}
}

func TestAProxyOnThisMachineThatIsNotDeclared(t *testing.T) {
	for name, c := range map[string]struct {
		peer    string
		headers []string
		noticed bool
		secure  bool
		alike   bool
	}{
		"no proxy":                        {"127.0.0.1:80", nil, false, true, true},
		"an address":                      {"127.0.0.1:80", []string{"X-Forwarded-For", "198.51.100.1"}, true, true, true},
		"an address, IPv6":                {"[::1]:80", []string{"X-Forwarded-For", "198.51.100.1"}, true, true, true},
		"an address, mapped":              {"[::ffff:127.0.0.1]:80", []string{"X-Forwarded-For", "198.51.100.1"}, true, true, true},
		"the header of RFC 7239":          {"127.0.0.1:80", []string{"Forwarded", "for=198.51.100.1"}, true, true, true},
		"that had TLS":                    {"127.0.0.1:80", []string{"X-Forwarded-Proto", "https"}, true, true, true},
		"that had none":                   {"127.0.0.1:80", []string{"X-Forwarded-Proto", "http"}, true, false, true},
		"that tells two things":           {"127.0.0.1:80", []string{"X-Forwarded-Proto", "https", "X-Forwarded-Proto", "http"}, true, false, true},
		"a stranger who claims to be one": {"192.0.2.1:80", []string{"X-Forwarded-For", "198.51.100.1", "X-Forwarded-Proto", "https"}, false, false, false},
	} {
		var log bytes.Buffer
		s := &Server{Options: Options{Proxies: Proxies{PlainHTTP: true}}, log: slog.New(slog.NewTextHandler(&log, nil))}
		r := request(c.peer, c.headers...)
		s.noticeProxy(r)
		s.noticeProxy(r)
		if n := strings.Count(log.String(), "level=WARN"); (n == 1) != c.noticed || n > 1 || c.noticed != strings.Contains(log.String(), "trusted_proxies") {
			t.Errorf("%s: two requests are logged as %q", name, log.String())
		}
		if got := s.secure(r); got != c.secure {
			t.Errorf("%s: secure %t, want %t", name, got, c.secure)
		}
		if got := s.maybeUndeclaredProxy(s.address(r)); got != c.alike {
			t.Errorf("%s: shared %t, want %t", name, got, c.alike)
		}
		// With its own TLS, or a declared proxy, the server logs nothing.
		log.Reset()
		for _, opt := range []Proxies{{}, {PlainHTTP: true, TrustedProxies: proxies}} {
			quiet := &Server{Options: Options{Proxies: opt}, log: s.log}
			quiet.noticeProxy(r)
			if log.Len() != 0 || quiet.maybeUndeclaredProxy(netip.MustParseAddr("192.0.2.1")) || quiet.maybeUndeclaredProxy(netip.MustParseAddr("127.0.0.1")) {
				t.Errorf("%s, with %+v: logged %q", name, opt, log.String())
			}
		}
	}
}
