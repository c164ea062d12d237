package grant_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
)

// A scenario limits what may happen. walk explores everything within these limits.
type scenario struct {
	name  string
	left  budget
	jumps []jump
	// redeemed starts with the first pair in the owner's hands.
	redeemed bool
}

var (
	aSecond    = jump{by: second}
	theWindow  = jump{by: window, long: true}
	pastWindow = jump{by: window + skew + 1, long: true}
	pastCode   = jump{by: codeLife, long: true}
	// The row has expired for one node, and not for the other.
	almostPast = jump{by: 3600*second - second, long: true}
	// The row's tokens have expired, and only the sweep is still due.
	pastTokens = jump{by: 3600*second + hour + 4*second + 2*codeLife, long: true}
)

var scenarios = []scenario{
	{
		name: "one code, twice redeemed, with a stranger and writes of unknown outcome",
		left: budget{owner: 3, codes: 2, stranger: 1, unknown: 1, jumps: [2]uint8{1}}, jumps: []jump{aSecond},
	},
	{
		name: "one code, thrice redeemed, until its row is swept",
		left: budget{owner: 4, codes: 3, unknown: 1, jumps: [2]uint8{1, 1}}, jumps: []jump{pastCode, pastTokens},
	},
	{
		name: "cutoff between code and redemption",
		left: budget{owner: 3, codes: 1, cutoff: 1, clock: 1, jumps: [2]uint8{1}}, jumps: []jump{aSecond},
	},
	{
		name: "owner that loses answers, and a clock that steps", redeemed: true,
		left: budget{owner: 4, unknown: 1, clock: 1, jumps: [2]uint8{0, 1}}, jumps: []jump{aSecond, theWindow},
	},
	{
		name: "owner and thief", redeemed: true,
		left: budget{owner: 3, thief: 1, jumps: [2]uint8{1}}, jumps: []jump{pastWindow},
	},
	{
		name: "owner, stranger and operator", redeemed: true,
		left: budget{owner: 2, stranger: 1, operator: 1, unknown: 1}, jumps: []jump{aSecond},
	},
	{
		name: "last second of the tokens, on two clocks", redeemed: true,
		left: budget{owner: 3, jumps: [2]uint8{1, 1}}, jumps: []jump{almostPast, aSecond},
	},
	{
		name: "thief, operator and the sweep", redeemed: true,
		left: budget{owner: 2, thief: 1, operator: 1, jumps: [2]uint8{1}}, jumps: []jump{pastTokens},
	},
	{
		name: "code and its grant across a restore",
		left: budget{owner: 3, codes: 2, backup: 1, restore: 1}, jumps: []jump{aSecond},
	},
	{
		name: "owner that loses answers, across a restore", redeemed: true,
		left: budget{owner: 4, unknown: 1, backup: 1, restore: 1}, jumps: []jump{aSecond},
	},
	{
		name: "owner and thief across a restore", redeemed: true,
		left: budget{owner: 3, thief: 1, backup: 1, restore: 1}, jumps: []jump{pastWindow},
	},
	{
		name: "stranger and operator across a restore", redeemed: true,
		left: budget{owner: 2, stranger: 1, operator: 1, backup: 1, restore: 1}, jumps: []jump{aSecond},
	},
	{
		name: "idle rows after a restore", redeemed: true,
		left: budget{owner: 3, backup: 1, restore: 1, jumps: [2]uint8{3}}, jumps: []jump{almostPast},
	},
}

// A step describes the transition from one world to the next.
type step struct {
	verb             string
	slot, other      int8 // as the world before it has them
	node, generation uint8
	lost             bool
}

type visit = func(s step, w world)

// follow calls next for each world that may follow w. Each is a copy.
func (m *model) follow(w world, next visit) {
	free, busy := -1, false
	for i := range w.slots {
		if w.slots[i].who == nobody && free < 0 {
			free = i
		}
		busy = busy || w.slots[i].who != nobody
	}
	if free >= 0 {
		m.beginnings(w, free, next)
	}
	for i := range w.slots {
		m.continuations(w, i, next)
	}
	m.surroundings(w, busy, next)
}

func (m *model) beginnings(w world, i int, next visit) {
	begin := func(verb string, who actor, generation uint8, lost bool, spend func(*world)) {
		for node := range uint8(nodes) {
			v := w
			spend(&v)
			m.begin(&v, i, who, node, generation, lost)
			settle(&v)
			next(step{verb: verb, slot: int8(i), node: node, generation: generation, lost: lost}, v)
		}
	}
	under := 0
	for _, r := range w.slots {
		if r.who == owner {
			under++
		}
	}
	canRepeat := !w.sent || grant.Instant(w.now-w.sentAt) <= window
	if w.left.owner > 0 && !w.gaveUp && under < 2 && w.learned == w.held && (w.held == 0 || canRepeat) && (w.held > 0 || w.left.codes > 0) {
		begin("owner sends", owner, w.held, w.heldLost, func(v *world) {
			v.left.owner--
			if !v.sent {
				v.sent, v.sentAt = true, v.now
			}
			if v.held == 0 {
				v.left.codes--
				v.codesSent++
			}
		})
	}
	for generation := range uint8(generations) {
		for _, lost := range []bool{false, true} {
			exists := w.pairs[generation] != 0 || generation == 0
			if lost {
				exists = w.lost[generation] != 0
			}
			if exists && w.left.stranger > 0 {
				begin("stranger sends", stranger, generation, lost, func(v *world) { v.left.stranger-- })
			}
			if exists && w.left.thief > 0 && generation > 0 {
				begin("thief sends", thief, generation, lost, func(v *world) { v.left.thief--; v.stolen = true })
			}
		}
	}
	if w.left.operator > 0 && w.row != 0 {
		begin("operator revokes", operator, 0, false, func(v *world) { v.left.operator-- })
	}
}

func (m *model) continuations(w world, i int, next visit) {
	go1 := func(verb string, f func(*world)) {
		v := w
		f(&v)
		learned := v.learned
		settle(&v)
		next(step{verb: verb, slot: int8(i)}, v)
		if learned != w.learned {
			// The answer to the owner is lost.
			v.learned, v.held, v.sent, v.sentAt, v.heldLost = w.learned, w.held, w.sent, w.sentAt, w.heldLost
			settle(&v)
			next(step{verb: verb + ", answer lost", slot: int8(i)}, v)
		}
	}
	r := w.slots[i]
	if r.who == nobody {
		return
	}
	switch r.phase {
	case loading:
		go1("loads and decides", func(v *world) { m.load(v, i) })
	case resolving:
		go1("reads again", func(v *world) { m.resolve(v, i) })
	case writing:
		go1("commits", func(v *world) { m.write(v, i) })
		if w.left.unknown > 0 && r.who != operator {
			go1("commits, outcome unknown", func(v *world) {
				v.left.unknown--
				m.apply(v, i)
				v.slots[i].phase = resolving
			})
			go1("does not commit, outcome unknown", func(v *world) {
				v.left.unknown--
				v.slots[i].phase = resolving
			})
		}
		for j := range w.slots {
			if j != i && w.slots[j].who != nobody && w.slots[j].phase == writing {
				m.batch(w, i, j, next)
			}
		}
	}
}

// batch commits the writes of two requests in one transaction. Its outcome may be unknown
// to both, but the transaction happened as a whole or not at all.
func (m *model) batch(w world, i, j int, next visit) {
	v := w
	first, second := m.apply(&v, i), m.apply(&v, j)
	if m.batchByID && v.slots[i].creating && v.slots[j].creating && first {
		second = true
	}
	m.told(&v, i, first)
	m.told(&v, j, second)
	settle(&v)
	next(step{verb: "commits in one batch with", slot: int8(i), other: int8(j)}, v)
	if w.left.unknown > 0 && w.slots[i].who != operator && w.slots[j].who != operator {
		v = w
		v.left.unknown--
		m.apply(&v, i)
		m.apply(&v, j)
		v.slots[i].phase, v.slots[j].phase = resolving, resolving
		next(step{verb: "commits in one batch of unknown outcome with", slot: int8(i), other: int8(j)}, v)
	}
}

func (m *model) surroundings(w world, busy bool, next visit) {
	for i, j := range m.jumps {
		if w.left.jumps[i] > 0 && !(j.long && busy) {
			v := w
			v.left.jumps[i]--
			v.now += int32(j.by)
			next(step{verb: fmt.Sprintf("time passes: %s", grant.Instant(j.by).Since(0))}, v)
		}
	}
	if w.left.clock > 0 {
		v := w
		v.left.clock--
		v.ahead = int32(skew) - w.ahead
		next(step{verb: "clock steps", node: 1}, v)
	}
	if w.left.backup > 0 {
		v := w
		v.left.backup--
		v.backedUp, v.backup = true, w.row
		next(step{verb: "backup"}, v)
	}
	if w.left.restore > 0 && w.backedUp && !busy {
		v := w
		v.left.restore--
		m.putBack(&v)
		next(step{verb: "restore"}, v)
	}
	expiry := m.grants.values[w.row].DeleteAfter
	if m.deleteEarly {
		expiry = m.grants.values[w.row].ExpiresAt
	}
	if w.row != 0 && (m.sweepAlways || !m.restore(&w).InForce(t0+grant.Instant(w.now))) && expiry < t0+grant.Instant(clock(&w, nodes-1)) {
		v := w
		v.row = 0
		m.seen["swept"]++
		next(step{verb: "the sweep deletes the row"}, v)
	}
	for node := range uint8(nodes) {
		v := w
		switch {
		case w.left.cutoff > 0:
			v.left.cutoff--
			v.cutTaken, v.cutAt, v.heard[node] = true, clock(&w, node), true
			next(step{verb: "cutoff taken", node: node}, v)
		case w.cutTaken && !w.heard[node]:
			v.heard[node] = true
			next(step{verb: "cutoff heard", node: node}, v)
		}
	}
}

// walk explores every world of the scenario, breadth first. It stops at a world that
// breaks a promise, and returns the steps that led to it.
func (m *model) walk(s scenario) (worlds int, trace string) {
	type origin struct {
		from int32
		step step
	}
	start := world{left: s.left, ahead: int32(skew)}
	if s.redeemed {
		m.begin(&start, 0, owner, 0, 0, false)
		m.write(&start, 0)
		settle(&start)
	}
	number := map[world]struct{}{start: {}}
	list, origins := []world{start}, []origin{{from: -1}}
	for at := 0; at < len(list); at++ {
		m.follow(list[at], func(s step, w world) {
			w.arrange()
			if m.broken != "" && trace != "" {
				return
			}
			if m.broken == "" {
				if _, known := number[w]; known {
					return
				}
			}
			number[w] = struct{}{}
			list, origins = append(list, w), append(origins, origin{int32(at), s})
			if m.broken != "" {
				var steps []string
				for o := origins[len(origins)-1]; o.from >= 0; o = origins[o.from] {
					steps = append([]string{fmt.Sprintf("%+v", o.step)}, steps...)
				}
				trace = strings.Join(steps, "\n")
			}
		})
		if m.broken != "" {
			break
		}
	}
	return len(list), trace
}

func TestEveryInterleavingKeepsThePromises(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	total := 0
	for _, s := range scenarios {
		m := newModel(soundRules(), s.jumps)
		worlds, trace := m.walk(s)
		t.Logf("%s: %d states", s.name, worlds)
		total += worlds
		if m.broken != "" {
			t.Errorf("%s: %s\n%s", s.name, m.broken, trace)
		}
		for name, n := range m.seen {
			seen[name] += n
		}
	}
	t.Logf("%d states, outcomes %v", total, seen)
	for _, outcome := range []string{
		"answered", "repeated", "conflict", "swept", "unknown outcome found in the store", "unknown outcome answered 503",
		"fast-forwarded", "restored_lost", "code_before_restore",
		"other_client", "code_expired", "code_replayed", "grant_revoked", "cut_off", "grant_expired", "refresh_replayed",
	} {
		if seen[outcome] == 0 {
			t.Errorf("no interleaving leads to %q: the scenarios are too small", outcome)
		}
	}
}
