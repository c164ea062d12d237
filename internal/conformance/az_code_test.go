package conformance_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store/storetest"
)

// A code is bound to the same values whether it is issued at once or after an
// interaction.
func TestAZ60_WhatACodeIsBoundTo(t *testing.T) {
	d, b := signedIn(t)
	rs := d.resourceServer()
	loggedIn := d.now()
	d.step(90 * time.Second)
	ours := d.ours()
	for name, get := range map[string]func() (oauthClient, string){
		"at once": func() (oauthClient, string) {
			return ours, b.get(asking(ours, "scope=b a")).granted(t, redirect).Get("code")
		},
		"after a question": func() (oauthClient, string) {
			return d.a, b.agree(asking(d.a, "scope=b a", "prompt=consent")).Query().Get("code")
		},
	} {
		c, code := get()
		good := with(c.redeem(code), "code_verifier", verifier)
		for _, bad := range [][]string{
			{"redirect_uri", otherRedirect}, {"redirect_uri", redirect + "/"}, {"code_verifier", ""}, {"code_verifier", challenge},
			{"code_verifier", verifier[1:] + "x"}, {"client_id", d.b.ID, "client_secret", d.b.secret},
		} {
			want(t, d.post(with(good, bad...)), 400, "invalid_grant")
		}
		pair := d.mustIssue(d.post(good))
		m := members(t, d.introspect(rs, pair.AccessToken).body)
		if m["sub"] != username || m["client_id"] != c.ID || m["scope"] != "b a" || pair.Scope != "b a" || fmt.Sprint(m["auth_time"]) != fmt.Sprint(loggedIn.Unix()) {
			t.Errorf("%s: a token for %v, client %v, scope %v, auth_time %v (login at %d)", name, m["sub"], m["client_id"], m["scope"], m["auth_time"], loggedIn.Unix())
		}
		// The second use revokes the tokens of the first one.
		want(t, d.post(good), 400, "invalid_grant")
		d.wantActive(rs, false, pair.AccessToken)

		c, in := get()
		_, out := get()
		d.step(59_999 * time.Millisecond)
		d.mustRedeem(c, in)
		d.step(time.Millisecond)
		want(t, d.post(with(c.redeem(out), "code_verifier", verifier)), 400, "invalid_grant")
	}
}

// A code for a signed-in user whose consent is remembered only costs reads. That matters
// because any site can trigger such requests.
func TestAZ60_ACodeAtOnceWritesNothing(t *testing.T) {
	d, b := signedIn(t)
	b.agree(asking(d.a))
	ours := d.ours()
	codes := map[string]bool{}
	for range 3 {
		for _, c := range []oauthClient{d.a, ours} {
			d.faulty.Calls()
			codes[b.get(asking(c)).granted(t, redirect).Get("code")] = true
			b.get(asking(c, "scope=nonsense")).told(t, redirect, "invalid_scope")
			calls := d.faulty.Calls()
			delete(calls, storetest.Changes) // the directory's poll, each second
			if left := slices.Collect(maps.Keys(calls)); !slices.Equal(left, []storetest.Method{storetest.Document}) || calls[storetest.Document] > 6 {
				t.Errorf("two answers cost %v", calls)
			}
		}
	}
	if len(codes) != 6 {
		t.Errorf("%d codes of 6 requests", len(codes))
	}
	// Control: an interaction counts as a write.
	b.get(asking(d.b))
	if d.faulty.Calls()[storetest.CommitDocument] != 1 {
		t.Error("an interaction is not counted as a write")
	}
}

// A login, from the client's request to its code, makes three durable writes: the
// interaction; the user with the session; the decision with the consent. The next login
// ends the previous session in the same writes.
func TestAZ60_ALoginMakesThreeWrites(t *testing.T) {
	d, b := visitor(t)
	login := func(pairs ...string) {
		t.Helper()
		d.faulty.Calls()
		consent := b.logIn(b.open(asking(d.a, pairs...)), username, password).at(t, "consent")
		b.post(interactionURL, "id="+consent.field("id"), "step=consent", "decision=allow", "remember=yes").granted(t, redirect)
		writes := 0
		calls := d.faulty.Calls()
		for method, n := range calls {
			switch method {
			case storetest.Changes, storetest.Document, storetest.Heartbeat:
			default:
				writes += n
			}
		}
		if writes != 3 {
			t.Errorf("%d writes: %v", writes, calls)
		}
	}
	login()
	login("prompt=login consent")
	// With a remembered consent, nothing is written.
	d.faulty.Calls()
	b.get(asking(d.a)).granted(t, redirect)
	if calls := d.faulty.Calls(); calls[storetest.CommitDocument] != 0 {
		t.Errorf("a remembered consent: %v", calls)
	}
}

func TestAZ62_AConsentSentAgainGivesTheSameCode(t *testing.T) {
	d, b := signedIn(t)
	id := b.follow(b.get(asking(d.a))).field("id")
	allow := func() shownPage { return b.post(interactionURL, "id="+id, "step=consent", "decision=allow") }
	first := allow()
	code := first.granted(t, redirect).Get("code")
	d.step(59 * time.Second)
	for _, again := range []shownPage{allow(), allow(), b.get(interactionURL + "?id=" + id)} {
		if again.StatusCode != 303 || again.Header.Get("Location") != first.Header.Get("Location") {
			t.Errorf("another answer: %d, the same place %t", again.StatusCode, again.Header.Get("Location") == first.Header.Get("Location"))
		}
	}
	// The opposite decision is no longer accepted.
	b.post(interactionURL, "id="+id, "step=consent", "decision=deny").refusedPage(t, 409)
	d.mustRedeem(d.a, code)
	// A second code would make the client revoke its own grant by redeeming twice.
	for _, again := range []shownPage{allow(), b.get(interactionURL + "?id=" + id)} {
		again.refusedPage(t, 409)
	}
	if list := d.grants(); len(list) != 1 || list[0].State != grant.Active {
		t.Errorf("%d grants of one consent", len(list))
	}

	late := b.follow(b.get(asking(d.a, "prompt=consent"))).field("id")
	b.post(interactionURL, "id="+late, "step=consent", "decision=allow").granted(t, redirect)
	d.step(60 * time.Second)
	b.post(interactionURL, "id="+late, "step=consent", "decision=allow").refusedPage(t, 409)

	denied := b.follow(b.get(asking(d.a, "prompt=consent"))).field("id")
	for range 2 {
		b.post(interactionURL, "id="+denied, "step=consent", "decision=deny").told(t, redirect, "access_denied")
	}
	b.post(interactionURL, "id="+denied, "step=consent", "decision=allow").refusedPage(t, 409)
}
