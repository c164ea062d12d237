package sqlite

import "github.com/mintage/mintage/internal/store"

// MovingSQL are the statements that a move makes for a table.
func MovingSQL(t store.Table) []string {
	return []string{`SELECT count(*) FROM ` + t.Name, rowsSQL(t)}
}
