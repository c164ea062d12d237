package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Watches keeps the last requests of the clients that operators watch on this node: from
// the first look at a client until ten minutes after the last. Nothing is kept of others.
type Watches struct {
	watched atomic.Int32
	mu      sync.Mutex
	of      map[watchedClient]*watch
}

type watchedClient struct{ realm, id string }

type watch struct {
	until time.Time
	seen  []Sighting
}

// Limits of what is watched: each sighting is below 1 KB.
const (
	maxWatched = 20
	maxSeen    = 50
	watchTime  = 10 * time.Minute
)

// A Sighting is one request of a watched client, or one with an id that no client has.
type Sighting struct {
	At        time.Time
	RequestID string
	Endpoint  string
	GrantType string // one that is known
	Err       error  // nil: answered
	Repeated  bool   // the same pair again
	Unknown   bool   // it names no client
}

const unknownClient = "(unknown)"

// Look returns the requests of a client since the first look, and goes on watching it. It
// returns false if too many others are watched.
func (w *Watches) Look(realm, clientID string, now time.Time) ([]Sighting, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, of := range w.of {
		if now.After(of.until) {
			delete(w.of, key)
		}
	}
	key := watchedClient{realm, clientID}
	of := w.of[key]
	if of == nil {
		if len(w.of) >= maxWatched {
			return nil, false
		}
		if w.of == nil {
			w.of = map[watchedClient]*watch{}
		}
		of = &watch{}
		w.of[key] = of
	}
	of.until = now.Add(watchTime)
	w.watched.Store(int32(len(w.of)))
	return slices.Clone(of.seen), true
}

// note keeps a request if its client is watched. An id of no client may be meant for any
// that is, and may be a secret: it is not kept.
func (w *Watches) note(realm, clientID string, s Sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.Unknown = clientID == unknownClient
	for key, of := range w.of {
		if key.realm == realm && (key.id == clientID || s.Unknown) && len(of.seen) < maxSeen {
			of.seen = append(of.seen, s)
		}
	}
}
