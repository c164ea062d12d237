package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
	"github.com/mintage/mintage/internal/store/storetest"
)

// throughBouncer starts a pgbouncer before the package's server.
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

func TestStoreKeepsItsPromisesThroughAPoolerInTransactionMode(t *testing.T) {
	b := throughBouncer(t)
	storetest.Run(t, func(t *testing.T) storetest.Database {
		url := b.Schema(t)
		return func(ctx context.Context) (store.Store, error) {
			return postgres.Create(ctx, postgres.Database{URL: url}, nil)
		}
	})
}

// Without this, the test above could pass although nothing stands between.
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
	// On the one connection to the server is now what the first has prepared, under the
	// names that the driver makes of the texts.
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
