package audit

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// A Store wraps a store and records the events of its writes: after a write has
// succeeded, and with the outcome Unknown if the store did not acknowledge it. A
// write that certainly did not happen leaves no record.
type Store struct {
	store.Store
	log *Log
}

// NewStore wraps a store. Records name their realm, except those of the whole deployment.
func NewStore(st store.Store, log *Log) *Store { return &Store{st, log} }

// record records the events of a write, with its outcome.
func (s *Store) record(ctx context.Context, err error, about Event, events []store.Event) {
	if len(events) == 0 || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrNotFound) {
		return
	}
	for _, e := range events {
		r := about
		r.Name, r.Time, r.Actor, r.Detail = Name(e.Name), e.At.Time(), e.Actor, e.Detail
		_, name := store.SplitRealm(e.About)
		r.Realm = cmp.Or(r.Realm, e.Realm())
		if subject, ok := strings.CutPrefix(name, store.AboutSubject("")); ok && r.Subject == "" {
			r.Subject = subject
		}
		if e.Name == store.EventCodeReplayed || e.Name == store.EventRefreshReplayed {
			r.Outcome = Refused // and the grant has ended
		}
		if e.Name == store.EventClientRecorded {
			r.ClientID = name
		}
		if e.Name == store.EventKeyAdded || e.Name == store.EventKeyWithdrawn {
			r.Detail = "key " + name + ": " + e.Detail
		}
		if e.Name == store.EventAPICreated || e.Name == store.EventAPIChanged || e.Name == store.EventAPIDeleted {
			r.ClientID, r.Detail = "", "api "+name+": "+e.Detail
		}
		if e.Name == store.EventTrustCreated || e.Name == store.EventTrustChanged || e.Name == store.EventTrustDeleted {
			r.Detail = "trust " + name + ": " + e.Detail
		}
		if err != nil {
			r.Outcome = Unknown
		}
		s.log.Record(From(ctx).Event(r))
	}
	s.log.settled()
}

// UpdateGrant implements store.Store. It records the events that the last call of
// decide has returned.
func (s *Store) UpdateGrant(ctx context.Context, id grant.ID, decide store.Decide) error {
	h := observedPool.Get().(*observed)
	h.decide = decide
	err := s.Store.UpdateGrant(ctx, id, h.on)
	if d := h.last.Load(); d != nil {
		s.record(ctx, err, aboutGrant(d.grant), d.events)
	}
	if err == nil { // after any other answer, decide may still be running
		h.decide = nil
		h.last.Store(nil)
		observedPool.Put(h)
	}
	return err
}

type decided struct {
	grant  grant.Grant
	events []store.Event
}

// An observed wraps a store.Decide and keeps the events that it returned. observedPool
// reuses it with its function on: a closure for each refresh would be allocated.
type observed struct {
	decide store.Decide
	// A call of decide may still be running when UpdateGrant returns because its
	// context has ended.
	last atomic.Pointer[decided]
	on   store.Decide
}

var observedPool = sync.Pool{New: func() any {
	h := &observed{}
	h.on = func(g grant.Grant) (grant.Grant, []store.Event) {
		next, events := h.decide(g)
		if len(events) > 0 && next != g {
			h.last.Store(&decided{g, events})
		} else {
			h.last.Store(nil)
		}
		return next, events
	}
	return h
}}

func aboutGrant(g grant.Grant) Event {
	return Event{Realm: g.Realm, ClientID: g.ClientID, Subject: g.Subject, GrantID: g.ID.String(), Generation: g.Generation}
}

// Commit records the events of a change with the client or trust that the change
// stores, or else with the client and subject of its last cutoff.
func (s *Store) Commit(ctx context.Context, c store.Change) error {
	err := s.Store.Commit(ctx, c)
	if len(c.Events) == 0 {
		return err
	}
	about := Event{}
	for _, o := range c.Cutoffs {
		about.Realm, about.ClientID, about.Subject = o.Realm, o.ClientID, o.Subject
	}
	for _, e := range c.Entries {
		// The entry of an API decodes too, for its realm; record clears the client id.
		if client, decodeErr := e.Client(); decodeErr == nil {
			about = Event{Realm: client.Realm, ClientID: client.ID}
		}
		if trust, decodeErr := e.Trust(); e.Kind == store.EntryTrust && decodeErr == nil {
			about = Event{Realm: trust.Realm, ClientID: trust.ClientID}
		}
	}
	s.record(ctx, err, about, c.Events)
	return err
}
