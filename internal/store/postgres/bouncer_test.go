package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

// throughBouncer starts a pgbouncer in front of the package's server.
func throughBouncer(t *testing.T, settings ...string) *pgtest.Bouncer {
	t.Helper()
	b, err := pgtest.StartBouncer(server, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("pgbouncer:\n%s", b.Log())
		}
	})
	return b
}

// Batch statements are prepared on direct connections to the server. They are not prepared
// behind a pooler, or if the operator has chosen another mode.
func TestStatementsArePreparedUnlessThereIsAPooler(t *testing.T) {
	t.Parallel()
	_, direct := server.Schema(t, "pool_max_conns=1")
	_, chosen := server.Schema(t, "pool_max_conns=1", "default_query_exec_mode=cache_describe")
	for name, c := range map[string]struct {
		url  string
		want bool
	}{
		"directly":         {direct, true},
		"by choice":        {chosen, false},
		"through a pooler": {throughBouncer(t, "default_pool_size=1").Schema(t, "pool_max_conns=1"), false},
	} {
		st, err := postgres.Create(t.Context(), postgres.Database{URL: c.url}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		for n := range 3 {
			g := newGrant(uint64(n) + 1)
			create(t, st, g)
			holds(t, st, g)
		}
		prepared := 0
		err = st.Run(t.Context(), false, func(q store.Query) error {
			return q(func(row store.Scanner) error { return row.Scan(&prepared) }, `SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%grants%'`)
		})
		if err != nil || prepared > 0 != c.want {
			t.Errorf("%s: %d prepared statements about grants, %v", name, prepared, err)
		}
	}
}

// This shows that the pooler is really in between. Otherwise the test above would prove
// nothing.
func TestPreparedStatementsFailThroughAPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	b := throughBouncer(t, "default_pool_size=1")
	url := b.Schema(t, "pool_max_conns=1")
	first, err := postgres.Create(t.Context(), postgres.Database{URL: url + "&default_query_exec_mode=cache_statement"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	g := newGrant(1)
	create(t, first, g)
	// The only connection to the server now has the first store's prepared statements,
	// under the names that the driver derives from the texts.
	second, err := postgres.Create(t.Context(), postgres.Database{URL: url + "&default_query_exec_mode=cache_statement"}, nil)
	if err == nil {
		err = second.CreateGrant(t.Context(), newGrant(2))
		second.Close()
	}
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) || refusal.Code != "42P05" {
		t.Errorf("with prepared statements: %v, want 42P05, duplicate_prepared_statement", err)
	}
	holds(t, open(t, url), g)
}
