// Package history runs many clients against one or several nodes of the built server. It
// checks with a linearizability checker that some order of the requests about each grant
// explains every answer, whatever fault was injected meanwhile.
package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A request is what a client sent about one grant: its code, or a refresh token.
type request struct {
	code       bool
	generation int  // of the refresh token; 1 is the first
	stolen     bool // with a proof by another key than the grant's
}

// A reply is the outcome as the client knows it.
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

// A state is the state of a grant in the model. With an unredeemed code its generation is
// 0.
type state struct {
	generation int
	pair       string // digest of the generation's pair; "" while no client has received it
	revoked    bool
}

// never is the return time of a request that may still take effect.
const never = math.MaxInt64

// rules is the model of a grant: it defines which sequences of answers are allowed, with
// a retry window longer than the test. After a lost answer there are two possibilities:
// the request took effect, or it did not.
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

// step returns the state after a request that was answered with r, or nothing if the
// rules forbid that answer.
func step(s state, in request, r reply) []any {
	next := s
	switch {
	case in.stolen: // is refused and changes nothing (RFC 9449 section 5)
		if r.verdict == issued {
			return nil
		}
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
		// A client has received this token: the server must know it.
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
	switch porcupine.CheckOperationsTimeout(rules, distinct(history), 20*time.Second) {
	case porcupine.Ok:
		return ""
	case porcupine.Unknown:
		return "not decided in 20 seconds:\n" + describe(history)
	}
	return "no order of these requests explains the answers:\n" + describe(history)
}

// distinct leaves out unanswered requests that may still take effect, if two equal ones
// precede them: one could rotate the token and the other end the grant; a third could
// change nothing more. While a store is down, clients make hundreds of them, and the
// checker would try every order.
func distinct(history []porcupine.Operation) (list []porcupine.Operation) {
	sorted := slices.SortedStableFunc(slices.Values(history), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	open := map[request]int{}
	for _, op := range sorted {
		if op.Return == never && op.Output.(reply).verdict == lost {
			in := op.Input.(request)
			if open[in]++; open[in] > 2 {
				continue
			}
		}
		list = append(list, op)
	}
	return list
}

func describe(history []porcupine.Operation) string {
	var b strings.Builder
	for _, op := range distinct(history) {
		in, out := op.Input.(request), op.Output.(reply)
		what := fmt.Sprintf("refresh of generation %d", in.generation)
		if in.code {
			what = "redemption"
		}
		if in.stolen {
			what += " by another key"
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
