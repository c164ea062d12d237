package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/fetch"
	"github.com/mintage/mintage/internal/keyset"
)

// ways are the ways in which a visitor makes the server fetch an address: as a client_id,
// and as the jwks_uri of a document whose keys verify an assertion. tries is the number
// of attempts without a response.
var ways = map[string]struct {
	read  func(ctx context.Context, c *fetch.Client, address string) error
	tries int
}{
	"document": {func(ctx context.Context, c *fetch.Client, address string) error {
		_, err := c.Get(ctx, address)
		return err
	}, 1},
	"key set": {func(ctx context.Context, c *fetch.Client, address string) error {
		const id = "https://agent.example/client.json"
		body, err := json.Marshal(map[string]any{"client_id": id, "redirect_uris": []string{"https://agent.example/cb"}, "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": address})
		if err != nil {
			return err
		}
		d, err := client.ReadDocument(id, body)
		if err != nil {
			return fmt.Errorf("%w: %w", fetch.ErrAddress, err)
		}
		_, err = keyset.NewCache(time.Now, c, nil).SelfRegistered(ctx, d.KeysURI, netip.Prefix{}, nil)
		return err
	}, 2},
}

// oneKey is a key set with one key.
const oneKey = `"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]`

// A world is an Internet with one server, at public, and a private network behind it,
// which counts its connections.
type world struct {
	t      *testing.T
	client *fetch.Client
	answer http.HandlerFunc // of the server; nil for a JSON object

	mu       sync.Mutex
	dns      map[string][][]string // successive answers for each host; the last one is repeated
	resolved map[string]int
	dialed   []netip.AddrPort
	inside   atomic.Int64 // connections to addresses that are not public
}

var public = netip.MustParseAddr("93.184.216.34")

func newWorld(t *testing.T) *world {
	w := &world{t: t, dns: map[string][][]string{"example.com": {{public.String()}}}, resolved: map[string]int{}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.answer != nil {
			w.answer(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		io.WriteString(rw, `{`+oneKey+`}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	private, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { private.Close() })
	go func() {
		for {
			c, err := private.Accept()
			if err != nil {
				return
			}
			w.inside.Add(1)
			c.Close()
		}
	}()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	w.client = &fetch.Client{
		Roots: roots,
		Resolve: func(_ context.Context, host string) (list []netip.Addr, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			answers := w.dns[host]
			if len(answers) == 0 {
				return nil, errors.New("no such host")
			}
			for _, text := range answers[min(w.resolved[host], len(answers)-1)] {
				list = append(list, netip.MustParseAddr(text))
			}
			w.resolved[host]++
			return list, nil
		},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			w.mu.Lock()
			w.dialed = append(w.dialed, to)
			w.mu.Unlock()
			address := private.Addr().String()
			if to.Addr() == public {
				address = server.Listener.Addr().String()
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		},
	}
	return w
}

// notPublic are addresses of every block that is not globally reachable.
var notPublic = []string{
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
	"169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.170", "192.0.2.1", "192.88.99.1", "192.168.0.1",
	"198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
	"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
	"100::1", "100:0:0:1::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::1", "2002:a9fe:a9fe::", "3fff::1",
	"5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "4000::1",
}

// spellings are hosts that some programs parse as addresses.
var spellings = []string{
	"2130706433", "0x7f000001", "0x7f.1", "0X7F.0.0.1", "0177.0.0.1", "017700000001", "127.1", "127.0.1", "0", "127.0.0.1.", "127.0.0.01",
	"169.254.43518", "3232235521", "1.2.3.0x", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:8.8.8.8]", "[::1%25lo]", "[fe80::1%25eth0]",
	"127.0.0.1%00.example.com", "１２７.０.０.１", "ⓛocalhost", "%6c%6f%63%61lhost",
}

func TestNoAddressIsReachedThatIsNotGloballyReachable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hosts := append([]string{}, spellings...)
	for i, text := range notPublic {
		a := netip.MustParseAddr(text)
		if fetch.Global(a) {
			t.Errorf("Global(%s)", a)
		}
		literal := a.String()
		if a.Is6() {
			literal = "[" + literal + "]"
		}
		// A name with such an address alone, after a public address, and before one.
		name := fmt.Sprintf("h%d.example.org", i)
		w.dns[name], w.dns["first-"+name], w.dns["last-"+name] = [][]string{{text}}, [][]string{{text, public.String()}}, [][]string{{public.String(), text}}
		hosts = append(hosts, literal, name, "first-"+name, "last-"+name)
	}
	w.dns["localhost"], w.dns["localhost."] = [][]string{{"127.0.0.1", "::1"}}, [][]string{{"127.0.0.1"}}
	hosts = append(hosts, "localhost", "LOCALHOST", "localhost.")
	for what, way := range ways {
		for _, host := range hosts {
			for _, port := range []string{"", ":443", ":8443"} {
				if err := way.read(t.Context(), w.client, "https://"+host+port+"/client.json"); err == nil {
					t.Errorf("the %s at %s was fetched", what, host+port)
				}
			}
		}
	}
	if n := w.inside.Load(); n != 0 || len(w.dialed) != 0 {
		t.Errorf("%d connections, to %v", n, w.dialed)
	}
}

// TestThisMachineIsNotReached uses the system's resolver and sockets: real listeners on
// this machine are not reached.
func TestThisMachineIsNotReached(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // this machine has no IPv6
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				reached.Add(1)
				c.Close()
			}
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		for what, way := range ways {
			c := &fetch.Client{}
			for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.2", "[::ffff:7f00:1]"} {
				if err := way.read(t.Context(), c, "https://"+host+":"+port+"/client.json"); !errors.Is(err, fetch.ErrAddress) {
					t.Errorf("%s, %s: %v, want ErrAddress", what, host, err)
				}
			}
			if n := reached.Load(); n != 0 {
				t.Errorf("%s: %d connections", what, n)
			}
			// Control: the listener is reachable if the address is allowed.
			c.Reachable = netip.Addr.IsLoopback
			if err := way.read(t.Context(), c, "https://"+l.Addr().String()+"/"); !errors.Is(err, fetch.ErrUnreachable) || reached.Swap(0) != int64(way.tries) {
				t.Errorf("%s: %s is not reached if it may be: %v", what, l.Addr(), err)
			}
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestTheConnectionGoesToTheAddressThatWasChecked(t *testing.T) {
	t.Parallel()
	for what, way := range ways {
		w := newWorld(t)
		w.dns["example.com"] = [][]string{{public.String()}, {"127.0.0.1"}} // changes between check and connect
		if err := way.read(t.Context(), w.client, "https://example.com/a"); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if w.resolved["example.com"] != 1 || len(w.dialed) != 1 || w.dialed[0] != netip.AddrPortFrom(public, 443) {
			t.Errorf("%s: resolved %d times, dialed %v", what, w.resolved["example.com"], w.dialed)
		}
		// The next fetch checks the address again.
		if err := way.read(t.Context(), w.client, "https://example.com/a"); !errors.Is(err, fetch.ErrAddress) {
			t.Errorf("%s, after the answer has changed: %v, want ErrAddress", what, err)
		}
		// The retry of a fetch checks the address again, too.
		w.dns["twice.example.net"] = [][]string{{public.String()}, {"127.0.0.1"}}
		if err := way.read(t.Context(), w.client, "https://twice.example.net/"); err == nil {
			t.Errorf("%s: fetched with the certificate of another host", what)
		}
		if n := w.inside.Load(); n != 0 || len(w.dialed) != 2 {
			t.Errorf("%s: %d connections inside, dialed %v", what, n, w.dialed)
		}
		// A resolver may return IPv4 addresses in mapped form.
		w.dns["example.com"] = [][]string{{"::ffff:" + public.String()}}
		if err := way.read(t.Context(), w.client, "https://example.com/a"); err != nil {
			t.Errorf("%s, a mapped answer: %v", what, err)
		}
	}
}

func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1.1.1.1", "93.184.216.34", "100.63.255.255", "100.128.0.1", "172.15.255.255", "172.32.0.1", "192.0.1.1", "198.17.0.1", "198.20.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "3ffe::1"} {
		if !fetch.Global(netip.MustParseAddr(text)) {
			t.Errorf("%s counts as not globally reachable", text)
		}
	}
	if fetch.Global(netip.Addr{}) || fetch.Global(netip.MustParseAddr("2606:4700::1111%eth0")) {
		t.Error("an invalid address, or one with a zone, counts as globally reachable")
	}
}

func TestAddressesThatAreNotFetched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, address := range []string{
		"", "http://example.com/", "HTTP://example.com/", "ftp://example.com/", "file:///etc/passwd", "//example.com/", "example.com", "https:///a",
		"https://user@example.com/", "https://u:p@example.com/", "https://example.com/#f", "https://example.com:0/", "https://example.com:70000/", "https://exämple.com/", "https://exa mple.com/",
	} {
		for what, way := range ways {
			if err := way.read(t.Context(), w.client, address); !errors.Is(err, fetch.ErrAddress) {
				t.Errorf("%s %q: %v, want ErrAddress", what, address, err)
			}
		}
	}
	if len(w.dialed) != 0 {
		t.Errorf("dialed %v", w.dialed)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	send := func(status int, body string, header ...string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			for i := 0; i < len(header); i += 2 {
				rw.Header().Set(header[i], header[i+1])
			}
			rw.WriteHeader(status)
			io.WriteString(rw, body)
		}
	}
	const object = `{` + oneKey + `}`
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	io.WriteString(zw, `{"a":"`+strings.Repeat("a", 10<<20)+`"}`)
	zw.Close()
	whole := `{` + oneKey + strings.Repeat(" ", 64<<10-2-len(oneKey)) + `}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"an object":            {send(200, object), nil},
		"of 64 KiB":            {send(200, whole), nil},
		"of another JSON type": {send(200, object, "Content-Type", "application/jwk-set+json; charset=utf-8"), nil},
		"one byte more":        {send(200, whole+" "), fetch.ErrAnswer},
		"endless": {func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				if _, err := io.WriteString(rw, strings.Repeat(" ", 1<<16)); err != nil {
					return
				}
			}
		}, fetch.ErrAnswer},
		"compressed":            {send(200, packed.String(), "Content-Encoding", "gzip"), fetch.ErrAnswer},
		"a header without end":  {send(200, object, "X-Long", strings.Repeat("x", 20<<10)), fetch.ErrUnreachable},
		"a list":                {send(200, `[]`), fetch.ErrAnswer},
		"null":                  {send(200, `null`), fetch.ErrAnswer},
		"two objects":           {send(200, object+object), fetch.ErrAnswer},
		"nothing":               {send(200, ``), fetch.ErrAnswer},
		"a page":                {send(200, `<html>`, "Content-Type", "text/html"), fetch.ErrAnswer},
		"JSON as text":          {send(200, object, "Content-Type", "text/plain"), fetch.ErrAnswer},
		"no type":               {send(200, object, "Content-Type", ""), fetch.ErrAnswer},
		"created":               {send(201, object), fetch.ErrAnswer},
		"absent":                {send(404, object), fetch.ErrAnswer},
		"a fault":               {send(503, object), fetch.ErrAnswer},
		"elsewhere":             {send(302, object, "Location", "https://inside.example.org/"), fetch.ErrAnswer},
		"elsewhere for good":    {send(308, object, "Location", "https://127.0.0.1/"), fetch.ErrAnswer},
		"on the same host":      {send(301, object, "Location", "/b"), fetch.ErrAnswer},
		"refreshed by a header": {send(200, object, "Refresh", "0; url=https://127.0.0.1/", "Link", "<https://127.0.0.1/>; rel=preload"), nil},
		"cut off":               {send(200, object, "Content-Length", "99"), fetch.ErrUnreachable},
	} {
		w.answer = c.answer
		for what, way := range ways {
			tries := 1
			if errors.Is(c.want, fetch.ErrUnreachable) {
				tries = way.tries
			}
			before := len(w.dialed)
			if err := way.read(t.Context(), w.client, "https://example.com/a"); !errors.Is(err, c.want) {
				t.Errorf("%s: %s: %v, want %v", what, name, err, c.want)
			}
			if n := len(w.dialed) - before; n != tries {
				t.Errorf("%s: %s: %d connections", what, name, n)
			}
		}
	}
	if n := w.inside.Load(); n != 0 {
		t.Errorf("%d connections inside", n)
	}
}

func TestTheRequestCarriesNothing(t *testing.T) {
	w := newWorld(t)
	// A proxy from the environment would resolve the host itself, without the check.
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"} {
		t.Setenv(name, "http://user:password@127.0.0.1:1")
	}
	w.answer = func(rw http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if name != "Accept" && name != "User-Agent" && name != "Connection" {
				t.Errorf("header %s: %q", name, r.Header[name])
			}
		}
		if r.Host != "example.com" || r.TLS.ServerName != "example.com" || r.Method != http.MethodGet {
			t.Errorf("%s, host %s, server name %s", r.Method, r.Host, r.TLS.ServerName)
		}
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Set-Cookie", "a=b")
		io.WriteString(rw, `{}`)
	}
	for range 2 {
		if _, err := w.client.Get(t.Context(), "https://example.com/a"); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.dialed) != 2 || w.inside.Load() != 0 {
		t.Errorf("dialed %v", w.dialed)
	}
	// A certificate of another host or authority is not accepted.
	w.dns["example.net"] = [][]string{{public.String()}}
	if _, err := w.client.Get(t.Context(), "https://example.net/a"); !errors.Is(err, fetch.ErrUnreachable) {
		t.Errorf("another host's certificate: %v", err)
	}
	w.client.Roots = nil
	if _, err := w.client.Get(t.Context(), "https://example.com/a"); !errors.Is(err, fetch.ErrUnreachable) {
		t.Errorf("an unknown authority: %v", err)
	}
}

func TestHowLongAnAnswerServes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		header map[string]string
		want   time.Duration
	}{
		"nothing said":         {nil, 5 * time.Minute},
		"an hour":              {map[string]string{"Cache-Control": "public, max-age=3600"}, time.Hour},
		"an hour, of which 20": {map[string]string{"Cache-Control": "MAX-AGE=3600", "Age": "1200"}, 40 * time.Minute},
		"a minute":             {map[string]string{"Cache-Control": "max-age=60"}, 5 * time.Minute},
		"a year":               {map[string]string{"Cache-Control": "max-age=31536000, immutable"}, 24 * time.Hour},
		"for ever":             {map[string]string{"Cache-Control": "max-age=99999999999999999999"}, 24 * time.Hour},
		"nonsense":             {map[string]string{"Cache-Control": "max-age=-1"}, 5 * time.Minute},
		"not to be kept":       {map[string]string{"Cache-Control": "no-store, max-age=3600"}, 5 * time.Minute},
		"an instant":           {map[string]string{"Date": "Mon, 02 Jan 2006 15:04:05 GMT", "Expires": "Mon, 02 Jan 2006 17:04:05 GMT"}, 2 * time.Hour},
		"the age goes first":   {map[string]string{"Cache-Control": "max-age=600", "Date": "Mon, 02 Jan 2006 15:04:05 GMT", "Expires": "Mon, 02 Jan 2006 17:04:05 GMT"}, 10 * time.Minute},
		"expired":              {map[string]string{"Expires": "0"}, 5 * time.Minute},
		"an instant alone":     {map[string]string{"Date": "", "Expires": "Mon, 02 Jan 2006 17:04:05 GMT"}, 5 * time.Minute},
		"not compressed":       {map[string]string{"Content-Encoding": "identity"}, 5 * time.Minute},
	} {
		w.answer = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			for name, value := range c.header {
				rw.Header().Set(name, value)
			}
			io.WriteString(rw, `{}`)
		}
		a, err := w.client.Get(t.Context(), "https://example.com/a")
		if err != nil || a.Fresh != c.want {
			t.Errorf("%s: %s, %v; want %s", name, a.Fresh, err, c.want)
		}
	}
}

// A server that sends nothing, or a byte a second, gets five seconds.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certificate.Certificate())
	for name, serve := range map[string]func(net.Conn){
		"no handshake": func(c net.Conn) {
			defer c.Close()
			io.Copy(io.Discard, c)
		},
		"no answer": func(c net.Conn) {
			s := tls.Server(c, certificate.TLS)
			defer s.Close()
			io.Copy(io.Discard, s)
		},
		"a byte a second": func(c net.Conn) {
			s := tls.Server(c, certificate.TLS)
			defer s.Close()
			s.Read(make([]byte, 4096))
			io.WriteString(s, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
			for {
				if _, err := io.WriteString(s, " "); err != nil {
					return
				}
				time.Sleep(time.Second) // the bubble's time
			}
		},
	} {
		for what, way := range ways {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				var served sync.WaitGroup
				defer served.Wait()
				client := &fetch.Client{
					Roots:   roots,
					Resolve: func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{public}, nil },
					Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
						dials++
						ours, theirs := net.Pipe()
						served.Go(func() { serve(theirs) })
						return ours, nil
					},
				}
				began := time.Now()
				err := way.read(t.Context(), client, "https://example.com/a")
				if took := time.Since(began); !errors.Is(err, fetch.ErrUnreachable) || took != 5*time.Second || dials < 1 || dials > way.tries {
					t.Errorf("%s, %s: %v after %s, %d connections", what, name, err, took, dials)
				}
			})
		}
	}
}
