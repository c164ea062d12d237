package sqlite_test

import (
	"context"
	"testing"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
)

func TestStoreKeepsItsPromises(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Database {
		dir := t.TempDir()
		return func(ctx context.Context) (store.Store, error) { return sqlite.Create(ctx, dir) }
	})
}
