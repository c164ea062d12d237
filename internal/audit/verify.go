package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
)

// A Break is the error for the first place at which a chain does not verify.
type Break struct {
	File string
	Line int // counts from 1; 0: the file as a whole
	Why  string
}

func (b *Break) Error() string {
	if b.Line == 0 {
		return fmt.Sprintf("%s: %s", b.File, b.Why)
	}
	return fmt.Sprintf("%s, line %d: %s", b.File, b.Line, b.Why)
}

// ErrNone means that nothing was ever recorded, or that all of it was removed.
var ErrNone = errors.New("there is no audit log")

// A Verdict describes an audit log that was verified, up to its first break.
type Verdict struct {
	Segments    int
	Records     uint64
	First, Last Entry
	Head        Head
	// Anchors holds those of Check.Anchors that were found, with their seq.
	Anchors map[Hash]uint64
	// Notes describe findings that are no break: incomplete lines of killed processes,
	// parts that retention removed, records that are counted as missing.
	Notes []string
	// Removed is the seq of the last record that retention has removed, and RemovedAt
	// is the time of the record about it.
	Removed   uint64
	RemovedAt time.Time
	// MACs is how many records have a MAC that is right, and WithoutMAC how many have
	// none.
	MACs, WithoutMAC uint64
	unmarked         uint64 // seq of the first record without a MAC
}

// A Check configures a verification.
type Check struct {
	// Anchors are hashes of lines to look for.
	Anchors []Hash
	// Ring, if it is not nil, holds the keys that made the MACs of lines. Without it,
	// MACs are not verified.
	Ring *keys.Ring
	// Restored says that the ring is of a restored store, which may lack the keys of
	// later lines: a note counts those, and their MACs are not verified.
	Restored bool
	// Progress, if not nil, is called with the bytes that were read.
	Progress func(done, total int64)
}

// Verify verifies the audit log in a directory, while others may write it: each
// line holds the hash of the one before, the numbers have no gap, and what is
// missing at the beginning was removed by retention. It returns *Break at the
// first place where this does not hold.
func (c Check) Verify(dir string) (Verdict, error) {
	for tries := 0; ; tries++ {
		list, sizes, err := snapshot(dir)
		if err != nil {
			return Verdict{}, err
		}
		if len(list) == 0 {
			return Verdict{}, fmt.Errorf("%w in %s", ErrNone, dir)
		}
		v, err := c.verify(list, sizes, false)
		if errors.Is(err, os.ErrNotExist) && tries < 3 {
			continue // retention has removed a segment meanwhile, and recorded it
		}
		return v, err
	}
}

// VerifyFiles verifies segments that follow each other, from any directory. They
// need not be the first of their log; a note says so.
func (c Check) VerifyFiles(paths []string) (Verdict, error) {
	var list []segment
	var sizes []int64
	for i, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return Verdict{}, err
		}
		list, sizes = append(list, segment{path, uint64(i + 1)}), append(sizes, info.Size())
	}
	return c.verify(list, sizes, true)
}

// snapshot lists the segments and their sizes while no process writes.
func snapshot(dir string) (list []segment, sizes []int64, err error) {
	// If this process may not open the lock, a line that is being written looks like an
	// unfinished one, which is no break.
	if f, err := os.Open(filepath.Join(dir, lockName)); err == nil {
		defer f.Close()
		l := lock{f}
		if err := l.take(syscall.LOCK_SH); err != nil {
			return nil, nil, err
		}
		defer l.release()
	}
	if list, err = segments(dir); err != nil {
		return nil, nil, err
	}
	for _, s := range list {
		info, err := os.Stat(s.path)
		if err != nil {
			return nil, nil, err
		}
		sizes = append(sizes, info.Size())
	}
	return list, sizes, nil
}

// A verifier is the state of a verification.
type verifier struct {
	Check
	v        Verdict
	wanted   map[Hash]bool
	done     int64
	total    int64
	torn     int64    // bytes behind the last whole line of the segment before
	part     bool     // lines before the first one may be missing
	beganAt  *removal // what must have been removed before the first line
	beganIn  segment  // that of the first line
	removals []removal
	lacking  uint64          // lines whose key the ring lacks
	ends     map[uint64]Hash // hash of the last line of each segment, and of the line before the first, by seq
	segment  segment
}

func (c Check) verify(list []segment, sizes []int64, part bool) (Verdict, error) {
	w := &verifier{Check: c, part: part, wanted: map[Hash]bool{}, ends: map[uint64]Hash{}, v: Verdict{Anchors: map[Hash]uint64{}}}
	for _, h := range c.Anchors {
		w.wanted[h] = true
	}
	for _, n := range sizes {
		w.total += n
	}
	for i, s := range list {
		if i > 0 && s.number != list[i-1].number+1 {
			return w.v, &Break{s.path, 0, fmt.Sprintf("segment %d follows segment %d: those between are missing", s.number, list[i-1].number)}
		}
		if err := w.read(s, sizes[i]); err != nil {
			return w.v, err
		}
	}
	return w.v, w.finish()
}

func (w *verifier) breaks(line int, format string, args ...any) error {
	return &Break{w.segment.path, line, fmt.Sprintf(format, args...)}
}

// read verifies one segment, up to its size at the beginning of the verification.
func (w *verifier) read(s segment, size int64) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	w.segment = s
	lines := newLines(io.LimitReader(f, size))
	before := w.done
	defer func() {
		if w.v.Records > 0 {
			w.ends[w.v.Head.Seq] = w.v.Head.Hash
		}
	}()
	for {
		text, err := lines.next()
		w.done = before + lines.offset
		if w.Progress != nil && (lines.number%4096 == 0 || err != nil) {
			w.Progress(w.done, w.total)
		}
		switch {
		case err == io.EOF && lines.number == 0, errors.Is(err, errUnfinished):
			w.torn = size - lines.offset
			w.v.Segments++
			if w.torn > 0 {
				w.v.Notes = append(w.v.Notes, fmt.Sprintf("%s ends with %d bytes of a line that was not finished: a process was killed, or the machine lost power", s.path, w.torn))
			}
			w.done = before + size
			return nil
		case err == io.EOF:
			w.torn = 0
			w.v.Segments++
			return nil
		case errors.Is(err, errLongLine):
			return w.breaks(lines.number, "the line is longer than any record")
		case err != nil:
			return err
		}
		if err := w.line(text, lines.number); err != nil {
			return err
		}
	}
}

// line verifies the next line of the segment.
func (w *verifier) line(text []byte, number int) error {
	e, err := parseLine(text)
	if err != nil {
		return w.breaks(number, "the line is %v: it was changed", err)
	}
	if number == 1 {
		if err := w.begins(e); err != nil {
			return err
		}
	}
	prev, ok := ParseHash(e.Prev)
	switch {
	case e.Prev != "" && !ok:
		return w.breaks(number, "its prev is no hash: the line was changed")
	case w.v.Records == 0 && (e.Seq == 1) != (e.Prev == ""):
		return w.breaks(number, "its seq is %d and its prev %q: the line was changed", e.Seq, e.Prev)
	case w.v.Records == 0:
		if e.Seq > 1 {
			w.beganAt, w.beganIn = &removal{seq: e.Seq - 1, hash: prev}, w.segment
			w.ends[e.Seq-1] = prev
		}
		w.v.First = e
	case e.Seq != w.v.Last.Seq+1:
		return w.breaks(number, "its seq is %d and follows %d: lines between them were removed, or moved", e.Seq, w.v.Last.Seq)
	case prev != w.v.Head.Hash:
		return w.breaks(number, "its prev is not the hash of the line before: that line (seq %d) or this one was changed", w.v.Last.Seq)
	}
	if err := w.mac(text, e, number); err != nil {
		return err
	}
	hash := hashLine(text)
	if w.wanted[hash] {
		w.v.Anchors[hash] = e.Seq
	}
	w.v.Records++
	w.v.Last, w.v.Head.Seq, w.v.Head.Hash = e, e.Seq, hash
	switch e.Event {
	case Removed:
		if r, ok := parseRemoval(e.Detail); ok && r.seq < e.Seq {
			r.at = e.Time
			w.removals = append(w.removals, r)
		}
	case Gap:
		w.v.Notes = append(w.v.Notes, fmt.Sprintf("seq %d, %s: %s", e.Seq, e.Time.Format(time.RFC3339), e.Detail))
	}
	return nil
}

// mac verifies the MAC of a line, which proves that its writer had the key ring. Lines
// without a MAC are of commands that ran without the key-encryption key: they may
// record the events of byCommands only.
func (w *verifier) mac(text []byte, e Entry, number int) error {
	body, mac, has := cutMAC(text)
	switch {
	case has != (e.MAC != ""):
		return w.breaks(number, "its mac is not where a mac belongs: the line was changed")
	case w.Ring == nil:
		return nil
	case has:
		switch err := w.Ring.CheckLineMAC(mac, body, grant.At(e.Time)); {
		case errors.Is(err, keys.ErrUnknownKey) && w.Restored:
			w.lacking++
			return nil
		case errors.Is(err, keys.ErrUnknownKey):
			return w.breaks(number, "its mac is by key %s, which the store does not hold: the line was made up, or the store is another one, or was restored from a backup of before that key", mac[:8])
		case errors.Is(err, keys.ErrOutOfUse):
			return w.breaks(number, "its mac is by key %s, which was out of use at %s: the line was made with a copy of that key", mac[:8], e.Time.Format(time.RFC3339))
		case err != nil:
			return w.breaks(number, "its mac is wrong: the line was changed or made up")
		}
		w.v.MACs++
	case !byCommands(e.Event):
		return w.breaks(number, "it has no mac, and only servers record %s: the line was made up", e.Event)
	default:
		w.v.WithoutMAC++
		w.v.unmarked = cmp.Or(w.v.unmarked, e.Seq)
	}
	return nil
}

// byCommands reports whether commands record an event, perhaps without the
// key-encryption key. A server that cannot start because of its key records its
// start and end.
func byCommands(n Name) bool {
	return slices.Contains(storeNames, store.EventName(n)) || slices.Contains([]Name{BackupMade, ServerStarted, ServerStopped, Segment, Gap}, n)
}

// begins verifies the first line of a segment.
func (w *verifier) begins(e Entry) error {
	chain, torn, err := parseSegmentDetail(e)
	switch {
	case err != nil:
		return w.breaks(1, "the first line is %v: lines before it were removed", err)
	case w.v.Head.Chain == "":
		w.v.Head.Chain = chain
	case chain != w.v.Head.Chain:
		return w.breaks(1, "another chain begins here: %s", e.Detail)
	case torn != w.torn:
		return w.breaks(1, "the segment before ends with %d bytes that are no line, and was left with %d: bytes were added or removed", w.torn, torn)
	}
	w.torn = 0
	return nil
}

// finish makes the checks that need all lines, and notes what the MACs do not cover.
func (w *verifier) finish() error {
	switch {
	case w.Ring == nil:
	case w.v.MACs == 0:
		w.v.Notes = append(w.v.Notes, "no record has a mac: anyone with write access to the files could have forged them")
	case w.v.WithoutMAC > 0:
		w.v.Notes = append(w.v.Notes, fmt.Sprintf("%d records have no mac, the first is seq %d: commands wrote them without the key-encryption key, or anyone with write access to the files forged them", w.v.WithoutMAC, w.v.unmarked))
	}
	if w.lacking > 0 {
		w.v.Notes = append(w.v.Notes, fmt.Sprintf("%d records have a mac by a key that the restored store lacks: anyone with write access to the files could have forged them", w.lacking))
	}
	if w.beganAt == nil {
		return nil
	}
	for _, r := range w.removals {
		// A process that was killed while it removed segments, oldest first, leaves some
		// that its record names: the log begins before the end of the removal. This hides
		// nothing: the record is part of the chain and names the end of a segment and its
		// hash, and the remaining lines are verified.
		if end, known := w.ends[r.seq]; known && end == r.hash {
			w.v.Removed, w.v.RemovedAt = w.beganAt.seq, r.at
			w.v.Notes = append(w.v.Notes, fmt.Sprintf("the records up to seq %d were removed by %s", w.v.Removed, r.by()))
			return nil
		}
	}
	if w.part {
		w.v.Notes = append(w.v.Notes, fmt.Sprintf("the given files begin with seq %d; earlier files were not given", w.beganAt.seq+1))
		return nil
	}
	w.segment = w.beganIn
	return w.breaks(0, "the audit log begins with seq %d, and no record says that what came before was removed by the retention or the limit of its size", w.beganAt.seq+1)
}
