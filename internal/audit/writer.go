package audit

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mintage/mintage/internal/overload"
)

// Open returns a Log, which must be closed. It creates no file until something
// is recorded.
func Open(o Options) *Log {
	o.size = cmp.Or(o.size, segmentSize)
	if o.disk == nil {
		o.disk = diskOf
	}
	l := &Log{
		opt: o, dir: directory{path: o.Directory, owner: o.Owner},
		callers: overload.NewLimiter[string](callersLimit), grants: overload.NewLimiter[string](grantLimit), seen: map[string]time.Time{},
		wake: make(chan struct{}, 1), settle: make(chan chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go newWriter(l).run()
	return l
}

// run is the writing goroutine.
func (w *writer) run() {
	l := w.Log
	defer close(l.done)
	if l.opt.Server {
		w.sweep.in(time.Minute)
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(w.pause())
		var settled chan struct{}
		select {
		case <-l.stop:
			l.err = w.end()
			return
		case <-l.wake:
			if !w.write.failed {
				w.write.in(gather)
			}
		case settled = <-l.settle:
			if l.opt.Server {
				w.dir.catchUp()
				w.sync.in(0)
			}
			if !w.write.failed {
				w.write.in(0)
			}
		case <-timer.C:
		}
		w.work()
		if settled != nil {
			close(settled)
		}
	}
}

// A writer is the state of the writing goroutine.
type writer struct {
	*Log
	write, sync, sweep task
	gapAt              time.Time // of the last gap line
	looked             time.Time // at the disk
	swept              uint64    // last segment at the last sweep
	recorded           Hash      // last line of the last removal that was recorded
	opened             bool      // by a Server
	ending             bool
	began, wall        time.Time // the start, by the monotonic clock and by that of records
	keep, moved        bool      // nothing is removed by its age now; the clock was moved
	batch              []Event
}

func newWriter(l *Log) *writer {
	return &writer{Log: l, began: time.Now(), wall: l.opt.Now().Round(0), write: task{name: "write"}, sync: task{name: "make durable"}, sweep: task{name: "remove old segments of"}}
}

// A task is due at the time at, or never if at is zero.
type task struct {
	name   string // for the log: "cannot NAME the audit log"
	at     time.Time
	failed bool // at the last try
}

func (t *task) in(d time.Duration) {
	if at := time.Now().Add(d); t.at.IsZero() || at.Before(t.at) {
		t.at = at
	}
}

// pause is the time until the next task is due.
func (w *writer) pause() time.Duration {
	next := time.Hour
	for _, t := range []*task{&w.write, &w.sync, &w.sweep} {
		if !t.at.IsZero() {
			next = min(next, time.Until(t.at))
		}
	}
	return max(0, next)
}

// work does the tasks that are due.
func (w *writer) work() {
	w.do(&w.write, retryAfter, w.writeWaiting)
	w.do(&w.sync, retryAfter, w.flush)
	if n := w.dir.tail.segment.number; w.opt.Server && w.opt.MaxSize > 0 && n != w.swept {
		w.swept = n // each new file may exceed the limit
		w.sweep.in(0)
	}
	if !w.early() {
		w.do(&w.sweep, sweepEvery, func() error {
			now := w.opt.Now()
			w.sweep.in(w.judge(now))
			return w.removeOld(now)
		})
	}
}

// judge decides whether records may be removed by their age, and returns when to decide
// again. A machine may start with a wrong clock, or its clock may be moved: nothing is
// removed by its age in the first clockSettle after the start, nor while the clock is
// off by more than clockDrift. The sweep of the store's rows has the same rule.
func (w *writer) judge(now time.Time) (again time.Duration) {
	ran := time.Since(w.began)
	by := now.Round(0).Sub(w.wall) - ran
	before := w.moved
	w.moved = by.Abs() > clockDrift
	if w.keep = w.moved || ran < clockSettle; w.moved && !before && w.opt.Retention > 0 {
		w.opt.Log.Error("the clock was set: audit records are kept until it is right again, or the server is restarted with the right time", "by", by.String())
	}
	if ran < clockSettle {
		return clockSettle - ran
	}
	return sweepEvery
}

// do does a task if it is due, and plans another try if it fails. It logs the
// first of several failures, and their end.
func (w *writer) do(t *task, retry time.Duration, f func() error) {
	if t.at.IsZero() || time.Now().Before(t.at) {
		return
	}
	t.at = time.Time{}
	err := f()
	switch {
	case err != nil && !t.failed:
		w.opt.Log.Error("cannot "+t.name+" the audit log; requests are still served; retrying", "directory", w.opt.Directory, "error", err,
			"advice", "free some space, or give the directory to the server's user; mintage doctor, run as that user, checks it")
	case err == nil && t.failed:
		w.opt.Log.Info("the audit log works again", "lost", w.Numbers().Lost)
	}
	if t.failed = err != nil; t.failed {
		t.in(retry)
	}
	w.mu.Lock()
	w.failing = w.write.failed || w.sync.failed
	w.mu.Unlock()
}

// writeWaiting writes all queued events.
func (w *writer) writeWaiting() error {
	if w.early() {
		w.write.in(gather)
		return nil
	}
	w.look()
	for {
		more, err := w.writeBatch()
		if err != nil || !more {
			return err
		}
	}
}

// look measures the free space, at most once a second.
func (w *writer) look() {
	now := time.Now()
	if now.Sub(w.looked) < lookEvery {
		return
	}
	w.looked = now
	d, err := w.opt.disk(w.opt.Directory)
	if err != nil {
		return // writing reports what is wrong with the directory
	}
	w.mu.Lock()
	before := w.short
	w.short = d.short(before)
	w.mu.Unlock()
	about := []any{"directory", w.opt.Directory, "free_bytes", d.free, "reserve_bytes", d.reserve()}
	switch {
	case w.short && !before:
		w.opt.Log.Error("the disk of the audit log has little free space: only changes are recorded; free some space, or lower audit.max_size", about...)
	case before && !w.short:
		w.opt.Log.Info("the disk of the audit log has space again: everything is recorded", about...)
	}
}

// writeBatch writes queued events, after a gap line if events were lost before.
// Events stay in memory until they are written.
func (w *writer) writeBatch() (more bool, err error) {
	if w.opt.Server && !w.opened {
		if err := w.lockFile(); err != nil {
			return false, err
		}
	}
	now := w.opt.Now()
	w.batch = w.batch[:0]
	w.mu.Lock()
	gap := w.lost
	if wait := gapEvery - time.Since(w.gapAt); gap.any() && wait > 0 && !w.ending {
		gap = lost{}
		w.write.in(wait)
	}
	if gap.any() {
		w.batch = append(w.batch, gap.event(now))
	}
	n := min(len(w.waiting), maxBatch)
	w.batch = append(w.batch, w.waiting[:n]...)
	w.mu.Unlock()
	if len(w.batch) == 0 {
		return false, nil
	}
	if err := w.append(w.batch...); err != nil {
		return false, err
	}
	w.sync.in(syncAfter)
	w.mu.Lock()
	defer w.mu.Unlock()
	if gap.any() {
		w.lost.reported(gap, now)
		w.gapAt = time.Now()
		if w.lost.any() {
			w.write.in(gapEvery)
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

// append writes events, and counts them.
func (w *writer) append(events ...Event) error {
	if err := w.dir.write(events, w.author(), w.opt.size); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written += uint64(len(events))
	return nil
}

// flush makes the lines of the log durable.
func (w *writer) flush() error {
	if w.dir.file == nil || w.dir.tail.damaged != nil {
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

// end writes the queued events, and reports those that cannot be written.
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
		err = w.unlockFile()
	}
	switch n := w.Numbers().Waiting; {
	case n == 1:
		err = fmt.Errorf("write 1 record: %w", err)
	case n > 1:
		err = fmt.Errorf("write %d records: %w", n, err)
	}
	if err != nil {
		w.opt.Log.Error("the audit log is not complete", "directory", w.opt.Directory, "error", err)
	}
	return errors.Join(err, w.dir.close())
}

// author returns the node and the keys of the lines that are written now.
func (w *writer) author() *author {
	by := &author{node: w.opt.Node, now: w.opt.Now()}
	if w.opt.Keys != nil {
		by.ring, _ = w.opt.Keys()
	}
	return by
}

// early reports whether the keys that make MACs are not loaded yet.
func (w *writer) early() bool {
	if w.opt.Keys == nil || w.ending {
		return false
	}
	_, ready := w.opt.Keys()
	return !ready
}

// openName names the file that exists while a server writes.
const openName = "open"

// lockFile creates the file that exists while a server writes here. If it exists
// already, the previous server was killed, and its last records may be missing.
func (w *writer) lockFile() error {
	if err := w.dir.open(); err != nil {
		return err
	}
	_, err := os.Lstat(filepath.Join(w.opt.Directory, openName))
	if err == nil {
		err = w.append(Event{Name: Gap, Outcome: Failed, Time: w.opt.Now(),
			Detail: "the previous server was killed, or the machine crashed: records of its last second may be missing"})
	} else if errors.Is(err, os.ErrNotExist) {
		var f *os.File
		if f, err = w.dir.create(openName, os.O_WRONLY); err == nil {
			err = f.Close()
		}
	}
	w.opened = err == nil
	return err
}

func (w *writer) unlockFile() error { return os.Remove(filepath.Join(w.opt.Directory, openName)) }

// removeOld removes the segments whose lines are all older than the retention,
// and the oldest segments while there are too many bytes. The removal is recorded
// first: an audit log whose beginning is missing without a record was tampered
// with.
func (w *writer) removeOld(now time.Time) error {
	if w.opt.Retention <= 0 && w.opt.MaxSize <= 0 {
		return nil
	}
	if err := w.dir.open(); err != nil {
		return err
	}
	list, err := segments(w.opt.Directory)
	if err != nil {
		return err
	}
	n, why, err := w.excess(list, now)
	if n == 0 || err != nil {
		return err
	}
	r, err := removalOf(list, n)
	if err != nil {
		return fmt.Errorf("segments that %s cannot be removed: %w", why, err)
	}
	r.why = why
	if w.recorded != r.hash { // unless an attempt before recorded it and OnRemove failed
		if err := w.append(Event{Name: Removed, Time: now, Actor: "server", Detail: r.String()}); err != nil {
			return err
		}
		w.recorded = r.hash
	}
	if err := w.flush(); err != nil {
		return err
	}
	if w.opt.OnRemove != nil {
		if err := w.opt.OnRemove(Head{w.dir.tail.chain, r.seq, r.hash}); err != nil {
			return fmt.Errorf("note the removal in the store: %w", err)
		}
	}
	if err := w.dir.lock.take(syscall.LOCK_EX); err != nil {
		return err
	}
	defer w.dir.lock.release()
	for _, s := range list[:n] {
		if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if why == ofSize {
		w.opt.Log.Warn("the audit log has reached its limit: its oldest files were removed before their retention was over; raise audit.max_size, or set audit.refreshes to false",
			"directory", w.opt.Directory, "files", n, "max_size_bytes", w.opt.MaxSize)
	}
	return syncDirectory(w.opt.Directory)
}

// excess returns how many of the first segments must go, and why. All lines of a
// segment are older than the first line of the next. The last segment counts as
// full. The first segment that stays must have a line: its seq and prev show where
// the removed lines ended.
func (w *writer) excess(list []segment, now time.Time) (n int, why string, err error) {
	total := w.opt.size
	sizes := make([]int64, len(list))
	for i, s := range list[:max(0, len(list)-1)] {
		info, err := os.Stat(s.path)
		if err != nil {
			return 0, "", err
		}
		sizes[i] = info.Size()
		total += sizes[i]
	}
	wanted := ""
	for i := 1; i < len(list); i++ {
		if w.opt.MaxSize > 0 && total > w.opt.MaxSize {
			wanted = ofSize
		}
		total -= sizes[i-1]
		next, err := list[i].firstEntry()
		if noCompleteLine(err) {
			continue
		}
		if err != nil {
			return 0, "", err
		}
		if w.opt.Retention > 0 && !w.keep && next.Time.Before(now.Add(-w.opt.Retention)) && wanted == "" {
			wanted = ofAge
		}
		switch {
		case wanted == "" && next.Time.After(now):
			continue // dated by a clock that was set back since: its age is unknown
		case wanted == "":
			return n, why, nil
		}
		n, why, wanted = i, wanted, ""
	}
	return n, why, nil
}
