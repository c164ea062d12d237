package postgres_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
)

// The server's own statistics show the cost of a refresh.
func TestARefreshIsOneUpdateAndOneReadByThePrimaryKey(t *testing.T) {
	const grants, rotations, workers = 10_000, 20_000, 64
	database := server.Database(t)
	st, err := postgres.Create(t.Context(), postgres.Database{URL: server.URL(database)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	server.Run(t, "postgres", `CREATE EXTENSION IF NOT EXISTS pg_stat_statements`)
	ids := make([]grant.ID, grants)
	everybody := func(n int, do func(i int) error) {
		t.Helper()
		errs := make([]error, workers)
		var done sync.WaitGroup
		for w := range workers {
			done.Go(func() {
				for i := w; i < n && errs[w] == nil; i += workers {
					errs[w] = do(i)
				}
			})
		}
		done.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	everybody(grants, func(i int) error {
		g := newGrant(uint64(i))
		ids[i] = g.ID
		return st.CreateGrant(t.Context(), g)
	})
	// Sessions report their statistics once a second, and at their end.
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	var before count
	soon(t, "the count of creations", func() bool {
		before = countOf(t, database)
		return before.inserted >= grants
	})
	if st, err = postgres.Create(t.Context(), postgres.Database{URL: server.URL(database)}, nil); err != nil {
		t.Fatal(err)
	}
	// The snapshots of autovacuum would keep dead rows, on a slow machine for long.
	server.Run(t, database, `ALTER TABLE grants SET (autovacuum_enabled = off)`)
	everybody(rotations, func(i int) error {
		return st.UpdateGrant(t.Context(), ids[rand.IntN(grants)], func(g grant.Grant) (grant.Grant, []store.Event) {
			return rotated(g, rand.Uint64()), nil
		})
	})
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	var took count
	soon(t, "the count of rotations", func() bool {
		took = countOf(t, database).since(before)
		return took.updated >= rotations
	})
	t.Logf("%d rotations: %+v", rotations, took)
	switch {
	case took.updated != rotations || took.inserted != 0 || took.deleted != 0:
		t.Errorf("rows written: %+v; want %d updates alone", took, rotations)
	case took.hot*100 < took.updated*95:
		t.Errorf("%d of %d updates were HOT, want 95 %%", took.hot, took.updated)
	case took.scans != 0:
		t.Errorf("%d times the whole table was read", took.scans)
	case took.searches > 2*rotations:
		// One search reads the row, and one finds it again for the update.
		t.Errorf("%d searches in the primary key for %d rotations", took.searches, rotations)
	case took.others != 0:
		t.Errorf("%d rows of other tables or indexes were touched", took.others)
	}
	for text, want := range map[string]int{"SELECT id, realm": rotations, "UPDATE grants": rotations} {
		rows := statements(t, database, "rows", text)
		if rows != want {
			t.Errorf("%s: %d rows, want %d", text, rows, want)
		}
		if n := calls(t, database, text); n > rotations/2 {
			t.Errorf("%s: %d statements for %d operations of %d workers: they do not share batches", text, n, rotations, workers)
		}
	}
}

// A count is the work of the server on the tables of a database.
type count struct{ updated, hot, inserted, deleted, scans, searches, others int }

func (c count) since(b count) count {
	return count{c.updated - b.updated, c.hot - b.hot, c.inserted - b.inserted, c.deleted - b.deleted, c.scans - b.scans, c.searches - b.searches, c.others - b.others}
}

func countOf(t *testing.T, database string) (c count) {
	t.Helper()
	out := server.Run(t, database, `SELECT n_tup_upd, n_tup_hot_upd, n_tup_ins, n_tup_del, seq_scan,
		(SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'grants_pkey'),
		(SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE relname = 'grants' AND indexrelname <> 'grants_pkey')
		+ (SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE relname NOT IN ('grants', 'mintage_schema', 'directory', 'pulse'))
		FROM pg_stat_user_tables WHERE relname = 'grants'`)
	if _, err := fmt.Sscan(strings.ReplaceAll(out, "|", " "), &c.updated, &c.hot, &c.inserted, &c.deleted, &c.scans, &c.searches, &c.others); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return c
}

func TestStatementsFindTheirRowsByAnIndex(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	open(t, url)
	// With this many rows, a sequential scan costs more than an index.
	server.Run(t, "postgres", strings.ReplaceAll(`
		INSERT INTO S.grants SELECT sha256(n::text::bytea), '/api', 'c', 'subject ' || n, 's', 1, 1, '', 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 FROM generate_series(1, 50000) AS n;
		INSERT INTO S.documents SELECT sha256(n::text::bytea), CASE WHEN n % 1000 = 0 THEN 'user' ELSE 'session' END, 1, 1, 'body' FROM generate_series(1, 50000) AS n;
		ANALYZE S.grants; ANALYZE S.documents`, "S.", name+"."))
	for text, want := range map[string]string{
		postgres.SelectGrantsSQL:    "grants_pkey",
		postgres.UpdateGrantsSQL:    "grants_pkey",
		postgres.DeleteGrantsSQL:    "grants_pkey",
		postgres.WalkGrantsSQL:      "grants_pkey",
		postgres.ListSubjectSQL:     "grants_by_subject",
		postgres.ListClientSQL:      "grants_by_client",
		postgres.SelectDocumentsSQL: "documents_pkey",
		postgres.UpdateDocumentsSQL: "documents_pkey",
		postgres.DeleteDocumentsSQL: "documents_pkey",
		postgres.SweepDocumentsSQL:  "documents_pkey",
		postgres.WalkDocumentsSQL:   "documents_pkey",
		postgres.ListDocumentsSQL:   "documents_by_kind",
		postgres.ListOwnerSQL:       "documents_by_owner",
		store.TallyUsersSQL:         "documents_by_kind",
		store.EventsSQL:             "events_by_about",
	} {
		// This is the plan for 64 rows whose keys are known when the plan is made.
		out := server.Run(t, "postgres", `SET search_path = `+name+`; PREPARE p AS `+text+`; EXPLAIN EXECUTE p`+arguments(text))
		if !strings.Contains(out, want) || strings.Contains(out, "Seq Scan") {
			t.Errorf("%s\nplan, want one by %s:\n%s", text, want, out)
		}
	}
}

// arguments makes up values for the parameters of a statement, in brackets if it has any.
func arguments(text string) string {
	n := 0
	for _, m := range regexp.MustCompile(`\$(\d+)`).FindAllStringSubmatch(text, -1) {
		var i int
		fmt.Sscan(m[1], &i)
		n = max(n, i)
	}
	list := make([]string, n)
	for i := range list {
		place := regexp.QuoteMeta(fmt.Sprintf("$%d", i+1))
		element := func(value string) string {
			return "ARRAY[" + strings.TrimSuffix(strings.Repeat(value+",", 64), ",") + "]"
		}
		switch {
		case regexp.MustCompile(place + `::bytea\[\]`).MatchString(text):
			var ids []string
			for k := range 64 {
				ids = append(ids, fmt.Sprintf(`sha256('%d')`, k))
			}
			list[i] = "ARRAY[" + strings.Join(ids, ",") + "]"
		case regexp.MustCompile(place + `::bigint\[\]`).MatchString(text):
			list[i] = element("2") + "::bigint[]"
		case regexp.MustCompile(place + `::smallint\[\]`).MatchString(text):
			list[i] = element("2") + "::smallint[]"
		case regexp.MustCompile(place + `::text\[\]`).MatchString(text):
			list[i] = element("'session'")
		case regexp.MustCompile(`(id >|id =|owner =) ` + place + `\b`).MatchString(text):
			list[i] = `'\x00'::bytea`
		case regexp.MustCompile(`(subject|kind|realm|client) = ` + place + `\b`).MatchString(text):
			list[i] = `'user'`
		default:
			list[i] = "10"
		}
	}
	if n == 0 {
		return ""
	}
	return "(" + strings.Join(list, ", ") + ")"
}
