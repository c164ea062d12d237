package resource

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

const (
	// maxLookups is how many tokens are introspected at a time. More would only
	// wait for the same server.
	maxLookups = 1000
	// maxCached is how many responses are cached, of a few hundred bytes each.
	maxCached = 10_000
)

// A fingerprint is the hash of a token, so that the cache holds no usable token.
type fingerprint [sha256.Size]byte

// lookups shares introspections of opaque tokens between requests: those under way
// and, if keep is set, the cached responses.
type lookups struct {
	ask  func(ctx context.Context, token string) (Principal, error)
	keep time.Duration
	work *background

	mu      sync.Mutex
	running map[fingerprint]*lookup // the last one of each token
	cached  map[fingerprint]*lookup
	oldest  []*lookup // the cached ones, in the order in which they came
}

// A lookup is one introspection, for all requests that wait for it.
type lookup struct {
	token     fingerprint
	sent      bool
	done      chan struct{} // closed when the fields below are set
	principal Principal
	err       error
	until     time.Time // of the cache
}

func (l *lookups) get(ctx context.Context, token string) (Principal, error) {
	key := fingerprint(sha256.Sum256([]byte(token)))
	l.mu.Lock()
	if known := l.cached[key]; known != nil && time.Now().Before(known.until) {
		defer l.mu.Unlock()
		return known.principal, nil
	}
	wanted, err := l.join(key, token)
	l.mu.Unlock()
	if err == nil {
		err = l.work.wait(ctx, wanted.done)
	}
	if err != nil {
		return Principal{}, err
	}
	return wanted.principal, wanted.err
}

// join returns the look-up for a request, and begins one if none fits. Without a
// cache, a look-up that was sent before the request arrived does not count, since
// the token may have been revoked in between: requests that arrive while it is
// under way share the next one. The mutex is held.
func (l *lookups) join(key fingerprint, token string) (*lookup, error) {
	before := l.running[key]
	switch {
	case before == nil && len(l.running) >= maxLookups:
		return nil, unavailable(errors.New("too many tokens are being looked up"))
	case before != nil && (l.keep > 0 || !before.sent):
		return before, nil
	}
	next := &lookup{token: key, done: make(chan struct{})}
	l.running[key] = next
	l.work.do(func(ctx context.Context) {
		if before != nil {
			<-before.done
		}
		l.run(ctx, next, token)
	})
	return next, nil
}

// run sends a look-up. A request that was cancelled does not cancel that of others.
func (l *lookups) run(ctx context.Context, w *lookup, token string) {
	l.mu.Lock()
	w.sent = true
	l.mu.Unlock()
	asked := time.Now() // the response may be as old as the request
	w.principal, w.err = l.ask(ctx, token)

	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(w.done)
	if l.running[w.token] == w {
		delete(l.running, w.token)
	}
	if w.err == nil && l.keep > 0 {
		if w.until = asked.Add(l.keep); w.principal.ExpiresAt.Before(w.until) {
			w.until = w.principal.ExpiresAt
		}
		l.put(w)
	}
}

// put caches a response, and drops the oldest ones: the expired ones, and one more
// if the cache is full. Only positive responses are cached, so that invented tokens
// displace none. The mutex is held.
func (l *lookups) put(w *lookup) {
	for len(l.oldest) > 0 && (len(l.oldest) >= maxCached || !time.Now().Before(l.oldest[0].until)) {
		if first := l.oldest[0]; l.cached[first.token] == first {
			delete(l.cached, first.token)
		}
		l.oldest = l.oldest[1:]
	}
	l.cached[w.token], l.oldest = w, append(l.oldest, w)
}
