package directory_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

// A node with a heartbeat each second has written its uses after two heartbeats. A node
// that has ended is not awaited, and one that hangs only until the context ends.
func TestOtherNodesAreAwaitedForTwoHeartbeats(t *testing.T) {
	for name, c := range map[string]struct {
		age   time.Duration // of the other node's last heartbeat
		beats bool
		least time.Duration
		most  time.Duration
	}{
		"runs":  {500 * time.Millisecond, true, time.Second, 2 * time.Second},
		"ended": {time.Minute, false, 0, 0},
		"hangs": {time.Second, false, directory.SettleTime, directory.SettleTime},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			list := func(context.Context) ([]store.Node, error) {
				at := began.Add(-c.age)
				if c.beats {
					at = at.Add(time.Since(at).Truncate(time.Second))
				}
				return []store.Node{{ID: store.NodeID{1}, Clock: grant.At(at)}}, nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), directory.SettleTime)
			defer cancel()
			directory.AwaitHeartbeats(ctx, list, grant.At(began))
			if took := time.Since(began); took < c.least || took > c.most {
				t.Errorf("a node that %s is awaited for %s", name, took)
			}
		})
	}
	calls := 0
	directory.AwaitHeartbeats(t.Context(), func(context.Context) ([]store.Node, error) { calls++; return nil, errors.New("lost") }, 0)
	if calls != 1 {
		t.Errorf("%d calls of a store that fails", calls)
	}
}

// beating is a store in which another node sends a heartbeat with each heartbeat of this
// one.
type beating struct {
	store.Store
	beats int
}

func (b *beating) Heartbeat(_ context.Context, self store.Node) ([]store.Node, error) {
	b.beats++
	return []store.Node{{ID: store.NodeID{1}, Clock: self.Clock + grant.Instant(b.beats)}}, nil
}

func TestSettleAwaitsTheOtherNodes(t *testing.T) {
	_, engine := testkit.Store(t)
	st := &beating{Store: engine}
	d, err := directory.Open(t.Context(), st, testkit.KEK(t), testkit.Schedule(), slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if d.Settle(t.Context()); st.beats > 0 {
		t.Errorf("%d heartbeats of a process that is not a node", st.beats)
	}
	if err := d.Join(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	st.beats = 0
	if d.Settle(t.Context()); st.beats != 3 {
		t.Errorf("%d heartbeats were read, want the first and two more", st.beats)
	}
}
