package backup_test

import (
	"database/sql"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
	"github.com/mintage/mintage/internal/testkit"
)

var create, raw = testkit.Create, testkit.Raw

func run(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
}

const base grant.Instant = 1_700_000_000_000

var newGrant, rotated = storetest.Everyday, storetest.Refreshed

func holds(t testing.TB, st *sqlite.Store, g grant.Grant) {
	t.Helper()
	if got, err := st.Grant(t.Context(), g.ID); err != nil || got != g {
		t.Errorf("Grant = %+v, %v; want %+v", got, err, g)
	}
}
