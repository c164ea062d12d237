package moving_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/moving"
)

// The whole table of a run's first steps, by the migration states of both sides.
func TestWhatARunBeginsWith(t *testing.T) {
	const (
		a, b   = "store A", "store B"
		m1, m2 = "move 1", "move 2"
		c1, c2 = "claim 1", "claim 2"
		from   = "sqlite:/a"
		to, us = "postgres://db/a", "postgres://db/other"
	)
	sources := []struct {
		name  string
		state store.Migration
	}{
		{"never moved", store.Migration{}},
		{"returned", store.Migration{State: store.Returned, Source: a}},
		{"leaving for here", store.Migration{State: store.Leaving, Source: a, Move: m1, OtherStore: to}},
		{"leaving for elsewhere", store.Migration{State: store.Leaving, Source: a, Move: m1, OtherStore: us}},
		{"left for here", store.Migration{State: store.Left, Source: a, Move: m1, Claim: c1, OtherStore: to}},
	}
	destinations := []struct {
		name  string
		state store.Migration
		empty bool
		want  [5]string // by source
	}{
		{"empty", store.Migration{}, true, [5]string{"begin", "begin", "claim", "refuse", "refuse"}},
		{"a store that never moved", store.Migration{}, false, [5]string{"refuse", "refuse", "refuse", "refuse", "refuse"}},
		{"arriving", store.Migration{State: store.Arriving, Source: a, Move: m1, Claim: c1}, false, [5]string{"refuse", "begin", "claim", "claim", "open"}},
		{"arriving, nothing yet", store.Migration{State: store.Arriving, Source: a, Move: m1, Claim: c1}, true, [5]string{"refuse", "begin", "claim", "claim", "open"}},
		{"arriving by another claim", store.Migration{State: store.Arriving, Source: a, Move: m1, Claim: c2}, false, [5]string{"refuse", "begin", "claim", "claim", "refuse"}},
		{"arriving in an earlier move", store.Migration{State: store.Arriving, Source: a, Move: m2, Claim: c2}, false, [5]string{"refuse", "begin", "claim", "refuse", "refuse"}},
		{"another store, arriving", store.Migration{State: store.Arriving, Source: b, Move: m2, Claim: c2}, false, [5]string{"refuse", "refuse", "refuse", "refuse", "refuse"}},
		{"arrived", store.Migration{State: store.Arrived, Source: a, Move: m1, Claim: c1}, false, [5]string{"refuse", "refuse", "refuse", "refuse", "nothing"}},
		{"arrived by another claim", store.Migration{State: store.Arrived, Source: a, Move: m1, Claim: c2}, false, [5]string{"refuse", "refuse", "refuse", "refuse", "refuse"}},
		{"another store, arrived", store.Migration{State: store.Arrived, Source: b, Move: m2, Claim: c2}, false, [5]string{"refuse", "refuse", "refuse", "refuse", "refuse"}},
		{"undone", store.Migration{State: store.Undone, Source: a, Move: m1, Claim: c1}, false, [5]string{"refuse", "refuse", "refuse", "refuse", "refuse"}},
		{"undone and emptied", store.Migration{State: store.Undone, Source: a, Move: m1, Claim: c1}, true, [5]string{"refuse", "refuse", "refuse", "refuse", "refuse"}},
	}
	for _, d := range destinations {
		for i, s := range sources {
			got, err := moving.Plan(s.state, d.state, d.empty, from, to)
			if err != nil {
				var refusal *moving.Refusal
				if !errors.As(err, &refusal) || refusal.Advice == "" {
					t.Errorf("%s, %s: %v is no refusal with advice", s.name, d.name, err)
				}
				got = "refuse"
			}
			if got != d.want[i] {
				t.Errorf("%s, %s: %s (%v), want %s", s.name, d.name, got, err, d.want[i])
			}
		}
	}
	if _, err := moving.Plan(store.Migration{State: store.Arriving, Source: b}, store.Migration{}, true, from, to); err == nil {
		t.Error("a source that is itself a half copy is moved")
	}
}

func TestWhatHoldsAStoreIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	dir := settled(t, newSource(t, 30))
	for name, c := range map[string]struct{ statement, want string }{
		"a client":    {`INSERT INTO S.clients VALUES ('a', 1, 2, '{}')`, "already holds a store, which is not overwritten"},
		"one event":   {`INSERT INTO S.events VALUES ('\x01', 1, 'cutoff', '', '', '')`, "already holds a store, which is not overwritten"},
		"half a move": {`INSERT INTO S.moves VALUES (1, 'arriving', 'other', 'm', 'c', 'sqlite:/elsewhere', 'keys', '\x00', 1)`, "holds the incomplete copy of another store, which is being moved from sqlite:/elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema, url := server.Schema(t)
			from, to := openSource(t, duplicate(t, dir)), openDestination(t, url)
			server.Run(t, "postgres", strings.ReplaceAll(c.statement, "S.", schema+"."))
			_, err := moving.Run(t.Context(), from, to, silent)
			var refusal *moving.Refusal
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want a refusal that tells %q", err, c.want)
			}
			if source, _ := served(t, from, to); !source {
				t.Error("the source cannot be served any more")
			}
			for _, table := range store.Tables {
				n := server.Run(t, "postgres", fmt.Sprintf(`SELECT count(*) FROM %s.%s`, schema, table.Name))
				if n != "0" && !strings.Contains(c.statement, "."+table.Name) {
					t.Errorf("%s rows of %s", n, table.Name)
				}
			}
		})
	}
}

// A source that was restored from a backup taken during the move must not count as the
// current store.
func TestAnOldCopyOfTheSourceIsNotTakenBackBesideItsDestination(t *testing.T) {
	t.Parallel()
	dir := newSource(t, 10)
	_, url := server.Schema(t)
	from, to := openSource(t, dir), openDestination(t, url)
	c := &crash{at: 5, behind: true, seen: func() {}}
	if _, err := moving.Run(t.Context(), crashingSource{from, c}, crashingDestination{to, c}, silent); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	backup := openSource(t, duplicate(t, settled(t, dir)))
	mustMove(t, from, to)
	if _, err := moving.Undo(t.Context(), backup, to, false); err == nil || !strings.Contains(err.Error(), "says that the move is finished") {
		t.Errorf("undo: %v", err)
	}
	if _, err := moving.Run(t.Context(), backup, to, silent); err == nil {
		t.Error("the backup is moved into the store that counts")
	}
}
