//go:build e2e

package crash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// A habit is what the clients of a load do, in chances out of a hundred.
type habit struct {
	twiceCode    int // redeem a code with two requests at once
	twiceRefresh int // refresh with two requests at once
	replay       int // end the chain by presenting something spent
	generations  int // how long a chain gets
}

// A load is many clients at work, and everything that they saw.
type load struct {
	t      *testing.T
	server binary.Server // where it answers; the program itself changes
	habit  habit
	start  time.Time

	lostCodes, lostRefreshes atomic.Int64 // requests that were sent and not answered

	// stuck tells that a request got no answer at all; then nobody waits.
	stuck atomic.Bool

	mu       sync.Mutex
	finished []*chain
}

// patience is for how long a client repeats a request, also while the server
// is started anew.
const patience = 20 * time.Second

// A chain is one grant as its client knows it. One goroutine drives it; it may
// send two requests at once.
type chain struct {
	code   string
	tokens []string // refresh tokens by generation; the first is of generation 1
	ended  bool     // a refusal is what the client must expect
	unsure bool     // whether it has ended depends on a request without answer

	mu      sync.Mutex
	history []porcupine.Operation
}

func (c *chain) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return describe(c.history)
}

// newLoad prepares clients of a server that runs.
func newLoad(t *testing.T, s *binary.Server, h habit) *load {
	return &load{t: t, server: binary.Server{Dev: s.Dev, Dir: s.Dir}, habit: h, start: time.Now()}
}

func (l *load) now() int64 { return int64(time.Since(l.start)) }

// send presents something once and records what came of it.
func (l *load) send(client *http.Client, c *chain, in request, form url.Values) (binary.Answer, verdict) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	op := porcupine.Operation{Input: in, Call: l.now()}
	a, err := l.server.Post(ctx, client, form)
	op.Return = l.now()
	out := reply{verdict: lost}
	var network *net.OpError
	switch {
	case errors.As(err, &network) && network.Op == "dial":
		return a, lost // nobody serves at the moment: nothing was sent
	case err != nil:
		// The kernel closes a killed process's connections after its last
		// instruction: what took effect has done so by now.
		if in.code {
			l.lostCodes.Add(1)
		} else {
			l.lostRefreshes.Add(1)
		}
		if ctx.Err() != nil {
			op.Return = never
		}
	case a.Status == http.StatusOK:
		sum := sha256.Sum256([]byte(a.RefreshToken + " " + a.AccessToken))
		out = reply{issued, hex.EncodeToString(sum[:])}
	case a.Status == http.StatusBadRequest && a.Error == "invalid_grant":
		out.verdict = refused
	case a.Status == http.StatusServiceUnavailable:
		op.Return = never
	default:
		l.t.Errorf("answer %d %s %q to a good request", a.Status, a.Error, a.Description)
	}
	op.Output = out
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, op)
	return a, out.verdict
}

// ask presents something, once or twice at once, again and again until it is
// answered. It reports the pair, or that it was refused.
func (l *load) ask(client *http.Client, c *chain, in request, form url.Values, twice bool) (pair binary.Answer, ok bool) {
	for began := time.Now(); time.Since(began) < patience && !l.stuck.Load(); time.Sleep(3 * time.Millisecond) {
		var other binary.Answer
		second := lost
		var both sync.WaitGroup
		if twice {
			both.Go(func() { other, second = l.send(client, c, in, form) })
		}
		a, first := l.send(client, c, in, form)
		both.Wait()
		switch {
		case first == issued:
			return a, true
		case second == issued:
			return other, true
		case first == refused || second == refused:
			return a, false
		}
	}
	if !l.stuck.Swap(true) {
		l.t.Errorf("no answer about the grant for %s:\n%s", patience, c)
	}
	return pair, false
}

func (l *load) refresh(client *http.Client, c *chain, generation int, twice bool) (binary.Answer, bool) {
	return l.ask(client, c, request{generation: generation}, l.server.RefreshForm(c.tokens[generation-1]), twice)
}

func (l *load) redeem(client *http.Client, c *chain, twice bool) (binary.Answer, bool) {
	return l.ask(client, c, request{code: true}, l.server.ExchangeForm(c.code), twice)
}

// work runs chain after chain until ctx ends; the present one is then left as
// it is.
func (l *load) work(ctx context.Context, client *http.Client, rng *rand.Rand) {
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	for ctx.Err() == nil {
		code, err := l.server.FastCode(ctx, "kill-loop")
		if err != nil { // nobody serves at the moment
			time.Sleep(3 * time.Millisecond)
			continue
		}
		c := &chain{code: code}
		l.run(ctx, client, c, chance)
		l.mu.Lock()
		l.finished = append(l.finished, c)
		l.mu.Unlock()
	}
}

func (l *load) run(ctx context.Context, client *http.Client, c *chain, chance func(int) bool) {
	twice := chance(l.habit.twiceCode)
	a, ok := l.redeem(client, c, twice)
	if !ok || twice {
		// Two requests with one code end its grant; so does one that is
		// repeated because its answer was lost. Then the user logs in again.
		c.ended = true
		c.unsure = slices.ContainsFunc(c.history, func(op porcupine.Operation) bool { return op.Output.(reply).verdict == lost })
	}
	if !ok {
		return
	}
	c.tokens = append(c.tokens, a.RefreshToken)
	for !c.ended && ctx.Err() == nil && len(c.tokens) < l.habit.generations {
		newest := len(c.tokens)
		if chance(l.habit.replay) {
			c.ended = true
			if newest >= 3 && chance(50) {
				l.refresh(client, c, newest-2, false)
			} else {
				l.redeem(client, c, false)
			}
			break
		}
		a, ok := l.refresh(client, c, newest, chance(l.habit.twiceRefresh))
		if !ok {
			return // the history will say whether this was right
		}
		c.tokens = append(c.tokens, a.RefreshToken)
	}
}

// verify uses the newest token that a client knows: it must go on, unless the
// client has ended the chain.
func (l *load) verify(client *http.Client, c *chain) {
	if len(c.tokens) == 0 {
		return
	}
	a, ok := l.refresh(client, c, len(c.tokens), false)
	if l.stuck.Load() {
		return
	}
	if ok == c.ended && !c.unsure {
		l.t.Errorf("generation %d of a grant: issued %t, ended %t\n%s", len(c.tokens), ok, c.ended, c)
	}
	if ok {
		c.tokens = append(c.tokens, a.RefreshToken)
	}
}

// judge checks the history of every grant.
func (l *load) judge() {
	requests, bad := 0, 0
	for _, c := range l.finished {
		requests += len(c.history)
		if why := checkHistory(c.history); why != "" {
			if bad++; bad <= 3 {
				l.t.Error(why)
			}
		}
	}
	l.t.Logf("%d grants, %d requests; answers lost: %d of codes, %d of refreshes; %d histories are wrong",
		len(l.finished), requests, l.lostCodes.Load(), l.lostRefreshes.Load(), bad)
}
