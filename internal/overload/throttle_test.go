package overload

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

var (
	home  = netip.MustParseAddr("192.0.2.1")
	other = netip.MustParseAddr("192.0.2.2")
)

// failuresOf returns a throttle of failures with a no-op callback.
func failuresOf(address, client int) *Throttle {
	return NewThrottle(RateLimits{AddressFailures: address, ClientFailures: client}, func(string) {})
}

func TestAnAddressMayFailAsOftenAsTheLimitSaysAndThenItsShareOfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := failuresOf(6, 0)
		for n := range 6 {
			if throttle.AddressBlocked(home) {
				t.Fatalf("blocked after %d failures of 6", n)
			}
			throttle.Failed(home, "billing")
		}
		if !throttle.AddressBlocked(home) {
			t.Error("not blocked after 6 failures of 6")
		}
		if throttle.AddressBlocked(other) {
			t.Error("another address is blocked as well")
		}
		time.Sleep(10*time.Second - time.Millisecond)
		if !throttle.AddressBlocked(home) {
			t.Error("free before a sixth of a minute")
		}
		time.Sleep(2 * time.Millisecond)
		if throttle.AddressBlocked(home) {
			t.Error("blocked after a sixth of a minute")
		}
		throttle.Failed(home, "billing")
		if !throttle.AddressBlocked(home) {
			t.Error("free after one more failure")
		}
		time.Sleep(time.Minute)
		for range 6 {
			if throttle.AddressBlocked(home) {
				t.Error("a quiet minute does not restore the whole limit")
			}
			throttle.Failed(home, "billing")
		}
	})
}

// The interactions of an address count by their weight, in one step with the check:
// simultaneous requests cannot all pass.
func TestInteractionsCountByTheirWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		met := map[string]int{}
		throttle := NewThrottle(RateLimits{Interactions: 60}, func(limit string) { met[limit]++ })
		begun := 0
		for n := range 600 { // ten a second
			if throttle.Begin(netip.MustParseAddr(fmt.Sprintf("2001:db8:1:%x::1", n)), 10) {
				begun += 10
			}
			time.Sleep(time.Second / 10)
		}
		if begun > 60+60 || begun < 60+50 {
			t.Errorf("%d kilobytes in the first minute, want 60 at once and 60 more", begun)
		}
		if met["interactions"] != 600-begun/10 {
			t.Errorf("logged %v", met)
		}
		site, far, neighbour := netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:1:ffff::1"), netip.MustParseAddr("2001:db8::1")
		for throttle.Begin(site, 1) {
		}
		throttle.GiveBack(neighbour)
		if throttle.Begin(far, 1) || !throttle.Begin(neighbour, 1) {
			t.Error("48 bits of IPv6 have no limit of their own")
		}
		if throttle.GiveBack(far); !throttle.Begin(site, 1) {
			t.Error("what was given back in the site still counts")
		}
		if !throttle.Begin(home, 1) || !NewThrottle(RateLimits{}, func(string) {}).Begin(home, 1000) {
			t.Error("another address, or one without a limit, may begin nothing")
		}
		for range 59 {
			throttle.Begin(other, 1)
		}
		throttle.Begin(other, 1)
		throttle.GiveBack(other)
		if !throttle.Begin(other, 1) || throttle.Begin(other, 1) {
			t.Error("one was given back, and not one is free")
		}
	})
}

func TestAskingIsNoFailure(t *testing.T) {
	throttle := failuresOf(1, 1)
	for range 100 {
		if throttle.AddressBlocked(home) || throttle.ClientBlocked(home, "billing") {
			t.Fatal("blocked without a failure")
		}
	}
}

func TestAnAttackerDoesNotLockTheOwnerOut(t *testing.T) {
	throttle := failuresOf(100, 3)
	for range 3 {
		throttle.Failed(other, "billing")
	}
	if !throttle.ClientBlocked(other, "billing") {
		t.Error("the guessing address is not blocked")
	}
	if throttle.ClientBlocked(home, "billing") {
		t.Error("the owner's address is blocked")
	}
	if throttle.ClientBlocked(other, "mail") {
		t.Error("another client from the guessing address is blocked")
	}
	if throttle.AddressBlocked(other) {
		t.Error("the address is blocked by a client's limit")
	}
}

func TestOnePartyIsOneIPv4AddressOr64BitsOfIPv6(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true}, {"192.0.2.1", "192.0.2.0", false},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2:ffff::1", true}, {"2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"fe80::1%eth0", "fe80::1%eth1", true}, {"::1", "127.0.0.1", false},
	} {
		throttle := failuresOf(1, 1)
		throttle.Failed(netip.MustParseAddr(c.a), "billing")
		if !throttle.AddressBlocked(netip.MustParseAddr(c.a)) {
			t.Errorf("%s is not blocked itself", c.a)
		}
		if got := throttle.AddressBlocked(netip.MustParseAddr(c.b)); got != c.same {
			t.Errorf("%s failed: %s blocked %t, want %t", c.a, c.b, got, c.same)
		}
		if got := throttle.ClientBlocked(netip.MustParseAddr(c.b), "billing"); got != c.same {
			t.Errorf("%s failed: client from %s blocked %t, want %t", c.a, c.b, got, c.same)
		}
	}
}

// A /48 contains 65,536 networks of 64 bits, possibly of as many owners: failures in some
// of them do not block valid credentials from another.
func TestFailuresInASiteBlockNoNeighbour(t *testing.T) {
	throttle := failuresOf(6, 3)
	for n := range 100 {
		for range 10 {
			throttle.Failed(netip.MustParseAddr(fmt.Sprintf("2001:db8:1:%x::1", n)), "billing")
		}
	}
	neighbour := netip.MustParseAddr("2001:db8:1:aa::1")
	if throttle.AddressBlocked(neighbour) || throttle.ClientBlocked(neighbour, "billing") {
		t.Error("failures in the /64s around it block an address")
	}
}

func TestALimitOfZeroIsNone(t *testing.T) {
	throttle := failuresOf(0, 0)
	for range 1000 {
		throttle.Failed(home, "billing")
		if throttle.RequestOfClient("billing") != nil {
			t.Fatal("a request is refused without a limit")
		}
	}
	if throttle.AddressBlocked(home) || throttle.ClientBlocked(home, "billing") {
		t.Error("blocked without a limit")
	}
	for of := range throttles {
		if throttle.limiters[of].Len() != 0 {
			t.Errorf("%s: remembered for nothing", throttleNames[of])
		}
	}
}

// A refused request does not count: after the time in the response, the client is served,
// even if it has sent requests meanwhile.
func TestARequestBeyondItsLimitGetsTheTimeToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		met := map[string]int{}
		throttle := NewThrottle(RateLimits{AddressRequests: 12, ClientRequests: 6}, func(limit string) { met[limit]++ })
		for n := range 6 {
			if err := throttle.RequestOfClient("billing"); err != nil {
				t.Fatalf("request %d of 6: %v", n, err)
			}
		}
		for range 100 {
			err := throttle.RequestOfClient("billing")
			var early *TooMany
			if !errors.As(err, &early) || early.Wait.Round(time.Millisecond) != 10*time.Second {
				t.Fatalf("the seventh request: %v", err)
			}
		}
		if err := throttle.RequestOfClient("mail"); err != nil {
			t.Errorf("another client: %v", err)
		}
		if err := throttle.RequestOfAddress(home); err != nil {
			t.Errorf("the limit of addresses: %v", err)
		}
		time.Sleep(10 * time.Second)
		if err := throttle.RequestOfClient("billing"); err != nil {
			t.Errorf("after the time that was told: %v", err)
		}
		if err := throttle.RequestOfClient("billing"); err == nil {
			t.Error("a sixth of a minute is worth two requests")
		}
		if met["client_requests"] != 101 || len(met) != 1 {
			t.Errorf("logged %v", met)
		}
	})
}

// A public client is counted per address, because anybody can use its id.
func TestRequestsCountByAddressAndByClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := NewThrottle(RateLimits{AddressRequests: 1, ClientRequests: 1}, func(string) {})
		six, same, next := netip.MustParseAddr("2001:db8:1:2::1"), netip.MustParseAddr("2001:db8:1:2:ffff::"), netip.MustParseAddr("2001:db8:1:3::1")
		address := throttle.RequestOfAddress
		from := throttle.RequestOfClientFrom
		for i, c := range []struct {
			err  error
			want string
		}{
			{address(home), ""}, {address(home), "address_requests"}, {address(other), ""}, {address(netip.Addr{}), ""}, {address(netip.Addr{}), ""},
			{address(six), ""}, {address(same), "address_requests"}, {address(next), ""},
			{from(home, "a"), ""}, {from(home, "a"), "client_requests"}, {from(home, "b"), ""}, {from(other, "a"), ""}, {from(netip.Addr{}, "a"), ""}, {from(netip.Addr{}, "a"), ""},
			{from(six, "a"), ""}, {from(same, "a"), "client_requests"}, {from(next, "a"), ""},
			{throttle.RequestOfClient("a"), ""}, {throttle.RequestOfClient("a"), "client_requests"},
		} {
			if got := fmt.Sprint(c.err); c.want == "" && c.err != nil || c.want != "" && got != "throttle."+c.want+" exceeded: retry in 1m0s" {
				t.Errorf("%d: %s, want %q", i, got, c.want)
			}
		}
	})
}

func TestNewLimitsKeepWhatWasCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := failuresOf(6, 6)
		for range 6 {
			throttle.Failed(home, "billing")
		}
		throttle.SetLimits(RateLimits{AddressFailures: 600, ClientFailures: 6})
		if !throttle.AddressBlocked(home) || !throttle.ClientBlocked(home, "billing") {
			t.Error("a reload has forgotten who guesses")
		}
		throttle.SetLimits(RateLimits{})
		if throttle.AddressBlocked(home) {
			t.Error("blocked by a limit that is gone")
		}
	})
}

func TestAddressesThatFailDoNotFillTheMemoryNorHideThoseThatGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands still
		const limit = 50
		throttle := failuresOf(limit, limit)
		for range limit {
			throttle.Failed(home, "billing")
		}
		for n := range 3 * MaxKeys {
			throttle.Failed(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), fmt.Sprint("client ", n))
			if n%(MaxKeys/2) == 0 {
				// A client that keeps failing is not forgotten with the others.
				throttle.Failed(home, "billing")
			}
		}
		if !throttle.AddressBlocked(home) || !throttle.ClientBlocked(home, "billing") {
			t.Error("one that goes on failing was forgotten")
		}
		for of := range throttles {
			if n := throttle.limiters[of].Len(); n > 2*MaxKeys {
				t.Errorf("%s: %d buckets are kept", throttleNames[of], n)
			}
		}
	})
}
