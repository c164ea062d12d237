package directory_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

// each is the expected contents of a store with n keys of each rotating purpose.
func each(n int) map[keys.Purpose]int {
	return map[keys.Purpose]int{keys.MAC: n, keys.Seal: n, keys.Audit: n, keys.Pepper: 1, keys.ES256: n, keys.EdDSA: n}
}

func TestAKeyIsAddedOnceHoweverTheStoreFails(t *testing.T) {
	for name, fault := range map[string]storetest.Fault{
		"lost": storetest.Lost, "unanswered": storetest.Unanswered, "conflict": storetest.Conflicts, "full": storetest.Full,
	} {
		t.Run(name, func(t *testing.T) {
			s := newNodes(t, testkit.Rotating, 1)[0]
			s.Clock.Advance(83 * day)
			s.Poll()
			s.Faulty.Inject(storetest.CommitKeys, 1, fault)
			err := s.Directory.RotateDue(t.Context())
			if (err == nil) != (name == "conflict") {
				t.Errorf("%v", err)
			}
			s.RotateKeys()
			s.RotateKeys()
			s.holds(each(2))
		})
	}
}

func TestANodeThatIsLateAddsNothing(t *testing.T) {
	nodes := newNodes(t, testkit.Rotating, 2)
	a, b := nodes[0], nodes[1]
	a.Clock.Advance(83 * day)
	a.Poll()
	b.Poll()
	// The other node adds the successor keys between this node's read and its write.
	a.Faulty.Inject(storetest.CommitKeys, 1, storetest.Meanwhile(b.RotateKeys))
	if err := a.Directory.RotateDue(t.Context()); err != nil {
		t.Error(err)
	}
	a.RotateKeys()
	a.holds(each(2))

	// The other node also adds them while this node generates its keys.
	a.Clock.Advance(90 * day)
	a.Poll()
	b.Poll()
	a.Faulty.Inject(storetest.Changes, 1, storetest.Meanwhile(b.RotateKeys))
	if err := a.Directory.RotateDue(t.Context()); err != nil {
		t.Error(err)
	}
	a.holds(each(3))
}

func TestAChangeOfAClientDoesNotKeepKeysFromBeingAdded(t *testing.T) {
	s := newNodes(t, testkit.Rotating, 1)[0]
	s.Clock.Advance(83 * day)
	s.Poll()
	s.Faulty.Inject(storetest.CommitKeys, 1, storetest.Meanwhile(func() {
		c := s.Client(clientID)
		c.Version++
		if err := s.Engine.Commit(t.Context(), store.Change{Entries: []store.Entry{c.Entry()}}); err != nil {
			t.Error(err)
		}
	}))
	s.RotateKeys()
	s.holds(each(1))
	s.RotateKeys()
	s.holds(each(2))
}

func TestAServerStartsThoughTheKeysThatAreDueCannotBeWritten(t *testing.T) {
	s := newNodes(t, testkit.Rotating, 1)[0]
	s.Clock.Advance(100 * day)
	s.Faulty.Inject(storetest.CommitKeys, 1, storetest.Full)
	s.Reopen(testkit.Rotating)
	if n := s.Logged.Count("cannot add the keys that are due"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	s.holds(each(1))
	s.RotateKeys()
	s.holds(each(2))
}

func TestTheKeySetOfANodeWithoutNewsIsNotShown(t *testing.T) {
	s := newNodes(t, testkit.Rotating, 1)[0]
	kid := s.View().Ring.Current(keys.ES256, s.At()).String()
	if text, found, err := s.Signer().PublicPEM(kid); err != nil || !found || !strings.HasPrefix(string(text), "-----BEGIN PUBLIC KEY-----\n") {
		t.Fatalf("%t, %v", found, err)
	}
	s.Clock.Advance(5*time.Second + time.Millisecond)
	if set, err := s.Signer().PublicKeys(); !errors.Is(err, store.ErrUnavailable) || set != nil {
		t.Errorf("PublicKeys: %d, %v; want ErrUnavailable", len(set), err)
	}
	if text, found, err := s.Signer().PublicPEM(kid); !errors.Is(err, store.ErrUnavailable) || found || text != nil {
		t.Errorf("PublicPEM: %t, %v; want ErrUnavailable", found, err)
	}
}

func TestAnOperatorRotatesBeforeTheTime(t *testing.T) {
	s := newNodes(t, testkit.Rotating, 1)[0]
	rotate := func(r directory.Rotation) ([]keys.Stored, error) {
		r.Actor = "operator:root"
		return directory.RotateKeys(t.Context(), s.Faulty, s.KEK, testkit.Rotating, r, s.Clock.Now)
	}
	// All purposes, each at the earliest possible time.
	added, err := rotate(directory.Rotation{})
	if err != nil || len(added) != 5 {
		t.Fatalf("%d keys, %v", len(added), err)
	}
	for _, k := range added {
		if k.ActiveAt != s.At().Add(testkit.Rotating.Notice(k.Purpose)) {
			t.Errorf("the %s key is used %s from now", k.Purpose, k.ActiveAt.Since(s.At()))
		}
		events, err := s.Engine.Events(t.Context(), k.ID.String(), 10)
		if err != nil || len(events) != 1 || events[0].Name != store.EventKeyAdded || events[0].Actor != "operator:root" {
			t.Errorf("events %+v, %v", events, err)
		}
	}
	s.holds(each(2))
	s.RotateKeys()
	s.holds(each(2)) // the server finds them, and makes none of its own

	// One purpose, at a time that the operator chooses.
	added, err = rotate(directory.Rotation{Purposes: []keys.Purpose{keys.EdDSA}, In: 5 * day})
	if err != nil || len(added) != 1 || added[0].Purpose != keys.EdDSA || added[0].ActiveAt != s.At().Add(5*day) {
		t.Errorf("%+v, %v", added, err)
	}
	before := s.added()
	var invalid *oauth.Invalid
	for _, r := range []directory.Rotation{
		{In: time.Millisecond}, {In: testkit.Rotating.Notice(keys.ES256) - time.Millisecond},
		{Purposes: []keys.Purpose{keys.MAC}, In: testkit.Rotating.Notice(keys.MAC) - time.Millisecond},
	} {
		if _, err := rotate(r); !errors.As(err, &invalid) || invalid.Field != "in" || !strings.Contains(invalid.Message, "too soon") {
			t.Errorf("in %s: %v", r.In, err)
		}
	}
	due := s.At().Add(testkit.Rotating.Notice(keys.MAC) + testkit.Rotating.Lifetime) // when the successor itself is due to be replaced
	late := directory.Rotation{Purposes: []keys.Purpose{keys.MAC}, In: due.Since(s.At()) + time.Millisecond}
	if _, err := rotate(late); !errors.As(err, &invalid) || invalid.Field != "in" || !strings.Contains(invalid.Message, "too late: the schedule rotates the mac key on "+due.Time().Format(time.RFC3339)) {
		t.Errorf("after the scheduled rotation: %v", err)
	}
	s.holds(before)

	// Other processes change the directory meanwhile.
	s.Faulty.Inject(storetest.CommitKeys, 3, storetest.Conflicts)
	if _, err := rotate(directory.Rotation{Purposes: []keys.Purpose{keys.MAC}}); err != nil {
		t.Error(err)
	}
	s.Faulty.Inject(storetest.CommitKeys, 1, storetest.Lost)
	if _, err := rotate(directory.Rotation{Purposes: []keys.Purpose{keys.MAC}}); !errors.Is(err, storetest.ErrInjected) {
		t.Error(err)
	}
}

// An operator can rotate at the very end of a key's life, and after it, if no server was
// running.
func TestAnOperatorRotatesInTime(t *testing.T) {
	s := newNodes(t, testkit.Rotating, 1)[0]
	rotate := func(in time.Duration) error {
		r := directory.Rotation{Purposes: []keys.Purpose{keys.EdDSA}, In: in}
		_, err := directory.RotateKeys(t.Context(), s.Engine, s.KEK, testkit.Rotating, r, s.Clock.Now)
		return err
	}
	if err := rotate(400 * day); err == nil || !strings.Contains(err.Error(), "too late") {
		t.Errorf("in 400 days: %v", err)
	}
	s.Clock.Advance(100 * day)
	if err := rotate(0); err != nil {
		t.Errorf("an overdue rotation: %v", err)
	}
	if err := rotate(90 * day); err != nil {
		t.Errorf("the one after it: %v", err)
	}
}

func TestARotationUnderAnotherKeyEncryptionKeyAddsNothing(t *testing.T) {
	s := newNodes(t, testkit.Rotating, 1)[0]
	stranger, err := keys.ParseKEK(keys.NewKEKText())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := directory.RotateKeys(t.Context(), s.Engine, stranger, testkit.Rotating, directory.Rotation{}, s.Clock.Now); err == nil || !strings.Contains(err.Error(), "wrong key-encryption key") {
		t.Errorf("%v", err)
	}
	s.holds(each(1))
}

// Keys rotate every few seconds on two nodes, and verifiers cache the published keys as
// long as they may. No verifier ever receives a token that it cannot verify.
func TestVerifiersNeverReceiveATokenOfAnUnknownKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxAge, lifetime = 3 * time.Second, time.Minute
		sched := keys.Schedule{
			Lifetime: 4 * time.Second, Lead: 20 * time.Second, MaxAge: maxAge, Retention: lifetime + maxAge + time.Minute,
			Algorithms: []keys.Purpose{keys.ES256, keys.EdDSA},
		}
		nodes := newNodes(t, sched, 2)
		time.Sleep(time.Until(nodes[0].Clock.Now())) // the bubble begins in the year 2000
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, s := range nodes {
			// The bubble's clock, which Run's timers use.
			s.Now = time.Now
			d, err := directory.Open(ctx, s.Faulty, s.KEK, sched, s.Log, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			s.Use(d)
			running.Go(func() { d.Run(ctx) })
		}
		defer running.Wait()
		defer cancel()

		type token struct {
			text string
			at   time.Time
		}
		var alive []token
		var copied struct {
			keys []jose.JSONWebKey
			at   time.Time
		}
		used := map[grant.KeyID]bool{}
		for step := range 600 {
			time.Sleep(250 * time.Millisecond)
			s, other := nodes[step%2], nodes[1-step%2]
			view, err := s.Directory.View()
			if err != nil {
				t.Fatal(err)
			}
			if copied.keys == nil || time.Since(copied.at) >= maxAge {
				if copied.keys, err = other.Signer().PublicKeys(); err != nil {
					t.Fatal(err)
				}
				copied.at = time.Now()
			}
			for _, alg := range sched.Algorithms {
				text, err := view.Ring.Sign(alg, "JWT", []byte("{}"), grant.At(time.Now()))
				if err != nil {
					t.Fatal(err)
				}
				alive = append(alive, token{text, time.Now()})
				used[view.Ring.Current(alg, grant.At(time.Now()))] = true
			}
			for len(alive) > 0 && time.Since(alive[0].at) > lifetime {
				alive = alive[1:]
			}
			// Check the newest and the oldest valid tokens.
			for _, tok := range append([]token{alive[0]}, alive[len(alive)-2:]...) {
				jws, err := jose.ParseSignedCompact(tok.text, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA})
				if err != nil {
					t.Fatal(err)
				}
				kid := jws.Signatures[0].Protected.KeyID
				set := jose.JSONWebKeySet{Keys: copied.keys}
				if found := set.Key(kid); len(found) != 1 {
					t.Fatalf("step %d: a token of %s ago is of key %s, which a copy of %s ago does not hold", step, time.Since(tok.at), kid, time.Since(copied.at))
				} else if _, err := jws.Verify(found[0].Key); err != nil {
					t.Fatal(err)
				}
				otherView, err := other.Directory.View()
				if err != nil {
					t.Fatal(err)
				}
				if _, _, _, err := otherView.Ring.VerifyAt(tok.text, grant.At(time.Now()), sched); err != nil {
					t.Fatalf("step %d: the other node refuses a token of %s ago", step, time.Since(tok.at))
				}
			}
		}
		if len(used) < 2*30 {
			t.Errorf("only %d keys were used in 150 seconds", len(used))
		}
		cancel()
		running.Wait()
		for p, n := range nodes[0].added() {
			// One key every four seconds, those that wait, and none twice.
			if most := 150/4 + 7; n > most {
				t.Errorf("two nodes added %d %s keys, and %d are enough", n, p, most)
			}
		}
	})
}
