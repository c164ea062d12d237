package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const markName = "open"

// mark notes that a server writes here. If the one before has left its mark, it
// has not stopped in order: what it recorded last may be missing.
func (w *writer) mark() error {
	if err := w.dir.open(); err != nil {
		return err
	}
	path := filepath.Join(w.opt.Directory, markName)
	_, err := os.Lstat(path)
	if err == nil {
		e := Event{Name: Gap, Outcome: Failed, Time: w.opt.Now(),
			Detail: "the server before ended without a stop: what it recorded in its last second may be missing"}
		if err := w.dir.write([]Event{e}, w.author(), w.opt.size); err != nil {
			return err
		}
		w.mu.Lock()
		w.written++
		w.mu.Unlock()
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	} else {
		f, err := w.dir.create(markName, os.O_WRONLY)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	w.opened = true
	return nil
}

func (w *writer) unmark() error { return os.Remove(filepath.Join(w.opt.Directory, markName)) }

// A removal is what the trail says of segments that are removed.
type removal struct {
	first, last uint64 // segments
	why         excess
	seq         uint64 // of the last line in them
	hash        Hash
	at          time.Time // of its record
}

// An excess is why segments are removed.
type excess string

const (
	ofAge  excess = "were older than the retention"
	ofSize excess = "made the trail larger than its limit"
)

func (e excess) by() string {
	if e == ofSize {
		return "the limit of its size"
	}
	return "retention"
}

const (
	detailRemoved = "segments %d to %d, which "
	detailUpTo    = "; seq %d, sha256 %s"
)

func (r removal) String() string {
	return fmt.Sprintf(detailRemoved+"%s"+detailUpTo, r.first, r.last, r.why, r.seq, r.hash)
}

func parseRemoval(detail string) (r removal, ok bool) {
	for _, r.why = range []excess{ofAge, ofSize} {
		var hash string
		if n, _ := fmt.Sscanf(detail, detailRemoved+string(r.why)+detailUpTo, &r.first, &r.last, &r.seq, &hash); n == 4 {
			r.hash, ok = ParseHash(hash)
			return r, ok
		}
	}
	return r, false
}

// removeOld removes the segments all of whose lines are older than the
// retention, and the oldest as long as there are too many bytes. It is recorded
// first: a trail whose beginning is missing without a record of it has been
// tampered with.
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
	old, err := w.tooOld(list, now)
	if err != nil {
		return err
	}
	why := ofAge
	if n, err := w.tooLarge(list); err != nil {
		return err
	} else if n > old {
		old, why = n, ofSize
	}
	if old == 0 {
		return nil
	}
	r, err := removalOf(list, old)
	if err != nil {
		return fmt.Errorf("segments that %s cannot be removed: %w", why, err)
	}
	r.why = why
	record := Event{Name: Removed, Time: now, Actor: "server", Detail: r.String()}
	if err := w.dir.write([]Event{record}, w.author(), w.opt.size); err != nil {
		return err
	}
	w.mu.Lock()
	w.written++
	w.mu.Unlock()
	if err := w.flush(); err != nil {
		return err
	}
	if w.opt.OnRemove != nil {
		if err := w.opt.OnRemove(Head{w.dir.tail.chain, r.seq, r.hash}); err != nil {
			return fmt.Errorf("note in the store what is to be removed: %w", err)
		}
	}
	if err := w.dir.lock.take(syscall.LOCK_EX); err != nil {
		return err
	}
	defer w.dir.lock.release()
	for _, s := range list[:old] {
		if err := os.Remove(s.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if why == ofSize {
		w.opt.Log.Warn("the audit trail has reached its limit: its oldest files were removed before their retention was over; raise audit.max_size, or set audit.refreshes to false",
			"directory", w.opt.Directory, "files", old, "max_size_bytes", w.opt.MaxSize)
	}
	return syncDirectory(w.opt.Directory)
}

// tooOld is how many of the first segments are older than the retention: the
// lines of a segment are not younger than the first of the next that has one.
func (w *writer) tooOld(list []segment, now time.Time) (n int, err error) {
	for i := 1; i < len(list) && w.opt.Retention > 0; i++ {
		next, err := list[i].firstEntry()
		if hardlyBegun(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if !next.Time.Before(now.Add(-w.opt.Retention)) {
			break
		}
		n = i
	}
	return n, nil
}

// tooLarge is how many of the first segments are too many bytes, together with
// the others and the last one once it is full.
func (w *writer) tooLarge(list []segment) (n int, err error) {
	total := w.opt.size
	for i := len(list) - 2; i >= 0 && w.opt.MaxSize > 0 && n == 0; i-- {
		info, err := os.Stat(list[i].path)
		if err != nil {
			return 0, err
		}
		if total += info.Size(); total > w.opt.MaxSize {
			n = i + 1
		}
	}
	// The first that stays says how far the removed ones went.
	for ; n > 0 && n < len(list); n++ {
		if _, err := list[n].firstEntry(); !hardlyBegun(err) {
			return n, err
		}
	}
	return 0, nil
}

// hardlyBegun reports whether a segment was left by a killed process before its
// first line was whole.
func hardlyBegun(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, errUnfinished) }

// removalOf is that of the first n segments. What does not continue what is
// removed would hide that somebody has tampered with it.
func removalOf(list []segment, n int) (removal, error) {
	next, err := list[n].firstEntry()
	if err != nil {
		return removal{}, err
	}
	r := removal{first: list[0].number, last: list[n-1].number, seq: next.Seq - 1}
	r.hash, _ = ParseHash(next.Prev)
	for i := n - 1; i >= 0; i-- {
		t, err := tailOf(list[i])
		if err == nil {
			err = t.damaged
		}
		if err != nil {
			return r, err
		}
		if t.seq != 0 && (t.seq != r.seq || t.hash != r.hash) {
			return r, fmt.Errorf("%s does not continue them: see mintage audit verify, and move them elsewhere", list[n].path)
		}
		if t.seq != 0 {
			break
		}
	}
	return r, nil
}
