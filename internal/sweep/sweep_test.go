package sweep_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/sweep"
)

// slice is how many rows the sweep reads at once.
const slice = 500

// sweeper returns a sweeper of the service's store, as on a node.
func (s *service) sweeper() *sweep.Sweeper {
	return &sweep.Sweeper{
		Store: s.Store, Restore: func() grant.Restore { return s.Directory.Latest().Restore() },
		ClockFault: func() error {
			if s.clockOff.Load() {
				return errors.New("off")
			}
			return nil
		},
		Now: s.Now, Monotonic: s.Monotonic, Log: s.Issuer.Log,
	}
}

// sweeping starts the sweep of a table in which all rows except one have expired.
func sweeping(t *testing.T, rows int, prepare func(*service)) (s *service, kept grant.Grant, stop func()) {
	t.Helper()
	s = newService(t)
	kept = s.Row(s.Login().GrantID)
	var filling sync.WaitGroup
	for n := range rows - 1 {
		dead := kept
		dead.ID[0], dead.ID[1], dead.ID[2] = byte(n>>8), byte(n), kept.ID[2]+1
		dead.DeleteAfter = s.At() - 1
		filling.Go(func() {
			if err := s.Engine.CreateGrant(t.Context(), dead); err != nil {
				t.Error(err)
			}
		})
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
	// The sweep begins when a wrong clock would have been corrected.
	time.Sleep(sweep.Settle - time.Millisecond)
	if n := s.Faulty.Calls()[storetest.SweepGrants]; n != 0 {
		t.Errorf("%d slices before it settled", n)
	}
	time.Sleep(time.Millisecond)
	return s, kept, func() {
		cancel()
		<-ended
	}
}

// left counts the rows of the table.
func (s *service) left() int {
	s.T.Helper()
	list, err := s.Engine.Grants(s.T.Context(), store.GrantFilter{Limit: 10_000})
	if err != nil {
		s.T.Fatal(err)
	}
	return len(list)
}

func TestTheSweepWalksInSlicesAndRestsAMinuteAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, kept, stop := sweeping(t, 2*slice+50, func(*service) {})
		defer stop()
		for _, step := range []struct {
			wait  time.Duration
			calls int
		}{
			{time.Millisecond, 1}, {10 * time.Millisecond, 1}, {10 * time.Millisecond, 1}, // three slices
			{59 * time.Second, 0}, {time.Second, 1}, // and again from the beginning
			{59 * time.Second, 0}, {time.Second, 1},
		} {
			time.Sleep(step.wait)
			synctest.Wait()
			if n := s.Faulty.Calls()[storetest.SweepGrants]; n != step.calls {
				t.Errorf("%d slices, want %d", n, step.calls)
			}
		}
		if n := s.left(); n != 1 || s.Row(kept.ID) != kept {
			t.Errorf("%d rows are left, want the one that is alive", n)
		}
		if n := s.Logged.Count("expired grants removed"); n != 1 {
			t.Errorf("logged %d times, want once: the later walks removed nothing", n)
		}
	})
}

// Where no more than half of the rows have expired, the pauses are longer.
func TestTheSweepTakesItsTimeOverRowsThatAreAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, stop := sweeping(t, slice, func(s *service) {
			alive := s.Row(s.Login().GrantID)
			for n := range slice {
				alive.ID[0], alive.ID[1] = byte(n>>8), byte(n)
				if err := s.Engine.CreateGrant(t.Context(), alive); err != nil {
					t.Error(err)
				}
			}
		})
		defer stop()
		for _, step := range []struct {
			wait  time.Duration
			calls int
		}{{time.Millisecond, 1}, {98 * time.Millisecond, 0}, {time.Millisecond, 1}} {
			time.Sleep(step.wait)
			synctest.Wait()
			if n := s.Faulty.Calls()[storetest.SweepGrants]; n != step.calls {
				t.Errorf("%d slices after %s, want %d", n, step.wait, step.calls)
			}
		}
	})
}

func TestTheSweepGoesOnAfterAFault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault storetest.Fault
		left  int // rows after the fault: one slice less if the deletion happened
	}{
		"failed and not applied": {storetest.Lost, slice + 50},
		"failed and applied":     {storetest.Unanswered, 50},
		"busy":                   {storetest.Full, slice + 50},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var kept grant.Grant
				s, kept, stop := sweeping(t, slice+50, func(s *service) { s.Faulty.Inject(storetest.SweepGrants, 1, c.fault) })
				defer stop()
				time.Sleep(time.Millisecond)
				synctest.Wait()
				if n := s.left(); n != c.left && n != c.left+1 {
					t.Errorf("%d rows are left after the fault, want %d", n, c.left)
				}
				if s.Logged.Count("cannot remove expired grants") != 1 {
					t.Error("the fault was not logged")
				}
				time.Sleep(58 * time.Second)
				if n := s.Faulty.Calls()[storetest.SweepGrants]; n != 1 {
					t.Errorf("%d tries within a minute", n)
				}
				time.Sleep(3 * time.Second)
				if n := s.left(); n != 1 || s.Row(kept.ID) != kept {
					t.Errorf("%d rows are left, want the one that is alive", n)
				}
			})
		})
	}
}

func TestTheSweepGoesOnAfterAStoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, kept, stop := sweeping(t, 50, func(s *service) { s.Faulty.Inject(storetest.SweepGrants, 1, storetest.Hangs) })
		defer stop()
		time.Sleep(2 * time.Minute)
		if n := s.left(); n != 1 || s.Row(kept.ID) != kept {
			t.Errorf("%d rows are left, want the one that is alive", n)
		}
	})
}

// A clock that was wrong from the start has not moved; only the other nodes' clocks show
// it.
func TestTheSweepKeepsEverythingWhileTheClockIsKnownToBeWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, stop := sweeping(t, 50, func(s *service) { s.clockOff.Store(true) })
		defer stop()
		time.Sleep(10 * time.Minute)
		if n := s.left(); n != 50 {
			t.Errorf("%d rows are left of 50", n)
		}
		s.clockOff.Store(false)
		time.Sleep(2 * time.Minute)
		if n := s.left(); n != 1 {
			t.Errorf("%d rows are left, want the one that is alive", n)
		}
	})
}

func TestTheSweepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"between slices": 50 * time.Millisecond, "at rest": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _, stop := sweeping(t, slice+50, func(*service) {})
				time.Sleep(wait)
				began := time.Now()
				stop()
				if took := time.Since(began); took != 0 {
					t.Errorf("it ended %s later", took)
				}
				if s.Logged.Count("cannot remove") != 0 {
					t.Error("its end was logged as a fault")
				}
			})
		})
	}
	t.Run("within a slice", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, _, stop := sweeping(t, 10, func(s *service) { s.Faulty.Inject(storetest.SweepGrants, 1, storetest.Hangs) })
			time.Sleep(time.Second)
			stop()
			if s.Logged.Count("cannot remove") != 0 {
				t.Error("its end was logged as a fault")
			}
			if _, err := s.Engine.Grant(t.Context(), grant.ID{}); !errors.Is(err, store.ErrNotFound) {
				t.Error(err)
			}
		})
	})
}

func TestTheSweepKeepsEverythingWhileTheClockIsMoved(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]time.Duration{"forward": 40 * 24 * time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var moved atomic.Int64
				s, kept, stop := sweeping(t, 10, func(s *service) {
					s.Monotonic = time.Now
					s.Now = func() time.Time { return time.Now().Add(time.Duration(moved.Load())) }
				})
				defer stop()
				time.Sleep(time.Millisecond)
				synctest.Wait()
				s.Faulty.Calls()
				moved.Store(int64(by))
				time.Sleep(time.Hour)
				if n := s.Faulty.Calls()[storetest.SweepGrants]; n > 1 {
					t.Errorf("%d slices while the clock was moved", n)
				}
				if s.Row(kept.ID) != kept {
					t.Error("a live row is gone")
				}
				if n := s.Logged.Count("the clock was moved"); n != 1 {
					t.Errorf("logged %d times", n)
				}
				moved.Store(0)
				time.Sleep(2 * time.Minute)
				if n := s.Faulty.Calls()[storetest.SweepGrants]; n == 0 {
					t.Error("it does not go on after the clock is back")
				}
			})
		})
	}
}

func TestOP13_TheSweepKeepsEveryGrantUntilTheRestoreIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _, stop := sweeping(t, 50, func(s *service) {
			r := grant.Restore{Backup: s.At() - 1000, At: s.At(), Until: s.At() + 5}
			if err := s.Engine.Commit(t.Context(), store.Change{Restores: []grant.Restore{r}}); err != nil {
				t.Fatal(err)
			}
			s.Poll()
		})
		defer stop()
		time.Sleep(10 * time.Minute)
		if n := s.left(); n != 50 {
			t.Errorf("%d rows are left of 50", n)
		}
		s.Clock.Advance(5 * time.Millisecond)
		time.Sleep(2 * time.Minute)
		if n := s.left(); n != 1 {
			t.Errorf("%d rows are left, want the one that is alive", n)
		}
	})
}
