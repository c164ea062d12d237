//go:build e2e

package restore

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A holder is a client with one grant. It refreshes repeatedly, loses some responses and
// then repeats the request. It remembers all tokens that it received.
type holder struct {
	pairs []binary.Answer // by generation
}

func (h *holder) newest() binary.Answer { return h.pairs[len(h.pairs)-1] }

// A crowd is several holders that work concurrently.
type crowd struct {
	*site
	holders []*holder
	// lost counts responses that holders discarded or did not receive.
	lost atomic.Int64
}

// newCrowd creates n holders, each with a new grant.
func (s *site) newCrowd(n int) *crowd {
	s.Helper()
	c := &crowd{site: s}
	for range n {
		c.holders = append(c.holders, &holder{pairs: []binary.Answer{s.redeem(s.code())}})
	}
	return c
}

// patience is how long a holder repeats a request, also while no server runs.
const patience = 30 * time.Second

// once presents the newest token until it gets a new pair. It returns false if ctx ends
// before, or on a failure.
func (c *crowd) once(ctx context.Context, h *holder, rng *rand.Rand) bool {
	form := c.nodes[0].RefreshForm(h.newest().RefreshToken)
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		node := c.nodes[rng.IntN(len(c.nodes))]
		a, err := node.Post(context.Background(), c.http, form)
		switch {
		case err == nil && a.Status == http.StatusOK && rng.IntN(8) == 0:
			// Discard this response: to the client it is lost. Cancelling a pending
			// request instead could delay it until it looks like a thief's replay.
			c.lost.Add(1)
		case err == nil && a.Status == http.StatusOK:
			h.pairs = append(h.pairs, a)
			return true
		case err != nil:
			c.lost.Add(1)
		case a.Status != http.StatusServiceUnavailable:
			c.Errorf("generation %d of a good client: %d %s %q", len(h.pairs), a.Status, a.Error, a.Description)
			return false
		}
		if ctx.Err() != nil {
			return false
		}
		if time.Since(began) > patience {
			c.Errorf("generation %d of a good client: no answer for %s: %d, %v", len(h.pairs), patience, a.Status, err)
			return false
		}
	}
}

// work makes all holders refresh until ctx ends. wait waits for their end.
func (c *crowd) work(ctx context.Context) (wait func()) {
	var working sync.WaitGroup
	for i, h := range c.holders {
		working.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(i)))
			for ctx.Err() == nil && c.once(ctx, h, rng) {
				time.Sleep(time.Duration(rng.Int64N(int64(10 * time.Millisecond))))
			}
		})
	}
	return working.Wait
}

// workFor makes all holders refresh for a while.
func (c *crowd) workFor(d time.Duration) {
	c.Helper()
	ctx, stop := context.WithTimeout(c.Context(), d)
	defer stop()
	c.work(ctx)()
}

// goOn requires that each holder can refresh its newest token twice, without a new login.
func (c *crowd) goOn() {
	c.Helper()
	var working sync.WaitGroup
	for i, h := range c.holders {
		working.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(i)))
			for range 2 {
				if !c.once(c.Context(), h, rng) {
					return
				}
			}
		})
	}
	working.Wait()
	if c.Failed() {
		c.FailNow()
	}
}
