package directory_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/testkit"
)

func TestKeysAreMadeAheadAndUsedInTime(t *testing.T) {
	s := newNodes(t, testkit.Rotating, 1)[0]
	purposes := testkit.Rotating.Rotating()
	check := func(when, signing, others string) {
		t.Helper()
		s.RotateKeys()
		for _, p := range purposes {
			want := others
			if p.Signs() {
				want = signing
			}
			if got := testkit.Phases(s.Lives(p)); got != want {
				t.Errorf("%s: %s keys are %s, want %s", when, p, got, want)
			}
		}
	}
	check("at first", "active", "active")
	s.Clock.Advance(83*day - time.Millisecond)
	check("before the lead", "active", "active")
	s.Clock.Advance(time.Millisecond)
	check("at the lead", "active next", "active next")
	check("a second later", "active next", "active next")
	s.Clock.Advance(7*day - time.Millisecond)
	check("before the end", "active next", "active next")
	s.Clock.Advance(time.Millisecond)
	check("at the end", "retired active", "retired active")
	s.Clock.Advance(67 * time.Minute)
	check("after the last token", "gone active", "retired active")
	s.Clock.Advance(83 * day)
	check("at the next lead", "gone active next", "retired active next")
	if got := testkit.Phases(s.Lives(keys.Pepper)); got != "active" {
		t.Errorf("peppers are %s", got)
	}
	for _, l := range s.Lives(keys.ES256)[1:] {
		events, err := s.Engine.Events(t.Context(), l.ID.String(), 10)
		if err != nil || len(events) != 1 || events[0].Name != store.EventKeyAdded || events[0].Actor != "server" ||
			events[0].At != l.CreatedAt || !strings.Contains(events[0].Detail, l.ActiveAt.Time().Format(time.RFC3339)) {
			t.Errorf("key %s has the events %+v, %v", l.ID, events, err)
		}
	}
	if n := s.Logged.Count("key added"); n != 10 {
		t.Errorf("%d keys are in the log, want 10", n)
	}
}

func TestOfNodesThatRotateAtOnceOneAddsTheFollowers(t *testing.T) {
	nodes := newNodes(t, testkit.Rotating, 4)
	for round := range 5 {
		nodes[0].Clock.Advance(83 * day)
		for _, s := range nodes {
			s.Poll()
		}
		errs := make([]error, len(nodes))
		var all sync.WaitGroup
		for i, s := range nodes {
			all.Go(func() { errs[i] = s.Directory.RotateDue(t.Context()) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		nodes[0].Clock.Advance(7 * day)
		for i, s := range nodes {
			s.Poll()
			for _, p := range testkit.Rotating.Rotating() {
				if got := len(s.Lives(p)); got != round+2 {
					t.Errorf("round %d, node %d: %d %s keys, want %d", round, i, got, p, round+2)
				}
				if s.View().Ring.Current(p, s.At()) != nodes[0].View().Ring.Current(p, s.At()) {
					t.Errorf("round %d: two nodes use two %s keys", round, p)
				}
			}
		}
	}
}

func TestAStoreThatWasOffPastTheEndOfItsKeysPublishesBeforeUse(t *testing.T) {
	s := newNodes(t, testkit.Rotating, 1)[0]
	before := s.View().Ring.Current(keys.ES256, s.At())
	s.Clock.Advance(500 * day)
	s.Reopen(testkit.Rotating)
	list := s.Lives(keys.ES256)
	if len(list) != 2 || list[1].Phase != keys.Next || list[1].ActiveAt != s.At().Add(testkit.Rotating.Notice(keys.ES256)) {
		t.Fatalf("after the start: %+v", list)
	}
	if now := s.View().Ring.Current(keys.ES256, s.At()); now != before {
		t.Error("the start uses an unpublished key")
	}
	set, err := s.Signer().PublicKeys()
	if err != nil || len(set) != 4 || set[0].KeyID != before.String() || set[1].KeyID != list[1].ID.String() {
		t.Errorf("%d keys are published, %v; want the old and the new one of two algorithms", len(set), err)
	}
	s.Clock.Advance(testkit.Rotating.Notice(keys.ES256))
	s.Poll()
	if now := s.View().Ring.Current(keys.ES256, s.At()); now != list[1].ID {
		t.Error("the successor key is not used when every verifier has it")
	}
}

// A store of a version that had no signing keys.
func TestMissingSigningKeysAreMadeAtTheStartAndUsedAtOnce(t *testing.T) {
	nodes := newNodes(t, keys.Schedule{}, 1)
	s := nodes[0]
	before := len(s.Directory.Latest().Ring.Records())
	if _, err := s.View().Ring.Sign(keys.RS256, "JWT", []byte("{}"), s.At()); !errors.Is(err, keys.ErrUnknownKey) {
		t.Fatalf("an RS256 key is there: %v", err)
	}
	s.Reopen(keys.Schedule{Algorithms: keys.SigningAlgorithms})
	text, err := s.View().Ring.Sign(keys.RS256, "JWT", []byte("{}"), s.At())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := s.View().Ring.Verify(text); err != nil || len(s.Directory.Latest().Ring.Records()) != before+1 {
		t.Errorf("%v, %d keys after %d", err, len(s.Directory.Latest().Ring.Records()), before)
	}
}

func TestARepeatAfterARotationOfTheKeysGivesTheSamePair(t *testing.T) {
	sched := testkit.Rotating
	sched.Lifetime, sched.Lead, sched.MaxAge = 40*time.Second, 20*time.Second, time.Second
	s := newNodes(t, sched, 1)[0]
	first := s.Login()
	key := s.View().Ring.Current(keys.MAC, s.At())
	second := s.Must(s.Renew(first.RefreshToken))
	for range 5 {
		s.Clock.Advance(20 * time.Second)
		s.RotateKeys()
		repeat := s.Must(s.Renew(first.RefreshToken))
		if !repeat.Repeated {
			t.Error("the second response differs from the first one")
		}
		s.SamePair(second, repeat)
	}
	if s.View().Ring.Current(keys.MAC, s.At()) == key {
		t.Fatal("the key has not changed")
	}
	third := s.Must(s.Renew(second.RefreshToken))
	if got := s.Row(third.GrantID).KeyID; got == key || got != s.View().Ring.Current(keys.MAC, s.At()) {
		t.Errorf("the next pair is of key %s", got)
	}
	// A spent token of a key that was retired long ago is still recognized as a replay.
	s.Clock.Advance(time.Hour)
	s.RotateKeys()
	s.Refused(grant.RefreshReplayed)(s.Renew(first.RefreshToken))
}

func TestACodeSealedBeforeARotationIsRedeemedAfterIt(t *testing.T) {
	sched := testkit.Rotating
	sched.Lifetime, sched.Lead, sched.MaxAge = 40*time.Second, 20*time.Second, time.Second
	s := newNodes(t, sched, 1)[0]
	code, key := s.NewCode(), s.View().Ring.Current(keys.Seal, s.At())
	for range 2 {
		s.Clock.Advance(25 * time.Second)
		s.RotateKeys()
	}
	if s.View().Ring.Current(keys.Seal, s.At()) == key {
		t.Fatal("the key has not changed")
	}
	s.Must(s.Redeem(code))
}

func TestAJWTVerifiesUntilItsKeyIsGone(t *testing.T) {
	s := newNodes(t, testkit.Rotating, 1)[0]
	s.Clock.Advance(89 * day)
	s.RotateKeys()
	text, err := s.View().Ring.Sign(keys.ES256, "JWT", []byte("{}"), s.At())
	if err != nil {
		t.Fatal(err)
	}
	kid := s.View().Ring.Current(keys.ES256, s.At()).String()
	check := func(when string, want bool) {
		t.Helper()
		s.RotateKeys()
		_, _, _, err := s.View().Ring.VerifyAt(text, s.At(), testkit.Rotating)
		_, found, pemErr := s.Signer().PublicPEM(kid)
		set, setErr := s.Signer().PublicKeys()
		listed := false
		for _, k := range set {
			listed = listed || k.KeyID == kid
		}
		if (err == nil) != want || found != want || listed != want || pemErr != nil || setErr != nil {
			t.Errorf("%s: %v, PEM %t %v, listed %t %v; want %t", when, err, found, pemErr, listed, setErr, want)
		}
	}
	check("active", true)
	s.Clock.Advance(day)
	check("retired", true)
	s.Clock.Advance(66 * time.Minute)
	check("at its last moment", true)
	s.Clock.Advance(time.Millisecond)
	check("gone", false)
}

// added returns how many keys of each purpose the store contains.
func (s *service) added() map[keys.Purpose]int {
	s.T.Helper()
	ch, err := s.Engine.Changes(s.T.Context(), 0)
	if err != nil {
		s.T.Fatal(err)
	}
	n := map[keys.Purpose]int{}
	for _, r := range ch.Keys {
		n[r.Purpose]++
	}
	return n
}

func (s *service) holds(want map[keys.Purpose]int) {
	s.T.Helper()
	if got := s.added(); !maps.Equal(got, want) {
		s.T.Errorf("the store holds %v, want %v (of %v)", got, want, slices.Sorted(maps.Keys(want)))
	}
}
