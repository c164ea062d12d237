package storetest

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

// The check of recorded histories would be worth nothing if it found nothing.
func TestTheModelTellsGoodHistoriesFromBadOnes(t *testing.T) {
	first := newGrant(1)
	rival := first
	rival.Attempt = 2
	second, otherSecond := rotated(first, 3), rotated(first, 4)
	read := func(g grant.Grant, err error) (access, outcome) {
		return access{reads, grant.Grant{ID: first.ID}}, outcome{g, err}
	}
	create := func(g grant.Grant, err error) (access, outcome) { return access{creates, g}, outcome{err: err} }
	update := func(g grant.Grant, err error) (access, outcome) { return access{updates, g}, outcome{err: err} }
	none := grant.Grant{}
	op := func(call, end int64) func(access, outcome) porcupine.Operation {
		return func(in access, out outcome) porcupine.Operation {
			return porcupine.Operation{Input: in, Output: out, Call: call, Return: end}
		}
	}
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"one after the other": {[]porcupine.Operation{
			op(0, 1)(read(none, store.ErrNotFound)), op(2, 3)(create(first, nil)), op(4, 5)(update(second, nil)),
			op(6, 7)(update(otherSecond, store.ErrConflict)), op(8, 9)(read(second, nil)), op(10, 11)(create(first, store.ErrConflict)),
		}, true},
		"the same again": {[]porcupine.Operation{
			op(0, 1)(create(first, nil)), op(2, 3)(create(first, nil)), op(4, 5)(update(second, nil)), op(6, 7)(update(second, nil)),
		}, true},
		"at the same moment, in any order": {[]porcupine.Operation{
			op(0, 9)(create(rival, nil)), op(0, 9)(create(first, store.ErrConflict)), op(0, 9)(read(none, store.ErrNotFound)), op(0, 9)(read(rival, nil)),
		}, true},
		"a stale read": {[]porcupine.Operation{
			op(0, 1)(create(first, nil)), op(2, 3)(update(second, nil)), op(4, 5)(read(first, nil)),
		}, false},
		"a lost write": {[]porcupine.Operation{
			op(0, 1)(create(first, nil)), op(2, 3)(read(none, store.ErrNotFound)),
		}, false},
		"two winners of a creation": {[]porcupine.Operation{
			op(0, 9)(create(first, nil)), op(0, 9)(create(rival, nil)),
		}, false},
		"two winners of an update": {[]porcupine.Operation{
			op(0, 1)(create(first, nil)), op(2, 9)(update(second, nil)), op(2, 9)(update(otherSecond, nil)),
		}, false},
		"two losers": {[]porcupine.Operation{
			op(0, 9)(create(first, store.ErrConflict)), op(0, 9)(create(rival, store.ErrConflict)),
		}, false},
		"a conflict that wrote": {[]porcupine.Operation{
			op(0, 1)(create(first, nil)), op(2, 3)(update(second, store.ErrConflict)), op(4, 5)(read(second, nil)),
		}, false},
		"reads that go back": {[]porcupine.Operation{
			op(0, 1)(create(first, nil)), op(2, 20)(update(second, nil)), op(3, 4)(read(second, nil)), op(5, 6)(read(first, nil)),
		}, false},
		"an error that nobody promised": {[]porcupine.Operation{
			op(0, 1)(create(first, nil)), op(2, 3)(update(second, store.ErrBusy)),
		}, false},
	} {
		if got := porcupine.CheckOperations(grantModel, c.history); got != c.want {
			t.Errorf("%s: linearizable %t, want %t:\n%s", name, got, c.want, describe(c.history))
		}
	}
}
