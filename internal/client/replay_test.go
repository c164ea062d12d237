package client

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// The memory of used assertions is limited, in total and per client. A client that floods
// the server leaves room for others, and a used assertion is not forgotten while it could
// be presented again.
func TestUsedAssertionsAreBounded(t *testing.T) {
	t.Parallel()
	var u used
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	note := func(clientID, jti string, wantFirst, wantFull bool) {
		t.Helper()
		if first, full := u.note(clientID, jti, now, false); first != wantFirst || full != wantFull {
			t.Fatalf("%s of %s: first %t, full %t", jti, clientID, first, full)
		}
	}
	for _, clientID := range []string{"a", "b", "c", "d"} {
		for i := range maxUsedOfOne {
			note(clientID, strconv.Itoa(i), true, false)
		}
		note(clientID, "one more", false, true)
		note(clientID, "0", false, false)
	}
	if len(u.present) != maxUsed {
		t.Errorf("%d are remembered, and %d is the limit", len(u.present), maxUsed)
	}
	note("e", "0", false, true)
	now = now.Add(usedPeriod)
	note("e", "0", true, false)
	note("a", "0", false, false)
	note("a", "one more", true, false)
	now = now.Add(usedPeriod)
	note("a", "0", true, false) // all assertions from that period have expired
}

// Self-registered clients share a pool of their own: they use no room of an operator's
// client, and leave room for one more self-registered client.
func TestAssertionsOfSelfRegisteredClientsHaveTheirOwnPool(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	a := &Authenticator{Running: func() time.Duration { return time.Hour }}
	use := func(clientID string, by store.Registrar, jti int) error {
		issued, expires := seconds(now), seconds(now.Add(assertionLife))
		return a.use(t.Context(), &store.Client{ID: clientID, RegisteredBy: by}, assertion{ID: strconv.Itoa(jti), IssuedAt: &issued, ExpiresAt: &expires}, now)
	}
	all := 0
	for i := range 20 {
		id, by := "https://agent.example/"+strconv.Itoa(i), []store.Registrar{store.ByDocument, store.ByRequest}[i%2]
		n := 0
		for ; use(id, by, n) == nil; n++ {
			if n > 10_000 {
				t.Fatalf("%s used more than a tenth of the pool", id)
			}
		}
		if err := use(id, by, n); !errors.Is(err, oauth.ErrTooManyRequests) || errors.Is(err, ErrClient) || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("one of %s beyond the limit: %v", id, err)
		}
		if n < 1000 {
			t.Errorf("%s was left only %d", id, n)
		}
		all += n
	}
	if len(a.ownUsed.present) != all || all > maxOwnUsed {
		t.Errorf("%d of %d are remembered, and %d is the limit", len(a.ownUsed.present), all, maxOwnUsed)
	}
	for i := range 50_000 {
		if err := use("orders", store.ByOperator, i); err != nil {
			t.Fatalf("assertion %d of an operator's client: %v", i, err)
		}
	}
}

// A client that has used up its room gets "temporarily unavailable", and not an error
// about its assertion. The limits are those of docs/reference/token-endpoint.md.
func TestAnAssertionBeyondTheLimitIsNotInvalid(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	a := &Authenticator{Running: func() time.Duration { return time.Hour }}
	use := func(clientID, jti string) error {
		issued, expires := seconds(now), seconds(now.Add(assertionLife))
		return a.use(t.Context(), &store.Client{ID: clientID}, assertion{ID: jti, IssuedAt: &issued, ExpiresAt: &expires}, now)
	}
	for i := range 50_000 {
		if err := use("a", strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := use("a", "one more"); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, ErrClient) {
		t.Errorf("one beyond the limit: %v", err)
	}
	if err := use("a", "0"); !errors.Is(err, ErrClient) {
		t.Errorf("one that was used: %v", err)
	}
	if err := use("b", "0"); err != nil {
		t.Errorf("of another client: %v", err)
	}
	now = now.Add(7 * time.Minute)
	if err := use("a", "one more"); err != nil {
		t.Errorf("in the next period: %v", err)
	}
}
