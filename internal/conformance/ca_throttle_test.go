package conformance_test

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

// A thousand wrong secrets for one client are throttled by the address from which they
// come. The owner, at another address, is never throttled.
func TestCA22_AThousandWrongSecretsLockNoOwnerOut(t *testing.T) {
	limits := config.Default().Throttle
	declared := func(o *options) {
		o.AddressFailures, o.ClientFailures = limits.AddressFailures, limits.ClientFailures
		o.PlainHTTP, o.TrustedProxies = true, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	d := start(t, declared)
	proxy := local()
	through := func(address string, r *request) answer {
		r.header = append(r.header, "X-Forwarded-Proto: https", "X-Forwarded-For: "+address)
		return d.sendFrom(proxy, r)
	}
	pair := through("198.51.100.7", newRequest(d.a.redeem(d.code(d.a).Code))).tokens
	guess := with(d.a.refresh(pair.RefreshToken), "client_secret", "guess")
	owner := func(when string) {
		t.Helper()
		a := through("198.51.100.7", newRequest(d.a.refresh(pair.RefreshToken)))
		if a.status != 200 {
			t.Fatalf("%s, the owner is answered %v", when, a)
		}
		pair = a.tokens
	}
	statuses := map[int]int{}
	for n := range 1000 {
		statuses[through("203.0.113.9", newRequest(guess)).status]++
		if n%200 == 0 {
			owner(fmt.Sprintf("after %d guesses through the same proxy", n))
		}
	}
	if n := statuses[400]; n < limits.ClientFailures || n > limits.ClientFailures+30 || statuses[429] != 1000-n {
		t.Errorf("a thousand guesses from one address: %v", statuses)
	}
	// Each of many addresses sends a few guesses: there is no limit for the client
	// itself.
	for n := range 300 {
		want(t, through(fmt.Sprintf("203.0.%d.%d", 114+n/250, 1+n%250), newRequest(guess)), 400, "invalid_client")
	}
	owner("after guesses from everywhere")
}

// Each guess at an imported secret costs a slow hash. The server computes one at a time,
// with at most two waiting per client. Further guesses are throttled; other clients are
// not affected.
func TestCA22_GuessesOfImportedSecretsMakeBoundedWork(t *testing.T) {
	d := start(t, func(o *options) { o.AddressFailures, o.ClientFailures = 600, 30 })
	imported := d.client(client.Registration{Secret: "an imported secret of somebody"})
	pair, _ := d.tokens(d.a)
	var guessing sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	var conns []net.Conn
	for range 64 {
		conns = append(conns, d.dial(local()))
	}
	for i, conn := range conns {
		guessing.Go(func() {
			defer conn.Close()
			a, err := converse(conn, newRequest(with(imported.redeem("x"), "client_secret", fmt.Sprint("guess ", i))).text(), "POST")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			statuses[a.status]++
		})
	}
	began := time.Now()
	a := d.post(d.a.refresh(pair.RefreshToken))
	took := time.Since(began)
	guessing.Wait()
	if a.status != 200 || took > 20*time.Second {
		t.Errorf("another client waits for %s beside them, and is answered %v", took, a)
	}
	if statuses[400] == 0 || statuses[503] == 0 || statuses[400]+statuses[503] != 64 {
		t.Errorf("64 guesses at once are answered %v", statuses)
	}
	d.mustIssue(d.post(imported.redeem(d.code(imported).Code)))
}

// Request limits are for authenticated clients that send too many requests. Retry-After
// is accurate: a client that waits so long is served.
func TestCA22_RequestsOfAClientAreLimitedOnceItHasProvenToBeOne(t *testing.T) {
	d := start(t, func(o *options) { o.ClientRequests = 6 })
	stranger := with(d.a.redeem("x"), "client_secret", "guess")
	for range 20 {
		want(t, d.send(newRequest(stranger)), 400, "invalid_client")
	}
	pair, _ := d.tokens(d.a) // one
	for n := range 5 {
		a := d.send(newRequest(d.a.refresh(pair.RefreshToken)))
		if a.status != 200 {
			t.Fatalf("request %d: %v", n+2, a)
		}
		pair = a.tokens
	}
	a := d.send(newRequest(d.a.refresh(pair.RefreshToken)))
	if a.status != 429 || a.body != errorBody("temporarily_unavailable", "too many requests") {
		t.Errorf("the seventh request: %v", a)
	}
	if after := a.header["Retry-After"]; len(after) != 1 || after[0] != "10" && after[0] != "9" {
		t.Errorf("Retry-After %q, want a sixth of a minute", after)
	}
	d.mustIssue(d.send(newRequest(d.b.redeem(d.code(d.b).Code))))

	// A public client's id proves nothing: the limit counts by address, so that one
	// address cannot use up the limit of others.
	public := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
	attacker := local()
	for n := range 8 {
		status := d.sendFrom(attacker, newRequest(public.refresh("x"))).status
		if want := map[bool]int{true: 400, false: 429}[n < 6]; status != want {
			t.Errorf("request %d of a public client: %d, want %d", n, status, want)
		}
	}
	want(t, d.send(newRequest(public.refresh("x"))), 400, "invalid_grant")
}

func TestCA22_RequestsOfAnAddressAreLimited(t *testing.T) {
	d := start(t, func(o *options) { o.AddressRequests = 6 })
	crowd := local()
	for n := range 9 {
		a := d.sendFrom(crowd, newRequest(with(d.a.redeem("x"), "client_id", fmt.Sprint("client ", n))))
		if want := map[bool]int{true: 400, false: 429}[n < 6]; a.status != want {
			t.Errorf("request %d: %v", n, a)
		}
		if n >= 6 {
			if after := a.header["Retry-After"]; len(after) != 1 || after[0] != "10" && after[0] != "9" {
				t.Errorf("Retry-After %q", after)
			}
		}
	}
	d.mustIssue(d.send(newRequest(d.a.redeem(d.code(d.a).Code))))
	// The limit does not apply to documents and verification.
	r := newRequest(nil)
	r.method, r.target = "GET", "/oauth2/jwks"
	if a := d.sendFrom(crowd, r); a.status != 200 {
		t.Errorf("the keys: %v", a)
	}
}

// golang.org/x/oauth2 first sends the Basic header with an empty secret. For a public
// client this is neither a failure nor a guess.
func TestCA19_AnEmptyBasicSecretIsAPublicClientAndNoFailure(t *testing.T) {
	d := start(t, func(o *options) { o.AddressFailures, o.ClientFailures = 2, 1 })
	public := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
	owner := local()
	basic := func(c oauthClient, secret string, form url.Values) answer {
		r := newRequest(with(form, "client_id", "", "client_secret", ""))
		r.set("Authorization", basicHeader(c.ID, secret))
		return d.sendFrom(owner, r)
	}
	code := d.code(public, func(a *issuer.Authorization) { a.Challenge = challenge })
	pair := basic(public, "", public.challenged(code.Code))
	d.mustIssue(pair)
	for range 40 {
		pair = basic(public, "", public.refresh(pair.tokens.RefreshToken))
		if pair.status != 200 {
			t.Fatalf("a public client with an empty secret: %v", pair)
		}
	}
	// An empty secret of a confidential client, and any secret of a public client, are
	// still failures.
	want(t, basic(public, "x", public.refresh(pair.tokens.RefreshToken)), 401, "invalid_client")
	want(t, basic(public, "", public.refresh(pair.tokens.RefreshToken)), 429, "temporarily_unavailable")
	want(t, basic(d.a, "", d.a.refresh("x")), 401, "invalid_client")
}

// Behind an undeclared proxy on this machine, all clients have one address: a client that
// fails there does not use up the owner's limit.
func TestCA22_AnUndeclaredProxyMakesNoStrangerOfTheOwner(t *testing.T) {
	d := start(t, func(o *options) {
		o.PlainHTTP, o.AddressFailures, o.ClientFailures, o.ClientRequests = true, 60, 30, 200
	})
	public := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
	pair, _ := d.tokens(d.a)
	proxy := local()
	for range 61 {
		want(t, d.sendFrom(proxy, newRequest(with(d.a.refresh("x"), "client_secret", "guess"))), 400, "invalid_client")
	}
	d.mustIssue(d.sendFrom(proxy, newRequest(d.a.refresh(pair.RefreshToken))))
	// Nobody can use up the limit of a public client either, whose id is not secret.
	for range 201 {
		want(t, d.sendFrom(proxy, newRequest(public.refresh("x"))), 400, "invalid_grant")
	}
}

// A /64 counts as one address. Its neighbours in the /48 may have valid credentials:
// guesses of the /64 do not count against them.
func TestCA22_GuessesInASiteLockNoNeighbourOut(t *testing.T) {
	d := start(t, func(o *options) {
		o.AddressFailures, o.PlainHTTP, o.TrustedProxies = 10, true, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	proxy := local()
	from := func(address string, form url.Values) answer {
		r := newRequest(form)
		r.header = append(r.header, "X-Forwarded-Proto: https", "X-Forwarded-For: "+address)
		return d.sendFrom(proxy, r)
	}
	guess := with(d.a.refresh("x"), "client_secret", "guess")
	for n := range 60 {
		want(t, from(fmt.Sprintf("2001:db8:1:%x::1", n*257), guess), 400, "invalid_client")
	}
	statuses := map[int]int{}
	for n := range 20 {
		statuses[from(fmt.Sprintf("2001:db8:1:5::%x", n+1), guess).status]++
	}
	if n := statuses[400]; n < 10 || n > 12 || n+statuses[429] != 20 {
		t.Errorf("20 guesses from one /64: %v", statuses)
	}
	d.mustIssue(from("2001:db8:1:6::1", d.a.redeem(d.code(d.a).Code)))
}
