package sqlite_test

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
)

func number(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAnEmptyFileIsBroughtToTheNewestVersion(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"absent":     func(string) error { return nil },
		"zero bytes": func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := prepare(filepath.Join(dir, sqlite.FileName)); err != nil {
				t.Fatal(err)
			}
			create(t, dir)
			db := raw(t, dir)
			files, err := filepath.Glob("migrations/*.sql")
			if err != nil || len(files) == 0 {
				t.Fatalf("migrations: %v, %v", files, err)
			}
			if v := number(t, db, "PRAGMA user_version"); v != len(files) {
				t.Errorf("schema version %d, want %d", v, len(files))
			}
			if id := number(t, db, "PRAGMA application_id"); id != sqlite.ApplicationID {
				t.Errorf("application id %x, want %x", id, sqlite.ApplicationID)
			}
		})
	}
}

func TestMigrationFilesAreNumberedWithoutAGap(t *testing.T) {
	files, err := os.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		if want := fmt.Sprintf("%04d_", i+1); !strings.HasPrefix(f.Name(), want) || !strings.HasSuffix(f.Name(), ".sql") {
			t.Errorf("migrations/%s: the %d. file is named %s*.sql", f.Name(), i+1, want)
		}
	}
}

func TestAFileOfTheFirstVersionIsBroughtForwardWithItsRows(t *testing.T) {
	dir := t.TempDir()
	first, err := os.ReadFile("migrations/0001_grants.sql")
	if err != nil {
		t.Fatal(err)
	}
	db := raw(t, dir)
	run(t, db, "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL; BEGIN;"+string(first)+
		fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 1; COMMIT", sqlite.ApplicationID))
	g := newGrant(9)
	if _, err := db.Exec(`INSERT INTO grants (prefix, id, realm, client, subject, scope, authorized_at, generation, version, rotated_at, key_id,
		expires_at, delete_after, access_floor, state, reason, attempt) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		int64(binary.BigEndian.Uint64(g.ID[:8])^1<<63), g.ID[:], g.Realm, g.ClientID, g.Subject, string(g.Scope), int64(g.AuthorizedAt), g.Generation,
		g.Version, int64(g.RotatedAt), g.KeyID, int64(g.ExpiresAt), int64(g.DeleteAfter), int64(g.AccessFloor), g.State, g.Reason, int64(g.Attempt)); err != nil {
		t.Fatal(err)
	}
	run(t, db, "INSERT INTO cutoffs (realm, subject, client, at, changed) VALUES ('/api', 'alice', '', 7, 1)")
	client := store.Client{ID: "billing", Realm: "/api", State: store.ClientEnabled, Version: 1}
	if _, err := db.Exec(`INSERT INTO clients (id, version, changed, doc) VALUES ('billing', 1, 1, ?)`, string(client.Entry().Body)); err != nil {
		t.Fatal(err)
	}

	st := create(t, dir)
	holds(t, st, g) // with neither a time of authentication nor claims
	if ch, err := st.Changes(t.Context(), 0); err != nil || len(ch.Cutoffs) != 1 || len(ch.Clients) != 1 {
		t.Errorf("%d cutoffs, %d clients, %v; want one of each", len(ch.Cutoffs), len(ch.Clients), err)
	}
	client.Version = 2
	if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{client.Entry()}}); err != nil {
		t.Errorf("change a client of the first version: %v", err)
	}
	g = rotated(g, 10)
	if err := storetest.Replace(t.Context(), st, g); err != nil {
		t.Fatal(err)
	}
	holds(t, st, g)
	later := newGrant(11)
	later.AuthTime, later.Claims = base-1, `{"tenant":"t1"}`
	if err := st.CreateGrant(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	holds(t, st, later)
	d := newDocument(1)
	if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
		t.Fatal(err)
	}
	holdsDocument(t, st, d)
}

func TestProcessesThatStartAtOnceMigrateOnce(t *testing.T) {
	for range 5 {
		dir := t.TempDir()
		stores := make([]*sqlite.Store, 6)
		errs := make([]error, len(stores))
		var done sync.WaitGroup
		for i := range stores {
			done.Go(func() { stores[i], errs[i] = sqlite.Create(t.Context(), dir) })
		}
		done.Wait()
		g := newGrant(1)
		for i, st := range stores {
			if errs[i] != nil {
				t.Errorf("start %d: %v", i, errs[i])
				continue
			}
			if i == 0 {
				if err := st.CreateGrant(t.Context(), g); err != nil {
					t.Error(err)
				}
			}
		}
		for i, st := range stores {
			if errs[i] == nil {
				holds(t, st, g)
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		if n := number(t, raw(t, dir), "SELECT count(*) FROM directory"); n != 1 {
			t.Errorf("the directory has %d versions, want 1", n)
		}
	}
}

func TestFilesOfOthersAreRefusedAndLeftAlone(t *testing.T) {
	newer := func(version int) string {
		return fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", sqlite.ApplicationID, version)
	}
	for name, c := range map[string]struct {
		sql  string
		text []string
	}{
		"a later version's":                {newer(99), []string{"version 99", "this program knows", "or a later one"}},
		"a version that never was":         {newer(-1), []string{"version -1"}},
		"another program's":                {"PRAGMA application_id = 7; PRAGMA user_version = 1; CREATE TABLE notes (text)", []string{"some other program's SQLite file"}},
		"another program's, with no mark":  {"CREATE TABLE notes (text)", []string{"some other program's SQLite file"}},
		"another program's, with our name": {"CREATE TABLE grants (id)", []string{"some other program's SQLite file"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			db := raw(t, dir)
			run(t, db, c.sql)
			schema := "SELECT group_concat(name) || count(*) FROM sqlite_schema"
			var before, after string
			db.QueryRow(schema).Scan(&before)
			for _, open := range []func() (*sqlite.Store, error){
				func() (*sqlite.Store, error) { return sqlite.Create(t.Context(), dir) },
				func() (*sqlite.Store, error) { return sqlite.Open(t.Context(), dir) },
			} {
				st, err := open()
				if err == nil {
					st.Close()
					t.Fatal("it was opened")
				}
				for _, text := range append(c.text, filepath.Join(dir, sqlite.FileName)) {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("error %q does not contain %q", err, text)
					}
				}
			}
			db.QueryRow(schema).Scan(&after)
			if before != after {
				t.Errorf("the schema was changed from %s to %s", before, after)
			}
		})
	}
}

func TestGarbageIsRefusedAndLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, sqlite.FileName)
	garbage := bytes.Repeat([]byte("this is no database. "), 1000)
	if err := os.WriteFile(path, garbage, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Create(t.Context(), dir)
	if err == nil {
		st.Close()
		t.Fatal("it was opened")
	}
	if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "is damaged or is not a Mintage store") {
		t.Errorf("error %q", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, garbage) {
		t.Errorf("the file was changed (%v)", err)
	}
}

func TestADamagedFileFailsAndIsNeverTakenForAnEmptyOne(t *testing.T) {
	dir := t.TempDir()
	st, err := sqlite.Create(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	g := newGrant(1)
	if err := st.CreateGrant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	db := raw(t, dir)
	root := number(t, db, "SELECT rootpage FROM sqlite_schema WHERE name = 'grants'")
	size := number(t, db, "PRAGMA page_size")
	db.Close()
	f, err := os.OpenFile(filepath.Join(dir, sqlite.FileName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xaa}, size), int64((root-1)*size)); err != nil {
		t.Fatal(err)
	}
	st = create(t, dir)
	// "Not found" would make the client discard its token.
	if got, err := st.Grant(t.Context(), g.ID); err == nil || strings.Contains(err.Error(), "not found") || !strings.Contains(err.Error(), "malformed") || !strings.Contains(err.Error(), "restore a backup") {
		t.Errorf("Grant from a damaged page: %+v, %v", got, err)
	}
	// Success would let the code be redeemed twice.
	if err := st.CreateGrant(t.Context(), g); err == nil {
		t.Error("CreateGrant into a damaged page succeeded")
	}
}
