package history

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestHistoriesAreJudged shows that the checker rejects each kind of violation, and
// accepts what a lost answer makes possible.
func TestHistoriesAreJudged(t *testing.T) {
	code := request{code: true}
	token := func(generation int) request { return request{generation: generation} }
	gave := func(pair string) reply { return reply{issued, pair} }
	no, gone := reply{verdict: refused}, reply{verdict: lost}
	// The steps are request, reply, request, reply, ... in sequence.
	serial := func(steps ...any) (h []porcupine.Operation) {
		for i := 0; i < len(steps); i += 2 {
			h = append(h, porcupine.Operation{Input: steps[i], Output: steps[i+1], Call: int64(10 * i), Return: int64(10*i + 5)})
		}
		return h
	}
	together := func(h []porcupine.Operation, from int) []porcupine.Operation {
		for i := from; i < len(h); i++ {
			h[i].Call, h[i].Return = 10_000, 20_000
		}
		return h
	}
	late := func(h []porcupine.Operation, i int) []porcupine.Operation {
		h[i].Return = never
		return h
	}
	// A redemption, hundreds of unanswered requests, and then the rest.
	outage := func(in request, rest ...any) []porcupine.Operation {
		h := serial(code, gave("a"))
		for i := range 300 {
			h = append(h, porcupine.Operation{Input: in, Output: gone, Call: int64(100 + i), Return: never})
		}
		for _, op := range serial(rest...) {
			op.Call, op.Return = op.Call+1000, op.Return+1000
			h = append(h, op)
		}
		return h
	}
	for _, c := range []struct {
		name    string
		history []porcupine.Operation
		good    bool
	}{
		{"another key is refused, and ends nothing", serial(code, gave("a"), request{generation: 1, stolen: true}, no, token(1), gave("b")), true},
		{"another key may be refused without an answer", serial(code, gave("a"), request{generation: 1, stolen: true}, gone, token(1), gave("b")), true},
		{"another key gets a pair", serial(code, gave("a"), request{generation: 1, stolen: true}, gave("b")), false},
		{"another key ends the grant", serial(code, gave("a"), request{generation: 1, stolen: true}, no, token(1), no), false},
		{"a chain", serial(code, gave("a"), token(1), gave("b"), token(2), gave("c")), true},
		{"a repeat answers the same pair", serial(code, gave("a"), token(1), gave("b"), token(1), gave("b")), true},
		{"a lost refresh took effect", serial(code, gave("a"), token(1), gone, token(1), gave("b"), token(2), gave("c")), true},
		{"a lost code took effect", serial(code, gone, code, no, code, no), true},
		{"a lost code took no effect", serial(code, gone, code, gave("a"), token(1), gave("b")), true},
		{"a replayed code ends the grant", serial(code, gave("a"), code, no, token(1), no), true},
		{"a lost replay may have ended the grant", serial(code, gave("a"), code, gone, token(1), no), true},
		{"a lost replay may not have ended it", serial(code, gave("a"), code, gone, token(1), gave("b")), true},
		{"an old generation ends the grant", serial(code, gave("a"), token(1), gave("b"), token(2), gave("c"), token(1), no, token(3), no), true},
		{"two at once get one pair", together(serial(code, gave("a"), token(1), gave("b"), token(1), gave("b")), 1), true},
		{"two codes at once have one winner", together(serial(code, gave("a"), code, no), 0), true},
		{"an unanswered request may act late", late(serial(code, gave("a"), code, gone, token(1), gave("b"), token(2), no), 1), true},

		{"an outage delays a refresh", outage(token(1), token(1), gave("b"), token(2), gave("c")), true},
		{"an outage's requests act late", outage(token(1), token(1), gave("b"), token(2), gave("c"), token(3), no), true},
		{"an outage may end in a replay", outage(code, token(1), gave("b"), token(2), no, token(2), no), true},

		{"a code is answered twice", serial(code, gave("a"), code, gave("b")), false},
		{"a code is answered twice with one pair", serial(code, gave("a"), code, gave("a")), false},
		{"two codes at once both win", together(serial(code, gave("a"), code, gave("b")), 0), false},
		{"a lost code is answered twice", serial(code, gone, code, gave("a"), code, gave("b")), false},
		{"a generation has two pairs", serial(code, gave("a"), token(1), gave("b"), token(1), gave("c")), false},
		{"two at once get two pairs", together(serial(code, gave("a"), token(1), gave("b"), token(1), gave("c")), 1), false},
		{"a lost generation has two pairs", serial(code, gave("a"), token(1), gone, token(1), gave("b"), token(1), gave("c")), false},
		{"a good token is refused", serial(code, gave("a"), token(1), no), false},
		{"a repeat is refused", serial(code, gave("a"), token(1), gone, token(1), no), false},
		{"an answered rotation is forgotten", serial(code, gave("a"), token(1), gave("b"), token(2), no), false},
		{"an answered redemption is forgotten", serial(code, gave("a"), code, gave("a"), token(1), gave("b")), false},
		{"a spent token is used again", serial(code, gave("a"), token(1), gave("b"), token(2), gave("c"), token(1), gave("b")), false},
		{"a revoked grant lives on", serial(code, gave("a"), code, no, token(1), gave("b")), false},
		{"a lost request acts after its end", serial(code, gave("a"), code, gone, token(1), gave("b"), token(2), no), false},
		{"a good code is refused", serial(code, no), false},
		{"an outage leaves two pairs", outage(token(1), token(1), gave("b"), token(1), gave("c")), false},
		{"an outage undoes a rotation", outage(token(1), token(1), gave("b"), token(2), gave("c"), token(1), gave("b")), false},
		{"an outage undoes a redemption", outage(token(1), code, gave("b")), false},
		{"an outage undoes a revocation", outage(code, token(1), no, token(1), gave("b")), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			why := checkHistory(c.history)
			if (why == "") != c.good {
				t.Errorf("accepted: %t, want %t\n%s", why == "", c.good, describe(c.history))
			}
		})
	}
}
