package account

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

func TestTheRightPasswordProvesTheUser(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	u, err := NewUser(Registration{Realm: realm, Username: "Alice", Name: "Alice Cooper", Subject: "u-1", Password: right}, started)
	if err != nil {
		t.Fatal(err)
	}
	h.put(u)
	h.advance(time.Hour)
	want := Account{Username: "alice", Name: "Alice Cooper", Subject: "u-1", At: h.clock()}
	for _, typed := range []string{"alice", "ALICE", " Alice "} {
		if got, err := h.Password(t.Context(), typed, right, Visitor{Address: home}); got != want || err != nil {
			t.Errorf("%q: %+v, %v, want %+v", typed, got, err, want)
		}
	}
}

func TestAUserWithoutANameIsCalledByTheUsername(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.add("bob")
	if a, err := h.Password(t.Context(), "bob", right, Visitor{Address: home}); a.Name != "bob" || a.Subject != "s-bob" || err != nil {
		t.Errorf("%+v, %v", a, err)
	}
}

// UI-15: the work does not depend on whether the user exists. Whatever is wrong, one hash
// of the same cost is compared.
func TestUI15_WhateverIsWrongIsOneErrorAfterOneHashOfTheSameCost(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	u, err := NewUser(Registration{Realm: realm, Username: "alice", Password: right}, started)
	if err != nil {
		t.Fatal(err)
	}
	h.put(u)
	u.Username, u.State, u.Version = "bob", Disabled, 1
	h.put(u)
	for i, c := range []struct{ about, username, password string }{
		{"a wrong password", "alice", wrong},
		{"an empty password", "alice", ""},
		{"a password that is too long", "alice", strings.Repeat("x", 1<<20)},
		{"an unknown user", "mallory", right},
		{"a disabled user", "bob", right},
		{"an empty username", "", right},
		{"an impossible username", "al\x00ice", right},
		{"a username that is too long", strings.Repeat("alice", 1<<18), right},
	} {
		_, err := h.Password(t.Context(), c.username, c.password, Visitor{Address: home})
		if err != ErrWrong {
			t.Errorf("%s: %v, want ErrWrong itself", c.about, err)
		}
		if got := h.hashed(); !slices.Equal(got, []string{"$argon2id$v=19$m=19456,t=2,p=1"}) {
			t.Errorf("%s: compared %q", c.about, got)
		}
		if i%4 == 3 {
			h.advance(time.Hour)
		}
	}
	if h.typed > maxPassword {
		t.Errorf("a password of %d bytes was hashed", h.typed)
	}
	if strings.Contains(h.logged(), "mallory") {
		t.Error("the log repeats what is not a username, and may be a password")
	}
}

func TestARightPasswordIsNotCounted(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.cheaply()
	h.add("alice")
	for range 200 {
		if err := h.try("alice", right, Visitor{Address: home}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAThrottledAttemptComparesNothing(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.cheaply()
	h.add("alice")
	for range 5 {
		h.is("wrong", h.try("alice", wrong, Visitor{Address: home}), "one of five")
	}
	h.hashed()
	h.faulty.Calls()
	var throttled *Throttled
	if err := h.try("alice", right, Visitor{Address: home}); !errors.As(err, &throttled) || throttled.RetryAfter != time.Minute {
		t.Fatalf("%v, want a minute's wait", err)
	}
	if n, calls := len(h.hashed()), h.faulty.Calls(); n != 0 || len(calls) != 0 {
		t.Errorf("%d hashes, calls %v", n, calls)
	}
	h.is("right", h.try("alice", right, Visitor{Address: elsewhere}), "from elsewhere")
	h.advance(throttled.RetryAfter)
	h.is("right", h.try("alice", right, Visitor{Address: home}), "after the wait")
	h.is("wrong", h.try("alice", wrong, Visitor{Address: home}), "the one that was forgiven")
	h.is("throttled", h.try("alice", right, Visitor{Address: home}), "the next")
}

func TestAttemptsAtTheSameTimeDoNotAllPass(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.cheaply()
	h.add("alice")
	var guesses sync.WaitGroup
	verdicts := make([]string, 40)
	for i := range verdicts {
		guesses.Go(func() { verdicts[i] = verdict(h.try("alice", wrong, Visitor{Address: home})) })
	}
	guesses.Wait()
	if n := len(h.hashed()); n != 5 {
		t.Errorf("%d of 40 guesses were compared, want 5: %q", n, verdicts)
	}
}

// The throttle must not reveal whether a user exists.
func TestUnknownUsersAreThrottledLikeKnownOnes(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.cheaply()
	h.add("alice")
	history := func(username string) (list []string) {
		for n := range 120 {
			from := Visitor{Address: home}
			if n%3 > 0 {
				from.Address = addressOf(n / 7)
			}
			list = append(list, verdict(h.try(username, wrong, from)))
			h.advance(time.Second)
		}
		h.advance(24 * time.Hour)
		return list
	}
	known, unknown := history("alice"), history("nobody")
	if !slices.Equal(known, unknown) {
		t.Errorf("a user\n%q\nnobody\n%q", known, unknown)
	}
	if !slices.Contains(known, "wrong") || !slices.Contains(known, "throttled") {
		t.Errorf("the history shows nothing: %q", known)
	}
}

func TestAKnownBrowserSignsInWhileOthersAreThrottled(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.cheaply()
	h.add("alice")
	cookie, err := h.KnownBrowser("Alice", false)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		h.try("alice", wrong, Visitor{Address: addressOf(n)})
	}
	h.is("throttled", h.try("alice", right, Visitor{Address: home}), "a stranger")
	h.is("right", h.try("alice", right, Visitor{Address: home, Known: cookie}), "a known browser")
	// A known browser also signs in from an address that has used up its own limit.
	for n := range 100 {
		h.try(strings.Repeat("x", n), wrong, Visitor{Address: home})
	}
	h.is("throttled", h.try("bob", right, Visitor{Address: home}), "another user of that address")
	h.is("right", h.try("alice", right, Visitor{Address: home, Known: cookie}), "a known browser there")

	// The known browser may fail, too, but has its own limit.
	for range 10 {
		h.is("wrong", h.try("alice", wrong, Visitor{Address: home, Known: cookie}), "a known browser's failure")
	}
	h.is("throttled", h.try("alice", right, Visitor{Address: home, Known: cookie}), "its eleventh")
	h.advance(time.Minute)
	h.is("right", h.try("alice", right, Visitor{Address: home, Known: cookie}), "a minute later")
}

func TestAKnownBrowserIsKnownToItsUserOnly(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	cookie, err := h.KnownBrowser("alice", false)
	if err != nil {
		t.Fatal(err)
	}
	if other, _ := h.KnownBrowser("alice", false); bytes.Equal(other, cookie) {
		t.Error("two browsers get the same cookie")
	}
	foreign := *h.Users
	foreign.Realm = "/other"
	made, err := foreign.KnownBrowser("alice", false)
	if err != nil {
		t.Fatal(err)
	}
	strange := newRing(t)
	foreign = *h.Users
	foreign.Ring = func() (*keys.Ring, error) { return strange, nil }
	forged, err := foreign.KnownBrowser("alice", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		about, username string
		cookie          []byte
		known           bool
	}{
		{"its own", "alice", cookie, true},
		{"another user's", "bob", cookie, false},
		{"none", "alice", nil, false},
		{"an empty one", "alice", []byte{}, false},
		{"one cut short", "alice", cookie[:len(cookie)-1], false},
		{"one with more", "alice", append(slices.Clone(cookie), 0), false},
		{"one with another nonce", "alice", append([]byte{cookie[0] ^ 1}, cookie[1:]...), false},
		{"one with another mark", "alice", append(slices.Clone(cookie[:len(cookie)-1]), cookie[len(cookie)-1]^1), false},
		{"another realm's", "alice", made, false},
		{"another deployment's", "alice", forged, false},
	} {
		nonce, err := h.nonce(c.username, c.cookie, knownLabel)
		if known := nonce != nil; known != c.known || err != nil {
			t.Errorf("%s: known %t, %v", c.about, known, err)
		}
	}
}

func TestAFaultThatPassesIsNotCounted(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.cheaply()
	h.add("alice")
	from := Visitor{Address: home}
	for range 20 {
		h.faulty.Inject(storetest.Document, 1, storetest.Lost)
		h.is("unavailable", h.try("alice", wrong, from), "a store that fails")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	resume := h.pool.Pause()
	for range 20 {
		if _, err := h.Password(ended, "alice", wrong, from); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, ErrWrong) {
			t.Errorf("a request that has ended: %v, want ErrUnavailable", err)
		}
	}
	resume()
	ring := h.Ring
	h.Ring = func() (*keys.Ring, error) { return nil, errors.New("stale") }
	_, err := h.KnownBrowser("alice", false)
	h.is("unavailable", err, "a cookie without keys")
	for range 20 {
		h.is("unavailable", h.try("alice", wrong, Visitor{Address: home, Known: make([]byte, nonceSize+keys.TagSize)}), "a cookie without keys")
	}
	h.is("right", h.try("alice", right, from), "without a cookie, keys are not needed")
	h.Ring = ring
	for range 5 {
		h.is("wrong", h.try("alice", wrong, from), "one of all five")
	}
}

func TestADamagedRecordIsNotAWrongPassword(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	u := h.add("alice")
	u = u.changed(started)
	u.Password = "plain text"
	h.put(u)
	err := h.try("alice", "plain text", Visitor{Address: home})
	if err == nil || errors.Is(err, ErrWrong) || errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "plain") {
		t.Errorf("a damaged hash: %v", err)
	}
	d := document(t, h.stored("alice").changed(started))
	d.Body = []byte("{")
	if err := h.faulty.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
		t.Fatal(err)
	}
	if err := h.try("alice", right, Visitor{Address: home}); err == nil || errors.Is(err, ErrWrong) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a damaged record: %v", err)
	}
}

// A flood of guesses does not displace known browsers.
func TestPasswordChecksAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newFixture(t)
		h.cheaply()
		h.add("alice")
		cookie, err := h.KnownBrowser("alice", false)
		if err != nil {
			t.Fatal(err)
		}
		resume := h.pool.Pause()
		var waiting sync.WaitGroup
		enter := func(username, want string, v Visitor) {
			waiting.Go(func() { h.is(want, h.try(username, right, v), "one that waits") })
			synctest.Wait()
		}
		for n := range hashersWaiting + 1 - hashersSpared {
			enter("nobody"+strings.Repeat("x", n), "wrong", Visitor{Address: addressOf(256 * n)})
		}
		h.is("unavailable", h.try("alice", right, Visitor{Address: home}), "one too many for strangers")
		enter("alice", "right", Visitor{Address: home, Known: cookie})
		resume()
		waiting.Wait()
		h.is("right", h.try("alice", right, Visitor{Address: home}), "after the flood")
	})
}

// One network, or five, with whatever addresses, leave slots of the pool to other
// networks, whose passwords are checked before most of theirs.
func TestOneNetworkDoesNotFillThePoolOfPasswordChecks(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(n int) netip.Addr{
		"one /48":           func(n int) netip.Addr { return ofSite(0, n) },
		"one /24":           func(n int) netip.Addr { return addressOf(n % 256) },
		"five /48":          func(n int) netip.Addr { return ofSite(n%5, n) },
		"five of IPv4":      func(n int) netip.Addr { return addressOf(256 * (n % 5)) },
		"five /24, rotated": func(n int) netip.Addr { return addressOf(256*(n%5) + n%256) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newFixture(t)
				h.cheaply()
				h.add("alice")
				resume := h.pool.Pause()
				var mu sync.Mutex
				ended := 0 // guesses of the flood
				var flood sync.WaitGroup
				for n := range 40 {
					flood.Go(func() {
						err := h.try(fmt.Sprint("nobody", n), wrong, Visitor{Address: address(n)})
						if !errors.Is(err, ErrWrong) && !errors.Is(err, store.ErrUnavailable) {
							t.Error(err)
						}
						if errors.Is(err, ErrWrong) {
							mu.Lock()
							defer mu.Unlock()
							ended++
						}
					})
					synctest.Wait()
				}
				if ended != 0 {
					t.Fatalf("%d checks were made while the pool was blocked", ended)
				}
				let := 0 // logins from elsewhere
				for n := range 3 {
					flood.Go(func() {
						h.is("right", h.try("alice", right, Visitor{Address: addressOf(1<<16 + 256*n)}), "somebody elsewhere")
						mu.Lock()
						defer mu.Unlock()
						let++
					})
					synctest.Wait()
				}
				// Block the pool again when the other networks have had their turns.
				rests := make(chan func())
				go func() { rests <- h.pool.Pause() }()
				synctest.Wait()
				resume()
				resume = <-rests
				synctest.Wait()
				if let != 3 || ended > 5+3 {
					t.Errorf("of three elsewhere, %d were let in, and %d of the flood were checked before", let, ended)
				}
				resume()
				flood.Wait()
				if ended == 0 {
					t.Error("no check of the flood was made")
				}
			})
		})
	}
}

// alive returns ErrWrong for a session that has ended.
func (h *fixture) alive(username string, epoch int64) error {
	alive, err := h.Alive(h.t.Context(), username, epoch)
	if err == nil && !alive {
		err = ErrWrong
	}
	return err
}

func TestASessionLivesAsLongAsItsUserMayLogIn(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	u := h.add("alice")
	alive := func(epoch int64) error { return h.alive("Alice", epoch) }
	h.is("right", alive(0), "a session")
	h.is("wrong", h.alive("bob", 0), "a user who never was")

	h.advance(time.Hour)
	u, err := u.SetPassword("battery staple", h.clock())
	if err != nil {
		t.Fatal(err)
	}
	h.put(u)
	h.is("wrong", alive(0), "a session of before the change")
	h.is("right", alive(1), "a session of after it")

	h.advance(time.Hour)
	u = u.Disable(h.clock())
	h.put(u)
	h.is("wrong", alive(2), "a session of a disabled user")
	u = u.Enable(h.clock() + 5)
	h.put(u)
	h.is("wrong", alive(1), "a session that was ended, after the user was enabled again")
	h.is("right", alive(2), "a new session")

	h.faulty.Inject(storetest.Document, 1, storetest.Lost)
	h.is("unavailable", alive(2), "a store that fails")
}

// A session's epoch is that of the record whose password was checked: if the password
// changes during the check, the session ends with the old password.
func TestAPasswordThatIsChangedDuringItsCheckBeginsNoSession(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	u := h.add("alice")
	match := h.match
	h.match = func(ctx context.Context, phc string, spellings []oauth.Secret, shares ...keys.Share) (int, error) {
		h.advance(time.Second)
		changed, err := u.SetPassword("battery staple", h.clock())
		if err != nil {
			t.Error(err)
		}
		h.put(changed)
		h.advance(time.Second)
		return match(ctx, phc, spellings, shares...)
	}
	a, err := h.Password(t.Context(), "alice", right, Visitor{Address: home})
	h.is("right", err, "the old password")
	h.is("wrong", h.alive("alice", a.Epoch), "its session")
}

// A full pool has not checked the password: that is not a failed attempt.
func TestAPasswordThatIsNotCheckedIsNoFailure(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.cheaply()
	h.add("alice")
	match := h.match
	h.match = func(context.Context, string, []oauth.Secret, ...keys.Share) (int, error) { return -1, keys.ErrPoolFull }
	for range 2 * DefaultFailures {
		h.is("unavailable", h.try("alice", wrong, Visitor{Address: home}), "a full pool")
	}
	h.match = match
	h.is("right", h.try("alice", right, Visitor{Address: home}), "afterwards")
}

// An assertion of another issuer can only act for an enabled user.
func TestStandingIsThatOfTheRecord(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.put(h.add("alice").Enable(started))
	h.put(h.add("bob").Disable(started))
	for subject, want := range map[string][2]bool{"s-alice": {true, true}, "s-bob": {true, false}, "alice": {}, "s-carol": {}} {
		if known, enabled, err := h.Standing(t.Context(), subject); [2]bool{known, enabled} != want || err != nil {
			t.Errorf("%s: known %t, enabled %t, %v", subject, known, enabled, err)
		}
	}
	h.faulty.Inject(storetest.Documents, 1, storetest.Lost)
	if _, _, err := h.Standing(t.Context(), "s-alice"); err == nil {
		t.Error("a store that fails knows a user")
	}
}
