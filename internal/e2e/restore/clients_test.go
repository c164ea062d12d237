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

// A holder is a client system with one grant: it refreshes again and again, loses
// some answers, and then asks the same again, as clients do. It remembers all
// that it was given.
type holder struct {
	pairs []binary.Answer // by generation
}

func (h *holder) newest() binary.Answer { return h.pairs[len(h.pairs)-1] }

// crowd are holders at work at the same time.
type crowd struct {
	*site
	holders []*holder
	// lost counts answers that holders did not wait for.
	lost atomic.Int64
}

// newCrowd logs so many in.
func (s *site) newCrowd(n int) *crowd {
	s.Helper()
	c := &crowd{site: s}
	for range n {
		c.holders = append(c.holders, &holder{pairs: []binary.Answer{s.redeem(s.code())}})
	}
	return c
}

// patience is for how long a holder asks again, also while nobody serves.
const patience = 30 * time.Second

// once presents the newest token until it is answered. It reports false if the
// crowd was told to stop before.
func (c *crowd) once(ctx context.Context, h *holder, rng *rand.Rand) bool {
	form := c.nodes[0].RefreshForm(h.newest().RefreshToken)
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		node := c.nodes[rng.IntN(len(c.nodes))]
		a, err := node.Post(context.Background(), c.http, form)
		switch {
		case err == nil && a.Status == http.StatusOK && rng.IntN(8) == 0:
			// It came, and the holder never sees it. A request that is given up
			// while it runs could come late and be taken for a thief's.
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

// work has all of them refresh until ctx ends, and returns a wait for that.
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

// workFor has all of them refresh for a while.
func (c *crowd) workFor(d time.Duration) {
	c.Helper()
	ctx, stop := context.WithTimeout(c.Context(), d)
	defer stop()
	c.work(ctx)()
}

// goOn demands that each goes on with the token that it holds, twice, and nobody
// logs in.
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
