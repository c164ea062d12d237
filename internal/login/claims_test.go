package login

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// handOff logs a subject in by handoff, with claims, and returns the visitor.
func (h *fixture) handOff(subject, claims string) Visitor {
	h.t.Helper()
	v := someone()
	it := h.begin(asking(h.c), v, StepLogin)
	verifier := h.accept(it, Identity{Subject: subject, Claims: claims})
	it = h.again(it, v)
	said, err := h.TakeLogin(it, verifier)
	if err != nil || said == nil {
		h.t.Fatalf("%v, %v", said, err)
	}
	if v.Session, err = h.SignIn(h.t.Context(), it, *said.Identity, v); err != nil {
		h.t.Fatal(err)
	}
	if it.Identity.Standard != "" {
		h.t.Error("the interaction of a signed-in user holds the user's claims")
	}
	return v
}

func (h *fixture) known(subject string) string {
	h.t.Helper()
	c, err := h.Claims(h.t.Context(), subject)
	if err != nil {
		h.t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

func TestTheLatestLoginSetsTheClaims(t *testing.T) {
	h := newFixture(t)
	version := func() int64 {
		t.Helper()
		d, err := h.kit.Engine.Document(t.Context(), store.ClaimsKey(realm, "alice"))
		if errors.Is(err, store.ErrNotFound) {
			return 0
		}
		if err != nil {
			t.Fatal(err)
		}
		return d.Version
	}
	const said = `{"email":"alice@example.com","email_verified":true}`
	for _, step := range []struct {
		about, claims, want string
		version             int64
	}{
		{"nothing", "", "null", 0},
		{"what tokens carry", `{"tenant":"t1"}`, "null", 0},
		{"standard claims", said, said, 1},
		{"the same", `{"tenant":"t1", "email_verified":true,"email":"alice@example.com"}`, said, 1},
		{"others", `{"name":"Alice"}`, `{"name":"Alice"}`, 2},
		{"none any more", `{"tenant":"t1"}`, "null", 0},
		{"some again", said, said, 1},
	} {
		h.handOff("alice", step.claims)
		if got := h.known("alice"); got != step.want || version() != step.version {
			t.Errorf("%s: %s in version %d, want %s in %d", step.about, got, version(), step.want, step.version)
		}
	}
	if got := h.known("bob"); got != "null" {
		t.Errorf("another subject: %s", got)
	}
	h.kit.Faulty.Inject(storetest.Document, 1, storetest.Lost)
	if c, err := h.Claims(t.Context(), "alice"); c != nil || err == nil {
		t.Errorf("while the store fails: %v, %v", c, err)
	}
}

// A login with claims makes as many durable writes as any other. Its session holds only
// the claims that tokens contain.
func TestClaimsOfALoginCostNoWrite(t *testing.T) {
	h := newFixture(t)
	count := func(claims string) (writes int) {
		h.kit.Faulty.Calls()
		h.handOff("alice", claims)
		for m, n := range h.kit.Faulty.Calls() {
			if m != storetest.Document && m != storetest.Changes {
				writes += n
			}
		}
		return writes
	}
	plain := count("")
	for about, claims := range map[string]string{"new": `{"email":"a@example.com"}`, "the same": `{"email":"a@example.com"}`, "changed": `{"email":"b@example.com"}`} {
		if n := count(claims); n != plain {
			t.Errorf("%s: %d writes, and %d without claims", about, n, plain)
		}
	}
	v := h.handOff("alice", `{"tenant":"t1","email":"alice@example.com"}`)
	s, err := h.Session(t.Context(), v.Session)
	if err != nil || s.Claims != `{"tenant":"t1"}` || s.Standard != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestClaimsAreSealedForTheirSubject(t *testing.T) {
	h := newFixture(t)
	h.handOff("alice", `{"email":"alice@example.com"}`)
	d, err := h.kit.Engine.Document(t.Context(), store.ClaimsKey(realm, "alice"))
	if err != nil || strings.Contains(string(d.Body), "alice") || d.Owner != store.OwnerOf(realm, "alice") || d.Kind != store.DocumentClaims {
		t.Fatalf("%+v, %v", d, err)
	}
	// A document of another subject, or one whose key is deleted, has no effect. The next
	// login replaces it.
	d.Key, d.Owner = store.ClaimsKey(realm, "bob"), store.OwnerOf(realm, "bob")
	if err := h.kit.Engine.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
		t.Fatal(err)
	}
	if got := h.known("bob"); got != "null" {
		t.Errorf("%s", got)
	}
	h.handOff("bob", `{"email":"bob@example.com"}`)
	if got := h.known("bob"); got != `{"email":"bob@example.com"}` {
		t.Errorf("after a login: %s", got)
	}
}

func TestABuiltInUserHasNoDocumentOfClaims(t *testing.T) {
	h := newFixture(t)
	h.users()
	v := someone()
	it := h.begin(asking(h.c), v, StepLogin)
	who := h.identity("alice")
	who.Standard = `{"email":"alice@example.com"}`
	h.kit.Faulty.Calls()
	if _, err := h.SignIn(t.Context(), it, who, v); err != nil {
		t.Fatal(err)
	}
	if n := h.kit.Faulty.Calls()[storetest.Document]; n != 0 {
		t.Errorf("%d reads", n)
	}
	if got := h.known("alice"); got != "null" {
		t.Errorf("%s", got)
	}
}

// An interleaved store calls before ahead of a commit of claims.
type interleaved struct {
	store.Store
	before func()
}

func (s *interleaved) Commit(ctx context.Context, c store.Change) error {
	if before := s.before; before != nil && slices.ContainsFunc(c.Documents, func(d store.Document) bool { return d.Kind == store.DocumentClaims }) {
		s.before = nil
		before()
	}
	return s.Store.Commit(ctx, c)
}

// Two concurrent logins both succeed, and the claims are those of one of them.
func TestConcurrentLoginsWithClaims(t *testing.T) {
	h := newFixture(t)
	h.handOff("alice", `{"email":"a@example.com"}`)
	between := &interleaved{h.Issuer.Store, func() { h.handOff("alice", `{"email":"b@example.com"}`) }}
	h.Interactions.Store = between
	h.handOff("alice", `{"email":"c@example.com"}`)
	if got := h.known("alice"); between.before != nil || got != `{"email":"c@example.com"}` {
		t.Errorf("%s, interleaved %t", got, between.before == nil)
	}
}

// A session may be older than the rule that tokens contain no standard claim. It still
// gets codes, without such claims.
func TestASessionOfAnEarlierVersionLosesStandardClaims(t *testing.T) {
	h := newFixture(t)
	v := someone()
	who := h.identity("alice")
	who.Claims = `{"email":"a@example.com","tenant":"t1"}`
	v.Session = h.session(who)
	h.record("alice", "shop", "a b c", true)
	h.code(h.Authorize(t.Context(), asking(h.c), v))
}
