package overload

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

var began = time.UnixMilli(1_700_000_000_000)

func TestALimitAllowsABurstAndThenOneEventEachInterval(t *testing.T) {
	t.Parallel()
	s := NewLimiter[string](PerMinute(6))
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
	s.GiveBack("a", 1)
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
	s := NewLimiter[int](PerMinute(60))
	for range 60 {
		s.Add(1, began)
	}
	if wait := s.Wait(1, began.Add(-24*time.Hour)); wait != time.Second {
		t.Errorf("the wait is %s", wait)
	}
}

func TestNoLimitCountsNothing(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Limiter[int]{"zero": {}, "none": NewLimiter[int](PerMinute(0)), "negative": NewLimiter[int](PerMinute(-1))} {
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
	s := NewLimiter[int](PerMinute(60))
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
	s := NewLimiter[int](PerMinute(50))
	for range 50 {
		s.Add(-1, began)
	}
	for n := range 3 * MaxKeys {
		s.Add(n, began)
		if n%(MaxKeys/2) == 0 {
			s.Add(-1, began)
		}
	}
	if s.Len() > 2*MaxKeys {
		t.Errorf("%d keys are remembered", s.Len())
	}
	if s.Wait(-1, began) == 0 {
		t.Error("a key in use was forgotten")
	}
	// Counts of the old generation can be given back; without a count, nothing can.
	s = NewLimiter[int](PerMinute(1))
	for n := range MaxKeys + 1 {
		s.Add(n, began)
	}
	for _, key := range []int{0, 0, -1} {
		s.GiveBack(key, 1)
	}
	if s.Wait(0, began) != 0 || s.Wait(1, began) != time.Minute || s.Len() != MaxKeys+1 {
		t.Errorf("the wait after giving back is %s, another is %s, and %d keys are remembered", s.Wait(0, began), s.Wait(1, began), s.Len())
	}
	// Counting an existing key does not end the generation.
	s = NewLimiter[int](PerMinute(50))
	for n := range MaxKeys {
		s.Add(n, began)
	}
	s.Add(7, began)
	if s.Len() != MaxKeys {
		t.Error("an existing key has displaced others")
	}
}

func TestAnEventCountsByItsWeight(t *testing.T) {
	t.Parallel()
	s := NewLimiter[string](PerMinute(6))
	s.AddWeight("a", 4, began)
	if wait := s.WaitFor("a", 2, began); wait != 0 {
		t.Errorf("4 of 6 are counted, and 2 more wait %s", wait)
	}
	if wait := s.WaitFor("a", 3, began); wait != 10*time.Second {
		t.Errorf("4 of 6 are counted, and 3 more wait %s", wait)
	}
	// An event heavier than the limit is allowed when nothing else is counted.
	if wait := s.WaitFor("a", 100, began); wait != 40*time.Second {
		t.Errorf("4 of 6 are counted, and a hundred wait %s", wait)
	}
	s.AddWeight("b", 100, began)
	if wait := s.Wait("b", began); wait != 10*time.Second {
		t.Errorf("after a hundred at once, the wait is %s", wait)
	}
	s.GiveBack("b", 100)
	s.GiveBack("a", 4)
	if s.WaitFor("a", 6, began) != 0 || s.WaitFor("b", 6, began) != 0 {
		t.Error("what was given back still counts")
	}
	s.AddWeight("c", 2, began)
	s.AddWeight("c", 100, began)
	s.GiveBack("c", 100)
	if wait := s.WaitFor("c", 5, began); wait != 10*time.Second {
		t.Errorf("2 of 6 are counted, and 5 more wait %s", wait)
	}
	if got := PerMinute(6).Times(4); got != (Limit{24, 2500 * time.Millisecond}) || (Limit{}).Times(4) != (Limit{}) {
		t.Errorf("four times six a minute is %v", got)
	}
}

// Even if many parties take their maximal share, a later one still gets a share.
func TestAFairShareLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	const all = 100_000
	for _, c := range []struct{ part, parties, least int }{{3, 1, all * 3 / 4}, {3, 5, all * 23 / 100}, {8, 1, all * 8 / 9}, {8, 5, all * 55 / 100}, {8, 40, all * 8 / 1000}} {
		free := all
		for range c.parties {
			held := 0
			for Fair(held, 1, free, c.part) {
				held++
				free--
			}
		}
		if free < c.least-1 || !Fair(0, free/c.part, free, c.part) {
			t.Errorf("%d parties with an %dth each leave %d of %d, want %d", c.parties, c.part, free, all, c.least)
		}
	}
	if !Fair(0, 1, 1, 3) || Fair(0, 1, 0, 3) || Fair(1, 1, 3, 3) {
		t.Error("a party without a slot cannot get the last ones")
	}
}

func TestANetworkGroupsTheAddressesOfOneParty(t *testing.T) {
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

func TestAnAddressCountsInEachNetworkAroundIt(t *testing.T) {
	t.Parallel()
	for a, want := range map[string]string{
		"192.0.2.1":            "192.0.2.1/32 4; 192.0.2.0/24",
		"::ffff:192.0.2.1":     "192.0.2.1/32 4; 192.0.2.0/24",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64 4, 2001:db8:1::/56 2, 2001:db8:1::/48 1; 2001:db8:1::/48",
		"2001:db8:1:fff2::":    "2001:db8:1:fff2::/64 4, 2001:db8:1:ff00::/56 2, 2001:db8:1::/48 1; 2001:db8:1::/48",
	} {
		var got []string
		levels, n := Levels(netip.MustParseAddr(a))
		for _, l := range levels[:n] {
			got = append(got, fmt.Sprint(l.Network, " ", l.Weight))
		}
		if text := strings.Join(got, ", ") + "; " + Party(netip.MustParseAddr(a)).String(); text != want {
			t.Errorf("%s: %s, want %s", a, text, want)
		}
	}
	if levels, n := Levels(netip.Addr{}); n != 1 || levels[0].Network.IsValid() || Party(netip.Addr{}).IsValid() {
		t.Error("no address has a network")
	}
}
