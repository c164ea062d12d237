package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
)

func toMove(t *testing.T, url string) *postgres.Moving {
	t.Helper()
	m, err := postgres.OpenToMove(t.Context(), postgres.Database{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// A move must copy every column, including those that are added to a table later.
func TestAMoveKnowsEveryColumn(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	toMove(t, url)
	known := []string{"directory.id", "directory.version"} // which a move handles separately
	for _, table := range store.Tables {
		for _, c := range table.Columns {
			known = append(known, table.Name+"."+c.Name)
		}
	}
	have := strings.Fields(server.Run(t, "postgres", `SELECT table_name || '.' || column_name FROM information_schema.columns
		WHERE table_schema = '`+name+`' AND table_name NOT IN ('mintage_schema', 'moves', 'nodes', 'pulse')`))
	slices.Sort(known)
	if slices.Sort(have); !slices.Equal(have, known) {
		t.Errorf("the schema has\n%v\nand a move copies\n%v", have, known)
	}
}

func TestStatementsOfAMoveArePortable(t *testing.T) {
	for _, table := range store.Tables {
		for _, text := range postgres.MovingSQL(table) {
			for _, d := range defects(text) {
				t.Errorf("%q in: %s", d, text)
			}
		}
	}
}

func TestAStoreThatMovedElsewhereIsNotOpened(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	m := toMove(t, url)
	var was store.Migration
	for _, c := range []struct {
		state store.MoveState
		text  string // "" if it is opened
	}{
		{store.Arriving, "the move from sqlite:/a to this store is not finished: run the same migrate-store command again"},
		{store.Arrived, ""},
		{store.Undone, "this copy was abandoned with --undo, and the store is at sqlite:/a again"},
	} {
		next := store.Migration{State: c.state, Source: "s", Move: "m", Claim: "c", OtherStore: "sqlite:/a"}
		if err := m.SetMigration(t.Context(), was, next); err != nil {
			t.Fatal(err)
		}
		if have, err := m.Migration(t.Context()); err != nil || have != next {
			t.Errorf("%+v, %v; want %+v", have, err, next)
		}
		if err := m.SetMigration(t.Context(), was, next); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s, overwritten by a writer with an outdated state: %v", c.state, err)
		}
		was = next
		server, err := postgres.Create(t.Context(), postgres.Database{URL: url}, nil)
		command, commandErr := postgres.Open(t.Context(), postgres.Database{URL: url})
		for _, st := range []*postgres.Store{server, command} {
			if st != nil {
				st.Close()
			}
		}
		for _, err := range []error{err, commandErr} {
			var displaced *store.Displaced
			switch {
			case c.text == "" && err != nil:
				t.Errorf("%s: %v", c.state, err)
			case c.text != "" && (!errors.As(err, &displaced) || !strings.Contains(err.Error(), c.text)):
				t.Errorf("%s: %v, want %q", c.state, err, c.text)
			}
		}
	}
}

// A move that was interrupted before it copied the keys must be finished. The advice for a
// lost store, to create a new one, would be wrong here.
func TestTheDestinationOfAMoveIsNoLostStore(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	if err := toMove(t, url).Claim(t.Context(), store.Migration{}, store.Migration{State: store.Arriving, Move: "m", Claim: "c"}); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Create(t.Context(), postgres.Database{URL: url}, func() error { return errors.New("it is lost") })
	var displaced *store.Displaced
	if !errors.As(err, &displaced) {
		t.Errorf("got %v, want a Displaced error", err)
	}
}

func TestRowsAreWrittenOnlyUnderTheirMigrationState(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	m := toMove(t, url)
	uses := store.Tables[slices.IndexFunc(store.Tables, func(t store.Table) bool { return t.Name == "secret_uses" })]
	mark, other := store.Migration{State: store.Arriving, Move: "m", Claim: "c"}, store.Migration{State: store.Arriving, Claim: "another"}
	if err := m.Claim(t.Context(), store.Migration{}, mark); err != nil {
		t.Fatal(err)
	}
	rows := []store.Row{{{Text: "a"}, {Number: 1}}, {{Text: "b"}, {Number: -1}}}
	count := func() string { return server.Run(t, "postgres", `SELECT count(*) FROM `+name+`.secret_uses`) }
	if err := m.Append(t.Context(), uses, rows, other); !errors.Is(err, store.ErrConflict) || count() != "0" {
		t.Errorf("under another state: %v, %s rows", err, count())
	}
	if err := m.Append(t.Context(), uses, rows, mark); err != nil || count() != "2" {
		t.Errorf("%v, %s rows", err, count())
	}
	if err := m.Append(t.Context(), uses, append([]store.Row{{{Text: "c"}, {Number: 1}}}, rows...), mark); err == nil || count() != "2" {
		t.Errorf("rows of which some are there: %v, %s rows", err, count())
	}
	if have, err := m.Migration(t.Context()); err != nil || have != mark {
		t.Errorf("%+v, %v; want %+v", have, err, mark)
	}
	if err := m.Claim(t.Context(), mark, other); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a claim of what holds rows: %v", err)
	}
	if err := m.Clear(t.Context(), uses, other); !errors.Is(err, store.ErrConflict) || count() != "2" {
		t.Errorf("removed under another state: %v, %s rows", err, count())
	}
	if err := m.Clear(t.Context(), uses, mark); err != nil || count() != "0" {
		t.Errorf("%v, %s rows", err, count())
	}
}

func TestThePlaceOfAStoreContainsNoPassword(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://mintage:s3cret@db.example.com/tokens":                                         "postgres://db.example.com:5432/tokens",
		"postgres://mintage@a:5433,b:5434/tokens?sslmode=disable&password=s3cret":                 "postgres://a:5433,b:5434/tokens",
		"postgres://mintage@a/tokens?sslmode=prefer&search_path=own":                              "postgres://a:5432/tokens?search_path=own",
		"postgres://mintage@[::1]:5432/tokens?sslmode=disable":                                    "postgres://[::1]:5432/tokens",
		"postgres:///tokens?host=/run/postgresql&user=mintage&password=s3cret&port=5432":          "postgres:///tokens?host=/run/postgresql",
		"postgresql://mintage:s3cret@a:1,b:2/tokens?target_session_attrs=primary&sslmode=disable": "postgres://a:1,b:2/tokens",
	} {
		got, err := postgres.PlaceOf(url)
		if err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}
