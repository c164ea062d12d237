package sqlite_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
)

// unportable matches SQL that the engines of a second store would lack, or cannot do for a
// table that is spread over several nodes: keys from a counter on one node, constraints
// across tables, code in the database, explicit locks, and the database's clock.
var unportable = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`AUTOINCREMENT`, `SERIAL`, `SEQUENCE`, `NEXTVAL`, `LAST_INSERT_ROWID`, `IDENTITY`,
	`FOREIGN\s+KEY`, `REFERENCES`, `CASCADE`,
	`TRIGGER`, `PROCEDURE`, `FUNCTION`, `LISTEN`, `NOTIFY`,
	`SAVEPOINT`, `RELEASE`, `FOR\s+(UPDATE|SHARE)`, `LOCK\s+TABLE`,
	`NOW\s*\(`, `CURRENT_(TIMESTAMP|DATE|TIME)`, `(DATE|TIME|DATETIME|JULIANDAY|UNIXEPOCH|STRFTIME|RANDOM|RANDOMBLOB)\s*\(`,
	`INSERT\s+OR`, `REPLACE\s+INTO`, `UPDATE\s+OR`, `(?:OID|_ROWID_)`, `GLOB`, `INDEXED\s+BY`, `JSON_\w+\s*\(`,
}, "|") + `)`)

// defects returns the unportable parts of a statement.
func defects(text string) []string {
	// WITHOUT ROWID means that a table has no hidden row numbers, so it is not a use of
	// them.
	text = regexp.MustCompile(`(?i)WITHOUT\s+ROWID`).ReplaceAllString(text, "")
	list := unportable.FindAllString(text, -1)
	return append(list, regexp.MustCompile(`(?i)\bROWID\b`).FindAllString(text, -1)...)
}

func TestTheLintFindsWhatIsNotPortable(t *testing.T) {
	for _, bad := range []string{
		"CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT)", "CREATE TABLE a (b INTEGER REFERENCES c (d))",
		"create table a (b integer, foreign  key (b) references c (d))", "CREATE TRIGGER a AFTER INSERT ON b BEGIN SELECT 1; END",
		"SAVEPOINT a", "SELECT now()", "INSERT INTO a VALUES (CURRENT_TIMESTAMP)", "SELECT * FROM a WHERE id = ? FOR UPDATE",
		"UPDATE a SET b = strftime('%s')", "INSERT OR REPLACE INTO a VALUES (1)", "SELECT rowid FROM a", "SELECT unixepoch()",
	} {
		if len(defects(bad)) == 0 {
			t.Errorf("nothing found in %q", bad)
		}
	}
	for _, good := range []string{
		"CREATE TABLE a (id BLOB NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID", "INSERT INTO a (b) VALUES (?) ON CONFLICT (b) DO NOTHING",
		"UPDATE a SET b = ? WHERE id = ? AND version = ?", "SELECT rotated_at FROM nowhere",
	} {
		if list := defects(good); len(list) != 0 {
			t.Errorf("found %v in %q", list, good)
		}
	}
}

func TestSQLIsPortable(t *testing.T) {
	statements := sqlTexts(t)
	for place, text := range statements {
		for _, d := range defects(text) {
			t.Errorf("%s: %q in: %s", place, d, text)
		}
	}
	// The lint must cover at least these statements.
	for _, text := range []string{sqlite.SelectGrantSQL, sqlite.InsertGrantSQL, sqlite.UpdateGrantSQL, sqlite.DeleteGrantSQL,
		sqlite.SelectDocumentSQL, sqlite.UpdateDocumentSQL, sqlite.SweepDocumentSQL} {
		found := false
		for _, s := range statements {
			found = found || s == text
		}
		if !found {
			t.Errorf("the lint does not see %s", text)
		}
	}
	if len(statements) < 20 {
		t.Errorf("the lint sees %d statements only", len(statements))
	}
}

// sqlTexts returns every statement in the package's files and migrations, by its place.
func sqlTexts(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	migrations, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range migrations {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = regexp.MustCompile(`--.*`).ReplaceAllString(string(b), "")
	}
	maps.Copy(texts, storetest.Statements(t, regexp.MustCompile(`^\s*(?i:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|BEGIN|COMMIT|ROLLBACK|REPLACE|WITH|SAVEPOINT|RELEASE|VACUUM)\b`)))
	return texts
}

func TestHotStatementsTouchOneTableByItsPrimaryKey(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	for text, want := range map[string][]string{
		sqlite.SelectGrantSQL: {"SEARCH grants USING INTEGER PRIMARY KEY (rowid=?)"},
		sqlite.UpdateGrantSQL: {"SEARCH grants USING INTEGER PRIMARY KEY (rowid=?)"},
		sqlite.DeleteGrantSQL: {"SEARCH grants USING INTEGER PRIMARY KEY (rowid=?)"},
		sqlite.InsertGrantSQL: nil, // an insert searches for nothing
		// These are not hot, but must never scan the whole table.
		sqlite.WalkGrantsSQL:  {"SEARCH grants USING INTEGER PRIMARY KEY (rowid>?)"},
		sqlite.ListSubjectSQL: {"SEARCH grants USING INDEX grants_by_subject (subject=? AND rowid>?)"},
		sqlite.ListClientSQL:  {"SEARCH grants USING INDEX grants_by_client (client=? AND rowid>?)"},
	} {
		if got := plan(t, dir, text); !slices.Equal(got, want) {
			t.Errorf("%s\nplan %q, want %q", text, got, want)
		}
		if tables := regexp.MustCompile(`(?i)\b(FROM|INTO|UPDATE|JOIN)\s+(\w+)`).FindAllStringSubmatch(text, -1); len(tables) != 1 || tables[0][2] != "grants" {
			t.Errorf("%s\ntouches %v", text, tables)
		}
	}
}

func TestDocumentsAreFoundByTheirKeys(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	const byKey = "SEARCH documents USING INDEX sqlite_autoindex_documents_1 "
	for text, want := range map[string][]string{
		sqlite.SelectDocumentSQL: {byKey + "(id=?)"},
		sqlite.UpdateDocumentSQL: {byKey + "(id=?)"},
		sqlite.DeleteDocumentSQL: {byKey + "(id=?)"},
		sqlite.SweepDocumentSQL:  {byKey + "(id=?)"},
		sqlite.WalkDocumentsSQL:  {byKey + "(id>?)"},
		sqlite.ListDocumentsSQL:  {"SEARCH documents USING INDEX documents_by_kind (kind=? AND id>?)"},
		sqlite.ListOwnerSQL:      {"SEARCH documents USING INDEX documents_by_owner (owner=? AND id>?)"},
		sqlite.InsertDocumentSQL: nil, // an insert searches for nothing
		store.TallyUsersSQL:      {"SEARCH documents USING COVERING INDEX documents_of_users (kind=?)"},
	} {
		if got := plan(t, dir, text); !slices.Equal(got, want) {
			t.Errorf("%s\nplan %q, want %q", text, got, want)
		}
	}
}

func plan(t *testing.T, dir, text string) (lines []string) {
	t.Helper()
	args := make([]any, strings.Count(text, "?"))
	rows, err := raw(t, dir).Query("EXPLAIN QUERY PLAN "+text, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var line string
		if err := rows.Scan(&id, &parent, &unused, &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestNoIndexHoldsAColumnThatARotationChanges(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	set, _, _ := strings.Cut(sqlite.UpdateGrantSQL, "WHERE")
	var changed []string
	for _, m := range regexp.MustCompile(`(\w+) = \?`).FindAllStringSubmatch(set, -1) {
		changed = append(changed, m[1])
	}
	if !slices.Contains(changed, "generation") || !slices.Contains(changed, "attempt") || len(changed) != 10 {
		t.Fatalf("the update changes %v", changed)
	}
	rows, err := raw(t, dir).Query(`SELECT l.name, i.name FROM pragma_index_list('grants') AS l, pragma_index_info(l.name) AS i`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	indexed := 0
	for rows.Next() {
		var index, column string
		if err := rows.Scan(&index, &column); err != nil {
			t.Fatal(err)
		}
		indexed++
		if slices.Contains(changed, column) {
			t.Errorf("index %s holds %s, which every rotation changes", index, column)
		}
	}
	if err := rows.Err(); err != nil || indexed < 1 {
		t.Errorf("%d columns in indexes seen, %v", indexed, err)
	}
	// The check above sees only the columns that an index stores. A rotation could also
	// change a predicate or an expression: no index of grants may have one.
	if n := number(t, raw(t, dir), `SELECT count(*) FROM pragma_index_list('grants') AS l WHERE l.partial OR EXISTS (SELECT 1 FROM pragma_index_info(l.name) AS i WHERE i.cid = -2)`); n != 0 {
		t.Errorf("%d indexes of grants are partial, or over expressions", n)
	}
}
