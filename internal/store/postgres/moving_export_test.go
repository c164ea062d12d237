package postgres

import (
	"github.com/mintage/mintage/internal/store"
)

// PlaceOf returns the place of the store with this URL.
func PlaceOf(url string) (string, error) {
	c, err := settings(Database{URL: url})
	if err != nil {
		return "", err
	}
	return placeOf(c.ConnConfig), nil
}

// MovingSQL returns the statements with which a move reads and writes a table.
func MovingSQL(t store.Table) []string {
	return []string{appendSQL(t), rowsSQL(t, false, false), rowsSQL(t, true, false), rowsSQL(t, true, true)}
}
