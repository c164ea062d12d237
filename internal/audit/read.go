package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"time"
)

// A Filter selects entries. Empty members select all.
type Filter struct {
	GrantID, ClientID, Subject, RequestID string
	Events                                []Name    // any of them
	Since, Until                          time.Time // first instant, and the one after the last
}

func (f *Filter) match(e *Entry) bool {
	return (f.GrantID == "" || e.GrantID == f.GrantID) && (f.ClientID == "" || e.ClientID == f.ClientID) &&
		(f.Subject == "" || e.Subject == f.Subject) && (f.RequestID == "" || e.RequestID == f.RequestID) &&
		(len(f.Events) == 0 || slices.Contains(f.Events, e.Event)) &&
		(f.Since.IsZero() || !e.Time.Before(f.Since)) && (f.Until.IsZero() || e.Time.Before(f.Until))
}

// mayMatch spares most lines their parsing: what is asked for stands in a line
// as it is, unless it holds something that is escaped.
func (f *Filter) mayMatch(line []byte) bool {
	for _, text := range []string{f.GrantID, f.ClientID, f.Subject, f.RequestID} {
		if text != "" && plain(text) && !bytes.Contains(line, []byte(text)) {
			return false
		}
	}
	return true
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return true
}

// A DamagedLine is one of a trail that is no record.
type DamagedLine struct {
	File string
	Line int // counts from 1
	Err  error
}

func (d *DamagedLine) Error() string { return fmt.Sprintf("%s, line %d: %v", d.File, d.Line, d.Err) }
func (d *DamagedLine) Unwrap() error { return d.Err }

// Read yields the entries of the trail in a directory that the filter selects,
// oldest first, also while it is written. It does not verify the chain. A line
// that is no record is yielded as *DamagedLine, and reading goes on; after any
// other error it ends. A directory that does not exist holds no entries.
func Read(dir string, f Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		files, err := segments(dir)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for _, s := range skip(files, f.Since) {
			if _, more := readSegment(s, 0, &f, yield); !more {
				return
			}
		}
	}
}

// followEvery is how often Follow looks for new lines.
const followEvery = 300 * time.Millisecond

// Follow is Read, and goes on with what is written from then on until ctx ends.
func Follow(ctx context.Context, dir string, f Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var number uint64
		var offset int64
		for {
			files, err := segments(dir)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if number == 0 {
				files = skip(files, f.Since)
			}
			for _, s := range files {
				if s.number < number {
					continue
				}
				if s.number > number {
					number, offset = s.number, 0
				}
				var more bool
				if offset, more = readSegment(s, offset, &f, yield); !more {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(followEvery):
			}
		}
	}
}

// skip leaves out the segments that end before an instant.
func skip(files []segment, since time.Time) []segment {
	if since.IsZero() {
		return files
	}
	for i := len(files) - 1; i > 0; i-- {
		// Records of several processes may be out of order by what they wait.
		if first, err := files[i].firstEntry(); err == nil && first.Time.Before(since.Add(-time.Minute)) {
			return files[i:]
		}
	}
	return files
}

// readSegment yields the entries of a segment from an offset on, and returns
// the offset behind its last whole line.
func readSegment(s segment, from int64, f *Filter, yield func(Entry, error) bool) (end int64, more bool) {
	file, err := os.Open(s.path)
	if err == nil {
		_, err = file.Seek(from, io.SeekStart)
		defer file.Close()
	}
	if errors.Is(err, os.ErrNotExist) {
		return from, true // removed meanwhile: it was older than the retention
	}
	if err != nil {
		yield(Entry{}, err)
		return from, false
	}
	lines := newLines(file)
	for {
		line, err := lines.next()
		end = from + lines.offset
		switch {
		case err == io.EOF, errors.Is(err, errUnfinished):
			return end, true // it is being written, or was when a process was killed
		case err != nil && !errors.Is(err, errLongLine):
			yield(Entry{}, err)
			return end, false
		case err == nil && !f.mayMatch(line):
			continue
		}
		var e Entry
		if err == nil {
			e, err = parseLine(line)
		}
		switch {
		case err != nil:
			if !yield(Entry{}, &DamagedLine{s.path, lines.number, err}) {
				return end, false
			}
		case f.match(&e) && !yield(e, nil):
			return end, false
		}
	}
}

func parseLine(line []byte) (e Entry, err error) {
	// Members that a later version has added are left alone.
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("no record: %w", err)
	}
	if e.Seq == 0 || e.Event == "" {
		return e, errors.New("no record: it has no seq or no event")
	}
	return e, nil
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

// next is the next line without its line feed, valid until the next call. What
// is behind the last line feed is errUnfinished.
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
