package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/keys"
)

// sealed returns an audit log of at least three segments whose lines have MACs.
func sealed(t *testing.T, ring *keys.Ring) *world {
	w := newWorld(t)
	for range 5 {
		w.recordAs(w.small().by(ring), logins(3)...)
	}
	if v := w.holds(Check{Ring: ring}); v.Segments < 3 || v.MACs != v.Records || v.WithoutMAC != 0 || len(v.Notes) > 0 {
		t.Fatalf("%+v", v)
	}
	return w
}

// rewrite rewrites an audit log as an attacker with write access could: it removes the
// entries that keep rejects, and chains the others again.
func (w *world) rewrite(chain string, keep func(e *Entry) bool) {
	w.Helper()
	list, err := segments(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	var seq uint64
	var prev Hash
	for _, s := range list {
		var text []byte
		for line := range bytes.Lines(w.text(s.number)) {
			var e Entry
			if err := json.Unmarshal(line, &e); err != nil {
				w.Fatal(err)
			}
			if seq == 0 && e.Seq > 1 { // the beginning of this audit log was removed
				seq = e.Seq - 1
				prev, _ = ParseHash(e.Prev)
			}
			was := e
			if !keep(&e) {
				continue
			}
			if e.Event == Segment && chain != "" {
				e.Detail = detailChain + chain
			}
			seq++
			if e.Seq, e.Prev = seq, prev.String(); prev == (Hash{}) {
				e.Prev = ""
			}
			if e == was {
				line = line[:len(line)-1]
			} else if line, err = json.Marshal(e); err != nil {
				w.Fatal(err)
			}
			prev = hashLine(line)
			text = append(append(text, line...), '\n')
		}
		w.replace(s.number, text)
	}
}

func (w *world) breaks(c Check, why string) {
	w.Helper()
	_, err := c.Verify(w.dir)
	var b *Break
	if !errors.As(err, &b) || !strings.Contains(b.Why, why) {
		w.Errorf("%v, want a break that says %q", err, why)
	}
}

// Records are removed and the others chained again, with the old chain's name or a new
// one.
func TestAnAuditLogThatWasChainedAnewDoesNotHold(t *testing.T) {
	ring := theRing(t)
	for _, chain := range []string{"", "0123456789abcdef"} {
		for name, c := range map[string]struct {
			change func(e *Entry)
			why    string
		}{
			"with the macs of before":      {func(*Entry) {}, "its mac is wrong"},
			"with macs of a key made up":   {func(e *Entry) { e.MAC = "00000000" + e.MAC[8:] }, "which the store does not hold"},
			"with macs that are none":      {func(e *Entry) { e.MAC = "none" }, "its mac is not where a mac belongs"},
			"without those of its end":     {func(e *Entry) { e.MAC = map[bool]string{true: e.MAC}[e.Seq < 4] }, "only servers record login_succeeded"},
			"with macs of another ring":    {func(e *Entry) { e.MAC = string(theRing(t).AppendLineMAC(nil, nil, 0)) }, "which the store does not hold"},
			"with the mac of another line": {func(e *Entry) { e.MAC = string(ring.AppendLineMAC(nil, []byte("another"), 0)) }, "its mac is wrong"},
		} {
			if chain != "" && name == "without those of its end" {
				continue // the first line has another chain's name, and so a wrong MAC
			}
			w := sealed(t, ring)
			w.rewrite(chain, func(e *Entry) bool { c.change(e); return e.Seq != 6 })
			if _, err := (Check{}).Verify(w.dir); err != nil && name != "with macs that are none" {
				t.Errorf("%s: the chain alone: %v", name, err)
			}
			w.breaks(Check{Ring: ring}, c.why)
			// A restored store may lack keys; lines of the keys that it has are verified.
			if lacks := strings.Contains(c.why, "does not hold"); !lacks {
				w.breaks(Check{Ring: ring, Restored: true}, c.why)
			} else if v := w.holds(Check{Ring: ring, Restored: true}); v.MACs > 0 || !strings.Contains(strings.Join(v.Notes, "\n"), fmt.Sprintf("%d records have a mac by a key that the restored store lacks", v.Records)) {
				t.Errorf("%s, of a restored store: %+v", name, v)
			}
		}
		w := sealed(t, ring)
		w.rewrite(chain, func(e *Entry) bool { e.MAC = ""; return e.Seq != 6 })
		w.breaks(Check{Ring: ring}, "only servers record login_succeeded")
	}
}

// The oldest segments are deleted, and a forged record claims that the retention has
// removed them.
func TestAForgedRemovalDoesNotHold(t *testing.T) {
	ring := theRing(t)
	for _, mac := range []string{"", string(ring.AppendLineMAC(nil, []byte("another"), 0))} {
		w := sealed(t, ring)
		list, _ := segments(w.dir)
		r, err := removalOf(list, 2)
		if err != nil {
			t.Fatal(err)
		}
		r.why = ofAge
		last := list[len(list)-1]
		entry, _ := last.firstEntry()
		v := w.holds(Check{})
		line, _ := json.Marshal(Entry{Seq: v.Head.Seq + 1, Time: entry.Time, Event: Removed, Outcome: Success, Actor: "server", Detail: r.String(), Prev: v.Head.Hash.String(), MAC: mac})
		w.replace(last.number, append(append(w.text(last.number), line...), '\n'))
		for _, s := range list[:2] {
			if err := os.Remove(s.path); err != nil {
				t.Fatal(err)
			}
		}
		if v := w.holds(Check{}); v.Removed != r.seq {
			t.Errorf("the chain alone: %+v", v)
		}
		w.breaks(Check{Ring: ring}, map[bool]string{true: "only servers record audit_removed", false: "its mac is wrong"}[mac == ""])
	}
}

// Commands without the key-encryption key write lines without MACs, before and after a
// server's lines. A note counts them.
func TestLinesWithoutAMACHoldAsWhatTheyAre(t *testing.T) {
	w := newWorld(t)
	ring := rotated(t, w.now)[0]
	w.record(Event{Name: "cutoff", Subject: "bob"})
	if v := w.holds(Check{Ring: ring}); v.WithoutMAC != 2 || len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "no record has a mac") {
		t.Errorf("of commands alone: %+v", v)
	}
	w.recordAs(w.options().by(ring), logins(2)...)
	w.record(Event{Name: "cutoff", Subject: "alice"}, Event{Name: BackupMade})
	w.recordAs(w.options().by(nil), Event{Name: ServerStarted})
	v := w.holds(Check{Ring: ring})
	if v.MACs != 2 || v.WithoutMAC != 5 || len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "5 records have no mac, the first is seq 1:") {
		t.Errorf("%+v", v)
	}
	if v := w.holds(Check{}); v.MACs != 0 || len(v.Notes) > 0 {
		t.Errorf("without the keys: %+v", v)
	}
}

// With a copy of a retired key nobody can write lines of today; lines that the key has
// made stay valid.
func TestARotatedKeyMakesNoLineOfToday(t *testing.T) {
	w := newWorld(t)
	rings := rotated(t, w.now, w.now.Add(time.Hour))
	w.recordAs(w.options().by(rings[0]), logins(2)...)
	w.step(time.Hour)
	w.recordAs(w.options().by(rings[1]), logins(2)...)
	w.step(time.Minute)
	w.recordAs(w.options().by(rings[0]), logins(1)...) // a node that has not yet read the new key
	if v := w.holds(Check{Ring: rings[1]}); v.MACs != 6 || len(v.Notes) > 0 {
		t.Errorf("%+v", v)
	}
	w.step(2 * time.Hour)
	w.recordAs(w.options().by(rings[0]), logins(1)...)
	w.breaks(Check{Ring: rings[1]}, "which was out of use at")
}

// A writer must not continue after lines that somebody has changed, because that would
// authenticate them.
func TestAWriterDoesNotGoOnFromWhatWasChangedBehindIt(t *testing.T) {
	ring := theRing(t)
	for name, change := range map[string]func(w *world){
		"chained anew": func(w *world) { w.rewrite("", func(e *Entry) bool { return e.Seq != 3 }) },
		"its end cut off, and others appended": func(w *world) {
			text := bytes.SplitAfter(w.text(1), []byte("\n"))
			w.replace(1, bytes.Join(text[:len(text)-2], nil))
			w.record(Event{Name: "cutoff"}, Event{Name: "cutoff"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := directory{path: w.dir}
			defer d.close()
			by := &author{node: "a", ring: ring, now: w.now}
			for range 2 {
				if err := d.write(logins(3), by, segmentSize); err != nil {
					t.Fatal(err)
				}
			}
			w.record(Event{Name: "cutoff"}) // by a command
			if err := d.write(logins(3), by, segmentSize); err != nil {
				t.Fatal(err)
			}
			if v := w.holds(Check{Ring: ring}); v.WithoutMAC != 1 || v.Segments != 1 {
				t.Fatalf("beside a command: %+v", v)
			}
			change(w)
			if err := d.write(logins(1), by, segmentSize); err != nil {
				t.Fatal(err)
			}
			first, err := segment{path: w.path(2)}.firstEntry()
			if err != nil || !strings.Contains(first.Detail, "a new one: record 11, which this process knew as the last one, was changed or removed") {
				t.Errorf("it goes on with %+v, %v", first, err)
			}
			w.breaks(Check{}, "another chain begins here")
		})
	}
}

// A server without events of its own notices what commands record, and later its removal.
func TestAServerNoticesTheRemovalOfWhatACommandHasRecorded(t *testing.T) {
	w := newWorld(t)
	l := w.serve()
	own := w.text(1)
	w.record(Event{Name: BackupMade})
	l.Settle(t.Context())
	if h := l.Head(); h.Seq != 3 {
		t.Errorf("the last record is %+v", h)
	}
	w.replace(1, own)
	w.noticesTheRemoval(l)
}

// It notices a removal also if a command has appended to what was left, and if the files
// were elsewhere for a while.
func TestAServerRemembersItsLastLineUntilItWrites(t *testing.T) {
	w := newWorld(t)
	l := w.serve()
	own := w.text(1)
	w.put(l, LoginSucceeded)
	if err := os.Remove(w.path(1)); err != nil {
		t.Fatal(err)
	}
	l.Settle(t.Context())
	w.replace(1, own)
	l.Settle(t.Context())
	w.record(Event{Name: BackupMade})
	w.noticesTheRemoval(l)
}

// A command that was killed leaves an unfinished line, or a file without a line. That is no
// removal, also if a server has seen it.
func TestAServerMistakesNoUnfinishedLineForARemoval(t *testing.T) {
	for name, kill := range map[string]func(*world){
		"in a line":               func(w *world) { w.replace(1, append(w.text(1), `{"seq":4,"ti`...)) },
		"before the first one":    func(w *world) { w.replace(2, nil) },
		"in the first one":        func(w *world) { w.replace(2, []byte(`{"seq":4,"ti`)) },
		"in a line and at a file": func(w *world) { w.replace(1, append(w.text(1), `{"seq"`...)); w.replace(2, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			l := w.serve()
			w.record(Event{Name: BackupMade})
			kill(w)
			l.Settle(t.Context())
			w.record(Event{Name: BackupMade})
			l.Settle(t.Context())
			w.put(l, LoginSucceeded)
			if v := w.holds(Check{}); v.Head != l.Head() {
				t.Errorf("the log ends with %+v, and the server's end is %+v", v.Head, l.Head())
			}
		})
	}
}

// If a file is replaced, for example from a backup, the writer continues in the new file:
// nobody would find records in the old, deleted one.
func TestAWriterGoesOnInTheFileThatIsThere(t *testing.T) {
	w := newWorld(t)
	d := directory{path: w.dir}
	defer d.close()
	by := &author{node: "a", ring: theRing(t), now: w.now}
	for range 2 {
		if err := d.write(logins(3), by, segmentSize); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(w.path(1)+".copy", w.text(1), 0o600), os.Rename(w.path(1)+".copy", w.path(1))); err != nil {
			t.Fatal(err)
		}
	}
	if v := w.holds(Check{Ring: by.ring}); v.Records != 7 || v.Segments != 1 {
		t.Errorf("%+v", v)
	}
}

// A server has no keys before it has opened its store: its records wait until then.
func TestAServersRecordsWaitForItsKeys(t *testing.T) {
	w := newWorld(t)
	ring := theRing(t)
	asked, ready := make(chan bool), make(chan bool)
	o := w.options()
	o.Keys = func() (*keys.Ring, bool) {
		select {
		case asked <- true:
			return nil, false
		case <-ready:
			return ring, true
		}
	}
	l := Open(o)
	l.Record(Event{Name: ServerStarted})
	<-asked
	<-asked // once more
	if list, err := segments(w.dir); err != nil || len(list) > 0 {
		t.Errorf("%d segments, %v", len(list), err)
	}
	close(ready)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if v := w.holds(Check{Ring: ring}); v.MACs != 2 {
		t.Errorf("%+v", v)
	}
}

// A removal is stored before it happens; without that, nothing is removed.
func TestNothingIsRemovedBeforeTheStoreKnows(t *testing.T) {
	w := segmented(t)
	var told []Head
	fault := errors.New("the store does not answer")
	o := w.small()
	o.Server, o.Retention = true, time.Hour
	o.OnRemove = func(h Head) error { told = append(told, h); return fault }
	l := Open(o)
	defer l.Close()
	wr := newWriter(l)
	defer wr.dir.close()
	sweep := func() {
		t.Helper()
		if err := wr.removeOld(w.now); !errors.Is(err, fault) {
			t.Error(err)
		}
	}
	w.step(2 * time.Hour)
	w.recordAs(w.small(), logins(1)...)
	before, _ := segments(w.dir)
	sweep()
	after, _ := segments(w.dir)
	if len(told) != 1 || len(after) < len(before) {
		t.Fatalf("the store has recorded %v; there were %d segments, and now there are %d", told, len(before), len(after))
	}
	p, err := Find(w.dir, told[0])
	if err != nil || !p.Found || p.First != 1 || told[0].Chain != w.holds(Check{}).Head.Chain {
		t.Errorf("the recorded position is %+v, %v", p, err)
	}
	for range 3 {
		sweep()
	}
	told = told[3:]
	if n := len(w.read(Filter{Events: []Name{Removed}})); n != 1 {
		t.Errorf("a store that does not answer makes %d records of one removal", n)
	}
	fault = nil
	sweep()
	v := w.holds(Check{})
	if len(told) != 2 || v.Removed != told[1].Seq || !v.RemovedAt.Equal(w.now) {
		t.Errorf("the store has recorded %v; removed are %d at %s", told, v.Removed, v.RemovedAt)
	}
	if p, err := Find(w.dir, told[1]); err != nil || p.Found || p.First != v.Removed+1 {
		t.Errorf("what was removed is at %+v, %v", p, err)
	}
}
