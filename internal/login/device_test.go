package login

import (
	"context"
	"errors"
	"testing"

	"github.com/mintage/mintage/internal/store"
)

// gate blocks the look-ups of user codes until it is opened.
type gate struct {
	store.Store
	arrived chan bool
	open    chan struct{}
}

func (g *gate) Document(ctx context.Context, key store.DocumentKey) (store.Document, error) {
	g.arrived <- true
	<-g.open
	return g.Store.Document(ctx, key)
}

// User codes that are entered concurrently are counted before they are looked up.
// Otherwise all of them would pass the limit.
func TestUserCodesAreCountedBeforeTheyAreLookedUp(t *testing.T) {
	h := newFixture(t)
	const guesses, allowed = 30, 10
	g := &gate{h.kit.Issuer.Store, make(chan bool, guesses), make(chan struct{})}
	h.kit.Issuer.Store = g
	v, errs := h.signedIn("mallory"), make(chan error, guesses)
	for range guesses {
		it, err := h.BeginDevice(t.Context(), v, "BCDF-GHJK")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := h.resume(t.Context(), it, v)
			if errors.Is(err, ErrManyCodes) {
				g.arrived <- false
			}
			errs <- err
		}()
	}
	looked := 0
	for range guesses {
		if <-g.arrived {
			looked++
		}
	}
	close(g.open)
	for range guesses {
		if err := <-errs; !errors.Is(err, ErrManyCodes) && !errors.Is(err, ErrUserCode) {
			t.Error(err)
		}
	}
	if looked != allowed {
		t.Errorf("%d codes were looked up, and %d are allowed", looked, allowed)
	}
}

// A user of another realm with the same subject is a different user.
func TestUserCodesOfAnotherRealmDoNotCount(t *testing.T) {
	h := newFixture(t)
	iss := *h.kit.Issuer
	iss.Realm = "/other"
	other := &fixture{t: t, kit: h.kit, Authorizer: New(&iss, Documents{iss.Realm, iss.Store, iss.Directory, iss.Now})}
	other.Interactions.Lifetime, other.Sessions.Lifetime, other.Idle = h.Interactions.Lifetime, h.Sessions.Lifetime, h.Idle
	enter := func(h *fixture, v Visitor) error {
		it, err := h.BeginDevice(t.Context(), v, "BCDF-GHJK")
		if err == nil {
			_, err = h.resume(t.Context(), it, v)
		}
		return err
	}
	v, theirs := h.signedIn("alice"), other.signedIn("alice")
	for range 10 {
		enter(h, v)
	}
	if err := enter(h, v); !errors.Is(err, ErrManyCodes) {
		t.Errorf("the eleventh: %v", err)
	}
	if err := enter(other, theirs); !errors.Is(err, ErrUserCode) {
		t.Errorf("the first of another realm: %v", err)
	}
}
