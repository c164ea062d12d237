package login

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// signInBy signs a subject in with a session of an upstream provider, and returns the
// cookie.
func (h *fixture) signInBy(t *testing.T, subject, provider string) string {
	t.Helper()
	v, who := someone(), h.identity(subject)
	who.Provider = provider
	cookie, err := h.SignIn(t.Context(), h.begin(asking(h.c), v, StepLogin), who, v)
	if err != nil {
		t.Fatal(err)
	}
	return cookie
}

func TestAProviderEndsSessions(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	var clientErrorCode []End
	h.Ended = func(_ context.Context, e End, _ *store.Change) error {
		clientErrorCode = append(clientErrorCode, e)
		return nil
	}
	signIn := func(subject, provider string) string { return h.signInBy(t, subject, provider) }
	phone, laptop, bob := signIn("alice", "iss\x00s1"), signIn("alice", "iss\x00s2"), signIn("bob", "iss\x00s3")
	logout := func(id, session, subject string) (int, error) {
		ended, err := h.EndProviderSession(t.Context(), ProviderLogout{Session: session, Subject: subject, ID: id, ExpiresAt: h.now().Add(2 * time.Minute)})
		return len(ended), err
	}
	if n, err := logout("j0", "iss\x00s1", "bob"); n != 0 || err != nil || h.is(phone) != "alice" {
		t.Errorf("a session of another subject: %d, %v", n, err)
	}
	again := signIn("alice", "iss\x00s1") // in another tab, at the same instant
	if n, err := logout("j1", "iss\x00s1", "alice"); n != 2 || err != nil || h.is(again)+h.is(phone) != "" || h.is(laptop) != "alice" || h.is(bob) != "bob" {
		t.Errorf("%d, %v", n, err)
	}
	for _, e := range clientErrorCode {
		if e.Actor != "provider" || !strings.HasPrefix(e.Detail, "the OpenID Connect provider has ended the session: session ") {
			t.Errorf("by %q: %q", e.Actor, e.Detail)
		}
	}
	if n, err := logout("j1", "iss\x00s2", ""); n != 0 || !errors.Is(err, ErrReplayed) || h.is(laptop) != "alice" {
		t.Errorf("a token counted twice: %d, %v", n, err)
	}
	if n, err := logout("j2", "iss\x00unknown", ""); n != 0 || err != nil {
		t.Errorf("an unknown session: %d, %v", n, err)
	}
	if n, err := logout("j3", "", "alice"); n != 1 || err != nil || h.is(laptop) != "" || h.is(bob) != "bob" {
		t.Errorf("all of alice: %d, %v", n, err)
	}
	// Two concurrent logins in tabs of one browser give one session two documents.
	v := someone()
	v.Session = signIn("carol", "iss\x00s4")
	for range 2 {
		who := h.identity("carol")
		who.Provider = "iss\x00s4"
		if _, err := h.SignIn(t.Context(), h.begin(asking(h.c, login), v, StepLogin), who, v); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := logout("j4", "iss\x00s4", "carol"); n != 1 || err != nil {
		t.Errorf("the session of two tabs: %d, %v", n, err)
	}
	h.step(h.Sessions.Lifetime)
	if n, err := logout("j5", "", "bob"); n != 0 || err != nil {
		t.Errorf("a session that has expired: %d, %v", n, err)
	}
	if len(clientErrorCode) != 4 {
		t.Errorf("clients are notified of %d ends: %+v", len(clientErrorCode), clientErrorCode)
	}
}

// A logout that could not be stored does not make its token a replay: the provider gets an
// error that lets it try again.
func TestALogoutOfAProviderThatIsNotStoredIsNoReplay(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	cookie := h.signInBy(t, "alice", "iss\x00s1")
	l := ProviderLogout{Session: "iss\x00s1", ID: "j1", ExpiresAt: h.now().Add(2 * time.Minute)}
	h.kit.Faulty.Inject(storetest.CommitDocument, attempts, storetest.Conflicts) // each attempt conflicts with another change
	if _, err := h.EndProviderSession(t.Context(), l); errors.Is(err, ErrReplayed) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("not stored: %v", err)
	}
	if ended, err := h.EndProviderSession(t.Context(), l); len(ended) != 1 || err != nil || h.is(cookie) != "" {
		t.Errorf("once more: %d, %v", len(ended), err)
	}
}

// A store fault at any step of a provider's logout is reported: the session continues, and
// the same token ends it later.
func TestALogoutOfAProviderMayBeRepeatedAfterAFault(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]ProviderLogout{"of the session": {Session: "iss\x00s1"}, "of the subject": {Subject: "alice"}} {
		for _, method := range []storetest.Method{storetest.Document, storetest.Documents, storetest.CommitDocument} {
			met := 0
			for ; ; met++ {
				h := newFixture(t)
				cookie := h.signInBy(t, "alice", "iss\x00s1")
				l.ID, l.ExpiresAt = "j1", h.now().Add(2*time.Minute)
				h.kit.Faulty.Inject(method, met, storetest.Meanwhile(func() {}))
				h.kit.Faulty.Inject(method, 1, storetest.Lost)
				_, err := h.EndProviderSession(t.Context(), l)
				if err == nil {
					break
				}
				if !errors.Is(err, store.ErrUnavailable) || h.is(cookie) != "alice" {
					t.Errorf("%s, %s %d: %v, signed in %q", name, method, met+1, err, h.is(cookie))
				}
				if ended, err := h.EndProviderSession(t.Context(), l); len(ended) != 1 || err != nil || h.is(cookie) != "" {
					t.Errorf("%s, after %s %d: %d ended, %v", name, method, met+1, len(ended), err)
				}
			}
			if met == 0 {
				t.Errorf("%s: no %s has failed", name, method)
			}
		}
	}
}

// Grants that end with their session end at once, before a worker runs.
func TestALogoutOfAProviderEndsGrantsAtOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.client(client.Registration{ID: "ending", Settings: store.Settings{Name: "Ending", LogoutEndsGrants: true}})
	cookie := h.signInBy(t, "alice", "iss\x00s1")
	s, err := h.Session(t.Context(), cookie)
	if err != nil {
		t.Fatal(err)
	}
	g := grant.Grant{
		ID: grant.ID{1}, Realm: realm, ClientID: "ending", Subject: "alice", Facts: grant.Facts{Session: s.reference()}, Generation: 1, Version: 1,
		AuthorizedAt: h.now(), RotatedAt: h.now(), ExpiresAt: h.now().Add(time.Hour), DeleteAfter: h.now().Add(time.Hour), State: grant.Active,
	}
	if err := h.kit.Engine.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if _, err := h.EndProviderSession(t.Context(), ProviderLogout{Session: "iss\x00s1", ID: "j1", ExpiresAt: h.now().Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	if g, err := h.kit.Engine.Grant(t.Context(), g.ID); err != nil || g.State != grant.Revoked {
		t.Errorf("the grant is %v, %v", g.State, err)
	}
}

// If the commit of a logout token is repeated after a conflict, it still counts as one
// end: only one login is refused for it.
func TestARepeatedCommitOfAProvidersLogoutCountsOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.signInBy(t, "alice", "iss\x00s1")
	attempted := 0
	h.Ended = func(context.Context, End, *store.Change) error {
		if attempted++; attempted == 1 {
			h.kit.Faulty.Inject(storetest.CommitDocument, 1, storetest.Conflicts)
		}
		return nil
	}
	l := ProviderLogout{Session: "iss\x00s1", ID: "j1", IssuedAt: h.now(), ExpiresAt: h.now().Add(2 * time.Minute)}
	if ended, err := h.EndProviderSession(t.Context(), l); len(ended) != 1 || err != nil || attempted != 2 {
		t.Fatalf("%d ended after %d attempts, %v", len(ended), attempted, err)
	}
	// The token's document is kept for as long as any node's clock accepts the token, so
	// that a sweep by a clock that is ahead leaves it.
	id := store.KeyOf(store.DocumentProviderLogout, h.Issuer.Realm, l.ID)
	if d, err := h.kit.Engine.Document(t.Context(), id); err != nil || d.ExpiresAt < l.ExpiresAt.Add(h.Issuer.Policy.MaxSkew+time.Minute) {
		t.Errorf("remembered until %d, and it expires at %d, %v", d.ExpiresAt, l.ExpiresAt, err)
	}
	var at grant.Instant
	if d, err := h.document(t.Context(), store.DocumentProviderLogout, h.endKey(l.Session, l.Subject), &at); d.Version != 1 || at != l.IssuedAt || err != nil {
		t.Errorf("stored %d times, at %d instead of %d, %v", d.Version, at, l.IssuedAt, err)
	}
}

// A login that the provider answered before the logout does not survive the logout,
// whichever is committed first.
func TestALoginDuringALogoutOfAProvider(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]ProviderLogout{
		"of the session":  {Session: "iss\x00s1"},
		"of the subject":  {Subject: "alice"},
		"that names both": {Session: "iss\x00s1", Subject: "alice"},
	} {
		for _, order := range []string{"login first", "login between", "logout first"} {
			t.Run(name+", "+order, func(t *testing.T) {
				t.Parallel()
				h, token := newFixture(t), token
				v, who := someone(), h.identity("alice")
				who.Provider, who.SaidAt = "iss\x00s1", h.now()
				it := h.begin(asking(h.c), v, StepLogin)
				token.ID, token.IssuedAt, token.ExpiresAt = "j1", h.now().Add(time.Second), h.now().Add(2*time.Minute)
				var cookie string
				signIn := func() (err error) {
					cookie, err = h.SignIn(t.Context(), it, who, v)
					return err
				}
				logout := func() error {
					_, err := h.EndProviderSession(t.Context(), token)
					return err
				}
				before, after := signIn, logout // before runs while after is about to be committed
				if order == "logout first" {
					before, after = logout, signIn
				}
				var early error
				if order == "login between" { // the two commits of a logout
					h.kit.Faulty.Inject(storetest.CommitDocument, 1, func(_ context.Context, do func() error) error { return do() })
				}
				h.kit.Faulty.Inject(storetest.CommitDocument, 1, func(_ context.Context, do func() error) error {
					early = before()
					return do()
				})
				late := after()
				for _, err := range []error{early, late} {
					if err != nil && !errors.Is(err, ErrProviderEnded) {
						t.Error(err)
					}
				}
				if h.is(cookie) != "" {
					t.Error("the login survives the logout")
				}
				// A later login succeeds.
				v, who.SaidAt = someone(), token.IssuedAt.Add(time.Second)
				it = h.begin(asking(h.c), v, StepLogin)
				if err := signIn(); err != nil || h.is(cookie) != "alice" {
					t.Error("a later login is refused:", err)
				}
			})
		}
	}
}

// The provider's time stamps have seconds only. A login in the second of a logout may be
// the one that the provider ended, so it is refused. The next login, which began after the
// logout, is accepted even in the same second. So the browser goes back to the provider
// once, and not again and again until the second is over.
func TestALoginInTheSecondOfAProvidersLogoutIsRefusedOnce(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]ProviderLogout{
		"of the session": {Session: "iss\x00s1"},
		"of the subject": {Subject: "alice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			second := h.now()
			logout := func(id string) {
				t.Helper()
				l := end
				l.ID, l.IssuedAt, l.ExpiresAt = id, second, h.now().Add(2*time.Minute)
				if _, err := h.EndProviderSession(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
			v := someone()
			signIn := func(it *Interaction) error {
				t.Helper()
				who := h.identity("alice")
				who.Provider, who.SaidAt = "iss\x00s1", second
				cookie, err := h.SignIn(t.Context(), it, who, v)
				if (err == nil) != (h.is(cookie) == "alice") {
					t.Errorf("%v, and %q is signed in", err, h.is(cookie))
				}
				return err
			}
			again := func(it *Interaction) *Interaction {
				t.Helper()
				next, err := h.restart(t.Context(), h.again(it, v), v, false)
				if err != nil {
					t.Fatal(err)
				}
				return next
			}
			first, other := h.begin(asking(h.c), v, StepLogin), h.begin(asking(h.c), v, StepLogin)
			logout("j1")
			if err := signIn(first); !errors.Is(err, ErrProviderEnded) {
				t.Fatalf("the login that began before the logout: %v", err)
			}
			next := again(first)
			if err := signIn(next); err != nil {
				t.Fatalf("the login that began after the logout: %v", err)
			}
			// A login that another tab began before the logout is refused like the first.
			if err := signIn(other); !errors.Is(err, ErrProviderEnded) {
				t.Errorf("a login of another tab: %v", err)
			}
			// Another logout in the same second refuses logins again.
			late := again(other)
			logout("j2")
			if err := signIn(late); !errors.Is(err, ErrProviderEnded) {
				t.Errorf("a login before the second logout: %v", err)
			}
			if err := signIn(again(late)); err != nil {
				t.Errorf("a login after the second logout: %v", err)
			}
		})
	}
}
