package audit

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/overload"
)

// Options configure a Log.
type Options struct {
	Directory string
	Node      string // this machine, for logs of several nodes that are brought together
	// Routine also records each refresh.
	Routine bool
	// Owner is the directory whose owner receives files made by root; default: their parent.
	Owner string
	// Server removes segments by age and total size, unless a limit is zero, and
	// records a gap if the previous server was killed.
	Server    bool
	Retention time.Duration
	MaxSize   int64
	// AtOnce makes the methods of a Store return after their records are written.
	// A command may be killed at any time afterwards.
	AtOnce bool
	// Keys returns the ring whose audit key makes the MACs of lines; nil if there
	// is none. While it returns ready false, nothing is written before Close. If
	// Keys is nil, lines have no MAC.
	Keys func() (ring *keys.Ring, ready bool)
	// OnRemove, if not nil, is called with the last line of the segments that are
	// about to be removed. If it fails, they stay.
	OnRemove func(last Head) error
	Now      func() time.Time
	Log      *slog.Logger

	size int64                      // of a segment; 64 MiB if zero
	disk func(string) (disk, error) // diskOf if nil
}

const (
	// maxWaiting limits the memory of events while the disk hangs: some megabytes.
	maxWaiting = 1 << 15
	maxBatch   = 1 << 12
	// gather is how long the first event waits for others to share its write.
	gather = 10 * time.Millisecond
	// syncAfter is the longest time until a record is durable on a working disk.
	syncAfter  = 500 * time.Millisecond
	retryAfter = time.Second
	// gapEvery limits gap lines: a flood of events must not become one of gaps.
	gapEvery   = time.Second
	sweepEvery = time.Hour
	// clockSettle and clockDrift are those of the sweep of grants: see package sweep.
	clockSettle = 10 * time.Minute
	clockDrift  = time.Minute
)

// A Log writes an audit log. Its methods are safe for concurrent use, and do
// nothing on a nil Log.
type Log struct {
	opt Options
	dir directory

	mu      sync.Mutex
	waiting []Event
	written uint64
	lost    lost
	total   [reasons]uint64 // missing since the start
	callers overload.Limiter[string]
	grants  overload.Limiter[string]
	short   bool // of disk space: only changes are recorded
	failing bool // the last try to write or to sync has failed
	head    Head // durable
	seen    map[string]time.Time

	wake   chan struct{} // of capacity 1
	settle chan chan struct{}
	stop   chan struct{}
	done   chan struct{}
	err    error // of Close
	once   sync.Once
}

// Numbers are the counters of a Log since its start.
type Numbers struct {
	Written uint64
	Lost    uint64 // could not be written
	// Left out on purpose: over a rate limit, and for want of disk space.
	OverRate, WithoutRoom uint64
	Waiting               int
	// Fault is set while records wait because they cannot be written.
	Fault bool
}

// A Head is the last line of a chain.
type Head struct {
	Chain string // random name of the chain
	Seq   uint64
	Hash  Hash
}

// Record queues an event to be written. It does not block.
func (l *Log) Record(e Event) {
	if l == nil || e.Name == TokensRefreshed && !l.opt.Routine {
		return
	}
	if e.Time.IsZero() {
		e.Time = l.opt.Now()
	}
	c, why := classOf(&e), reason(-1)
	l.mu.Lock()
	switch {
	case l.overLimit(&e, c):
		why = tooMany
	case c > looped && l.short:
		why = noSpace
	case len(l.waiting) >= maxWaiting:
		why = unwritten
	}
	first := len(l.waiting) == 0
	if why >= 0 {
		first = !l.lost.any()
		l.lost.add(why, e.Time)
		l.total[why]++
	} else {
		l.waiting = append(l.waiting, e)
	}
	l.mu.Unlock()
	if !first {
		return // the writer was woken before: waking it costs more than the event
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// overLimit counts an event, and reports whether it must be left out.
func (l *Log) overLimit(e *Event, c class) bool {
	set, key := &l.grants, e.GrantID
	switch {
	case c == hostile:
		set = &l.callers
	case c == looped && e.Name != accessRevoked:
		key = e.Realm + " " + cmp.Or(e.Subject, e.ClientID) // no id of a grant has a space
	case c == change, key == "":
		return false
	}
	if set.Wait(key, e.Time) > 0 {
		return true
	}
	set.Add(key, e.Time)
	return false
}

// OldSecretUsed records that a client has used a secret that is not its newest,
// at most once an hour for each secret.
func (l *Log) OldSecretUsed(ctx context.Context, realm, clientID, secretID string) {
	if l == nil {
		return
	}
	now := l.opt.Now()
	l.mu.Lock()
	last, seen := l.seen[secretID]
	again := !seen || now.Sub(last) >= time.Hour || now.Before(last)
	if again {
		l.seen[secretID] = now // bounded by the number of secrets
	}
	l.mu.Unlock()
	if again {
		l.Record(From(ctx).Event(Event{
			Name: OldSecretUsed, Time: now, Realm: realm, ClientID: clientID, Detail: "secret " + secretID + ", which is not the newest",
		}))
	}
}

// settled waits, with AtOnce, until the recorded events are written or have
// failed. They become durable later.
func (l *Log) settled() {
	if l != nil && l.opt.AtOnce {
		l.Settle(context.Background())
	}
}

// Settle waits until the recorded events are written or have failed, or ctx ends. Then Head
// includes the lines that other processes have appended.
func (l *Log) Settle(ctx context.Context) {
	if l == nil {
		return
	}
	written := make(chan struct{})
	select {
	case l.settle <- written:
	case <-l.done:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-written:
	case <-l.done:
	case <-ctx.Done():
	}
}

// Numbers returns the counters.
func (l *Log) Numbers() Numbers {
	if l == nil {
		return Numbers{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return Numbers{l.written, l.total[unwritten], l.total[tooMany], l.total[noSpace], len(l.waiting), l.failing}
}

// Head returns the last durable line, or zero if this Log has written none.
func (l *Log) Head() Head {
	if l == nil {
		return Head{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Close writes the queued events and ends the Log. It returns an error if some
// could not be written.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.once.Do(func() { close(l.stop) })
	<-l.done
	return l.err
}
