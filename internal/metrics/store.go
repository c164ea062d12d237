package metrics

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// Operations that are timed: those of requests, and the poll.
const (
	opGrant       = "grant"
	opCreateGrant = "create_grant"
	opUpdateGrant = "update_grant"
	opDocument    = "document"
	opPutDocument = "put_document"
	opChanges     = "changes"
	opHeartbeat   = "meet"
)

var operations = []string{opGrant, opCreateGrant, opUpdateGrant, opDocument, opPutDocument, opChanges, opHeartbeat}

// sweptTables are those of the labels.
var sweptTables = []string{string(store.SweptGrants), string(store.SweptDocuments)}

func (m *Metrics) addStore() {
	durations := m.histogram(storeDuration, []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5})
	m.operations = map[string]prometheus.Observer{}
	for _, op := range operations {
		m.operations[op] = durations.WithLabelValues(op)
	}
	m.faults = m.table(storeFaults, set{[]string{"busy"}, Other})
	m.sweepRemoved = m.table(sweepRemoved, set{values: sweptTables})
}

// A Store is a store.Store that times operations and counts faults, except those
// of administrators.
type Store struct {
	store.Store
	m *Metrics

	grant, createGrant, updateGrant, document, putDocument, changes, heartbeat prometheus.Observer
}

// Store has m watch st, from now on: the sweep's lag is counted from here.
func (m *Metrics) Store(st store.Store) *Store {
	for i := range m.swept {
		m.swept[i].completed()
	}
	return &Store{
		Store: st, m: m,
		grant: m.operations[opGrant], createGrant: m.operations[opCreateGrant], updateGrant: m.operations[opUpdateGrant],
		document: m.operations[opDocument], putDocument: m.operations[opPutDocument],
		changes: m.operations[opChanges], heartbeat: m.operations[opHeartbeat],
	}
}

// A walked is when a table was last swept to its end.
type walked struct{ at atomic.Pointer[time.Time] }

func (w *walked) completed() {
	now := time.Now()
	w.at.Store(&now)
}

// lag is the time since then, or zero if nothing is swept here.
func (w *walked) lag() time.Duration {
	if at := w.at.Load(); at != nil {
		return time.Since(*at)
	}
	return 0
}

// done notes how an operation went.
func (s *Store) done(o prometheus.Observer, began time.Time, err error) {
	o.Observe(time.Since(began).Seconds())
	s.fault(err)
}

func (s *Store) fault(err error) {
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrConflict):
	case errors.Is(err, store.ErrBusy):
		s.m.faults.inc("busy", "")
	case errors.Is(err, context.Canceled): // the process is ending
	default:
		s.m.faults.inc(Other, "")
	}
}

func (s *Store) Grant(ctx context.Context, id grant.ID) (grant.Grant, error) {
	began := time.Now()
	g, err := s.Store.Grant(ctx, id)
	s.done(s.grant, began, err)
	return g, err
}

func (s *Store) CreateGrant(ctx context.Context, g grant.Grant) error {
	began := time.Now()
	err := s.Store.CreateGrant(ctx, g)
	s.done(s.createGrant, began, err)
	return err
}

func (s *Store) UpdateGrant(ctx context.Context, id grant.ID, decide store.Decide) error {
	began := time.Now()
	var events []store.Event
	err := s.Store.UpdateGrant(ctx, id, func(g grant.Grant) (next grant.Grant, list []store.Event) {
		next, list = decide(g)
		events = list
		return next, list
	})
	s.done(s.updateGrant, began, err)
	if err == nil { // otherwise it may be running still
		s.ended(events)
	}
	return err
}

func (s *Store) Document(ctx context.Context, key store.DocumentKey) (store.Document, error) {
	began := time.Now()
	d, err := s.Store.Document(ctx, key)
	s.done(s.document, began, err)
	return d, err
}

// Commit times a change that stores documents: any other is an administrator's.
func (s *Store) Commit(ctx context.Context, c store.Change) error {
	began := time.Now()
	err := s.Store.Commit(ctx, c)
	if len(c.Documents) == 0 {
		return err
	}
	s.done(s.putDocument, began, err)
	if err == nil {
		s.ended(c.Events)
	}
	return err
}

func (s *Store) Changes(ctx context.Context, since int64) (store.Changes, error) {
	began := time.Now()
	ch, err := s.Store.Changes(ctx, since)
	s.done(s.changes, began, err)
	return ch, err
}

func (s *Store) Heartbeat(ctx context.Context, self store.Node) ([]store.Node, error) {
	began := time.Now()
	others, err := s.Store.Heartbeat(ctx, self)
	s.done(s.heartbeat, began, err)
	return others, err
}

func (s *Store) Sweep(ctx context.Context, table store.SweptTable, after string, now grant.Instant, limit int) (string, int, error) {
	next, deleted, err := s.Store.Sweep(ctx, table, after, now, limit)
	s.m.sweepRemoved.add(string(table), "", float64(deleted))
	s.fault(err)
	if err == nil && next == "" {
		s.m.swept[slices.Index(sweptTables, string(table))].completed()
	}
	return next, deleted, err
}

// ended counts what ends a grant before its time.
func (s *Store) ended(events []store.Event) {
	for _, e := range events {
		switch e.Name {
		case store.EventCodeReplayed, store.EventRefreshReplayed:
			s.m.revocations.inc(byReplay, "")
		case store.EventDisconnected:
			s.m.revocations.inc(byUser, "")
		case store.EventGrantRevoked, store.EventAccessRevoked:
			s.m.revocations.inc(byClient, "")
		}
	}
}
