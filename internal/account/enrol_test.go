package account

import (
	"encoding/base32"
	"errors"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// factor creates the secret of a second factor for a user, and returns it sealed, with
// the current code.
func (h *fixture) factor(username string) (sealed []byte, code string) {
	h.t.Helper()
	sealed, err := h.NewFactor(username)
	if err != nil {
		h.t.Fatal(err)
	}
	text, uri, err := h.ShowFactor(username, "Example", sealed)
	if err != nil {
		h.t.Fatal(err)
	}
	secret, err := base32.StdEncoding.DecodeString(text)
	if err != nil || len(secret) != totpSecret || !strings.Contains(uri, "secret="+text) {
		h.t.Fatalf("a secret of %d bytes, %v", len(secret), err)
	}
	return sealed, oneTimeCode(secret, int64(h.clock())/totpPeriod.Milliseconds())
}

func (h *fixture) confirm(username string, sealed []byte, code string) error {
	_, err := h.ConfirmFactor(h.t.Context(), username, sealed, code, Visitor{Address: home}, func(u User, at grant.Instant) store.Change {
		return store.Change{Events: []store.Event{{At: at, Name: store.EventTOTPSet, About: store.AboutSubject(u.Subject), Actor: "test"}}}
	})
	return err
}

// A user without a second factor enrols one, once. Sessions end, and the code is spent.
func TestAUserEnrolsASecondFactor(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	u := h.add("alice")
	sealed, code := h.factor("Alice")
	_, other := h.factor("alice")
	if other == code {
		t.Errorf("two secrets have the code %s", code)
	}
	h.is("wrong", h.confirm("alice", sealed, other), "a code of another secret")
	if sealed, code := h.factor("bob"); h.confirm("alice", sealed, code) == nil {
		t.Error("another user's secret")
	}
	h.faulty.Inject(storetest.Document, 1, storetest.Lost)
	h.is("unavailable", h.confirm("alice", sealed, code), "a store that cannot be read")
	if h.stored("alice").TOTP != nil {
		t.Fatal("a second factor is set that was not confirmed")
	}
	if err := h.confirm("alice", sealed, code); err != nil {
		t.Fatal(err)
	}
	next := h.stored("alice")
	if next.TOTP == nil || next.Epoch != u.Epoch+1 || next.SessionsEnd != h.clock() {
		t.Errorf("epoch %d, sessions ended at %d", next.Epoch, next.SessionsEnd)
	}
	if events, err := h.faulty.Events(t.Context(), store.AboutSubject("s-alice"), 10); len(events) != 1 || err != nil {
		t.Errorf("%d events, %v", len(events), err)
	}
	_, err := h.SecondFactor(t.Context(), "alice", code, Visitor{Address: elsewhere})
	h.is("wrong", err, "the same code at a login")

	sealed, code = h.factor("alice")
	if err := h.confirm("alice", sealed, code); !errors.Is(err, ErrHasFactor) || string(h.stored("alice").TOTP) != string(next.TOTP) {
		t.Errorf("a second factor in the place of one: %v", err)
	}
}

func TestOnlyAnEnabledUserEnrols(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.put(h.add("alice").Disable(started))
	for _, name := range []string{"alice", "bob", strings.Repeat("x", MaxUsername+1)} {
		sealed, code := h.factor(name)
		h.is("wrong", h.confirm(name, sealed, code), name)
		_, err := h.Present(t.Context(), name)
		h.is("wrong", err, name)
	}
	h.add("carol")
	if a, err := h.Present(t.Context(), " Carol"); err != nil || a.Subject != "s-carol" || a.SecondFactor {
		t.Errorf("%+v, %v", a, err)
	}
}

// With an invitation, codes can be guessed no more often than with a password.
func TestCodesOfAnEnrolmentAreCounted(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.add("alice")
	sealed, code := h.factor("alice")
	h.faulty.Inject(storetest.Document, 2*DefaultFailures, storetest.Lost)
	for range 2 * DefaultFailures {
		h.is("unavailable", h.confirm("alice", sealed, code), "a store that cannot be read")
	}
	for range DefaultFailures {
		h.is("wrong", h.confirm("alice", sealed, "no code"), "a guess")
	}
	h.is("throttled", h.confirm("alice", sealed, code), "the code")
	h.advance(codeLimits(DefaultFailures).network.Every)
	_, code = h.factor("alice")
	h.is("wrong", h.confirm("alice", sealed, code), "a guess after a pause")
}
