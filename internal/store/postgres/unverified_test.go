package postgres

import (
	"slices"
	"testing"
)

func TestHostsThatAreNotVerifiedAreListed(t *testing.T) {
	for url, want := range map[string][]string{
		"postgres://u@db.example:5432/d":                             {"db.example:5432"},
		"postgres://u@db.example:5432/d?sslmode=disable":             {"db.example:5432"},
		"postgres://u@db.example:5432/d?sslmode=require":             {"db.example:5432"},
		"postgres://u@db.example:5432/d?sslmode=verify-full":         nil,
		"postgres://u@db.example:5432/d?sslmode=verify-ca":           nil,
		"postgres://u@one:1,127.0.0.1:2,two:3/d":                     {"one:1", "two:3"},
		"postgres://u@localhost:5432/d":                              nil,
		"postgres://u@10.0.0.1:5432/d":                               {"10.0.0.1:5432"},
		"postgres://u@[::1]:5432/d?sslmode=disable":                  nil,
		"postgres://u@/d?host=/run/postgresql":                       nil,
		"postgres://u@db.example:5432/d?sslmode=prefer&sslrootcert=": {"db.example:5432"},
	} {
		got, err := Unverified(Database{URL: url})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", url, got, err, want)
		}
	}
}
