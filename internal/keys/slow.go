package keys

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/overload"
)

// A SlowPool limits how many slow hashes run at once and how many are queued: each
// takes 19 MiB and 25 ms of a core. Queued hashes run in order of arrival, except
// that a party's second hash waits until the first ones of other parties have run.
type SlowPool struct {
	atOnce, places int

	mu       sync.Mutex
	running  int
	taken    int
	of       map[string]int // slots held, by the name of a share
	arrivals int
	queue    []*slowTurn
}

// A slowTurn is a queued hash.
type slowTurn struct {
	order int           // the lowest is the next
	come  chan struct{} // closed when the hash may run
}

// NewSlowPool returns a pool that runs atOnce hashes and queues up to waiting more.
func NewSlowPool(atOnce, waiting int) *SlowPool {
	return &SlowPool{atOnce: atOnce, places: atOnce + waiting, of: map[string]int{}}
}

// A Share limits how many of a pool's slots one name may hold, so that a flood
// leaves slots for others. If Most is zero, the limit is the fair share of one party
// (overload.Fair) of the slots that the shares before this one leave free.
type Share struct {
	Name string
	Most int
}

// ofParty limits the slots of one party to a third of the free ones (overload.Fair).
const ofParty = 3

// ErrPoolFull means that no slot was free in the pool, or in a share of it.
var ErrPoolFull = errors.New("too many slow hashes wait")

// Match compares spellings of a secret with a hash of HashSlow, and returns the
// index of the first that matches, or -1. It takes one slot, which counts for every
// share, and one turn for each comparison. It returns ErrPoolFull if there is no
// slot, and the context's error if ctx ends before a turn.
func (p *SlowPool) Match(ctx context.Context, phc string, spellings []oauth.Secret, shares ...Share) (int, error) {
	before, ok := p.enter(shares)
	if !ok {
		return -1, ErrPoolFull
	}
	defer p.leave(shares)
	for i, s := range spellings {
		if err := p.turn(ctx, before); err != nil {
			return -1, err
		}
		ok, err := MatchSlow(phc, s)
		p.endTurn()
		if err != nil {
			return -1, err
		}
		if ok {
			return i, nil
		}
	}
	return -1, nil
}

// enter takes a slot, if there is one. Before is the number of slots that the party held
// until then.
func (p *SlowPool) enter(shares []Share) (before int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.places - p.taken
	for _, s := range shares {
		held := p.of[s.Name]
		switch {
		case s.Most > 0:
			free = min(free, s.Most-held)
		case !overload.Fair(held, 1, free, ofParty):
			return 0, false
		default:
			before = held
		}
	}
	if free <= 0 {
		return 0, false
	}
	p.taken++
	for _, s := range shares {
		p.of[s.Name]++
	}
	return before, true
}

func (p *SlowPool) leave(shares []Share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	for _, s := range shares {
		if p.of[s.Name]--; p.of[s.Name] == 0 {
			delete(p.of, s.Name)
		}
	}
}

// turn waits until a hash may run; endTurn ends its run. Later arrivals overtake it,
// but at most p.places of them for each slot that its party already held: no party
// starves.
func (p *SlowPool) turn(ctx context.Context, before int) error {
	p.mu.Lock()
	p.arrivals++
	if p.running < p.atOnce {
		p.running++
		p.mu.Unlock()
		return nil
	}
	t := &slowTurn{order: p.arrivals + before*p.places, come: make(chan struct{})}
	p.queue = append(p.queue, t)
	p.mu.Unlock()
	select {
	case <-t.come:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(p.queue, t)
	if i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 {
		p.endTurn() // the turn came meanwhile
	}
	return ctx.Err()
}

func (p *SlowPool) endTurn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.running--
		return
	}
	next := slices.MinFunc(p.queue, func(a, b *slowTurn) int { return a.order - b.order })
	i := slices.Index(p.queue, next)
	p.queue = slices.Delete(p.queue, i, i+1)
	close(next.come)
}

// Taken returns how many hashes run or wait.
func (p *SlowPool) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Pause reduces the hashes that run at once by one, until resume is called. It waits for
// its turn as a hash does, but takes no slot.
func (p *SlowPool) Pause() (resume func()) {
	p.turn(context.Background(), 0)
	return p.endTurn
}
