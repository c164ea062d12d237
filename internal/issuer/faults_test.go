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
	"github.com/mintage/mintage/internal/testkit"
)

// windows are the retry windows with which every write fault is tested: the result must
// not depend on them.
var windows = map[string]func(*issuer.Issuer){
	"retry window of two minutes": func(iss *issuer.Issuer) { iss.Policy.RetryWindow = 2 * time.Minute },
	"no retry window":             testkit.NoRetryWindow,
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
			code := s.NewCode()
			for range 3 {
				s.Faulty.Inject(storetest.CreateGrant, 1, fault)
				s.Unavailable(s.Redeem(code))
			}
			s.Must(s.Renew(s.Must(s.Redeem(code)).RefreshToken))
		}
	})
}

func TestARedemptionThatFailedAndHappenedIsSuccess(t *testing.T) {
	underWindows(t, func(t *testing.T, s *service) {
		s.Faulty.Inject(storetest.CreateGrant, 1, storetest.Unanswered)
		code := s.NewCode()
		tokens := s.Must(s.Redeem(code))
		s.WantActive(tokens.GrantID, 1)
		s.Must(s.Renew(tokens.RefreshToken))
		// RFC 6749 section 4.1.2: a code is used once, so no answer is repeated.
		s.Refused(grant.CodeReplayed)(s.Redeem(code))
		s.revoked(tokens.GrantID, grant.ReasonCodeReplayed, store.EventCodeReplayed)
	})
}

func TestARotationThatFailedAndDidNotHappenCanBeTriedAgain(t *testing.T) {
	underWindows(t, func(t *testing.T, s *service) {
		for _, fault := range []storetest.Fault{storetest.Lost, storetest.Full} {
			tokens := s.Login()
			for range 3 {
				s.Faulty.Inject(storetest.UpdateGrant, 1, fault)
				s.Unavailable(s.Renew(tokens.RefreshToken))
				s.WantActive(tokens.GrantID, 1)
			}
			if next := s.Must(s.Renew(tokens.RefreshToken)); next.Repeated || next.Generation != 2 {
				t.Errorf("generation %d, repeated %t", next.Generation, next.Repeated)
			}
		}
	})
}

func TestARotationThatFailedAndHappenedIsSuccess(t *testing.T) {
	underWindows(t, func(t *testing.T, s *service) {
		tokens := s.Login()
		s.Faulty.Inject(storetest.UpdateGrant, 1, storetest.Unanswered)
		next := s.Must(s.Renew(tokens.RefreshToken))
		s.WantActive(tokens.GrantID, 2)
		if s.Policy.RetryWindow > 0 {
			s.SamePair(next, s.Must(s.Renew(tokens.RefreshToken)))
			s.Must(s.Renew(next.RefreshToken))
		} else {
			s.Refused(grant.RefreshReplayed)(s.Renew(tokens.RefreshToken))
		}
	})
}

func TestTheSearchForAWriteOfUnknownOutcomeOutlastsReadsThatFail(t *testing.T) {
	s := newService(t)
	tokens := s.Login()
	fault := func(ctx context.Context, do func() error) error {
		s.Faulty.Inject(storetest.Grant, 3, storetest.Lost)
		return storetest.Unanswered(ctx, do)
	}
	s.Faulty.Inject(storetest.UpdateGrant, 1, fault)
	s.Must(s.Renew(tokens.RefreshToken))
	s.Faulty.Inject(storetest.CreateGrant, 1, fault)
	s.Login()
}

func TestTheSearchForAWriteOfUnknownOutcomeEndsWithTheRequest(t *testing.T) {
	s := newService(t)
	tokens := s.Login()
	for name, fault := range map[string]storetest.Fault{"lost": storetest.Lost, "unanswered": storetest.Unanswered, "hanging": storetest.Hangs} {
		t.Run(name, func(t *testing.T) {
			s.Faulty.Inject(storetest.UpdateGrant, 1, func(ctx context.Context, do func() error) error {
				s.Faulty.Inject(storetest.Grant, 1000, storetest.Lost)
				return fault(ctx, do)
			})
			s.Unavailable(s.Refresh(s.ShortContext(), s.Listed(clientID), issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, From: testkit.Origin}))
			s.Faulty.Heal()
			// Whatever the write's outcome, the client still refreshes with its token.
			tokens = s.Must(s.Renew(tokens.RefreshToken))
		})
	}
}

func TestAWriteOfUnknownOutcomeIsNotTakenForAReplay(t *testing.T) {
	s := newService(t)
	tokens := s.Login()
	var second issuer.Tokens
	s.Faulty.Inject(storetest.UpdateGrant, 1, func(context.Context, func() error) error {
		// The write did not happen, but the same request through another node succeeded.
		second = s.Must(s.Renew(tokens.RefreshToken))
		return storetest.ErrInjected
	})
	s.Unavailable(s.Renew(tokens.RefreshToken))
	s.WantActive(tokens.GrantID, 2)
	s.SamePair(second, s.Must(s.Renew(tokens.RefreshToken)))

	// The write happened, and its successor has been used since.
	tokens = s.Login()
	s.Faulty.Inject(storetest.UpdateGrant, 1, func(_ context.Context, do func() error) error {
		err := do()
		s.Must(s.Renew(s.Must(s.Renew(tokens.RefreshToken)).RefreshToken))
		return errors.Join(storetest.ErrInjected, err)
	})
	s.Unavailable(s.Renew(tokens.RefreshToken))
	s.WantActive(tokens.GrantID, 3)
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
			code := s.NewCode()
			return s.Must(s.Redeem(code)).GrantID, func() (issuer.Tokens, error) { return s.Redeem(code) }
		}, grant.CodeReplayed, grant.ReasonCodeReplayed, store.EventCodeReplayed, grant.CodeReplayed},
		"of an expired code": {func(s *service) (grant.ID, func() (issuer.Tokens, error)) {
			code := s.NewCode()
			tokens := s.Must(s.Redeem(code))
			s.Clock.Advance(time.Hour)
			return tokens.GrantID, func() (issuer.Tokens, error) { return s.Redeem(code) }
		}, grant.CodeReplayed, grant.ReasonCodeReplayed, store.EventCodeReplayed, grant.CodeReplayed},
		"of a refresh token": {func(s *service) (grant.ID, func() (issuer.Tokens, error)) {
			first := s.Login()
			second := s.Must(s.Renew(first.RefreshToken))
			s.Must(s.Renew(second.RefreshToken))
			return first.GrantID, func() (issuer.Tokens, error) { return s.Renew(first.RefreshToken) }
		}, grant.RefreshReplayed, grant.ReasonRefreshReplayed, store.EventRefreshReplayed, grant.GrantRevoked},
	}
	for name, r := range replays {
		t.Run(name+", failed and not applied", func(t *testing.T) {
			s := newService(t)
			id, again := r.set(s)
			for _, fault := range []storetest.Fault{storetest.Lost, storetest.Full} {
				s.Faulty.Inject(storetest.UpdateGrant, 1, fault)
				s.Unavailable(again())
				if s.Row(id).State != grant.Active {
					t.Fatal("revoked by a write that did not happen")
				}
			}
			s.Refused(r.refusal)(again())
			s.revoked(id, r.reason, r.event)
		})
		t.Run(name+", failed and applied", func(t *testing.T) {
			s := newService(t)
			id, again := r.set(s)
			s.Faulty.Inject(storetest.UpdateGrant, 1, storetest.Unanswered)
			s.Unavailable(again())
			s.revoked(id, r.reason, r.event)
			s.Refused(r.after)(again())
			s.revoked(id, r.reason, r.event)
		})
	}
}

func TestARefreshThatLosesToARevocationIsRefused(t *testing.T) {
	s := newService(t)
	tokens := s.Login()
	s.Faulty.Inject(storetest.UpdateGrant, 1, storetest.Meanwhile(func() {
		d := s.Row(tokens.GrantID).Revoke(grant.ReasonOperator)
		if err := storetest.Replace(t.Context(), s.Engine, d.Next); err != nil {
			t.Error(err)
		}
	}))
	s.Refused(grant.GrantRevoked)(s.Renew(tokens.RefreshToken))
	if g := s.Row(tokens.GrantID); g.State != grant.Revoked || g.Generation != 1 {
		t.Errorf("the grant is %s, generation %d", g.State, g.Generation)
	}
}

func TestARefreshWhoseGrantIsSweptDuringTheRequest(t *testing.T) {
	s := newService(t)
	tokens := s.Login()
	s.Faulty.Inject(storetest.UpdateGrant, 1, storetest.Meanwhile(func() {
		if _, deleted, err := s.Engine.Sweep(t.Context(), store.SweptGrants, "", 1<<47, 10); err != nil || deleted != 1 {
			t.Errorf("swept %d, %v", deleted, err)
		}
	}))
	// Rows are kept longer than their tokens live, so a missing row means that the store
	// has lost commits.
	s.Refused(grant.StoreBehind)(s.Renew(tokens.RefreshToken))
}

func TestAFullStoreIsNotCalledAgain(t *testing.T) {
	s := newService(t)
	tokens := s.Login()
	s.Faulty.Calls()
	s.Faulty.Inject(storetest.UpdateGrant, 1, storetest.Full)
	s.Unavailable(s.Renew(tokens.RefreshToken))
	if calls := s.Faulty.Calls(); calls[storetest.Grant] != 0 || calls[storetest.UpdateGrant] != 1 {
		t.Errorf("calls %v: a write that surely failed must not be searched for", calls)
	}
	code := s.NewCode()
	s.Faulty.Inject(storetest.CreateGrant, 1, storetest.Full)
	s.Unavailable(s.Redeem(code))
	if calls := s.Faulty.Calls(); calls[storetest.Grant] != 0 || calls[storetest.CreateGrant] != 1 {
		t.Errorf("calls %v: a grant that was surely not created must not be searched for", calls)
	}
}

// The store may still run the decision, on another goroutine, when the request's context
// has ended: the request must not read the decision's results.
func TestAWriteIsNotSearchedForOnceItsRequestHasEnded(t *testing.T) {
	s := newService(t)
	tokens := s.Login()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Faulty.Inject(storetest.UpdateGrant, 1, func(_ context.Context, do func() error) error {
		err := do()
		cancel()
		return errors.Join(storetest.ErrInjected, err)
	})
	s.Faulty.Calls()
	s.Unavailable(s.Refresh(ctx, s.Listed(clientID), issuer.RefreshRequest{RefreshToken: tokens.RefreshToken, From: testkit.Origin}))
	if calls := s.Faulty.Calls(); calls[storetest.Grant] != 0 {
		t.Errorf("calls %v", calls)
	}
	s.WantActive(tokens.GrantID, 2)
	s.Must(s.Renew(tokens.RefreshToken))
}

func TestAPanicInTheStoreLeavesNoLockBehind(t *testing.T) {
	for _, m := range []storetest.Method{storetest.UpdateGrant, storetest.CreateGrant, storetest.Changes} {
		t.Run(string(m), func(t *testing.T) {
			s := newService(t)
			tokens := s.Login()
			s.Faulty.Inject(m, 1, storetest.Panics)
			caught := func() (v any) {
				defer func() { v = recover() }()
				s.Renew(tokens.RefreshToken)
				s.Redeem(s.NewCode())
				s.Directory.Poll(t.Context())
				return nil
			}()
			if fmt.Sprint(caught) != "injected panic" {
				t.Fatalf("recovered %v", caught)
			}
			s.Poll()
			s.Must(s.Renew(tokens.RefreshToken))
			s.Login()
		})
	}
}

func TestIssuingACodeCallsNoStore(t *testing.T) {
	s := newService(t)
	for _, m := range storetest.Methods {
		s.Faulty.Inject(m, 10, storetest.Lost)
	}
	code := s.NewCode()
	s.Faulty.Heal()
	s.Must(s.Redeem(code))
}

// A store that responds too late may run the decision after other refreshes have begun and
// ended: the decision must apply to its own request.
func TestALateDecisionIsAboutItsOwnRequest(t *testing.T) {
	s := newService(t)
	slow, other := s.Login(), s.Login()
	var later func() error
	s.Faulty.Inject(storetest.UpdateGrant, 1, func(_ context.Context, do func() error) error {
		later = do
		return storetest.ErrInjected
	})
	s.Unavailable(s.Renew(slow.RefreshToken))
	s.Must(s.Renew(other.RefreshToken))
	if err := later(); err != nil {
		t.Fatal(err)
	}
	s.WantActive(slow.GrantID, 2)
	s.WantActive(other.GrantID, 2)
	s.Must(s.Renew(slow.RefreshToken)) // the same pair again
	s.WantActive(slow.GrantID, 2)
}
