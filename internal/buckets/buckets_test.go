package buckets

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

var began = time.UnixMilli(1_700_000_000_000)

func TestAKeyBearsAsManyEventsAsItsLimitSaysAndThenOneEachInterval(t *testing.T) {
	t.Parallel()
	s := New[string](PerMinute(6))
	for n := range 6 {
		if wait := s.Wait("a", began); wait != 0 {
			t.Fatalf("after %d events of 6, the wait is %s", n, wait)
		}
		s.Add("a", began)
	}
	if got := s.Wait("a", began); got != 10*time.Second {
		t.Errorf("after 6 events, the wait is %s", got)
	}
	if s.Wait("b", began) != 0 {
		t.Error("another key waits as well")
	}
	if got := s.Wait("a", began.Add(10*time.Second-time.Nanosecond)); got != time.Nanosecond {
		t.Errorf("a nanosecond before, the wait is %s", got)
	}
	s.GiveBack("a")
	if s.Wait("a", began) != 0 {
		t.Error("what was given back still counts")
	}
	s.Add("a", began.Add(10*time.Second))
	if got := s.Wait("a", began.Add(10*time.Second)); got != 0 {
		t.Errorf("five events after an interval, and the wait is %s", got)
	}
	for n := range 7 {
		later := began.Add(time.Hour)
		if free := s.Wait("a", later) == 0; free != (n < 6) {
			t.Errorf("after a quiet hour, event %d is free: %t", n, free)
		}
		s.Add("a", later)
	}
}

func TestNobodyWaitsLongerThanAnIntervalIfTheClockGoesBack(t *testing.T) {
	t.Parallel()
	s := New[int](PerMinute(60))
	for range 60 {
		s.Add(1, began)
	}
	if wait := s.Wait(1, began.Add(-24*time.Hour)); wait != time.Second {
		t.Errorf("the wait is %s", wait)
	}
}

func TestNoLimitCountsNothing(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Set[int]{"zero": {}, "none": New[int](PerMinute(0)), "negative": New[int](PerMinute(-1))} {
		for range 1000 {
			s.Add(1, began)
		}
		if s.Wait(1, began) != 0 || s.Len() != 0 {
			t.Errorf("%s: the wait is %s, and %d keys are remembered", name, s.Wait(1, began), s.Len())
		}
	}
}

func TestAChangedLimitGoesOnFromWhatWasCounted(t *testing.T) {
	t.Parallel()
	s := New[int](PerMinute(60))
	for range 60 {
		s.Add(1, began)
	}
	s.Add(2, began)
	s.Change(PerMinute(6))
	if wait := s.Wait(1, began); wait != 10*time.Second {
		t.Errorf("a full bucket waits %s under the new limit", wait)
	}
	if s.Wait(2, began) != 0 {
		t.Error("one event fills the new limit")
	}
	s.Change(Limit{})
	if s.Len() != 0 {
		t.Error("without a limit, keys are remembered")
	}
	s.Change(PerMinute(1))
	s.Add(1, began)
	if s.Wait(1, began) == 0 {
		t.Error("a limit that was none before does not hold")
	}
}

func TestMemoryIsBoundedAndKeysInUseAreKept(t *testing.T) {
	t.Parallel()
	s := New[int](PerMinute(50))
	for range 50 {
		s.Add(-1, began)
	}
	for n := range 3 * Most {
		s.Add(n, began)
		if n%(Most/2) == 0 {
			s.Add(-1, began)
		}
	}
	if s.Len() > 2*Most {
		t.Errorf("%d keys are remembered", s.Len())
	}
	if s.Wait(-1, began) == 0 {
		t.Error("one that goes on was forgotten")
	}
	// Counting again does not turn the generations over.
	s = New[int](PerMinute(50))
	for n := range Most {
		s.Add(n, began)
	}
	s.Add(7, began)
	if s.Len() != Most {
		t.Error("a key that was there has pushed others out")
	}
}

func TestANetworkIsWhatOnePartyHolds(t *testing.T) {
	t.Parallel()
	var got []string
	for _, a := range []string{"192.0.2.1", "::ffff:192.0.2.1", "2001:db8:1:2:3:4:5:6", "fe80::1%eth0"} {
		got = append(got, Network(netip.MustParseAddr(a), 64).String(), Network(netip.MustParseAddr(a), 48).String())
	}
	want := []string{"192.0.2.1/32", "192.0.2.1/32", "192.0.2.1/32", "192.0.2.1/32", "2001:db8:1:2::/64", "2001:db8:1::/48", "fe80::/64", "fe80::/48"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if p := Network(netip.Addr{}, 64); p.IsValid() {
		t.Errorf("no address has the network %s", p)
	}
}
