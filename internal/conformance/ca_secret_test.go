package conformance_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
)

func TestCA22_GuessingIsThrottledAndLocksNobodyOut(t *testing.T) {
	limits := config.Default().Throttle
	d := start(t, func(o *options) { o.AddressFailures, o.ClientFailures = limits.AddressFailures, limits.ClientFailures })
	attacker := local()
	guess := newRequest(with(d.a.redeem(d.code(d.a).Code), "client_secret", "guess"))
	throttled := 0
	for i := range limits.ClientFailures + 20 {
		a := d.sendFrom(attacker, guess)
		switch {
		case a.status == 429:
			throttled++
			if throttled == 1 {
				compareHeader(t, a, "Retry-After: 60")
				if a.body != errorBody("temporarily_unavailable", "too many requests") {
					t.Errorf("got %v", a)
				}
			}
		case i < limits.ClientFailures:
			want(t, a, 400, "invalid_client")
		}
	}
	if throttled < 15 {
		t.Errorf("%d of the last 20 guesses were throttled", throttled)
	}
	// The right secret is throttled there, too: the attacker must not see which guess is
	// right.
	if a := d.sendFrom(attacker, newRequest(d.a.redeem(d.code(d.a).Code))); a.status != 429 {
		t.Errorf("the right secret from the attacker's address: %d", a.status)
	}
	// The owner has another address; other clients at the attacker's address are not
	// throttled.
	d.mustIssue(d.send(newRequest(d.a.redeem(d.code(d.a).Code))))
	d.mustIssue(d.sendFrom(attacker, newRequest(d.b.redeem(d.code(d.b).Code))))
}

func TestCA22_AnAddressThatTriesManyClientsIsThrottled(t *testing.T) {
	d := start(t, func(o *options) { o.AddressFailures, o.ClientFailures = 50, 10 })
	attacker := local()
	throttled := 0
	for i := range 100 {
		if d.sendFrom(attacker, newRequest(with(d.a.redeem("x"), "client_id", fmt.Sprint("client", i)))).status == 429 {
			throttled++
		}
	}
	if throttled < 45 || throttled > 50 {
		t.Errorf("%d of 100 were throttled, want the last 50", throttled)
	}
	d.mustIssue(d.post(d.a.redeem(d.code(d.a).Code)))
}

// If a proxy on this machine is not declared, all clients have one address. A client that
// guesses there must not throttle the others.
func TestCA22_BehindAnUndeclaredProxyNobodyIsThrottledForOthers(t *testing.T) {
	d := start(t, func(o *options) { o.PlainHTTP, o.AddressFailures, o.ClientFailures = true, 20, 10 })
	proxy := local()
	send := func(r *request) answer {
		r.set("X-Forwarded-For", "198.51.100.1")
		return d.sendFrom(proxy, r)
	}
	for i := range 50 {
		want(t, send(newRequest(with(d.a.redeem("x"), "client_id", fmt.Sprint("client", i)))), 400, "invalid_client")
	}
	d.mustIssue(send(newRequest(d.a.redeem(d.code(d.a).Code))))
	for range 10 {
		want(t, send(newRequest(with(d.b.redeem("x"), "client_secret", "guess"))), 400, "invalid_client")
	}
	d.mustIssue(send(newRequest(d.b.redeem(d.code(d.b).Code))))
	if n := strings.Count(d.log.String(), "trusted_proxies"); n != 1 {
		t.Errorf("the proxy is noticed %d times", n)
	}
}

func TestCA23_SecretsAreStoredHashedAndNeverShownAgain(t *testing.T) {
	d := start(t)
	imported := d.client(client.Registration{Secret: "an imported secret of somebody"})
	if s := imported.Secrets[0]; s.Digest != nil || !strings.HasPrefix(s.Slow, "$argon2id$") {
		t.Error("an imported secret is not under a slow hash")
	}
	d.mustIssue(d.post(imported.redeem(d.code(imported).Code)))
	stored, err := d.sqlite.Client(t.Context(), imported.ID)
	if err != nil || stored.Secrets[0].Slow != "" || len(stored.Secrets[0].Digest) < 32 {
		t.Errorf("it was not upgraded at its first use (%v)", err)
	}
	d.mustIssue(d.post(imported.redeem(d.code(imported).Code)))
	for _, s := range d.a.Secrets {
		if len(s.Digest) < 32 || strings.Contains(string(s.Digest), d.a.secret) {
			t.Error("a generated secret is not stored as a digest")
		}
	}
	if text := fmt.Sprintf("%v %+v %#v %s", oauth.Secret(d.a.secret), oauth.Secret(d.a.secret), oauth.Secret(d.a.secret), oauth.Secret(d.a.secret)); strings.Contains(text, d.a.secret) {
		t.Error("a secret prints itself")
	}
	d.searchFiles([]string{d.a.secret, d.b.secret, imported.secret})
}

func TestCA24_IssuedSecretsHave256Bits(t *testing.T) {
	d := start(t)
	seen := map[string]bool{}
	for range 200 {
		_, _, text, err := client.AddSecret(d.a.Client, d.ring(), grant.At(d.now()), 0)
		if err != nil {
			t.Fatal(err)
		}
		s := string(text)
		// 43 characters of an alphabet of 62 are 256 bits; the suites' estimate must be
		// at least 160.
		if len(s) != 43 || strings.ContainsFunc(s, func(r rune) bool {
			return !strings.ContainsRune("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", r)
		}) ||
			seen[s] || entropy(s) <= 160 {
			t.Fatalf("a secret of %d characters and %.0f bits", len(s), entropy(s))
		}
		seen[s] = true
	}
}

func TestCA25_AStrangeClientIDIsNeitherEchoedNorSplitsTheLog(t *testing.T) {
	d := start(t)
	for id, status := range map[string]int{
		"\u00fc\u2603": 400, "a\nlevel=ERROR": 400, "a\x1b[31m": 400, strings.Repeat("c", 300): 400, strings.Repeat("c", 64<<10): 413, `"}{"level":"ERROR"`: 400,
	} {
		a := d.post(with(d.a.redeem("x"), "client_id", id))
		if a.status != status || strings.Contains(a.body, id) {
			t.Errorf("%d bytes: %v", len(id), a)
		}
	}
	for line := range strings.Lines(d.log.String()) {
		if !strings.HasPrefix(line, `{"time":`) || strings.Contains(line, `"level":"ERROR"`) || len(line) > 1000 {
			t.Errorf("log line of %d bytes: %.60s", len(line), line)
		}
	}
}

// An unknown token belongs to no grant: the log must not suggest a grant id.
func TestCA25_TheLogNamesNoGrantOfAnUnknownToken(t *testing.T) {
	d := start(t)
	tokens := d.mustIssue(d.post(d.a.redeem(d.code(d.a).Code)))
	for _, c := range []struct {
		token string
		named bool
	}{{"unknown", false}, {tokens.AccessToken, false}, {tokens.RefreshToken, true}} {
		d.log.Reset()
		a := d.post(d.a.refresh(c.token))
		if log := d.log.String(); (a.status == 200) != c.named || !strings.Contains(log, `"grant_type":"refresh_token"`) || strings.Contains(log, `"grant_id"`) != c.named {
			t.Errorf("%v: %s", a, log)
		}
	}
}

// The three cases do the same work on purpose. The medians of 10,000 interleaved samples
// without the network may differ by a factor of two, which allows for a busy machine and
// the race detector. An early return for unknown clients would make it five or more, a
// slow hash thousands.
func TestCA26_UnknownClientsAndWrongSecretsTakeTheSameTime(t *testing.T) {
	d := start(t, alone)
	cases := []oauth.Credentials{
		{ClientID: "nobody-with-24-characters", Secret: oauth.Secret(d.a.secret[1:] + "x"), Method: oauth.AuthPost},
		{ClientID: d.a.ID, Secret: oauth.Secret(d.a.secret[1:] + "x"), Method: oauth.AuthPost},
		{ClientID: d.a.ID, Secret: oauth.Secret(d.a.secret), Method: oauth.AuthPost},
	}
	const n = 10_000
	samples := make([][]time.Duration, len(cases))
	for i := range n {
		for k := range cases {
			k = (k + i) % len(cases)
			began := time.Now()
			_, err := d.clients.Authenticate(t.Context(), cases[k], netip.Addr{})
			samples[k] = append(samples[k], time.Since(began))
			if (err == nil) != (k == 2) || err != nil && !errors.Is(err, client.ErrClient) {
				t.Fatalf("case %d: %v", k, err)
			}
		}
	}
	var medians []time.Duration
	for _, s := range samples {
		slices.Sort(s)
		medians = append(medians, s[n/2])
	}
	if low, high := slices.Min(medians), slices.Max(medians); high > low*2 {
		t.Errorf("medians of unknown, wrong and right: %v", medians)
	}
}
