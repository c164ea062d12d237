package keys_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/oauth"
)

func TestMatchReturnsWhichSecretMatches(t *testing.T) {
	t.Parallel()
	pool := keys.NewSlowPool(1, 0)
	hash := keys.HashSlow("correct horse")
	for _, c := range []struct {
		spellings []oauth.Secret
		want      int
	}{
		{[]oauth.Secret{"correct horse"}, 0},
		{[]oauth.Secret{"correct+horse", "correct horse"}, 1},
		{[]oauth.Secret{"Correct horse"}, -1},
		{nil, -1},
	} {
		if got, err := pool.Match(t.Context(), hash, c.spellings, keys.Share{Name: "a", Most: 1}); got != c.want || err != nil {
			t.Errorf("%q: %d, %v, want %d", c.spellings, got, err, c.want)
		}
	}
	if _, err := pool.Match(t.Context(), "$argon2id$damaged", []oauth.Secret{"correct horse"}, keys.Share{Name: "a", Most: 1}); err == nil || errors.Is(err, keys.ErrPoolFull) {
		t.Errorf("a damaged hash: %v", err)
	}
	if n := pool.Taken(); n != 0 {
		t.Errorf("%d slots are still taken", n)
	}
}

func TestADummyHashCostsAsMuchAndMatchesNothing(t *testing.T) {
	t.Parallel()
	cost := func(phc string) string { return phc[:strings.LastIndex(phc[:strings.LastIndex(phc, "$")], "$")] }
	dummy := keys.UnmatchableHash()
	if real := keys.HashSlow("secret"); cost(dummy) != cost(real) || len(dummy) != len(real) {
		t.Errorf("the dummy is of %s, and a hash of %s", cost(dummy), cost(real))
	}
	if ok, err := keys.MatchSlow(dummy, ""); ok || err != nil {
		t.Errorf("the empty secret: %t, %v", ok, err)
	}
	if keys.UnmatchableHash() == dummy {
		t.Error("two dummies are equal")
	}
}

func TestAPoolLimitsRunningAndQueuedCallsInTotalAndByShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := keys.NewSlowPool(1, 4)
		resume := pool.Pause()
		var waiting sync.WaitGroup
		// The hash is cheap to compute, and matches no secret.
		const hash = "$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
		match := func(shares ...keys.Share) error {
			_, err := pool.Match(t.Context(), hash, []oauth.Secret{"guess"}, shares...)
			return err
		}
		enter := func(shares ...keys.Share) {
			waiting.Go(func() {
				if err := match(shares...); err != nil {
					t.Errorf("%v: %v", shares, err)
				}
			})
			synctest.Wait()
		}
		all, a, b := keys.Share{Name: "all", Most: 3}, keys.Share{Name: "a", Most: 2}, keys.Share{Name: "b", Most: 2}
		enter(all, a)
		enter(all, a)
		if err := match(all, a); !errors.Is(err, keys.ErrPoolFull) {
			t.Errorf("a third for a: %v", err)
		}
		enter(all, b)
		if err := match(all, b); !errors.Is(err, keys.ErrPoolFull) {
			t.Errorf("a fourth for all: %v", err)
		}
		enter(b)
		if err := match(b); !errors.Is(err, keys.ErrPoolFull) {
			t.Errorf("a third for b: %v", err)
		}
		enter()
		if err := match(); !errors.Is(err, keys.ErrPoolFull) || pool.Taken() != 5 {
			t.Errorf("a sixth: %v, with %d slots taken", err, pool.Taken())
		}
		resume()
		waiting.Wait()
		// Refused calls take no slots.
		resume = pool.Pause()
		for range 2 {
			enter(b)
			enter(a)
		}
		resume()
		waiting.Wait()
		if n := pool.Taken(); n != 0 {
			t.Errorf("%d slots are still taken", n)
		}
	})
}

// A call that ends early, before it gets a slot or at that instant, frees both its slot
// and its place in the queue. Otherwise the test would hang.
func TestACancelledMatchFreesItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := keys.NewSlowPool(1, 1)
		for n := range 20 {
			resume := pool.Pause()
			ctx, cancel := context.WithCancel(t.Context())
			var waiting sync.WaitGroup
			waiting.Go(func() {
				if i, err := pool.Match(ctx, keys.UnmatchableHash(), []oauth.Secret{"x"}); i != -1 || !errors.Is(err, context.Canceled) {
					t.Errorf("%d, %v", i, err)
				}
			})
			synctest.Wait()
			cancel()
			if n%2 == 0 {
				synctest.Wait()
			}
			resume()
			waiting.Wait()
			if n := pool.Taken(); n != 0 {
				t.Errorf("%d slots are still taken", n)
			}
		}
	})
}
