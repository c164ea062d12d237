package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A store that is gone is one line in the log, however long, and one when it is back.
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
			t.Errorf("a second later, there is no line: %s", text.String())
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
