package metrics

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// An operation is a timed operation of the store: those of requests, the poll and the
// heartbeat.
type operation int

const (
	opGrant operation = iota
	opCreateGrant
	opUpdateGrant
	opDocument
	opPutDocument
	opChanges
	opHeartbeat
)

// operations are the values of the label operation, by operation.
var operations = []string{"grant", "create_grant", "update_grant", "document", "put_document", "changes", "meet"}

// sweptTables are the values of the label table.
var sweptTables = []string{string(store.SweptGrants), string(store.SweptDocuments)}

func (m *Metrics) addStore() {
	durations := m.histogram(storeDuration, []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5})
	for _, op := range operations {
		m.operations = append(m.operations, durations.WithLabelValues(op))
	}
}

// A Store is a store.Store that times operations and counts faults, except those
// of administrators.
type Store struct {
	store.Store
	m *Metrics
}

// Store returns st with metrics. It is the start of the sweep's lag.
func (m *Metrics) Store(st store.Store) *Store {
	for i := range m.swept {
		m.swept[i].completed()
	}
	return &Store{st, m}
}

// A lastSweep holds the time when a table was last swept to its end.
type lastSweep struct{ at atomic.Pointer[time.Time] }

func (w *lastSweep) completed() {
	now := time.Now()
	w.at.Store(&now)
}

// lag returns the time since the last completed sweep, or zero if there is none.
func (w *lastSweep) lag() time.Duration {
	if at := w.at.Load(); at != nil {
		return time.Since(*at)
	}
	return 0
}

// done times an operation and counts its fault. Call it with defer.
func (s *Store) done(op operation, began time.Time, err *error) {
	s.m.operations[op].Observe(time.Since(began).Seconds())
	s.fault(*err)
}

func (s *Store) fault(err error) {
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrConflict):
	case errors.Is(err, store.ErrBusy):
		s.m.inc(storeFaults, "busy")
	case errors.Is(err, context.Canceled): // the process is ending
	default:
		s.m.inc(storeFaults, Other)
	}
}

func (s *Store) Grant(ctx context.Context, id grant.ID) (g grant.Grant, err error) {
	defer s.done(opGrant, time.Now(), &err)
	return s.Store.Grant(ctx, id)
}

func (s *Store) CreateGrant(ctx context.Context, g grant.Grant) (err error) {
	defer s.done(opCreateGrant, time.Now(), &err)
	return s.Store.CreateGrant(ctx, g)
}

func (s *Store) UpdateGrant(ctx context.Context, id grant.ID, decide store.Decide) (err error) {
	defer s.done(opUpdateGrant, time.Now(), &err)
	h := countedDecisions.Get().(*countedDecision)
	h.decide = decide
	err = s.Store.UpdateGrant(ctx, id, h.on)
	if err == nil { // otherwise decide may still be running
		s.ended(h.realm, h.events)
		h.decide, h.realm, h.events = nil, "", nil
		countedDecisions.Put(h)
	}
	return err
}

// A countedDecision wraps a store.Decide to count the events that it returns. The store calls the
// closure in the field on. Decisions are pooled with their closures, because a new closure for
// each refresh would cost an allocation.
type countedDecision struct {
	decide store.Decide
	realm  string
	events []store.Event
	on     store.Decide
}

var countedDecisions = sync.Pool{New: func() any {
	h := &countedDecision{}
	h.on = func(g grant.Grant) (grant.Grant, []store.Event) {
		next, events := h.decide(g)
		h.realm, h.events = g.Realm, events
		return next, events
	}
	return h
}}

func (s *Store) Document(ctx context.Context, key store.DocumentKey) (d store.Document, err error) {
	defer s.done(opDocument, time.Now(), &err)
	return s.Store.Document(ctx, key)
}

// Commit times a change that stores documents, and counts the grants that it ends. It does
// neither for any other change, because only administrators make those.
func (s *Store) Commit(ctx context.Context, c store.Change) (err error) {
	if len(c.Documents) == 0 {
		return s.Store.Commit(ctx, c)
	}
	defer s.done(opPutDocument, time.Now(), &err)
	if err = s.Store.Commit(ctx, c); err == nil {
		s.ended("", c.Events)
	}
	return err
}

func (s *Store) Changes(ctx context.Context, since int64) (ch store.Changes, err error) {
	defer s.done(opChanges, time.Now(), &err)
	return s.Store.Changes(ctx, since)
}

func (s *Store) Heartbeat(ctx context.Context, self store.Node) (others []store.Node, err error) {
	defer s.done(opHeartbeat, time.Now(), &err)
	return s.Store.Heartbeat(ctx, self)
}

func (s *Store) Sweep(ctx context.Context, table store.SweptTable, after string, now grant.Instant, limit int) (string, int, error) {
	next, deleted, err := s.Store.Sweep(ctx, table, after, now, limit)
	s.m.add(sweepRemoved, float64(deleted), string(table))
	s.fault(err)
	if err == nil && next == "" {
		s.m.swept[slices.Index(sweptTables, string(table))].completed()
	}
	return next, deleted, err
}

// ended counts the events that end a grant early. If realm is "", each event's About
// contains the realm.
func (s *Store) ended(realm string, events []store.Event) {
	for _, e := range events {
		m := s.m.Realm(cmp.Or(realm, e.Realm()))
		switch e.Name {
		case store.EventCodeReplayed, store.EventRefreshReplayed:
			m.inc(revocations, byReplay)
		case store.EventDisconnected:
			m.inc(revocations, byUser)
		case store.EventGrantRevoked, store.EventAccessRevoked:
			m.inc(revocations, byClient)
		}
	}
}
