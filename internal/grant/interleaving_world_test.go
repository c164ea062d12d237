package grant_test

import (
	"fmt"

	"github.com/mintage/mintage/internal/grant"
)

// This file models everything around the decisions: two nodes, a store and the senders of
// requests. The requests take the steps of package issuer in the same order. Between two
// steps of one request, anything else may happen. interleaving_test.go explores all
// possibilities.

// modelPolicy returns the policy of the model. The durations are short, because only their
// order matters.
func modelPolicy() grant.Policy {
	return grant.Policy{
		AccessLifetime: 300e9, RefreshLifetime: 3600e9, RetryWindow: 10e9, MaxSkew: 2e9,
	}
}

const (
	window      = 10 * second
	skew        = 2 * second
	codeLife    = 60 * second
	nodes       = 2
	slots       = 3 // requests at the same time
	generations = 8 // more than any scenario reaches
)

type actor uint8

const (
	nobody   actor = iota
	owner          // repeats a request that brought no answer, and only within the window
	thief          // has the owner's secret, and every token that was ever handed out
	stranger       // another client, with the owner's code and tokens
	operator
)

type phase uint8

const (
	loading   phase = iota // has read the clock and its node's cutoffs
	writing                // has decided, and the decision changes the grant
	resolving              // does not know whether its write happened
)

// A request is one slot of the world. Its fields are small, so that millions of worlds fit
// into memory.
type request struct {
	who        actor
	phase      phase
	node       uint8
	generation uint8 // of the presented token; 0 is the code
	lost       bool  // the presented token was issued after the restored backup
	creating   bool  // the write is that of a redemption
	why        grant.Refusal
	attempt    uint8
	at         int32 // the node's clock, as read before the load
	cutoff     bool  // the node had the cutoff when the request began
	late       bool  // it began after a revocation had been committed
	decision   int32 // interned; of phase writing and resolving
}

// A world is one state of the model. Of finished requests, it contains only what is needed
// to check the promises.
type world struct {
	now   int32 // true time since t0; node 0 is right
	ahead int32 // of node 1's clock, which may step between skew and 0
	row   int32 // interned grant; 0 is none
	slots [slots]request

	// The owner's state.
	held, learned uint8 // generation it presents, and the latest it was given
	sent          bool  // has presented held, at sentAt for the first time
	sentAt        int32
	gaveUp        bool // its grant has ended, by an answer

	// What has happened so far.
	pairs       [generations]int32 // interned pair that a generation was answered with
	codeAnswers uint8
	created     uint8
	codesSent   uint8
	revoked     bool
	stolen      bool  // the thief has presented something
	cutAt       int32 // the cutoff, if cutTaken
	cutTaken    bool
	heard       [nodes]bool

	// The backup, and what its restore removed from the store.
	backedUp   bool
	backup     int32 // interned grant
	restored   bool
	restoredAt int32
	lost       [generations]int32 // pairs answered after the backup
	heldLost   bool               // the owner's token is one of the lost pairs
	carried    bool               // a token from before the restore has continued the grant

	// What may still happen.
	left budget
}

// A budget limits the steps of a scenario.
type budget struct {
	owner, codes, thief, stranger, operator, cutoff, unknown, clock, backup, restore uint8
	jumps                                                                            [2]uint8 // by index of scenario.jumps
}

// A pair has everything on which the tokens of an answer depend.
type pair struct {
	token  refreshToken
	access grant.Access
}

// rules are the decisions under test. A seeded defect replaces one.
type rules struct {
	redeem  func(grant.Code, grant.Redemption, grant.Policy, grant.Instant) grant.Decision
	replay  func(grant.Grant, grant.Redemption) grant.Decision
	refresh func(grant.Grant, grant.Refresh, grant.Policy, grant.Instant) grant.Decision

	ignoreVersion bool // the store's update does not compare
	batchByID     bool // a batch reports success to both creators of one id
	refuseFirst   bool // the use case refuses without committing
	assumeLost    bool // the use case decides again after a write of unknown outcome
	deleteEarly   bool // the sweep looks at ExpiresAt instead of DeleteAfter
	forgetCutoff  bool // the use case does not look the cutoff up
	sweepAlways   bool // the sweep does not wait for the end of a restore
}

func soundRules() rules {
	return rules{redeem: grant.Code.Redeem, replay: grant.Grant.Replay, refresh: grant.Grant.Refresh}
}

// A model determines which worlds may follow a world.
type model struct {
	rules
	policy    grant.Policy
	code      grant.Code
	jumps     []jump
	grants    *table[grant.Grant]
	decisions *table[grant.Decision]
	pairs     *table[pair]
	seen      map[string]int // outcomes, to show that the exploration reached them
	broken    string         // the promise that the last world breaks
}

// A jump lets time pass. A long jump exceeds the deadline of a request, so it is possible
// only while no request runs.
type jump struct {
	by   grant.Instant
	long bool
}

func newModel(r rules, jumps []jump) *model {
	m := &model{
		rules: r, policy: modelPolicy(), code: aCode(), jumps: jumps, seen: map[string]int{},
		grants: newTable[grant.Grant](), decisions: newTable[grant.Decision](), pairs: newTable[pair](),
	}
	// The node whose clock is ahead has issued the code.
	m.code.AuthorizedAt, m.code.ExpiresAt = t0+skew, t0+skew+codeLife
	return m
}

func (m *model) breaks(format string, args ...any) {
	if m.broken == "" {
		m.broken = fmt.Sprintf(format, args...)
	}
}

func clock(w *world, node uint8) int32 { return w.now + int32(node)*w.ahead }

func (m *model) redemption(w *world, r *request) grant.Redemption {
	q := grant.Redemption{
		Realm: m.code.Realm, ClientID: m.code.ClientID, Allowed: m.code.Scope, RedirectURI: redirectURI,
		Attempt: uint64(r.attempt), KeyID: grant.KeyID(r.node) + 1, Cutoff: m.cutoff(w, r), Restore: m.restore(w),
	}
	if r.who == stranger {
		q.ClientID = "other"
	}
	return q
}

// restore returns the declared restore, which all nodes have: none was running during it.
func (m *model) restore(w *world) grant.Restore {
	if !w.restored {
		return grant.Restore{}
	}
	at := t0 + grant.Instant(w.restoredAt)
	return grant.Restore{At: at, Until: at + 3600*second}
}

// presented returns the token of a request.
func (m *model) presented(w *world, r *request) refreshToken {
	if r.lost {
		return m.pairs.values[w.lost[r.generation]].token
	}
	return m.pairs.values[w.pairs[r.generation]].token
}

// putBack stops the nodes, restores the backup, and declares the restore.
func (m *model) putBack(w *world) {
	g := m.grants.values[w.backup]
	w.restored, w.restoredAt = true, w.now+int32(skew)+1
	w.row, w.revoked = w.backup, w.backup != 0 && g.State == grant.Revoked
	for generation := g.Generation + 1; generation < generations; generation++ {
		w.lost[generation], w.pairs[generation] = w.pairs[generation], 0
	}
	w.heldLost = uint32(w.held) > g.Generation
}

func (m *model) cutoff(w *world, r *request) grant.Instant {
	if !r.cutoff || m.forgetCutoff {
		return 0
	}
	return t0 + grant.Instant(w.cutAt)
}

// begin takes the first step of a request. Opening the token's text needs no store. For a
// code, the text contains all that Redeem needs.
func (m *model) begin(w *world, i int, who actor, node, generation uint8, lost bool) {
	w.slots[i] = request{
		who: who, node: node, generation: generation, lost: lost, attempt: m.unused(w), at: clock(w, node),
		cutoff: w.heard[node], late: w.revoked,
	}
	r := &w.slots[i]
	if generation != 0 || who == operator {
		return
	}
	d := m.redeem(m.code, m.redemption(w, r), m.policy, t0+grant.Instant(r.at))
	r.why = d.Refusal
	switch {
	case d.Refusal.Foreign():
		m.refuse(w, i, d.Refusal)
	case d.Refusal == grant.Allowed:
		r.phase, r.creating, r.decision = writing, true, m.decisions.of(d)
	}
}

// unused returns an attempt that no request and no row has. Attempts are only compared, so
// worlds that differ only in their numbers become one world.
func (m *model) unused(w *world) uint8 {
	attempt := uint8(1)
	for {
		taken := uint64(attempt) == m.grants.values[w.row].Attempt
		for _, r := range w.slots {
			taken = taken || r.who != nobody && r.attempt == attempt
		}
		if !taken {
			return attempt
		}
		attempt++
	}
}

// load reads the row and decides.
func (m *model) load(w *world, i int) {
	r := &w.slots[i]
	g := m.grants.values[w.row]
	now := t0 + grant.Instant(r.at)
	if w.row == 0 {
		switch {
		case r.who == operator:
			w.slots[i] = request{}
		case r.generation != 0:
			m.refuse(w, i, m.unrecorded(w, r, now))
		case r.why == grant.Allowed:
			m.refuse(w, i, grant.CodeExpired)
		default:
			m.refuse(w, i, r.why)
		}
		return
	}
	var d grant.Decision
	switch {
	case r.who == operator:
		d = g.Revoke(grant.ReasonOperator)
	case r.generation == 0:
		d = m.replay(g, m.redemption(w, r))
	default:
		tok := m.presented(w, r)
		q := grant.Refresh{
			Realm: g.Realm, ClientID: g.ClientID, Allowed: g.Scope, Cutoff: m.cutoff(w, r),
			Generation: tok.Generation, IssuedAt: tok.IssuedAt, ExpiresAt: tok.ExpiresAt, Maker: grant.Maker{Key: tok.KeyID}, Restore: m.restore(w),
			Attempt: uint64(r.attempt), KeyID: grant.KeyID(r.node) + 1,
		}
		if r.who == stranger {
			q.ClientID = "other"
		}
		d = m.refresh(g, q, m.policy, now)
	}
	if d.Next == g || m.refuseFirst && d.Refusal != grant.Allowed {
		m.finish(w, i, d)
		return
	}
	r.phase, r.creating, r.decision = writing, false, m.decisions.of(d)
}

func (m *model) unrecorded(w *world, r *request, now grant.Instant) grant.Refusal {
	tok := m.presented(w, r)
	return m.restore(w).Unrecorded(tok.IssuedAt, tok.ExpiresAt, now)
}

// apply applies a request's write to the store.
func (m *model) apply(w *world, i int) (done bool) {
	r := &w.slots[i]
	d := m.decisions.values[r.decision]
	switch {
	case r.creating && w.row != 0:
		return false
	case r.creating:
		if w.created++; w.created > 1 {
			m.breaks("a code made two grants")
		}
	case w.row == 0, !m.ignoreVersion && m.grants.values[w.row].Version != d.Next.Version-1:
		return false
	}
	switch {
	case r.who == stranger:
		m.breaks("a foreign client changed the grant")
	case d.Next.Reason == grant.ReasonRefreshReplayed && !w.stolen:
		m.breaks("the owner's own repeats revoked its grant")
	case d.Next.Reason == grant.ReasonCodeReplayed && w.codesSent < 2:
		m.breaks("a code that was sent once counts as replayed")
	}
	w.row = m.grants.of(d.Next)
	w.revoked = w.revoked || d.Next.State == grant.Revoked
	return true
}

// write commits a write with a known outcome.
func (m *model) write(w *world, i int) { m.told(w, i, m.apply(w, i)) }

// told continues a request whose write has a known outcome.
func (m *model) told(w *world, i int, done bool) {
	r := &w.slots[i]
	if done {
		m.finish(w, i, m.decisions.values[r.decision])
		return
	}
	m.seen["conflict"]++
	r.phase, r.at = loading, clock(w, r.node)
}

// resolve finds the outcome of a write after an unknown outcome.
func (m *model) resolve(w *world, i int) {
	r := &w.slots[i]
	d := m.decisions.values[r.decision]
	g := m.grants.values[w.row]
	switch {
	case m.assumeLost:
		r.phase, r.at = loading, clock(w, r.node)
	case d.Next.State == grant.Active && w.row != 0 && g.State == grant.Active && g.Version == d.Next.Version && g.Attempt == d.Next.Attempt:
		m.seen["unknown outcome found in the store"]++
		m.finish(w, i, d)
	default:
		m.seen["unknown outcome answered 503"]++
		w.slots[i] = request{}
	}
}

func (m *model) finish(w *world, i int, d grant.Decision) {
	if w.slots[i].who == operator {
		w.slots[i] = request{}
		return
	}
	if d.Refusal != grant.Allowed {
		m.refuse(w, i, d.Refusal)
		return
	}
	m.answer(w, i, d)
}

func (m *model) refuse(w *world, i int, why grant.Refusal) {
	r := w.slots[i]
	w.slots[i] = request{}
	m.seen[why.String()]++
	replayed := why == grant.RefreshReplayed || why == grant.CodeReplayed
	switch {
	case why == grant.StoreBehind:
		m.breaks("the store is called behind, and has lost nothing")
	case replayed && w.row != 0 && m.grants.values[w.row].State != grant.Revoked:
		m.breaks("a replay was refused and its grant lives on")
	case r.who == owner:
		w.gaveUp = true
		innocent := !w.stolen && !w.revoked && !w.cutTaken && w.codesSent < 2
		gone := w.restored && w.backup == 0 && (why == grant.RestoredLost || why == grant.CodeBeforeRestore)
		if innocent && why != grant.CodeExpired && why != grant.GrantExpired && !gone {
			m.breaks("the owner was refused as %s for nothing that anybody did", why)
		}
	}
}

// answer issues a pair. continuations decides whether the owner receives it.
func (m *model) answer(w *world, i int, d grant.Decision) {
	r := w.slots[i]
	g := d.Next
	p := m.pairs.of(pair{refreshToken{g.ID, g.Generation, g.RotatedAt, g.ExpiresAt, g.KeyID}, d.Access})
	if d.Repeated {
		m.seen["repeated"]++
	}
	if w.restored && r.generation != 0 && !d.Repeated && m.presented(w, &r).IssuedAt < m.restore(w).At {
		if w.carried {
			m.breaks("two tokens from before the restore continue the grant")
		}
		w.carried = true
		if r.lost {
			m.seen["fast-forwarded"]++
		}
	}
	m.seen["answered"]++
	if r.generation == 0 {
		w.codeAnswers++
	}
	switch first := w.pairs[g.Generation]; {
	case r.who == stranger:
		m.breaks("a foreign client was answered")
	case r.late:
		m.breaks("answered a request that began after the revocation")
	case r.cutoff:
		m.breaks("answered under a cutoff that the node had")
	case w.codeAnswers > 1:
		m.breaks("a code was answered twice")
	case first != 0 && first != p:
		m.breaks("generation %d was answered with two pairs:\n%+v\n%+v", g.Generation, m.pairs.values[first], m.pairs.values[p])
	}
	w.pairs[g.Generation] = p
	w.slots[i] = request{}
	if r.who == owner {
		w.learned = max(w.learned, uint8(g.Generation))
	}
}

// settle gives the owner its latest token, once none of its requests is running. An owner
// that continued earlier would present late duplicates, which look like theft and end the
// grant.
func settle(w *world) {
	for i := range w.slots {
		if w.slots[i].who == owner {
			return
		}
	}
	if w.learned > w.held {
		w.held, w.sent, w.sentAt, w.heldLost = w.learned, false, 0, false
	}
}
