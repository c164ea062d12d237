package sqlite

import "github.com/mintage/mintage/internal/store"

// MovingSQL returns the statements with which a move reads a table.
func MovingSQL(t store.Table) []string {
	return []string{`SELECT count(*) FROM ` + t.Name, rowsSQL(t)}
}
