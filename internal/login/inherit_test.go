package login

import (
	"errors"
	"testing"
)

func TestInteractionsUnderWayCountOnUnderAnotherConfiguration(t *testing.T) {
	h := newHouse(t)
	h.pending = pending{stretch: int64(h.now()) / h.InteractionLifetime.Milliseconds(), young: begun{kilobytes: maxPending}}
	next := &Authorizer{
		Issuer: h.Issuer, InteractionLifetime: h.InteractionLifetime,
		SessionLifetime: h.SessionLifetime, SessionIdle: h.SessionIdle, ContinueURL: h.ContinueURL,
	}
	if _, err := next.Authorize(t.Context(), asking(h.c), someone()); err != nil {
		t.Fatalf("before: %v", err)
	}
	next.Inherit(h.Authorizer)
	if _, err := next.Authorize(t.Context(), asking(h.c), someone()); !errors.Is(err, ErrCrowded) {
		t.Errorf("%v, want that there are too many", err)
	}
}
