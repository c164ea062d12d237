package postgres

import (
	"github.com/mintage/mintage/internal/store"
)

// PlaceOf is the place of the store that a URL names.
func PlaceOf(url string) (string, error) {
	c, err := settings(Database{URL: url})
	if err != nil {
		return "", err
	}
	return placeOf(c.ConnConfig), nil
}

// MovingSQL are the statements that a move makes for a table.
func MovingSQL(t store.Table) []string {
	return []string{appendSQL(t), rowsSQL(t, false, false), rowsSQL(t, true, false), rowsSQL(t, true, true)}
}
