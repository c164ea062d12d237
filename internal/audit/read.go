package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"
)

// A Filter selects entries. Empty members select all.
type Filter struct {
	GrantID, ClientID, Subject, RequestID string
	Realms                                []string  // any of them, with their slash; "": records that name none
	Events                                []Name    // any of them
	Since, Until                          time.Time // first instant, and the one after the last

	done <-chan struct{} // ends the reading of a segment; nil: never
}

// Within returns f for a reading that stops when ctx ends, even if nothing matches.
func (f Filter) Within(ctx context.Context) Filter {
	f.done = ctx.Done()
	return f
}

func (f *Filter) match(e *Entry) bool {
	return (f.GrantID == "" || e.GrantID == f.GrantID) && (f.ClientID == "" || e.ClientID == f.ClientID) &&
		(len(f.Realms) == 0 || slices.Contains(f.Realms, e.Realm)) && (f.Subject == "" || e.Subject == f.Subject) && (f.RequestID == "" || e.RequestID == f.RequestID) &&
		(len(f.Events) == 0 || slices.Contains(f.Events, e.Event)) &&
		(f.Since.IsZero() || !e.Time.Before(f.Since)) && (f.Until.IsZero() || e.Time.Before(f.Until))
}

// mayMatch reports whether line may match, without parsing it: a line contains each text
// of the filter as it is, unless the text has characters that a line escapes.
func (f *Filter) mayMatch(line []byte) bool {
	for _, text := range [...]string{f.GrantID, f.RequestID, f.ClientID, f.Subject} {
		if !bytes.Contains(line, []byte(text)) && strings.Trim(text, plain) == "" {
			return false
		}
	}
	return true
}

// A DamagedLine is the error of a line that is no record.
type DamagedLine struct {
	File string
	Line int // counts from 1
	Err  error
}

func (d *DamagedLine) Error() string { return fmt.Sprintf("%s, line %d: %v", d.File, d.Line, d.Err) }
func (d *DamagedLine) Unwrap() error { return d.Err }

// Read yields the entries of the audit log in a directory that the filter
// selects, oldest first. It works while the log is written, and does not verify
// the chain. A line that is no record is yielded as *DamagedLine; any other error
// ends the sequence. A directory that does not exist holds no entries.
func Read(dir string, f Filter) iter.Seq2[Entry, error] {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	return Follow(ended, dir, f, nil)
}

// followEvery is how often Follow looks for new lines.
const followEvery = 300 * time.Millisecond

// Follow is like Read, and then calls reached and yields new entries until ctx ends.
func Follow(ctx context.Context, dir string, f Filter, reached func()) iter.Seq2[Entry, error] {
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
			if reached != nil {
				reached()
				reached = nil
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(followEvery):
			}
		}
	}
}

// skip drops the segments whose records are all from before an instant. They end when the
// next segment begins. If the clock was set back in between, they end at most segmentAge
// after their own first line.
func skip(files []segment, since time.Time) (kept []segment) {
	if since.IsZero() {
		return files
	}
	// Records of several processes may be out of order: each process queues its own.
	since = since.Add(-time.Minute)
	var next time.Time // first line of the next segment; zero: there is none, or it is damaged
	for _, s := range slices.Backward(files) {
		var began time.Time
		if first, err := s.firstEntry(); err == nil {
			began = first.Time
		}
		ends := next
		if next.Before(began) && !next.IsZero() {
			ends = began.Add(segmentAge)
		}
		if ends.IsZero() || !ends.Before(since) {
			kept = append(kept, s)
		}
		next = began
	}
	slices.Reverse(kept)
	return kept
}

// readSegment yields the entries of a segment after an offset, and returns the
// offset after its last complete line.
func readSegment(s segment, from int64, f *Filter, yield func(Entry, error) bool) (end int64, more bool) {
	file, err := os.Open(s.path)
	if err == nil {
		_, err = file.Seek(from, io.SeekStart)
		defer file.Close()
	}
	if errors.Is(err, os.ErrNotExist) {
		return from, true // removed by retention meanwhile
	}
	if err != nil {
		yield(Entry{}, err)
		return from, false
	}
	lines := newLines(file)
	for {
		select {
		case <-f.done:
			return end, false
		default:
		}
		line, err := lines.next()
		end = from + lines.offset
		switch {
		case err == io.EOF, errors.Is(err, errUnfinished):
			return end, true // the line is being written, or its process was killed
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

// A Place is the result of Find: where the log begins, and whether it contains the line.
type Place struct {
	First uint64 // seq of the first line; 0 if there is none
	Found bool
}

// Find looks for the line with the seq and hash of h. It reads only the segment
// that can contain the line, and verifies nothing.
func Find(dir string, h Head) (p Place, err error) {
	list, err := segments(dir)
	if err != nil {
		return p, err
	}
	var in segment
	for _, s := range list {
		first, err := s.firstEntry()
		if noCompleteLine(err) {
			continue
		}
		if err != nil {
			return p, err
		}
		p.First = cmp.Or(p.First, first.Seq)
		if first.Seq <= h.Seq {
			in = s
		}
	}
	if in.number == 0 {
		return p, nil
	}
	f, err := os.Open(in.path)
	if err != nil {
		return p, err
	}
	defer f.Close()
	for lines := newLines(f); !p.Found; {
		line, err := lines.next()
		switch {
		case noCompleteLine(err):
			return p, nil
		case err != nil && !errors.Is(err, errLongLine):
			return p, err
		}
		p.Found = hashLine(line) == h.Hash
	}
	return p, nil
}
