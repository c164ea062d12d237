package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAFilterSelects(t *testing.T) {
	w := newWorld(t)
	hour := func(n int) time.Time { return w.now.Add(time.Duration(n) * time.Hour) }
	w.recordAs(w.small(),
		Event{Name: CodeRedeemed, Time: hour(1), GrantID: "g1", ClientID: "c1", Subject: `a"lice`, RequestID: "r1"},
		Event{Name: TokensRefreshed, Time: hour(2), GrantID: "g1", ClientID: "c1", Subject: `a"lice`, RequestID: "r2"},
		Event{Name: TokenRefused, Time: hour(3), GrantID: "g2", ClientID: "c2", Subject: "bob", RequestID: "r3"},
	)
	for name, c := range map[string]struct {
		f    Filter
		want []string
	}{
		"all":          {Filter{}, []string{"", "r1", "r2", "r3"}},
		"a grant":      {Filter{GrantID: "g1"}, []string{"r1", "r2"}},
		"a client":     {Filter{ClientID: "c2"}, []string{"r3"}},
		"a subject":    {Filter{Subject: `a"lice`}, []string{"r1", "r2"}},
		"a request":    {Filter{RequestID: "r2"}, []string{"r2"}},
		"two events":   {Filter{Events: []Name{CodeRedeemed, TokenRefused}}, []string{"r1", "r3"}},
		"since":        {Filter{Since: hour(2)}, []string{"r2", "r3"}},
		"until":        {Filter{Until: hour(2)}, []string{"", "r1"}},
		"two of these": {Filter{GrantID: "g1", Since: hour(2)}, []string{"r2"}},
		// A text in another member of the line does not match.
		"another member": {Filter{GrantID: "c1"}, nil},
	} {
		var got []string
		for _, e := range w.read(c.f) {
			got = append(got, e.RequestID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// For recent events, a long audit log is not read from its beginning.
func TestSegmentsBeforeAnInstantAreNotRead(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.size = 1
	for range 4 {
		w.recordAs(o, Event{Name: LoginSucceeded, RequestID: "r"})
		w.step(time.Hour)
	}
	w.replace(1, []byte("not read\n"))
	if list := w.read(Filter{Since: w.now.Add(-90 * time.Minute), RequestID: "r"}); len(list) != 1 {
		t.Errorf("%d records", len(list))
	}
}

// While the clock was wrong, a file began that is dated before the one that precedes it.
func TestAClockThatWasSetBackHidesNoRecord(t *testing.T) {
	w := newWorld(t)
	since := w.now.Add(5 * time.Hour)
	for i, step := range []time.Duration{0, 6 * time.Hour, -48 * time.Hour, 50 * time.Hour} {
		w.step(step)
		w.record(Event{Name: LoginSucceeded, RequestID: fmt.Sprint(i)})
	}
	if list, err := segments(w.dir); err != nil || len(list) != 3 {
		t.Fatalf("%d segments, %v", len(list), err)
	}
	f := Filter{Since: since, Events: []Name{LoginSucceeded}}
	var got []string
	for _, e := range w.read(f) {
		got = append(got, e.RequestID)
	}
	if want := []string{"1", "3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if list, _, err := Last(t.Context(), w.dir, f, 0, 9); err != nil || len(list) != 2 {
		t.Errorf("from the end: %v, %v", list, err)
	}
}

func TestADamagedLineIsReportedAndSkipped(t *testing.T) {
	w := newWorld(t)
	w.record(logins(1)...)
	w.replace(1, slices.Concat([]byte("damaged alice\n"), w.text(1)))
	var damaged *DamagedLine
	entries := 0
	for _, err := range Read(w.dir, Filter{Subject: "alice"}) {
		if err == nil {
			entries++
		} else if !errors.As(err, &damaged) || damaged.Line != 1 {
			t.Error(err)
		}
	}
	if entries != 1 || damaged == nil {
		t.Errorf("%d entries, %v", entries, damaged)
	}
}

func TestAnAuditLogIsFollowedIntoItsNextSegments(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.size = 1
	w.recordAs(o, Event{Name: LoginSucceeded, RequestID: "0"})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	want := []string{"0", "1", "2", "3"}
	var got []string
	for e, err := range Follow(ctx, w.dir, Filter{Events: []Name{LoginSucceeded}}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e.RequestID); len(got) == len(want) {
			break
		}
		w.recordAs(o, Event{Name: LoginSucceeded, RequestID: want[len(got)]})
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A whole segment is removed when all of its lines are old enough. The rest verifies, and
// begins where the record of the removal says.
func TestRetentionRemovesWholeSegmentsAndTheRestHolds(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Server, o.Retention = true, 30*24*time.Hour
	for range 40 {
		w.record(logins(2)...)
		w.step(24 * time.Hour)
	}
	l := Open(o)
	k := newWriter(l)
	if err := k.removeOld(w.clock()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(k.dir.close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	v := w.holds(Check{})
	if v.Removed != 27 || v.First.Time.Before(w.now.Add(-32*24*time.Hour)) || len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "removed by retention") {
		t.Errorf("%+v", v)
	}
	if removed := w.read(Filter{Events: []Name{Removed}}); len(removed) != 1 || !strings.HasPrefix(removed[0].Detail, "segments 1 to 9,") {
		t.Errorf("%+v", removed)
	}
	// The record of one removal does not justify the removal of another segment.
	list, err := segments(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(list[0].path); err != nil {
		t.Fatal(err)
	}
	var b *Break
	if _, err := (Check{}).Verify(w.dir); !errors.As(err, &b) {
		t.Errorf("one more removed: %v", err)
	}
}

// A changed segment is kept, because its removal would hide the change.
func TestRetentionKeepsASegmentThatWasChanged(t *testing.T) {
	for name, change := range map[string]func(text []byte) []byte{
		"a line changed":     func(text []byte) []byte { return bytes.ReplaceAll(text, []byte("alice"), []byte("mallo")) },
		"the last line lost": func(text []byte) []byte { return text[:bytes.LastIndexByte(text[:len(text)-1], '\n')+1] },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for range 3 {
				w.record(logins(2)...)
				w.step(40 * 24 * time.Hour)
			}
			w.replace(1, change(w.text(1)))
			o := w.options()
			o.Server, o.Retention = true, 60*24*time.Hour
			l := Open(o)
			k := newWriter(l)
			if err := k.removeOld(w.clock()); err == nil {
				t.Error("the segment was removed")
			}
			if err := errors.Join(k.dir.close(), l.Close()); err != nil {
				t.Fatal(err)
			}
			var b *Break
			if _, err := (Check{}).Verify(w.dir); !errors.As(err, &b) {
				t.Errorf("verification no longer finds the change: %v", err)
			}
		})
	}
}

func TestATimeIsFormattedLikePackageTime(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(2026, 11, 22, 3, 4, 5, 0, time.UTC), time.Date(2026, 1, 2, 23, 59, 59, 999_999_999, time.FixedZone("east", 9*3600)),
		time.Date(1999, 12, 31, 0, 0, 0, 7_000_000, time.UTC), time.Date(12026, 1, 1, 0, 0, 0, 70_000_000, time.UTC), {},
	} {
		if got, want := string(appendTime([]byte("x"), at)), "x"+at.UTC().Format(timeFormat); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
