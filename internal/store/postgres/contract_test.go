package postgres_test

import (
	"context"
	"testing"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/storetest"
)

func TestStoreKeepsItsPromises(t *testing.T) {
	for name, parameters := range map[string][]string{
		"read committed": nil,
		"serializable":   {"default_transaction_isolation=serializable"},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Database {
				_, url := server.Schema(t, parameters...)
				return func(ctx context.Context) (store.Store, error) {
					return postgres.Create(ctx, postgres.Database{URL: url}, nil)
				}
			})
		})
	}
}
