package account

import (
	"bytes"
	"encoding/base32"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
)

// The vectors of RFC 6238 appendix B, for SHA-1. They have eight digits, of which Mintage
// uses the last six.
func TestCodesAreThoseOfTheRFC(t *testing.T) {
	t.Parallel()
	for at, want := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 1234567890: "89005924", 2000000000: "69279037", 20000000000: "65353130",
	} {
		if got := oneTimeCode([]byte("12345678901234567890"), at/30); got != want[2:] {
			t.Errorf("at %d: %s, want %s", at, got, want[2:])
		}
	}
}

// withFactor gives a user a second factor.
func (h *fixture) withFactor(username string) (secret []byte) {
	h.t.Helper()
	ring, err := h.Ring()
	if err != nil {
		h.t.Fatal(err)
	}
	u, secret := h.stored(username).SetTOTP(ring, h.clock())
	h.put(u)
	return secret
}

// code returns the code of the user's device, some steps from now.
func (h *fixture) code(secret []byte, steps int) string {
	return oneTimeCode(secret, int64(h.clock())/30_000+int64(steps))
}

func (h *fixture) second(username, code string) error {
	_, err := h.SecondFactor(h.t.Context(), username, code, Visitor{Address: home})
	return err
}

func TestAUserWithASecondFactorIsAskedForItsCode(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.add("alice")
	secret := h.withFactor("alice")
	a, err := h.Password(t.Context(), "alice", right, Visitor{Address: home})
	if err != nil || !a.SecondFactor {
		t.Fatalf("%+v, %v", a, err)
	}
	h.advance(time.Minute)
	a, err = h.SecondFactor(t.Context(), "Alice", h.code(secret, 0), Visitor{Address: home})
	if want := (Account{Username: "alice", Name: "alice", Subject: "s-alice", SecondFactor: true, At: h.clock(), Epoch: h.stored("alice").Epoch}); a != want || err != nil {
		t.Errorf("%+v, %v, want %+v", a, err, want)
	}
	h.put(h.stored("alice").RemoveTOTP(h.clock()))
	if a, err := h.Password(t.Context(), "alice", right, Visitor{Address: home}); err != nil || a.SecondFactor {
		t.Errorf("without it: %+v, %v", a, err)
	}
}

func TestADevicesClockMayBeOffByOneStep(t *testing.T) {
	t.Parallel()
	for steps, want := range map[int]string{-3: "wrong", -2: "wrong", -1: "right", 0: "right", 1: "right", 2: "wrong", 120: "wrong"} {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			h := newFixture(t)
			h.add("alice")
			h.is(want, h.second("alice", h.code(h.withFactor("alice"), steps)), "the code")
		})
	}
}

func TestACodeIsTakenAsPeopleTypeIt(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.add("alice")
	secret := h.withFactor("alice")
	wide := func(s string) string {
		return strings.Map(func(c rune) rune { return c - '0' + '０' }, s)
	}
	for _, c := range []struct {
		about, want string
		typed       func(code string) string
	}{
		{"as it is", "right", func(s string) string { return s }},
		{"in two groups", "right", func(s string) string { return " " + s[:3] + " " + s[3:] + " " }},
		{"with a dash", "right", func(s string) string { return s[:3] + "-" + s[3:] }},
		{"copied, with a dash and spaces of typesetting", "right", func(s string) string { return "\u00a0" + s[:3] + "\u2013" + s[3:] + "\t" }},
		{"in full width", "right", func(s string) string { return wide(s[:3]) + "\u3000" + wide(s[3:]) }},
		{"nothing", "wrong", func(string) string { return "" }},
		{"one digit less", "wrong", func(s string) string { return s[1:] }},
		{"one digit more", "wrong", func(s string) string { return s + "0" }},
		{"with a letter", "wrong", func(s string) string { return s[:5] + "O" }},
		{"far too long", "wrong", func(s string) string { return s + strings.Repeat(" ", 1<<20) }},
	} {
		h.advance(time.Hour)
		h.is(c.want, h.second("alice", c.typed(h.code(secret, 0))), c.about)
	}
}

func TestACodeIsGoodOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.add("alice")
	secret := h.withFactor("alice")
	earlier, now, later := h.code(secret, -1), h.code(secret, 0), h.code(secret, 1)
	h.is("right", h.second("alice", now), "the first use")
	h.is("wrong", h.second("alice", now), "the second use")
	h.is("wrong", h.second("alice", earlier), "a code of before")
	// The use is stored, so another process knows it, too.
	restarted := New(Users{Realm: realm, Store: h.faulty, Ring: h.Ring, Now: h.Now, Log: h.Log})
	_, err := restarted.SecondFactor(t.Context(), "alice", now, Visitor{Address: home})
	h.is("wrong", err, "the second use, at another process")
	h.is("right", h.second("alice", later), "the next code")
	h.advance(time.Minute)
	h.is("right", h.second("alice", h.code(secret, 0)), "a code of later")
	// With a new secret, no code counts as used.
	secret = h.withFactor("alice")
	h.is("right", h.second("alice", h.code(secret, -1)), "a new secret's code of before")
}

func TestOneOfTwoThatUseACodeAtTheSameTimeWins(t *testing.T) {
	t.Parallel()
	for range 10 {
		h := newFixture(t)
		h.add("alice")
		code := h.code(h.withFactor("alice"), 0)
		var both sync.WaitGroup
		verdicts := make([]string, 2)
		// Both attempts read the record before either one writes it.
		read := make(chan struct{})
		var reads sync.WaitGroup
		reads.Add(2)
		go func() { reads.Wait(); close(read) }()
		h.faulty.Inject(storetest.CommitDocument, 2, storetest.Meanwhile(func() { reads.Done(); <-read }))
		for i := range verdicts {
			both.Go(func() { verdicts[i] = verdict(h.second("alice", code)) })
		}
		both.Wait()
		slices.Sort(verdicts)
		if !slices.Equal(verdicts, []string{"right", "wrong"}) {
			t.Fatalf("%q, want one of each", verdicts)
		}
	}
}

func TestAnAdministratorsChangeDoesNotSpoilACode(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	u := h.add("alice")
	secret := h.withFactor("alice")
	h.faulty.Inject(storetest.CommitDocument, 1, storetest.Meanwhile(func() {
		changed := h.stored("alice").changed(h.clock())
		changed.Name = "Alice Cooper"
		d := document(t, changed)
		// Bypass the injected fault.
		if err := h.faulty.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
			t.Error(err)
		}
	}))
	h.is("right", h.second("alice", h.code(secret, 0)), "the code")
	if got := h.stored("alice"); got.Name != "Alice Cooper" || got.TOTPStep == 0 || got.Version != u.Version+3 {
		t.Errorf("one of the changes was lost: %q, step %d, version %d", got.Name, got.TOTPStep, got.Version)
	}
}

func TestACodeIsNotTakenIfItsUseCannotBeRecorded(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.add("alice")
	secret := h.withFactor("alice")
	for range 20 {
		h.faulty.Inject(storetest.CommitDocument, 1, storetest.Lost)
		h.is("unavailable", h.second("alice", h.code(secret, 0)), "a store that fails")
		h.faulty.Inject(storetest.CommitDocument, 3, storetest.Conflicts)
		h.is("unavailable", h.second("alice", h.code(secret, 0)), "a record that changes all the time")
		h.faulty.Inject(storetest.Document, 1, storetest.Lost)
		h.is("unavailable", h.second("alice", h.code(secret, 0)), "a store that cannot be read")
	}
	ring := h.Ring
	h.Ring = func() (*keys.Ring, error) { return nil, errors.New("stale") }
	h.is("unavailable", h.second("alice", h.code(secret, 0)), "without keys")
	h.Ring = ring
	// Nothing of that counted as a failure.
	h.is("right", h.second("alice", h.code(secret, 0)), "the code at last")
	h.faulty.Inject(storetest.CommitDocument, 1, storetest.Unanswered)
	h.is("unavailable", h.second("alice", h.code(secret, 1)), "a write without an answer")
	h.is("wrong", h.second("alice", h.code(secret, 1)), "the code that it has spent")
}

func TestGuessesOfACodeAreThrottled(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.add("alice")
	secret := h.withFactor("alice")
	cookie, err := h.KnownBrowser("alice", true)
	if err != nil {
		t.Fatal(err)
	}
	guess := func(v Visitor) error {
		_, err := h.SecondFactor(t.Context(), "alice", "12345", v)
		return err
	}
	for range 5 {
		h.is("wrong", guess(Visitor{Address: home}), "one of five")
	}
	h.is("throttled", h.second("alice", h.code(secret, 0)), "the sixth")
	if !strings.Contains(h.logged(), "level=WARN") || !strings.Contains(h.logged(), "username=alice") {
		t.Error("the operator is not warned")
	}
	for n := range 20 {
		guess(Visitor{Address: addressOf(n)})
	}
	h.is("throttled", guess(Visitor{Address: elsewhere}), "a stranger's, after those of many")
	_, err = h.SecondFactor(t.Context(), "alice", h.code(secret, 0), Visitor{Address: home, Known: cookie})
	h.is("right", err, "a known browser's code")
	// Guesses of codes do not count as guesses of passwords.
	h.is("right", h.try("alice", right, Visitor{Address: home}), "the password")
}

func TestWhoHasNoSecondFactorHasNoCode(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.add("alice")
	h.add("bob")
	secret := h.withFactor("bob")
	h.put(h.stored("bob").Disable(h.clock()))
	h.is("wrong", h.second("alice", oneTimeCode(nil, int64(h.clock())/30_000)), "a user without one")
	h.is("wrong", h.second("nobody", "000000"), "an unknown user")
	h.is("wrong", h.second("bob", h.code(secret, 0)), "a disabled user")
}

func TestTheSecretIsSealedForItsUser(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.add("alice")
	h.add("bob")
	secret := h.withFactor("alice")
	if len(secret) != 20 || bytes.Equal(secret, h.withFactor("bob")) {
		t.Fatalf("%d bytes, or the same as another's", len(secret))
	}
	d := document(t, h.stored("alice"))
	for _, text := range []string{string(secret), TOTPText(secret), right} {
		if bytes.Contains(d.Body, []byte(text)) {
			t.Error("the record holds a secret as it is")
		}
	}
	// Store alice's sealed secret in bob's record.
	stolen := h.stored("bob").changed(h.clock())
	stolen.TOTP = h.stored("alice").TOTP
	h.put(stolen)
	if err := h.second("bob", h.code(secret, 0)); !errors.Is(err, keys.ErrNotAuthentic) || errors.Is(err, ErrWrong) {
		t.Errorf("another user's secret: %v", err)
	}
}

func TestAnAppReadsTheSecretFromTheURI(t *testing.T) {
	t.Parallel()
	u := User{Username: "alice@example.com"}
	secret := []byte("12345678901234567890")
	uri, err := url.Parse(u.TOTPURI("Example & Sons", secret))
	if err != nil {
		t.Fatal(err)
	}
	if uri.Scheme != "otpauth" || uri.Host != "totp" || uri.Path != "/Example & Sons:alice@example.com" || strings.Contains(uri.RawQuery, "+") {
		t.Errorf("%s", uri)
	}
	q := uri.Query()
	decoded, err := base32.StdEncoding.DecodeString(q.Get("secret"))
	if err != nil || !bytes.Equal(decoded, secret) || q.Get("issuer") != "Example & Sons" || q.Get("digits") != "6" || q.Get("period") != "30" || q.Get("algorithm") != "SHA1" {
		t.Errorf("%v, %v", q, err)
	}
}

func TestStepsAreThoseAfterTheLast(t *testing.T) {
	t.Parallel()
	secret := []byte("12345678901234567890")
	now := grant.Instant(1111111109_000)
	const current = 1111111109 / 30
	for last, ok := range map[int64]bool{0: true, current - 1: true, current: false, current + 1: false} {
		if step, got := stepOf(secret, "081804", now, last); got != ok || ok && step != current {
			t.Errorf("after %d: %d, %t", last-current, step-current, got)
		}
	}
}

// Somebody with a password but without a second factor can make any number of browsers
// known. None of them counts as known where codes are guessed.
func TestBrowsersOfThePasswordAloneAreUnknownWhereCodesAreGuessed(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.add("alice")
	var cookies [][]byte
	for range 5 {
		cookie, err := h.KnownBrowser("alice", false)
		if err != nil {
			t.Fatal(err)
		}
		cookies = append(cookies, cookie)
	}
	h.withFactor("alice")
	compared := 0
	for _, cookie := range cookies {
		for range 10 {
			if _, err := h.SecondFactor(t.Context(), "alice", "12345", Visitor{Address: home, Known: cookie}); errors.Is(err, ErrWrong) {
				compared++
			}
		}
	}
	if compared != DefaultFailures {
		t.Errorf("%d codes were compared, and one network may try %d", compared, DefaultFailures)
	}
}
