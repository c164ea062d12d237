// Package history puts many clients to work on the built server, on one node or
// on several, and checks what each of them saw against the rules of a grant:
// whatever was broken meanwhile, some order of its requests explains every
// answer.
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

// A request is what a client sent about one grant: its code, or the refresh
// token of a generation.
type request struct {
	code       bool
	generation int  // of the refresh token
	stolen     bool // presented with a proof of another key than the grant's
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
	case in.stolen: // it is refused, and changes nothing (RFC 9449 section 5)
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
	switch porcupine.CheckOperationsTimeout(rules, distinct(history), 20*time.Second) {
	case porcupine.Ok:
		return ""
	case porcupine.Unknown:
		return "not decided in 20 seconds:\n" + describe(history)
	}
	return "no order of these requests explains the answers:\n" + describe(history)
}

// distinct leaves out requests that were not answered and may yet take effect,
// if there are two before them that ask for the same: the first could rotate and
// the second could end the grant, and no further one could change more. Clients
// of a store that is down make hundreds of them, and the checker would try every
// order.
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
