package testkit

import (
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/backup"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
)

// Exec runs a statement on a store that Raw has opened.
func Exec(t testing.TB, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
}

// Holds fails the test unless a store has exactly g.
func Holds(t testing.TB, st *sqlite.Store, g grant.Grant) {
	t.Helper()
	if got, err := st.Grant(t.Context(), g.ID); err != nil || got != g {
		t.Errorf("Grant = %+v, %v; want %+v", got, err, g)
	}
}

// Lacks fails the test if a store has g.
func Lacks(t testing.TB, st *sqlite.Store, g grant.Grant) {
	t.Helper()
	if _, err := st.Grant(t.Context(), g.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Grant: %v, want ErrNotFound", err)
	}
}

// MakeBackup makes a backup of the store in dir.
func MakeBackup(t testing.TB, dir, file string) backup.Manifest {
	t.Helper()
	m, err := backup.Job{Dir: dir, File: file, Version: "v1", Issuer: "https://a.example", Now: time.Now, Report: func(backup.CopyProgress) {}}.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// OpenBackup opens a backup until the end of the test.
func OpenBackup(t testing.TB, file string) *backup.File {
	t.Helper()
	b, err := backup.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// OnlyFiles fails the test unless a directory contains exactly these files.
func OnlyFiles(t testing.TB, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	if strings.Join(have, " ") != strings.Join(want, " ") {
		t.Errorf("the directory holds %v, want %v", have, want)
	}
}

// AddKey stores a MAC key that has been active since 2023.
func AddKey(t testing.TB, st *sqlite.Store, kek *keys.KEK) keys.Stored {
	t.Helper()
	const since grant.Instant = 1_700_000_000_000
	r, err := keys.New(kek, keys.MAC, since, since)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := st.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Commit(t.Context(), store.Change{Expect: ch.Version, Keys: []keys.Stored{r}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// PutGrants stores n everyday grants.
func PutGrants(t testing.TB, st store.Store, n int) (list []grant.Grant) {
	t.Helper()
	for i := range n {
		g := storetest.Everyday(uint64(i + 1))
		if err := st.CreateGrant(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		list = append(list, g)
	}
	return list
}
