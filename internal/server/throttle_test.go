package server

import (
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

func TestAnAddressMayFailAsOftenAsTheLimitSaysAndThenItsShareOfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttle := newThrottle(6, 0, 0)
		for n := range 6 {
			if throttle.addressBlocked(home) {
				t.Fatalf("blocked after %d failures of 6", n)
			}
			throttle.failed(home, "billing")
		}
		if !throttle.addressBlocked(home) {
			t.Error("not blocked after 6 failures of 6")
		}
		if throttle.addressBlocked(other) {
			t.Error("another address is blocked as well")
		}
		time.Sleep(10*time.Second - time.Millisecond)
		if !throttle.addressBlocked(home) {
			t.Error("free before a sixth of a minute")
		}
		time.Sleep(2 * time.Millisecond)
		if throttle.addressBlocked(home) {
			t.Error("blocked after a sixth of a minute")
		}
		throttle.failed(home, "billing")
		if !throttle.addressBlocked(home) {
			t.Error("free after one more failure")
		}
		time.Sleep(time.Minute)
		for range 6 {
			if throttle.addressBlocked(home) {
				t.Error("a quiet minute does not restore the whole limit")
			}
			throttle.failed(home, "billing")
		}
	})
}

func TestAskingIsNoFailure(t *testing.T) {
	throttle := newThrottle(1, 1, 0)
	for range 100 {
		if throttle.addressBlocked(home) || throttle.clientBlocked(home, "billing") {
			t.Fatal("blocked without a failure")
		}
	}
}

func TestAStrangerDoesNotLockTheOwnerOut(t *testing.T) {
	throttle := newThrottle(100, 3, 0)
	for range 3 {
		throttle.failed(other, "billing")
	}
	if !throttle.clientBlocked(other, "billing") {
		t.Error("the stranger is not blocked")
	}
	if throttle.clientBlocked(home, "billing") {
		t.Error("the owner's address is blocked")
	}
	if throttle.clientBlocked(other, "mail") {
		t.Error("another client from the stranger's address is blocked")
	}
	if throttle.addressBlocked(other) {
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
		throttle := newThrottle(1, 1, 0)
		throttle.failed(netip.MustParseAddr(c.a), "billing")
		if !throttle.addressBlocked(netip.MustParseAddr(c.a)) {
			t.Errorf("%s is not blocked itself", c.a)
		}
		if got := throttle.addressBlocked(netip.MustParseAddr(c.b)); got != c.same {
			t.Errorf("%s failed: %s blocked %t, want %t", c.a, c.b, got, c.same)
		}
		if got := throttle.clientBlocked(netip.MustParseAddr(c.b), "billing"); got != c.same {
			t.Errorf("%s failed: client from %s blocked %t, want %t", c.a, c.b, got, c.same)
		}
	}
}

func TestALimitOfZeroIsNone(t *testing.T) {
	throttle := newThrottle(0, 0, 0)
	for range 1000 {
		throttle.failed(home, "billing")
	}
	if throttle.addressBlocked(home) || throttle.clientBlocked(home, "billing") {
		t.Error("blocked without a limit")
	}
	if len(throttle.addresses.young)+len(throttle.clients.young) != 0 {
		t.Error("failures are remembered for nothing")
	}
}

func TestAddressesThatFailDoNotFillTheMemoryNorHideThoseThatGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no time passes
		const limit = 50
		throttle := newThrottle(limit, limit, 0)
		for range limit {
			throttle.failed(home, "billing")
		}
		for n := range 3 * maxFailures {
			throttle.failed(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), fmt.Sprint("client ", n))
			if n%(maxFailures/2) == 0 {
				// One that goes on failing is not forgotten with the others.
				throttle.failed(home, "billing")
			}
		}
		if !throttle.addressBlocked(home) || !throttle.clientBlocked(home, "billing") {
			t.Error("one that goes on failing was forgotten")
		}
		for name, f := range map[string]*failures{"addresses": &throttle.addresses, "clients": &throttle.clients} {
			if len(f.young) > maxFailures || len(f.old) > maxFailures {
				t.Errorf("%s: %d and %d buckets are kept, at most %d each", name, len(f.young), len(f.old), maxFailures)
			}
		}
		first := failureKey{network(netip.AddrFrom4([4]byte{10, 0, 0, 0}), 64), ""}
		if throttle.addresses.find(first) != nil {
			t.Error("the first of many is remembered: nothing is forgotten")
		}
	})
}
