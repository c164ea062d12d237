package conformance_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

func TestTG19_ChunkedBodiesAreAccepted(t *testing.T) {
	d := start(t)
	body := d.a.redeem(d.code(d.a).Code).Encode()
	r := newRequest(nil)
	r.set("Transfer-Encoding", "chunked")
	chunked := fmt.Sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", 10, body[:10], len(body)-10, body[10:])
	r.body = &chunked
	d.mustIssue(d.send(r))
}

func TestTG20_LargeBodiesAreRefusedInBoundedMemory(t *testing.T) {
	d := start(t, alone) // the heap is shared by all tests
	good := d.a.redeem(d.code(d.a).Code)
	refused := func(a answer, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		want(t, a, 413, "invalid_request")
		if got := a.header["Connection"]; len(got) != 1 || got[0] != "close" {
			t.Errorf("Connection: %q", got)
		}
	}
	head := "POST " + endpoint + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
	exact := good.Encode() + "&x="
	exact += strings.Repeat("x", oauth.MaxForm+1-len(exact))
	conn := d.dial(local())
	defer conn.Close()
	refused(converse(conn, fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(exact), exact), "POST"))

	// The request announces 10 MiB, of which the server must read nothing.
	conn = d.dial(local())
	defer conn.Close()
	refused(converse(conn, head+"Content-Length: 10485760\r\n\r\n", "POST"))

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	conn = d.dial(local())
	defer conn.Close()
	// For endless chunks, the server must stop reading.
	sent := make(chan int)
	go func() {
		n := 0
		io.WriteString(conn, head+"Transfer-Encoding: chunked\r\n\r\n")
		chunk := "1000\r\n" + strings.Repeat("x", 4096) + "\r\n"
		for {
			m, err := io.WriteString(conn, chunk)
			n += m
			if err != nil || n > 256<<20 {
				sent <- n
				return
			}
		}
	}()
	refused(readAnswer(bufio.NewReader(conn), "POST"))
	if n := <-sent; n > 64<<20 {
		t.Errorf("the server took %d bytes of an endless body", n)
	}
	runtime.ReadMemStats(&after)
	if after.HeapAlloc > before.HeapAlloc+32<<20 {
		t.Errorf("the heap grew from %d to %d", before.HeapAlloc, after.HeapAlloc)
	}
	d.mustIssue(d.post(good))
}

func TestTG21_TG22_CountsAndLengthsAreBounded(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	send := func(body string) answer {
		r := newRequest(nil)
		r.body = &body
		return d.send(r)
	}
	var many strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&many, "&%d=", i)
	}
	want(t, send(good.Encode()+many.String()), 400, "invalid_request")
	for name, size := range map[string]int{
		"code": 4096, "client_id": 1024, "client_secret": 4096, "redirect_uri": 4096, "code_verifier": 2000,
		"refresh_token": 4096, "scope": 4096, "state": 4096, "grant_type": 1024,
	} {
		want(t, d.post(with(good, name, strings.Repeat("x", size))), 400, "invalid_request")
	}
	d.mustIssue(send(good.Encode() + "&long=" + strings.Repeat("x", 50_000)))
}

func TestTG23_TG24_TG25_MalformedTextIsRefusedWhole(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	for _, tail := range []string{
		"%zz", "%", "%4", "a;b=c", "%00", "\x00", "%ff", "%c0%af", "%ed%a0%80", "%0a", "%0d", "\n", "\r", "%7f", "%c2%85", "%ef%bb%bf", "\r\n",
	} {
		for _, body := range []string{good.Encode() + "&x=" + tail, "x" + tail + "=1&" + good.Encode(), good.Encode() + tail} {
			r := newRequest(nil)
			r.body = &body
			want(t, d.send(r), 400, "invalid_request")
		}
	}
	body := "\ufeff" + good.Encode()
	r := newRequest(nil)
	r.body = &body
	want(t, d.send(r), 400, "invalid_request")
	d.mustIssue(d.post(good))
}

func TestTG26_FormsAreDecodedOnce(t *testing.T) {
	d := start(t)
	const secret = "p+q r%2Bs%"
	c := d.client(client.Registration{Secret: secret})
	body := func(encoded string) *request {
		text := with(c.redeem(d.code(c).Code), "client_secret", "").Encode() + "&client_secret=" + encoded
		r := newRequest(nil)
		r.body = &text
		return r
	}
	for encoded, good := range map[string]bool{
		"p%2Bq+r%252Bs%25": true, "p%2Bq%20r%252Bs%25": true, "%70%2bq+r%252Bs%25": true,
		"p+q+r%252Bs%25": false, "p%2Bq+r%2Bs%25": false, "p%252Bq+r%252Bs%25": false,
	} {
		if a := d.send(body(encoded)); good != (a.status == 200) {
			t.Errorf("%s: %v", encoded, a)
		}
	}
}

func TestTG27_ABodyCutShortIsNotARequest(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	// The received part is a complete form: only the length shows that it is cut.
	body := good.Encode()
	r := newRequest(nil)
	r.set("Content-Length", fmt.Sprint(len(body)+10))
	r.body = &body
	conn := d.dial(local()).(*tls.Conn)
	defer conn.Close()
	if _, err := io.WriteString(conn, r.text()); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	a, err := readAnswer(bufio.NewReader(conn), "POST")
	if err != nil {
		t.Fatal(err)
	}
	want(t, a, 408, "invalid_request")
	compareHeader(t, a, "Connection: close")
	d.mustIssue(d.post(good))
}

// Attempted injections get byte for byte the response to any other wrong value.
func TestTG44_InjectionChangesNothing(t *testing.T) {
	d := start(t)
	good := with(d.a.redeem(d.code(d.a, pkce).Code), "code_verifier", verifier)
	for _, name := range []string{"code", "client_id", "client_secret", "redirect_uri", "code_verifier", "grant_type"} {
		plain := d.post(with(good, name, "plain-wrong-value"))
		for _, attack := range []string{
			`' OR '1'='1`, `"; DROP TABLE grants; --`, `*)(uid=*))(|(uid=*`, `{"$gt":""}`, `${jndi:ldap://x}`, `%s%s%n`, `../../etc/passwd`,
			`<script>alert(1)</script>`, "`id`", `$(id)`, `{{7*7}}`, `\u0000`,
		} {
			a := d.post(with(good, name, attack))
			if a.status != plain.status || a.body != plain.body {
				t.Errorf("%s=%s: %v, and for a plain value %v", name, attack, a, plain)
			}
		}
	}
	d.mustIssue(d.post(good))
}

func TestTG45_ParallelRequestsDoNotMix(t *testing.T) {
	d := start(t, strict)
	const n = 500 // valid and as many invalid ones: 1000 simultaneous requests
	scopes := []string{"a", "b", "c", "a b", "a c", "b c", "a b c"}
	type one struct {
		id   string
		form url.Values
	}
	clients := make([]oauthClient, 10)
	for i := range clients {
		clients[i] = d.client(client.Registration{Settings: store.Settings{Name: fmt.Sprint("client ", i)}})
	}
	var valid []one
	for i := range n {
		c := clients[i%len(clients)]
		code := d.code(c, func(a *issuer.Authorization) { a.Subject, a.Scope = fmt.Sprint("s", i), scopes[i%len(scopes)] })
		valid = append(valid, one{code.GrantID.String(), c.redeem(code.Code)})
	}
	client := d.httpClient()
	ring := d.ring()
	failed := make(chan error, 2*n)
	for i, v := range valid {
		go func() {
			a, err := d.postVia(client, v.form)
			if err == nil && (a.status != 200 || a.Scope != scopes[i%len(scopes)]) {
				err = fmt.Errorf("valid request %d: %v, scope %q", i, a, a.Scope)
			}
			if err == nil {
				tok, bad := ring.OpenRefresh(realm, a.RefreshToken)
				acc, bad2 := ring.OpenAccess(realm, a.AccessToken)
				if bad != nil || bad2 != nil || tok.GrantID.String() != v.id || acc.GrantID != tok.GrantID {
					err = fmt.Errorf("request %d got the tokens of grant %s", i, tok.GrantID)
				}
			}
			failed <- err
		}()
		go func() {
			state := fmt.Sprint("state-", i)
			form := with(valid[i].form, "code", "made-up", "state", state)
			code := "invalid_grant"
			if i%2 == 0 {
				form.Set("client_secret", "wrong")
				code = "invalid_client"
			}
			a, err := d.postVia(client, form)
			if err == nil && (a.status != 400 || a.Error != code || a.State != state) {
				err = fmt.Errorf("invalid request %d: %v, want %s with %s", i, a, code, state)
			}
			failed <- err
		}()
	}
	for range 2 * n {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

func TestTG37_CookiesAreIgnored(t *testing.T) {
	d := start(t)
	r := newRequest(d.a.redeem(d.code(d.a).Code))
	r.set("Cookie", "session=alice; client_secret=x")
	a := d.send(r)
	d.mustIssue(a)
	compareHeader(t, a) // compares Set-Cookie, which must be absent
}

func TestTG38_CORSIsForConfiguredOriginsWithoutCredentials(t *testing.T) {
	const origin = "https://spa.example"
	d := start(t, func(o *options) { o.CORSOrigins = []string{origin} })
	public := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
	code := d.code(public, pkce).Code
	good := with(public.redeem(code), "code_verifier", verifier)
	shared := []string{"Vary: Origin", "Access-Control-Allow-Origin: " + origin, "Access-Control-Expose-Headers: WWW-Authenticate, Retry-After, X-Request-Id"}

	preflight := newRequest(nil)
	preflight.method = "OPTIONS"
	preflight.set("Origin", origin)
	preflight.set("Access-Control-Request-Method", "POST")
	a := d.send(preflight)
	if a.status != 204 || a.body != "" {
		t.Errorf("preflight: %v", a)
	}
	a.header["Content-Length"] = []string{"0"} // a 204 has none
	compareHeader(t, a, append(shared, "-Content-Type", "Access-Control-Allow-Methods: POST",
		"Access-Control-Allow-Headers: Authorization, Content-Type, DPoP", "Access-Control-Max-Age: 600")...)

	r := newRequest(with(good, "code", "made-up"))
	r.set("Origin", origin)
	a = d.send(r)
	want(t, a, 400, "invalid_grant")
	compareHeader(t, a, shared...)

	r = newRequest(good)
	r.set("Origin", "https://evil.example")
	a = d.send(r)
	d.mustIssue(a) // only the browser keeps it from the script
	compareHeader(t, a, "Vary: Origin")
	preflight.set("Origin", "https://evil.example")
	if a := d.send(preflight); a.status != 405 {
		t.Errorf("preflight of a stranger: %d", a.status)
	}
}
