package login

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/plain"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit/plaintest"
)

func (h *fixture) is(cookie string) string {
	h.t.Helper()
	s, err := h.Session(h.t.Context(), cookie)
	if err != nil {
		h.t.Fatal(err)
	}
	if s == nil {
		return ""
	}
	return s.Subject
}

func TestSessionCookieIsRefusedIfItIsNotOurs(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	if h.is(v.Session) != "alice" {
		t.Fatal("the session is not found")
	}
	raw, err := base64.RawURLEncoding.DecodeString(v.Session)
	if err != nil || len(raw) != cookieSize {
		t.Fatalf("a cookie of %d bytes, %v", len(raw), err)
	}
	for i := range raw {
		spoilt := bytes.Clone(raw)
		spoilt[i] ^= 1
		if h.is(base64.RawURLEncoding.EncodeToString(spoilt)) != "" {
			t.Errorf("byte %d can be changed", i)
		}
	}
	// Another encoding of the same bytes is not accepted either.
	for name, text := range map[string]string{
		"nothing": "", "cut": v.Session[:71], "longer": v.Session + "A", "padded": v.Session[:70] + "==",
		"base64": strings.NewReplacer("-", "+", "_", "/").Replace(v.Session) + " ", "another deployment's": newFixture(t).signedIn("alice").Session,
	} {
		if h.is(text) != "" {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestSessionWritesNothing(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	h.kit.Faulty.Calls()
	for range 3 {
		h.step(2 * time.Minute)
		s, err := h.Session(t.Context(), v.Session)
		if err != nil {
			t.Fatal(err)
		}
		v.Session = h.Refresh(s)
	}
	if calls := h.kit.Faulty.Calls(); calls[storetest.Document] != 3 || len(calls) != 1 {
		t.Errorf("three uses made the calls %v, want three reads", calls)
	}
}

// The cookie contains the time stamp of its last use, so an old copy counts as idle for
// longer.
func TestSessionIdleTimeGoesByTheStamp(t *testing.T) {
	h := newFixture(t)
	old := h.signedIn("alice").Session
	h.step(stampEvery - time.Millisecond)
	s, err := h.Session(t.Context(), old)
	if err != nil || h.Refresh(s) != "" {
		t.Errorf("a stamp of less than a minute is renewed (%v)", err)
	}
	h.step(time.Millisecond)
	renewed := h.Refresh(s)
	if renewed == "" || renewed == old {
		t.Fatal("a stamp of a minute is not renewed")
	}
	h.step(h.Idle - stampEvery)
	if h.is(old) != "alice" {
		t.Error("a session is idle too early")
	}
	h.step(time.Millisecond)
	if h.is(old) != "" || h.is(renewed) != "alice" {
		t.Errorf("after the idle time: old %q, renewed %q", h.is(old), h.is(renewed))
	}
	if stale, _ := h.Session(t.Context(), old); h.Refresh(stale) != "" {
		t.Error("no session, and a stamp for it")
	}
	for h.kit.Clock.Now().Before(started.Time().Add(h.Sessions.Lifetime - 30*time.Minute)) {
		s, err := h.Session(t.Context(), renewed)
		if err != nil || s == nil {
			t.Fatalf("a session in use ended after %v (%v)", h.kit.Clock.Now().Sub(started.Time()), err)
		}
		renewed = h.Refresh(s)
		h.step(30 * time.Minute)
	}
	h.kit.Clock.Set(started.Time().Add(h.Sessions.Lifetime - time.Millisecond))
	if h.is(renewed) != "alice" {
		t.Error("a session ends before its time")
	}
	h.step(time.Millisecond)
	if h.is(renewed) != "" {
		t.Error("the absolute lifetime has no end")
	}
}

func TestSessionEndsWithItsSubjectsCutoff(t *testing.T) {
	h := newFixture(t)
	alice, bob := h.signedIn("alice"), h.signedIn("bob")
	h.cutOff(store.Cutoff{Subject: "alice", ClientID: "shop"})
	if h.is(alice.Session) != "alice" {
		t.Error("disconnecting one client signs the user out")
	}
	h.cutOff(store.Cutoff{Subject: "alice"})
	if h.is(alice.Session) != "" || h.is(bob.Session) != "bob" {
		t.Error("a cutoff does not end its subject's sessions, or ends others'")
	}
	// In the same millisecond, with a clock that stands still: the new session counts as
	// later than the cutoff.
	if again := h.signedIn("alice"); h.is(again.Session) != "alice" {
		t.Error("a login right after a cutoff is ended by it")
	}
}

func TestSessionsOfAnotherWayToSignInAreRefused(t *testing.T) {
	h := newFixture(t)
	other := h.signedIn("alice").Session // another system authenticates the users
	h.users("disabled")
	own, gone := h.signedIn("alice").Session, h.signedIn("disabled").Session
	if h.is(own) != "alice" || h.is(gone) != "" || h.is(other) != "" {
		t.Errorf("built-in users: own %q, disabled %q, of another system %q", h.is(own), h.is(gone), h.is(other))
	}
	h.Alive = func(context.Context, string, int64) (bool, error) { return false, errors.New("no answer") }
	if s, err := h.Session(t.Context(), own); s != nil || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a user who cannot be looked up: %v, %v", s, err)
	}
	h.Alive = nil
	if h.is(other) != "alice" || h.is(own) != "" {
		t.Errorf("another system: its own %q, of a built-in user %q", h.is(other), h.is(own))
	}
}

func TestSignInEndsTheSessionBefore(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	it := h.begin(asking(h.c, login), v, StepLogin)
	cookie, err := h.SignIn(t.Context(), it, h.identity("bob"), v)
	if err != nil || h.is(cookie) != "bob" || h.is(v.Session) != "" {
		t.Errorf("%v: now %q, before %q", err, h.is(cookie), h.is(v.Session))
	}
	if s, err := h.EndSession(t.Context(), cookie); err != nil || s == nil || s.Subject != "bob" || h.is(cookie) != "" {
		t.Errorf("EndSession: %+v, %v, still %q", s, err, h.is(cookie))
	}
	if s, err := h.EndSession(t.Context(), "nonsense"); err != nil || s != nil {
		t.Errorf("no session to end: %v", err)
	}
}

// The ring and the cookie are constants: the HMAC tag depends on the deployment's pepper
// alone, which must be the same in each process of the fuzzer.
func FuzzSessionCookie(f *testing.F) {
	kek, err := keys.ParseKEK(fuzzKEK)
	if err != nil {
		f.Fatal(err)
	}
	ring := fuzzRing(f, kek)
	id := sessionID(bytes.Repeat([]byte{7}, 32))
	genuine := sessionCookie(ring, id, started)
	f.Add(genuine)
	f.Add(genuine[:71])
	f.Add(genuine + "A")
	f.Add(strings.Repeat("A", 72))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		gotID, used, ok := openSessionCookie(ring, text)
		switch {
		case ok && (text != genuine || gotID != id || used != started):
			t.Fatal("a cookie is accepted that was not made")
		case !ok && (text == genuine || gotID != (sessionID{}) || used != 0):
			t.Fatal("a refused cookie returns a value, or the authentic one is refused")
		}
	})
}

// Restoring a backup must not revive the sessions of users who signed out after it was
// made.
func TestARestoreEndsEarlierSessions(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	cookie, d, err := h.newSession(Identity{Subject: "alice", AuthTime: h.now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Issuer.Store.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
		t.Fatal(err)
	}
	if s, err := h.Session(t.Context(), cookie); s == nil || err != nil {
		t.Fatalf("%v, %v", s, err)
	}
	h.step(time.Second)
	now := h.now()
	ended := false
	h.Ended = func(context.Context, End, *store.Change) error { ended = true; return nil }
	if err := h.kit.Engine.Commit(t.Context(), store.Change{Restores: []grant.Restore{{At: now, Backup: now - 1000, Until: now + 1000}}}); err != nil {
		t.Fatal(err)
	}
	h.kit.Poll()
	if s, err := h.Session(t.Context(), cookie); s != nil || err != nil {
		t.Errorf("a session from before the restore continues: %v, %v", s, err)
	}
	// No client is notified of the end, even when the browser signs out.
	if s, err := h.EndSession(t.Context(), cookie); s != nil || err != nil || ended {
		t.Errorf("%v, %v, notified: %t", s, err, ended)
	}
	cookie, d, err = h.newSession(Identity{Subject: "alice", AuthTime: h.now()})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Issuer.Store.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
		t.Fatal(err)
	}
	if s, err := h.Session(t.Context(), cookie); s == nil || err != nil {
		t.Errorf("a login at the very instant of the restore: %v, %v", s, err)
	}
}

// plain must decode these documents like encoding/json.
func TestSessionsAndConsentsDecodeLikeEncodingJSON(t *testing.T) {
	plaintest.Members(t, sessionMembers)
	plaintest.Members(t, consentsMembers)
	plaintest.Members(t, consentMembers)
	plaintest.Members(t, openid.LoginMembers)
	var s, want Session
	text := `{"subject":"alice","claims":"{\"a\":1}","auth_time":1,"began":2}`
	if err := errors.Join(plain.Unmarshal(sessionMembers, []byte(text), &s), json.Unmarshal([]byte(text), &want)); err != nil || s.Claims != `{"a":1}` || !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, %v", s, err)
	}
	if plain.Decode(sessionMembers, `{"login":{"acr":256}}`, new(Session)) || plain.Unmarshal(sessionMembers, []byte(`{"login":{"acr":256}}`), new(Session)) == nil {
		t.Error("acr 256 is decoded into eight bits")
	}
}
