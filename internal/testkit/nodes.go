package testkit

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// NewNodes makes n nodes on one new store, with one clock.
func NewNodes(t *testing.T, sched keys.Schedule, n int) []*Service {
	t.Helper()
	first := NewService(t)
	var list []*Service
	for range n {
		node := *first
		node.Uptime = node.Clock
		node.Faulty = storetest.NewFaulty(first.Engine)
		node.Logged = &Log{}
		node.Reopen(sched)
		list = append(list, &node)
	}
	return list
}

// Reopen gives the node a new directory, as after a restart.
func (s *Service) Reopen(sched keys.Schedule) {
	s.T.Helper()
	log := slog.New(slog.NewTextHandler(s.Logged, nil))
	d := directory.New(s.Faulty, s.KEK, sched, log, s.Clock.Now)
	if err := d.Join(s.T.Context(), "reopened"); err != nil {
		s.T.Fatal(err)
	}
	iss := *s.Issuer
	iss.Store, iss.Log, iss.Feed = s.Faulty, log, nil
	s.Issuer = issuer.New(iss)
	s.Use(d)
}

// RotateKeys does what Directory.Run does within a second.
func (s *Service) RotateKeys() {
	s.T.Helper()
	s.Poll()
	if err := s.Directory.RotateDue(s.T.Context()); err != nil {
		s.T.Fatal(err)
	}
	s.Poll()
}

// Lives returns the keys of a purpose as the node has them.
func (s *Service) Lives(p keys.Purpose) (list []keys.Life) {
	s.T.Helper()
	for _, l := range s.View().Ring.Lives(s.At(), s.Directory.Schedule) {
		if l.Purpose == p {
			list = append(list, l)
		}
	}
	return list
}

// Phases lists the phases of keys.
func Phases(list []keys.Life) string {
	var text []string
	for _, l := range list {
		text = append(text, string(l.Phase))
	}
	return strings.Join(text, " ")
}

// Rotating is the default schedule without RSA, because generating RSA keys is slow.
var Rotating = keys.Schedule{
	Lifetime: 90 * Day, Lead: 7 * Day, MaxAge: time.Hour, Retention: 66 * time.Minute,
	Algorithms: []keys.Purpose{keys.ES256, keys.EdDSA},
}

// Day is a day.
const Day = 24 * time.Hour

// Quick returns a schedule that rotates keys every hour.
func Quick() keys.Schedule {
	s := Rotating
	s.Lifetime, s.Lead, s.MaxAge = time.Hour, time.Minute, time.Second
	s.Retention = 5*time.Minute + s.MaxAge + time.Minute
	return s
}

// A Cluster is a store that keeps the heartbeats of several nodes in memory.
type Cluster struct {
	store.Store
	Mu    sync.Mutex
	Nodes map[store.NodeID]store.Node
}

func (h *Cluster) Heartbeat(_ context.Context, self store.Node) ([]store.Node, error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Nodes[self.ID] = self
	others := maps.Clone(h.Nodes)
	delete(others, self.ID)
	return slices.Collect(maps.Values(others)), nil
}

// A Node is a node with its own clock, which is Ahead of time.Now.
type Node struct {
	*directory.Directory
	Name  string
	Ahead atomic.Int64
	Log   *Log
	Stop  func()
}

// Join starts a node whose clock is ahead by the given duration.
func (h *Cluster) Join(t *testing.T, s *Service, name string, ahead time.Duration) *Node {
	t.Helper()
	m := &Node{Log: &Log{}}
	m.Ahead.Store(int64(ahead))
	skewed := Schedule()
	skewed.MaxSkew = 2 * time.Second
	m.Directory = directory.New(h, s.KEK, skewed, slog.New(slog.NewTextHandler(m.Log, nil)),
		func() time.Time { return time.Now().Add(time.Duration(m.Ahead.Load())) })
	if err := m.Join(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	m.Name = name
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		m.Run(ctx)
		close(ended)
	}()
	m.Stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(m.Stop)
	return m
}

// InCluster runs f with a new cluster in a bubble of synctest.
func InCluster(t *testing.T, f func(t *testing.T, s *Service, h *Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		s := NewService(t)
		f(t, s, &Cluster{Store: s.Faulty, Nodes: map[store.NodeID]store.Node{}})
	})
}
