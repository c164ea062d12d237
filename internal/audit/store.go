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

// A Store records the events that go with its writes: once a write has
// succeeded, and also, as of unknown outcome, if the store did not answer. A
// write that surely did not happen leaves no record.
type Store struct {
	store.Store
	log   *Log
	realm string
}

// NewStore wraps a store. Where there are several realms, the records of the default one
// have its name, realm: those of the deployment have none.
func NewStore(st store.Store, log *Log, realm string) *Store { return &Store{st, log, realm} }

// record records the events of a write, with its outcome.
func (s *Store) record(ctx context.Context, err error, about Event, events []store.Event) {
	if len(events) == 0 || errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrNotFound) {
		return
	}
	for _, e := range events {
		r := about
		r.Name, r.Time, r.Actor, r.Detail = Name(e.Name), e.At.Time(), e.Actor, e.Detail
		realm, name := store.SplitRealm(e.About)
		r.Realm = cmp.Or(r.Realm, realm)
		if !e.Name.OfDeployment() {
			r.Realm = cmp.Or(r.Realm, s.realm)
		}
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

// UpdateGrant implements store.Store, as do the methods below. What decide has
// returned last is recorded.
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

// An observed is a decision whose events are recorded. They are reused, each with the
// function that the store calls: a closure for each refresh would be allocated.
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

// Commit records the events of a change with the client that it stores, or else
// with what its last cutoff names.
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
		// An API has a realm too, and its events name it in their detail.
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
