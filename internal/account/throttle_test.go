package account

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// addressOf returns an address in the n-th of many networks.
func addressOf(n int) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 0x0a000000+uint32(n))))
}

// ofSite returns an address in the n-th /64 of a /48.
func ofSite(site, n int) netip.Addr {
	a := [16]byte{0x20, 1, 0xd, 0xb8, 0, byte(site)}
	binary.BigEndian.PutUint16(a[6:], uint16(n))
	return netip.AddrFrom16(a)
}

func nameOf(n int) store.DocumentKey {
	return store.DocumentKey(binary.BigEndian.AppendUint32(make([]byte, 28), uint32(n)))
}

var alice, bob = nameOf(1), nameOf(2)

// fails counts a failure, and reports whether the attempt was allowed.
func (t *throttle) fails(account store.DocumentKey, from netip.Addr, now grant.Instant) bool {
	_, err := t.take(account, from, nil, now)
	return err == nil
}

// wait returns how long an attempt would have to wait.
func (t *throttle) wait(account store.DocumentKey, from netip.Addr, now grant.Instant) time.Duration {
	giveBack, err := t.take(account, from, nil, now)
	var throttled *Throttled
	if errors.As(err, &throttled) {
		return throttled.RetryAfter
	}
	giveBack()
	return 0
}

func TestANetworkMayFailAtAnAccountAsOftenAsTheLimitSaysAndThenOnceAnInterval(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		throttle *throttle
		every    time.Duration
	}{
		"passwords": {newThrottle(passwordLimits(5)), time.Minute},
		"codes":     {newThrottle(codeLimits(5)), 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			now := started
			for n := range 5 {
				if !c.throttle.fails(alice, home, now) {
					t.Fatalf("throttled after %d failures", n)
				}
			}
			if got := c.throttle.wait(alice, home, now); got != c.every {
				t.Errorf("after five failures, the wait is %s, want %s", got, c.every)
			}
			if c.throttle.wait(bob, home, now) != 0 || c.throttle.wait(alice, elsewhere, now) != 0 {
				t.Error("another account, or another network, is throttled as well")
			}
			now = now.Add(c.every - time.Millisecond)
			if got := c.throttle.wait(alice, home, now); got != time.Millisecond {
				t.Errorf("a millisecond before, the wait is %s", got)
			}
			now = now.Add(time.Millisecond)
			if !c.throttle.fails(alice, home, now) || c.throttle.fails(alice, home, now) {
				t.Error("an interval is not worth one failure")
			}
			now = now.Add(5 * c.every)
			for n := range 6 {
				if c.throttle.fails(alice, home, now) != (n < 5) {
					t.Errorf("after a quiet time, failure %d", n)
				}
			}
		})
	}
}

func TestAnAddressMayFailAtAllAccountsTogetherSoOften(t *testing.T) {
	t.Parallel()
	for name, throttle := range map[string]*throttle{"passwords": newThrottle(passwordLimits(5)), "codes": newThrottle(codeLimits(5))} {
		for n := range 60 {
			if !throttle.fails(nameOf(n), home, started) {
				t.Fatalf("%s: throttled after %d accounts", name, n)
			}
		}
		if got := throttle.wait(nameOf(99), home, started); got != time.Second {
			t.Errorf("%s: after sixty accounts, the wait is %s", name, got)
		}
		if throttle.wait(nameOf(99), elsewhere, started) != 0 {
			t.Errorf("%s: another address is throttled as well", name)
		}
	}
}

// An attacker with a /56 or a /48 does not get as many failures as that contains /64s.
func TestANetworkOfIPv6MayFailAtAllAccountsTogetherSoOften(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		address func(n int) netip.Addr
		most    int
		wait    time.Duration
	}{
		"a /56": {func(n int) netip.Addr { return ofSite(0, n%256) }, 120, time.Second / 2},
		"a /48": {func(n int) netip.Addr { return ofSite(0, n*257) }, 240, time.Second / 4},
	} {
		throttle := newThrottle(passwordLimits(5))
		for n := range c.most {
			if !throttle.fails(nameOf(n), c.address(n), started) {
				t.Fatalf("%s is throttled after %d failures, want %d", name, n, c.most)
			}
		}
		if got := throttle.wait(nameOf(999), c.address(999), started); got != c.wait {
			t.Errorf("%s: after %d failures, the wait is %s, want %s", name, c.most, got, c.wait)
		}
		if throttle.wait(nameOf(999), ofSite(1, 999), started) != 0 || throttle.wait(nameOf(999), home, started) != 0 {
			t.Errorf("%s: others are throttled as well", name)
		}
	}
}

// One attacker cannot lock an account, whatever it does for a day.
func TestOnePartyCannotLockAnAccount(t *testing.T) {
	t.Parallel()
	parties := map[string]func(n int) netip.Addr{
		"an IPv4 address": func(int) netip.Addr { return home },
		"an IPv4 address, also written as IPv6": func(n int) netip.Addr {
			if n%2 == 0 {
				return home
			}
			return netip.AddrFrom16(home.As16())
		},
		"a machine's network of IPv6": func(n int) netip.Addr {
			return netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64([]byte{0x20, 1, 0xd, 0xb8, 0, 1, 0, 2}, uint64(n))))
		},
		"a tunnel's network of IPv6": func(n int) netip.Addr { return ofSite(1, n) },
	}
	for name, address := range parties {
		for kind, throttle := range map[string]*throttle{"passwords": newThrottle(passwordLimits(5)), "codes": newThrottle(codeLimits(5)), "passwords, one at a time": newThrottle(passwordLimits(1))} {
			t.Run(name+" "+kind, func(t *testing.T) {
				failures := 0
				now := started
				for n := range 24 * 60 * 6 {
					if throttle.fails(alice, address(n), now) {
						failures++
					}
					if wait := throttle.wait(alice, elsewhere, now); wait != 0 {
						t.Fatalf("after %d failures, %s from the start, others wait %s", failures, now.Since(started), wait)
					}
					now = now.Add(10 * time.Second)
				}
				if most := 5 + 24*60; failures < 5 && kind != "passwords, one at a time" || failures > most {
					t.Errorf("%d failures in a day, want 5 to %d", failures, most)
				}
			})
		}
	}
}

// However many attackers there are, they share a limit for each account.
func TestGuessingFromEverywhereIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		throttle *throttle
		most     int // per day
	}{
		"passwords": {newThrottle(passwordLimits(5)), 50 + 24*60*5},
		"codes":     {newThrottle(codeLimits(5)), 20 + 24*4},
	} {
		t.Run(name, func(t *testing.T) {
			guesses := 0
			now := started
			for n := range 24 * 60 * 60 {
				// An attempt from a new network each second; each network returns after
				// an hour.
				if c.throttle.fails(alice, addressOf(n%3600), now) {
					guesses++
				}
				now = now.Add(time.Second)
			}
			if guesses > c.most || guesses < c.most*9/10 {
				t.Errorf("%d guesses in a day, want about %d and no more", guesses, c.most)
			}
			if wait := c.throttle.wait(alice, home, now); wait > 15*time.Minute {
				t.Errorf("an unknown browser waits %s", wait)
			}
		})
	}
}

func TestAKnownBrowserCountsForItselfAlone(t *testing.T) {
	t.Parallel()
	mine, yours := []byte("0123456789abcdef"), []byte("0123456789abcdeF")
	for every, throttle := range map[time.Duration]*throttle{time.Minute: newThrottle(passwordLimits(5)), 15 * time.Minute: newThrottle(codeLimits(5))} {
		for n := range 10 {
			if _, err := throttle.take(alice, home, mine, started); err != nil {
				t.Fatalf("after %d failures: %v", n, err)
			}
		}
		var throttled *Throttled
		if _, err := throttle.take(alice, elsewhere, mine, started); !errors.As(err, &throttled) || throttled.RetryAfter != every {
			t.Errorf("after ten failures, it waits %v, want %s", err, every)
		}
		if _, err := throttle.take(alice, home, yours, started); err != nil {
			t.Errorf("another browser: %v", err)
		}
		for n := range 5 {
			if !throttle.fails(alice, home, started) {
				t.Fatalf("a stranger of the same address is throttled after %d failures", n)
			}
		}
	}
}

func TestAFailureThatIsGivenBackDoesNotCount(t *testing.T) {
	t.Parallel()
	throttle := newThrottle(passwordLimits(5))
	for range 4 {
		throttle.fails(alice, home, started)
	}
	var returns []func()
	for n := range 100 {
		giveBack, err := throttle.take(alice, home, nil, started)
		if (err == nil) != (n%10 == 0) {
			t.Fatalf("attempt %d: %v", n, err)
		}
		if err == nil {
			returns = append(returns, giveBack)
		}
		if n%10 == 9 {
			returns[len(returns)-1]()
		}
	}
	// With two concurrent attempts, one cannot give back the other's failure.
	throttle = newThrottle(passwordLimits(5))
	for range 3 {
		throttle.fails(alice, home, started)
	}
	first, _ := throttle.take(alice, home, nil, started)
	if !throttle.fails(alice, home, started) || throttle.fails(alice, home, started) {
		t.Fatal("the fifth failure is not the last")
	}
	first()
	if !throttle.fails(alice, home, started) || throttle.fails(alice, home, started) {
		t.Error("one was given back, and not one is free")
	}
}

func TestNobodyWaitsLongerThanAnIntervalIfTheClockGoesBack(t *testing.T) {
	t.Parallel()
	throttle := newThrottle(passwordLimits(5))
	for range 5 {
		throttle.fails(alice, home, started)
	}
	if wait := throttle.wait(alice, home, started.Add(-24*time.Hour)); wait != time.Minute {
		t.Errorf("the wait is %s", wait)
	}
}

func TestMemoryIsBoundedAndTheLatestFailuresAreKept(t *testing.T) {
	t.Parallel()
	throttle := newThrottle(passwordLimits(5))
	for n := range 3 * overload.MaxKeys {
		throttle.fails(nameOf(n), addressOf(n), started)
	}
	for name, f := range map[string]*failures{"address": &throttle.address, "network": &throttle.network, "account": &throttle.account} {
		if n := f.Len(); n > 2*overload.MaxKeys || n < overload.MaxKeys {
			t.Errorf("%s: %d buckets", name, n)
		}
	}
	// A bucket in use survives many new ones.
	for n := range 5 {
		throttle.fails(alice, home, started)
		for m := range overload.MaxKeys * 3 / 4 {
			throttle.fails(nameOf(m), addressOf((n+9)*overload.MaxKeys+m), started)
		}
	}
	if throttle.fails(alice, home, started) {
		t.Error("failures were forgotten while others were counted")
	}
}

// TestTheHighestLimitIsOne: limits that derive from the highest allowed number of
// failures fit into nanoseconds.
func TestTheHighestLimitIsOne(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]limits{"passwords": passwordLimits(1_000_000), "codes": codeLimits(1_000_000)} {
		throttle := newThrottle(l)
		for i := range 1000 {
			if !throttle.fails(nameOf(1), addressOf(1), started) {
				t.Fatalf("%s: failure %d must wait", name, i)
			}
		}
	}
}
