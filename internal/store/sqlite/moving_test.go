package sqlite_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
)

func toMove(t *testing.T, dir string) *sqlite.Moving {
	t.Helper()
	m, err := sqlite.OpenToMove(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// A move must copy every column, including those that are added to a table later.
func TestAMoveKnowsEveryColumn(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	// The column prefix is derived from the id, and the table directory is handled
	// separately.
	known := []string{"directory.id", "directory.version", "grants.prefix"}
	for _, table := range store.Tables {
		for _, c := range table.Columns {
			known = append(known, table.Name+"."+c.Name)
		}
	}
	rows, err := raw(t, dir).Query(`SELECT t.name || '.' || c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table' AND t.name <> 'moves'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var have []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		have = append(have, name)
	}
	slices.Sort(known)
	if slices.Sort(have); !slices.Equal(have, known) || rows.Err() != nil {
		t.Errorf("the schema has\n%v\nand a move copies\n%v\n%v", have, known, rows.Err())
	}
}

func TestAMoveReadsEachTableByItsKey(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	for _, table := range store.Tables {
		for _, text := range sqlite.MovingSQL(table) {
			for _, d := range defects(text) {
				t.Errorf("%q in: %s", d, text)
			}
			for _, step := range plan(t, dir, text) {
				if strings.Contains(step, "TEMP B-TREE") || strings.Contains(text, "?") && strings.Contains(step, "SCAN") {
					t.Errorf("%s: %s", text, step)
				}
			}
		}
	}
}

func TestAStoreThatMovedElsewhereIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	m := toMove(t, dir)
	var was store.Migration
	for _, c := range []struct {
		state store.MoveState
		text  string // "" if Open succeeds
	}{
		{store.Leaving, "it is being moved to postgres://db/a: run the same migrate-store command again to continue, or cancel the move with: mintage migrate-store --undo --from sqlite:" + dir},
		{store.Returned, ""},
		{store.Leaving, "it is being moved"},
		{store.Left, "it has moved to postgres://db/a: use that store (--store)"},
		{store.Returned, ""},
	} {
		next := store.Migration{State: c.state, Source: "s", Move: "m", Claim: "c", OtherStore: "postgres://db/a"}
		if err := m.SetMigration(t.Context(), was, next); err != nil {
			t.Fatal(err)
		}
		if have, err := m.Migration(t.Context()); err != nil || have != next {
			t.Errorf("%+v, %v; want %+v", have, err, next)
		}
		if err := m.SetMigration(t.Context(), was, next); was != next && !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s, overwritten by a writer with an outdated state: %v", c.state, err)
		}
		was = next
		server, err := sqlite.Create(t.Context(), dir)
		command, commandErr := sqlite.Open(t.Context(), dir)
		for _, st := range []*sqlite.Store{server, command} {
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

// A command may have opened the store before the move began, for example while it waited
// for a password.
func TestAStoreOpenedBeforeAMoveRefusesWritesAfterIt(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	st, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	g := newGrant(1)
	if err := st.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	m := toMove(t, dir)
	leaving := store.Migration{State: store.Leaving, Move: "m", OtherStore: "postgres://db/a"}
	if err := m.SetMigration(t.Context(), store.Migration{}, leaving); err != nil {
		t.Fatal(err)
	}
	writes := map[string]func() error{
		"a client": func() error {
			return st.Commit(t.Context(), store.Change{Entries: []store.Entry{store.Client{ID: "a", Version: 1}.Entry()}})
		},
		"a cutoff": func() error {
			return st.Commit(t.Context(), store.Change{Cutoffs: []store.Cutoff{{Realm: "/api", Subject: "alice", At: 1}}})
		},
		"a document": func() error {
			return st.Commit(t.Context(), store.Change{Documents: []store.Document{{Kind: store.DocumentUser, Version: 1}}})
		},
		"another grant": func() error { return st.CreateGrant(t.Context(), newGrant(2)) },
		"a revocation": func() error {
			return st.UpdateGrant(t.Context(), g.ID, func(g grant.Grant) (grant.Grant, []store.Event) {
				g.State, g.Version = grant.Revoked, g.Version+1
				return g, nil
			})
		},
	}
	for name, write := range writes {
		var displaced *store.Displaced
		if err := write(); !errors.As(err, &displaced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	db := raw(t, dir)
	if n := number(t, db, `SELECT (SELECT count(*) FROM clients) + (SELECT count(*) FROM cutoffs) + (SELECT count(*) FROM documents)
		+ (SELECT count(*) FROM grants WHERE version = 1) + (SELECT version FROM directory)`); n != 2 {
		t.Errorf("something was written: %d", n)
	}
	if err := m.SetMigration(t.Context(), leaving, store.Migration{State: store.Returned}); err != nil {
		t.Fatal(err)
	}
	for name, write := range writes {
		if err := write(); err != nil {
			t.Errorf("%s, when the move is given up: %v", name, err)
		}
	}
}
