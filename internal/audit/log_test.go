package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
)

// A server and commands write simultaneously: they extend one chain, and no event is
// lost.
func TestAllProcessesAppendToOneChain(t *testing.T) {
	w := newWorld(t)
	const writers, each = 8, 300
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			o := w.options()
			o.Node, o.size = fmt.Sprint(i), 50_000
			l := Open(o)
			for n := range each {
				l.Record(Event{Name: LoginSucceeded, Subject: fmt.Sprint(n)})
				if n%50 == 0 {
					time.Sleep(time.Millisecond) // so that several batches collide
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			n := l.Numbers()
			n.Fault = false // the last try before Close may have failed to get the lock
			if n != (Numbers{Written: each}) {
				t.Errorf("writer %d: %+v", i, n)
			}
		})
	}
	all.Wait()
	v := w.holds(Check{})
	if v.Segments < 3 || v.Records != writers*each+uint64(v.Segments) {
		t.Errorf("%d records in %d segments", v.Records, v.Segments)
	}
	next := map[string]int{}
	for _, e := range w.read(Filter{Events: []Name{LoginSucceeded}}) {
		if e.Subject != fmt.Sprint(next[e.Node]) {
			t.Fatalf("writer %s: %s after %d", e.Node, e.Subject, next[e.Node]-1)
		}
		next[e.Node]++
	}
}

func TestARecordIsDurableWithinASecond(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		l := Open(w.options())
		l.Record(logins(1)[0])
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if n := l.Numbers(); n.Written != 1 || n.Waiting != 0 {
			t.Errorf("after a tenth of a second: %+v", n)
		}
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if head := l.Head(); head.Seq != 2 {
			t.Errorf("after a second, seq %d is durable", head.Seq)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if head := w.holds(Check{}).Head; head.Seq != 2 {
		t.Errorf("%d records", head.Seq)
	}
}

// If the audit log cannot be written, the work continues. The queue is bounded, the fault
// is logged once, and the audit log records what it lacks.
func TestWhatIsLostIsCountedLoggedAndRecorded(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(w.dir, nil, 0o600); err != nil { // a file in place of the directory
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		l := Open(w.options())
		for range maxWaiting + 7 {
			l.Record(logins(1)[0])
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := l.Numbers(); n != (Numbers{Lost: 7, Waiting: maxWaiting, Fault: true}) {
			t.Errorf("while it cannot be written: %+v", n)
		}
		if n := strings.Count(w.log.String(), "cannot write the audit log"); n != 1 || !strings.Contains(w.log.String(), "advice=") {
			t.Errorf("logged %d times, or without advice:\n%s", n, w.log.String())
		}
		if err := os.Remove(w.dir); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := l.Numbers(); n != (Numbers{Written: maxWaiting + 1, Lost: 7}) {
			t.Errorf("afterwards: %+v", n)
		}
		if !strings.Contains(w.log.String(), "works again") {
			t.Error("the end of the fault is not logged")
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	gaps := w.read(Filter{Events: []Name{Gap}})
	if len(gaps) != 1 || !strings.HasPrefix(gaps[0].Detail, "7 events since 2026-11-21T09:30:00.000Z were lost") {
		t.Errorf("gap records %+v", gaps)
	}
	if v := w.holds(Check{}); len(v.Notes) != 1 {
		t.Errorf("no note about the gap: %v", v.Notes)
	}
}

func TestAStopThatCannotWriteSaysSo(t *testing.T) {
	w := newWorld(t)
	if err := os.WriteFile(w.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := Open(w.options())
	l.Record(logins(1)[0])
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "write 1 record: ") || !strings.Contains(w.log.String(), "not complete") {
		t.Errorf("closed with %v\n%s", err, w.log.String())
	}
}

// If the disk fills up during a write, no partial line remains.
func TestAFailedWriteIsTakenBack(t *testing.T) {
	w := newWorld(t)
	w.record(logins(1)...)
	before := w.text(1)
	d := directory{path: w.dir}
	if err := d.write(logins(1), &author{node: "a", now: w.clock()}, segmentSize); err != nil {
		t.Fatal(err)
	}
	// Part of a line that did not fit.
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	good := d.file
	d.file = f
	if err := d.append([]byte("x\n"), d.tail); err == nil {
		t.Error("a full disk took a line")
	}
	good.Close()
	if err := d.write(logins(1), &author{node: "a", now: w.clock()}, segmentSize); err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Error(err)
	}
	if v := w.holds(Check{}); v.Records != 4 || len(w.text(1)) <= len(before) {
		t.Errorf("%d records", v.Records)
	}
}

// Unauthenticated callers can neither fill the disk nor displace other events.
func TestAFloodOfUnauthenticatedRequestsIsCountedAndNotRecorded(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		l := Open(w.options())
		for range floodBurst + 1000 {
			l.Record(Event{Name: ClientAuthFailed, Outcome: Refused})
		}
		l.Record(Event{Name: TokenRefused, Outcome: Refused, GrantID: "00"})
		l.Record(Event{Name: GrantRevoked()})
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if n := l.Numbers(); n.OverRate != 1000 || n.Lost != 0 || n.WithoutRoom != 0 {
			t.Errorf("%+v", n)
		}
	})
	if n := len(w.read(Filter{Events: []Name{ClientAuthFailed}})); n != floodBurst {
		t.Errorf("%d are recorded", n)
	}
	if n := len(w.read(Filter{Events: []Name{TokenRefused, GrantRevoked()}})); n != 2 {
		t.Errorf("%d of 2 others are recorded", n)
	}
	if gaps := w.read(Filter{Events: []Name{Gap}}); len(gaps) != 1 || !strings.HasPrefix(gaps[0].Detail, "1000 events since") || !strings.Contains(gaps[0].Detail, "left out") {
		t.Errorf("%+v", gaps)
	}
}

// GrantRevoked is an event of the store.
func GrantRevoked() Name { return "grant_revoked" }

func TestRoutineIsLeftOutIfItIsNotWanted(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Routine = false
	w.recordAs(o, Event{Name: TokensRefreshed}, Event{Name: RefreshRepeated}, Event{Name: CodeRedeemed})
	if got := w.names(); !slices.Equal(got, []Name{Segment, RefreshRepeated, CodeRedeemed}) {
		t.Errorf("%v", got)
	}
}

func TestNoLogRecordsNothing(t *testing.T) {
	var l *Log
	l.Record(logins(1)[0])
	l.OldSecretUsed(t.Context(), "/api", "c", "s")
	if err := l.Close(); err != nil || l.Numbers() != (Numbers{}) || l.Head() != (Head{}) {
		t.Error("a nil Log does something")
	}
	// A Log without events creates no files.
	w := newWorld(t)
	w.record()
	if _, err := os.Stat(w.dir); !os.IsNotExist(err) {
		t.Errorf("a Log without events made its directory: %v", err)
	}
}

func TestAServerThatEndedWithoutAStopIsRecorded(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Server = true
	w.recordAs(o, Event{Name: ServerStarted})
	w.recordAs(o, Event{Name: ServerStarted})
	if got := w.names(); !slices.Equal(got, []Name{Segment, ServerStarted, ServerStarted}) {
		t.Errorf("after a stop: %v", got)
	}
	if err := os.WriteFile(filepath.Join(w.dir, openName), nil, 0o600); err != nil { // the state after a kill
		t.Fatal(err)
	}
	w.recordAs(o, Event{Name: ServerStarted})
	if got := w.names(); !slices.Equal(got[3:], []Name{Gap, ServerStarted}) {
		t.Errorf("after a kill: %v", got)
	}
}

// The audit log may be in a directory of root, outside of the data directory.
func TestWhatRootMakesBelongsToTheOwnerOfTheData(t *testing.T) {
	w := newWorld(t)
	owner := os.Geteuid()
	if owner == 0 {
		owner = 65534
	}
	o := w.options()
	o.Owner = t.TempDir()
	if err := os.Chown(o.Owner, owner, -1); err != nil {
		t.Fatal(err)
	}
	w.recordAs(o, logins(1)...)
	for _, path := range []string{w.dir, w.path(1), filepath.Join(w.dir, lockName)} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != uint32(owner) {
			t.Errorf("%s belongs to %d, want %d", path, got, owner)
		}
	}
	// Without an owner, the file gets the owner of its directory.
	o.Directory, o.Owner = filepath.Join(t.TempDir(), "audit"), filepath.Join(o.Owner, "absent")
	w.recordAs(o, logins(1)...)
}

// Between the creation of a file and its change of owner, the server's user could replace
// it by a link to a file of root.
func TestAReplacedFileKeepsItsOwner(t *testing.T) {
	owner := os.Geteuid()
	if owner == 0 {
		owner = 65534
	}
	d := directory{owner: t.TempDir()}
	if err := os.Chown(d.owner, owner, -1); err != nil {
		t.Fatal(err)
	}
	path, ours, roots := filepath.Join(d.owner, "made"), filepath.Join(d.owner, "moved"), filepath.Join(t.TempDir(), "roots")
	f, err := os.Create(path)
	if err == nil {
		defer f.Close()
		err = errors.Join(os.WriteFile(roots, nil, 0o600), os.Rename(path, ours), os.Link(roots, path), d.giveToOwner(f))
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{ours: owner, roots: os.Geteuid()} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; got != uint32(want) {
			t.Errorf("%s belongs to %d, want %d", path, got, want)
		}
	}
}

func TestTheUseOfAnOldSecretIsRecordedOnceAnHour(t *testing.T) {
	w := newWorld(t)
	l := Open(w.options())
	ctx := With(t.Context(), Origin{RequestID: "r1", RemoteIP: netip.MustParseAddr("192.0.2.7")})
	for _, wait := range []time.Duration{0, time.Second, 58 * time.Minute, 2 * time.Minute, time.Minute} {
		w.step(wait)
		l.OldSecretUsed(ctx, "/api", "billing", "s1")
	}
	l.OldSecretUsed(ctx, "/api", "billing", "s2")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	list := w.read(Filter{Events: []Name{OldSecretUsed}, ClientID: "billing"})
	if len(list) != 3 || list[0].RequestID != "r1" || list[0].RemoteIP != "192.0.2.7" || !strings.Contains(list[2].Detail, "s2") {
		t.Errorf("%+v", list)
	}
}

// Texts from unauthenticated callers cannot add a line, control a terminal, or exceed a
// length (CWE-117); the line is always valid JSON.
func TestTextsOfStrangersAreEscapedAndBounded(t *testing.T) {
	for _, text := range []string{
		"a\nb", "a\r\n{\"seq\":9}", `quote " and \ backslash`, "\x1b[2Jgone", "\u202eright to left", "\u2028line", "\x00", "\x7f", "\u009b31m",
		"\xff\xfe broken", "日本語", "😀", "\U000e0041tag", strings.Repeat("x", 5000), strings.Repeat("é", 5000), strings.Repeat("\x01", 5000),
	} {
		e := Event{Name: LoginFailed, ClientID: text, Subject: text, Detail: text, Actor: text, Realm: text, GrantID: text, RequestID: text}
		line := appendLine(nil, &e, 1, Hash{1}, &author{node: text})
		if len(line) > maxLine || strings.Count(string(line), "\n") != 1 {
			t.Errorf("%.20q makes a line of %d bytes", text, len(line))
		}
		for _, r := range string(line[:len(line)-1]) {
			if !unicode.IsPrint(r) {
				t.Errorf("%.20q leaves %U in the line", text, r)
			}
		}
		got, err := parseLine(line)
		if err != nil {
			t.Errorf("%.20q: %v", text, err)
			continue
		}
		want, cut := strings.ToValidUTF8(text, "\ufffd"), strings.TrimSuffix(got.Subject, "...")
		if text == "\xff\xfe broken" {
			want = "\ufffd\ufffd broken"
		}
		if len(text) <= maxText && got.Subject != want || len(text) > maxText && (!strings.HasPrefix(text, cut) || len(cut) > maxText || len(cut) < maxText-3) {
			t.Errorf("%.20q is read as %.20q, %d bytes", text, got.Subject, len(got.Subject))
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\nb", "\xc3")
	f.Fuzz(func(t *testing.T, a, b string) {
		line := appendLine(nil, &Event{Name: LoginFailed, Subject: a, Detail: b}, 7, Hash{}, &author{node: "n"})
		if !json.Valid(line) || strings.Count(string(line), "\n") != 1 || len(line) > maxLine {
			t.Fatalf("%q", line)
		}
	})
}

func BenchmarkRecordOfARefresh(b *testing.B) {
	d := directory{path: filepath.Join(b.TempDir(), "audit")}
	now := time.Now()
	e := Event{
		Name: TokensRefreshed, Time: now, Realm: "/api", ClientID: "YFARLQeaGcHZbmZYuP6E9G26", Subject: "alice@example.com",
		GrantID: "5bfa17e06daeba431dc63a483b080d18", Generation: 12, RequestID: "8a1b4306b3564cc7", RemoteIP: netip.MustParseAddr("192.0.2.7"),
	}
	by := &author{node: "node", ring: theRing(b), now: now}
	batch := slices.Repeat([]Event{e}, 60) // a batch of ten milliseconds at 6000 a second
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if n%len(batch) == 0 {
			if err := d.write(batch, by, segmentSize); err != nil {
				b.Fatal(err)
			}
		}
		n++
	}
}
