package postgres_test

import (
	"flag"
	"os"
	"testing"

	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

// server serves all tests of the package, each in a database of its own.
var server *pgtest.Server

func TestMain(m *testing.M) {
	flag.Parse()
	settings := []string{"shared_preload_libraries=pg_stat_statements"}
	if flag.Lookup("test.bench").Value.String() == "" {
		// Tests of what survives a crash have servers of their own, and the power
		// stays on.
		settings = append(settings, "fsync=off")
	}
	os.Exit(pgtest.Main(m, &server, settings...))
}
