package keys

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"

	"github.com/mintage/mintage/internal/oauth"
)

// A SlowPool bounds the slow hashes that run at once, and those that wait. Each
// takes 19 MiB and 25 ms of a core.
type SlowPool struct {
	turn   chan struct{}
	places int

	mu    sync.Mutex
	taken int
	of    map[string]int // by the name of a share
}

// NewSlowPool makes a pool in which atOnce hashes run and more of them wait.
func NewSlowPool(atOnce, waiting int) *SlowPool {
	return &SlowPool{turn: make(chan struct{}, atOnce), places: atOnce + waiting, of: map[string]int{}}
}

// A Share is how many of a pool's places may be for one name: whoever floods it
// leaves places for the others.
type Share struct {
	Name string
	Most int
}

// ErrPoolFull means that no place was left in the pool, or in a share of it.
var ErrPoolFull = errors.New("too many slow hashes wait")

// Match compares spellings of a secret with a hash that HashSlow made, and
// returns the index of the first that has it, or -1. It takes one place, which
// counts for every share, and one turn for each comparison. If there is no
// place, or ctx ends before a turn comes, it returns ErrPoolFull or the
// context's error.
func (p *SlowPool) Match(ctx context.Context, phc string, spellings []oauth.Secret, shares ...Share) (int, error) {
	if !p.enter(shares) {
		return -1, ErrPoolFull
	}
	defer p.leave(shares)
	for i, s := range spellings {
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return -1, ctx.Err()
		}
		ok, err := MatchSlow(phc, s)
		<-p.turn
		if err != nil {
			return -1, err
		}
		if ok {
			return i, nil
		}
	}
	return -1, nil
}

func (p *SlowPool) enter(shares []Share) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken == p.places {
		return false
	}
	for _, s := range shares {
		if p.of[s.Name] >= s.Most {
			return false
		}
	}
	p.taken++
	for _, s := range shares {
		p.of[s.Name]++
	}
	return true
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

// Taken is how many hashes run or wait.
func (p *SlowPool) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Pause takes a turn and no place, until resume is called.
func (p *SlowPool) Pause() (resume func()) {
	p.turn <- struct{}{}
	return func() { <-p.turn }
}

// DummySlow is a hash that nothing has. To compare with it costs what it costs
// to compare with one of HashSlow's.
func DummySlow() string {
	var salt [slowSalt]byte
	var sum [slowSum]byte
	rand.Read(salt[:])
	rand.Read(sum[:])
	return slowText(salt[:], sum[:])
}
