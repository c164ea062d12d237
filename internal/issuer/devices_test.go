package issuer

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

const devicesAt grant.Instant = 1_800_000_000_000

func network(n int) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", n>>8&255, n&255))
}

// opened opens a code and stores it.
func opened(t *testing.T, d *Devices, now grant.Instant, n int, client string) (store.DocumentKey, error) {
	t.Helper()
	o, err := d.open(now, network(n), client)
	if err != nil {
		return store.DocumentKey{}, err
	}
	key := store.KeyAt(now, fmt.Sprint(len(d.inOrder), client, n))
	o.settle(key, nil)
	return key, nil
}

func TestOpenDeviceCodesAreBounded(t *testing.T) {
	d := &Devices{}
	d.SetLimit(200)
	for i := range 200 {
		if _, err := opened(t, d, devicesAt, 1, fmt.Sprint("c", i)); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := opened(t, d, devicesAt, 1, "c"); !errors.Is(err, ErrManyDevices) || !errors.Is(err, oauth.ErrTooManyRequests) {
		t.Errorf("the 201st of a network: %v", err)
	}
	key, err := opened(t, d, devicesAt, 2, "c")
	if err != nil {
		t.Error(err)
	}
	// Decided codes do not count, and neither do codes that could not be stored.
	d.Decided(Device{key: key})
	o, err := d.open(devicesAt, network(2), "c")
	if err != nil {
		t.Fatal(err)
	}
	o.settle(key, errors.New("disk"))
	if len(d.waiting) != 200 || d.networks[network(2)] != 0 || d.reserved != 0 || d.clients["c"] != 0 || len(d.ofClientAt) != 200 {
		t.Errorf("%d wait, %d of the network, %d reserved", len(d.waiting), d.networks[network(2)], d.reserved)
	}
	// Codes expire.
	if _, err := opened(t, d, devicesAt.Add(DeviceLifetime), 1, "c"); err != nil || len(d.waiting) != 1 {
		t.Errorf("%v, %d wait", err, len(d.waiting))
	}
	// No limit.
	d.SetLimit(0)
	for i := range 300 {
		if _, err := opened(t, d, devicesAt.Add(DeviceLifetime), 3, fmt.Sprint("c", i)); err != nil {
			t.Fatal(i, err)
		}
	}
}

// One network cannot use up the codes of a public client: each other network still gets
// two.
func TestOneNetworkCannotUseUpTheDeviceCodesOfAClient(t *testing.T) {
	d := &Devices{}
	for i := range maxDevicesOfClient {
		if _, err := opened(t, d, devicesAt, i%10, "cli"); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := opened(t, d, devicesAt, 1, "cli"); !errors.Is(err, ErrManyDevices) {
		t.Errorf("a network with many: %v", err)
	}
	for i := range 2 {
		if _, err := opened(t, d, devicesAt, 77, "cli"); err != nil {
			t.Errorf("another network's code %d: %v", i, err)
		}
	}
	if _, err := opened(t, d, devicesAt, 77, "cli"); !errors.Is(err, ErrManyDevices) {
		t.Errorf("its third: %v", err)
	}
	if _, err := opened(t, d, devicesAt, 1, "other"); err != nil {
		t.Errorf("another client: %v", err)
	}
}

// A code that was issued while the clock was ahead does not keep later codes counted
// beyond their own expiry.
func TestDeviceCodesExpireAfterTheClockWasPutBack(t *testing.T) {
	d := &Devices{}
	d.SetLimit(200)
	if _, err := opened(t, d, devicesAt.Add(24*time.Hour), 1, "cli"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		now := devicesAt.Add(time.Duration(i) * DeviceLifetime)
		for n := range 200 {
			if _, err := opened(t, d, now, 1, "cli"); err != nil {
				t.Fatalf("%s after the clock was put back, code %d: %v", now.Since(devicesAt), n, err)
			}
		}
	}
}

func TestAllDeviceCodesAreBounded(t *testing.T) {
	d := &Devices{}
	for i := range maxDevices {
		if _, err := opened(t, d, devicesAt, i/50, fmt.Sprint(i/500)); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := d.open(devicesAt, netip.Prefix{}, "x"); !errors.Is(err, ErrManyDevices) {
		t.Error(err)
	}
	d.forget(devicesAt.Add(DeviceLifetime))
	if len(d.waiting)+len(d.networks)+len(d.clients)+len(d.ofClientAt)+len(d.inOrder) != 0 {
		t.Errorf("%d wait, %d in order", len(d.waiting), len(d.inOrder))
	}
}

func TestPollsAreBounded(t *testing.T) {
	d := &Devices{}
	for i := range 3 * maxPolls {
		d.tooSoon(store.KeyAt(grant.Instant(i)), devicesAt)
	}
	if n := len(d.polls[0]) + len(d.polls[1]); n > 2*maxPolls {
		t.Errorf("%d polls are remembered", n)
	}
	// A clock that was set back does not make a poll too early.
	key := store.KeyAt(1)
	d.tooSoon(key, devicesAt)
	if d.tooSoon(key, devicesAt.Add(-time.Hour)) {
		t.Error("slow_down after the clock went back")
	}
}

// Computes the success of guessing user codes within the limits of this server, as the
// documentation about devices states it: 100 networks that each use up their limit for a
// year.
func TestGuessingUserCodes(t *testing.T) {
	const networks = 100
	guesses := networks * guessesOfNetwork
	for _, c := range []struct {
		open, letters int
		short, found  float64 // in a year, with 8 letters, and with the letters that new codes have
	}{
		{1, 8, 0.0034, 0.0034},
		{1_000, 10, 3.42, 0.0086},
	} {
		letters := lettersFor(guesses, c.open)
		short, found := Found(guesses*yearly, c.open, oauth.MinUserCode), Found(guesses*yearly, c.open, letters)
		t.Logf("%d open codes, %d guesses an hour: %d letters, %.4f codes found in a year (%.4f with 8 letters)", c.open, guesses, letters, found, short)
		if letters != c.letters || found > c.found*1.01 || short > c.short*1.01 || short < c.short*0.99 {
			t.Errorf("%d open: %d letters, %v found, %v with 8 letters", c.open, letters, found, short)
		}
	}
	if n := lettersFor(0, maxDevices); n != oauth.MinUserCode {
		t.Errorf("nobody guesses, and codes have %d letters", n)
	}
	if n := lettersFor(1<<40, maxDevices); n != oauth.MaxUserCode {
		t.Errorf("%d letters", n)
	}
	// Wrong codes of this hour and the one before count.
	d := &Devices{}
	for n := range guesses {
		if _, ok := d.Guess(devicesAt, fmt.Sprint(n), network(1)); !ok {
			t.Fatal("a first code was refused")
		}
	}
	for range 1_000 {
		if _, err := opened(t, d, devicesAt, 0, "c"); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.letters(devicesAt.Add(time.Hour)); n != 10 {
		t.Errorf("an hour later: %d letters", n)
	}
	if n := d.letters(devicesAt.Add(3 * time.Hour)); n != 8 {
		t.Errorf("three hours later: %d letters", n)
	}
}

func TestUserCodesAreDrawnEvenly(t *testing.T) {
	seen := map[rune]int{}
	for range 2_000 {
		code := newUserCode(12)
		if read, ok := oauth.ReadUserCode(code); !ok || read != code {
			t.Fatalf("%q is read as %q", code, read)
		}
		for _, r := range code {
			seen[r]++
		}
	}
	for _, r := range oauth.UserLetters {
		if n := seen[r]; n < 1_000 || n > 1_400 { // 1,200, 5.9 standard deviations
			t.Errorf("%c was drawn %d times of 24,000", r, n)
		}
	}
}
