package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// segments lists the segments of a directory in order.
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

func parseLine(line []byte) (e Entry, err error) {
	// Members of a later version are ignored.
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("no record: %w", err)
	}
	if e.Seq == 0 || e.Event == "" {
		return e, errors.New("no record: it has no seq or no event")
	}
	return e, nil
}

// firstEntry returns the first entry of the segment.
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

// parseSegmentDetail parses the output of segmentDetail.String.
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
		// Sscanf matches nothing if the detail names no torn bytes: torn stays 0.
		fmt.Sscanf(","+rest, detailTorn, &torn)
	}
	return chain, torn, nil
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
	// killed, or the machine lost power, during a write. If the segment is empty,
	// torn counts the bytes of such a line at the end of the segment before it.
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
	err = linesBackwards(f, size, func(text []byte, after int64) bool {
		line, end = text, after
		return false
	})
	return line, end, err
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

var (
	errUnfinished = errors.New("the last line is not finished")
	errLongLine   = errors.New("longer than any record")
)

// lines reads lines and counts them.
type lines struct {
	r      *bufio.Reader
	number int   // of the line last read
	offset int64 // of its end, and of the line feed behind it
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 2*maxLine)} }

// next returns the next line without its line feed, valid until the next call.
// Bytes after the last line feed are errUnfinished.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	switch {
	case err == nil:
		l.number++
		l.offset += int64(len(line))
		return line[:len(line)-1], nil
	case err == io.EOF && len(line) > 0:
		return line, errUnfinished
	case errors.Is(err, bufio.ErrBufferFull):
		n := len(line)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = l.r.ReadSlice('\n')
			n += len(line)
		}
		if err == io.EOF {
			return nil, errUnfinished
		}
		if err != nil {
			return nil, err
		}
		l.number++
		l.offset += int64(n)
		return nil, errLongLine
	}
	return nil, err
}

// A removal describes segments that retention removes.
type removal struct {
	first, last uint64 // segments
	why         string
	seq         uint64 // of the last line in them
	hash        Hash
	at          time.Time // of its record
}

// The reasons for which segments are removed.
const (
	ofAge  = "were older than the retention"
	ofSize = "made the audit log larger than its limit"
)

func (r removal) by() string {
	if r.why == ofSize {
		return "the limit of its size"
	}
	return "retention"
}

func (r removal) String() string {
	return fmt.Sprintf("segments %d to %d, which %s; seq %d, sha256 %s", r.first, r.last, r.why, r.seq, r.hash)
}

// parseRemoval parses the output of removal.String, except for the segments.
func parseRemoval(detail string) (r removal, ok bool) {
	var hash string
	which, upTo, _ := strings.Cut(detail, "; ")
	_, r.why, _ = strings.Cut(which, ", which ")
	if n, _ := fmt.Sscanf(upTo, "seq %d, sha256 %s", &r.seq, &hash); n == 2 && (r.why == ofAge || r.why == ofSize) {
		r.hash, ok = ParseHash(hash)
	}
	return r, ok
}

// noCompleteLine reports whether an error of reading a line means that there is no complete
// one: the process was killed before it had written the first line of a segment.
func noCompleteLine(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, errUnfinished) }

// removalOf describes the removal of the first n segments. It fails if the next
// segment does not continue them: the removal would hide a manipulation.
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

// linesBackwards calls line with each complete line within size bytes and the offset
// after its line feed, the last line first, until line returns false.
func linesBackwards(f io.ReaderAt, size int64, line func(text []byte, end int64) bool) error {
	var text []byte // the end of a line whose beginning is not read yet
	var end int64   // of that line; 0: it is being written, or its process was killed
	for from := size; from > 0; {
		step := min(from, backStep)
		from -= step
		block := make([]byte, step, step+int64(len(text)))
		if _, err := f.ReadAt(block, from); err != nil && err != io.EOF {
			return err
		}
		text = append(block, text...)
		for i := bytes.LastIndexByte(text, '\n'); i >= 0; i = bytes.LastIndexByte(text, '\n') {
			if end > 0 && !line(text[i+1:], end) {
				return nil
			}
			text, end = text[:i], from+int64(i)+1
		}
		// A line that is longer than any record is no record, but a hole that a power loss
		// left, for example: keep only its beginning.
		if end == 0 || from > 0 && len(text) > 2*maxLine {
			text = nil
		}
	}
	if end > 0 {
		line(text, end)
	}
	return nil
}

// backStep is how many bytes linesBackwards reads at once.
const backStep = 64 << 10
