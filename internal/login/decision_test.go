package login

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// The request of a signed-in user with remembered consent costs two reads and no write.
func TestAuthorizeWithoutAskingWritesNothing(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	h.record("alice", "shop", "a b c", true)
	h.kit.Faulty.Calls()
	first := h.code(h.Authorize(t.Context(), asking(h.c), v))
	calls := h.kit.Faulty.Calls()
	if calls[storetest.Document] != 2 || len(calls) != 1 {
		t.Errorf("calls %v, want two reads", calls)
	}
	// Two requests are two authorizations.
	if second := h.code(h.Authorize(t.Context(), asking(h.c), v)); second == first {
		t.Error("two requests have one code")
	}
}

func TestAllowGivesOneCode(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	it := h.begin(asking(h.c), v, StepConsent)
	const clicks = 6
	stale := make([]*Interaction, clicks) // each request has read it before any decides
	for i := range stale {
		stale[i] = h.again(it, v)
	}
	var mu sync.Mutex
	var answers []Stage
	var faults []error
	var group sync.WaitGroup
	for _, it := range stale {
		group.Go(func() {
			st, err := h.allow(t.Context(), it, v, true)
			mu.Lock()
			defer mu.Unlock()
			answers, faults = append(answers, st), append(faults, err)
		})
	}
	group.Wait()
	codes := map[string]int{}
	for i := range answers {
		codes[h.code(answers[i], faults[i])]++
	}
	if len(codes) != 1 {
		t.Fatalf("%d codes", len(codes))
	}
	h.step(30 * time.Second)
	h.kit.Faulty.Calls()
	again := h.code(h.allow(t.Context(), h.again(it, v), v, true))
	if calls := h.kit.Faulty.Calls(); codes[again] != clicks || calls[storetest.CommitDocument] != 0 {
		t.Errorf("later, the code is the same: %t; calls %v", codes[again] == clicks, calls)
	}
	if _, err := h.redeem(again); err != nil {
		t.Fatal(err)
	}
	if _, err := h.allow(t.Context(), h.again(it, v), v, true); err != ErrAnswered {
		t.Errorf("after it was redeemed: %v", err)
	}
	if _, err := h.Proceed(t.Context(), h.again(it, v), v); err != ErrAnswered {
		t.Errorf("looked at again: %v", err)
	}
}

// A second submit gets the same code as the first, because the decision names the sealing
// key. The current key would seal a different code of the same grant.
func TestAllowGivesOneCodeAcrossARotationOfTheSealingKey(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	rotation := directory.Rotation{Purposes: []keys.Purpose{keys.Seal}, Actor: "operator:test"}
	if _, err := directory.RotateKeys(t.Context(), h.kit.Engine, h.kit.KEK, h.Issuer.Directory.Schedule, rotation, h.kit.Clock.Now); err != nil {
		t.Fatal(err)
	}
	h.kit.Poll()
	it := h.begin(asking(h.c), v, StepConsent)
	before := h.kit.View().Ring.Current(keys.Seal, h.now())
	first := h.code(h.allow(t.Context(), h.again(it, v), v, true))
	h.step(h.Issuer.CodeLifetime - time.Second)
	if h.kit.View().Ring.Current(keys.Seal, h.now()) == before {
		t.Fatal("the next key is not in use before the code expires")
	}
	if again := h.code(h.allow(t.Context(), h.again(it, v), v, true)); again != first {
		t.Error("the second submit has another code")
	}
}

// Nodes compute the grant id of a decision independently. It is the same for each submit,
// and begins with the decision's time so that new rows share index pages.
func TestTheGrantIDOfADecisionBeginsWithItsTime(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	it := h.begin(asking(h.c), v, StepConsent)
	var ids [2]grant.ID
	for i := range ids {
		st, err := h.allow(t.Context(), h.again(it, v), v, false)
		h.code(st, err)
		ids[i], _ = codeParts(h.kit.View().Ring, st.Interaction)
		if at := st.Interaction.Decision.AuthorizedAt; binary.BigEndian.Uint32(ids[i][:4]) != uint32(at) {
			t.Errorf("submit %d: the id %s does not begin with %d", i+1, ids[i], at)
		}
	}
	if ids[0] != ids[1] {
		t.Error("the second submit has another id than the first")
	}
}

// A second click on "Allow" does not write the consent again: the user may have revoked it
// after the first click.
func TestTheSecondClickDoesNotAgreeAgain(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	it := h.begin(asking(h.c), v, StepConsent)
	late := h.again(it, v) // read before the first click has decided
	first := h.code(h.allow(t.Context(), it, v, true))
	version := func() int64 {
		d, err := h.kit.Engine.Document(t.Context(), store.KeyOf(store.DocumentConsents, realm, "alice"))
		if err != nil {
			t.Fatal(err)
		}
		return d.Version
	}
	before := version()
	if again := h.code(h.allow(t.Context(), late, v, true)); again != first {
		t.Error("the second click has another code")
	}
	if after := version(); after != before {
		t.Errorf("the consent is written again: version %d, before %d", after, before)
	}
}

// If the outcome of writing the decision is unknown, the next submit finds the decision
// and gets its code.
func TestAllowAfterAWriteOfUnknownOutcome(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	it := h.begin(asking(h.c), v, StepConsent)
	h.kit.Faulty.Inject(storetest.CommitDocument, 1, storetest.Unanswered)
	if _, err := h.allow(t.Context(), h.again(it, v), v, false); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("%v", err)
	}
	first := h.code(h.allow(t.Context(), h.again(it, v), v, false))
	if second := h.code(h.allow(t.Context(), h.again(it, v), v, false)); second != first {
		t.Error("another code")
	}
}

// Between reading an interaction and recording its decision, another tab may restart it,
// answer it, or sign another user in.
func TestAllowAfterAnotherTabChangedTheInteraction(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(h *fixture, it *Interaction) error
		want      error
	}{
		"begun again": {func(h *fixture, it *Interaction) error {
			_, err := h.restart(h.t.Context(), it, someone(), true)
			return err
		}, ErrStep},
		"another signed in": {func(h *fixture, it *Interaction) error { return h.identify(h.t.Context(), it, h.identity("bob"), nil) }, ErrSwitched},
		"denied": {func(h *fixture, it *Interaction) error {
			_, err := h.deny(h.t.Context(), it, h.signedIn("alice"), oauth.AccessDenied)
			var public *ClientError
			if errors.As(err, &public) {
				return nil
			}
			return err
		}, ErrAnswered},
	} {
		h := newFixture(t)
		v := h.signedIn("alice")
		it := h.begin(asking(h.c), v, StepConsent)
		stale, other := h.again(it, v), h.again(it, v)
		if err := c.meanwhile(h, other); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		st, err := h.allow(t.Context(), stale, v, true)
		if err != c.want || st.URL != "" {
			t.Errorf("%s meanwhile: %v, sent on: %t; want %v", name, err, st.URL != "", c.want)
		}
		if got := h.recorded("alice", "shop"); got.At != 0 {
			t.Errorf("%s: the consent is recorded, although the decision was refused", name)
		}
	}
}

// If the session has ended, the answer is ErrSignedOut; if another user is signed in,
// ErrSwitched.
func TestDecisionsNeedTheUserWhoSignedIn(t *testing.T) {
	h := newFixture(t)
	alice, bob := h.signedIn("alice"), h.signedIn("bob")
	bob.Browser = alice.Browser
	nobody := Visitor{Browser: alice.Browser}
	it := h.begin(asking(h.c), alice, StepConsent)
	for name, do := range map[string]func(v Visitor) error{
		"allow": func(v Visitor) error { _, err := h.allow(t.Context(), h.again(it, v), v, true); return err },
		"deny": func(v Visitor) error {
			_, err := h.deny(t.Context(), h.again(it, v), v, oauth.AccessDenied)
			return err
		},
		"look": func(v Visitor) error { _, err := h.Proceed(t.Context(), h.again(it, v), v); return err },
	} {
		if err := do(nobody); err != ErrSignedOut {
			t.Errorf("%s when nobody is signed in: %v", name, err)
		}
		if err := do(bob); err != ErrSwitched {
			t.Errorf("%s when another is: %v", name, err)
		}
	}
	code := h.code(h.allow(t.Context(), h.again(it, alice), alice, false))
	if _, err := h.allow(t.Context(), h.again(it, bob), bob, false); err != ErrSwitched {
		t.Errorf("another user's submit after the decision: %v", err)
	}
	if _, err := h.redeem(code); err != nil {
		t.Error(err)
	}
	if err := h.keep(t.Context(), h.begin(asking(h.c), someone(), StepLogin), nobody, ""); err != ErrSignedOut {
		t.Errorf("keep without a session: %v", err)
	}
}

// A login in another tab counts, unless it is too old for the client or the client
// requested a new one.
func TestProceedWithTheLoginOfAnotherTab(t *testing.T) {
	h := newFixture(t)
	for name, c := range map[string]struct {
		request func(*oauth.AuthorizationRequest)
		age     time.Duration
		want    Step
	}{
		"plain":               {scope("a"), time.Hour, StepConsent},
		"prompt=login":        {login, 0, StepLogin},
		"select_account":      {func(r *oauth.AuthorizationRequest) { r.Prompt.SelectAccount = true }, 0, StepLogin},
		"max_age, fresh":      {maxAge(60), time.Minute, StepConsent},
		"max_age, and longer": {maxAge(60), time.Minute + time.Millisecond, StepLogin},
	} {
		v := someone()
		it := h.begin(asking(h.c, c.request), v, StepLogin)
		v.Session = h.session(Identity{Subject: "alice", AuthTime: h.now().Add(-c.age)})
		st, err := h.Proceed(t.Context(), h.again(it, v), v)
		if err != nil || st.Interaction.Step != c.want {
			t.Errorf("%s: step %s, %v; want %s", name, st.Interaction.Step, err, c.want)
		}
	}
}

// The user may deny at any step. The error codes are those of RFC 6749 and OpenID Connect.
func TestARepeatedDenyGivesTheSameError(t *testing.T) {
	h := newFixture(t)
	v := someone()
	for _, refusal := range refusals {
		it := h.begin(asking(h.c), v, StepLogin)
		for range 2 {
			_, err := h.deny(t.Context(), h.again(it, v), v, refusal.Code)
			var client *ClientError
			if !errors.As(err, &client) || client.Public.Code != refusal.Code || client.Public.Description != refusal.Description || !client.SignedIn {
				t.Fatalf("%s: %v", refusal.Code, err)
			}
		}
		if _, err := h.Proceed(t.Context(), h.again(it, v), v); clientErrorCode(t, err) != refusal.Code {
			t.Errorf("looked at again: %v", err)
		}
		if _, err := h.restart(t.Context(), h.again(it, v), v, true); err != ErrAnswered {
			t.Errorf("begun again after the answer: %v", err)
		}
		if _, err := h.SignIn(t.Context(), h.again(it, v), h.identity("alice"), v); err != ErrAnswered {
			t.Errorf("signed in after the answer: %v", err)
		}
	}
}

// A cutoff between the consent and the redemption of its code ends the code.
func TestCutoffBetweenConsentAndRedemption(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	it := h.begin(asking(h.c), v, StepConsent)
	code := h.code(h.allow(t.Context(), it, v, true))
	h.cutOff(store.Cutoff{Subject: "alice"})
	if _, err := h.redeem(code); err == nil {
		t.Error("a code from before a cutoff is redeemed")
	}
	if _, err := h.allow(t.Context(), h.again(it, v), v, true); err != ErrSignedOut {
		t.Errorf("once more: %v", err)
	}
}

func TestInteractionsAreBounded(t *testing.T) {
	var p Pending
	lifetime := (10 * time.Minute).Milliseconds()
	at := grant.Instant(1000 * lifetime)
	nowhere := netip.Prefix{}
	add := func(at grant.Instant) bool { return p.add(at, lifetime, nowhere, 1, maxPending) == nil }
	for i := range maxPending {
		if i == maxPendingGuest && p.add(at, lifetime, nowhere, 1, maxPendingGuest) == nil {
			t.Error("guests use up the room of signed-in users")
		}
		if !add(at) {
			t.Fatalf("the %dth is refused", i+1)
		}
	}
	if add(at) || add(at+grant.Instant(lifetime)) {
		t.Error("more than the limit, now or while the first are pending")
	}
	if !add(at + grant.Instant(2*lifetime)) {
		t.Error("refused when all are over")
	}
	// Neither a clock that jumps nor a lifetime of zero causes refusals.
	p.young, p.older = begun{kilobytes: maxPending}, begun{kilobytes: maxPending}
	if !add(at) || !add(at+1000*grant.Instant(lifetime)) || (&Pending{}).add(at, 0, nowhere, 1, 1) != nil {
		t.Error("refused after the clock has jumped")
	}

	h := newFixture(t)
	h.Pending = &Pending{stretch: int64(h.now()) / lifetime, young: begun{kilobytes: maxPending}}
	_, err := h.Authorize(t.Context(), asking(h.c), someone())
	var client *ClientError
	if !errors.As(err, &client) || client.Public != oauth.ErrUnavailable || client.Cause != ErrCrowded {
		t.Errorf("%v", err)
	}
	if _, err := h.BeginAccount(t.Context(), someone()); err != ErrCrowded {
		t.Errorf("%v", err)
	}
	// Guests leave room for signed-in users.
	h.Pending = &Pending{stretch: int64(h.now()) / lifetime, young: begun{kilobytes: maxPendingGuest}}
	if _, err := h.Authorize(t.Context(), asking(h.c), someone()); !errors.As(err, &client) || client.Cause != ErrCrowded {
		t.Errorf("a guest: %v", err)
	}
	h.begin(asking(h.c), h.signedIn("alice"), StepConsent)
}

// A stored interaction is encrypted, and opens only for its own id and browser.
func TestInteractionIsOfItsBrowserAlone(t *testing.T) {
	h := newFixture(t)
	v := someone()
	it := h.begin(asking(h.c), v, StepLogin)
	for name, other := range map[string]Visitor{"none": {}, "another": someone(), "part": {Browser: v.Browser[:42]}} {
		if _, err := h.Interaction(t.Context(), it.ID, other); err != ErrInteraction {
			t.Errorf("browser %s: %v", name, err)
		}
	}
	h.step(h.Interactions.Lifetime)
	if _, err := h.Interaction(t.Context(), it.ID, someone()); err != ErrInteraction {
		t.Errorf("another browser learns that it has expired: %v", err)
	}
	if _, err := h.Interaction(t.Context(), it.ID, v); err != ErrExpired {
		t.Errorf("%v", err)
	}
	h.kit.Faulty.Inject(storetest.Document, 1, storetest.Lost)
	if _, err := h.Interaction(t.Context(), it.ID, v); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a store that fails: %v", err)
	}
	// An id of invalid form is unknown, whether or not the store responds.
	h.kit.Faulty.Inject(storetest.Document, 100, storetest.Lost)
	for _, id := range []string{"", "x", it.ID[:42], it.ID + "A", it.ID[:42] + "%", " " + it.ID[1:]} {
		if _, err := h.Interaction(t.Context(), id, v); err != ErrInteraction {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := h.KeptLogout(t.Context(), id); err != ErrInteraction {
			t.Errorf("a logout %q: %v", id, err)
		}
		if _, err := h.Pushed(t.Context(), h.c.ID, id); err != oauth.ErrPushed {
			t.Errorf("a pushed request %q: %v", id, err)
		}
	}
}

func TestFormsOfAnotherStepChangeNothing(t *testing.T) {
	h := newFixture(t)
	h.users()
	v := h.signedIn("alice")
	atConsent := h.begin(asking(h.c), v, StepConsent)
	if err := h.proveMore(t.Context(), atConsent, Proof{Identity: Identity{Username: "bob", Epoch: 1}, Owes: StepSecondFactor}); err != ErrStep {
		t.Errorf("a password at the consent: %v", err)
	}
	if err := h.keep(t.Context(), atConsent, v, ""); err != ErrStep {
		t.Errorf("an account at the consent: %v", err)
	}
	if err := h.keepUpstream(t.Context(), atConsent, nil); err != ErrStep {
		t.Errorf("an upstream login at the consent: %v", err)
	}
	atLogin := h.begin(asking(h.c, login), v, StepLogin)
	if _, err := h.allow(t.Context(), atLogin, v, true); err != ErrStep {
		t.Errorf("a consent at the login: %v", err)
	}
	own, err := h.BeginAccount(t.Context(), v)
	if err == nil {
		err = h.identify(t.Context(), own, h.identity("alice"), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.allow(t.Context(), own, v, true); err != ErrStep {
		t.Errorf("a consent for no client: %v", err)
	}
	if _, err := h.deny(t.Context(), own, v, oauth.AccessDenied); err != ErrStep {
		t.Errorf("a refusal for no client: %v", err)
	}
	if got := h.again(atLogin, v); got.Step != StepLogin || got.Decision != nil {
		t.Errorf("step %s", got.Step)
	}
}
