package issuer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// windows are retry windows with which every fault of a write is tried: what
// becomes of a write does not depend on them.
var windows = map[string]func(*issuer.Issuer){
	"retry window of two minutes": func(iss *issuer.Issuer) { iss.Policy.RetryWindow = 2 * time.Minute },
	"no retry window":             noRetryWindow,
}

func underWindows(t *testing.T, f func(t *testing.T, s *service)) {
	t.Helper()
	for name, window := range windows {
		t.Run(name, func(t *testing.T) { f(t, newService(t, window)) })
	}
}

func TestARedemptionThatFailedAndDidNotHappenCanBeTriedAgain(t *testing.T) {
	underWindows(t, func(t *testing.T, s *service) {
		for _, fault := range []storetest.Fault{storetest.Lost, storetest.Full} {
			code := s.code()
			for range 3 {
				s.Faulty.Inject(storetest.CreateGrant, 1, fault)
				s.unavailable(s.exchange(code))
			}
			s.must(s.refresh(s.must(s.exchange(code)).RefreshToken))
		}
	})
}

func TestARedemptionThatFailedAndHappenedIsSuccess(t *testing.T) {
	underWindows(t, func(t *testing.T, s *service) {
		s.Faulty.Inject(storetest.CreateGrant, 1, storetest.Unanswered)
		code := s.code()
		tokens := s.must(s.exchange(code))
		s.active(tokens.GrantID, 1)
		s.must(s.refresh(tokens.RefreshToken))
		// RFC 6749 section 4.1.2: the answer of a code is not repeatable.
		s.refused(grant.CodeReplayed)(s.exchange(code))
		s.revoked(tokens.GrantID, grant.ReasonCodeReplayed, store.EventCodeReplayed)
	})
}

func TestARotationThatFailedAndDidNotHappenCanBeTriedAgain(t *testing.T) {
	underWindows(t, func(t *testing.T, s *service) {
		for _, fault := range []storetest.Fault{storetest.Lost, storetest.Full} {
			tokens := s.login()
			for range 3 {
				s.Faulty.Inject(storetest.UpdateGrant, 1, fault)
				s.unavailable(s.refresh(tokens.RefreshToken))
				s.active(tokens.GrantID, 1)
			}
			if next := s.must(s.refresh(tokens.RefreshToken)); next.Repeated || next.Generation != 2 {
				t.Errorf("generation %d, repeated %t", next.Generation, next.Repeated)
			}
		}
	})
}

func TestARotationThatFailedAndHappenedIsSuccess(t *testing.T) {
	underWindows(t, func(t *testing.T, s *service) {
		tokens := s.login()
		s.Faulty.Inject(storetest.UpdateGrant, 1, storetest.Unanswered)
		next := s.must(s.refresh(tokens.RefreshToken))
		s.active(tokens.GrantID, 2)
		if s.Policy.RetryWindow > 0 {
			s.samePair(next, s.must(s.refresh(tokens.RefreshToken)))
			s.must(s.refresh(next.RefreshToken))
		} else {
			s.refused(grant.RefreshReplayed)(s.refresh(tokens.RefreshToken))
		}
	})
}

func TestTheSearchForAWriteOfUnknownOutcomeOutlastsReadsThatFail(t *testing.T) {
	s := newService(t)
	tokens := s.login()
	fault := func(ctx context.Context, do func() error) error {
		s.Faulty.Inject(storetest.Grant, 3, storetest.Lost)
		return storetest.Unanswered(ctx, do)
	}
	s.Faulty.Inject(storetest.UpdateGrant, 1, fault)
	s.must(s.refresh(tokens.RefreshToken))
	s.Faulty.Inject(storetest.CreateGrant, 1, fault)
	s.login()
}

func TestTheSearchForAWriteOfUnknownOutcomeEndsWithTheRequest(t *testing.T) {
	s := newService(t)
	tokens := s.login()
	for name, fault := range map[string]storetest.Fault{"lost": storetest.Lost, "unanswered": storetest.Unanswered, "hanging": storetest.Hangs} {
		t.Run(name, func(t *testing.T) {
			s.Faulty.Inject(storetest.UpdateGrant, 1, func(ctx context.Context, do func() error) error {
				s.Faulty.Inject(storetest.Grant, 1000, storetest.Lost)
				return fault(ctx, do)
			})
			s.unavailable(s.Refresh(s.deadline(), s.client(clientID), issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, From: origin}))
			s.Faulty.Heal()
			// Whatever had become of it, the client has lost nothing.
			tokens = s.must(s.refresh(tokens.RefreshToken))
		})
	}
}

func TestAWriteOfUnknownOutcomeIsNotTakenForAReplay(t *testing.T) {
	s := newService(t)
	tokens := s.login()
	var second issuer.Tokens
	s.Faulty.Inject(storetest.UpdateGrant, 1, func(context.Context, func() error) error {
		// It did not happen, but the same request through another node did.
		second = s.must(s.refresh(tokens.RefreshToken))
		return storetest.ErrInjected
	})
	s.unavailable(s.refresh(tokens.RefreshToken))
	s.active(tokens.GrantID, 2)
	s.samePair(second, s.must(s.refresh(tokens.RefreshToken)))

	// It happened, and its successor was used since.
	tokens = s.login()
	s.Faulty.Inject(storetest.UpdateGrant, 1, func(_ context.Context, do func() error) error {
		err := do()
		s.must(s.refresh(s.must(s.refresh(tokens.RefreshToken)).RefreshToken))
		return errors.Join(storetest.ErrInjected, err)
	})
	s.unavailable(s.refresh(tokens.RefreshToken))
	s.active(tokens.GrantID, 3)
}

func TestAReplayIsRevokedBeforeItIsRefusedEvenIfTheStoreFails(t *testing.T) {
	t.Parallel()
	type replay func(*service) (id grant.ID, again func() (issuer.Tokens, error))
	replays := map[string]struct {
		set     replay
		refusal grant.Refusal
		reason  grant.Reason
		event   store.EventName
		after   grant.Refusal // once it is revoked
	}{
		"of a code": {func(s *service) (grant.ID, func() (issuer.Tokens, error)) {
			code := s.code()
			return s.must(s.exchange(code)).GrantID, func() (issuer.Tokens, error) { return s.exchange(code) }
		}, grant.CodeReplayed, grant.ReasonCodeReplayed, store.EventCodeReplayed, grant.CodeReplayed},
		"of an expired code": {func(s *service) (grant.ID, func() (issuer.Tokens, error)) {
			code := s.code()
			tokens := s.must(s.exchange(code))
			s.Clock.Advance(time.Hour)
			return tokens.GrantID, func() (issuer.Tokens, error) { return s.exchange(code) }
		}, grant.CodeReplayed, grant.ReasonCodeReplayed, store.EventCodeReplayed, grant.CodeReplayed},
		"of a refresh token": {func(s *service) (grant.ID, func() (issuer.Tokens, error)) {
			first := s.login()
			second := s.must(s.refresh(first.RefreshToken))
			s.must(s.refresh(second.RefreshToken))
			return first.GrantID, func() (issuer.Tokens, error) { return s.refresh(first.RefreshToken) }
		}, grant.RefreshReplayed, grant.ReasonRefreshReplayed, store.EventRefreshReplayed, grant.GrantRevoked},
	}
	for name, r := range replays {
		t.Run(name+", failed and not applied", func(t *testing.T) {
			s := newService(t)
			id, again := r.set(s)
			for _, fault := range []storetest.Fault{storetest.Lost, storetest.Full} {
				s.Faulty.Inject(storetest.UpdateGrant, 1, fault)
				s.unavailable(again())
				if s.row(id).State != grant.Active {
					t.Fatal("revoked by a write that did not happen")
				}
			}
			s.refused(r.refusal)(again())
			s.revoked(id, r.reason, r.event)
		})
		t.Run(name+", failed and applied", func(t *testing.T) {
			s := newService(t)
			id, again := r.set(s)
			s.Faulty.Inject(storetest.UpdateGrant, 1, storetest.Unanswered)
			s.unavailable(again())
			s.revoked(id, r.reason, r.event)
			s.refused(r.after)(again())
			s.revoked(id, r.reason, r.event)
		})
	}
}

func TestARefreshThatLosesToARevocationIsRefused(t *testing.T) {
	s := newService(t)
	tokens := s.login()
	s.Faulty.Inject(storetest.UpdateGrant, 1, storetest.Meanwhile(func() {
		d := s.row(tokens.GrantID).Revoke(grant.ReasonOperator)
		if err := storetest.Replace(t.Context(), s.Engine, d.Next); err != nil {
			t.Error(err)
		}
	}))
	s.refused(grant.GrantRevoked)(s.refresh(tokens.RefreshToken))
	if g := s.row(tokens.GrantID); g.State != grant.Revoked || g.Generation != 1 {
		t.Errorf("the grant is %s, generation %d", g.State, g.Generation)
	}
}

func TestARefreshWhoseGrantIsSweptInThisMoment(t *testing.T) {
	s := newService(t)
	tokens := s.login()
	s.Faulty.Inject(storetest.UpdateGrant, 1, storetest.Meanwhile(func() {
		if _, deleted, err := s.Engine.Sweep(t.Context(), store.SweptGrants, "", 1<<47, 10); err != nil || deleted != 1 {
			t.Errorf("swept %d, %v", deleted, err)
		}
	}))
	// Rows outlast tokens: this one must not have been deleted.
	s.refused(grant.StoreBehind)(s.refresh(tokens.RefreshToken))
}

func TestAFullStoreIsNotAskedAgain(t *testing.T) {
	s := newService(t)
	tokens := s.login()
	s.Faulty.Calls()
	s.Faulty.Inject(storetest.UpdateGrant, 1, storetest.Full)
	s.unavailable(s.refresh(tokens.RefreshToken))
	if calls := s.Faulty.Calls(); calls[storetest.Grant] != 0 || calls[storetest.UpdateGrant] != 1 {
		t.Errorf("calls %v: what was surely not written needs no search", calls)
	}
	code := s.code()
	s.Faulty.Inject(storetest.CreateGrant, 1, storetest.Full)
	s.unavailable(s.exchange(code))
	if calls := s.Faulty.Calls(); calls[storetest.Grant] != 0 || calls[storetest.CreateGrant] != 1 {
		t.Errorf("calls %v: a grant that was surely not created needs no search", calls)
	}
}

// The store may decide still, on another goroutine, when the request's time is
// over: what it has decided until then must not be read.
func TestAWriteIsNotSearchedForOnceItsRequestHasEnded(t *testing.T) {
	s := newService(t)
	tokens := s.login()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Faulty.Inject(storetest.UpdateGrant, 1, func(_ context.Context, do func() error) error {
		err := do()
		cancel()
		return errors.Join(storetest.ErrInjected, err)
	})
	s.Faulty.Calls()
	s.unavailable(s.Refresh(ctx, s.client(clientID), issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, From: origin}))
	if calls := s.Faulty.Calls(); calls[storetest.Grant] != 0 {
		t.Errorf("calls %v", calls)
	}
	s.active(tokens.GrantID, 2)
	s.must(s.refresh(tokens.RefreshToken))
}

func TestAPanicInTheStoreLeavesNoLockBehind(t *testing.T) {
	for _, m := range []storetest.Method{storetest.UpdateGrant, storetest.CreateGrant, storetest.Changes} {
		t.Run(string(m), func(t *testing.T) {
			s := newService(t)
			tokens := s.login()
			s.Faulty.Inject(m, 1, storetest.Panics)
			caught := func() (v any) {
				defer func() { v = recover() }()
				s.refresh(tokens.RefreshToken)
				s.exchange(s.code())
				s.Directory.Poll(t.Context())
				return nil
			}()
			if fmt.Sprint(caught) != "injected panic" {
				t.Fatalf("recovered %v", caught)
			}
			s.Poll()
			s.must(s.refresh(tokens.RefreshToken))
			s.login()
		})
	}
}

func TestIssuingACodeNeedsNothingOfTheStore(t *testing.T) {
	s := newService(t)
	for _, m := range storetest.Methods {
		s.Faulty.Inject(m, 10, storetest.Lost)
	}
	code := s.code()
	s.Faulty.Heal()
	s.must(s.exchange(code))
}
