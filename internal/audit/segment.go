package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	suffix   = ".jsonl"
	lockName = "lock"
)

// A segment is one file of an audit log. Segments are numbered from 1.
type segment struct {
	path   string
	number uint64
}

func segmentPath(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%08d%s", number, suffix))
}

// segments lists those of a directory in their order.
func segments(dir string) (list []segment, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), suffix)
		n, err := strconv.ParseUint(digits, 10, 64)
		if path := segmentPath(dir, n); ok && err == nil && filepath.Base(path) == e.Name() {
			list = append(list, segment{path, n})
		}
	}
	slices.SortFunc(list, func(a, b segment) int { return int(int64(a.number) - int64(b.number)) })
	return list, nil
}

// firstEntry is the one that begins the segment.
func (s segment) firstEntry() (Entry, error) {
	f, err := os.Open(s.path)
	if err != nil {
		return Entry{}, err
	}
	defer f.Close()
	line, err := newLines(f).next()
	if err != nil {
		return Entry{}, fmt.Errorf("%s: %w", s.path, err)
	}
	return parseLine(line)
}

// A tail is the end of the log: the position of the next line.
type tail struct {
	segment segment // number 0: there is none
	size    int64
	chain   string    // random, the same in all segments
	began   time.Time // of the segment
	seq     uint64    // of the last line
	hash    Hash      // of the last line
	// torn is the number of bytes after the last complete line: a process was
	// killed, or the machine lost power, during a write. For an empty segment, they
	// are at the end of the one before.
	torn int64
	// damaged is the reason why the chain cannot be continued.
	damaged error
}

// readTail finds the end of a segment, whose last line may be incomplete. Its seq
// is zero if even the first line is incomplete.
func readTail(f *os.File, s segment) (t tail, err error) {
	info, err := f.Stat()
	if err != nil {
		return t, err
	}
	t.segment, t.size = s, info.Size()
	line, end, err := lastLine(f, t.size)
	if err != nil {
		return t, err
	}
	if t.torn = t.size - end; line == nil {
		return t, nil
	}
	e, err := parseLine(line)
	if err != nil {
		t.damaged = fmt.Errorf("the last line of %s is %w", filepath.Base(s.path), err)
		return t, nil
	}
	t.seq, t.hash = e.Seq, hashLine(line)
	first, err := newLines(io.NewSectionReader(f, 0, t.size)).next()
	if err == nil {
		e, err = parseLine(first)
	}
	if err == nil {
		t.began = e.Time
		t.chain, _, err = parseSegmentDetail(e)
	}
	if err != nil {
		t.damaged = fmt.Errorf("the first line of %s is %w", filepath.Base(s.path), err)
	}
	return t, nil
}

// lastLine returns the last complete line within size bytes, and the offset after
// its line feed.
func lastLine(f io.ReaderAt, size int64) (line []byte, end int64, err error) {
	var text []byte
	for from := size; ; {
		// The last line and an incomplete one after it fit into two steps, unless the
		// machine has lost power and left a hole.
		step := min(from, 2*maxLine)
		from -= step
		block := make([]byte, step, step+int64(len(text)))
		if _, err := f.ReadAt(block, from); err != nil && err != io.EOF {
			return nil, 0, err
		}
		text = append(block, text...)
		last := bytes.LastIndexByte(text, '\n')
		if last >= 0 {
			if begin := bytes.LastIndexByte(text[:last], '\n'); begin >= 0 || from == 0 {
				return text[begin+1 : last], from + int64(last) + 1, nil
			}
		}
		if from == 0 {
			return nil, 0, nil
		}
		if last < 0 {
			text = nil // it contains no line feed
		}
	}
}

// A lock serializes the processes that write one audit log (flock). It is a file of its
// own, because segments change.
type lock struct{ f *os.File }

var errLocked = errors.New("another process holds the audit log's lock")

// take takes the lock, which readers share. It gives up after some two seconds: a
// stopped process may hold the lock.
func (l lock) take(how int) error {
	for pause := time.Millisecond; pause <= 1024*time.Millisecond; pause *= 2 {
		err := syscall.Flock(int(l.f.Fd()), how|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		time.Sleep(pause)
	}
	return errLocked
}

func (l lock) release() error { return syscall.Flock(int(l.f.Fd()), syscall.LOCK_UN) }

// A directory is one in which this process writes.
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
				d.tail.damaged = fmt.Errorf("record %d, which this process has written, was changed or removed", ours.seq)
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
	// Where a process was killed while it began a segment, the last whole line
	// is in the one before.
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

// stands reports whether the last line of t is still at its offset.
func (t tail) stands() bool {
	f, err := os.Open(t.segment.path)
	if err != nil {
		return false
	}
	defer f.Close()
	line, end, err := lastLine(f, t.size)
	return err == nil && end == t.size && hashLine(line) == t.hash
}

func tailOf(s segment) (tail, error) {
	f, err := os.Open(s.path)
	if err != nil {
		return tail{}, err
	}
	defer f.Close()
	return readTail(f, s)
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
