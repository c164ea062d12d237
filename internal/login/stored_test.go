package login

import (
	"cmp"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/openid"
	"github.com/mintage/mintage/internal/plain"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// granted redeems a code for the signed-in user of a browser, and returns the stored
// session with its grants.
func (h *fixture) granted(v Visitor) (r StoredSession) {
	h.t.Helper()
	s, err := h.Session(h.t.Context(), v.Session)
	if err != nil || s == nil {
		h.t.Fatal("nobody is signed in", err)
	}
	st, err := h.Authorize(h.t.Context(), asking(h.c), v)
	if _, err := h.redeem(h.code(st, err)); err != nil {
		h.t.Fatal(err)
	}
	return h.sessionOf(s.Subject, grant.SessionName(s.reference()))
}

// sessionOf returns a session of a subject.
func (h *fixture) sessionOf(subject, name string) StoredSession {
	h.t.Helper()
	list, err := ListSessions(h.t.Context(), h.kit.Engine, realm, subject)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, r := range list {
		if r.Name == name {
			return r
		}
	}
	return StoredSession{}
}

// documents counts the documents of a session that are not marked as ended.
func (h *fixture) documents(r StoredSession) (n int) {
	h.t.Helper()
	for d, err := range store.EachDocument(h.t.Context(), h.kit.Engine, store.DocumentFilter{Kind: store.DocumentSession, Owner: store.OwnerOf(realm, r.Subject)}) {
		var s Session
		if err != nil || plain.Unmarshal(sessionMembers, d.Body, &s) != nil {
			h.t.Fatalf("%v: %s", err, d.Body)
		}
		if s.Over == "" && s.reference() == r.Reference {
			n++
		}
	}
	return n
}

// signInAs logs a subject in at a browser.
func (h *fixture) signInAs(subject string, v Visitor) Visitor {
	h.t.Helper()
	it := h.begin(asking(h.c, login), v, StepLogin)
	cookie, err := h.SignIn(h.t.Context(), it, h.identity(subject), v)
	if err != nil {
		h.t.Fatal(err)
	}
	v.Session = cookie
	return v
}

func TestSessionsOfASubjectAndTheGrantsThatTheyMade(t *testing.T) {
	h := newFixture(t)
	h.Issuer.IDTokenLifetime = 5 * time.Minute
	h.c = h.client(openIDClient)
	phone, laptop := h.signInAs("alice", someone()), h.signInAs("alice", someone())
	h.signInAs("bob", someone())
	first := h.granted(phone)
	second := h.granted(laptop)
	second = h.granted(laptop)
	if len(first.Grants) != 1 || len(second.Grants) != 2 || first.Name == second.Name || h.documents(first) != 1 || first.Session == nil {
		t.Fatalf("%+v\n%+v", first, second)
	}
	if len(first.Name) != 24 || first.Reference == [16]byte{} || first.Reference != first.Grants[0].Session {
		t.Errorf("name %q, reference %x, grant's %x", first.Name, first.Reference, first.Grants[0].Session)
	}
	list := 0
	for g, err := range store.EachGrant(t.Context(), h.kit.Engine, store.GrantFilter{Realm: realm, Subject: "alice"}) {
		if err != nil {
			t.Fatal(err)
		}
		if g.Session == second.Reference {
			list++
		}
	}
	if list != 2 {
		t.Errorf("%d grants", list)
	}
	// After the session has ended, the grants still refer to it.
	if _, err := h.EndSession(t.Context(), laptop.Session); err != nil {
		t.Fatal(err)
	}
	if r := h.sessionOf("alice", second.Name); r.Session != nil || h.documents(r) != 0 || len(r.Grants) != 2 {
		t.Errorf("after its end: %+v", r)
	}
	if r := h.sessionOf("alice", first.Name); r.Session == nil {
		t.Error("the other session has ended too")
	}
}

// openIDClient is a client with openid: its grants refer to sessions.
var openIDClient = client.Registration{ID: "app", Settings: store.Settings{Name: "App", Scope: "openid a b", FirstParty: true, IDTokenAlg: keys.ES256}}

// A new login of the same subject in the same browser has a new cookie and auth_time. For
// clients, it is the same session.
func TestANewLoginOfTheSameSubjectKeepsTheReference(t *testing.T) {
	h := newFixture(t)
	h.Issuer.IDTokenLifetime = 5 * time.Minute
	h.c = h.client(openIDClient)
	v := h.signInAs("alice", someone())
	before := h.granted(v)
	h.step(time.Minute)
	again := h.signInAs("alice", v)
	after := h.granted(again)
	switch {
	case again.Session == v.Session || h.is(v.Session) != "":
		t.Error("the old cookie still counts")
	case after.Name != before.Name || len(after.Grants) != 2 || h.documents(after) != 1:
		t.Errorf("%+v", after)
	case after.Session.AuthTime <= before.Session.AuthTime:
		t.Error("auth_time is the old one")
	case openid.SessionID(after.Reference, "app") == openid.SessionID(after.Reference, "shop"):
		t.Error("two clients have one sid")
	}
}

// A login in a browser where another subject is signed in ends that subject's session.
func TestAnotherSubjectsLoginEndsTheSessionWithItsLogouts(t *testing.T) {
	h := newFixture(t)
	var ended []End
	h.Ended = func(_ ctx, e End, c *store.Change) error {
		ended = append(ended, e)
		c.Events = append(c.Events, store.Event{At: e.At, Name: "said", About: "logout of " + e.Subject})
		return nil
	}
	v := h.signInAs("alice", someone())
	alice, _ := h.Session(t.Context(), v.Session)
	v = h.signInAs("alice", v)
	if len(ended) != 0 {
		t.Fatal("a login of the same subject ends the session")
	}
	v = h.signInAs("bob", v)
	if len(ended) != 1 || ended[0].Subject != "alice" || ended[0].Reference != alice.reference() {
		t.Fatalf("%+v", ended)
	}
	if want := "another user has signed in: session " + alice.Mark(); ended[0].Actor != "subject:bob" || ended[0].Detail != want {
		t.Errorf("by %q: %q, not by bob: %q", ended[0].Actor, ended[0].Detail, want)
	}
	if list, err := h.kit.Engine.Events(t.Context(), "logout of alice", 10); err != nil || len(list) != 1 {
		t.Errorf("what Ended added is not in the commit: %v, %v", list, err)
	}
	// Neither idle nor absolute expiry is a logout.
	bob, _ := h.Session(t.Context(), v.Session)
	h.step(stampEvery)
	copied := h.Refresh(bob) // and is used elsewhere
	h.step(h.Idle)
	if h.is(copied) != "bob" {
		t.Fatal("a renewed cookie is of no session")
	}
	h.signInAs("carol", v)
	if h.is(copied) != "" {
		t.Error("an idle session goes on elsewhere after another user has signed in")
	}
	if _, err := h.EndSession(t.Context(), v.Session); err != nil || len(ended) != 1 {
		t.Errorf("an idle session was ended: %+v, %v", ended[1:], err)
	}
}

// A session that expires, by idle time or by absolute lifetime, has not been ended by
// anyone: no client is notified.
func TestNoClientIsNotifiedOfAnExpiredSession(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		h := newFixture(t)
		var ended []End
		h.Ended = func(_ ctx, e End, _ *store.Change) error { ended = append(ended, e); return nil }
		v := h.signInAs("alice", someone())
		if !used {
			h.step(h.Idle + time.Minute)
		}
		for passed := time.Duration(0); used && passed < h.Sessions.Lifetime; passed += h.Idle / 2 {
			s, err := h.Session(t.Context(), v.Session)
			if err != nil || s == nil {
				t.Fatalf("the session has ended after %s: %v", passed, err)
			}
			v.Session = cmp.Or(h.Refresh(s), v.Session)
			h.step(h.Idle / 2)
		}
		if h.is(v.Session) != "" {
			t.Fatalf("used %t: the session goes on", used)
		}
		if s, err := h.EndSession(t.Context(), v.Session); s != nil || err != nil {
			t.Errorf("used %t: signed out of %+v, %v", used, s, err)
		}
		h.signInAs("bob", v)
		if len(ended) != 0 {
			t.Errorf("used %t: clients are notified of %+v", used, ended)
		}
	}
}

// Two tabs can have one session in two documents: a logout ends both.
func TestEndSessionEndsTheSessionInEveryTab(t *testing.T) {
	h := newFixture(t)
	v := h.signInAs("alice", someone())
	a := h.signInAs("alice", v).Session
	s, _ := h.Session(t.Context(), a)
	who := h.identity("alice")
	who.Reference = s.Reference
	b := h.session(who)
	if s, err := h.EndSession(t.Context(), a); err != nil || s == nil || h.is(a) != "" || h.is(b) != "" {
		t.Errorf("%+v, %v: %q and %q go on", s, err, h.is(a), h.is(b))
	}
}

// A logout and a login that continues the session run concurrently in two tabs. The later
// commit sees the earlier one: a session that was reported as ended does not continue.
func TestALoginOfTheSameSubjectDuringALogout(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"login", "logout"} {
		t.Run(first+" first", func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			var ended []End
			h.Ended = func(_ ctx, e End, c *store.Change) error {
				ended = append(ended, e)
				c.Documents = append(c.Documents, store.Document{Kind: store.DocumentLogout, Key: store.DocumentKey{1}, Version: 1})
				return nil
			}
			v := h.signInAs("alice", someone())
			it := h.begin(asking(h.c, login), v, StepLogin)
			again := v
			signIn := func() (err error) {
				again.Session, err = h.SignIn(t.Context(), it, h.identity("alice"), v)
				return err
			}
			logout := func() error {
				s, err := h.EndSession(t.Context(), v.Session)
				if err == nil && s == nil {
					t.Error("EndSession ended no session")
				}
				return err
			}
			before, after := signIn, logout // which is about to be committed when before happens
			if first == "logout" {
				before, after = logout, signIn
			}
			h.kit.Faulty.Inject(storetest.CommitDocument, 1, func(_ ctx, do func() error) error {
				if err := before(); err != nil {
					t.Error(err)
				}
				return do()
			})
			if err := after(); err != nil {
				t.Fatal(err)
			}
			s, err := h.Session(t.Context(), again.Session)
			if err != nil || len(ended) == 0 {
				t.Fatal(err, ended)
			}
			if goesOn := s != nil; goesOn != (first == "logout") {
				t.Errorf("the session goes on: %t", goesOn)
			}
			if s != nil && s.reference() == ended[0].Reference {
				t.Error("a session that was reported as ended continues")
			}
		})
	}
}

// A browser without the cookie of its latest login yet can still end the session that this
// login continues. Another login with the old cookie continues the session, too.
func TestTheCookieBeforeTheLatestLogin(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	v := h.signInAs("alice", someone())
	latest := h.signInAs("alice", v)
	other := h.signInAs("alice", v)
	a, _ := h.Session(t.Context(), latest.Session)
	b, _ := h.Session(t.Context(), other.Session)
	if a == nil || b == nil || a.Reference != b.Reference || h.is(v.Session) != "" {
		t.Fatalf("%+v, %+v, and the old cookie is %q", a, b, h.is(v.Session))
	}
	if s, err := h.EndSession(t.Context(), v.Session); s == nil || err != nil || h.is(latest.Session)+h.is(other.Session) != "" {
		t.Errorf("%v, %v: %q and %q go on", s, err, h.is(latest.Session), h.is(other.Session))
	}
	if s, err := h.EndSession(t.Context(), latest.Session); s != nil || err != nil {
		t.Errorf("it ended twice: %v, %v", s, err)
	}
	if list, err := ListSessions(t.Context(), h.kit.Engine, realm, "alice"); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A page that was shown in an ended session is answered in a new session of the same
// subject: the grant belongs to the new session.
func TestAGrantBelongsToTheSessionThatAnswers(t *testing.T) {
	h := newFixture(t)
	h.Issuer.IDTokenLifetime = 5 * time.Minute
	registration := openIDClient
	registration.ID, registration.FirstParty = "asks", false
	h.c = h.client(registration)
	v := h.signInAs("alice", someone())
	it := h.begin(asking(h.c), v, StepConsent)
	if _, err := h.EndSession(t.Context(), v.Session); err != nil {
		t.Fatal(err)
	}
	h.step(time.Second)
	v = h.signInAs("alice", v)
	s, err := h.Session(t.Context(), v.Session)
	if err != nil {
		t.Fatal(err)
	}
	st, err := h.allow(t.Context(), h.again(it, v), v, false)
	if _, err := h.redeem(h.code(st, err)); err != nil {
		t.Fatal(err)
	}
	if r := h.sessionOf("alice", grant.SessionName(s.reference())); len(r.Grants) != 1 {
		t.Errorf("the session that goes on has made %d grants", len(r.Grants))
	}
}

// The redirect to the client waits for the other clients to be notified, because the
// client's page may show their state, but it waits for a second at most.
func TestARedirectAfterALogoutWaitsASecondAtMost(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	c := h.client(client.Registration{ID: "leaving", Settings: store.Settings{Name: "Leaving", PostLogoutRedirectURIs: []string{"https://client.example/bye"}}})
	waited := 0
	h.Ended = func(ctx, End, *store.Change) error { return nil }
	h.Notified = func(ctx ctx, e End) {
		waited++
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > time.Second || e.Subject != "alice" {
			t.Errorf("waits until %v, %t, for %+v", deadline, ok, e)
		}
	}
	for next, want := range map[string]int{"https://client.example/bye": 1, "": 0} {
		waited = 0
		v := h.signInAs("alice", someone())
		asked := &Logout{ClientID: c.ID, RedirectURI: next}
		if s, to, err := h.LogOut(t.Context(), asked, v); s == nil || to != next || err != nil || waited != want {
			t.Errorf("to %q: %q, %v, waited %d times", next, to, err, waited)
		}
	}
}
