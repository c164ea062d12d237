//go:build e2e

package nodes

import (
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/e2e/binary"
)

// TestAnEmptiedDatabaseIsNotFilledAnew starts a node that has a key-encryption key on a
// database without tables or without rows. The node refuses to start.
func TestAnEmptiedDatabaseIsNotFilledAnew(t *testing.T) {
	t.Parallel()
	schema, url := database.Schema(t)
	s := binary.Start(t, t.TempDir(), "--store", url)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	tables := strings.Fields(database.Run(t, "postgres", `SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables WHERE schemaname = '`+schema+`'`))
	for _, emptied := range []string{"TRUNCATE " + strings.Join(tables, ", "), "DROP TABLE " + strings.Join(tables, ", ")} {
		database.Run(t, "postgres", emptied)
		text := binary.StartRefused(t, s.Dir, "--store", url)
		for _, phrase := range []string{"refuse to make a new store: there is none in this database", "a key-encryption key", "an audit log", "--new-store"} {
			if !strings.Contains(text, phrase) {
				t.Errorf("after %.8s: the refusal does not say %q:\n%s", emptied, phrase, text)
			}
		}
		if n := database.Run(t, "postgres", `SELECT count(*) FROM pg_tables WHERE schemaname = '`+schema+`' AND tablename = 'keys'`); strings.HasPrefix(emptied, "DROP") && n != "0" {
			t.Error("tables were made")
		}
	}
	again := binary.Start(t, s.Dir, "--store", url, "--new-store")
	if again.ClientID == "" {
		t.Error("there is no demo client in the new store")
	}
}
