package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// documentSettle is how long the sweep of documents waits before it begins.
const documentSettle = time.Minute

// document stores a document with an expiry.
func (s *service) document(kind store.DocumentKind, n int, expiresAt grant.Instant) store.DocumentKey {
	d := store.Document{Kind: kind, Key: store.KeyOf(kind, realm, fmt.Sprint(n)), Version: 1, ExpiresAt: expiresAt, Body: []byte("{}")}
	if err := s.Engine.Commit(s.T.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
		s.T.Error(err)
	}
	return d.Key
}

// there reports whether the store has a document.
func (s *service) there(key store.DocumentKey) bool {
	s.T.Helper()
	_, err := s.Engine.Document(s.T.Context(), key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		s.T.Error(err)
	}
	return err == nil
}

// sweepingDocuments starts the sweep of a table with a number of expired sessions, a
// user, and a valid session.
func sweepingDocuments(t *testing.T, expired int, prepare func(*service)) (s *service, kept []store.DocumentKey, stop func()) {
	t.Helper()
	s = newService(t)
	kept = []store.DocumentKey{s.document(store.DocumentUser, 0, 0), s.document(store.DocumentSession, -1, s.At())}
	var filling sync.WaitGroup
	for n := range expired {
		filling.Go(func() { s.document(store.DocumentSession, n, s.At()-1) })
	}
	filling.Wait()
	s.Faulty.Calls()
	prepare(s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		s.sweeper().Run(ctx)
		close(ended)
	}()
	return s, kept, func() {
		cancel()
		<-ended
	}
}

// leftSessions counts the sessions in the table.
func (s *service) leftSessions() int {
	s.T.Helper()
	list, err := s.Engine.Documents(s.T.Context(), store.DocumentFilter{Kind: store.DocumentSession, Limit: 10_000})
	if err != nil {
		s.T.Fatal(err)
	}
	return len(list)
}

func TestExpiredSessionsGoAMinuteAfterTheStartAndGrantsAreLeftToSettle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, kept, stop := sweepingDocuments(t, 2*slice+50, func(*service) {})
		defer stop()
		for _, step := range []struct {
			wait  time.Duration
			calls int
		}{
			{documentSettle - time.Millisecond, 0}, {time.Millisecond, 1}, {10 * time.Millisecond, 1}, {10 * time.Millisecond, 1},
			{59 * time.Second, 0}, {time.Second, 1}, // and again from the beginning
			{59 * time.Second, 0}, {time.Second, 1},
		} {
			time.Sleep(step.wait)
			synctest.Wait()
			calls := s.Faulty.Calls()
			if n := calls[storetest.SweepDocuments]; n != step.calls {
				t.Errorf("%d slices, want %d", n, step.calls)
			}
			if n := calls[storetest.SweepGrants]; n != 0 {
				t.Error("grants were swept before there was time to correct the clock")
			}
		}
		if n := s.leftSessions(); n != 1 || !s.there(kept[0]) || !s.there(kept[1]) {
			t.Errorf("%d sessions are left, want the one that is alive, and the user", n)
		}
		if n := s.Logged.Count(fmt.Sprintf("documents=%d", 2*slice+50)); n != 1 {
			t.Errorf("logged %d times, want once: the later walks removed nothing", n)
		}
		time.Sleep(8 * time.Minute)
		synctest.Wait()
		if s.Faulty.Calls()[storetest.SweepGrants] == 0 {
			t.Error("grants are never swept")
		}
	})
}

func TestAFaultOfOneSweepDoesNotHoldUpTheOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method storetest.Method
		text   string
	}{
		"documents": {storetest.SweepDocuments, "cannot remove expired documents"},
		"grants":    {storetest.SweepGrants, "cannot remove expired grants"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, kept, stop := sweepingDocuments(t, 10, func(s *service) { s.Faulty.Inject(c.method, 5, storetest.Lost) })
				defer stop()
				dead := s.Row(s.Login().GrantID)
				dead.ID[0]++
				dead.DeleteAfter = s.At() - 1
				if err := s.Engine.CreateGrant(t.Context(), dead); err != nil {
					t.Fatal(err)
				}
				gone := func() (grants, documents bool) {
					_, err := s.Engine.Grant(t.Context(), dead.ID)
					return errors.Is(err, store.ErrNotFound), s.leftSessions() == 1
				}
				time.Sleep(4 * time.Minute)
				synctest.Wait()
				if grants, documents := gone(); grants || documents == (c.method == storetest.SweepDocuments) {
					t.Errorf("after four minutes: grants swept %t, documents %t", grants, documents)
				}
				time.Sleep(7 * time.Minute)
				synctest.Wait()
				if grants, documents := gone(); grants == (c.method == storetest.SweepGrants) || !documents {
					t.Errorf("after eleven minutes: grants swept %t, documents %t", grants, documents)
				}
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if grants, documents := gone(); !grants || !documents || !s.there(kept[0]) || !s.there(kept[1]) {
					t.Errorf("after the faults: grants swept %t, documents %t", grants, documents)
				}
				if n := s.Logged.Count(c.text); n != 5 {
					t.Errorf("%d faults were logged, want 5", n)
				}
			})
		})
	}
}

func TestSessionsAreKeptWhileTheClockIsMoved(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"forward": 40 * 24 * time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var moved atomic.Int64
				s, kept, stop := sweepingDocuments(t, 1, func(s *service) {
					s.Monotonic = time.Now
					s.Now = func() time.Time { return time.Now().Add(time.Duration(moved.Load())) }
				})
				defer stop()
				alive := s.document(store.DocumentSession, 1, grant.At(time.Now().Add(10*time.Hour)))
				synctest.Wait() // the sweep has compared the clocks
				moved.Store(int64(by))
				time.Sleep(time.Hour)
				if calls := s.Faulty.Calls(); calls[storetest.SweepDocuments]+calls[storetest.SweepGrants] != 0 {
					t.Errorf("%v while the clock was moved", calls)
				}
				if n := s.Logged.Count("the clock was moved"); n != 1 {
					t.Errorf("logged %d times", n)
				}
				moved.Store(0)
				time.Sleep(2 * time.Minute)
				calls := s.Faulty.Calls()
				if calls[storetest.SweepDocuments] == 0 || calls[storetest.SweepGrants] == 0 {
					t.Errorf("%v after the clock is back", calls)
				}
				if !s.there(kept[0]) || !s.there(alive) {
					t.Error("what is alive is gone")
				}
			})
		})
	}
}
