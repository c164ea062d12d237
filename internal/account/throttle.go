package account

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/store"
)

// Throttled is the error after too many failures. Nothing was compared.
type Throttled struct {
	RetryAfter time.Duration // until one attempt is allowed
}

func (t *Throttled) Error() string {
	return fmt.Sprintf("too many failures: try again in %s", t.RetryAfter)
}

// throttle counts failures (GCRA) under four kinds of keys. Failures of a browser
// that has logged in to the account before count for that browser only, so that
// unknown browsers cannot lock it out. All other failures count for their address
// and the networks around it, for their network at this account, and for the
// account. A network over its limit at the account no longer adds to the account's
// failures, and the account's limit recovers faster than any network's: one network
// cannot use it up.
//
// Whether the account exists makes no difference.
type throttle struct {
	mu      sync.Mutex
	address failures
	network failures
	account failures
	known   failures
}

type failures = overload.Limiter[bucketKey]

type limits struct{ address, network, account, known overload.Limit }

func newThrottle(l limits) *throttle {
	t := &throttle{}
	t.limit(l)
	return t
}

// passwordLimits allow a network n failures at an account, and then one a minute.
// All unknown browsers together can guess 7,250 times at an account on the first
// day.
func passwordLimits(n int) limits {
	return limits{
		address: overload.Limit{Burst: 12 * n, Every: time.Second}.Times(overload.LevelScale),
		network: overload.Limit{Burst: n, Every: time.Minute},
		account: overload.Limit{Burst: 10 * n, Every: 12 * time.Second},
		known:   overload.Limit{Burst: 2 * n, Every: time.Minute},
	}
}

// codeLimits are for one-time codes. The guesser has the password, and three of a
// million codes are valid at any time: all unknown browsers find one with a
// probability of one in ten within a year.
func codeLimits(n int) limits {
	return limits{
		address: overload.Limit{Burst: 12 * n, Every: time.Second}.Times(overload.LevelScale),
		network: overload.Limit{Burst: n, Every: 30 * time.Minute},
		account: overload.Limit{Burst: 4 * n, Every: 15 * time.Minute},
		known:   overload.Limit{Burst: 2 * n, Every: 15 * time.Minute},
	}
}

// limit changes the limits of t, and keeps its counts.
func (t *throttle) limit(to limits) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.address.Change(to.address)
	t.network.Change(to.network)
	t.account.Change(to.account)
	t.known.Change(to.known)
}

// bucketKey is the key of a bucket. Each kind of bucket sets other fields of it.
type bucketKey struct {
	account store.DocumentKey
	network netip.Prefix
	nonce   string
}

type bucket struct {
	of     *failures
	key    bucketKey
	weight int
}

// take counts a failure before the attempt, so that concurrent attempts do not all pass.
// The caller calls giveBack if the attempt succeeds, or if nothing was compared: that
// removes the failure. nonce is the one of a known browser, or nil.
func (t *throttle) take(account store.DocumentKey, from netip.Addr, nonce []byte, now grant.Instant) (giveBack func(), err error) {
	var all []bucket
	if nonce != nil {
		all = []bucket{{&t.known, bucketKey{account: account, nonce: string(nonce)}, 1}}
	} else {
		all = []bucket{{&t.account, bucketKey{account: account}, 1}}
	}
	if nonce == nil && from.IsValid() {
		all = append(all, bucket{&t.network, bucketKey{account: account, network: overload.Network(from, 48)}, 1})
		levels, n := overload.Levels(from)
		for _, l := range levels[:n] {
			all = append(all, bucket{&t.address, bucketKey{network: l.Network}, l.Weight})
		}
	}
	at := now.Time()
	t.mu.Lock()
	defer t.mu.Unlock()
	var wait time.Duration
	for _, b := range all {
		wait = max(wait, b.of.WaitFor(b.key, b.weight, at))
	}
	if wait > 0 {
		return nil, &Throttled{wait}
	}
	for _, b := range all {
		b.of.AddWeight(b.key, b.weight, at)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, b := range all {
			b.of.GiveBack(b.key, b.weight)
		}
	}, nil
}
