package postgres_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/storetest"
)

// An operator may have set either isolation level. The ordinary suite tests one level with
// the server itself and the other through a pooler. The long suite tests all four
// combinations.
func TestStoreKeepsItsPromises(t *testing.T) {
	keepsItsPromises(t, "read committed", func(t *testing.T) string {
		_, url := server.Schema(t)
		return url
	})
	if soak() {
		keepsItsPromises(t, "serializable", func(t *testing.T) string {
			_, url := server.Schema(t, "default_transaction_isolation=serializable")
			return url
		})
	}
}

func TestStoreKeepsItsPromisesThroughAPoolerInTransactionMode(t *testing.T) {
	b := throughBouncer(t)
	b.Isolation = "serializable"
	keepsItsPromises(t, b.Isolation, func(t *testing.T) string { return b.Schema(t) })
	if soak() {
		b.Isolation = "read committed"
		keepsItsPromises(t, b.Isolation, func(t *testing.T) string { return b.Schema(t) })
	}
}

func keepsItsPromises(t *testing.T, name string, fresh func(*testing.T) (url string)) {
	t.Run(name, func(t *testing.T) {
		conn, err := pgconn.Connect(t.Context(), fresh(t))
		if err != nil {
			t.Fatal(err)
		}
		results, err := conn.Exec(t.Context(), "SHOW default_transaction_isolation").ReadAll()
		if err = errors.Join(err, conn.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		if level := string(results[0].Rows[0][0]); level != name {
			t.Fatalf("the level is %s", level)
		}
		storetest.Run(t, func(t *testing.T) storetest.Database {
			url := fresh(t)
			return func(ctx context.Context) (store.Store, error) {
				return postgres.Create(ctx, postgres.Database{URL: url}, nil)
			}
		})
	})
}

func soak() bool { return os.Getenv("SOAK") != "" }
