package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// small returns options that make segments of a few lines.
func (w *world) small() Options {
	o := w.options()
	o.size = 900
	return o
}

// segmented returns an audit log of at least three segments.
func segmented(t *testing.T) *world {
	w := newWorld(t)
	for range 5 {
		w.recordAs(w.small(), logins(3)...)
	}
	if list, err := segments(w.dir); err != nil || len(list) < 3 {
		t.Fatalf("%d segments, %v", len(list), err)
	}
	return w
}

func TestAnUntouchedAuditLogHolds(t *testing.T) {
	w := segmented(t)
	v := w.holds(Check{})
	if v.Records < 18 || v.First.Seq != 1 || v.Last.Seq != v.Records || v.Head.Seq != v.Records || v.Segments < 3 || len(v.Notes) > 0 {
		t.Errorf("%+v", v)
	}
}

// Every change of an audit log without rewriting the following lines is found at its
// position.
func TestWhatWasChangedIsFoundAtItsPlace(t *testing.T) {
	line := func(text []byte, n int) []byte { return bytes.SplitAfter(text, []byte("\n"))[n-1] }
	for name, c := range map[string]struct {
		change  func(w *world)
		segment uint64
		line    int
		why     string
	}{
		"a member changed": {func(w *world) {
			w.replace(2, bytes.Replace(w.text(2), []byte(`"alice"`), []byte(`"mallo"`), 1))
		}, 2, 3, "prev is not the hash"},
		"the last line of a segment changed": {func(w *world) {
			text := w.text(1)
			i := bytes.LastIndex(text, []byte("alice"))
			w.replace(1, slices.Concat(text[:i], []byte("mallo"), text[i+5:]))
		}, 2, 1, "prev is not the hash"},
		"a line removed": {func(w *world) {
			w.replace(2, bytes.Replace(w.text(2), line(w.text(2), 2), nil, 1))
		}, 2, 2, "lines between them were removed"},
		"a line doubled": {func(w *world) {
			l := line(w.text(2), 2)
			w.replace(2, bytes.Replace(w.text(2), l, slices.Concat(l, l), 1))
		}, 2, 3, "its seq is"},
		"two lines swapped": {func(w *world) {
			text := w.text(2)
			a, b := line(text, 2), line(text, 3)
			w.replace(2, bytes.Replace(text, slices.Concat(a, b), slices.Concat(b, a), 1))
		}, 2, 2, "its seq is"},
		"a line made up": {func(w *world) {
			l := bytes.Replace(line(w.text(2), 3), []byte("alice"), []byte("mallo"), 1)
			w.replace(2, bytes.Replace(w.text(2), line(w.text(2), 3), l, 1))
		}, 2, 4, "prev is not the hash"},
		"the first line of a segment removed": {func(w *world) {
			w.replace(2, bytes.Replace(w.text(2), line(w.text(2), 1), nil, 1))
		}, 2, 1, "lines before it were removed"},
		"a line that is no JSON": {func(w *world) {
			w.replace(2, bytes.Replace(w.text(2), line(w.text(2), 2), []byte("nothing\n"), 1))
		}, 2, 2, "no record"},
		"a line too long": {func(w *world) {
			w.replace(2, bytes.Replace(w.text(2), line(w.text(2), 2), append(bytes.Repeat([]byte("x"), 3*maxLine), '\n'), 1))
		}, 2, 2, "longer than any record"},
		"a segment removed in the middle": {func(w *world) { os.Remove(w.path(2)) }, 3, 0, "those between are missing"},
		"the first segment removed":       {func(w *world) { os.Remove(w.path(1)) }, 2, 0, "no record says"},
		"the end of a segment cut off": {func(w *world) {
			text := w.text(1)
			w.replace(1, text[:len(text)-20])
		}, 2, 1, "was left with 0"},
		"an unfinished line added": {func(w *world) { w.replace(1, append(w.text(1), "{}"...)) }, 2, 1, "was left with 0"},
		"another audit log's segment": {func(w *world) {
			other := newWorld(t)
			other.record(logins(1)...)
			w.replace(2, other.text(1))
		}, 2, 1, "another chain"},
	} {
		t.Run(name, func(t *testing.T) {
			w := segmented(t)
			c.change(w)
			_, err := Check{}.Verify(w.dir)
			var b *Break
			if !errors.As(err, &b) || !strings.Contains(b.Why, c.why) {
				t.Fatalf("%v, want a break that says %q", err, c.why)
			}
			if c.segment != 0 && (b.File != w.path(c.segment) || b.Line != c.line) {
				t.Errorf("found in %s, line %d; done in segment %d, line %d", b.File, b.Line, c.segment, c.line)
			}
		})
	}
}

// The chain cannot show that its end was cut off; a hash that was kept elsewhere can.
func TestAnAuditLogThatWasCutOffLacksTheHeadThatWasKept(t *testing.T) {
	w := newWorld(t)
	w.record(logins(5)...)
	head := w.holds(Check{}).Head
	if v := w.holds(Check{Anchors: []Hash{head.Hash}}); v.Anchors[head.Hash] != head.Seq {
		t.Errorf("the head is not found: %v", v.Anchors)
	}
	text := w.text(1)
	w.replace(1, text[:bytes.LastIndexByte(text[:len(text)-1], '\n')+1])
	if v := w.holds(Check{Anchors: []Hash{head.Hash}}); len(v.Anchors) != 0 {
		t.Errorf("the head of an audit log that was cut off is found: %v", v.Anchors)
	}
}

// A process was killed while it wrote a line or began a segment. Its last bytes are kept
// and reported, and are no break.
func TestWhatAKilledProcessHasLeftIsNoBreak(t *testing.T) {
	for _, left := range []string{"{", `{"seq":4,"time":"2026`, strings.Repeat("x", 5000), "{\"seq\":4\x00\x00\x00", strings.Repeat("\x00", 200_000)} {
		t.Run(fmt.Sprintf("%d bytes", len(left)), func(t *testing.T) {
			w := newWorld(t)
			w.record(logins(2)...)
			w.replace(1, append(w.text(1), left...))
			if v := w.holds(Check{}); v.Records != 3 || len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "not finished") {
				t.Errorf("before the next writer: %+v", v)
			}
			w.record(logins(2)...)
			if v := w.holds(Check{}); v.Records != 6 || v.Segments != 2 || len(v.Notes) != 1 {
				t.Errorf("after it: %+v", v)
			}
			if !bytes.HasSuffix(w.text(1), []byte(left)) {
				t.Error("what was left was changed")
			}
			if n := len(w.read(Filter{Subject: "alice"})); n != 4 {
				t.Errorf("%d records are read, want 4", n)
			}
			// The next segment authenticates them.
			w.replace(1, w.text(1)[:len(w.text(1))-1])
			var b *Break
			if _, err := (Check{}).Verify(w.dir); !errors.As(err, &b) || b.File != w.path(2) || b.Line != 1 {
				t.Errorf("shortened, it is %v", err)
			}
		})
	}
}

// Named files need not begin with the first segment: an operator may archive them, or
// verify only the last one.
func TestFilesGivenByNameNeedNoBeginning(t *testing.T) {
	w := segmented(t)
	first, err := segment{path: w.path(2)}.firstEntry()
	if err != nil {
		t.Fatal(err)
	}
	note := fmt.Sprintf("the given files begin with seq %d; earlier files were not given", first.Seq)
	for _, paths := range [][]string{{w.path(2)}, {w.path(2), w.path(3)}} {
		v, err := Check{}.VerifyFiles(paths)
		if err != nil || v.First.Seq != first.Seq || v.Segments != len(paths) || !slices.Equal(v.Notes, []string{note}) || v.Removed != 0 {
			t.Errorf("%d files: %+v, %v", len(paths), v, err)
		}
	}
	if v, err := (Check{}).VerifyFiles([]string{w.path(1), w.path(2)}); err != nil || len(v.Notes) > 0 {
		t.Errorf("from the beginning: %+v, %v", v, err)
	}
	var b *Break
	if _, err := (Check{}).VerifyFiles([]string{w.path(1), w.path(3)}); !errors.As(err, &b) || b.File != w.path(3) {
		t.Errorf("one between is not given: %v", err)
	}
	text := w.text(2)
	w.replace(2, bytes.Replace(text, []byte("alice"), []byte("mallo"), 1))
	if _, err := (Check{}).VerifyFiles([]string{w.path(2)}); !errors.As(err, &b) || b.Line != 3 {
		t.Errorf("changed: %v", err)
	}
	for name, prev := range map[string]string{"no hash": "nothing", "none": ""} {
		w.replace(2, bytes.Replace(text, []byte(first.Prev), []byte(prev), 1))
		if _, err := (Check{}).VerifyFiles([]string{w.path(2)}); !errors.As(err, &b) || b.Line != 1 {
			t.Errorf("the prev of the first line is %s: %v", name, err)
		}
	}
}

// A machine loses power during a line, and the next process is killed after creating an
// empty file.
func TestATornLineBeforeAnEmptySegmentIsVouchedFor(t *testing.T) {
	w := newWorld(t)
	w.record(logins(2)...)
	w.replace(1, append(w.text(1), `{"seq":4,"ti`...))
	w.replace(2, nil)
	w.record(logins(2)...)
	if v := w.holds(Check{}); v.Records != 6 || v.Segments != 2 || len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "ends with 12 bytes") {
		t.Errorf("%+v", v)
	}
	w.replace(1, w.text(1)[:len(w.text(1))-1])
	var b *Break
	if _, err := (Check{}).Verify(w.dir); !errors.As(err, &b) || b.File != w.path(2) || b.Line != 1 {
		t.Errorf("shortened, it is %v", err)
	}
}

func TestASegmentThatWasHardlyBegunIsGoneOnFrom(t *testing.T) {
	for name, c := range map[string]struct {
		left     string
		segments int
	}{"empty": {"", 2}, "torn in its first line": {`{"seq":`, 3}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.record(logins(2)...)
			w.replace(2, []byte(c.left))
			w.record(logins(2)...)
			v := w.holds(Check{})
			if v.Records != 6 || v.Segments != c.segments {
				t.Errorf("%d records in %d segments", v.Records, v.Segments)
			}
		})
	}
}

// After a manipulated end, recording continues in a new chain, and not as if nothing had
// happened.
func TestADamagedEndIsNotContinued(t *testing.T) {
	w := newWorld(t)
	w.record(logins(2)...)
	w.replace(1, append(w.text(1), "tampered\n"...))
	w.record(logins(1)...)
	var b *Break
	if _, err := (Check{}).Verify(w.dir); !errors.As(err, &b) || b.File != w.path(1) || b.Line != 4 {
		t.Errorf("verified as %v", err)
	}
	if v, err := (Check{}).VerifyFiles([]string{w.path(2)}); err != nil || v.Records != 2 || !strings.Contains(v.First.Detail, "a new one: the last line of 00000001.jsonl is no record") {
		t.Errorf("what follows: %+v, %v", v, err)
	}
}
