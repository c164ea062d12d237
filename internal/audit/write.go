package audit

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	segmentSize = 64 << 20
	segmentAge  = 24 * time.Hour
)

// A lock serializes the processes that write one audit log (flock). It is a file of its
// own, because segments change.
type lock struct{ f *os.File }

var errLocked = errors.New("another process holds the audit log's lock")

// take takes the lock, which readers share. It returns errLocked after some two
// seconds: a stopped process may hold the lock.
func (l lock) take(how int) error {
	for try := range 37 {
		err := syscall.Flock(int(l.f.Fd()), how|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		time.Sleep(time.Millisecond << min(try, 6))
	}
	return errLocked
}

func (l lock) release() error { return syscall.Flock(int(l.f.Fd()), syscall.LOCK_UN) }

// A directory is the directory of an audit log that this process writes.
type directory struct {
	path  string
	owner string // directory whose owner receives what root creates here
	lock  lock
	file  *os.File // the last segment
	tail  tail     // as this process has left it
	text  []byte   // to be written; kept for the next time
}

// open makes the directory if it is absent, and opens its lock.
func (d *directory) open() error {
	if d.lock.f != nil {
		return nil
	}
	if err := os.Mkdir(d.path, 0o700); err == nil {
		made, err := os.OpenFile(d.path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		if err := errors.Join(d.giveToOwner(made), made.Close()); err != nil {
			return err
		}
	} else if !errors.Is(err, os.ErrExist) {
		return err
	}
	f, err := d.create(lockName, os.O_RDWR)
	if err != nil {
		return err
	}
	d.lock.f = f
	return nil
}

// create opens a file of the directory, and makes it if it is absent.
func (d *directory) create(name string, flags int) (*os.File, error) {
	path := filepath.Join(d.path, name)
	f, err := os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, os.ErrExist) {
		return os.OpenFile(path, flags|syscall.O_NOFOLLOW, 0)
	}
	if err != nil {
		return nil, err
	}
	if err := d.giveToOwner(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// giveToOwner changes the owner of a file that root has made, so that a command of root
// does not keep the server's user out. It uses the open file: the server's user could
// replace the path by another file, and must not become the owner of that.
func (d *directory) giveToOwner(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(d.owner)
	if d.owner == "" || errors.Is(err, os.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(f.Name()))
	}
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

// seek finds the end of the log, which another process may have moved. The caller
// holds the lock.
func (d *directory) seek() (err error) {
	if d.file != nil {
		next := segmentPath(d.path, d.tail.segment.number+1)
		here, err := os.Stat(d.tail.segment.path)
		if err == nil && here.Size() == d.tail.size && d.same(here) {
			if _, err := os.Stat(next); errors.Is(err, os.ErrNotExist) {
				return nil
			}
		}
		// Other processes only append, so our last line must still be at its offset. If
		// it is not, mark the log as damaged.
		ours := d.tail
		d.forget()
		defer func() {
			if err == nil && d.file != nil && d.tail.damaged == nil && !ours.stands() {
				d.tail.damaged = fmt.Errorf("record %d, which this process knew as the last one, was changed or removed", ours.seq)
			}
		}()
	}
	list, err := segments(d.path)
	if err != nil || len(list) == 0 {
		d.tail = tail{}
		return err
	}
	last := list[len(list)-1]
	f, err := os.OpenFile(last.path, os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	t, err := readTail(f, last)
	// If a process was killed while it began a segment, the last whole line is in
	// the segment before.
	for i := len(list) - 2; err == nil && i >= 0 && t.seq == 0 && t.damaged == nil; i-- {
		var before tail
		before, err = tailOf(list[i])
		t.seq, t.hash, t.chain, t.damaged = before.seq, before.hash, before.chain, before.damaged
		if t.size == 0 && i == len(list)-2 {
			t.torn = before.torn
		}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	d.file, d.tail = f, t
	return nil
}

// catchUp moves to the end of what other processes have appended since the last write. From
// then on, it is noticed if that is removed. If our last line is gone, if theirs has no end,
// or after an error, nothing moves: the next write compares with our line, whatever was
// appended since.
func (d *directory) catchUp() {
	if d.file == nil || d.lock.take(syscall.LOCK_EX) != nil {
		return
	}
	there := directory{path: d.path}
	err := errors.Join(there.seek(), d.lock.release())
	if err != nil || there.file == nil || there.tail.damaged != nil || !there.tail.stands() || !d.tail.stands() {
		there.forget()
		return
	}
	d.forget()
	d.file, d.tail = there.file, there.tail
}

// same reports whether the file at the last segment's path is the open one: it may
// have been replaced.
func (d *directory) same(there os.FileInfo) bool {
	ours, err := d.file.Stat()
	return err == nil && os.SameFile(ours, there)
}

// forget closes the last segment, and looks for the end again next time.
func (d *directory) forget() {
	if d.file != nil {
		d.file.Close()
		d.file = nil
	}
}

func (d *directory) close() (err error) {
	if d.file != nil {
		err = d.file.Close()
		d.file = nil
	}
	if d.lock.f != nil {
		err = errors.Join(err, d.lock.f.Close())
		d.lock.f = nil
	}
	return err
}

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

// follow appends the line that follows t to text, and advances t to that line.
func (t *tail) follow(text []byte, e *Event, by *author) []byte {
	begin := len(text)
	text = appendLine(text, e, t.seq+1, t.hash, by)
	t.seq++
	t.hash = hashLine(text[begin : len(text)-1])
	return text
}

// full reports whether the next line must begin a segment. No process appends to a
// segment with an unfinished line: its last bytes are evidence.
func (d *directory) full(size int64, now time.Time) bool {
	t := &d.tail
	return d.file == nil || t.size == 0 || t.torn > 0 || t.damaged != nil || t.size >= size ||
		now.Sub(t.began) >= segmentAge || now.Before(t.began.Add(-segmentAge))
}

// begin begins a segment. It makes the segment before durable first: no process
// opens that for writing again.
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

// append writes text, whose last line is that of t. It truncates the remains of a
// failed write, which no reader has used.
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
