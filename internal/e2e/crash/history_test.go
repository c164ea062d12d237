//go:build e2e

// Package crash kills the built server under load, and sends it many requests
// at one moment, and checks what its clients saw against the rules of a grant.
package crash

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A request is what a client sent about one grant: its code, or the refresh
// token of a generation.
type request struct {
	code       bool
	generation int // of the refresh token
}

// A reply is what the client knows of the outcome.
type reply struct {
	verdict verdict
	pair    string // digest of the pair of tokens, if issued
}

type verdict int

const (
	issued  verdict = iota // 200
	refused                // 400 invalid_grant
	lost                   // no answer, or one that says nothing about the grant
)

// A state is a grant as its rules make it. An unredeemed code has generation 0.
type state struct {
	generation int
	pair       string // of the generation; "" while nobody has heard of it
	revoked    bool
}

// never is the return of a request that may still take effect.
const never = math.MaxInt64

// rules says which answers a grant may give one after the other, with a retry
// window longer than the test. A lost answer leaves two possibilities: that
// the request took effect, and that it did not.
var rules = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{}} },
	Step: func(s, in, out any) []any {
		before, r := s.(state), out.(reply)
		if r.verdict != lost {
			return step(before, in.(request), r)
		}
		after := []any{before}
		for _, v := range []verdict{issued, refused} {
			after = append(after, step(before, in.(request), reply{verdict: v})...)
		}
		return after
	},
}).ToModel()

// step returns the state after a request that was answered with r, or nothing
// if it must not be answered so.
func step(s state, in request, r reply) []any {
	next := s
	switch {
	case s.revoked:
		if r.verdict == issued {
			return nil
		}
	case in.code && s.generation == 0:
		if r.verdict == refused {
			return nil
		}
		next.generation, next.pair = 1, r.pair
	case in.code, in.generation < s.generation-1:
		// A replay is refused, and ends the grant (RFC 6749 section 4.1.2,
		// RFC 9700 section 4.14.2).
		if r.verdict == issued {
			return nil
		}
		next.revoked = true
	case in.generation > s.generation:
		// The token was answered, and the server does not know it.
		return nil
	case r.verdict == refused:
		return nil
	case in.generation == s.generation:
		next.generation, next.pair = s.generation+1, r.pair
	case r.pair != "" && s.pair != "" && r.pair != s.pair:
		return nil // the same generation with another pair
	case s.pair == "":
		next.pair = r.pair
	}
	return []any{next}
}

// checkHistory reports why the history of one grant breaks the rules, or "".
func checkHistory(history []porcupine.Operation) string {
	switch porcupine.CheckOperationsTimeout(rules, history, 20*time.Second) {
	case porcupine.Ok:
		return ""
	case porcupine.Unknown:
		return "not decided in 20 seconds:\n" + describe(history)
	}
	return "no order of these requests explains the answers:\n" + describe(history)
}

func describe(history []porcupine.Operation) string {
	var b strings.Builder
	for _, op := range history {
		in, out := op.Input.(request), op.Output.(reply)
		what := fmt.Sprintf("refresh of generation %d", in.generation)
		if in.code {
			what = "redemption"
		}
		end := "without end"
		if op.Return != never {
			end = "to " + time.Duration(op.Return).String()
		}
		fmt.Fprintf(&b, "  %s %s: %s: %s %.8s\n", time.Duration(op.Call), end, what,
			[]string{"issued", "refused", "lost"}[out.verdict], out.pair)
	}
	return b.String()
}

// TestHistoriesAreJudged shows that the checker rejects each kind of broken
// promise, and accepts what a lost answer makes legitimate.
func TestHistoriesAreJudged(t *testing.T) {
	code := request{code: true}
	token := func(generation int) request { return request{generation: generation} }
	gave := func(pair string) reply { return reply{issued, pair} }
	no, gone := reply{verdict: refused}, reply{verdict: lost}
	// Requests that follow one another, written as request, reply, request ...
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
	for _, c := range []struct {
		name    string
		history []porcupine.Operation
		good    bool
	}{
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
	} {
		t.Run(c.name, func(t *testing.T) {
			why := checkHistory(c.history)
			if (why == "") != c.good {
				t.Errorf("accepted: %t, want %t\n%s", why == "", c.good, describe(c.history))
			}
		})
	}
}
