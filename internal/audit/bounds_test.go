package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Ten requests a second of one client with one grant for a quarter of an hour are all
// recorded: no other client needs the room.
func TestHonestTrafficOfOneGrantIsRecorded(t *testing.T) {
	w := newWorld(t)
	const n = 6000
	synctest.Test(t, func(t *testing.T) {
		l := Open(w.options())
		for range n {
			l.Record(Event{Name: TokensRefreshed, GrantID: "0f3c9a50c1d24e6f8b7a6c5d4e3f2a1b"})
			w.step(100 * time.Millisecond)
			time.Sleep(100 * time.Millisecond)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if got := l.Numbers(); got != (Numbers{Written: n}) {
			t.Errorf("%+v, want %d records", got, n)
		}
	})
}

// The holder of a token that can be presented repeatedly can neither fill the disk nor
// displace the events of others.
func TestWhatOneGrantCausesIsBoundedAndCounted(t *testing.T) {
	w := newWorld(t)
	const sent = 12000
	const one, other = "0f3c9a50c1d24e6f8b7a6c5d4e3f2a1b", "11111111111111111111111111111111"
	fast := []Event{
		{Name: RefreshRepeated, GrantID: one}, {Name: TokenRefused, Outcome: Refused, GrantID: one}, {Name: TokensRefreshed, GrantID: one},
	}
	synctest.Test(t, func(t *testing.T) {
		l := Open(w.options())
		for i := range sent { // within a minute
			l.Record(fast[i%3])
			w.step(5 * time.Millisecond)
			time.Sleep(5 * time.Millisecond)
		}
		for _, e := range []Event{{Name: RefreshRepeated, GrantID: other}, {Name: "refresh_replayed", GrantID: one}, {Name: CodeRedeemed, GrantID: one}} {
			l.Record(e)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if n := len(w.read(Filter{GrantID: one, Events: []Name{RefreshRepeated, TokenRefused, TokensRefreshed}})); n < floodBurst+115 || n > floodBurst+125 {
		t.Errorf("%d of one grant are recorded in a minute, want %d and two a second", n, floodBurst)
	}
	if n := len(w.read(Filter{GrantID: other})) + len(w.read(Filter{Events: []Name{"refresh_replayed", CodeRedeemed}})); n != 3 {
		t.Errorf("%d of 3 others are recorded", n)
	}
	gaps := w.read(Filter{Events: []Name{Gap}})
	if n := len(gaps); n < 20 || n > 62 {
		t.Errorf("%d gaps are recorded in a minute, want one a second at most", n)
	}
	missing := 0
	for _, g := range gaps {
		var n int
		if _, err := fmt.Sscanf(g.Detail, "%d events since", &n); err != nil || !strings.HasSuffix(g.Detail, "left out: unauthenticated callers caused more than 20 in a second, or one grant, user or service more than 2.") {
			t.Errorf("the gap's detail is %q", g.Detail)
		}
		missing += n
	}
	if got := len(w.read(Filter{GrantID: one})) - 2 + missing; got != sent {
		t.Errorf("recorded or counted as missing: %d of %d", got, sent)
	}
}

// No user can displace the events of others: not a signed-in user whose browser requests
// codes in a loop, or who enters wrong user codes; not a client that revokes each access
// token of a grant; and not a service that gets, exchanges or revokes tokens in a loop.
func TestWhatOneUserCausesIsBounded(t *testing.T) {
	w := newWorld(t)
	loops := []func(i int) Event{
		func(i int) Event {
			return Event{Name: CodeIssued, Realm: "/api", Subject: "alice", GrantID: fmt.Sprintf("%032x", i)}
		},
		func(int) Event { return Event{Name: UserCodeRefused, Realm: "/api", Subject: "bob"} },
		func(int) Event {
			return Event{Name: "access_revoked", Subject: "carol", GrantID: "0f3c9a50c1d24e6f8b7a6c5d4e3f2a1b"}
		},
		func(i int) Event {
			return Event{Name: ServiceTokenIssued, Realm: "/api", ClientID: "billing", Subject: "billing", GrantID: fmt.Sprintf("%032x", i)}
		},
		func(i int) Event {
			return Event{Name: ServiceTokenRevoked, Realm: "/api", ClientID: "reports", GrantID: fmt.Sprintf("%032x", i)}
		},
		func(i int) Event {
			name := [...]Name{TokenExchanged, UserImpersonated, IDJAGIssued, AssertionAccepted}[i%4]
			return Event{Name: name, Realm: "/api", ClientID: "gateway", Subject: "dora", GrantID: fmt.Sprintf("%032x", i)}
		},
	}
	synctest.Test(t, func(t *testing.T) {
		l := Open(w.options())
		for i := range 6000 { // within a minute
			for _, event := range loops {
				l.Record(event(i))
			}
			w.step(10 * time.Millisecond)
			time.Sleep(10 * time.Millisecond)
		}
		l.Record(Event{Name: CodeIssued, Realm: "/staff", Subject: "alice", GrantID: "00"})
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, who := range []Filter{{Subject: "alice"}, {Subject: "bob"}, {Subject: "carol"}, {ClientID: "billing"}, {ClientID: "reports"}, {Subject: "dora"}} {
		if n := len(w.read(who)); n < floodBurst+115 || n > floodBurst+126 {
			t.Errorf("%d of %+v are recorded in a minute, want %d and two a second", n, who, floodBurst)
		}
	}
	if n := len(w.read(Filter{GrantID: "00"})); n != 1 {
		t.Error("a user of another realm is not recorded")
	}
}

// When the free space is below the reserve, the rest of the disk is for the store: only
// changes are recorded.
func TestALittleSpaceIsKeptForChanges(t *testing.T) {
	w := newWorld(t)
	all := []Event{
		{Name: TokensRefreshed}, {Name: RefreshRepeated}, {Name: TokenRefused, GrantID: "00"}, {Name: TokenRefused}, {Name: ClientAuthFailed},
		{Name: LoginSucceeded}, {Name: "refresh_replayed"}, {Name: "grant_revoked"},
	}
	const total = 100 << 30 // the reserve is 2 GB
	var free atomic.Uint64
	o := w.options()
	o.disk = func(string) (disk, error) { return disk{free.Load(), total}, nil }
	for i, step := range []struct {
		free   uint64
		want   int // the last so many of the events
		logged string
	}{
		{10 << 30, 8, ""}, {1900 << 20, 3, "level=ERROR"}, {1000 << 20, 3, ""}, {2100 << 20, 3, ""}, {3 << 30, 8, "level=INFO"},
		{2100 << 20, 8, ""},
	} {
		free.Store(step.free)
		synctest.Test(t, func(t *testing.T) {
			w.log.text.Reset()
			before := len(w.read(Filter{}))
			l := Open(o)
			l.short = i > 1 && i < 5 // the state that the previous Log has left
			l.Record(Event{Name: ConfigReloaded})
			time.Sleep(time.Second)
			synctest.Wait()
			for range 3 {
				for _, e := range all {
					l.Record(e)
				}
				time.Sleep(2 * time.Second)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			var got []Name
			for _, e := range w.read(Filter{})[before:] {
				if e.Event != ConfigReloaded && e.Event != Gap && e.Event != Segment {
					got = append(got, e.Event)
				} else if e.Event == Gap && !strings.Contains(e.Detail, fmt.Sprintf("%d events since", len(all)-step.want)) {
					t.Errorf("%d MiB free: %s", step.free>>20, e.Detail)
				}
			}
			var want []Name
			for range 3 {
				for _, e := range all[len(all)-step.want:] {
					want = append(want, e.Name)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d MiB free: %v, want %v", step.free>>20, got, want)
			}
			if n := l.Numbers(); n.WithoutRoom != uint64(3*(len(all)-step.want)) || n.Lost != 0 || n.OverRate != 0 {
				t.Errorf("%d MiB free: %+v", step.free>>20, n)
			}
			if text := w.log.String(); strings.Count(text, "level=") != min(1, len(step.logged)) || !strings.Contains(text, step.logged) {
				t.Errorf("%d MiB free is logged as %q", step.free>>20, text)
			}
		})
	}
	w.holds(Check{})
}

// A writer waits two seconds for another one's lock, and polls it often.
func TestALockIsWaitedForTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks [2]lock
		path := filepath.Join(t.TempDir(), "lock")
		for i := range locks {
			f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			locks[i].f = f
		}
		if err := locks[0].take(syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		released := make(chan error, 1)
		time.AfterFunc(1900*time.Millisecond, func() { released <- locks[0].release() })
		began := time.Now()
		if err := locks[1].take(syscall.LOCK_EX); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("freed after 1.9 s: %v after %s", err, time.Since(began))
		}
		if err := <-released; err != nil {
			t.Error(err)
		}
		began = time.Now()
		if err := locks[0].take(syscall.LOCK_EX); !errors.Is(err, errLocked) || time.Since(began) > 3*time.Second {
			t.Errorf("held on: %v after %s", err, time.Since(began))
		}
	})
}

func TestTheReserveIsAShareOfTheDiskAndNeverMoreThanHalf(t *testing.T) {
	for total, want := range map[uint64]uint64{12 << 20: 6 << 20, 1 << 30: 512 << 20, 20 << 30: 512 << 20, 100 << 30: 2 << 30, 0: 0} {
		if got := (disk{0, total}).reserve(); got>>20 != want>>20 {
			t.Errorf("of %d MiB, %d MiB are the reserve, want %d", total>>20, got>>20, want>>20)
		}
	}
	d, err := diskOf(t.TempDir())
	if err != nil || d.total == 0 || d.free > d.total {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := diskOf("/there/is/no/such/path"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// A server removes the oldest files as soon as the audit log is too large, and the rest
// still verifies.
func TestTheAuditLogDoesNotGrowBeyondItsLimit(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Server, o.size, o.MaxSize = true, 20_000, 100_000
	synctest.Test(t, func(t *testing.T) {
		l := Open(o)
		for i := range 200 {
			for _, e := range logins(10) {
				l.Record(e)
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			list, err := segments(w.dir)
			if err != nil {
				t.Fatal(err)
			}
			total := int64(0)
			for _, s := range list {
				if info, err := os.Stat(s.path); err == nil {
					total += info.Size()
				}
			}
			if total > o.MaxSize {
				t.Fatalf("after %d records it has %d bytes", 10*i, total)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if !strings.Contains(w.log.String(), "level=WARN msg=\"the audit log has reached its limit") {
		t.Errorf("logged: %s", w.log.String())
	}
	v := w.holds(Check{})
	if v.Removed < 1000 || v.Segments < 3 || v.Last.Seq < 2000 || !strings.Contains(fmt.Sprint(v.Notes), "were removed by the limit of its size") {
		t.Errorf("%+v", v)
	}
	removed := w.read(Filter{Events: []Name{Removed}})
	if len(removed) == 0 || !strings.Contains(removed[0].Detail, "which made the audit log larger than its limit; seq") {
		t.Errorf("%+v", removed)
	}
}

// An empty or torn file of a killed process does not prevent removals.
func TestSegmentsWithoutARecordAreRemovedWithTheOthers(t *testing.T) {
	for name, o := range map[string]Options{"age": {Retention: 30 * 24 * time.Hour}, "size": {MaxSize: 1100, size: 900}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.record(logins(2)...)
			w.replace(2, []byte(`{"seq":`))
			w.record(logins(2)...)
			w.step(40 * 24 * time.Hour)
			w.record(logins(2)...)
			w.removeOld(o)
			if list, err := segments(w.dir); err != nil || list[0].number < 3 {
				t.Errorf("left are %v, %v", list, err)
			}
			w.holds(Check{})
		})
	}
}

// A segment from a clock that was ahead does not prevent the removal of all later ones.
func TestASegmentOfAClockAheadIsRemovedWithTheOthers(t *testing.T) {
	const years = 10 * 365 * 24 * time.Hour
	w := newWorld(t)
	for _, moved := range []time.Duration{0, years, -years, 0, 0} {
		w.step(moved + 24*time.Hour)
		w.record(logins(2)...)
	}
	w.step(40 * 24 * time.Hour)
	w.record(logins(2)...)
	w.removeOld(Options{Retention: 30 * 24 * time.Hour})
	if list, err := segments(w.dir); err != nil || list[0].number != 5 {
		t.Errorf("left are %v, %v", list, err)
	}
	w.holds(Check{})
}

// A temporarily wrong clock must not remove anything, because removals are final.
func TestAWrongClockRemovesNoRecords(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		ran, moved time.Duration // the server's running time, and the step of its clock
		left       int
	}{
		"it is right":                    {ran: time.Hour, left: 2},
		"it was moved":                   {ran: time.Hour, moved: year, left: 3},
		"it may be wrong from the start": {ran: 9 * time.Minute, left: 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for range 3 {
				w.record(logins(2)...)
				w.step(2 * 24 * time.Hour)
			}
			o := w.options()
			o.Server, o.Retention = true, 24*time.Hour
			if c.moved == 0 {
				w.step(year) // or wrong from the start
			}
			l := Open(o)
			k := newWriter(l)
			k.began = k.began.Add(-c.ran)
			w.step(c.ran + c.moved)
			k.sweep.at = k.began
			k.work()
			if err := errors.Join(k.dir.close(), l.Close()); err != nil {
				t.Fatal(err)
			}
			list, err := segments(w.dir)
			if err != nil || len(list) != c.left {
				t.Errorf("%d segments are left, and %d are expected: %v", len(list), c.left, err)
			}
			if logged := strings.Count(w.log.String(), "the clock was set"); logged != 1 && c.moved > 0 || logged != 0 && c.moved == 0 {
				t.Errorf("logged: %s", w.log.String())
			}
		})
	}
}

// removeOld removes segments as a server with these options would.
func (w *world) removeOld(with Options) {
	w.Helper()
	o := w.options()
	o.Server, o.Retention, o.MaxSize, o.size = true, with.Retention, with.MaxSize, with.size
	l := Open(o)
	k := newWriter(l)
	if err := errors.Join(k.removeOld(w.clock()), k.dir.close(), l.Close()); err != nil {
		w.Fatal(err)
	}
}

// A process that is killed during a removal leaves some of the files that its record
// names. That is no break of the chain, also before the next process removes them. A file
// that the record does not name must exist.
func TestARemovalThatWasCutShortIsNoBreak(t *testing.T) {
	w := newWorld(t)
	for range 8 {
		w.record(logins(2)...)
		w.step(2 * 24 * time.Hour)
	}
	kept := map[uint64][]byte{}
	for n := range uint64(8) {
		kept[n+1] = w.text(n + 1)
	}
	w.removeOld(Options{Retention: 6 * 24 * time.Hour}) // removes segments 1 to 4
	if removed := w.read(Filter{Events: []Name{Removed}}); len(removed) != 1 || !strings.HasPrefix(removed[0].Detail, "segments 1 to 4,") {
		t.Fatalf("%+v", removed)
	}
	for n := uint64(4); n > 1; n-- {
		w.replace(n, kept[n])
		if v := w.holds(Check{}); v.Removed != 3*(n-1) || len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "removed by retention") {
			t.Errorf("with segments %d to 4 left: %+v", n, v)
		}
	}
	// Remaining files are verified like all others.
	w.replace(4, []byte(strings.Replace(string(kept[4]), "alice", "mallo", 1)))
	var b *Break
	if _, err := (Check{}).Verify(w.dir); !errors.As(err, &b) {
		t.Errorf("one of those that are left was changed: %v", err)
	}
	for n := uint64(2); n <= 5; n++ {
		if err := os.Remove(w.path(n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (Check{}).Verify(w.dir); !errors.As(err, &b) {
		t.Errorf("one more removed than the record names: %v", err)
	}
}
