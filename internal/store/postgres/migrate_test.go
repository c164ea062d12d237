package postgres_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
)

// steps returns the migrations in order, without their comments.
func steps(t *testing.T) (names, texts []string) {
	t.Helper()
	files, err := os.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile("migrations/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, f.Name())
		texts = append(texts, strings.TrimSpace(regexp.MustCompile(`--.*`).ReplaceAllString(string(b), "")))
	}
	if len(names) == 0 {
		t.Fatal("no migrations")
	}
	return names, texts
}

func TestMigrationFilesAreNumberedWithoutAGap(t *testing.T) {
	names, _ := steps(t)
	for i, name := range names {
		number, rest, _ := strings.Cut(name, "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 || len(number) != 4 || !strings.HasSuffix(rest, ".sql") {
			t.Errorf("migrations/%s: the %d. file is named %04d_*.sql", name, i+1, i+1)
		}
	}
}

// Some engines allow only one schema statement at a time, and not in a transaction with
// others. And a step runs again if its node died before recording that it was done.
func TestEachMigrationIsOneStatementThatAddsAndCanBeDoneTwice(t *testing.T) {
	adds := regexp.MustCompile(`^(CREATE (TABLE|INDEX|UNIQUE INDEX) IF NOT EXISTS|ALTER TABLE \w+ ADD COLUMN IF NOT EXISTS|ALTER TABLE \w+ SET \(|INSERT INTO .* ON CONFLICT)`)
	names, texts := steps(t)
	for i, text := range texts {
		if strings.Contains(text, ";") || !adds.MatchString(text) {
			t.Errorf("migrations/%s: %s", names[i], text)
		}
	}
}

func TestAnEmptySchemaIsBroughtToTheNewestVersionAndADeadNodesStepsAreDoneAgain(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	names, _ := steps(t)
	version := func() string {
		return server.Run(t, "postgres", `SELECT version FROM `+name+`.mintage_schema`)
	}
	st := open(t, url)
	g := newGrant(1)
	create(t, st, g)
	for _, earlier := range []string{"0", "7", strconv.Itoa(len(names) - 1)} {
		if v := version(); v != strconv.Itoa(len(names)) {
			t.Errorf("schema version %s, want %d", v, len(names))
		}
		server.Run(t, "postgres", `UPDATE `+name+`.mintage_schema SET version = `+earlier)
		holds(t, open(t, url), g)
	}
	// The node died before it recorded the step.
	server.Run(t, "postgres", `DELETE FROM `+name+`.mintage_schema`)
	holds(t, open(t, url), g)
	if v := version(); v != strconv.Itoa(len(names)) {
		t.Errorf("schema version %s, want %d", v, len(names))
	}
}

func TestNodesThatStartAtOnceMigrateTogether(t *testing.T) {
	t.Parallel()
	for range 3 {
		name, url := server.Schema(t, "pool_max_conns=4")
		stores := make([]*postgres.Store, 6)
		errs := make([]error, len(stores))
		var done sync.WaitGroup
		for i := range stores {
			done.Go(func() { stores[i], errs[i] = postgres.Create(t.Context(), postgres.Database{URL: url}, nil) })
		}
		done.Wait()
		g := newGrant(1)
		for i, st := range stores {
			if errs[i] != nil {
				t.Fatalf("start %d: %v", i, errs[i])
			}
			if i == 0 {
				create(t, st, g)
			}
			holds(t, st, g)
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}
		if n := server.Run(t, "postgres", `SELECT count(*) FROM `+name+`.directory`); n != "1" {
			t.Errorf("the directory has %s versions, want 1", n)
		}
	}
}

func TestASchemaOfTheNewestVersionIsOpenedWithoutTheRightToChangeIt(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	st := open(t, server.URL(database))
	g := newGrant(1)
	create(t, st, g)
	server.Run(t, database, `CREATE ROLE served_`+database+` LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO served_`+database)
	t.Cleanup(func() { server.Run(t, database, `DROP OWNED BY served_`+database+`; DROP ROLE served_`+database) })
	limited := open(t, strings.Replace(server.URL(database), "mintage@", "served_"+database+"@", 1))
	holds(t, limited, g)
	create(t, limited, newGrant(2))
}

func TestSchemasOfOthersAreRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql  string
		text string // "" if it is accepted
	}{
		"another program's":                      {`CREATE TABLE S.grants (id TEXT)`, "tables of some other program"},
		"a later version's that needs a program": {`UPDATE S.mintage_schema SET version = 99, needs = 98`, "version 99 and this program knows"},
		"a later version's that only adds":       {`UPDATE S.mintage_schema SET version = 99`, ""},
		"another program's with other names":     {`CREATE TABLE S.notes (id TEXT)`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			schema, url := server.Schema(t)
			if strings.HasPrefix(c.sql, "UPDATE") {
				open(t, url)
			}
			server.Run(t, "postgres", strings.ReplaceAll(c.sql, "S.", schema+"."))
			tables := `SELECT count(*) FROM information_schema.tables WHERE table_schema = '` + schema + `'`
			before := server.Run(t, "postgres", tables)
			st, err := postgres.Create(t.Context(), postgres.Database{URL: url}, nil)
			if err == nil {
				defer st.Close()
			}
			if c.text == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want a refusal that contains %q", err, c.text)
			}
			if after := server.Run(t, "postgres", tables); after != before {
				t.Errorf("%s tables, were %s", after, before)
			}
		})
	}
}

// A node of the previous version runs beside this one. It neither reads nor writes the
// columns that this version has added.
func TestAnOlderNodesStatementsWorkOnTheNewestSchema(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	st := open(t, url)
	client := store.Client{ID: "billing", Realm: "/api", State: store.ClientEnabled, Version: 1}
	d := store.Document{Kind: store.DocumentSession, Key: store.DocumentKey{1}, Version: 1, Owner: store.OwnerOf("/api", "alice"), Body: []byte("a")}
	if err := st.Commit(t.Context(), store.Change{Documents: []store.Document{d}}); err != nil {
		t.Fatal(err)
	}
	server.Run(t, "postgres", `UPDATE `+name+`.directory SET version = version + 1`)
	server.Run(t, "postgres", `INSERT INTO `+name+`.clients (id, version, changed, doc) VALUES ('billing', 1, 2, '`+string(client.Entry().Body)+`') ON CONFLICT (id) DO NOTHING`)
	server.Run(t, "postgres", `INSERT INTO `+name+`.documents (id, kind, version, expires_at, body) VALUES ('\x02', 'session', 1, 7, 'b') ON CONFLICT (id) DO NOTHING`)
	server.Run(t, "postgres", `UPDATE `+name+`.documents SET version = 2, expires_at = 9, body = 'c' WHERE version = 1 AND expires_at = 0`)
	if ch, err := st.Changes(t.Context(), 0); err != nil || len(ch.Clients) != 1 || ch.Clients[0].ID != "billing" {
		t.Errorf("clients %+v, %v", ch.Clients, err)
	}
	client.Version = 2
	if err := st.Commit(t.Context(), store.Change{Entries: []store.Entry{client.Entry()}}); err != nil {
		t.Error(err)
	}
	d.Version, d.ExpiresAt, d.Body = 2, 9, []byte("c")
	if got, err := st.Document(t.Context(), d.Key); err != nil || !got.Equal(d) {
		t.Errorf("an older node has made a document %+v, %v", got, err)
	}
}
