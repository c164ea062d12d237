package moving_test

import (
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/moving"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/postgres/pgtest"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// server contains every destination, each in its own schema.
var server *pgtest.Server

func TestMain(m *testing.M) {
	moving.SmallBatches()
	// No test crashes the server or the machine, so it need not sync.
	os.Exit(pgtest.Main(m, &server, "fsync=off", "full_page_writes=off"))
}

// raw opens the file of a store as another program could.
func raw(t testing.TB, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, sqlite.FileName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// newSource creates a store with a number of grants and some rows of each other kind,
// including extreme ones.
func newSource(t testing.TB, grants int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	st, err := sqlite.Create(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	db := raw(t, dir)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec := func(text string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(text, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`UPDATE directory SET version = 41`)
	for i, c := range []struct{ id, state, name string }{
		{"billing", "enabled", "Billing"}, {"Zeta", "disabled", "NUL \\u0000 in JSON"}, {"alpha-1", "deleted", ""}, {"alpha1", "deleted", "請求書"}, {"_", "enabled", "\\\""},
	} {
		exec(`INSERT INTO clients (id, version, changed, doc) VALUES (?, ?, ?, ?)`, c.id, i+1, i+2, fmt.Sprintf(`{"id":%q,"state":%q,"name":"%s","version":%d,"secrets":[{"id":"s%d","digest":"AAE="}]}`, c.id, c.state, c.name, i+1, i))
	}
	exec(`INSERT INTO clients (id, kind, version, changed, doc) VALUES ('later billing', 'later', 1, 7, '["of a later version"]')`)
	exec(`INSERT INTO secret_uses VALUES ('s0', 1700000000000), ('S1', ?), ('', 0)`, int64(math.MaxInt64))
	exec(`INSERT INTO cutoffs VALUES ('/api', 'alice', '', 5, 7), ('/api', '', 'billing', ?, 8), ('/api', 'Älva', 'billing', 1, 9), ('', '', '', 0, 10)`, int64(math.MaxInt64))
	exec(`INSERT INTO restores VALUES (?, 1, ?, 12)`, int64(1_700_000_000_000), int64(math.MaxInt64))
	exec(`INSERT INTO keys VALUES (0, 'mac', 1, 1, ?, 3), (?, 'ES256', 2, ?, ?, 41)`, []byte{}, int64(math.MaxUint32), int64(math.MaxInt64), []byte{0, 255, 0})
	body := make([]byte, store.MaxDocument)
	rand.Read(body)
	for i, kind := range []store.DocumentKind{store.DocumentUser, store.DocumentSession, store.DocumentInteraction, store.DocumentConsents} {
		key := store.KeyOf(kind, "/api", "x")
		exec(`INSERT INTO documents (id, kind, version, expires_at, body) VALUES (?, ?, ?, ?, ?)`, key[:], string(kind), i+1, int64(i), body[:len(body)*i/3])
	}
	key := store.KeyOf(store.DocumentSession, "/api", "y")
	owner := store.OwnerOf("/api", "y")
	exec(`INSERT INTO documents (id, kind, version, expires_at, owner, body) VALUES (?, 'session', ?, ?, ?, ?)`, key[:], int64(math.MaxInt64), int64(math.MaxInt64), owner[:], []byte("\x00\xff{}"))
	for i, detail := range []string{"", "by command", "a NUL\x00 within", "no UTF-8 \xff\xfe\xf0", "replaced \ufffd before", "日本語", strings.Repeat("long ", 3000)} {
		id := [16]byte{byte(i), byte(37 * i)}
		exec(`INSERT INTO events VALUES (?, ?, 'grant_revoked', 'billing', ?, ?)`, id[:], i, detail[:min(len(detail), 9)], detail)
	}
	insert, err := tx.Prepare(`INSERT INTO grants VALUES (` + strings.Repeat("?, ", 18) + `?)`)
	if err != nil {
		t.Fatal(err)
	}
	add := func(id grant.ID, values ...any) {
		t.Helper()
		if _, err := insert.Exec(append([]any{int64(binary.BigEndian.Uint64(id[:8]) ^ 1<<63), id[:]}, values...)...); err != nil {
			t.Fatal(err)
		}
	}
	least, most := int64(math.MinInt64), int64(math.MaxInt64)
	add(grant.ID{}, "", "", "", "", 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, "")
	add(grant.ID{0x7f, 15: 1}, "/api", "billing", "Älva", "read write", most, int64(math.MaxUint32), most, most, int64(math.MaxUint32), most, most, most, 2, 255, most, most, `{"a":"\u0000"}`)
	add(grant.ID{0x80}, "/api", "billing", "alice", "read", 1, 2, 3, 4, 5, 6, 7, 8, 2, 3, least, 0, `{}`)
	add(grant.ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "/api", "billing", strings.Repeat("s", 255), "read", 1, 2, 3, 4, 5, 6, 7, 8, 1, 0, int64(-1), 0, "")
	for i := range grants - 4 {
		var id grant.ID
		rand.Read(id[:])
		add(id, "/api", "billing", fmt.Sprint("user", i%500), "read write", 1_700_000_000_000+i, 1+i%9, 1+i%11, 1_700_000_000_500, 7, 1_800_000_000_000, 1_900_000_000_000, 0, 1+i%2, i%3, i*7919, 1_600_000_000_000, `{"tenant":"t1"}`)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// duplicate copies a store to another directory.
func duplicate(t testing.TB, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, sqlite.FileName))
	if err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, sqlite.FileName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return other
}

// settled closes the store, so that a copy of its file is complete.
func settled(t testing.TB, dir string) string {
	t.Helper()
	if _, err := raw(t, dir).Exec(`PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openSource(t testing.TB, dir string) *sqlite.Moving {
	t.Helper()
	from, err := sqlite.OpenToMove(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close() })
	return from
}

func openDestination(t testing.TB, url string) *postgres.Moving {
	t.Helper()
	to, err := postgres.OpenToMove(t.Context(), postgres.Database{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close() })
	return to
}

func silent(moving.Progress) {}

func mustMove(t testing.TB, from moving.Source, to moving.Destination) moving.Outcome {
	t.Helper()
	o, err := moving.Run(t.Context(), from, to, silent)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// served reports which sides a server could use.
func served(t testing.TB, from, to moving.Source) (source, destination bool) {
	t.Helper()
	marks := [2]store.Migration{}
	for i, side := range []moving.Source{from, to} {
		var err error
		if marks[i], err = side.Migration(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// A server can use an empty database, but not as this store.
	return marks[0].Displaced("") == nil, marks[1].State != "" && marks[1].Displaced("") == nil
}
