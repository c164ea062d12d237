package conformance_test

import (
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

func TestTR01_ARefreshRotatesThePair(t *testing.T) {
	d := start(t)
	pair, id := d.tokens(d.a)
	seen := map[string]bool{pair.AccessToken: true, pair.RefreshToken: true}
	for n := range uint32(5) {
		a := d.post(d.a.refresh(pair.RefreshToken))
		pair = d.mustIssue(a)
		compareHeader(t, a)
		if seen[pair.AccessToken] || seen[pair.RefreshToken] {
			t.Error("a token came back")
		}
		seen[pair.AccessToken], seen[pair.RefreshToken] = true, true
		if g := d.row(id); g.Generation != n+2 {
			t.Errorf("generation %d after %d refreshes", g.Generation, n+1)
		}
	}
}

func TestTR02_TheRefreshTokenIsRequired(t *testing.T) {
	d := start(t)
	if a := d.post(d.a.refresh("")); a.body != errorBody("invalid_request", "refresh_token missing") {
		t.Errorf("got %v", a)
	}
}

func TestTR03_AnAlteredTokenIsNoToken(t *testing.T) {
	d := start(t, strict)
	pair, id := d.tokens(d.a)
	text := pair.RefreshToken
	refused := func(s string) {
		t.Helper()
		if a := d.post(d.a.refresh(s)); a.body != errorBody("invalid_grant", "grant is invalid") {
			t.Errorf("a token of %d characters: %v", len(s), a)
		}
	}
	for i := range text { // every character matters, including the last two bits
		for _, other := range []string{"A", "B"} {
			if text[i:i+1] != other {
				refused(text[:i] + other + text[i+1:])
			}
		}
	}
	for _, s := range []string{"x", "mintage_rt_", text[1:], text[:len(text)-1], text + "A", text + "=", " " + text, text + " ", strings.ToUpper(text)} {
		refused(s)
	}
	// A token whose MAC was made with a key that is not the server's.
	g := d.row(id)
	other := foreignRing(t)
	forged, err := other.SealRefresh(other.Current(keys.MAC, g.RotatedAt), realm, keys.Token{GrantID: id, Generation: 1, IssuedAt: g.RotatedAt, ExpiresAt: g.ExpiresAt})
	if err != nil {
		t.Fatal(err)
	}
	refused(forged)
	d.alive(d.a, text)
}

// compat.invalid_request_for_dead_refresh is for clients of OpenAM 13. Expired, spent and
// other clients' tokens keep the usual code.
func TestTR03_TheCompatibilitySwitchChangesTheCodeForUnknownTokens(t *testing.T) {
	d := start(t, strict, func(o *options) { o.InvalidRequestForDeadRefresh = true })
	if a := d.post(d.a.refresh("unknown")); a.status != 400 || a.body != errorBody("invalid_request", "grant is invalid") {
		t.Errorf("got %v", a)
	}
	want(t, d.post(d.a.redeem("unknown")), 400, "invalid_grant")
	pair, _ := d.tokens(d.a)
	want(t, d.post(d.b.refresh(pair.RefreshToken)), 400, "invalid_grant")
	next := d.alive(d.a, pair.RefreshToken)
	want(t, d.post(d.a.refresh(pair.RefreshToken)), 400, "invalid_grant")
	want(t, d.post(d.a.refresh(next.RefreshToken)), 400, "invalid_grant")
}

// foreignRing returns the key ring of another deployment.
func foreignRing(t *testing.T) *keys.Ring {
	t.Helper()
	kek, err := keys.ParseKEK(keys.NewKEKText())
	if err != nil {
		t.Fatal(err)
	}
	var records []keys.Stored
	for _, p := range append(slices.Clone(keys.Purposes), keys.ES256) {
		r, err := keys.New(kek, p, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	ring, err := keys.Open(kek, records)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func TestTR04_AnotherClientCannotUseAToken(t *testing.T) {
	d := start(t)
	pair, id := d.tokens(d.b)
	want(t, d.post(d.a.refresh(pair.RefreshToken)), 400, "invalid_grant")
	basic := newRequest(d.a.refresh(pair.RefreshToken))
	basic.basic(d.a.ID, d.a.secret)
	want(t, d.send(basic), 400, "invalid_grant")
	if g := d.row(id); g.Version != 1 {
		t.Errorf("the grant was changed: version %d", g.Version)
	}
	d.alive(d.b, pair.RefreshToken)
}

func TestTR05_ARefreshNeedsTheClientsAuthentication(t *testing.T) {
	d := start(t, strict)
	pair, _ := d.tokens(d.a)
	good := d.a.refresh(pair.RefreshToken)
	want(t, d.post(with(good, "client_secret", "")), 400, "invalid_client")
	want(t, d.post(with(good, "client_secret", "", "client_id", "")), 400, "invalid_request")
	want(t, d.post(with(good, "client_secret", "wrong")), 400, "invalid_client")
	d.alive(d.a, pair.RefreshToken)
}

func TestTR06_TR07_ASpentTokenRevokesTheFamily(t *testing.T) {
	d := start(t, strict)
	for _, later := range []time.Duration{0, 2500 * time.Millisecond, time.Hour, 40 * 24 * time.Hour} {
		pair, id := d.tokens(d.a)
		next := d.alive(d.a, pair.RefreshToken)
		d.step(later)
		want(t, d.post(d.a.refresh(pair.RefreshToken)), 400, "invalid_grant")
		d.dead(d.a, next.RefreshToken, id, grant.ReasonRefreshReplayed)
	}
}

func TestTR08_ASpentTokenEndsTheFamilysAccessTokens(t *testing.T) {
	d := start(t, strict)
	rs := d.resourceServer()
	for _, c := range []oauthClient{d.a, d.jwtClient()} {
		for _, later := range []time.Duration{0, time.Minute} {
			first, _ := d.tokens(c)
			second := d.alive(c, first.RefreshToken)
			third := d.alive(c, second.RefreshToken)
			all := []string{first.AccessToken, second.AccessToken, third.AccessToken}
			d.step(later)
			// No other client can do that.
			want(t, d.post(d.b.refresh(first.RefreshToken)), 400, "invalid_grant")
			d.wantActive(rs, true, all...)
			want(t, d.post(c.refresh(first.RefreshToken)), 400, "invalid_grant")
			d.wantActive(rs, false, all...)
			for _, token := range all {
				if a := d.verify(token); a.status != 401 {
					t.Errorf("at a resource: %v", a)
				}
			}
		}
	}
}

func TestTR09_ATokenOfManyGenerationsAgoRevokesTheFamily(t *testing.T) {
	for name, choose := range map[string]func(*options){"without a window": strict, "inside the window": func(*options) {}} {
		t.Run(name, func(t *testing.T) {
			d := start(t, choose)
			for _, back := range []int{2, 3, 10} {
				pair, id := d.tokens(d.a)
				all := []tokens{pair}
				for range back {
					pair = d.alive(d.a, pair.RefreshToken)
					all = append(all, pair)
				}
				want(t, d.post(d.a.refresh(all[0].RefreshToken)), 400, "invalid_grant")
				d.dead(d.a, pair.RefreshToken, id, grant.ReasonRefreshReplayed)
			}
		})
	}
}

func TestTR10_OnlyTheOwnerCanRevokeByReplay(t *testing.T) {
	d := start(t, strict)
	pair, id := d.tokens(d.a)
	next := d.alive(d.a, pair.RefreshToken)
	spent := d.a.refresh(pair.RefreshToken)
	want(t, d.post(d.b.refresh(pair.RefreshToken)), 400, "invalid_grant")
	want(t, d.post(with(spent, "client_secret", "wrong")), 400, "invalid_client")
	want(t, d.post(with(spent, "client_secret", "")), 400, "invalid_client")
	d.alive(d.a, next.RefreshToken)
	want(t, d.post(spent), 400, "invalid_grant")
	if g := d.row(id); g.State != grant.Revoked {
		t.Errorf("the owner's own replay: %v", g.State)
	}
}

func TestTR14_TR15_WithoutRotationTheTokenStays(t *testing.T) {
	d := start(t, strict)
	c := d.client(client.Registration{Settings: store.Settings{NoRotation: true}})
	pair, id := d.tokens(c)
	end := d.row(id)
	for range 3 {
		d.step(30 * time.Second)
		next := d.alive(c, pair.RefreshToken)
		if next.RefreshToken != pair.RefreshToken || next.AccessToken == pair.AccessToken {
			t.Error("the refresh token changed, or the access token did not")
		}
		pair = next
	}
	if g := d.row(id); g != end {
		t.Error("a refresh without rotation wrote to the store, or the lifetime slides")
	}
	d.step(31*24*time.Hour - 90*time.Second)
	want(t, d.post(c.refresh(pair.RefreshToken)), 400, "invalid_grant")
}

func TestTR16_AWiderScopeIsRefusedAndCostsNothing(t *testing.T) {
	d := start(t, strict)
	narrow := d.code(d.a, func(a *issuer.Authorization) { a.Scope = "a b" })
	pair := d.mustIssue(d.post(d.a.redeem(narrow.Code)))
	for _, scope := range []string{"a b c", "c", "a b z", "A", "a,b", `a"b`, "a\\b", "a b \u00fc"} {
		want(t, d.post(with(d.a.refresh(pair.RefreshToken), "scope", scope)), 400, "invalid_scope")
	}
	if g := d.row(narrow.GrantID); g.Version != 1 {
		t.Errorf("the grant was changed: version %d", g.Version)
	}
	d.alive(d.a, pair.RefreshToken)
}

func TestTR17_ANarrowerScopeNarrowsTheAccessTokenAlone(t *testing.T) {
	d := start(t)
	pair, id := d.tokens(d.a)
	pair = d.mustIssue(d.post(with(d.a.refresh(pair.RefreshToken), "scope", "b")))
	if pair.Scope != "b" {
		t.Errorf("asked for b, got %q", pair.Scope)
	}
	tok, err := d.ring().OpenAccess(realm, pair.AccessToken)
	if g := d.row(id); err != nil || g.Scope.Pick(tok.Bits) != "b" || g.Scope != "a b c" {
		t.Errorf("the access token is good for %q of %q (%v)", g.Scope.Pick(tok.Bits), g.Scope, err)
	}
	if pair = d.alive(d.a, pair.RefreshToken); pair.Scope != "a b c" {
		t.Errorf("the refresh token was narrowed to %q", pair.Scope)
	}
}

func TestTR18_TR19_TheWholeScopeInAnySpelling(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	for _, scope := range []string{"a b c", "c b a", "a a b c b", " a  b c ", ""} {
		form := d.a.refresh(pair.RefreshToken)
		form["scope"] = []string{scope}
		pair = d.mustIssue(d.post(form))
		if pair.Scope != "a b c" {
			t.Errorf("scope=%q: %q", scope, pair.Scope)
		}
	}
}

func TestTR20_AScopeThatTheClientLostIsNotGiven(t *testing.T) {
	d := start(t)
	pair, _ := d.tokens(d.a)
	less := d.change(d.a, func(c *store.Client) { c.Scope = "a c" })
	pair = d.alive(less, pair.RefreshToken)
	if pair.Scope != "a c" {
		t.Errorf("got %q", pair.Scope)
	}
	want(t, d.post(with(less.refresh(pair.RefreshToken), "scope", "b")), 400, "invalid_scope")
	more := d.change(less, func(c *store.Client) { c.Scope = "a b c d" })
	if pair = d.alive(more, pair.RefreshToken); pair.Scope != "a b c" {
		t.Errorf("got %q", pair.Scope)
	}
}

func TestTR22_TK06_ARefreshTokenLivesThirtyOneDaysFromItsOwnIssue(t *testing.T) {
	const life = 31 * 24 * time.Hour
	d := start(t, strict)
	pair, id := d.tokens(d.a)
	d.step(life - time.Second)
	pair = d.alive(d.a, pair.RefreshToken) // each refresh extends the lifetime
	d.step(life - time.Second)
	pair = d.alive(d.a, pair.RefreshToken)
	d.step(life)
	want(t, d.post(d.a.refresh(pair.RefreshToken)), 400, "invalid_grant")
	d.step(time.Second)
	want(t, d.post(d.a.refresh(pair.RefreshToken)), 400, "invalid_grant")
	if g := d.row(id); g.State != grant.Active || g.Generation != 3 {
		t.Errorf("expiry changed the row: generation %d, %v", g.Generation, g.State)
	}
}

func TestTR23_ExpiresInIsWhatIsLeft(t *testing.T) {
	d := start(t)
	for _, offset := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, 998 * time.Millisecond} {
		d.step(offset)
		pair, _ := d.tokens(d.a)
		next := d.alive(d.a, pair.RefreshToken)
		if pair.ExpiresIn != "300" || next.ExpiresIn != "300" {
			t.Errorf("fresh tokens: %s and %s", pair.ExpiresIn, next.ExpiresIn)
		}
		tok, err := d.ring().OpenAccess(realm, next.AccessToken)
		if left := tok.ExpiresAt.Time().Sub(d.now()); err != nil || left < 300*time.Second || left > 301*time.Second {
			t.Errorf("the access token lives %s (%v)", left, err)
		}
		d.step(100 * time.Second)
		if again := d.alive(d.a, pair.RefreshToken); again.AccessToken != next.AccessToken || again.ExpiresIn != "200" {
			t.Errorf("a repeat after 100 s reads %s", again.ExpiresIn)
		}
	}
}

func TestTR24_AClientThatLostTheAnswerGetsTheSamePairAgain(t *testing.T) {
	d := start(t)
	pair, id := d.tokens(d.a)
	committed, cut := make(chan struct{}), make(chan struct{})
	d.faulty.After(func(op storetest.Method, _ grant.Grant) error {
		if op == storetest.UpdateGrant {
			close(committed)
			<-cut
		}
		return nil
	})
	conn := d.dial(local())
	if _, err := io.WriteString(conn, newRequest(d.a.refresh(pair.RefreshToken)).text()); err != nil {
		t.Fatal(err)
	}
	<-committed
	conn.Close()
	close(cut)
	d.faulty.Heal()
	first := d.alive(d.a, pair.RefreshToken)
	second := d.alive(d.a, pair.RefreshToken)
	if first != second || d.row(id).Generation != 2 {
		t.Error("the repeats are not one pair")
	}
	d.alive(d.a, first.RefreshToken)
	if !strings.Contains(d.log.String(), "same pair answered") {
		t.Error("the repeat is not logged")
	}
	// The successor was used: the old token is now a replay.
	want(t, d.post(d.a.refresh(pair.RefreshToken)), 400, "invalid_grant")
	if g := d.row(id); g.State != grant.Revoked {
		t.Errorf("grant is %v", g.State)
	}
}

func TestTR26_WhatEndsTheAuthorizationEndsTheRefreshing(t *testing.T) {
	d := start(t)
	for name, c := range map[string]store.Cutoff{"user": {Subject: "alice"}, "client": {ClientID: d.a.ID}, "consent": {Subject: "alice", ClientID: d.a.ID}} {
		pair, _ := d.tokens(d.a)
		d.step(time.Second)
		d.cutOff(c)
		if a := d.post(d.a.refresh(pair.RefreshToken)); a.Error != "invalid_grant" {
			t.Errorf("%s: %v", name, a)
		}
		d.step(time.Second)
	}
	pair, _ := d.tokens(d.a)
	d.change(d.a, func(c *store.Client) { c.State = store.ClientDeleted })
	want(t, d.post(d.a.refresh(pair.RefreshToken)), 400, "invalid_client")
}

func TestTR29_ParametersOfTheOtherGrantAreIgnored(t *testing.T) {
	d := start(t)
	pair, id := d.tokens(d.a)
	code := d.code(d.a)
	extra := url.Values{"redirect_uri": {"https://evil.example/"}, "code": {code.Code}, "code_verifier": {verifier}}
	for name, value := range extra {
		form := d.a.refresh(pair.RefreshToken)
		form[name] = value
		pair = d.mustIssue(d.post(form))
	}
	if g := d.row(id); g.Generation != 4 {
		t.Errorf("generation %d", g.Generation)
	}
	d.mustIssue(d.post(d.a.redeem(code.Code)))
}
