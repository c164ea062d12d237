package restore_test

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

func absent(t testing.TB, st *sqlite.Store, g grant.Grant) {
	t.Helper()
	if _, err := st.Grant(t.Context(), g.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Grant: %v, want ErrNotFound", err)
	}
}

func ignore(backup.CopyProgress) {}

func makeBackup(t testing.TB, dir, file string) backup.Manifest {
	t.Helper()
	m, err := backup.Job{Dir: dir, File: file, Version: "v1", Issuer: "https://a.example", Now: time.Now, Report: ignore}.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func openBackup(t testing.TB, file string) *backup.File {
	t.Helper()
	b, err := backup.Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// onlyFiles demands what is in a directory.
func onlyFiles(t testing.TB, dir string, want ...string) {
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

func newKEK(t testing.TB) *keys.KEK {
	t.Helper()
	kek, err := keys.ParseKEK(keys.NewKEKText())
	if err != nil {
		t.Fatal(err)
	}
	return kek
}

func addKey(t testing.TB, st *sqlite.Store, kek *keys.KEK) keys.Record {
	t.Helper()
	r, err := keys.New(kek, keys.MAC, base, base)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := st.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Commit(t.Context(), store.Change{Expect: ch.Version, Keys: []keys.Record{r}}); err != nil {
		t.Fatal(err)
	}
	return r
}

func put(t testing.TB, st store.Store, n int) (list []grant.Grant) {
	t.Helper()
	for i := range n {
		g := newGrant(uint64(i + 1))
		if err := st.CreateGrant(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		list = append(list, g)
	}
	return list
}
