package conformance_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

func TestTC01_TC05_CodeAndRedirectURIAreRequired(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	for name, description := range map[string]string{"code": "code missing", "redirect_uri": "redirect_uri missing"} {
		a := d.post(with(good, name, ""))
		if a.status != 400 || a.body != errorBody("invalid_request", description) {
			t.Errorf("without %s: %v", name, a)
		}
	}
	d.mustIssue(d.post(good))
}

func TestTC02_TC29_AnAlteredCodeIsNoCode(t *testing.T) {
	d := start(t)
	code := d.code(d.a).Code
	refused := func(text string) {
		t.Helper()
		if a := d.post(d.a.redeem(text)); a.body != errorBody("invalid_grant", "grant is invalid") {
			t.Errorf("a code of %d characters: %v", len(text), a)
		}
	}
	for i := range code { // every character matters
		other := "A"
		if code[i] == 'A' {
			other = "B"
		}
		refused(code[:i] + other + code[i+1:])
	}
	for _, text := range []string{
		"x", code[1:], code[:len(code)-1], code + "A", code + "=", code + "==", " " + code, code + " ", strings.ToUpper(code),
		strings.ToLower(code), strings.ReplaceAll(code, "_", "-"), code + code,
	} {
		refused(text)
	}
	d.mustIssue(d.post(d.a.redeem(code)))
}

func TestTC03_TK06_ACodeLivesSixtySeconds(t *testing.T) {
	d := start(t)
	in, out := d.code(d.a), d.code(d.a)
	d.step(59_999 * time.Millisecond)
	d.mustIssue(d.post(d.a.redeem(in.Code)))
	d.step(time.Millisecond)
	want(t, d.post(d.a.redeem(out.Code)), 400, "invalid_grant")
	d.step(2 * time.Second)
	want(t, d.post(d.a.redeem(out.Code)), 400, "invalid_grant")
}

func TestTC04_AnotherClientCannotRedeemACode(t *testing.T) {
	d := start(t)
	code := d.code(d.a)
	want(t, d.post(d.b.redeem(code.Code)), 400, "invalid_grant")
	basic := newRequest(d.b.redeem(code.Code))
	basic.basic(d.b.ID, d.b.secret)
	want(t, d.send(basic), 400, "invalid_grant")
	d.mustIssue(d.post(d.a.redeem(code.Code)))
	if g := d.row(code.GrantID); g.State != grant.Active {
		t.Errorf("grant is %v", g.State)
	}
}

func TestTC06_TC07_TheRedirectURIMustBeTheSameBytes(t *testing.T) {
	d := start(t)
	code := d.code(d.a, func(a *issuer.Authorization) { a.RedirectURI = otherRedirect }).Code
	good := with(d.a.redeem(code), "redirect_uri", otherRedirect)
	for _, uri := range []string{
		redirect, otherRedirect + "&computer_says=no", "https://client.example/other", "https://client.example/other?b=2&a=1",
		"https://CLIENT.example/other?a=1&b=2", "https://client.example:443/other?a=1&b=2", "https://client.example/./other?a=1&b=2",
		"https://client.example/%6fther?a=1&b=2", otherRedirect + "#", otherRedirect + " ", "http://client.example/other?a=1&b=2",
	} {
		want(t, d.post(with(good, "redirect_uri", uri)), 400, "invalid_grant")
	}
	d.mustIssue(d.post(good))

	// A native client's port is free in the authorization request, but the redemption
	// must name the same one.
	native := d.client(client.Registration{Settings: store.Settings{Native: true, Auth: store.AuthNone, RedirectURIs: []string{"http://127.0.0.1/cb"}}})
	code = d.code(native, pkce, func(a *issuer.Authorization) { a.RedirectURI = "http://127.0.0.1:49152/cb" }).Code
	good = with(native.redeem(code), "redirect_uri", "http://127.0.0.1:49152/cb", "code_verifier", verifier)
	want(t, d.post(with(good, "redirect_uri", "http://127.0.0.1/cb")), 400, "invalid_grant")
	want(t, d.post(with(good, "redirect_uri", "http://127.0.0.1:49153/cb")), 400, "invalid_grant")
	d.mustIssue(d.post(good))
}

// nothingConsumed sends the spoiled forms, requires invalid_grant, and then redeems the
// code.
func nothingConsumed(t *testing.T, d *deployment, good url.Values, spoiled ...url.Values) {
	t.Helper()
	for _, form := range spoiled {
		want(t, d.post(form), 400, "invalid_grant")
	}
	d.mustIssue(d.post(good))
}

func TestTC08_AMissingVerifierIsInvalidGrant(t *testing.T) {
	d := start(t)
	good := with(d.a.redeem(d.code(d.a, pkce).Code), "code_verifier", verifier)
	empty := with(good, "code_verifier", "")
	empty["code_verifier"] = []string{""}
	nothingConsumed(t, d, good, with(good, "code_verifier", ""), empty)
}

func TestTC09_AWrongVerifierIsInvalidGrantAndCostsNothing(t *testing.T) {
	d := start(t)
	good := with(d.a.redeem(d.code(d.a, pkce).Code), "code_verifier", verifier)
	nothingConsumed(t, d, good,
		with(good, "code_verifier", strings.Repeat("w", 43)), with(good, "code_verifier", verifier[:42]+"X"), with(good, "code_verifier", verifier+"A"))
}

func TestTC10_TheChallengeIsNoVerifier(t *testing.T) {
	d := start(t)
	good := with(d.a.redeem(d.code(d.a, pkce).Code), "code_verifier", verifier)
	nothingConsumed(t, d, good, with(good, "code_verifier", challenge))
}

func TestTC11_AVerifierWithoutAChallengeIsRefused(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	nothingConsumed(t, d, good, with(good, "code_verifier", verifier))
}

func TestTC12_AMalformedVerifierIsRefusedEvenIfItsHashFits(t *testing.T) {
	d := start(t)
	malformed := errorBody("invalid_request", "code_verifier malformed")
	for _, bad := range []string{"abc", strings.Repeat("a", 42), strings.Repeat("a", 129), strings.Repeat("a", 42) + "+", strings.Repeat("a", 43) + "=", strings.Repeat("a", 42) + "\u00fc"} {
		code := d.code(d.a, func(a *issuer.Authorization) { a.Challenge = s256(bad) })
		form := with(d.a.redeem(code.Code), "code_verifier", bad)
		for name, form := range map[string]url.Values{"": form, "of nobody": with(form, "client_id", "nobody"), "with a wrong secret": with(form, "client_secret", "wrong")} {
			if a := d.post(form); a.status != 400 || a.body != malformed {
				t.Errorf("%d characters %s: %v", len(bad), name, a) // form before client, as the order of checks has it
			}
		}
		if _, err := d.sqlite.Grant(t.Context(), code.GrantID); err != store.ErrNotFound {
			t.Errorf("the code was consumed: %v", err)
		}
	}
}

func TestTC13_TheVectorOfRFC7636Succeeds(t *testing.T) {
	d := start(t)
	d.mustIssue(d.post(with(d.a.redeem(d.code(d.a, pkce).Code), "code_verifier", verifier)))
	for _, good := range []string{strings.Repeat("a", 43), strings.Repeat("~", 128), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"} {
		code := d.code(d.a, func(a *issuer.Authorization) { a.Challenge = s256(good) }).Code
		d.mustIssue(d.post(with(d.a.redeem(code), "code_verifier", good)))
	}
}

func TestTC14_TC16_ACodeWorksOnceAndItsReplayKillsWhatItMade(t *testing.T) {
	d := start(t)
	for _, later := range []time.Duration{0, time.Second, 30 * time.Second, 2 * time.Minute} {
		code := d.code(d.a)
		pair := d.mustIssue(d.post(d.a.redeem(code.Code)))
		d.step(later)
		want(t, d.post(d.a.redeem(code.Code)), 400, "invalid_grant")
		d.dead(d.a, pair.RefreshToken, code.GrantID, grant.ReasonCodeReplayed)
	}
}

func TestTC15_AReplayedCodeKillsItsAccessTokens(t *testing.T) {
	d := start(t)
	rs := d.resourceServer()
	for _, c := range []oauthClient{d.a, d.jwtClient()} {
		for _, later := range []time.Duration{0, time.Second, 2 * time.Minute} {
			code := d.code(c)
			first := d.mustIssue(d.post(c.redeem(code.Code)))
			second := d.alive(c, first.RefreshToken)
			d.step(later)
			// No other client can do that.
			want(t, d.post(d.b.redeem(code.Code)), 400, "invalid_grant")
			d.wantActive(rs, true, first.AccessToken, second.AccessToken)
			want(t, d.post(c.redeem(code.Code)), 400, "invalid_grant")
			d.wantActive(rs, false, first.AccessToken, second.AccessToken)
			if a := d.verify(first.AccessToken); a.status != http.StatusUnauthorized {
				t.Errorf("at a resource: %v", a)
			}
		}
	}
}

func TestTC17_AReplayedCodeKillsEveryDescendant(t *testing.T) {
	d := start(t)
	code := d.code(d.a)
	first := d.mustIssue(d.post(d.a.redeem(code.Code)))
	second := d.alive(d.a, first.RefreshToken)
	third := d.alive(d.a, second.RefreshToken)
	want(t, d.post(d.a.redeem(code.Code)), 400, "invalid_grant")
	for _, pair := range []tokens{third, second, first} {
		d.dead(d.a, pair.RefreshToken, code.GrantID, grant.ReasonCodeReplayed)
	}
	events, err := d.sqlite.Events(t.Context(), code.GrantID.String(), 10)
	if err != nil || len(events) != 1 || events[0].Name != store.EventCodeReplayed {
		t.Errorf("recorded: %v, %v", events, err)
	}
}

func TestTC18_OnlyTheOwnerCanRevokeByReplay(t *testing.T) {
	d := start(t, strict)
	code := d.code(d.a)
	pair := d.mustIssue(d.post(d.a.redeem(code.Code)))
	owner := d.a.redeem(code.Code)
	want(t, d.post(d.b.redeem(code.Code)), 400, "invalid_grant")
	want(t, d.post(with(owner, "client_secret", "wrong")), 400, "invalid_client")
	want(t, d.post(with(owner, "client_secret", "")), 400, "invalid_client")
	want(t, d.post(with(owner, "redirect_uri", otherRedirect)), 400, "invalid_grant")
	pair = d.alive(d.a, pair.RefreshToken)

	// Anybody who knows the verifier can replay a public client's code.
	public := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
	spent := d.code(public, pkce)
	proven := with(public.redeem(spent.Code), "code_verifier", verifier)
	own := d.mustIssue(d.post(proven))
	want(t, d.post(with(proven, "code_verifier", "")), 400, "invalid_grant")
	want(t, d.post(with(proven, "code_verifier", strings.Repeat("w", 43))), 400, "invalid_grant")
	d.alive(public, own.RefreshToken)
	want(t, d.post(proven), 400, "invalid_grant")
	d.dead(public, own.RefreshToken, spent.GrantID, grant.ReasonCodeReplayed)
	d.alive(d.a, pair.RefreshToken)
}

func TestTC23_WhatEndsBetweenCodeAndRedemptionCounts(t *testing.T) {
	d := start(t)
	disabled := d.client(client.Registration{})
	code := d.code(disabled).Code
	disabled = d.change(disabled, func(c *store.Client) { c.State = store.ClientDisabled })
	want(t, d.post(disabled.redeem(code)), 400, "invalid_client")
	disabled = d.change(disabled, func(c *store.Client) { c.State = store.ClientEnabled })
	d.mustIssue(d.post(disabled.redeem(code)))

	rotated := d.client(client.Registration{})
	code = d.code(rotated).Code
	d.change(rotated, func(c *store.Client) { c.Secrets = nil })
	want(t, d.post(rotated.redeem(code)), 400, "invalid_client")

	for _, c := range []store.Cutoff{{Subject: "bob"}, {Subject: "bob", ClientID: d.a.ID}, {ClientID: d.b.ID}} {
		owner := d.a
		if c.Subject == "" {
			owner = d.b
		}
		d.step(time.Second)
		issued := d.code(owner, func(a *issuer.Authorization) { a.Subject = "bob" })
		d.cutOff(c)
		want(t, d.post(owner.redeem(issued.Code)), 400, "invalid_grant")
		if _, err := d.sqlite.Grant(t.Context(), issued.GrantID); err != store.ErrNotFound {
			t.Errorf("a grant exists: %v", err)
		}
		// What is authorized afterwards is valid, even within the same millisecond.
		again := d.code(owner, func(a *issuer.Authorization) { a.Subject = "bob" })
		d.mustIssue(d.post(owner.redeem(again.Code)))
	}
}

func TestTC24_TR21_TK07_NoKindIsTakenForAnother(t *testing.T) {
	d := start(t)
	pair, id := d.tokens(d.a)
	code := d.code(d.a).Code
	for _, text := range []string{pair.AccessToken, pair.RefreshToken, d.a.secret, d.a.ID} {
		want(t, d.post(d.a.redeem(text)), 400, "invalid_grant")
	}
	for _, text := range []string{pair.AccessToken, code, d.a.secret, id.String()} {
		want(t, d.post(d.a.refresh(text)), 400, "invalid_grant")
	}
	for _, text := range []string{pair.AccessToken, pair.RefreshToken, code} {
		want(t, d.post(with(d.a.refresh(pair.RefreshToken), "client_secret", text)), 400, "invalid_client")
	}
	// Another kind's prefix does not help, and the key ring itself rejects it, too.
	kinds := map[string]string{"mintage_ac_": code, "mintage_rt_": pair.RefreshToken, "mintage_at_": pair.AccessToken}
	for prefix := range kinds {
		for own, text := range kinds {
			dressed := prefix + strings.TrimPrefix(text, own)
			if own == prefix {
				continue
			}
			if a := d.post(d.a.redeem(dressed)); a.status != http.StatusBadRequest {
				t.Errorf("%s as %s redeems", own, prefix)
			}
			if a := d.post(d.a.refresh(dressed)); a.status != http.StatusBadRequest {
				t.Errorf("%s as %s refreshes", own, prefix)
			}
			if _, err := d.ring().OpenAccess(realm, dressed); err == nil {
				t.Errorf("%s as %s is an access token", own, prefix)
			}
		}
	}
	d.mustIssue(d.post(d.a.redeem(code)))
	d.alive(d.a, pair.RefreshToken)
}

func TestTC25_TC26_TheAnswerNamesTheGrantedScope(t *testing.T) {
	d := start(t)
	narrow := func(a *issuer.Authorization) { a.Scope = "c a" }
	pair := d.mustIssue(d.post(d.a.redeem(d.code(d.a, narrow).Code)))
	if pair.Scope != "c a" {
		t.Errorf("granted %q, answered %q", "c a", pair.Scope)
	}
	// RFC 6749 section 4.1.3 has no scope parameter here: it is ignored.
	pair = d.mustIssue(d.post(with(d.a.redeem(d.code(d.a, narrow).Code), "scope", "a b c")))
	if pair.Scope != "c a" {
		t.Errorf("the scope parameter made %q", pair.Scope)
	}
	// The client has lost a scope in the meantime.
	code := d.code(d.a, narrow).Code
	less := d.change(d.a, func(c *store.Client) { c.Scope = "a b" })
	if pair = d.mustIssue(d.post(less.redeem(code))); pair.Scope != "a" {
		t.Errorf("granted more than the client may have: %q", pair.Scope)
	}
}

func TestTC30_FailedAuthenticationDoesNotSpendTheCode(t *testing.T) {
	d := start(t)
	good := d.a.redeem(d.code(d.a).Code)
	for range 3 {
		want(t, d.post(with(good, "client_secret", "wrong")), 400, "invalid_client")
	}
	d.mustIssue(d.post(good))
}

func TestTC32_APublicClientNamesItself(t *testing.T) {
	d := start(t)
	public := d.client(client.Registration{Settings: store.Settings{Auth: store.AuthNone}})
	good := with(public.redeem(d.code(public, pkce).Code), "code_verifier", verifier)
	want(t, d.post(with(good, "client_id", "")), 400, "invalid_request")
	d.mustIssue(d.post(good))
}
