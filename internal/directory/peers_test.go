package directory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

// ready requires that exactly these nodes are ready, and that the others serve nothing.
func ready(t *testing.T, nodes []*testkit.Node, want ...bool) {
	t.Helper()
	for i, m := range nodes {
		err := m.Ready()
		if (err == nil) != want[i] {
			t.Errorf("node %d (%s): %v, want ready: %t", i, m.Name, err, want[i])
		}
		if err != nil && !strings.Contains(err.Error(), "clock") {
			t.Errorf("node %d: %v is not about its clock", i, err)
		}
		if _, answer := m.View(); (answer == nil) != want[i] || answer != nil && !errors.Is(answer, store.ErrUnavailable) {
			t.Errorf("node %d (%s) answers by its view: %v", i, m.Name, answer)
		}
	}
}

func TestANodeWhoseClockIsOffIsNotReady(t *testing.T) {
	for _, off := range []time.Duration{3500 * time.Millisecond, -3500 * time.Millisecond, 48 * time.Hour, -48 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
				nodes := []*testkit.Node{h.Join(t, s, "one", 0)}
				for i, ahead := range []time.Duration{300 * time.Millisecond, off} {
					time.Sleep(300 * time.Millisecond) // the nodes poll at different moments
					nodes = append(nodes, h.Join(t, s, fmt.Sprint("next ", i), ahead))
				}
				time.Sleep(6 * time.Second)
				ready(t, nodes, true, true, false)
				if err := nodes[2].Ready(); err != nil && !strings.Contains(err.Error(), "one") && !strings.Contains(err.Error(), "next 0") {
					t.Errorf("%v does not say against which node", err)
				}
				if n := nodes[2].Log.Count("not ready"); n != 1 {
					t.Errorf("it said so %d times", n)
				}
				if n := nodes[0].Log.Count("another node's clock is off"); n != 1 {
					t.Errorf("another node said %d times whose clock is off", n)
				}
				nodes[2].Ahead.Store(int64(time.Second))
				time.Sleep(4 * time.Second)
				ready(t, nodes, true, true, true)
				if n := nodes[2].Log.Count("right again"); n != 1 {
					t.Errorf("it said %d times that it is right", n)
				}
			})
		})
	}
}

// A command ignores nodes that have ended, and waits only for those whose clock is ahead.
func TestACommandTakesTheTimeOfTheNodesThatRun(t *testing.T) {
	for _, c := range []struct {
		ahead []time.Duration // of the running nodes
		want  time.Duration
		waits bool
	}{
		{[]time.Duration{time.Second, -time.Hour}, 0, false},
		{[]time.Duration{time.Minute}, time.Minute, true},
		{[]time.Duration{time.Minute, 61 * time.Second, 24 * time.Hour}, 61 * time.Second, true},
		{[]time.Duration{0, 24 * time.Hour}, 0, true},
		{nil, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			got := directory.Behind(t.Context(), func(context.Context) (list []store.Node, err error) {
				for i, ahead := range c.ahead {
					list = append(list, store.Node{ID: store.NodeID{byte(i)}, Clock: grant.At(time.Now().Add(ahead))})
				}
				if c.waits {
					list = append(list, store.Node{ID: store.NodeID{9}, Clock: grant.At(began.Add(30 * time.Minute))})
				}
				return list, nil
			}, 2*time.Second)
			if waited := time.Since(began) > 0; got != c.want || waited != c.waits {
				t.Errorf("%v: behind by %v, waited: %t; want %v", c.ahead, got, waited, c.want)
			}
		})
	}
}

// A node compares its clock with those of the nodes that run before it serves, and a node
// that starts alone does not wait.
func TestANodeThatStartsWithAWrongClockNeverServes(t *testing.T) {
	for _, off := range []time.Duration{5 * time.Second, -5 * time.Second, 48 * time.Hour, -48 * time.Hour} {
		testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
			began := time.Now()
			nodes := []*testkit.Node{h.Join(t, s, "one", 0)}
			if took := time.Since(began); took != 0 {
				t.Errorf("the first node waited %s", took)
			}
			time.Sleep(300 * time.Millisecond)
			began = time.Now()
			nodes = append(nodes, h.Join(t, s, "right", time.Second))
			if took := time.Since(began); took != directory.PollInterval*5/4 {
				t.Errorf("a node with a right clock waited %s", took)
			}
			nodes = append(nodes, h.Join(t, s, "wrong", off))
			ready(t, nodes, true, true, false)
		})
	}
}

// A slow is a cluster in which the first read of all clients takes a time.
type slow struct {
	*testkit.Cluster
	takes time.Duration
}

func (s *slow) Changes(ctx context.Context, after int64) (store.Changes, error) {
	if after == 0 {
		directory.Pause(ctx, s.takes)
	}
	return s.Cluster.Changes(ctx, after)
}

func TestANodeReadsItsClientsWhileItWaitsForHeartbeats(t *testing.T) {
	for takes, want := range map[time.Duration]time.Duration{
		900 * time.Millisecond: directory.PollInterval * 5 / 4,
		3 * time.Second:        3 * time.Second,
	} {
		testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
			h.Join(t, s, "one", 0)
			time.Sleep(3300 * time.Millisecond)
			for ahead, ready := range map[time.Duration]bool{0: true, time.Minute: false} {
				clock := func() time.Time { return time.Now().Add(ahead) }
				d, began := directory.New(&slow{h, takes}, s.KEK, testkit.Schedule(), s.Log, clock), time.Now()
				if err := d.Join(t.Context(), "slow"); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); ready && took != want {
					t.Errorf("a node that reads for %s waited %s, want %s", takes, took, want)
				}
				if err := d.Ready(); (err == nil) != ready {
					t.Errorf("a node that reads for %s, with a clock ahead by %s: %v", takes, ahead, err)
				}
			}
		})
	}
}

// Nodes with a right clock decide which keys are due: one that starts with a wrong clock adds
// none.
func TestANodeThatStartsWithAWrongClockAddsNoKeys(t *testing.T) {
	testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
		one := h.Join(t, s, "one", 0)
		time.Sleep(3 * time.Second)
		before, schedule := len(one.Latest().Ring.Records()), testkit.Rotating
		schedule.MaxSkew = 2 * time.Second
		wrong, err := directory.Open(t.Context(), h, s.KEK, schedule, s.Log, func() time.Time { return time.Now().AddDate(30, 0, 0) })
		if err == nil {
			err = wrong.Join(t.Context(), "wrong")
		}
		if err != nil || wrong.Ready() == nil {
			t.Fatalf("ready, %v", err)
		}
		if after := len(wrong.Latest().Ring.Records()); after != before {
			t.Errorf("%d keys, and %d before", after, before)
		}
	})
}

// The heartbeats of a node that runs are not exactly an interval apart: one that is late must
// not hide the node from another that starts.
func TestALateHeartbeatIsComparedBeforeANodeServes(t *testing.T) {
	testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		old := store.Node{ID: store.NodeID{1}, Name: "old", Since: grant.At(time.Now()).Add(-time.Hour), Forms: store.Forms}
		go func() {
			for late := 100 * time.Millisecond; ; late = -late {
				old.Clock = grant.At(time.Now())
				_, _ = h.Heartbeat(ctx, old)
				if !directory.Pause(ctx, directory.PollInterval+late) {
					return
				}
			}
		}()
		time.Sleep(50 * time.Millisecond)
		ready(t, []*testkit.Node{h.Join(t, s, "wrong", time.Minute)}, false)
	})
}

func TestClocksWithinMaxSkewAreReady(t *testing.T) {
	testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
		var nodes []*testkit.Node
		for i, ahead := range []time.Duration{0, 1900 * time.Millisecond, 500 * time.Millisecond, 1200 * time.Millisecond} {
			nodes = append(nodes, h.Join(t, s, fmt.Sprint(i), ahead))
			time.Sleep(250 * time.Millisecond)
		}
		for range 20 {
			time.Sleep(700 * time.Millisecond)
			ready(t, nodes, true, true, true, true)
		}
	})
}

// With equally many nodes on both sides, no side has the majority: service continues.
func TestOfTwoNodesWhoseClocksDifferTheOlderServesOn(t *testing.T) {
	for _, ahead := range []time.Duration{5 * time.Second, -5 * time.Second, 2 * time.Hour, -2 * time.Hour} {
		testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
			first := h.Join(t, s, "first", 0)
			time.Sleep(time.Minute)
			second := h.Join(t, s, "second", ahead)
			time.Sleep(6 * time.Second)
			ready(t, []*testkit.Node{first, second}, true, false)
			// Nodes that have ended are not compared.
			first.Stop()
			time.Sleep(6 * time.Second)
			ready(t, []*testkit.Node{second}, true)
		})
	}
}

// Putting a clock forward does not make its node older.
func TestAClockThatIsPutForwardMakesNoNodeOlder(t *testing.T) {
	testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
		first := h.Join(t, s, "first", 0)
		time.Sleep(time.Minute)
		second := h.Join(t, s, "second", 0)
		time.Sleep(time.Minute)
		second.Ahead.Store(int64(2 * time.Hour))
		time.Sleep(6 * time.Second)
		ready(t, []*testkit.Node{first, second}, true, false)
	})
}

// If all clocks differ, there is no majority.
func TestThreeNodesThatAllDifferServeOnButForTheYoungest(t *testing.T) {
	testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
		var nodes []*testkit.Node
		for i, ahead := range []time.Duration{0, 5 * time.Second, 10 * time.Second} {
			nodes = append(nodes, h.Join(t, s, fmt.Sprint(i), ahead))
			time.Sleep(1300 * time.Millisecond)
		}
		time.Sleep(6 * time.Second)
		ready(t, nodes, true, false, false)
	})
}

// With two against two, the node that has run longest decides.
func TestTwoAgainstTwoNodes(t *testing.T) {
	testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
		var nodes []*testkit.Node
		for i, ahead := range []time.Duration{time.Minute, 0, 300 * time.Millisecond, time.Minute} {
			nodes = append(nodes, h.Join(t, s, fmt.Sprint(i), ahead))
			time.Sleep(1300 * time.Millisecond)
		}
		time.Sleep(6 * time.Second)
		ready(t, nodes, true, false, false, true)
	})
}

// A heartbeat that waited for a standby makes its node's clock look slow.
func TestOneLateHeartbeatIsNoClockFault(t *testing.T) {
	testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
		nodes := []*testkit.Node{h.Join(t, s, "one", 0), h.Join(t, s, "two", 0), h.Join(t, s, "three", 0)}
		time.Sleep(3500 * time.Millisecond)
		for range 3 {
			h.Mu.Lock()
			for id, n := range h.Nodes {
				n.Clock = n.Clock.Add(-20 * time.Second)
				h.Nodes[id] = n
			}
			h.Mu.Unlock()
			time.Sleep(4 * time.Second)
			ready(t, nodes, true, true, true)
		}
	})
}

// A replaced database server returns old data: only a node whose heartbeat is confirmed
// is current.
func TestANodeWithoutHeartbeatsIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := running(t)
		defer stop()
		time.Sleep(1500 * time.Millisecond)
		s.Faulty.Inject(storetest.Heartbeat, 8, storetest.Lost)
		time.Sleep(4 * time.Second)
		if err := s.Directory.Ready(); err != nil {
			t.Errorf("within five seconds: %v", err)
		}
		time.Sleep(time.Second)
		if err := s.Directory.Ready(); !errors.Is(err, directory.ErrStale) {
			t.Errorf("Ready: %v, want ErrStale", err)
		}
		time.Sleep(4 * time.Second)
		if err := s.Directory.Ready(); err != nil {
			t.Errorf("after a successful heartbeat: %v", err)
		}
	})
}

// Commands and due keys cause polls, too.
func TestNoPollCountsWithoutAHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := running(t)
		defer stop()
		time.Sleep(1500 * time.Millisecond)
		s.Faulty.Inject(storetest.Heartbeat, 1000, storetest.Lost)
		for range 20 {
			time.Sleep(300 * time.Millisecond)
			if err := s.Directory.Poll(t.Context()); err == nil {
				t.Fatal("a poll without a meeting")
			}
		}
		if err := s.Directory.Ready(); !errors.Is(err, directory.ErrStale) {
			t.Errorf("Ready: %v, want ErrStale", err)
		}
	})
}

// A poll between heartbeats reads the same clocks again, which shows nothing.
func TestPollsInBetweenDoNotHideAClockThatIsOff(t *testing.T) {
	testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
		first := h.Join(t, s, "first", 0)
		time.Sleep(1200 * time.Millisecond)
		second := h.Join(t, s, "second", 5*time.Second)
		for range 30 {
			time.Sleep(200 * time.Millisecond)
			if err := second.Poll(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ready(t, []*testkit.Node{first, second}, true, false)
	})
}

func TestADirectoryThatHasGoneBackIsReadAnew(t *testing.T) {
	s := newService(t)
	if err := s.Engine.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{{Realm: realm, Subject: subject, At: 5}}}); err != nil {
		t.Fatal(err)
	}
	// A backup from before the cutoff is restored.
	now, err := s.Engine.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	older := &older{Store: s.Engine, kept: now.Version - 1}
	directory, err := directory.Open(t.Context(), older, s.KEK, s.Directory.Schedule, s.Log, s.Uptime.Now)
	if err != nil {
		t.Fatal(err)
	}
	older.back = true
	if err := directory.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	view, err := directory.View()
	if err != nil {
		t.Fatal(err)
	}
	if at := view.Cutoff(realm, subject, clientID); at != 0 {
		t.Errorf("the cutoff at %d is not in the store any more", at)
	}
	if _, there := view.Client(realm, clientID); !there {
		t.Error("a client that is in the store is lost")
	}
	if n := s.Logged.Count("has gone back"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// older is a store that loses its latest cutoff.
type older struct {
	store.Store
	kept int64 // the previous version
	back bool
}

func (o *older) Changes(ctx context.Context, since int64) (store.Changes, error) {
	ch, err := o.Store.Changes(ctx, since)
	if o.back {
		ch.Version, ch.Cutoffs = o.kept, nil
		if since >= o.kept {
			ch = store.Changes{Version: o.kept}
		}
	}
	return ch, err
}

// TestAFormWaitsForEveryNode: before a version writes a new form of a token or row, it
// checks OlderNodes.
func TestAFormWaitsForEveryNode(t *testing.T) {
	testkit.InCluster(t, func(t *testing.T, s *testkit.Service, h *testkit.Cluster) {
		m := h.Join(t, s, "new", 0)
		mayWrite := func(when string, forms int64, want bool) {
			t.Helper()
			time.Sleep(2 * directory.PollInterval)
			if m.Directory.OlderNodes(forms) == want {
				t.Errorf("%s: forms %d may be written: %t", when, forms, !want)
			}
		}
		beside := func(forms int64, clock time.Time) {
			h.Mu.Lock()
			h.Nodes[store.NodeID{9}] = store.Node{ID: store.NodeID{9}, Name: "old", Since: 1, Clock: grant.At(clock), Forms: forms}
			h.Mu.Unlock()
		}
		mayWrite("alone", store.Forms, true)
		mayWrite("alone", store.Forms+1, false)
		beside(store.Forms-1, time.Now())
		mayWrite("beside a node of the version before", store.Forms, false)
		mayWrite("beside a node of the version before", store.Forms-1, true)
		beside(store.Forms+1, time.Now())
		mayWrite("beside a node of the version after", store.Forms, true)
		beside(store.Forms-1, time.Now().Add(-time.Minute))
		mayWrite("after the node of the version before has ended", store.Forms, true)
	})
}
