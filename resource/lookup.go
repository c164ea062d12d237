package resource

import (
	"container/list"
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

// lookups shares introspections of opaque tokens between requests: the cached
// responses, if keep is set, and those under way.
type lookups struct {
	ask  func(ctx context.Context, token string) (Principal, error)
	keep time.Duration
	work *background

	mu     sync.Mutex
	lines  map[fingerprint]*line
	cached map[fingerprint]*list.Element
	oldest *list.List // of answer, in the order in which they came
}

// A line is a look-up under way, and the next one, if a request waits for it.
type line struct{ running, next *lookup }

type lookup struct {
	done      chan struct{} // closed when the rest is there
	principal Principal
	err       error
}

type answer struct {
	token     fingerprint
	principal Principal
	until     time.Time
}

func newLookups(ask func(context.Context, string) (Principal, error), keep time.Duration, work *background) *lookups {
	return &lookups{
		ask: ask, keep: keep, work: work,
		lines: map[fingerprint]*line{}, cached: map[fingerprint]*list.Element{}, oldest: list.New(),
	}
}

func (l *lookups) get(ctx context.Context, token string) (Principal, error) {
	key := fingerprint(sha256.Sum256([]byte(token)))
	l.mu.Lock()
	if e := l.cached[key]; e != nil && time.Now().Before(e.Value.(answer).until) {
		defer l.mu.Unlock()
		return e.Value.(answer).principal, nil
	}
	wanted, err := l.join(key, token)
	l.mu.Unlock()
	if err != nil {
		return Principal{}, err
	}
	select {
	case <-wanted.done:
		return wanted.principal, wanted.err
	case <-l.work.ctx.Done():
		return Principal{}, unavailable(errClosed)
	case <-ctx.Done():
		return Principal{}, unavailable(context.Cause(ctx))
	}
}

// join returns the look-up for a request, and begins it if it is the first. Without
// a cache, a look-up that was sent before the request arrived does not count, since
// the token may have been revoked in between: requests that arrive while it is
// under way share the next one. The mutex is held.
func (l *lookups) join(key fingerprint, token string) (*lookup, error) {
	at := l.lines[key]
	switch {
	case at == nil && len(l.lines) >= maxLookups:
		return nil, unavailable(errors.New("too many tokens are being looked up"))
	case at == nil:
		at = &line{running: newLookup()}
		l.lines[key] = at
		l.work.do(func(ctx context.Context) { l.run(ctx, key, token, at) })
	case l.keep == 0:
		if at.next == nil {
			at.next = newLookup()
		}
		return at.next, nil
	}
	return at.running, nil
}

func newLookup() *lookup { return &lookup{done: make(chan struct{})} }

// run serves a line until no request waits in it. A request that was cancelled does
// not cancel the look-up of others.
func (l *lookups) run(ctx context.Context, key fingerprint, token string, at *line) {
	for {
		asked := time.Now() // the answer may be as old as the question
		principal, err := l.ask(ctx, token)
		answered := at.running
		answered.principal, answered.err = principal, err

		l.mu.Lock()
		if err == nil && l.keep > 0 {
			until := asked.Add(l.keep)
			if principal.ExpiresAt.Before(until) {
				until = principal.ExpiresAt
			}
			l.put(answer{key, principal, until})
		}
		at.running, at.next = at.next, nil
		more := at.running != nil
		if !more {
			delete(l.lines, key)
		}
		l.mu.Unlock()
		close(answered.done)
		if !more {
			return
		}
	}
}

// put caches a response, and drops the oldest ones: the expired ones, and one more
// if the cache is full. Only positive responses are cached, so that invented tokens
// displace none. The mutex is held.
func (l *lookups) put(a answer) {
	if e := l.cached[a.token]; e != nil {
		l.drop(e)
	}
	for e := l.oldest.Front(); e != nil; e = l.oldest.Front() {
		if len(l.cached) < maxCached && time.Now().Before(e.Value.(answer).until) {
			break
		}
		l.drop(e)
	}
	l.cached[a.token] = l.oldest.PushBack(a)
}

func (l *lookups) drop(e *list.Element) {
	delete(l.cached, l.oldest.Remove(e).(answer).token)
}
