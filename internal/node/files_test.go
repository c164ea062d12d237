package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/store"
)

// A missing store is logged once, however long it is missing, and its return once.
func TestAStoreThatIsGoneIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		var gone atomic.Bool
		present := func() error {
			if gone.Load() {
				return errors.New("no file")
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			watchStore(ctx, present, slog.New(slog.NewTextHandler(&text, nil)))
		}()
		time.Sleep(5500 * time.Millisecond)
		gone.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		if strings.Count(text.String(), "level=ERROR") != 1 {
			t.Errorf("a second later, the log has not one error: %s", text.String())
		}
		time.Sleep(time.Minute)
		gone.Store(false)
		time.Sleep(time.Minute)
		cancel()
		<-done
		if got := text.String(); strings.Count(got, "level=ERROR") != 1 || strings.Count(got, "level=") != 2 || !strings.Contains(got, "restore a backup") || !strings.Contains(got, `level=INFO msg="the store is back`) {
			t.Errorf("%s", got)
		}
	})
}

// An outage ends when its failures end. Failures while the node is ready are not an
// outage, so that they hide no other error for long.
func TestFailuresBesideAReadyNodeAreNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		var down atomic.Bool
		log := slog.New(slog.NewTextHandler(&text, nil))
		o := &store.Outage{Log: log}
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			watchOutage(ctx, o, func(context.Context) error {
				if down.Load() {
					return errors.New("stale")
				}
				return nil
			}, log)
		})
		fail := func(seconds int) {
			for range 2 * seconds {
				o.Combines(store.Unavailable(errors.New("a stranger's assertion")), time.Now())
				time.Sleep(500 * time.Millisecond)
			}
			synctest.Wait()
		}
		down.Store(true)
		fail(60)
		down.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := text.String(); strings.Count(got, "level=") != 2 || !strings.Contains(got, `level=INFO msg="the failures have ended`) {
			t.Errorf("an outage of a minute: %s", got)
		}
		text.Reset()
		down.Store(true)
		fail(1)
		time.Sleep(time.Minute) // no request uses the store
		down.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := text.String(); !strings.Contains(got, "failed=2 lasted=1m") {
			t.Errorf("an outage of a minute with two failures: %s", got)
		}
		text.Reset()
		fail(65)
		if n := strings.Count(text.String(), "level=ERROR"); n < 5 || n > 7 || strings.Count(text.String(), "still fail") != n-1 {
			t.Errorf("failures of a minute at a node that is ready: %s", text.String())
		}
		cancel()
		watching.Wait()
	})
}
