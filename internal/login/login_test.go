package login

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// accept hands over the user of an interaction, and returns the verifier.
func (h *fixture) accept(it *Interaction, who Identity) string {
	h.t.Helper()
	to, err := h.AcceptLogin(h.t.Context(), it.ID, who)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.verifier(it, to)
}

func (h *fixture) verifier(it *Interaction, to string) string {
	h.t.Helper()
	u, err := url.Parse(to)
	if err != nil || !strings.HasPrefix(to, h.ContinueURL+it.ID+"&") || len(u.Query().Get("verifier")) != 43 {
		h.t.Fatalf("sent to %.60s (%v)", to, err)
	}
	return u.Query().Get("verifier")
}

func refusesField(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *oauth.Invalid
	if !errors.As(err, &invalid) || invalid.Field != field {
		t.Errorf("%v, want a fault of %s", err, field)
	}
}

func TestAcceptLoginOnceAndAgain(t *testing.T) {
	h := newFixture(t)
	v := someone()
	it := h.begin(asking(h.c), v, StepLogin)
	who := Identity{Subject: "alice", Name: "Alice", Claims: ` { "tenant" : "t1" } `}
	verifier := h.accept(it, who)
	h.step(time.Minute)
	if again := h.accept(it, who); again != verifier {
		t.Error("accepting the same login again gives another address")
	}
	if compact := (Identity{Subject: "alice", Name: "Alice", Claims: `{"tenant":"t1"}`}); h.accept(it, compact) != verifier {
		t.Error("the same claims with other white space count as another login")
	}
	for name, other := range map[string]Identity{
		"subject": {Subject: "bob", Name: "Alice", Claims: who.Claims}, "name": {Subject: "alice", Claims: who.Claims},
		"claims": {Subject: "alice", Name: "Alice"}, "auth_time": {Subject: "alice", Name: "Alice", Claims: who.Claims, AuthTime: h.now()},
	} {
		if _, err := h.AcceptLogin(t.Context(), it.ID, other); err != ErrAnswered {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if _, err := h.RejectLogin(t.Context(), it.ID, ""); err != ErrAnswered {
		t.Errorf("rejected after it was accepted: %v", err)
	}

	it = h.begin(asking(h.c), v, StepLogin)
	if _, err := h.RejectLogin(t.Context(), it.ID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := h.RejectLogin(t.Context(), it.ID, oauth.AccessDenied); err != nil {
		t.Errorf("rejected again: %v", err)
	}
	if _, err := h.RejectLogin(t.Context(), it.ID, oauth.LoginRequired); err != ErrAnswered {
		t.Errorf("rejected otherwise: %v", err)
	}
	if _, err := h.AcceptLogin(t.Context(), it.ID, who); err != ErrAnswered {
		t.Errorf("accepted after it was rejected: %v", err)
	}
	_, err := h.RejectLogin(t.Context(), h.begin(asking(h.c), v, StepLogin).ID, "invalid_grant")
	refusesField(t, err, "error")
}

// TakeLogin requires the verifier, which AcceptLogin returns to the system that hands the
// login over and which the browser then presents.
func TestTakeLoginNeedsTheVerifier(t *testing.T) {
	h := newFixture(t)
	v := someone()
	it := h.begin(asking(h.c), v, StepLogin)
	if l, err := h.TakeLogin(it, strings.Repeat("A", 43)); l != nil || err != nil {
		t.Errorf("before the handoff: %v, %v", l, err)
	}
	verifier := h.accept(it, Identity{Subject: "alice"})
	it = h.again(it, v)
	if l, err := h.TakeLogin(it, ""); l != nil || err != nil {
		t.Errorf("without the verifier: %v, %v; want no login and no error", l, err)
	}
	other := h.begin(asking(h.c), v, StepLogin)
	foreign := h.accept(other, Identity{Subject: "alice"})
	for name, wrong := range map[string]string{"made up": strings.Repeat("A", 43), "cut": verifier[:42], "longer": verifier + "A", "of another": foreign, "the challenge": it.ID} {
		if l, err := h.TakeLogin(it, wrong); l != nil || err != ErrInteraction {
			t.Errorf("%s: %v, %v", name, l, err)
		}
	}
	l, err := h.TakeLogin(it, verifier)
	if err != nil || l == nil || l.Identity.Subject != "alice" {
		t.Fatalf("%v, %v", l, err)
	}
	// The verifier is valid for one login. It is invalid after the login, and for a
	// restarted interaction.
	cookie, err := h.SignIn(t.Context(), it, *l.Identity, v)
	if err != nil {
		t.Fatal(err)
	}
	v.Session = cookie
	it = h.again(it, v)
	if l, err := h.TakeLogin(it, verifier); l != nil || err != nil {
		t.Errorf("after the login: %v, %v", l, err)
	}
	next, err := h.restart(t.Context(), it, v, true)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := h.TakeLogin(next, verifier); l != nil || err != nil {
		t.Errorf("begun again: %v, %v", l, err)
	}
	if moved, err := h.Interaction(t.Context(), it.ID, v); err != ErrMoved || moved.Next != next.ID {
		t.Errorf("the interaction before the restart: %+v, %v", moved, err)
	}
	if _, err := h.AcceptLogin(t.Context(), it.ID, Identity{Subject: "bob"}); err != ErrAnswered {
		t.Errorf("a login for the interaction before the restart: %v", err)
	}
	if _, err := h.AcceptLogin(t.Context(), next.ID, Identity{Subject: "bob"}); err != nil {
		t.Errorf("another login after it was begun again: %v", err)
	}
}

func TestAcceptLoginAuthTime(t *testing.T) {
	h := newFixture(t)
	v := someone()
	ago := func(d time.Duration) grant.Instant { return h.now().Add(-d) }
	for name, c := range map[string]struct {
		request func(*oauth.AuthorizationRequest)
		at      grant.Instant
		ok      bool
	}{
		"now by default":        {scope(""), 0, true},
		"long ago":              {scope(""), ago(1000 * time.Hour), true},
		"a bit ahead":           {scope(""), ago(-time.Minute), true},
		"in the future":         {scope(""), ago(-time.Minute - time.Millisecond), false},
		"prompt=login, now":     {login, 0, true},
		"prompt=login, skewed":  {login, ago(time.Minute), true},
		"prompt=login, before":  {login, ago(time.Minute + time.Millisecond), false},
		"max_age, within":       {maxAge(300), ago(6 * time.Minute), true},
		"max_age, longer ago":   {maxAge(300), ago(6*time.Minute + time.Millisecond), false},
		"max_age of zero, now":  {maxAge(0), 0, true},
		"max_age of zero, long": {maxAge(0), ago(time.Hour), false},
	} {
		it := h.begin(asking(h.c, c.request), v, StepLogin)
		_, err := h.AcceptLogin(t.Context(), it.ID, Identity{Subject: "alice", AuthTime: c.at})
		if c.ok != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			refusesField(t, err, "auth_time")
		}
	}
	own, err := h.BeginAccount(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.AcceptLogin(t.Context(), own.ID, Identity{Subject: "alice", AuthTime: ago(-2 * time.Minute)})
	refusesField(t, err, "auth_time")
}

func TestAcceptLoginRefusesWhatNoCodeHolds(t *testing.T) {
	h := newFixture(t)
	v := someone()
	it := h.begin(asking(h.c), v, StepLogin)
	for field, who := range map[string]Identity{
		"claims": {Subject: "alice", Claims: `{"x":"` + strings.Repeat("y", issuer.MaxClaims) + `"}`},
		"name":   {Subject: "alice", Name: strings.Repeat("n", oauth.MaxName+1)},
	} {
		_, err := h.AcceptLogin(t.Context(), it.ID, who)
		refusesField(t, err, field)
	}
	own, err := h.BeginAccount(t.Context(), v) // which needs no code
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []Identity{{Subject: ""}, {Subject: "a\x00b"}, {Subject: "\xff"}, {Subject: strings.Repeat("s", 256)}} {
		for _, it := range []*Interaction{it, own} {
			_, err := h.AcceptLogin(t.Context(), it.ID, bad)
			refusesField(t, err, "subject")
		}
	}
	for _, bad := range []Identity{{Subject: "a", Name: "a\nb"}, {Subject: "a", Name: "\xff"}} {
		_, err := h.AcceptLogin(t.Context(), it.ID, bad)
		refusesField(t, err, "name")
	}
	for _, claims := range []string{`{"sub":"root"}`, `[]`, `{`, `{"a":1,"a":2}`} {
		_, err := h.AcceptLogin(t.Context(), it.ID, Identity{Subject: "alice", Claims: claims})
		refusesField(t, err, "claims")
	}
	// Each value is short enough by itself, but together they are too long for a code: the
	// system that hands the login over gets the error, not the user.
	wide := h.client(client.Registration{ID: strings.Repeat("w", 64), Settings: store.Settings{Name: "Wide", Scope: oauth.Scope(strings.Repeat("s", 250))}})
	it = h.begin(asking(wide), v, StepLogin)
	_, err = h.AcceptLogin(t.Context(), it.ID, Identity{Subject: strings.Repeat("s", 255), Claims: `{"x":"` + strings.Repeat("y", 120) + `"}`})
	var invalid *oauth.Invalid
	if !errors.As(err, &invalid) {
		t.Errorf("what does not fit into a code: %v", err)
	}
	if _, err := h.AcceptLogin(t.Context(), it.ID, Identity{Subject: "alice"}); err != nil {
		t.Errorf("a login that fits, afterwards: %v", err)
	}
}

// The system that hands a login over gets an error at once if an id_token cannot contain
// the subject (OpenID Connect Core section 2).
func TestASubjectThatNoIDTokenCanNameIsNotHandedOver(t *testing.T) {
	h := newFixture(t)
	h.relying()
	for wanted, ok := range map[oauth.Scope]bool{"openid a": false, "a": true} {
		it := h.begin(asking(h.c, scope(wanted)), someone(), StepLogin)
		to, err := h.AcceptLogin(t.Context(), it.ID, Identity{Subject: "\u00e5lice"})
		if ok && (err != nil || to == "") {
			t.Errorf("scope %q: %v", wanted, err)
		}
		if !ok {
			refusesField(t, err, "subject")
		}
	}
}

func TestLoginOfAnUnknownOrOldChallenge(t *testing.T) {
	h := newFixture(t)
	v := someone()
	it := h.begin(asking(h.c, login, scope("a")), v, StepLogin)
	l, of, err := h.Login(t.Context(), it.ID)
	if err != nil || of.ID != "shop" || l.ID != it.ID || l.Request.Scope != "a" || !l.Fresh || !l.Request.Prompt.Login ||
		l.CreatedAt != h.now() || l.ExpiresAt.Since(l.CreatedAt) != h.Interactions.Lifetime {
		t.Errorf("%+v of %+v, %v", l, of, err)
	}
	for _, challenge := range []string{"", "x", newID(), it.ID + "A"} {
		_, _, err1 := h.Login(t.Context(), challenge)
		_, err2 := h.AcceptLogin(t.Context(), challenge, Identity{Subject: "alice"})
		_, err3 := h.RejectLogin(t.Context(), challenge, "")
		if err1 != ErrInteraction || err2 != ErrInteraction || err3 != ErrInteraction {
			t.Errorf("challenge of %d characters: %v, %v, %v", len(challenge), err1, err2, err3)
		}
	}
	if _, err := h.deny(t.Context(), h.again(it, v), v, oauth.AccessDenied); clientErrorCode(t, err) != oauth.AccessDenied {
		t.Error(err)
	}
	if _, _, err := h.Login(t.Context(), it.ID); err != ErrAnswered {
		t.Errorf("after the user has cancelled: %v", err)
	}
	if _, err := h.AcceptLogin(t.Context(), it.ID, Identity{Subject: "alice"}); err != ErrAnswered {
		t.Errorf("accepted after the user has cancelled: %v", err)
	}
	it = h.begin(asking(h.c), v, StepLogin)
	h.step(h.Interactions.Lifetime)
	if _, err := h.AcceptLogin(t.Context(), it.ID, Identity{Subject: "alice"}); err != ErrExpired {
		t.Errorf("too late: %v", err)
	}
	gone := h.client(client.Registration{ID: "gone", Settings: store.Settings{Name: "Gone"}})
	it = h.begin(asking(gone), v, StepLogin)
	c := gone.Clone()
	c.State, c.Version = store.ClientDisabled, c.Version+1
	if err := h.kit.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{c.Entry()}}); err != nil {
		t.Fatal(err)
	}
	h.kit.Poll()
	if _, _, err := h.Login(t.Context(), it.ID); err != ErrInteraction {
		t.Errorf("a client that is gone: %v", err)
	}
}

// A password that was changed while the second factor was pending no longer counts.

func TestPasswordStands(t *testing.T) {
	h := newFixture(t)
	present := int64(7)
	h.Alive = func(_ context.Context, username string, epoch int64) (bool, error) {
		return username == "alice" && epoch == present, nil
	}
	it := h.begin(asking(h.c), someone(), StepLogin)
	if err := h.proveMore(t.Context(), it, Proof{Identity: Identity{Username: "alice", Epoch: 7}, Owes: StepSecondFactor}); err != nil || it.Step != StepSecondFactor {
		t.Fatalf("step %s, %v", it.Step, err)
	}
	if err := h.passwordStands(t.Context(), it); err != nil {
		t.Error(err)
	}
	present++
	if err := h.passwordStands(t.Context(), it); err != ErrSignedOut {
		t.Errorf("changed since: %v", err)
	}
}

// TestNobodySignsInAsAClient: the sub of a client's own tokens is its id (RFC 9068 section
// 5), so no user may have that subject, whichever system authenticates the user.
func TestNobodySignsInAsAClient(t *testing.T) {
	for name, who := range map[string]func(h *fixture) Identity{
		"built-in":  func(h *fixture) Identity { h.users(); return h.identity("shop") },
		"upstream":  func(h *fixture) Identity { i := h.identity("shop"); i.Provider = "iss\x00s1"; return i },
		"of a past": func(h *fixture) Identity { return h.identity("gone") },
	} {
		h := newFixture(t)
		h.client(client.Registration{ID: "gone", Settings: store.Settings{Name: "Gone"}})
		h.kit.Administer("gone", func(c *store.Client) { c.State = store.ClientDeleted })
		for _, it := range []*Interaction{h.begin(asking(h.c), someone(), StepLogin), {Request: oauth.AuthorizationRequest{}, Step: StepLogin}} {
			cookie, err := h.SignIn(t.Context(), it, who(h), someone())
			if !errors.Is(err, ErrSubject) || cookie != "" {
				t.Errorf("%s: %v", name, err)
			}
			refusesField(t, err, "subject")
		}
	}
	// The handoff fails at once, even for a self-registered client, of which no code can
	// be tried because its document is read after the login.
	h := newFixture(t)
	h.agents(redirectURI)
	h.api("https://mcp.example", 1, true, "use", "use")
	for _, r := range []oauth.AuthorizationRequest{asking(h.c), asAgent(redirectURI)} {
		it := h.begin(r, someone(), StepLogin)
		_, err := h.AcceptLogin(t.Context(), it.ID, Identity{Subject: "shop"})
		refusesField(t, err, "subject")
		if to, err := h.AcceptLogin(t.Context(), it.ID, Identity{Subject: "alice"}); err != nil || to == "" {
			t.Errorf("another subject: %v", err)
		}
	}
}
