package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

var historyPromises = []promise{
	{"concurrent creations, updates and reads through two handles are linearizable", func(t *testing.T, db Database) {
		handles := []store.Store{open(t, db), open(t, db)}
		for range 3 {
			h := recordHistory(t, handles, 8, 40, 3)
			if verdict := porcupine.CheckOperationsTimeout(grantModel, h, 20*time.Second); verdict != porcupine.Ok {
				t.Fatalf("a history of %d operations is not linearizable (%s):\n%s", len(h), verdict, describe(h))
			}
		}
	}},
}

// An access is one call on one grant, as the model sees it.
type access struct {
	verb  verb
	grant grant.Grant // its id alone for a read
}

type verb int

const (
	reads verb = iota
	creates
	updates
)

// An outcome is what a call returned: a grant, if it read one, and an error.
type outcome struct {
	grant grant.Grant
	err   error
}

// grantModel is the sequential model of one row (linearizability). The zero grant means
// no row.
var grantModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byID := map[grant.ID][]porcupine.Operation{}
		for _, op := range history {
			id := op.Input.(access).grant.ID
			byID[id] = append(byID[id], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byID {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return grant.Grant{} },
	Step: func(state, input, output any) (bool, any) {
		row, in, out := state.(grant.Grant), input.(access), output.(outcome)
		none := row == grant.Grant{}
		if in.verb == reads {
			if none {
				return errors.Is(out.err, store.ErrNotFound), row
			}
			return out.err == nil && out.grant == row, row
		}
		writes := in.verb == creates && none || in.verb == updates && !none && row.Version == in.grant.Version-1
		switch {
		case writes:
			return out.err == nil, in.grant
		case row == in.grant:
			return out.err == nil, row // repeated: the row is stored already
		default:
			return errors.Is(out.err, store.ErrConflict), row
		}
	},
}

// recordHistory lets workers do concurrent operations on a few grants, and records
// when each operation began and ended. Most updates build on what the worker has last
// seen. The others repeat its last write, as a retry does. Creations of a grant differ in
// their attempts.
func recordHistory(t *testing.T, handles []store.Store, workers, operations, ids int) (history []porcupine.Operation) {
	t.Helper()
	grants := make([]grant.Grant, ids)
	for i := range grants {
		grants[i] = newGrant(0)
	}
	var mu sync.Mutex
	began := time.Now()
	atOnce(workers, func(worker int) {
		st := handles[worker%len(handles)]
		rnd := rand.New(rand.NewPCG(uint64(worker), 1))
		seen := slices.Clone(grants) // what this worker has read or written last
		sent := slices.Clone(grants) // what it wrote last
		for range operations {
			i := rnd.IntN(ids)
			in := access{reads, grant.Grant{ID: grants[i].ID}}
			switch n := rnd.IntN(10); {
			case n < 2:
				in = access{creates, grants[i]}
				in.grant.Attempt = rnd.Uint64()
			case n < 6:
				in = access{updates, rotated(seen[i], rnd.Uint64())}
			case n < 7:
				in = access{updates, sent[i]}
			}
			var out outcome
			call := time.Since(began)
			switch in.verb {
			case reads:
				out.grant, out.err = st.Grant(t.Context(), in.grant.ID)
			case creates:
				out.err = st.CreateGrant(t.Context(), in.grant)
			case updates:
				out.err = Replace(t.Context(), st, in.grant)
			}
			end := time.Since(began)
			if out.err == nil {
				if in.verb == reads {
					seen[i] = out.grant
				} else {
					seen[i], sent[i] = in.grant, in.grant
				}
			} else if !errors.Is(out.err, store.ErrConflict) && !errors.Is(out.err, store.ErrNotFound) {
				t.Errorf("an operation of the history: %v", out.err)
			}
			mu.Lock()
			history = append(history, porcupine.Operation{ClientId: worker, Input: in, Output: out, Call: int64(call), Return: int64(end)})
			mu.Unlock()
		}
	})
	return history
}

func describe(history []porcupine.Operation) (text string) {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for _, op := range history {
		in, out := op.Input.(access), op.Output.(outcome)
		text += fmt.Sprintf("%d..%d worker %d: %s %.4s version %d attempt %x: version %d attempt %x, %v\n", op.Call, op.Return, op.ClientId,
			[]string{"read", "create", "update"}[in.verb], in.grant.ID, in.grant.Version, in.grant.Attempt, out.grant.Version, out.grant.Attempt, out.err)
	}
	return text
}
