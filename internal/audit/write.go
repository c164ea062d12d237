package audit

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	segmentSize = 64 << 20
	segmentAge  = 24 * time.Hour
)

// write appends all events to the log, or none of them.
func (d *directory) write(events []Event, by *author, size int64) (err error) {
	if err := d.open(); err != nil {
		return err
	}
	if err := d.lock.take(syscall.LOCK_EX); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.lock.release()) }()
	if err := d.seek(); err != nil {
		d.forget()
		return err
	}
	if d.full(size, by.now) {
		if err := d.begin(by); err != nil {
			return err
		}
	}
	t, text := d.tail, d.text[:0]
	for i := range events {
		text = t.follow(text, &events[i], by)
	}
	if cap(text) <= maxKept {
		d.text = text
	}
	return d.append(text, t)
}

// maxKept limits the buffer that a writer keeps for its next lines, in bytes.
const maxKept = 256 << 10

// follow appends the line that follows t to text, and moves t on.
func (t *tail) follow(text []byte, e *Event, by *author) []byte {
	begin := len(text)
	text = appendLine(text, e, t.seq+1, t.hash, by)
	t.seq++
	t.hash = hashLine(text[begin : len(text)-1])
	return text
}

// full reports whether the next line must begin a segment. A segment that a killed
// process has left is not appended to: its last bytes are evidence.
func (d *directory) full(size int64, now time.Time) bool {
	t := &d.tail
	return d.file == nil || t.size == 0 || t.torn > 0 || t.damaged != nil || t.size >= size ||
		now.Sub(t.began) >= segmentAge || now.Before(t.began.Add(-segmentAge))
}

// begin begins a segment. The one before is durable then: it is not opened for
// writing again.
func (d *directory) begin(by *author) error {
	t := d.tail
	detail := segmentDetail{chain: t.chain, torn: t.torn}
	number := t.segment.number + 1
	if d.file != nil && t.size == 0 {
		number-- // a process was killed before it wrote the first line
	}
	if t.damaged != nil {
		t.seq, t.hash, detail = 0, Hash{}, segmentDetail{damage: t.damaged.Error()}
	}
	if detail.chain == "" {
		var id [8]byte
		rand.Read(id[:])
		detail.chain = hex.EncodeToString(id[:])
	}
	if d.file != nil {
		if err := d.file.Sync(); err != nil {
			return err
		}
	}
	s := segment{segmentPath(d.path, number), number}
	f, err := d.create(filepath.Base(s.path), os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	if err := syncDirectory(d.path); err != nil {
		return errors.Join(err, f.Close())
	}
	d.forget()
	d.file, d.tail = f, tail{segment: s, seq: t.seq, hash: t.hash, chain: detail.chain, began: stamp(by.now)}
	t = d.tail
	return d.append(t.follow(nil, &Event{Name: Segment, Time: by.now, Detail: detail.String()}, by), t)
}

// append writes text, whose last line is that of t. It truncates what a failed
// write has left: no reader has used it.
func (d *directory) append(text []byte, t tail) error {
	n, err := d.file.Write(text)
	if err != nil {
		if n > 0 {
			err = errors.Join(err, d.file.Truncate(d.tail.size))
		}
		d.forget()
		return err
	}
	t.size = d.tail.size + int64(n)
	d.tail = t
	return nil
}

func syncDirectory(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// A segmentDetail is the detail of the first line of a segment.
type segmentDetail struct {
	chain  string
	torn   int64  // bytes of an unfinished line at the end of the segment before
	damage string // why the chain before could not be continued
}

const (
	detailChain   = "chain "
	detailTorn    = ", after %d bytes of an unfinished line"
	detailDamaged = ", a new one: "
)

func (d segmentDetail) String() string {
	text := detailChain + d.chain
	if d.torn > 0 {
		text += fmt.Sprintf(detailTorn, d.torn)
	}
	if d.damage != "" {
		text += detailDamaged + d.damage
	}
	return text
}

var errNoSegment = errors.New("not that of a segment")

// parseSegmentDetail reads what String wrote.
func parseSegmentDetail(e Entry) (chain string, torn int64, err error) {
	text, ok := strings.CutPrefix(e.Detail, detailChain)
	if e.Event != Segment || !ok {
		return "", 0, errNoSegment
	}
	chain, rest, _ := strings.Cut(text, ",")
	if len(chain) != 16 {
		return "", 0, errNoSegment
	}
	if rest != "" {
		// It does not match where something else follows.
		fmt.Sscanf(","+rest, detailTorn, &torn)
	}
	return chain, torn, nil
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
