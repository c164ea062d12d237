package postgres_test

import (
	"flag"
	"os"
	"testing"

	"github.com/mintage/mintage/internal/store/postgres/pgtest"
)

// server is shared by all tests of the package. Each uses a database or a schema of its
// own.
var server *pgtest.Server

func TestMain(m *testing.M) {
	flag.Parse()
	settings := []string{"shared_preload_libraries=pg_stat_statements"}
	if flag.Lookup("test.bench").Value.String() == "" {
		// Crash tests start servers of their own. No test here loses power, so fsync is
		// not needed.
		settings = append(settings, "fsync=off")
	}
	os.Exit(pgtest.Main(m, &server, settings...))
}
