package login

import (
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// A login without a known time does not satisfy a client's max_age.
func TestALoginOfUnknownTimeIsStale(t *testing.T) {
	h := newFixture(t)
	v := someone()
	it := h.begin(asking(h.c), v, StepLogin)
	who := h.identity("alice")
	who.AuthTime = 0
	cookie, err := h.SignIn(t.Context(), it, who, v)
	if err != nil {
		t.Fatal(err)
	}
	v.Session = cookie
	age := 1_000_000
	st, err := h.Authorize(t.Context(), asking(h.c, func(r *oauth.AuthorizationRequest) { r.MaxAge = &age }), v)
	if err != nil || st.Interaction == nil || st.Interaction.Step != StepLogin || !st.Interaction.Fresh {
		t.Errorf("%+v, %v", st, err)
	}
	// It is accepted for a client without max_age, and the tokens have no auth_time.
	stage, err := h.Proceed(t.Context(), h.again(it, v), v)
	if err != nil || stage.Interaction.Step != StepConsent {
		t.Fatalf("%+v, %v", stage, err)
	}
	tokens, err := h.redeem(h.code(h.allow(t.Context(), h.again(it, v), v, false)))
	if err != nil {
		t.Fatal(err)
	}
	g, err := h.kit.Engine.Grant(t.Context(), tokens.GrantID)
	if err != nil || g.AuthTime != 0 {
		t.Errorf("authenticated at %d, %v", g.AuthTime, err)
	}
}

// The client gets the scope that the consent page shows, even if the client has been
// registered for more since.
func TestTheScopeIsFixedWhenTheUserIsAsked(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	st, err := h.Authorize(t.Context(), asking(h.c, scope("")), v)
	if err != nil {
		t.Fatal(err)
	}
	wider := h.c.Clone()
	wider.Scope, wider.Version = "a b c admin", wider.Version+1
	if err := h.kit.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{wider.Entry()}}); err != nil {
		t.Fatal(err)
	}
	h.kit.Poll()
	h.c = wider
	tokens, err := h.redeem(h.code(h.allow(t.Context(), st.Interaction, v, true)))
	if err != nil || tokens.Scope != "a b c" {
		t.Errorf("granted %q, %v", tokens.Scope, err)
	}
}

// A consent page that was shown to one user cannot be answered by the next user of the
// browser, who has restarted the same interaction.
func TestAPageIsNotAnsweredByTheNextUser(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	shown := h.begin(asking(h.c), v, StepConsent)
	next, err := h.restart(t.Context(), h.again(shown, v), v, true)
	if err != nil {
		t.Fatal(err)
	}
	if v.Session, err = h.SignIn(t.Context(), next, h.identity("bob"), v); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Interaction(t.Context(), shown.ID, v); err != ErrMoved {
		t.Errorf("the earlier page: %v", err)
	}
	if st, err := h.allow(t.Context(), shown, v, true); err == nil || st.URL != "" {
		t.Errorf("answered: %v", err)
	}
	if got := h.recorded("bob", "shop"); got.At != 0 {
		t.Error("a consent is recorded for bob")
	}
	if _, err := h.restart(t.Context(), shown, v, true); err != ErrMoved {
		t.Errorf("restarted twice: %v", err)
	}
	if again, err := h.restart(t.Context(), h.again(next, v), v, false); err != nil || !again.Fresh {
		t.Errorf("the restarted interaction accepts a session of another tab (%v)", err)
	}
}

// A client may begin a grant at each login: many dead grants must not hide an active one.
func TestDeadGrantsHideNoConnection(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000/8 + 1 {
				g := grant.Grant{
					Realm: realm, ClientID: "shop", Subject: "alice", Scope: "a", AuthorizedAt: h.now(), Generation: 1, Version: 1,
					RotatedAt: h.now(), ExpiresAt: h.now().Add(time.Hour), DeleteAfter: h.now().Add(time.Hour), State: grant.Revoked,
				}
				rand.Read(g.ID[:])
				if err := h.kit.Engine.CreateGrant(t.Context(), g); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	bank := h.client(client.Registration{ID: "bank", Settings: store.Settings{Name: "Bank"}})
	code := h.code(h.allow(t.Context(), h.begin(asking(bank, scope("b")), v, StepConsent), v, false))
	if _, err := h.Issuer.Exchange(t.Context(), &bank, issuer.CodeRequest{Code: code, RedirectURI: redirectURI}); err != nil {
		t.Fatal(err)
	}
	s, err := h.Session(t.Context(), v.Session)
	if err != nil {
		t.Fatal(err)
	}
	list, err := h.Connections(t.Context(), s)
	if err != nil || len(list) != 1 || list[0].ClientID != "bank" {
		t.Errorf("%+v, %v", list, err)
	}
	// If there is nothing to end, nothing is written.
	before := h.kit.View()
	if err := h.Disconnect(t.Context(), s, "nothing", grant.Origin{}); err != nil {
		t.Error(err)
	}
	h.kit.Poll()
	if after := h.kit.View(); after != before {
		t.Error("a cutoff was made for nothing")
	}
}

// The longest request that is accepted can be stored, with the longest login.
func TestTheLongestRequestCanBeStored(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	long := func(n int, c byte) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = c
		}
		return string(b)
	}
	uri := "https://client.example/" + long(oauth.MaxRedirectURI-23, '&')
	c := h.client(client.Registration{ID: long(64, 'c'), Settings: store.Settings{Name: "Long", RedirectURIs: []string{uri}}})
	r := asking(c, func(r *oauth.AuthorizationRequest) {
		r.State, r.LoginHint, r.UILocales = []byte(long(8192, '"')), long(255, '<'), long(255, '&')
		r.Prompt.Login = true
	})
	it := h.begin(r, v, StepLogin)
	who := Identity{Subject: long(150, '<'), Name: long(100, '<'), AuthTime: h.now()}
	if _, err := h.AcceptLogin(t.Context(), it.ID, who); err != nil {
		t.Fatal(err)
	}
	it = h.again(it, v)
	if err := h.keepUpstream(t.Context(), it, []byte(`"`+long(600, '<')+`"`)); err != nil {
		t.Fatal(err)
	}
	cookie, err := h.SignIn(t.Context(), it, who, v)
	if err != nil {
		t.Fatal(err)
	}
	v.Session = cookie
	if st, err := h.allow(t.Context(), h.again(it, v), v, true); err != nil || !strings.HasPrefix(st.URL, uri+"?code=") {
		t.Errorf("%.60s, %v", st.URL, err)
	}
}

// Any caller can send a request that is too large for the store. The error must not count
// as a fault of the store, which would be logged as an outage.
func TestARequestThatIsTooLargeIsNoFaultOfTheStore(t *testing.T) {
	h := newFixture(t)
	large := asking(h.c, func(r *oauth.AuthorizationRequest) { r.LoginHint = strings.Repeat("x", store.MaxDocument) })
	if _, err := h.Authorize(t.Context(), large, someone()); err != oauth.ErrTooLarge {
		t.Errorf("asked: %.100v", err)
	}
	if _, err := h.Push(t.Context(), asking(h.c), strings.Repeat("x", store.MaxDocument), someone(), true); err != oauth.ErrTooLarge {
		t.Errorf("pushed: %.100v", err)
	}
	it := h.begin(asking(h.c, func(r *oauth.AuthorizationRequest) { r.LoginHint = strings.Repeat("x", store.MaxDocument-600) }), someone(), StepLogin)
	_, err := h.AcceptLogin(t.Context(), it.ID, Identity{Subject: strings.Repeat("x", oauth.MaxSubject), Name: strings.Repeat("x", oauth.MaxName), Claims: `{"nickname":"` + strings.Repeat("x", 200) + `"}`})
	if !errors.As(err, new(*oauth.Invalid)) {
		t.Errorf("accepted: %.100v", err)
	}
}

// A visitor whose limit is used up still gets a code when no interaction is needed.
func TestALimitedVisitor(t *testing.T) {
	h := newFixture(t)
	v := h.signedIn("alice")
	h.code(h.allow(t.Context(), h.begin(asking(h.c), v, StepConsent), v, true))
	v.Charge = func(int) bool { return false }
	h.code(h.Authorize(t.Context(), asking(h.c), v))
	h.step(time.Second)
	v.Session = ""
	if _, err := h.Authorize(t.Context(), asking(h.c), v); !errors.Is(err, ErrLimited) {
		t.Errorf("%v", err)
	}
	if _, err := h.BeginAccount(t.Context(), v); !errors.Is(err, ErrLimited) {
		t.Errorf("%v", err)
	}
}
