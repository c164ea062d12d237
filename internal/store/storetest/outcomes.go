package storetest

import (
	"errors"
	"sync"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
)

var outcomePromises = []promise{
	{"one of 64 concurrent updates of one version wins", func(t *testing.T, db Database) {
		st := open(t, db)
		for range 8 {
			g := newGrant(0)
			create(t, st, g)
			oneWins(t, st, 64, func(n int) (grant.Grant, error) {
				next := rotated(g, uint64(n)+1)
				return next, Replace(t.Context(), st, next)
			})
		}
	}},
	{"one of 64 concurrent creations of one id wins, and outcomes are told apart by the attempt", func(t *testing.T, db Database) {
		st := open(t, db)
		for range 8 {
			g := newGrant(0)
			oneWins(t, st, 64, func(n int) (grant.Grant, error) {
				mine := g
				mine.Attempt = uint64(n) + 1
				return mine, st.CreateGrant(t.Context(), mine)
			})
		}
	}},
	{"a creation and an update of one id at the same moment: each has its own outcome", createThenUpdate},
	{"concurrent calls with exactly the same grant all succeed", func(t *testing.T, db Database) {
		st := open(t, db)
		g := newGrant(1)
		atOnce(32, func(int) {
			if err := st.CreateGrant(t.Context(), g); err != nil {
				t.Errorf("CreateGrant: %v", err)
			}
		})
		next := rotated(g, 2)
		atOnce(32, func(int) {
			if err := Replace(t.Context(), st, next, event(g.ID.String(), base, 1)); err != nil {
				t.Errorf("UpdateGrant: %v", err)
			}
		})
		holds(t, st, next)
		if list := recorded(t, st, g.ID.String()); len(list) != 1 {
			t.Errorf("%d events, want 1", len(list))
		}
	}},
	{"an operation that conflicts never undoes the others of its batch", losersAndNeighbours},
	{"an update that conflicts records no event, and one that succeeds records its own", eventsOfWinners},
	{"every rotation of a chain of compare-and-swap loops is counted once", countedOnce},
	{"concurrent decisions on one grant, through several handles, each see the one before", func(t *testing.T, db Database) {
		handles := []store.Store{open(t, db), open(t, db)}
		g := newGrant(0)
		create(t, handles[0], g)
		const workers, each = 16, 10
		atOnce(workers, func(n int) {
			for range each {
				err := handles[n%2].UpdateGrant(t.Context(), g.ID, func(have grant.Grant) (grant.Grant, []store.Event) {
					return rotated(have, uint64(n)), nil
				})
				if err != nil {
					t.Errorf("UpdateGrant: %v", err)
				}
			}
		})
		if got, err := handles[0].Grant(t.Context(), g.ID); err != nil || got.Version != g.Version+workers*each {
			t.Errorf("version %d, %v; want %d: a decision was lost", got.Version, err, g.Version+workers*each)
		}
	}},
}

// atOnce calls f n times at the same moment and waits for all.
func atOnce(n int, f func(n int)) {
	var begin, done sync.WaitGroup
	begin.Add(1)
	for i := range n {
		done.Go(func() {
			begin.Wait()
			f(i)
		})
	}
	begin.Done()
	done.Wait()
}

// oneWins runs n concurrent writes. Exactly one must succeed, and the store must hold
// its grant.
func oneWins(t *testing.T, st store.Store, n int, write func(n int) (grant.Grant, error)) {
	t.Helper()
	var mu sync.Mutex
	var winners []grant.Grant
	atOnce(n, func(i int) {
		g, err := write(i)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			winners = append(winners, g)
		} else if !errors.Is(err, store.ErrConflict) {
			t.Errorf("loser: %v, want ErrConflict", err)
		}
	})
	if len(winners) != 1 {
		t.Fatalf("%d winners, want 1", len(winners))
	}
	holds(t, st, winners[0])
}

func createThenUpdate(t *testing.T, db Database) {
	st := open(t, db)
	for range 50 {
		g := newGrant(1)
		next := rotated(g, 2)
		var created, updated error
		atOnce(2, func(n int) {
			if n == 0 {
				created = st.CreateGrant(t.Context(), g)
			} else {
				updated = Replace(t.Context(), st, next)
			}
		})
		want := g
		switch {
		case created != nil:
			t.Fatalf("CreateGrant: %v", created)
		case updated == nil:
			want = next
		case !errors.Is(updated, store.ErrConflict):
			t.Fatalf("UpdateGrant: %v", updated)
		}
		holds(t, st, want)
	}
}

func losersAndNeighbours(t *testing.T, db Database) {
	st := open(t, db)
	taken, stale := newGrant(1), newGrant(1)
	create(t, st, taken, stale)
	current := rotated(stale, 2)
	update(t, st, current)
	for range 10 {
		fresh := make([]grant.Grant, 64)
		for i := range fresh {
			fresh[i] = newGrant(uint64(i))
		}
		atOnce(len(fresh), func(n int) {
			var err error
			switch n % 4 {
			case 0:
				other := taken
				other.Attempt = 99
				err = st.CreateGrant(t.Context(), other)
			case 1:
				err = Replace(t.Context(), st, rotated(stale, 99), event(stale.ID.String(), base, n))
			default:
				if err := st.CreateGrant(t.Context(), fresh[n]); err != nil {
					t.Errorf("CreateGrant beside operations that conflict: %v", err)
				}
				return
			}
			if !errors.Is(err, store.ErrConflict) {
				t.Errorf("loser: %v, want ErrConflict", err)
			}
		})
		for n, g := range fresh {
			if n%4 > 1 {
				holds(t, st, g)
			}
		}
	}
	holds(t, st, taken)
	holds(t, st, current)
}

func eventsOfWinners(t *testing.T, db Database) {
	st := open(t, db)
	g := newGrant(0)
	create(t, st, g)
	about := g.ID.String()
	var want []store.Event
	for round := range 10 {
		var mu sync.Mutex
		atOnce(16, func(n int) {
			e := event(about, base+grant.Instant(round), 100*round+n)
			err := Replace(t.Context(), st, rotated(g, uint64(n)), e)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				want = append(want, e)
			}
		})
		var err error
		if g, err = st.Grant(t.Context(), g.ID); err != nil {
			t.Fatalf("Grant: %v", err)
		}
	}
	if len(want) != 10 {
		t.Errorf("%d winners in 10 rounds", len(want))
	}
	sameEvents(t, recorded(t, st, about), want)
}

func countedOnce(t *testing.T, db Database) {
	st := open(t, db)
	g := newGrant(0)
	create(t, st, g)
	const workers, rotations = 8, 10
	atOnce(workers, func(n int) {
		for done := 0; done < rotations; {
			have, err := st.Grant(t.Context(), g.ID)
			if err != nil {
				t.Errorf("Grant: %v", err)
				return
			}
			switch err := Replace(t.Context(), st, rotated(have, uint64(n*rotations+done)+1)); {
			case err == nil:
				done++
			case !errors.Is(err, store.ErrConflict):
				t.Errorf("UpdateGrant: %v", err)
				return
			}
		}
	})
	got, err := st.Grant(t.Context(), g.ID)
	if err != nil {
		t.Fatalf("Grant: %v", err)
	}
	if want := g.Generation + workers*rotations; got.Generation != want || got.Version != int64(want) {
		t.Errorf("generation %d, version %d after %d successful rotations of generation 1", got.Generation, got.Version, workers*rotations)
	}
}
