package conformance_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// exactly returns a response without its random parts.
func exactly(a answer) string {
	header := maps.Clone(a.header)
	delete(header, "Date")
	delete(header, "X-Request-Id")
	return fmt.Sprintf("%d\n%v\n%s", a.status, header, a.body)
}

// endings returns the ways in which a valid access token can end; each function applies
// one to a new grant of c.
func (d *deployment) endings() map[string]func(c oauthClient, code issuer.IssuedCode, pair tokens) {
	cut := func(choose func(oauthClient) store.Cutoff) func(oauthClient, issuer.IssuedCode, tokens) {
		return func(c oauthClient, _ issuer.IssuedCode, _ tokens) { d.cutOff(choose(c)) }
	}
	state := func(s store.ClientState) func(oauthClient, issuer.IssuedCode, tokens) {
		return func(c oauthClient, _ issuer.IssuedCode, _ tokens) { d.change(c, func(c *store.Client) { c.State = s }) }
	}
	return map[string]func(oauthClient, issuer.IssuedCode, tokens){
		"access token revoked":  func(c oauthClient, _ issuer.IssuedCode, pair tokens) { d.revoke(c, pair.AccessToken) },
		"refresh token revoked": func(c oauthClient, _ issuer.IssuedCode, pair tokens) { d.revoke(c, pair.RefreshToken) },
		"code replayed":         func(c oauthClient, code issuer.IssuedCode, _ tokens) { d.post(c.redeem(code.Code)) },
		"refresh token replayed": func(c oauthClient, _ issuer.IssuedCode, pair tokens) {
			d.alive(c, d.alive(c, pair.RefreshToken).RefreshToken)
			d.post(c.refresh(pair.RefreshToken))
		},
		"revoked by an operator": func(_ oauthClient, code issuer.IssuedCode, _ tokens) {
			if err := storetest.Replace(d.t.Context(), d.sqlite, d.row(code.GrantID).Revoke(grant.ReasonOperator).Next); err != nil {
				d.t.Fatal(err)
			}
		},
		"subject cut off":          cut(func(c oauthClient) store.Cutoff { return store.Cutoff{Subject: c.ID + "'s user"} }),
		"client cut off":           cut(func(c oauthClient) store.Cutoff { return store.Cutoff{ClientID: c.ID} }),
		"both cut off":             cut(func(c oauthClient) store.Cutoff { return store.Cutoff{ClientID: c.ID, Subject: c.ID + "'s user"} }),
		"client disabled":          state(store.ClientDisabled),
		"client deleted":           state(store.ClientDeleted),
		"expired":                  func(oauthClient, issuer.IssuedCode, tokens) { d.step(301 * time.Second) },
		"expired, its row is gone": func(oauthClient, issuer.IssuedCode, tokens) { d.step(32 * 24 * time.Hour); d.sweep() },
	}
}

func (d *deployment) sweep() {
	d.t.Helper()
	if _, _, err := d.sqlite.Sweep(d.t.Context(), store.SweptGrants, "", grant.At(d.now()), 1000); err != nil {
		d.t.Fatal(err)
	}
}

// Whatever ended a token, the response is byte for byte the same as for a token that
// never existed.
func TestIN04_IN12_EveryDeadTokenHasTheSameAnswerOnTheNextCall(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	first := d.introspect(rs, "made-up")
	compareHeader(t, first)
	if first.status != http.StatusOK || first.body != inactive {
		t.Fatalf("a made-up token: %v", first)
	}
	same := func(name string, a answer) {
		t.Helper()
		if exactly(a) != exactly(first) {
			t.Errorf("%s:\n%s\nwant\n%s", name, exactly(a), exactly(first))
		}
	}
	for name, end := range d.endings() {
		for _, format := range []store.TokenFormat{store.TokenOpaque, store.TokenJWT} {
			c := d.client(client.Registration{Settings: store.Settings{TokenFormat: format}})
			code := d.code(c, func(a *issuer.Authorization) { a.Subject = c.ID + "'s user" })
			pair := d.mustIssue(d.post(c.redeem(code.Code)))
			bystander, _ := d.tokens(d.a)
			d.wantActive(rs, true, pair.AccessToken)
			end(c, code, pair)
			same(name+", "+string(format), d.introspect(rs, pair.AccessToken))
			if !strings.HasPrefix(name, "expired") {
				d.wantActive(rs, true, bystander.AccessToken)
			}
		}
	}
}

func TestIN04_WhatWasNeverIssuedHasTheSameAnswer(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	first := exactly(d.introspect(rs, "made-up"))
	pair, id := d.tokens(d.a)
	jwt, _ := d.tokens(d.jwtClient())
	g, now := d.row(id), grant.At(d.now())
	tok := keys.Token{GrantID: id, Generation: 1, IssuedAt: g.RotatedAt, ExpiresAt: grant.Instant(d.expiry(id) * 1000), Bits: 7}
	seal := func(ring *keys.Ring, realm string) string {
		t.Helper()
		text, err := ring.SealAccess(ring.Current(keys.MAC, now), realm, tok)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if seal(d.ring(), realm) != pair.AccessToken {
		t.Fatal("the invented tokens do not have the form of real ones")
	}
	list := map[string]string{
		"another realm's": seal(d.ring(), "/other"), "another deployment's": seal(foreignRing(t), realm),
		"a refresh token": pair.RefreshToken, "a code": d.code(d.a).Code,
		"half": pair.AccessToken[:60], "with something behind it": pair.AccessToken + "A", "with a space": " " + pair.AccessToken,
		"a prefix": keys.AccessPrefix, "dots": "..", "only dots": strings.Repeat(".", 100), "quotes": `"}{"active":true`, "a percent sign": "%00", "Unicode": "\u00fc\u20ac",
		"an injection": "' OR 1=1 --", "half a JWT": jwt.AccessToken[:len(jwt.AccessToken)/2], "a JWT without its signature": jwt.AccessToken[:strings.LastIndex(jwt.AccessToken, ".")+1],
	}
	for name, token := range list {
		if got := exactly(d.introspect(rs, token)); got != first {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, first)
		}
	}
	d.wantActive(rs, true, pair.AccessToken, jwt.AccessToken)
}

// Changing any character makes either kind of token invalid.
func TestIN04_AnAlteredTokenIsInactive(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	for _, c := range []oauthClient{d.a, d.jwtClient()} {
		pair, _ := d.tokens(c)
		text := pair.AccessToken
		for i := range text {
			other := "A"
			if text[i] == 'A' {
				other = "B"
			}
			if i%7 == 0 || i > len(text)-3 { // package keys tests the other positions
				d.wantActive(rs, false, text[:i]+other+text[i+1:])
			}
		}
		d.wantActive(rs, true, text)
	}
}

// A token is valid until its last millisecond.
func TestIN04_TK06_AnAccessTokenExpires(t *testing.T) {
	for name, skew := range map[string]time.Duration{"one clock": 0, "clocks that differ": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			d := start(t)
			rs := d.resourceServer()
			d.issuer.Policy.MaxSkew = skew
			for _, c := range []oauthClient{d.a, d.jwtClient()} {
				d.step(333 * time.Millisecond)
				pair, id := d.tokens(c)
				end := d.expiry(id)*1000 + skew.Milliseconds()
				d.step(time.UnixMilli(end - 1).Sub(d.now()))
				d.wantActive(rs, true, pair.AccessToken)
				d.step(time.Millisecond)
				d.wantActive(rs, false, pair.AccessToken)
			}
		})
	}
}

func TestIN12_AnEnabledClientsTokensAreAliveAgain(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	pair, _ := d.tokens(d.a)
	off := d.change(d.a, func(c *store.Client) { c.State = store.ClientDisabled })
	d.wantActive(rs, false, pair.AccessToken)
	d.change(off, func(c *store.Client) { c.State = store.ClientEnabled })
	d.wantActive(rs, true, pair.AccessToken)
}

func TestIN15_HugeAndStrangeTokensCostNothing(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	var reads atomic.Int32
	d.faulty.Before(func(op storetest.Method, _ grant.Grant) error {
		if op != storetest.Changes {
			reads.Add(1)
		}
		return nil
	})
	huge := base64.RawURLEncoding.EncodeToString(make([]byte, 7000))
	for name, c := range map[string]struct {
		token string
		want  string
	}{
		"1 MiB":                {strings.Repeat("a", 1<<20), errorBody("invalid_request", "request too large")},
		"longer than allowed":  {strings.Repeat("a", 8193), errorBody("invalid_request", "parameter too long")},
		"as long as allowed":   {strings.Repeat("a", 8192), inactive},
		"an access token's":    {(keys.AccessPrefix + huge)[:8192], inactive},
		"a refresh token's":    {(keys.RefreshPrefix + huge)[:8192], inactive},
		"a JWT's":              {"eyJ" + huge[:2000] + "." + huge[:3000] + "." + huge[:86], inactive},
		"with NUL":             {"mintage_at_\x00", errorBody("invalid_request", "malformed parameter value")},
		"with a line break":    {"mintage_at_\r\nX: y", errorBody("invalid_request", "malformed parameter value")},
		"no UTF-8":             {"\xff\xfe", errorBody("invalid_request", "malformed parameter value")},
		"script":               {"<script>alert(1)</script>", inactive},
		"what looks like JSON": {`{"active":true}`, inactive},
	} {
		if a := d.introspect(rs, c.token); a.body != c.want {
			t.Errorf("%s: %d, %d bytes, want %s", name, a.status, len(a.body), c.want)
		}
	}
	if n := reads.Load(); n != 0 {
		t.Errorf("%d operations on the store", n)
	}
}

func TestIN17_AStoreThatIsDownIsNoAnswer(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	pair, id := d.tokens(d.a)
	jwt, _ := d.tokens(d.jwtClient())
	down := func(c oauthClient, token string, lines ...string) {
		t.Helper()
		a := d.introspect(c, token, lines...)
		if a.status != http.StatusServiceUnavailable || a.body != errorBody("temporarily_unavailable", "try again later") {
			t.Errorf("got %d %s", a.status, a.body)
		}
		compareHeader(t, a, "Retry-After: N")
	}
	for _, cause := range []storetest.Hook{
		failing(storetest.Grant),
		func(op storetest.Method, _ grant.Grant) error {
			if op == storetest.Grant {
				return store.ErrBusy
			}
			return nil
		},
	} {
		d.faulty.Before(cause)
		down(rs, pair.AccessToken)
		down(rs, jwt.AccessToken)
		down(d.a, pair.RefreshToken)
		for _, accept := range []string{"application/token-introspection+jwt", "application/jwt"} {
			down(rs, pair.AccessToken, "Accept: "+accept)
		}
		// A token for which the store is not needed still gets its response.
		d.wantActive(rs, false, "made-up")
	}
	d.faulty.Heal()
	d.wantActive(rs, true, pair.AccessToken, jwt.AccessToken)

	// If the row of an authentic token is missing, the store has lost it, and may get it
	// back: the response is 503 and not "inactive".
	d.faulty.Before(func(op storetest.Method, g grant.Grant) error {
		if op == storetest.Grant && g.ID == id {
			return store.ErrNotFound
		}
		return nil
	})
	down(rs, pair.AccessToken)
	down(d.a, pair.RefreshToken)
	d.step(301 * time.Second)
	d.wantActive(rs, false, pair.AccessToken)
	d.step(31 * 24 * time.Hour)
	d.wantActive(d.a, false, pair.RefreshToken)
}

// A node without news may have missed a cutoff.
func TestIN17_ANodeWithoutNewsAnswersNothing(t *testing.T) {
	var uptime atomic.Int64
	d := start(t, func(o *options) {
		o.monotonic = func() time.Time { return time.UnixMilli(1_800_000_000_000).Add(time.Duration(uptime.Load())) }
	})
	rs := d.resourceServer()
	pair, _ := d.tokens(d.a)
	d.wantActive(rs, true, pair.AccessToken)
	d.faulty.Before(failing(storetest.Changes))
	uptime.Add(int64(6 * time.Second))
	want(t, d.introspect(rs, pair.AccessToken), 503, "temporarily_unavailable")
	want(t, d.introspect(d.a, pair.RefreshToken), 503, "temporarily_unavailable")
	want(t, d.revoke(d.a, pair.AccessToken), 503, "temporarily_unavailable")
	d.faulty.Heal()
	d.poll()
	d.wantActive(rs, true, pair.AccessToken)
}

// An access token never causes a write, and costs one read of one row.
func TestIN16_AnAccessTokenCostsOneReadAndNeverAWrite(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	opaque, _ := d.tokens(d.a)
	jwt, _ := d.tokens(d.jwtClient())
	dead, _ := d.tokens(d.a)
	d.revoke(d.a, dead.AccessToken)
	spent, _ := d.tokens(d.a)
	d.alive(d.a, d.alive(d.a, spent.RefreshToken).RefreshToken)
	for name, c := range map[string]struct {
		token string
		reads int
	}{
		"opaque": {opaque.AccessToken, 1}, "JWT": {jwt.AccessToken, 1}, "revoked": {dead.AccessToken, 1},
		"a replayed refresh token": {spent.RefreshToken, 0}, "made up": {"made-up", 0},
	} {
		for _, ask := range []func(){
			func() { d.introspect(rs, c.token) },
			func() { d.introspect(rs, c.token, "Accept: application/jwt") },
			func() { d.introspect(rs, c.token, "Accept: application/token-introspection+jwt") },
			func() { d.verify(c.token) },
			func() { d.tokenInfo(c.token) },
		} {
			d.faulty.Calls()
			ask()
			calls := d.faulty.Calls()
			delete(calls, storetest.Heartbeat)      // by the poll, each second
			delete(calls, storetest.Changes)        // by the poll, each second
			delete(calls, storetest.NoteSecretUses) // of the caller's secret, each minute
			reads := calls[storetest.Grant]
			delete(calls, storetest.Grant)
			if len(calls) != 0 || reads > 1 || reads < c.reads {
				t.Errorf("%s: %d reads, and %v", name, reads, calls)
			}
		}
	}
	// Introspecting a spent token is no replay.
	d.wantActive(d.a, true, spent.AccessToken)
	if err := errors.Join(d.faulty.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{{Realm: realm, Subject: "x", At: 1}}})); err != nil || d.faulty.Calls()[storetest.CommitCutoff] != 1 {
		t.Errorf("the counter does not count: %v", err)
	}
}
