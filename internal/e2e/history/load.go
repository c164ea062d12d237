package history

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/mintage/mintage/internal/e2e/binary"
	"github.com/mintage/mintage/internal/testkit"
)

// A Habit is how the clients of a load behave, in percent where it is a chance.
type Habit struct {
	TwiceCode    int // redeem a code with two requests at once
	TwiceRefresh int // refresh with two requests at once
	Replay       int // end the chain by presenting a spent code or token
	Generations  int // the maximal number of refresh tokens of a chain
	// Proofs gives each grant a public client and a key of its own, which each request
	// proves.
	Proofs bool
	Steal  int // with Proofs, first present the newest refresh token with another key
	// Pause is the average pause of a client between two requests.
	Pause time.Duration
}

// A Load runs many clients and records everything that they receive.
type Load struct {
	Habit Habit
	// Killed reports that nodes are killed. A broken connection to a killed node shows
	// that its request is over; with a live node, the request may still take effect.
	Killed bool
	// Patience is how long a client repeats an unanswered request.
	Patience time.Duration
	// Fault is called for every violation.
	Fault func(format string, args ...any)

	t     *testing.T
	nodes []binary.Server // their addresses; the processes may be restarted
	start time.Time

	LostCodes, LostRefreshes atomic.Int64 // requests that were sent and not answered

	// stuck is set when a request got no answer within Patience; then all clients give
	// up.
	stuck atomic.Bool

	mu       sync.Mutex
	finished []*Chain
	mark     int64 // when the current period began
	period   []Answers
}

// A Chain is one grant as its client sees it. One goroutine runs it; it may send two
// requests at once.
type Chain struct {
	code   string
	tokens []string // refresh tokens by generation; the first is of generation 1
	ended  bool     // the client must expect a refusal
	unsure bool     // an unanswered request decides whether it has ended
	// key is the key of the chain's client, and thief another key; both are nil without
	// Proofs.
	key, thief *testkit.Prover

	mu      sync.Mutex
	history []porcupine.Operation
}

func (c *Chain) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return describe(c.history)
}

// Generations returns how many refresh tokens the client has received.
func (c *Chain) Generations() int { return len(c.tokens) }

// Ended reports whether the client expects a refusal.
func (c *Chain) Ended() bool { return c.ended }

// NewLoad prepares the clients of running nodes.
func NewLoad(t *testing.T, h Habit, nodes ...*binary.Server) *Load {
	l := &Load{Habit: h, Patience: 20 * time.Second, Fault: t.Errorf, t: t, start: time.Now(), period: make([]Answers, len(nodes))}
	for _, n := range nodes {
		l.nodes = append(l.nodes, binary.Server{Dev: n.Dev, Dir: n.Dir})
	}
	if h.Proofs {
		l.usePublicClient(nodes[0])
	}
	return l
}

// usePublicClient registers a client whose tokens are bound to keys, and waits until
// every node knows the client.
func (l *Load) usePublicClient(at *binary.Server) {
	l.t.Helper()
	const id = "bound"
	at.Run(l.t, "client", "create", "--id", id, "--name", "Bound", "--public", "--dpop", "required", "--redirect-uri", at.RedirectURI, "--scope", "read write")
	client, verifier := &http.Client{Transport: at.Transport(l.t, "")}, crand.Text()+crand.Text()
	for i := range l.nodes {
		n := &l.nodes[i]
		n.ClientID, n.ClientSecret, n.Verifier = id, "", verifier
		for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			code, err := n.FastCode(l.t.Context(), "first")
			var a binary.Answer
			if err == nil {
				a, err = n.PostProven(l.t.Context(), client, n.ExchangeForm(code), l.proof(testkit.NewProver(l.t)))
			}
			if err == nil && a.Status == http.StatusOK {
				break
			}
			if time.Since(began) > l.Patience {
				l.t.Fatalf("node %d does not serve the public client: %d %s, %v", i, a.Status, a.Error, err)
			}
		}
	}
}

// proof returns a DPoP proof for a token request. All nodes share one public address.
func (l *Load) proof(p *testkit.Prover) string {
	address, _, _ := strings.Cut(l.nodes[0].TokenEndpoint, "?")
	return p.Proof("POST", address, "", time.Now())
}

func (l *Load) now() int64 { return int64(time.Since(l.start)) }

// send presents a code or token to a node once and records the outcome.
func (l *Load) send(client *http.Client, node int, c *Chain, in request, form url.Values) (binary.Answer, verdict) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	proof := ""
	switch {
	case in.stolen:
		proof = l.proof(c.thief)
	case c.key != nil:
		proof = l.proof(c.key)
	}
	op := porcupine.Operation{Input: in, Call: l.now()}
	a, err := l.nodes[node].PostProven(ctx, client, form, proof)
	op.Return = l.now()
	l.note(node, op.Call, a)
	out := reply{verdict: lost}
	var network *net.OpError
	switch {
	case errors.As(err, &network) && network.Op == "dial":
		return a, lost // the connection was refused: nothing was sent
	case err != nil:
		// The kernel closes a killed process's connections after its last instruction:
		// the request has taken effect by now, or never will.
		if in.code {
			l.LostCodes.Add(1)
		} else {
			l.LostRefreshes.Add(1)
		}
		if ctx.Err() != nil || !l.Killed {
			op.Return = never
		}
	case a.Status == http.StatusOK:
		sum := sha256.Sum256([]byte(a.RefreshToken + " " + a.AccessToken))
		out = reply{issued, hex.EncodeToString(sum[:])}
	case a.Status == http.StatusBadRequest && a.Error == "invalid_grant":
		out.verdict = refused
	case a.Status == http.StatusServiceUnavailable:
		op.Return = never
		if seconds, err := strconv.Atoi(a.RetryAfter); err != nil || seconds < 1 {
			l.Fault("answer 503 with Retry-After %q", a.RetryAfter)
		}
	default:
		l.Fault("answer %d %s %q to a good request", a.Status, a.Error, a.Description)
	}
	op.Output = out
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, op)
	return a, out.verdict
}

// ask presents a code or token, once or twice simultaneously, and repeats that until an
// answer comes. It returns the pair, or ok false for a refusal.
func (l *Load) ask(client *http.Client, c *Chain, in request, form url.Values, twice bool) (pair binary.Answer, ok bool) {
	for began := time.Now(); time.Since(began) < l.Patience && !l.stuck.Load(); {
		// Choose a random node each time, and two different nodes for simultaneous
		// requests.
		node := rand.IntN(len(l.nodes))
		var other binary.Answer
		second := lost
		var both sync.WaitGroup
		if twice {
			both.Go(func() { other, second = l.send(client, (node+1)%len(l.nodes), c, in, form) })
		}
		a, first := l.send(client, node, c, in, form)
		both.Wait()
		switch {
		case first == issued:
			return a, true
		case second == issued:
			return other, true
		case first == refused || second == refused:
			return a, false
		}
		pause := 3 * time.Millisecond
		if a.Status == http.StatusServiceUnavailable {
			// Retry sooner than Retry-After says, but randomly spread.
			pause = 50*time.Millisecond + rand.N(150*time.Millisecond)
		}
		time.Sleep(pause)
	}
	if !l.stuck.Swap(true) {
		l.Fault("no answer about the grant for %s:\n%s", l.Patience, c)
	}
	return pair, false
}

func (l *Load) refresh(client *http.Client, c *Chain, generation int, twice bool) (binary.Answer, bool) {
	return l.ask(client, c, request{generation: generation}, l.nodes[0].RefreshForm(c.tokens[generation-1]), twice)
}

func (l *Load) redeem(client *http.Client, c *Chain, twice bool) (binary.Answer, bool) {
	return l.ask(client, c, request{code: true}, l.nodes[0].ExchangeForm(c.code), twice)
}

// Work runs one chain after the other until ctx ends, and then abandons the current one.
func (l *Load) Work(ctx context.Context, client *http.Client, rng *rand.Rand) {
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	for ctx.Err() == nil && !l.stuck.Load() {
		code, err := l.nodes[rng.IntN(len(l.nodes))].FastCode(ctx, "load")
		if err != nil { // no node serves at the moment
			time.Sleep(10 * time.Millisecond)
			continue
		}
		c := &Chain{code: code}
		if l.Habit.Proofs {
			c.key, c.thief = testkit.NewProver(l.t), testkit.NewProver(l.t)
		}
		l.run(ctx, client, c, chance)
		l.mu.Lock()
		l.finished = append(l.finished, c)
		l.mu.Unlock()
	}
}

func (l *Load) run(ctx context.Context, client *http.Client, c *Chain, chance func(int) bool) {
	twice := chance(l.Habit.TwiceCode)
	a, ok := l.redeem(client, c, twice)
	if !ok || twice {
		// Two requests with one code end its grant. This includes a repeat after a lost
		// answer. The user then logs in again.
		c.ended = true
		c.unsure = slices.ContainsFunc(c.history, func(op porcupine.Operation) bool { return op.Output.(reply).verdict == lost })
	}
	if !ok {
		return
	}
	c.tokens = append(c.tokens, a.RefreshToken)
	for !c.ended && ctx.Err() == nil && len(c.tokens) < l.Habit.Generations {
		l.rest()
		newest := len(c.tokens)
		if chance(l.Habit.Replay) {
			c.ended = true
			if newest >= 3 && chance(50) {
				l.refresh(client, c, newest-2, false)
			} else {
				l.redeem(client, c, false)
			}
			break
		}
		if c.thief != nil && chance(l.Habit.Steal) {
			l.ask(client, c, request{generation: newest, stolen: true}, l.nodes[0].RefreshForm(c.tokens[newest-1]), false)
		}
		a, ok := l.refresh(client, c, newest, chance(l.Habit.TwiceRefresh))
		if !ok {
			return // Judge decides whether the refusal was right
		}
		c.tokens = append(c.tokens, a.RefreshToken)
	}
}

func (l *Load) rest() {
	if l.Habit.Pause > 0 {
		time.Sleep(rand.N(2 * l.Habit.Pause))
	}
}

// Finished returns the chains that have finished so far.
func (l *Load) Finished() []*Chain {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.finished)
}

// Verify refreshes the newest token of each chain: that must succeed, unless the client
// has ended the chain.
func (l *Load) Verify(client *http.Client, chains []*Chain) {
	each(chains, func(c *Chain) { l.verify(client, c) })
}

// verifiers is the number of concurrent verifications.
const verifiers = 8

// Replay presents the code of each chain once more, which ends the chain. Judge checks
// the outcomes.
func (l *Load) Replay(client *http.Client, chains []*Chain) {
	each(chains, func(c *Chain) { l.redeem(client, c, false) })
}

func each(chains []*Chain, do func(*Chain)) {
	var working sync.WaitGroup
	for w := range verifiers {
		working.Go(func() {
			for i := w; i < len(chains); i += verifiers {
				do(chains[i])
			}
		})
	}
	working.Wait()
}

func (l *Load) verify(client *http.Client, c *Chain) {
	if len(c.tokens) == 0 {
		return
	}
	a, ok := l.refresh(client, c, len(c.tokens), false)
	if l.stuck.Load() {
		return
	}
	if ok == c.ended && !c.unsure {
		l.Fault("generation %d of a grant: issued %t, ended %t\n%s", len(c.tokens), ok, c.ended, c)
	}
	if ok {
		c.tokens = append(c.tokens, a.RefreshToken)
	}
}

// Judge checks the history of every grant, and returns how many violate the rules.
func (l *Load) Judge() (bad int) {
	requests := 0
	for _, c := range l.finished {
		requests += len(c.history)
		if why := checkHistory(c.history); why != "" {
			if bad++; bad <= 3 {
				l.Fault("%s", why)
			}
		}
	}
	l.t.Logf("%d grants, %d requests; answers lost: %d of codes, %d of refreshes; %d histories are wrong",
		len(l.finished), requests, l.LostCodes.Load(), l.LostRefreshes.Load(), bad)
	return bad
}
