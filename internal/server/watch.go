package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Watches records the first 50 requests of each client that operators watch on this node:
// from the first look at the client until ten minutes after the last.
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

// Limits of Watches. Each Sighting takes less than 1 KB.
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
	GrantType string // see knownGrantType
	Err       error  // nil: answered
	Repeated  bool   // answered with the same pair of tokens again
	Unknown   bool   // its client id is no client's
}

const unknownClient = "(unknown)"

// Look returns the recorded requests of a client, and extends or begins its watch. It
// returns false if too many other clients are watched.
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

// note records a request of a watched client. It records a request with an unknown id for
// every watched client of the realm, because any may have sent it, and without the id,
// which may be a secret.
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
