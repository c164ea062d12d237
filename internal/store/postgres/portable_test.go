package postgres_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/storetest"
)

// unportable matches SQL that other engines with PostgreSQL's dialect lack, or cannot do
// for a table that is spread over several nodes: keys from a counter on one node,
// constraints across tables, code in the database, explicit locks, and the database's
// clock.
var unportable = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`(SMALL|BIG)?SERIAL\d?`, `SEQUENCE`, `NEXTVAL`, `IDENTITY`, `GENERATED`,
	`FOREIGN\s+KEY`, `REFERENCES`, `CASCADE`,
	`TRIGGER`, `PROCEDURE`, `FUNCTION`, `PLPGSQL`, `CALL`, `LISTEN`, `NOTIFY`, `RULE`,
	`SAVEPOINT`, `RELEASE`, `FOR\s+(NO\s+KEY\s+UPDATE|UPDATE|KEY\s+SHARE|SHARE)`, `SKIP\s+LOCKED`, `NOWAIT`, `LOCK\s+TABLE`, `PG_\w+`, `TRUNCATE`,
	`NOW`, `CURRENT_(TIMESTAMP|DATE|TIME)`, `(CLOCK|STATEMENT|TRANSACTION)_TIMESTAMP`, `RANDOM`, `GEN_RANDOM_UUID`,
	`PARTITION`, `INHERITS`, `TABLESPACE`, `TEMP(ORARY)?`, `UNLOGGED`, `MATERIALIZED`, `COLLATE`, `EXTENSION`, `CTID`, `OID`, `XMIN`, `MERGE`,
	`JSONB?`, `UUID`, `TIMESTAMPTZ?`, `INTEGER`, `INT[248]?`, `NUMERIC`, `DECIMAL`, `REAL`, `DOUBLE`, `VARCHAR`, `CHAR`, `ENUM`, `HSTORE`,
}, "|") + `)\b`)

// column matches the type of a column in a table's definition.
var column = regexp.MustCompile(`(?m)^\s+[a-z_]+\s+([A-Z]+)\s+NOT NULL`)

var types = []string{"BYTEA", "TEXT", "BIGINT", "BOOLEAN", "SMALLINT"}

// defects returns the unportable parts of a statement.
func defects(text string) []string {
	list := unportable.FindAllString(text, -1)
	for _, m := range column.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(types, m[1]) {
			list = append(list, m[1])
		}
	}
	return list
}

func TestTheLintFindsWhatIsNotPortable(t *testing.T) {
	for _, bad := range []string{
		"CREATE TABLE a (id BIGSERIAL PRIMARY KEY)", "CREATE TABLE a (b BIGINT REFERENCES c (d))", "CREATE TABLE a (b BIGINT GENERATED ALWAYS AS IDENTITY)",
		"create table a (b bigint, foreign  key (b) references c (d))", "CREATE TRIGGER a AFTER INSERT ON b EXECUTE FUNCTION c()",
		"SAVEPOINT a", "SELECT now()", "INSERT INTO a VALUES (CURRENT_TIMESTAMP)", "SELECT * FROM a WHERE id = $1 FOR UPDATE",
		"SELECT * FROM a FOR NO KEY UPDATE SKIP LOCKED", "SELECT pg_advisory_xact_lock(1)", "LISTEN a", "NOTIFY a", "CALL a()", "TRUNCATE a",
		"CREATE TABLE a (b TEXT) PARTITION BY HASH (b)", `SELECT * FROM a ORDER BY b COLLATE "C"`, "CREATE TEMP TABLE a (b TEXT)", "SELECT nextval('a')",
		"CREATE TABLE a (\n    b JSONB NOT NULL\n)", "CREATE TABLE a (\n    b TIMESTAMPTZ NOT NULL\n)", "CREATE TABLE a (\n    b FLOAT NOT NULL\n)", "SELECT ctid FROM a",
	} {
		if len(defects(bad)) == 0 {
			t.Errorf("nothing found in %q", bad)
		}
	}
	for _, good := range []string{
		"CREATE TABLE IF NOT EXISTS a (\n    id BYTEA NOT NULL PRIMARY KEY,\n    at BIGINT NOT NULL\n)", "INSERT INTO a (b) VALUES ($1) ON CONFLICT (b) DO NOTHING",
		"UPDATE a SET b = $1 WHERE id = $2 AND version = $3 RETURNING id", "SELECT rotated_at FROM nowhere WHERE id = ANY($1::bytea[])",
	} {
		if list := defects(good); len(list) != 0 {
			t.Errorf("found %v in %q", list, good)
		}
	}
}

func TestSQLIsPortable(t *testing.T) {
	statements := storetest.Statements(t, regexp.MustCompile(`^\s*(?i:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|SET|BEGIN|COMMIT|ROLLBACK|WITH|SAVEPOINT|LOCK|VACUUM|TRUNCATE|LISTEN|CALL)\b`))
	names, texts := steps(t)
	for i, name := range names {
		statements[name] = texts[i]
		if dialect := strings.HasSuffix(name, ".dialect.sql"); dialect != strings.Contains(texts[i], "fillfactor") {
			t.Errorf("%s: .dialect.sql is for steps with a storage parameter, which an engine may refuse, and for no others", name)
		}
	}
	for place, text := range statements {
		if text == postgres.ExamineTableSQL || text == postgres.ExamineServerSQL || text == postgres.BackendSQL {
			continue // about PostgreSQL itself: an engine that refuses it still stores and finds everything
		}
		for _, d := range defects(text) {
			t.Errorf("%s: %q in: %s", place, d, text)
		}
	}
	// The lint must cover at least these statements.
	for _, text := range []string{postgres.SelectGrantsSQL, postgres.InsertGrantsSQL, postgres.UpdateGrantsSQL, postgres.DeleteGrantsSQL,
		postgres.SelectDocumentsSQL, postgres.UpdateDocumentsSQL, postgres.SweepDocumentsSQL} {
		found := false
		for _, s := range statements {
			found = found || s == text
		}
		if !found {
			t.Errorf("the lint does not see %s", text)
		}
	}
	if len(statements) < 35+len(names)/2 {
		t.Errorf("the lint sees %d statements only", len(statements))
	}
}

func TestHotStatementsTouchOneTable(t *testing.T) {
	for _, text := range []string{postgres.SelectGrantsSQL, postgres.InsertGrantsSQL, postgres.UpdateGrantsSQL} {
		touched := regexp.MustCompile(`(?i)\b(?:FROM|INTO|UPDATE|JOIN|USING)\s+(\w+)`).FindAllStringSubmatch(text, -1)
		tables := map[string]bool{}
		for _, m := range touched {
			if m[1] != "unnest" { // the batch itself
				tables[m[1]] = true
			}
		}
		if len(tables) != 1 || !tables["grants"] {
			t.Errorf("%s\ntouches %v", text, tables)
		}
	}
}

func TestNoIndexHoldsAColumnThatARotationChanges(t *testing.T) {
	t.Parallel()
	name, url := server.Schema(t)
	open(t, url)
	set, _, _ := strings.Cut(postgres.UpdateGrantsSQL, "FROM")
	var changed []string
	for _, m := range regexp.MustCompile(`(\w+) = u\.`).FindAllStringSubmatch(set, -1) {
		changed = append(changed, m[1])
	}
	if !slices.Contains(changed, "generation") || !slices.Contains(changed, "attempt") || len(changed) != 10 {
		t.Fatalf("the update changes %v", changed)
	}
	indexed := strings.Fields(server.Run(t, "postgres", fmt.Sprintf(`SELECT a.attname FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indexrelid
		WHERE i.indrelid = '%s.grants'::regclass`, name)))
	for _, c := range indexed {
		if slices.Contains(changed, c) {
			t.Errorf("an index holds %s, which every rotation changes", c)
		}
	}
	if slices.Sort(indexed); !slices.Equal(indexed, []string{"client", "id", "id", "id", "subject"}) {
		t.Errorf("indexed: %v", indexed)
	}
	// The columns of a partial index's predicate count as indexed, so their updates are
	// never HOT.
	if n := server.Run(t, "postgres", fmt.Sprintf(`SELECT count(*) FROM pg_index WHERE indrelid = '%s.grants'::regclass AND (indpred IS NOT NULL OR indexprs IS NOT NULL)`, name)); n != "0" {
		t.Errorf("%s indexes of grants are partial, or over expressions", n)
	}
}
