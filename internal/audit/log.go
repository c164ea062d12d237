package audit

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/overload"
)

// Options say where a trail is and what goes into it.
type Options struct {
	Directory string
	Node      string // this machine, for trails that are brought together
	// Routine records every refresh, and not only what is out of the ordinary.
	Routine bool
	// Owner is the directory whose owner is to own what root makes here; if it
	// is empty or absent, the one in which that is made.
	Owner string
	// Server removes segments that are older than Retention, or with which all
	// of them have more than MaxSize bytes, if these are not zero. It notes if
	// the server before ended without stopping.
	Server    bool
	Retention time.Duration
	MaxSize   int64
	// AtOnce has what a Store records written before its method returns. A
	// command may be killed at any time afterwards.
	AtOnce bool
	// Keys returns the ring under whose key lines get a MAC; nil if there is none.
	// As long as it reports that it is not ready, nothing is written before Close.
	// If Keys is nil, no line has a MAC.
	Keys func() (ring *keys.Ring, ready bool)
	// OnRemove, if it is not nil, is called before segments are removed, with the
	// last line in them. They stay if it fails.
	OnRemove func(last Head) error
	Now      func() time.Time
	Log      *slog.Logger

	size int64                      // of a segment; 64 MiB if zero
	disk func(string) (disk, error) // diskOf if nil
}

const (
	// maxWaiting bounds the events in memory: a disk that hangs takes some
	// megabytes, and not the machine.
	maxWaiting = 1 << 15
	maxBatch   = 1 << 12
	// gather is how long the first event waits for others, so that a busy
	// server does not write each by itself.
	gather = 10 * time.Millisecond
	// syncAfter is how long a record is not durable, at most, on a disk that
	// works.
	syncAfter  = 500 * time.Millisecond
	retryAfter = time.Second
	// gapEvery is how often a gap is recorded: a flood is not to become one of
	// gaps.
	gapEvery   = time.Second
	sweepEvery = time.Hour
)

// A Log writes a trail. Its methods are safe for concurrent use, and on a nil
// Log they do nothing.
type Log struct {
	opt   Options
	dir   directory
	flood flood

	mu      sync.Mutex
	waiting []Event
	written uint64
	lost    lost
	total   uint64 // lost so far
	short   class  // of space: neither this class is recorded nor those before it
	head    Head   // durable
	seen    map[string]time.Time

	wake   chan struct{} // one place
	settle chan chan struct{}
	stop   chan struct{}
	done   chan struct{}
	err    error // of the end
	once   sync.Once
}

// Numbers are those of a Log since its start.
type Numbers struct {
	Written uint64
	Lost    uint64 // also those left out of a flood, or for lack of space
	Waiting int
}

// A Head is the end of a chain.
type Head struct {
	Chain string // random name of the trail
	Seq   uint64
	Hash  Hash
}

// Open makes a Log. It touches nothing until something is recorded. Close it.
func Open(o Options) *Log {
	if o.size == 0 {
		o.size = segmentSize
	}
	if o.disk == nil {
		o.disk = diskOf
	}
	l := &Log{
		opt: o, dir: directory{path: o.Directory, owner: o.Owner}, flood: flood{grants: overload.NewLimiter[string](ofOneGrant)}, seen: map[string]time.Time{},
		wake: make(chan struct{}, 1), settle: make(chan chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go l.run()
	return l
}

// Record hands an event over to be written. It does not wait.
func (l *Log) Record(e Event) {
	if l == nil || e.Name == TokensRefreshed && !l.opt.Routine {
		return
	}
	if e.Time.IsZero() {
		e.Time = l.opt.Now()
	}
	c := classOf(&e)
	l.mu.Lock()
	why, out := l.flood.tooMany(&e, c)
	switch {
	case out:
	case c <= l.short:
		why, out = noSpace, true
	case len(l.waiting) >= maxWaiting:
		why, out = unwritten, true
	}
	first := len(l.waiting) == 0
	if out {
		first = !l.lost.any()
		l.lost.add(why, &e)
		l.total++
	} else {
		l.waiting = append(l.waiting, e)
	}
	l.mu.Unlock()
	if !first {
		return // the writer knows: to wake it costs more than the event
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// settled waits, for who wants AtOnce, until what was recorded is written or
// cannot be. It is durable later.
func (l *Log) settled() {
	if l == nil || !l.opt.AtOnce {
		return
	}
	written := make(chan struct{})
	select {
	case l.settle <- written:
		<-written
	case <-l.done:
	}
}

// Numbers are how many records were written and lost, and how many wait.
func (l *Log) Numbers() Numbers {
	if l == nil {
		return Numbers{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return Numbers{l.written, l.total, len(l.waiting)}
}

// Head is the last durable line that this Log has written; zero if none is.
func (l *Log) Head() Head {
	if l == nil {
		return Head{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Close writes what waits and ends the Log. Its error says what could not be
// written.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.once.Do(func() { close(l.stop) })
	<-l.done
	return l.err
}

// run is the goroutine that writes.
func (l *Log) run() {
	defer close(l.done)
	w := &writer{Log: l, faulty: map[task]bool{}}
	if l.opt.Server {
		w.sweep = l.opt.Now().Add(time.Minute)
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(w.pause())
		select {
		case <-l.stop:
			l.err = w.end()
			return
		case <-l.wake:
			if !w.faulty[writing] {
				w.due(&w.write, gather)
			}
		case written := <-l.settle:
			if !w.faulty[writing] {
				w.write = time.Time{}
				w.writeWaiting()
			}
			close(written)
		case <-timer.C:
		}
		w.work()
	}
}

// A writer is what the goroutine of a Log knows. Times are zero where nothing
// is due.
type writer struct {
	*Log
	write, sync, sweep time.Time
	gap                time.Time // when what is lost can be told of
	told               time.Time // when it was, last
	looked             time.Time // at the disk
	swept              uint64    // segment that was the last one at the last sweep
	faulty             map[task]bool
	opened             bool // by a Server
	ending             bool
	batch              []Event
}

// A task is one of a writer's, each with faults of its own.
type task string

const (
	writing  task = "write"
	syncing  task = "make durable"
	removing task = "remove old segments of"
)

func (w *writer) due(at *time.Time, in time.Duration) {
	if at.IsZero() {
		*at = time.Now().Add(in)
	}
}

// pause is how long nothing is due.
func (w *writer) pause() time.Duration {
	next := time.Hour
	for _, at := range []time.Time{w.write, w.sync, w.gap} {
		if !at.IsZero() {
			next = min(next, time.Until(at))
		}
	}
	if !w.sweep.IsZero() {
		next = min(next, w.sweep.Sub(w.opt.Now()))
	}
	return max(0, next)
}

func (w *writer) work() {
	now := time.Now()
	is := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	if is(w.write) || is(w.gap) {
		w.write, w.gap = time.Time{}, time.Time{}
		w.writeWaiting()
	}
	if is(w.sync) {
		w.sync = time.Time{}
		if err := w.flush(); w.report(syncing, err) {
			w.due(&w.sync, retryAfter)
		}
	}
	if n := w.dir.tail.segment.number; w.opt.Server && w.opt.MaxSize > 0 && n != w.swept {
		w.swept, w.sweep = n, w.opt.Now() // each file may be one too many
	}
	if now := w.opt.Now(); !w.sweep.IsZero() && !now.Before(w.sweep) && !w.early() {
		w.sweep = now.Add(sweepEvery)
		w.report(removing, w.removeOld(now))
	}
}

// author is this process, as what it writes now says.
func (w *writer) author() *author {
	by := &author{node: w.opt.Node, now: w.opt.Now()}
	if w.opt.Keys != nil {
		by.ring, _ = w.opt.Keys()
	}
	return by
}

// early reports whether the keys that make MACs are not there yet.
func (w *writer) early() bool {
	if w.opt.Keys == nil || w.ending {
		return false
	}
	_, ready := w.opt.Keys()
	return !ready
}

// writeWaiting writes all that waits.
func (w *writer) writeWaiting() {
	if w.early() {
		w.due(&w.write, gather)
		return
	}
	w.look()
	for {
		more, err := w.writeBatch()
		if w.report(writing, err) {
			w.due(&w.write, retryAfter)
			return
		}
		if !more {
			return
		}
	}
}

// writeBatch writes what waits, or so much of it, behind a record of what was
// lost before. Events stay in memory until they are written.
func (w *writer) writeBatch() (more bool, err error) {
	if w.opt.Server && !w.opened {
		if err := w.mark(); err != nil {
			return false, err
		}
	}
	now := w.opt.Now()
	w.batch = w.batch[:0]
	w.mu.Lock()
	n := min(len(w.waiting), maxBatch)
	gap := w.lost
	w.mu.Unlock()
	if wait := gapEvery - time.Since(w.told); gap.any() && wait > 0 && !w.ending {
		gap = lost{}
		w.due(&w.gap, wait)
	}
	if gap.any() {
		w.batch = append(w.batch, gap.event(now))
	}
	w.mu.Lock()
	w.batch = append(w.batch, w.waiting[:n]...)
	w.mu.Unlock()
	if len(w.batch) == 0 {
		return false, nil
	}
	if err := w.dir.write(w.batch, w.author(), w.opt.size); err != nil {
		return false, err
	}
	w.due(&w.sync, syncAfter)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written += uint64(len(w.batch))
	if gap.any() {
		w.lost.told(gap, now)
		w.told = time.Now()
		if w.lost.any() {
			w.due(&w.gap, gapEvery)
		}
	}
	rest := copy(w.waiting, w.waiting[n:])
	clear(w.waiting[rest:])
	w.waiting = w.waiting[:rest]
	if rest == 0 && cap(w.waiting) > maxBatch {
		w.waiting = nil // after a stall
	}
	return rest > 0, nil
}

// flush makes durable what was written.
func (w *writer) flush() error {
	if w.dir.file == nil {
		return nil
	}
	if err := w.dir.file.Sync(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head = Head{w.dir.tail.chain, w.dir.tail.seq, w.dir.tail.hash}
	return nil
}

// report logs the first of several faults, and their end. It reports whether
// err is one.
func (w *writer) report(what task, err error) bool {
	switch was := w.faulty[what]; {
	case err != nil && !was:
		w.opt.Log.Error("cannot "+string(what)+" the audit trail; requests go on, and trying again", "directory", w.opt.Directory, "error", err)
	case err == nil && was:
		w.opt.Log.Info("the audit trail works again", "lost", w.Numbers().Lost)
	}
	w.faulty[what] = err != nil
	return err != nil
}

// end writes the rest. Then it tells of what cannot be written.
func (w *writer) end() error {
	var err error
	w.ending = true
	for more := true; more && err == nil; {
		more, err = w.writeBatch()
	}
	if err == nil {
		err = w.flush()
	}
	if err == nil && w.opened {
		err = w.unmark()
	}
	if n := w.Numbers(); n.Waiting > 0 {
		err = fmt.Errorf("%d records of the audit trail are lost: %w", n.Waiting, err)
	}
	if err != nil {
		w.opt.Log.Error("the audit trail is not complete", "directory", w.opt.Directory, "error", err)
	}
	return errors.Join(err, w.dir.close())
}
